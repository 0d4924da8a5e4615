"""Drawn plots as files of any format, and as SVG for a page or for the documents."""

import io
import re
import warnings
from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path

from benchrun.errors import UserError
from benchrun.files import check_new, write_new
from benchrun.show.plot import Plot

from .draw import STYLE, draw
from .style import DRAWN, LIGHT, SCHEMES

INSTALL = "pip install '.[plot]'"
SLIM = (
    r"(?s)^.*?<svg.*?>|</svg>\s*$|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->",
    r"(?s)<clipPath.*?</clipPath>",
    r"(?<=>)\s+|\s+(?=<)",
    r"<g/>|<defs></defs>|<defs/>",
)
"""Parts of matplotlib's SVG that a page does without."""
SLIM_TAG = (
    (r' clip-path="[^"]*"| transform="rotate\(-0 [^"]*"|stroke-linecap: [a-z]+;? ?', ""),
    (r"font(-size|-family)?: [^;\"]*;? ?", ""),
    (r'^<g id="(shade|level|beyond)"', r'<g class="\1"'),
    (r'^<g id="[^"]*"', "<g"),
    (r"(\d\.\d)\d+", r"\1"),
    (rf"text-anchor: start;? ?|fill: {LIGHT['ink']};? ?", ""),
    (r"stroke-(linejoin: [a-z]+|dashoffset: 0);? ?", ""),
    (r' style=""|; ?(?=")', ""),
    (r"\s+", " "),
)
"""Parts of a tag that the style sheet states or nobody sees, and their replacement."""


def drawable() -> bool:
    """Whether matplotlib (the ``plot`` extra) is installed."""
    return find_spec("matplotlib") is not None


def save(plots: Sequence[Plot], path: Path) -> None:
    """Write the plots below each other to a new file, in the format that its name ends
    in.

    UserError if matplotlib is not installed or the file cannot be written.
    """
    check_new(path)
    try:
        drawn = _drawn(plots, path.suffix[1:] or "png", titled=True)
    except ValueError as error:
        raise UserError(f"the plot cannot be written: {error}", where=path) from error
    write_new(path, drawn)


def _drawn(plots: Sequence[Plot], form: str, columns: int = 1, *, titled: bool) -> bytes:
    """The plots in one picture."""
    if not drawable():
        raise UserError("matplotlib is not installed", hint=INSTALL)
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a letter that the font for measuring text lacks
        figure = draw(plots, columns, titled=titled)
        figure.savefig(content, dpi=72 if form == "svg" else 200, format=form)
    return content.getvalue()


def inline_svg(plot: Plot, identity: str) -> str:
    """One plot for a page, in the colours of its style sheet; ``identity`` makes its
    ids unique.
    """
    return _svg([plot], identity, plot.title, plot.description, titled=False)


def svg_file(title: str, plots: Sequence[Plot], columns: int, description: str = "") -> str:
    """Plots in columns as one SVG that follows the reader's colour scheme."""
    described = description or "; ".join(f"{plot.title}: {plot.description}" for plot in plots)
    return _svg(plots, "p", title, described, columns, titled=True) + "\n"


def _svg(
    plots: Sequence[Plot],
    identity: str,
    title: str,
    description: str,
    columns: int = 1,
    *,
    titled: bool,
) -> str:
    drawn = _drawn(plots, "svg", columns, titled=titled).decode()
    size = re.search(r'viewBox="0 0 (\S+) [^"]*"', drawn)
    drawn = re.sub("<[^>]*>", _slim_tag, drawn)
    for pattern in SLIM:
        drawn = re.sub(pattern, "", drawn)
    drawn = re.sub(r"<g>(<(?:path [^>]*/>|text [^>]*>[^<]*</text>))</g>", r"\1", drawn)
    for name in DRAWN:
        drawn = drawn.replace(LIGHT[name], f"var(--{name})")
    drawn = re.sub(r'(id="|href="#)(?=m\w{10}")', rf"\1{identity}", drawn)
    names = f'role="img" aria-labelledby="{identity}" aria-describedby="{identity}d"'
    head = f'<title id="{identity}">{escape(title)}</title>'
    head += f'<desc id="{identity}d">{escape(description)}</desc>'
    assert size is not None
    spaces = ""
    if titled:
        spaces = f'width="{size[1]}" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        head += f"<style>{SCHEMES}</style>"
    return f"<svg {spaces}{size[0]} {names}>{head}{drawn}</svg>"


def _slim_tag(tag: re.Match[str]) -> str:
    text = tag[0]
    for pattern, replacement in SLIM_TAG:
        text = re.sub(pattern, replacement, text)
    return text
