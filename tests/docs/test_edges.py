"""The pages that say where a rule lives name files and tests that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("development/edges.md", "explanation/trust.md")
CODE = re.compile(r"`([\w./-]+(?:\.(?:py|csv|sh|j2|yaml)|(?<=\w)/[\w/-]+))(?:::(\w+))?`")
PLACES = ("", "benchrun", "tests")
LINES = {
    *(f"A{number}" for number in range(1, 29)),
    *(f"F{number}" for number in range(1, 8)),
    *(f"G{number}" for number in range(1, 19)),
}
"""Numbers of the list of defects."""


def named() -> list[tuple[str, str, str]]:
    """Page, path and test of each name of a file."""
    pages = {page: (ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES}
    return [(page, *found) for page, text in pages.items() for found in CODE.findall(text)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_files_and_tests_that_there_are(page: str) -> None:
    places = [(path, test) for where, path, test in named() if where == page]
    assert len(places) > 10
    for path, test in places:
        found = [ROOT / place / path for place in PLACES if (ROOT / place / path).exists()]
        assert found, path
        if test:
            assert f"def {test}(" in found[0].read_text(encoding="utf-8"), f"{path}::{test}"


def test_every_line_has_a_row_with_a_test() -> None:
    rows = [line.split(" | ") for line in (ROOT / "docs" / PAGES[0]).read_text(encoding="utf-8").splitlines()]
    tested = {cells[0].strip("| ") for cells in rows if len(cells) == 4 and "test_" in cells[3]}
    assert tested >= LINES
