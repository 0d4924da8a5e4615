"""What a dialect is: one framework's way of printing its steps, and the small grammar that all of them share."""

from __future__ import annotations

import re
from typing import ClassVar

from benchrun.parse.lines import Line
from benchrun.parse.records import Facts, Rows

LARGEST = 10**15
"""A larger number of steps, samples or tokens is no count of anything, and no time or rate either."""
LARGEST_BATCH = (1 << 31) - 1
FEW = (1 << 16) - 1
"""The most skipped steps of a row that are counted."""


class Dialect:
    """Reads one framework's lines. One object reads one run, from as many files as it has."""

    name: ClassVar[str]
    step_needles: ClassVar[tuple[bytes, ...]]
    """Bytes of which a step line holds at least one."""
    fact_needles: ClassVar[tuple[bytes, ...]] = ()
    """The same for what is said of the run before its first step."""
    strong: ClassVar[bool] = True
    """False for lines that other frameworks print as well: they count only where nothing better is found."""
    first_number: ClassVar[int] = 1
    """The number of a run's first step."""
    may_skip: ClassVar[bool] = False
    """Steps without a row mean nothing: a bar is not drawn for each."""
    closing: ClassVar[tuple[str, ...]] = ()
    """How a step line ends that has no line end yet; without it a cut-off line is no row."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.facts = Facts()

    def continued(self) -> Dialect:
        """Who reads the next file of the same run: what was said of the run still holds."""
        following = type(self)()
        following.facts = self.facts
        return following

    def read(self, line: Line) -> None:
        """Take a line with one of the needles."""
        raise NotImplementedError

    def read_block(self, block: bytes, number: int) -> int:
        """Take all step lines of a block at once, if they all look like the last one read.

        How many there were; 0 if they must be read line by line. ``number`` is that of the block's first line.
        """
        return 0

    @property
    def seen(self) -> bool:
        """Whether this is the dialect's own log: a step of it was read."""
        return len(self.rows) > 0

    def finish(self) -> Rows:
        """The rows so far; more lines may follow."""
        return self.rows

    @property
    def only_average(self) -> bool:
        """Whether the rows hold nothing but the mean over the whole run."""
        return False

    @property
    def whole_seconds(self) -> bool:
        """Whether the times are differences of a clock that shows whole seconds."""
        return False

    def whole(self, line: Line) -> bool:
        """Whether nothing of ``line`` is missing."""
        return line.terminated or line.text.rstrip().endswith(self.closing)


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?nan|[-+]?inf(?:inity)?", re.IGNORECASE)


def number(text: str | None) -> float | None:
    """The number that ``text`` is, as a whole; None if it is anything else."""
    if text is None or not _NUMBER.fullmatch(text := text.strip()):
        return None
    return float(text)


def positive(text: str | None) -> float | None:
    """A time or a rate: a number above 0, of credible size."""
    value = number(text)
    return value if value is not None and 1 / LARGEST < value < LARGEST else None


def count(text: str | None) -> int | None:
    """A whole number, not negative, of credible size."""
    value = number(text)
    if value is None or not 0 <= value <= LARGEST or value != int(value):
        return None
    return int(value)


def batch(text: str | None) -> int | None:
    """Samples a step; None where there are none."""
    value = count(text)
    return value if value is not None and 0 < value <= LARGEST_BATCH else None


def fields(text: str, separator: str, colon: str = ":") -> dict[str, str]:
    """``name: value | name: value`` -> {name: value}; a later one of the same name wins."""
    pairs = (part.partition(colon) for part in text.split(separator))
    return {name.strip(): value.strip() for name, found, value in pairs if found}
