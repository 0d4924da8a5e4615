"""What a log says, as plain records. Every dialect fills the same ones; what a log does not say is None."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from benchrun.parse.columns import Column, Columns
from benchrun.parse.order import by_step

SAME_STEP = 0.1
"""Two rows of one step and one loss that differ by less than this in time are the same work, seen by two ranks."""


LARGEST_STEP = 1 << 62
LONGEST_INTERVAL = (1 << 31) - 1


class Step(NamedTuple):
    """One step row. Times and rates are means over ``interval`` steps where the framework prints means."""

    step: int
    """As printed; MLPerf's NeMo logs count tokens."""
    step_time_s: float | None
    """None where the log gives a rate only (torchtitan) or none at all."""
    line: int
    segment: int = 0
    """Counts restarts within one log."""
    interval: int = 1
    """Steps that this row stands for."""
    loss: float | None = None
    grad_norm: float | None = None
    global_batch_size: int | None = None
    tflops_per_gpu: float | None = None
    """As reported, under whatever convention the framework uses."""
    tokens_per_s_per_gpu: float | None = None
    """As reported."""
    skipped: int = 0
    nan: int = 0
    mfu: float | None = None
    """As reported, a fraction."""


class Problem(NamedTuple):
    """Something in a log that a number must not hide."""

    kind: str
    line: int | None
    """Line in ``source``, from 1; None for what is missing."""
    detail: str
    source: str | None = None
    """Name of the file, where several were read."""
    host: str | None = None
    rank: int | None = None
    then: Literal["", "steps", "restart"] = ""
    """What the log shows after it: more steps, or a restart and more steps; also "steps" where no process ended."""


@dataclass
class Facts:
    """What the log itself says of the run."""

    framework_version: str | None = None
    seq_length: int | None = None
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    num_gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    vp: int | None = None
    ep: int | None = None
    planned_steps: int | None = None
    precision: str | None = None
    task: str | None = None
    device: str | None = None
    num_layers: int | None = None
    hidden_size: int | None = None
    ffn_hidden_size: int | None = None
    num_attention_heads: int | None = None
    num_query_groups: int | None = None
    kv_channels: int | None = None
    vocab_size: int | None = None
    gated: bool | None = None
    gated_default: bool | None = None
    """What the program does where its log has no line about gates."""
    grouped: bool | None = None
    """False where ``num_query_groups`` is printed and not used."""
    exotic: str | None = None
    """An option that makes a model which the dimensions here do not describe."""
    variable_length: bool | None = None
    """``seq_length`` is a limit, not what every sample has."""
    num_experts: int | None = None
    moe_router_topk: int | None = None
    moe_ffn_hidden_size: int | None = None
    run_time_s: float | None = None
    """Of the whole training, where the framework prints it: with start-up, evaluation and checkpoints."""

    def fill(self, other: Facts) -> None:
        """Take from ``other`` what is not known yet."""
        for name, value in vars(other).items():
            if getattr(self, name) is None:
                setattr(self, name, value)


class Rows:
    """Step rows in the order of the log, in columns.

    A step printed again keeps its last row. A step number that falls opens a segment (a restart), unless the row
    only repeats one that is known: other ranks and nodes may print the same step a little later. So the rows are in
    the order of (segment, step).
    """

    def __init__(self, rows: Iterable[Step] = ()) -> None:
        self.columns = Columns()
        self.segments = 0
        """How often training (re)started; 0 without a row."""
        self._start = 0
        self._last = -1
        self._repeated = -1
        """The row that was last printed again: the next one often is, too."""
        for row in rows:
            self.add(row)

    def add(self, row: Step, *, averages: bool = False) -> None:
        """Take one row. With ``averages`` it stands for all the steps since the row before it."""
        number = row.step
        if number > LARGEST_STEP:
            return
        if row.interval > LONGEST_INTERVAL:
            row = row._replace(interval=LONGEST_INTERVAL)
        if number > self._last and self.segments:
            if averages:
                row = row._replace(interval=min(number - self._last, LONGEST_INTERVAL))
                # The first row of a segment stands for as many steps as the next one, where so many were made.
                if len(self) == self._start + 1 and self._last >= row.interval:
                    self.columns.put("interval", self._start, row.interval)
        elif self.segments and (index := self._repeats(row)) is not None:
            row = row._replace(interval=self.columns.at("interval", index), segment=self.segments - 1)
            for name, value in row._asdict().items():
                self.columns.put(name, index, value)
            return
        else:
            self._start = len(self)
            self.segments += 1
        self.columns.append(row, self.segments - 1)
        self._last = number

    def goes_on(self, found: Mapping[str, Column | int]) -> bool:
        """Whether these rows' steps only go on after the last row of this segment, which is not its first."""
        steps: Any = found["step"]
        if len(self) < self._start + 2 or steps[0] <= self._last or steps[-1] > LARGEST_STEP:
            return False
        gaps = np.diff(steps)
        return steps[0] - self._last <= LONGEST_INTERVAL and bool((gaps > 0).all() and (gaps <= LONGEST_INTERVAL).all())

    def extend(self, found: Mapping[str, Column | int], *, averages: bool = False) -> None:
        """Take many rows at once, column by column, whose steps go on."""
        steps: Any = found["step"]
        intervals = {"interval": np.diff(steps, prepend=self._last)} if averages else {}
        self.columns.extend({"interval": 1, **found, **intervals, "segment": self.segments - 1}, len(steps))
        self._last = int(steps[-1])

    def new_segment(self) -> None:
        """What follows is another run, whatever its step numbers."""
        if self.segments and self._last >= 0:
            self._start, self._last = len(self), 1 << 62

    def _repeats(self, row: Step) -> int | None:
        """Where this segment has the row already; None if ``row`` starts a new segment."""
        if row.step == self._last:
            return len(self) - 1
        steps = partial(self.columns.at, "step")
        index = self._repeated + 1
        if not self._start <= index < len(self) or steps(index) != row.step:
            index = bisect_left(range(len(self)), row.step, self._start, key=steps)
        if index == len(self):
            return None
        self._repeated = index
        known = self[index]
        if known.step != row.step or known.loss != row.loss:
            return None
        ours, theirs = (r.step_time_s or r.tokens_per_s_per_gpu for r in (row, known))
        return index if ours and theirs and abs(ours / theirs - 1) < SAME_STEP else None

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, index: int) -> Step:
        return Step(*self.columns.values(index))

    def __iter__(self) -> Iterator[Step]:
        return map(Step._make, self.columns.rows())

    @classmethod
    def of(cls, columns: Columns, segments: int) -> Rows:
        """Rows that are complete."""
        rows = cls()
        rows.columns, rows.segments = columns, segments
        return rows

    def distinct(self) -> Rows:
        """One row a step number, the last one of the log, in the order of the numbers: the work that was kept."""
        return self if self.segments <= 1 else Rows.of(by_step(self.columns), self.segments)

    @property
    def last_step(self) -> int | None:
        """The largest step number; None without a row."""
        return max((int(steps.max()) for (steps,) in self.columns.blocks("step")), default=None)


@dataclass(frozen=True)
class Log:
    """A whole log."""

    file: str
    framework: str
    steps: Rows = field(default_factory=Rows)
    facts: Facts = field(default_factory=Facts)
    problems: tuple[Problem, ...] = ()
    first_number: int = 1
    """The number of a run's very first step: 0 or 1, as the framework counts."""
    only_average: bool = False
    """The log gives one time for the whole run: there is no spread, and start-up is in it."""
    reached: int | None = None
    """The last step that was made, where something else than a row shows it."""
    whole_seconds: bool = False
    """The times are differences of a clock that shows whole seconds."""
    one_rank_prints: bool = False
    """Each step is printed by one rank: logs of one run have the very same times."""
    skip_messages: int = 0
    """Messages, not rows, of steps without an update."""
    began: float | None = None
    """The date on the first step line, in s since 1970 by the log's own time zone."""

    def complete(self, planned_steps: int | None) -> bool:
        """Whether the last of ``planned_steps`` was seen."""
        return planned_steps is not None and len(self.steps) > 0 and self.steps_made >= planned_steps

    @property
    def steps_made(self) -> int:
        """How many steps of the run had been made at the last one that was seen; 0 without a step."""
        last = self.steps.last_step
        return 0 if last is None else max(last, self.reached or 0) + 1 - self.first_number

    @property
    def segments(self) -> int:
        """How often training (re)started; 0 without a step."""
        return self.steps.segments

    @property
    def distinct(self) -> Rows:
        """One row a step number: the work that was kept."""
        return self.steps.distinct()

    @property
    def planned_steps(self) -> int | None:
        """Steps the run was to make."""
        return self.facts.planned_steps
