"""NeMo 1: Lightning's progress bar, redrawn over itself with carriage returns; and JSON
lines of MLPerf and DLLogger.

    Epoch 0: :  47%|####7     | 7/15 [06:19<07:13, v_num=0, reduced_train_loss=11.50, train_step_timing in s=49.50]
    :::MLLOG {"key": "tracked_stats", "value": {"train_step_timing": 12.16}, "metadata": {"step": 4194304}, ...}
    DLLL {"type": "LOG", "step": 2, "data": {"reduced_train_loss": 10.32, "train_step_timing in s": 52.80, ...}, ...}

A bar has three significant digits, zero-padded, so ``global_step=115.0`` cannot be
trusted at 2000: the step is the bar's own counter. MLPerf's step counts tokens or
samples, and stays as it is printed; its fine-tunes may print only samples per second
since the last evaluation, or only the loss of every tenth step: then the time is that
between two of them, by their clocks. So it is if a bar has no time, as until 2023: its
clock shows whole seconds. Source of the forms: logs of NeMo 1.18 to 24.12 and of MLPerf
training v3.0 to v5.1.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

from benchrun.frameworks.lightning import facts as lightning
from benchrun.frameworks.lightning import micro_batches
from benchrun.logs.dialect import Dialect
from benchrun.logs.lines import Line, object_in
from benchrun.logs.numerals import credible, number, seconds
from benchrun.logs.rows import Rows, Step

from .config import NEEDLES, read_config

_BAR = re.compile(
    r"Epoch (\d{1,9})\s?:[\s:]{0,8}(?:\d{1,3}%\|[^|]{0,400}\|)?\s{0,8}(\d{1,15})(?:/(\d{1,15})|it)\s?"
    r"\[([\d:]{1,16})<?[\d:?]{0,16},?\s?([^\[\]]{0,2000})\]"
)
_TIMES = ("train_step_timing in s", "train_step_timing", "train_step_time")
_LOSSES = ("reduced_train_loss", "train_loss")
_COUNTERS = ("global_step", "consumed_samples")
"""Values that differ from step to step."""
MLLOG, DLLOGGER = ":::MLLOG ", "DLLL "
MOST_SAMPLES = 1 << 17
"""A step number that grows by more than this counts tokens, because no batch has so
many samples.
"""


class Nemo1(Dialect):
    """NeMo 1.x, with or without its bar."""

    name = "nemo1"
    step_needles = (
        b"train_step_timing in s=",
        b"reduced_train_loss=",
        b'"train_step_tim',
        b'{"throughput": ',
        b'{"train_loss": ',
        b'"key": "block_start"',
        b'"key": "eval_start"',
        b'"key": "run_start"',
        b'"key": "run_stop"',
    )
    fact_needles = (
        b'"key": "init_start"',
        b'"key": "global_batch_size"',
        b'"key": "max_sequence_length"',
        b'"key": "lora_rank"',
        *lightning.NEEDLES,
        *lightning.SPREAD_NEEDLES,
        *lightning.WORK_NEEDLES,
        *NEEDLES,
    )
    fact_groups = lightning.FACTS
    may_skip = True
    one_rank_prints = True

    def __init__(self) -> None:
        super().__init__()
        self._elapsed = self._line = self._before = self._epochs_s = 0
        """Values of the last bar.

        ``_before``: steps of the epochs before its own, if bars have no total;
        ``_epochs_s``: what the clocks of their bars showed.
        """
        self._bars: list[tuple[str, ...]] = []
        """Bars of the last piece of a line."""
        self._place = (0, 0)
        """Epoch and step of the last bar."""
        self._total = ""
        self._ranks = 0
        self._spread = lightning.Spread()
        self._again = 0
        """JSON lines that repeat the step of the one before."""
        self._last: int | None = None
        self._timed, self._rated, self._clocked = Rows(), Rows(), Rows()
        """Rows of JSON lines with a step's time; with a mean since the last evaluation;
        with a loss and a clock.
        """
        self._clock: tuple[int, float] | None = None
        """Step and time in s of the last loss, or of the start after an evaluation."""
        self._drawn = ""
        """Epoch and total of the last bar without a step's time."""
        self._values = ""
        self._number: tuple[str, ...] = ()
        """Text of the last bar's values, and its epoch and number."""
        self._held: tuple[tuple[str, ...], int] | None = None
        """A bar with the values of the one before, and its line, until the next bar
        shows whether they are its own.
        """
        self._optimizer_steps: dict[int, int] = {}
        """Number of a bar -> the step of the optimizer on it."""

    def read(self, line: Line) -> None:
        """Every bar of a line, or a JSON line."""
        if MLLOG in line.text:
            for part in line.text.split(MLLOG)[1:]:
                self._mllog(object_in(part), line.number)
        elif DLLOGGER in line.text:
            event = object_in(line.text.partition(DLLOGGER)[2])
            self._timing(event.get("data"), event.get("step"), line.number)
        elif bars := _BAR.findall(line.text):
            # A line of many bars is read in windows, which overlap.
            before, self._bars = self._bars if line.number == self._line else [], bars
            for bar in bars:
                if bar not in before:
                    self._bar(bar, line.number)
        else:
            self.read_facts(line.text)
            self._spread.read(line.text, self.facts)
            read_config(line.text, self.facts)
            lightning.read_work(line.text, self.facts)

    def _bar(self, groups: tuple[str, ...], line: int) -> None:
        """Take a bar; a number is drawn first with the values of the step before, and
        then again with its own.
        """
        held, self._held = self._held, None
        if held is not None and held[0][:2] != groups[:2]:
            self._take_bar(*held)
        text = groups[4]
        repeats = (
            text == self._values
            and groups[:2] != self._number
            and any(name in text for name in _COUNTERS)
        )
        self._values, self._number = text, groups[:2]
        if repeats:
            self._held = groups, line
        else:
            self._take_bar(groups, line)

    def _take_bar(self, groups: tuple[str, ...], line: int) -> None:
        epoch_text, step_text, total, clock, text = groups
        values = dict(pair.split("=", 1) for pair in text.split(", ") if "=" in pair)
        time_s = _first(values, _TIMES[:1], "step_time_s")
        place = epoch, step = int(epoch_text), int(step_text)
        if time_s is None and _LOSSES[0] in values and total:
            if self._drawn != (drawn := f"{epoch_text} {total}"):
                self._drawn, self._clock = drawn, None
            self._loss(values, (int(total) * epoch + step, seconds(clock)), line)
            self.facts.planned_steps = self.facts.planned_steps or int(total)
        # The first drawing of a number on a line counts.
        if time_s is None or (line == self._line and place == self._place and total == self._total):
            return
        if epoch != self._place[0]:
            self._before = self._before + self._place[1] if epoch > self._place[0] else 0
            self._epochs_s += self._elapsed
        elapsed = seconds(clock)
        # A bar never runs backwards: another run begins, even if its steps seem to go
        # on.
        begins = epoch == 0 and (elapsed < self._elapsed or total != self._total)
        if begins:
            self.rows.new_segment()
            self._optimizer_steps.clear()
        self._line, self._place, self._total, self._elapsed = line, place, total, elapsed
        steps_per_epoch = int(total or 0)
        if epoch == 0 and steps_per_epoch:
            self.facts.planned_steps = steps_per_epoch
        before = epoch * steps_per_epoch if steps_per_epoch else self._before
        clock_s = self._epochs_s + elapsed
        loss = _first(values, _LOSSES, "loss")
        row = Step(before + step, time_s, line, loss=loss, clock_s=clock_s)
        # A last bar alone, of which a file may have those of many runs, shows no
        # training that another could follow.
        self.rows.add(row, end=None if begins and step == steps_per_epoch else self.last_planned)
        made = _first(values, ("global_step",), "step")
        if made is not None and made < micro_batches.EXACT:
            self._optimizer_steps[before + step] = made

    def _mllog(self, event: dict[str, Any], line: int) -> None:
        value, metadata = event.get("value"), event.get("metadata")
        if event.get("key") == "init_start":
            self._ranks += 1  # printed by every rank
        elif (
            event.get("key") == "global_batch_size"
            and type(value) is int
            and 0 < value < MOST_SAMPLES
        ):
            self.facts.gbs = value
        elif (
            event.get("key") == "max_sequence_length"
            and type(value) is int
            and 0 < value < MOST_SAMPLES
        ):
            self.facts.seq_length = value
        elif event.get("key") == "lora_rank" and value:
            self.facts.task = "lora"
        elif event.get("key") in ("run_start", "run_stop"):
            self._runs(begins=event["key"] == "run_start")
        elif event.get("key") in ("block_start", "eval_start"):
            self._clock = None
            if event["key"] == "block_start" and isinstance(metadata, dict):
                self._clock = _clocked(event, metadata)
        elif isinstance(metadata, dict):
            samples = "samples_count" in metadata
            clock = _clocked(event, metadata)
            self._timing(value, metadata.get("step"), line, samples=samples, clock=clock)
            if isinstance(value, dict) and "train_loss" in value:
                self._loss(value, clock, line)

    def _runs(self, *, begins: bool) -> None:
        """Note that the run begins, or ends: what begins at the first step then is another
        one.
        """
        self.unfinished = begins
        for rows in (self._timed, self._rated, self._clocked):
            rows.ended |= len(rows) > 0 and not begins

    def _timing(
        self,
        values: Any,
        number: Any,
        line: int,
        *,
        samples: bool = False,
        clock: tuple[int, float] | None = None,
    ) -> None:
        """Take the values of a step, whose rate may be that of ``samples``."""
        step = _credible("step", number)
        if not isinstance(values, dict) or step is None:
            return
        time_s, batch = _first(values, _TIMES, "step_time_s"), self.facts.gbs
        rate, loss = _first(values, ("throughput",), "samples_per_s"), self._json_loss(values)
        mean = rate is not None and loss is None
        beside = rate if samples and time_s is not None else None
        if mean and time_s is None and batch:
            time_s = batch / rate
        if time_s is not None:
            clock_s = clock[1] if clock else None
            row = Step(step, time_s, line, loss=loss, samples_per_s=beside, clock_s=clock_s)
            (self._rated if mean else self._timed).add(row)
            self._again += step == self._last
            self._last = step

    def _loss(self, values: dict[str, Any], clock: tuple[int, float] | None, line: int) -> None:
        before, self._clock = self._clock, clock
        steps, time_s = (
            (clock[0] - before[0], clock[1] - before[1]) if clock and before else (0, 0.0)
        )
        if clock and steps > 0 and (step_time_s := credible("step_time_s", time_s / steps)):
            loss = self._json_loss(values)
            self._clocked.add(Step(clock[0], step_time_s, line, interval=steps, loss=loss))

    def _json_loss(self, values: dict[str, Any]) -> float | None:
        """The loss, whose digits count in JSON: a bar fills them up with zeros."""
        if any(values.get(name, 0.0) is None for name in _LOSSES):
            return math.nan
        loss: float | None = _first(values, _LOSSES, "loss")
        if any(type(values.get(name)) is float for name in _LOSSES):
            self.loss_of(str(loss))
        return loss

    @property
    def seen(self) -> bool:
        """Whether a bar or a JSON line has a step's time."""
        return any(map(len, (self.rows, self._timed, self._rated, self._clocked)))

    def finish(self) -> Rows:
        """Rows with tokens per second, if steps count tokens and every rank has
        reported.
        """
        if self._held is not None:
            held, self._held = self._held, None
            self._take_bar(*held)
        rows = next(filter(len, (self.rows, self._timed, self._rated, self._clocked)), self.rows)
        if rows is self.rows and (how := micro_batches.accumulation(self._optimizer_steps)):
            return self._accumulated(how)
        self.whole_seconds = rows is self._clocked and bool(self._drawn)
        # A log in which every line stands twice (tee into its own file) counts every
        # rank twice.
        copies = 1 + self._again // max(len(rows), 1)
        if self._ranks > 1 and self._ranks % copies == 0:
            self.facts.num_gpus = self._ranks // copies
        if len(rows) < 2:
            return rows
        advance, batch = rows[1].step - rows[0].step, self.facts.gbs
        if rows is self._timed:
            # Numbers that rise by a few may count samples, or every tenth step.
            self.step_unit = advance if advance == 1 or advance >= MOST_SAMPLES else 0
        if self.facts.num_gpus is None or advance < MOST_SAMPLES:
            return rows
        if batch and advance % batch == 0:
            self.facts.seq_length = advance // batch
        rate = advance / rows.column("step_time_s") / self.facts.num_gpus
        return rows.chosen(slice(None), tokens_per_s_per_gpu=rate)

    def _accumulated(self, how: micro_batches.Accumulation) -> Rows:
        """The steps of the optimizer, which count from 0."""
        self.first_number = 0
        if self._total and how.bars_per_step:
            self.facts.planned_steps = int(self._total) // how.bars_per_step or None
        return micro_batches.steps_of_bars(self.rows, how)


def _clocked(event: dict[str, Any], metadata: dict[str, Any]) -> tuple[int, float] | None:
    """The step and the time in s of a JSON line that has both."""
    step, time_ms = _credible("step", metadata.get("step")), event.get("time_ms")
    if step is not None and type(time_ms) is int:
        return (step, time_ms / 1000)
    return None


def _first(values: dict[str, Any], names: Sequence[str], column: str) -> Any:
    """The value of the first name that there is, as a row may hold it in this column."""
    return next((_credible(column, values[name]) for name in names if name in values), None)


def _credible(column: str, value: Any) -> Any:
    """A number, of JSON or as text, as a row may hold it in this column; None for
    booleans.
    """
    if type(value) in (int, float, str):
        return credible(column, number(str(value)))
    return None
