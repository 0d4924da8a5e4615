"""What a log shows went wrong, in any framework: fixed words of the programs that print them."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from benchrun.parse.records import Problem

MOST = 50
"""The most problems of one kind that are recorded: a thousand ranks die of one cause."""
IGNORED = "Exception ignored "
"""Python's words before a traceback that ends nothing, as of a destructor at interpreter shutdown."""


class _Sign(NamedTuple):
    problem: str
    words: str
    only_with: re.Pattern[str]
    """The words mean a problem only on a line that matches this."""


def _signs() -> list[_Sign]:
    with (Path(__file__).parent / "problems.csv").open(newline="", encoding="utf-8") as file:
        return [_Sign(row["problem"], row["words"], re.compile(row["only_with"])) for row in csv.DictReader(file)]


_SIGNS = _signs()
"""The first that fits a line counts."""
NEEDLES = tuple(words.encode() for words in (*(sign.words for sign in _SIGNS), IGNORED))
_HOST = re.compile(
    r"srun: error: (?P<srun>[\w.-]{1,255}): tasks? |slurmstepd-(?P<stepd>[\w.-]{1,255}):"
    r"| ON (?P<on>[\w.-]{1,255}) CANCELLED|^(?P<pdsh>[A-Za-z][\w.-]{0,254}\d): "
    r"|(?<![\w.-])(?P<nccl>[\w.-]{1,255}):\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL"
)
_RANK = re.compile(
    r"\[(?:rank|Rank |default)(\d{1,7})\]|\b[Rr]ank[ :=]+(\d{1,7})\b|: tasks? (\d{1,7})[:,-]|^\s*(\d{1,7}): "
)


def rank_of(text: str) -> int | None:
    """The rank that printed a line; None where the line has none."""
    match = _RANK.search(text)
    return int(match[match.lastindex or 0]) if match else None


def recognise(text: str, line: int) -> Problem | None:
    """The problem that ``text`` reports, if any, with host and rank where the line names them."""
    for sign in _SIGNS:
        if sign.words in text and sign.only_with.search(text):
            match = _HOST.search(text)
            host = match[match.lastgroup or 0] if match else None
            return Problem(sign.problem, line, " ".join(text.split())[:240], host=host, rank=rank_of(text))
    return None
