"""The transcripts of the tutorials are what the commands print.

``pytest -m "" tests/docs/test_tutorials.py tests/slurm/test_9_tutorials.py --update-transcripts`` writes the
outputs that differ anew; the change is then reviewed as a diff.
"""

from pathlib import Path
from typing import Any

import pytest
from selection import some

from tests.docs.transcripts import ROOT, Call, Names, Shell, agree, calls, check, differences, renewed

PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if calls(page.read_text())]
ON_SLURM = {"site-administrator.md"}
"""Pages of a cluster: tests/slurm runs them."""
TRAINING = {"acceptance.md", "performance.md"}
"""Pages whose commands train for minutes."""
HERE = [page for page in PAGES if page.name not in ON_SLURM | TRAINING]
LONG = [page for page in PAGES if page.name in TRAINING]


@pytest.mark.train
@pytest.mark.parametrize("page", [*HERE, *some(LONG, 0)], ids=lambda page: page.name)
def test_the_commands_print_what_the_page_shows(page: Path, tmp_path: Path, request: Any) -> None:
    shell = Shell(tmp_path, SLURM_CONF="/dev/null")
    check(page, shell, update=request.config.getoption("--update-transcripts"))


def shown(*lines: str, measured: bool = False) -> Call:
    return Call("benchrun", lines, measured, (0, 0))


RUN = "tiny-llama-7e167111-20260101T000000Z-0000"
NEW = "tiny-llama-7e167111-20270202T020202Z-abcd"


@pytest.mark.parametrize(
    ("call", "output", "same"),
    [
        (shown("a 1.5"), ["a 1.5"], True),
        (shown("a 1.5"), ["a 1.6"], False),
        (shown("a  1.5 s  ##"), ["a 17.25 s ####"], False),
        (shown("a  1.5 s  ##", measured=True), ["a 17.25 s  ####"], True),
        (shown("a 1.5 s", measured=True), ["b 1.5 s"], False),
        (shown("a", "...", "z"), ["a", "b", "c", "z"], True),
        (shown("a", "...", "z"), ["a", "z"], True),
        (shown("a", "...", "z"), ["a", "z", "y"], False),
        (shown("a", "z"), ["a"], False),
        (shown("a", "...", "m", "...", "z"), ["a", "b", "m", "z"], True),
        (shown("a", "...", "m", "...", "z"), ["a", "b", "z"], False),
        (shown("a long ..."), ["a long line"], True),
        (shown(f"sha256 {'0' * 64}"), [f"sha256 {'ab' * 32}"], True),
        (shown("at 2026-01-01T00:00:00"), ["at 2027-02-02T02:02:02"], True),
        (shown(f"{RUN}  ended"), [f"{NEW}  ended"], True),
        (shown(f"{RUN}  ended"), [f"{NEW.replace('7e', '8e')}  ended"], False),
        (shown(RUN, RUN), [NEW, NEW.replace("abcd", "abce")], False),
    ],
)
def test_an_output_that_drifted_is_another(call: Call, output: list[str], same: bool) -> None:
    assert agree(call, output, Names()) == same


def test_a_page_is_renewed_where_it_is_wrong_and_keeps_its_form(tmp_path: Path) -> None:
    text = "Text.\n\n```console\n$ printf '1\\n2\\n3\\n'\n1\n...\n4\n$ (exit 4)\n$ echo $?\n4\n```\n"
    shell = Shell(tmp_path)
    try:
        wrong, right = differences(text, shell)
    finally:
        shell.close()
    assert (len(wrong), right) == (1, text.replace("...\n4\n", "...\n3\n"))


def test_new_runs_keep_the_ids_of_the_document(tmp_path: Path) -> None:
    text = f"```console\n$ echo {NEW}\n{RUN}\n$ echo {RUN} | sed s/tiny/small/\n{RUN.replace('tiny', 'small')}\n```\n"
    shell = Shell(tmp_path)
    try:
        assert differences(text, shell) == ([], text)
    finally:
        shell.close()


def test_a_long_line_stays_cut() -> None:
    assert renewed(shown("one two ...", "x"), ["one too many", "y"]) == ["one too ...", "y"]
