"""No format for readers has control characters, nor those that change the direction of text."""

from dataclasses import replace

from benchrun.show.formats import formatted
from benchrun.show.junit import junit
from benchrun.show.model import ReportModel
from benchrun.show.readable import readable
from benchrun.show.runs import identified
from benchrun.show.table import visible

WRONG = "\x1b\x07\u061c\u200e\u200f\u202a\u202e\u2066\u2069"


def test_letters_lines_and_tabs_stay() -> None:
    assert visible(f"a{WRONG}b\t\n\u00a0\u00fc\u05d0\u3042") == "ab\t\n\u00a0\u00fc\u05d0\u3042"


def test_no_format_has_them(two: ReportModel) -> None:
    results = tuple(
        replace(each, run_id=f"{WRONG}{each.run_id}", spec=each.spec.model_copy(update={"recipe": f"a{WRONG}b"}))
        for each in two.results
    )
    model = replace(two, results=results, points=identified(results), readable=readable(results))
    for text in (junit(results), formatted(model, "csv"), formatted(model, "html"), formatted(model, "terminal")):
        assert not set(WRONG) & set(text)
