"""What a dialect is: one framework's way of printing its steps, and the small grammar that all of them share."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple, TypeVar

from benchrun.parse.lines import Line, clean
from benchrun.parse.records import Facts, Rows, Step

LARGEST = 10**15
"""A larger number of steps, samples or tokens is no count of anything, and no time or rate either."""
LARGEST_BATCH = (1 << 31) - 1
FEW = (1 << 16) - 1
"""The most skipped steps of a row that are counted."""


D = TypeVar("D", bound="Dialect")


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
    one_rank_prints: ClassVar[bool] = False
    """Each step is printed once, by one rank: two logs of one run have the very same times."""
    one_line: ClassVar[bool] = False
    """A step is one line, which says the same whatever stood before it: many can be read at once."""
    sinks: ClassVar[tuple[str, ...]] = ("rows",)
    """The attributes that take rows."""
    counted: ClassVar[frozenset[str]] = frozenset()
    """Those of them whose rows have no number of their own."""
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

    def numbered(self, sink: str, found: dict[str, Any]) -> dict[str, Any]:
        """Rows that were read by the block, column by column, with their step numbers."""
        return found

    def take(self, sink: str, found: dict[str, Any], *, averages: bool) -> None:
        """Add such rows, which go on."""
        getattr(self, sink).extend(found, averages=averages)

    def follow(self, text: bytes) -> None:
        """Be as if this line had been read, but for its row."""
        asked_of(self, self.facts, text)

    @property
    def plain(self) -> bool:
        """Whether it has kept nothing but rows and facts of what it read."""
        return True

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
    def reached(self) -> int | None:
        """The last step that was made, where something else than a row shows it."""
        return None

    @property
    def whole_seconds(self) -> bool:
        """Whether the times are differences of a clock that shows whole seconds."""
        return False

    def whole(self, line: Line) -> bool:
        """Whether nothing of ``line`` is missing."""
        return line.terminated or line.text.rstrip().endswith(self.closing)


class Caught(NamedTuple):
    """A row on its way into a sink."""

    sink: str
    averages: bool
    row: Step


class _Sink:
    """Stands where rows are collected, and says who was to take them."""

    def __init__(self, name: str, caught: list[Caught]) -> None:
        self._name, self._caught = name, caught

    def __len__(self) -> int:
        return 1  # no row is the first

    def add(self, row: Step, *, averages: bool = False) -> None:
        self._caught.append(Caught(self._name, averages, row))

    def numbered(self, said: bool) -> None:
        pass

    def new_segment(self) -> None:
        self._caught += 2 * [Caught(self._name, False, Step(0, None, 0))]  # more than a row


def asked_of(dialect: D, facts: Facts, text: bytes) -> tuple[D, list[Caught]]:
    """Another such ``dialect`` that has read this line, without its end; its rows; and into ``facts`` what it says."""
    asked = type(dialect)()
    asked.facts = facts
    caught: list[Caught] = []
    for name in asked.sinks:
        setattr(asked, name, _Sink(name, caught))
    asked.read(Line(0, clean(text.removesuffix(b"\r")), terminated=True))
    return asked, caught if asked.plain else []


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
