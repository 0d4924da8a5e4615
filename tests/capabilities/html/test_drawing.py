"""Drawn plots: every value and name is in the picture, inside its frame, in the reader's colours."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchrun.capabilities.html.page import page
from benchrun.capabilities.html.picture import inline_svg, save, svg_file
from benchrun.errors import UserError
from benchrun.show.model import report_model
from benchrun.show.plot import Mark, Plot, Series, thinned
from benchrun.show.section import Section
from benchrun.show.table import Table

pytest.importorskip("matplotlib")
TABLE = Table(("x",), [[1]])
LABEL = "llama3.1-405b (proxy: num_layers 1 of 126, vocab_size 16032 of 128256), fp8, 1 x H100, megatron-bridge"
LINE = Plot("line", "t", (Series("a", (5.0, 1.0, 1.1), (1.0, 2.0, 3.0)),), TABLE, "step", "step time (s)")
PLOTS = {
    "line": LINE,
    "dashed": Plot("line", "t", (Series("a", (1.0, 2.0), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5), "dashed"),), TABLE),
    "marked": Plot(
        "line", "t", (Series("a", (5.0, 1.0), (1.0, 2.0)),), TABLE, marks=(Mark(2.0, 1.0, "stall"),), shade=(1.0, 1.5)
    ),
    "scaling": Plot("line", "t", (Series("a", (9.0, 8.0, 7.0), (1.0, 2.0, 4.0)),), TABLE, "GPUs", log_x=True),
    "bars": Plot(
        "bars", "t", (Series("a", (1.0, 0.97)), Series("b", (float("nan"), 2.0))), TABLE, labels=(LABEL, "y"), level=1.0
    ),
    "stack": Plot("stack", "t", (Series("a", (0.25,)), Series("b", (0.75,))), TABLE, y_title="s"),
    "waterfall": Plot(
        "waterfall", "t", (Series("", (2.0, 1.0, -0.5), (0.0, 1.0, 1.0)),), TABLE, y_title="s", labels=("w", "x", "y")
    ),
}
TEXTS = {
    "line": {"step", "step time (s)", "1", "2", "3"},
    "marked": {"stall"},
    "bars": {"1 a", "0.97 a", "2 b", "a", "b", "y"},
    "stack": {"a: 0.25 s, 25.0 %", "b: 0.75 s, 75.0 %"},
    "waterfall": {"w: 2 s, 80.0 %", "x: 1 s, 40.0 %", "y: -0.5 s, -20.0 %", "the measured step: 2.5 s, 100.0 %"},
    "scaling": {"1", "2", "4", "GPUs"},
}


def texts(drawn: str) -> list[str]:
    """Every text of a picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


@pytest.mark.parametrize("name", TEXTS)
def test_values_and_names_are_text(name: str) -> None:
    assert TEXTS[name] <= set(texts(inline_svg(PLOTS[name], "i")))


@pytest.mark.parametrize("name", PLOTS)
def test_everything_lies_inside_the_frame(name: str) -> None:
    drawn = inline_svg(PLOTS[name], "i")
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn).groups())
    for path in re.findall(r' d="([^"]+)"', re.sub("<defs>.*?</defs>", "", drawn)):
        numbers = [float(value) for value in re.findall(r"-?[\d.]+", path)]
        assert all(-1 <= x <= width + 1 for x in numbers[::2]), path
        assert all(-1 <= y <= height + 1 for y in numbers[1::2]), path


@pytest.mark.parametrize("name", PLOTS)
def test_a_picture_follows_the_colour_scheme_and_names_itself_once(name: str) -> None:
    drawn = inline_svg(PLOTS[name], "i")
    assert "var(--" in drawn and not re.search("#[0-9a-f]{6}", drawn)
    ids = re.findall(r' id="([^"]+)"', drawn)
    assert ids[:2] == ["i", "id"] and len(ids) == len(set(ids))
    assert all(each.startswith("i") for each in ids)
    assert set(re.findall(r'href="#([^"]+)"', drawn)) <= set(ids)
    assert ElementTree.fromstring(svg_file("t", [PLOTS[name]], 1)).tag.endswith("svg")


def test_the_same_plot_is_the_same_picture() -> None:
    assert inline_svg(LINE, "i") == inline_svg(LINE, "i")


def test_a_long_label_is_wrapped_and_keeps_every_letter() -> None:
    lines = texts(inline_svg(PLOTS["bars"], "i"))
    assert max(map(len, lines)) <= 50
    assert LABEL.replace(" ", "") in "".join(lines).replace(" ", "")


def test_a_name_is_never_read_as_mathematics() -> None:
    plot = Plot("bars", "t", (Series("", (1.0,)),), TABLE, labels=("env A=$HOME B=$USER <b>",))
    assert "env A=$HOME B=$USER &lt;b&gt;" in texts(inline_svg(plot, "i"))


def test_a_step_beyond_the_axis_has_a_mark_and_its_value() -> None:
    times = (60.0, 1.0, 1.01, 9.7, 1.0, 0.99)
    series = (Series("a", times, tuple(map(float, range(6)))),)
    drawn = inline_svg(Plot("line", "t", series, TABLE, limits=(0.99, 1.01)), "i")
    (triangles,) = re.findall(r'<g class="beyond">(.*?)</g>', drawn)
    assert triangles.count("<use") == 2
    assert "60" in texts(drawn)


def test_a_series_without_a_bar_has_its_name_in_the_legend() -> None:
    nothing = Series("b", (float("nan"),))
    drawn = texts(inline_svg(Plot("bars", "t", (Series("a", (1.0,)), nothing), TABLE, labels=("x",)), "i"))
    assert "b" in drawn and not [text for text in drawn if text.endswith(" b")]


def test_thinning_keeps_ends_and_extremes() -> None:
    y = [1.0] * 10_000
    y[4321] = 9.0
    xs, ys = thinned(range(10_000), y, most=50)
    assert len(xs) <= 100
    assert (4321, 9.0) in zip(xs, ys, strict=True)
    assert list(xs) == sorted(xs)


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x.pdf"])
def test_a_file_has_the_format_of_its_name(tmp_path: Path, name: str) -> None:
    save([LINE, PLOTS["bars"]], tmp_path / name)
    begin = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[name[2:]]
    assert (tmp_path / name).read_bytes().startswith(begin)


def test_an_unknown_format_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        save([LINE], tmp_path / "x.nonsense")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_a_page_has_its_tables_and_a_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = page(report_model([]), added=[Section("s", "Section", "", (LINE,))])
    assert "<svg" not in text and "<td" in text and ".[plot]" in text
    with pytest.raises(UserError) as error:
        save([LINE], tmp_path / "x.png")
    assert ".[plot]" in (error.value.hint or "")
