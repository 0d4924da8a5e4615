"""NeMo 1: Lightning's progress bar, redrawn over itself with carriage returns; and JSON lines of MLPerf and DLLogger.

    Epoch 0: :  47%|####7     | 7/15 [06:19<07:13, v_num=0, reduced_train_loss=11.50, train_step_timing in s=49.50]
    :::MLLOG {"key": "tracked_stats", "value": {"train_step_timing": 12.16}, "metadata": {"step": 4194304}, ...}
    DLLL {"type": "LOG", "step": 2, "data": {"reduced_train_loss": 10.32, "train_step_timing in s": 52.80, ...}, ...}

A bar has three significant digits, zero-padded, so ``global_step=115.0`` cannot be trusted at 2000: the step is the
bar's own counter. MLPerf's step counts tokens or samples, and stays as it is printed; its fine-tunes may print
only samples per second since the last evaluation. Source of the forms: logs of NeMo 24.05 to 24.12 and of MLPerf
training v3.0 to v5.0.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from benchrun.parse.dialect import RANKS, Dialect, credible, number, seconds
from benchrun.parse.lines import Line
from benchrun.parse.rows import Rows, Step

_BAR = re.compile(
    r"Epoch (\d{1,9})\s?:[\s:]{0,8}(?:\d{1,3}%\|[^|]{0,400}\|)?\s{0,8}(\d{1,15})(?:/(\d{1,15})|it)\s?"
    r"\[([\d:]{1,16})<?[\d:?]{0,16},?\s?([^\[\]]{0,2000})\]"
)
_TIMES = ("train_step_timing in s", "train_step_timing", "train_step_time")
_LOSSES = ("reduced_train_loss", "train_loss")
_DECODER = json.JSONDecoder()
MLLOG, DLLOGGER = ":::MLLOG ", "DLLL "
MOST_SAMPLES = 1 << 17
"""A step number that grows by more than this counts tokens, because no batch has so many samples."""


class Nemo1(Dialect):
    """NeMo 1.x, with or without its bar."""

    name = "nemo1"
    step_needles = (b"train_step_timing in s=", b'"train_step_tim', b'{"throughput": ')
    fact_needles = (b"GLOBAL_RANK: 0, MEMBER: ", b'"key": "init_start"', b'"key": "global_batch_size"')
    fact_groups = (RANKS,)
    may_skip = True
    one_rank_prints = True

    def __init__(self) -> None:
        super().__init__()
        self._elapsed = self._line = self._before = 0
        """Of the last bar. ``_before``: steps of the epochs before its own, where bars have no total."""
        self._place = (0, 0)
        """Epoch and step of the last bar."""
        self._total = ""
        self._ranks = 0
        self._again = 0
        """JSON lines that repeat the step of the one before."""
        self._last: int | None = None
        self._by_rate = False
        """The rows so far come from samples per second."""

    def read(self, line: Line) -> None:
        """Every bar of a line, or a JSON line."""
        if MLLOG in line.text:
            for part in line.text.split(MLLOG)[1:]:
                self._mllog(_json(part), line.number)
        elif DLLOGGER in line.text:
            event = _json(line.text.partition(DLLOGGER)[2])
            self._timing(event.get("data"), event.get("step"), line.number)
        elif bars := _BAR.findall(line.text):
            for bar in bars:
                self._bar(bar, line.number)
        else:
            self.read_facts(line.text)

    def _bar(self, groups: tuple[str, ...], line: int) -> None:
        epoch_text, step_text, total, clock, text = groups
        values = dict(pair.split("=", 1) for pair in text.split(", ") if "=" in pair)
        time_s = _first(values, _TIMES[:1], "step_time_s")
        place = epoch, step = int(epoch_text), int(step_text)
        # A line of many bars is read in windows, which overlap.
        if time_s is None or (line == self._line and place <= self._place and total == self._total):
            return
        if epoch != self._place[0]:
            self._before = self._before + self._place[1] if epoch > self._place[0] else 0
        elapsed = seconds(clock)
        # A bar never runs backwards: another run begins, even if its steps seem to go on.
        if epoch == 0 and (elapsed < self._elapsed or total != self._total):
            self.rows.new_segment()
        self._line, self._place, self._total, self._elapsed = line, place, total, elapsed
        steps_per_epoch = int(total or 0)
        if epoch == 0 and steps_per_epoch:
            self.facts.planned_steps = steps_per_epoch
        before = epoch * steps_per_epoch if steps_per_epoch else self._before
        self.rows.add(Step(before + step, time_s, line, loss=_first(values, _LOSSES, "loss")))

    def _mllog(self, event: dict[str, Any], line: int) -> None:
        value, metadata = event.get("value"), event.get("metadata")
        if event.get("key") == "init_start":
            self._ranks += 1  # printed by every rank
        elif event.get("key") == "global_batch_size" and type(value) is int and 0 < value < MOST_SAMPLES:
            self.facts.gbs = value
        elif isinstance(metadata, dict):
            self._timing(value, metadata.get("step"), line)

    def _timing(self, values: Any, number: Any, line: int) -> None:
        step = _credible("step", number)
        if not isinstance(values, dict) or step is None:
            return
        time_s, batch = _first(values, _TIMES, "step_time_s"), self.facts.gbs
        rate = _first(values, ("throughput",), "samples_per_s")
        if time_s is None and rate and batch and (self._by_rate or not len(self.rows)):
            time_s, self._by_rate = batch / rate, True
        if time_s is not None:
            self.rows.add(Step(step, time_s, line, loss=_first(values, _LOSSES, "loss")))
            self._again += step == self._last
            self._last = step

    def finish(self) -> Rows:
        """With tokens per second, where steps count tokens and every rank has reported."""
        # A log in which every line stands twice (tee into its own file) counts every rank twice.
        copies = 1 + self._again // max(len(self.rows), 1)
        if self._ranks > 1 and self._ranks % copies == 0:
            self.facts.num_gpus = self._ranks // copies
        if self.facts.num_gpus is None or len(self.rows) < 2:
            return self.rows
        advance, batch = self.rows[1].step - self.rows[0].step, self.facts.gbs
        if advance < MOST_SAMPLES:
            return self.rows
        if batch and advance % batch == 0:
            self.facts.seq_length = advance // batch
        rate = advance / self.rows.column("step_time_s") / self.facts.num_gpus
        return self.rows.chosen(slice(None), tokens_per_s_per_gpu=rate)


def _json(text: str) -> dict[str, Any]:
    """The object that ``text`` begins with; empty if there is none."""
    try:
        event = _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _first(values: dict[str, Any], names: Sequence[str], column: str) -> Any:
    """The value of the first name that there is, as a row may hold it in this column."""
    return next((_credible(column, values[name]) for name in names if name in values), None)


def _credible(column: str, value: Any) -> Any:
    """A number, of JSON or as text, as a row may hold it in this column; None for booleans."""
    return credible(column, number(str(value))) if type(value) in (int, float, str) else None
