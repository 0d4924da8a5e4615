"""Draws docs/images/measured.svg: measured tokens/s/GPU beside the published number, as horizontal bars.

``docs/generate.py`` writes it with the other generated pages.
"""

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from benchrun.report.published import Pair

WIDTH, TOP, ROW, BAR = 820, 64, 48, 16
LEFT, LONGEST = 206, 310
"""Where the bars begin, and the length of the longest one."""
STYLE = """
text, tspan { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.strong { font-weight: 600 }
.small { font-size: 11px; fill: #59636e }
.page { fill: #ffffff } .ours { fill: #1f6feb } .published { fill: #a5afba }
@media (prefers-color-scheme: dark) {
text, tspan { fill: #e6edf3 }
.small { fill: #9da7b3 }
.page { fill: #0d1117 } .ours { fill: #4493f8 } .published { fill: #6e7781 }
}
"""
TITLE = "Tokens per second and GPU, measured and published"
SUBTITLE = "Same model, precision, sequence length and batch per GPU. GPUs and framework as labelled."


def sides(pair: Pair) -> tuple[str, str]:
    """GPUs and framework of the measured and of the published number."""
    return f"{pair.spec.num_gpus} x {pair.spec.gpu}, {pair.spec.framework}", pair.published_on


def workload(pair: Pair) -> str:
    """Recipe and precision."""
    return f"{pair.spec.recipe}, {pair.spec.precision}"


def sentence(pair: Pair) -> str:
    """Both numbers in words."""
    here, there = sides(pair)
    ours, published = f"{pair.measured:,.0f} on {here}", f"{pair.near.published:,.0f} on {there}"
    return f"{workload(pair)}: measured {ours}, published {published}, ratio {pair.ratio:.2f}."


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text that begins, or with ``anchor="end"`` ends, at ``x``."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def bars(pair: Pair, y: float, scale: float) -> Iterable[str]:
    """The row of one pair: its name, two bars with their numbers, and the ratio."""
    here, there = sides(pair)
    yield text(LEFT - 10, y + 21, workload(pair), "strong", "end")
    numbers = (("ours", pair.measured, here), ("published", pair.near.published, f"{there}, {pair.source}"))
    for number, (kind, value, note) in enumerate(numbers):
        top, length = y + number * (BAR + 1), value * scale
        yield f'<rect x="{LEFT}" y="{top:.0f}" width="{length:.1f}" height="{BAR}" class="{kind}"/>'
        label = f'<tspan class="strong">{value:,.0f}</tspan><tspan dx="6" class="small">{escape(note)}</tspan>'
        yield f'<text x="{LEFT + length + 6:.1f}" y="{top + 13:.0f}">{label}</text>'
    yield text(WIDTH - 16, y + 21, f"{pair.ratio:.2f} x", "strong", "end")


def chart(rows: Sequence[Pair]) -> str:
    """The picture as SVG, with a title and a description for readers who do not see it."""
    height = TOP + ROW * len(rows) + 36
    scale = LONGEST / max(max(pair.measured, pair.near.published) for pair in rows)
    drawn = [line for number, pair in enumerate(rows) for line in bars(pair, TOP + ROW * number, scale)]
    below = height - 18
    legend = (
        f'<rect x="{LEFT}" y="{below - 10}" width="12" height="12" class="ours"/>',
        text(LEFT + 18, below, "measured by benchrun", "small"),
        f'<rect x="{LEFT + 170}" y="{below - 10}" width="12" height="12" class="published"/>',
        text(LEFT + 188, below, "published", "small"),
        text(WIDTH - 16, below, "measured / published", "small", "end"),
    )
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">',
        f'<title id="t">{TITLE}</title>',
        f'<desc id="d">{escape(" ".join(sentence(pair) for pair in rows))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" class="page"/>',
        text(16, 28, TITLE, "title"),
        text(16, 47, SUBTITLE, "small"),
        *drawn,
        *legend,
        "</svg>",
    )
    return "\n".join(lines) + "\n"
