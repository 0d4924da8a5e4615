"""Base class of the dialects: one framework's way of printing its steps, and the
grammar that all of them share.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .columns import Column
from .lines import Line
from .numerals import count, credible, number, significant, stated_loss
from .records import TEXTS, Facts, Traits
from .rows import TYPES, Rows, Step
from .stamps import Stamps

_COUNTS = frozenset({"step", "planned_steps"})
_PLAIN = r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?|[-+]?(?:nan|NaN)|\+?inf"

_LEADING = re.compile(r"([A-Za-z][\w/ ().-]{0,60}): *([-+\d.][^\s|:]{0,30}) *\|")


class Reading(NamedTuple):
    """Conversion of the text of a value to a number."""

    parse: Callable[[str], float | None] = number
    """Number that a text says; None for any other text."""
    pattern: str = _PLAIN
    """Regex of the usual texts, each of which is a value wherever another one is."""
    plain: bool = True
    """``float`` reads the usual texts as ``parse`` does."""
    scale: Callable[[Any], Any] | None = None
    """Conversion from the printed unit to the column's, for one number or an array."""


NUMBER = Reading()
STATED_LOSS = Reading(stated_loss)
COUNT = Reading(count, r"\d{1,15}")
DECIMAL = Reading(pattern=r"\d+\.\d+")
THOUSANDTHS = Reading(scale=lambda value: value / 1000)
PERCENT = Reading(scale=lambda value: value / 100)


class Value(NamedTuple):
    """The text of one value without surrounding blanks, and where on the line it
    starts.
    """

    column: str
    """Column of the rows, or the name that the line prints."""
    text: str
    start: int
    reading: Reading = NUMBER


class Record(NamedTuple):
    """One step as a line prints it."""

    values: Sequence[Value]
    sink: str = "rows"
    """Attribute of the dialect that takes the row."""
    needs: str | None = "step_time_s"
    """Column without which it is no row."""
    usual: bool = True
    """Lines like this one may be read alike."""


class Table(NamedTuple):
    """Steps of many lines, column by column."""

    sink: str
    at: Column
    """Index of each row's line in the block."""
    columns: dict[str, Any]
    texts: Sequence[str]
    """All lines of the block."""
    alike: bool = True
    """The lines have one form."""

    def chosen(self, rows: Any) -> "Table":
        """Some of the rows: a slice or flags."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return self._replace(at=self.at[rows], columns=columns)


Names = Mapping[str, tuple[str, Reading]]
"""The name that a line prints -> column and reading; of several names of one column the
first counts.
"""


def headed(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], int]]:
    """The head of each record on a line and where the record ends: two ranks may share
    a line.
    """
    heads = list(pattern.finditer(text))
    return zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False)


def fields(text: str, start: int, end: int, separator: str) -> dict[str, Value]:
    """``name: value | name: value`` between two places -> {name: value}; the last one
    of a name counts.
    """
    pieces = {}
    for part in text[start:end].split(separator):
        name, colon, value = part.partition(":")
        if colon:
            name, stripped = name.replace("\ufffd", "").strip(), value.lstrip()
            pieces[name] = Value(name, stripped.rstrip(), start + len(part) - len(stripped))
        start += len(part) + len(separator)
    return pieces


def closed_fields(text: str, start: int, end: int, separator: str) -> tuple[dict[str, Value], int]:
    """The fields between two places that a separator follows, and where the last of
    them ends."""
    closed = max(text.rfind(separator, start, end), start)
    return fields(text, start, closed, separator), closed


def leading(text: str, start: int, end: int) -> dict[str, Value]:
    """``name: value |`` of the fields that stand between two places, before a head."""
    return {
        match[1]: Value(match[1], match[2], match.start(2))
        for match in _LEADING.finditer(text, start, max(start, end))
    }


def columns(pieces: Mapping[str, Value], names: Names) -> list[Value]:
    """One value per column."""
    values: dict[str, Value] = {}
    for name, (column, reading) in names.items():
        if name in pieces and column not in values:
            values[column] = pieces[name]._replace(column=column, reading=reading)
    return list(values.values())


def groups(match: re.Match[str], **readings: Reading) -> list[Value]:
    """The named groups of a regex, which are names of columns. ``readings``: of what is
    no plain number or count.
    """
    readings = {**dict.fromkeys(_COUNTS, COUNT), **readings}
    values = []
    for name, text in match.groupdict().items():
        if text is not None:
            values.append(Value(name, text, match.start(name), readings.get(name, NUMBER)))
    return values


class Dialect(Traits):
    """Reads one framework's lines. One object reads one training, from as many files as
    it has.
    """

    name: ClassVar[str]
    step_needles: ClassVar[tuple[bytes, ...]]
    """Bytes of which a line with a step, or with a result, holds at least one."""
    fact_needles: ClassVar[tuple[bytes, ...]] = ()
    """Bytes of lines that describe the run before its first step."""
    strong: ClassVar[bool] = True
    """False for lines that other frameworks print as well: they count only if nothing
    better is found.
    """
    program: ClassVar[str | None] = None
    """The dialect of the program whose facts hold if another rank prints its steps."""
    averages: ClassVar[tuple[str, ...]] = ()
    """Sinks whose rows are means over the steps since the row before."""
    closing: ClassVar[tuple[str, ...]] = ()
    """End of a step line that has no line end yet; without it a cut-off line is no row.
    """

    announcement: ClassVar[str | None] = None
    """Begin of the line in which a log states how its steps are read (`reader_for`)."""
    head: ClassVar[re.Pattern[str] | None] = None
    """Regex of the start of a step, or of all of it; its named groups are columns."""
    readings: ClassVar[Mapping[str, Reading]] = {}
    """Readings of the head's groups that are no plain number or count."""
    separator: ClassVar[str] = ""
    """Text behind each field after the head; without it there are no fields."""
    names: ClassVar[Names] = {}
    """Names of the fields."""
    fact_groups: ClassVar[tuple[re.Pattern[str], ...]] = ()
    """Regexes whose named groups are Facts."""
    fact_pairs: ClassVar[re.Pattern[str] | None] = None
    """Regex of a setting's name and value."""
    fact_names: ClassVar[Mapping[str, str]] = {}
    """Name of a setting -> the field of Facts that holds its whole number."""
    result_pairs: ClassVar[re.Pattern[str] | None] = None
    """Regex of the name and the number of a result that is no step."""
    end_words: ClassVar[str | None] = None
    """Words of a line that says that all work is done."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.facts = Facts()
        self.results, self.served = {}, []
        self.quantities, self.other_work = {}, {}
        self.contradictions = []
        self.stamps = Stamps()

    @classmethod
    def reader_for(cls, text: str) -> "type[Dialect] | None":
        """The reader of a log with the line ``text``, which has the `announcement`."""
        return None

    def continued(self) -> "Dialect":
        """The reader of the run's next file: the facts still hold."""
        following = type(self)()
        following.facts = self.facts
        return following

    def read(self, line: Line) -> None:
        """Take a whole line with one of the needles: steps, or facts and results if it
        has none.
        """
        if not self.whole(line):
            self._reach(line.text)
            return
        records = list(self.records(line.text))
        for record in records:
            self.add(record, line.number)
        if not records:
            self.read_facts(line.text)
            self.read_results(line.text)

    def _reach(self, text: str) -> None:
        """Take that the step was made that a line which may be cut states; its other
        numbers may be halves.
        """
        for record in self.records(text):
            for column, digits, start, reading in record.values:
                step = reading.parse(digits)
                if column == "step" and step and start + len(digits) < len(text):
                    self.reached = int(step)

    def records(self, text: str) -> Iterator[Record]:
        """The steps on a whole line, if its meaning depends on no other line."""
        before = 0
        for head, end in headed(self.head, text) if self.head else ():
            values = groups(head, **self.readings)
            if self.separator:
                pieces, _ = closed_fields(text, head.end(), end, self.separator)
                values += self.named(leading(text, before, head.start()) | pieces)
            before = len(text)
            yield Record(values)

    def named(self, pieces: Mapping[str, Value]) -> list[Value]:
        """The fields of a step that are columns."""
        return columns(pieces, self.names)

    def read_facts(self, text: str) -> None:
        """Take what a line without a step states of the run."""
        stated: list[tuple[str, str]] = []
        for regex in self.fact_groups:
            for match in regex.finditer(text):
                stated += match.groupdict("").items()
        pairs = self.fact_pairs.findall(text) if self.fact_pairs else ()
        for printed, value in pairs:
            if printed in self.fact_names:
                stated.append((self.fact_names[printed], value))
        for name, value in stated:
            digits = value.replace(",", "")
            if digits.isdigit() and name not in TEXTS:
                self.facts.take(name, count(digits))
            elif value and name in TEXTS:
                setattr(self.facts, name, value)

    def read_results(self, text: str) -> None:
        """Take the results of a line, and whether it is the last one."""
        for name, value in self.result_pairs.findall(text) if self.result_pairs else ():
            result = number(value)
            if result is not None and isfinite(result):
                self.results[name] = result
        self.ended |= self.end_words is not None and self.end_words in text

    def add(self, record: Record, line: int) -> None:
        """Add one step, if it has what it needs."""
        values: dict[str, Any] = {"line": line}
        for column, text, _, (parse, _, _, scale) in record.values:
            value = parse(text)
            if column == "loss":
                self.loss_of(text)
            if scale is not None and value is not None:
                value = scale(value)
            values[column] = credible(column, value)
            self.unread += bool(column == record.needs and text and values[column] is None)
        self.complete(values)
        if record.needs is not None and values.get(record.needs) is None:
            return
        planned = values.pop("planned_steps", None)
        if planned is not None:
            self.facts.planned_steps = planned
        self.add_row(record.sink, values)

    def loss_of(self, text: str | None) -> float | None:
        """A loss as printed, whose digits are counted; None if ``text`` is no number."""
        if (loss := number(text)) is not None:
            self.loss_digits = max(self.loss_digits, significant(text or ""))
        return loss

    def complete(self, values: dict[str, Any]) -> None:
        """Turn printed values into a row's columns; of one row, or arrays of many."""

    def add_row(self, sink: str, values: dict[str, Any]) -> None:
        """Add one row."""
        self._keep(values)
        stated = {name: value for name, value in values.items() if value is not None}
        row = Step(**{"step_time_s": None, **stated})
        getattr(self, sink).add(row, averages=sink in self.averages, end=self.last_planned)

    def _keep(self, values: dict[str, Any]) -> None:
        """Take what is no column of a row out of ``values``, as quantities of the steps."""
        for name in [name for name in values if name not in TYPES]:
            column = np.atleast_1d(values.pop(name)).tolist()
            steps = np.atleast_1d(values["step"]).tolist()
            pairs = zip(steps, column, strict=True)
            stated = {step: value for step, value in pairs if value is not None and value > 0}
            self.quantities.setdefault(name, {}).update(stated)

    def take(self, tables: Sequence[Table]) -> bool:
        """Add many rows, one table per sink. False, and nothing is added, if they must
        be read one by one.

        Text that stands for no value differs in its numbers only, in all lines of one
        form. Lines with several numbers of planned steps are read one by one, because
        each says if its training ends.
        """
        if any(map(self._plans_change, tables)):
            return False
        for table in tables:
            self.complete(table.columns)
            planned = table.columns.pop("planned_steps", None)
            if planned is not None and planned[-1] >= 0:
                self.facts.planned_steps = int(planned[-1])
            self.extend(table)
        return True

    def _plans_change(self, table: Table) -> bool:
        """Whether the number of planned steps is another one for some rows than for
        others.
        """
        planned = table.columns.get("planned_steps", ())
        stated = planned[planned >= 0] if len(planned) else planned
        if not len(stated):
            return False
        before = stated[0] if len(stated) == len(planned) else self.facts.planned_steps
        return bool((stated != before).any())

    def extend(self, table: Table) -> None:
        """Add many rows."""
        self._keep(table.columns)
        getattr(self, table.sink).extend(
            table.columns, averages=table.sink in self.averages, end=self.last_planned
        )

    @property
    def last_planned(self) -> int | None:
        """The number of the last planned step."""
        planned = self.facts.planned_steps
        if planned is None:
            return None
        return planned - 1 + self.first_number

    @property
    def seen(self) -> bool:
        """Whether a step or a result of this dialect was read."""
        return len(self.rows) > 0 or bool(self.results)

    def contradicts(self, facts: Facts) -> bool:
        """Whether a start that prints these facts begins another training."""
        return self.facts.contradict(facts)

    def begins_anew(self, before: "Dialect") -> bool:
        """Whether facts read since the steps of ``before`` say that it has ended and
        another training begins.
        """
        return False

    def finish(self) -> Rows:
        """The rows so far; more lines may follow."""
        return self.rows

    def whole(self, line: Line) -> bool:
        """Whether nothing of ``line`` is missing."""
        return line.terminated or line.text.rstrip().endswith(self.closing)


DIALECTS: dict[str, type[Dialect]] = {}
"""Name of the framework -> its dialect. Order matters: one whose logs contain another's
lines comes first.
"""


def register_dialect(dialect: type[Dialect]) -> None:
    """Add a dialect after all others."""
    DIALECTS[dialect.name] = dialect
