"""Hugging Face Trainer (also under TRL, ms-swift, LLaMA-Factory, accelerate): dictionaries, progress bars, a summary.

    {'loss': 2.55, 'grad_norm': 6.8, 'learning_rate': 5e-05, 'epoch': 0.01}
      6%|6         | 1/16 [00:58<14:41, 58.76s/it]
    {'train_runtime': 425.4, 'train_samples_per_second': 5.64, 'train_steps_per_second': 0.235, 'epoch': 1.0}

No line of theirs holds a step's time. It is the difference of two clocks: of the run time, where every dictionary has
it; else in whole seconds, of ms-swift's ``elapsed_time`` or of the bar. Without any only the mean over the whole run is
known, from the summary. The fine-tune of this repository measures each step, and adds ``step_time_s`` and ms-swift's
``global_step/max_steps``. Bars of other work (loading, tokenizing, evaluation) look alike: the training's are those
with its number of steps. Source: logs of transformers 4 and 5, and of ms-swift.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from math import ceil, floor
from statistics import median
from typing import Any

import numpy as np

from benchrun.frameworks.dialects.bars import BAR_COLUMNS, MOST, Bars, bars_on, differences
from benchrun.frameworks.dialects.printed import Printed, timed
from benchrun.frameworks.dialects.worker import CONFIG, configure
from benchrun.parse.dialect import (
    COUNT,
    LARGEST,
    Dialect,
    Piece,
    Reading,
    Record,
    Table,
    Value,
    number,
    positive,
    seconds,
)
from benchrun.parse.lines import Line
from benchrun.parse.rows import Rows, Step

_DICT = re.compile(r"\{[^{}]{0,4000}?['\"](?:loss|train_runtime)['\"]\s*:[^{}]*\}")
_PAIR = re.compile(r"['\"]([^'\"]+)['\"]\s*:\s*(?:'([^']*)'|\"([^\"]*)\"|([^,{}'\"]+))")
_PLANNED = re.compile(r"Total optimization steps = ([\d,]{1,15})")
_EPOCHS = re.compile(r"\bNum Epochs = ([\d,]{1,15})")
_TOTAL_BATCH = re.compile(r"Total train batch size \(.*?\) = ([\d,]{1,12})")
_DEVICE_BATCH = re.compile(r"Instantaneous batch size per device = ([\d,]{1,12})")
_ACCUMULATION = re.compile(r"Gradient Accumulation steps = ([\d,]{1,12})")
_WORLD = re.compile(r"\bworld_size(?:: | \.{4,} )(\d{1,7})\b")
# GPT-2's context, to which its examples cut every sample; newer models are trained far below their limit.
_LENGTH = re.compile(r"(?<!_)\bmax_length: (\d{1,9})\b|\"n_positions\": (\d{1,9})\b")
_DURATION = re.compile(r"(\d+)([dhms])")
_UNIT = {"d": 86400, "h": 3600, "m": 60, "s": 1}
MOST_AVERAGED = 1 << 16
AGREE = 0.02
"""The summaries of one run's launchers agree to this."""


class HuggingFace(Dialect):
    """The Trainer's dictionaries."""

    name = "hf"
    step_needles = (b"'loss':", b'"loss":', b"'train_runtime':", b"%|")
    fact_needles = (
        *(
            b"Num Epochs = ",
            b"Total optimization steps = ",
            b"Total train batch size (",
            b"Instantaneous batch size per device = ",
        ),
        *(b"Gradient Accumulation steps = ", b"world_size: ", b"  world_size ....", b" max_length: "),
        *(b'"n_positions": ', CONFIG.encode()),
    )
    may_skip = True
    closing = ("}", "]")
    varying_length = True

    def __init__(self) -> None:
        super().__init__()
        self._printed = Printed()
        self._bars = Bars()
        self._summaries: list[tuple[float, float | None]] = []
        """Run time and steps a second."""
        self._last: dict[str, str] = {}
        self._step_of_bar = self._epochs = 0
        self._guess: int | None = None
        """What the bars say that was planned; a log that goes on may show better ones."""
        self._batch: dict[str, int] = {}

    def continued(self) -> Dialect:
        """The same reader: bars go to stderr, dictionaries to stdout."""
        return self

    def read(self, line: Line) -> None:
        """A dictionary, a bar, or a fact; a piece of line may hold the first two."""
        for step, total in self._bars.read(line.text, line.number):
            if self._told in (None, total):
                self._step_of_bar = step
                self._printed.followed(step)
        dictionaries = list(_DICT.finditer(line.text)) if "{" in line.text and self.whole(line) else []
        for match in dictionaries:
            self._dictionary(_pairs(line.text, match), line.number)
        if not dictionaries and _may_be_fact(line.text):
            self._fact(line.text)

    def records(self, text: str) -> Iterator[Record]:
        """The bars of a line, and the dictionary of a step."""
        dictionaries = [_pairs(text, match) for match in _DICT.finditer(text)] if "{" in text else []
        if all("loss" in pairs for pairs in dictionaries) and (dictionaries or not _may_be_fact(text)):
            for bar in bars_on(text):
                values = zip(BAR_COLUMNS, (COUNT, COUNT, _BAR_CLOCK), (1, 2, 3), strict=True)
                yield Record([Value(name, bar[n], bar.start(n), how) for name, how, n in values], "_bars", needs=None)
            yield from map(_record, dictionaries)

    @property
    def seen(self) -> bool:
        """Bars alone may be another program's."""
        return bool(len(self._printed) or self._summaries)

    def _dictionary(self, pairs: dict[str, Piece], line: int) -> None:
        texts = {name: piece.text for name, piece in pairs.items()}
        if "loss" not in texts:
            runtime = positive(texts.get("train_runtime"))
            if runtime is not None:
                self._summaries.append((runtime, positive(texts.get("train_steps_per_second"))))
            return
        before, self._last = self._last, texts
        if not _same_record(before, texts):
            self.add(_record(pairs), line)

    def keep(self, sink: str, values: dict[str, Any]) -> None:
        """A dictionary; one without a step is of the step of the bar before it."""
        numbered = values.get("step") is not None
        step = values.get("step") or self._step_of_bar
        self._printed.add(values | {"step": step}, numbered=numbered)

    def take(self, tables: Sequence[Table]) -> bool:
        """Many bars and dictionaries, where each dictionary is a record of its own."""
        sinks = {table.sink: table for table in tables}
        bars, printed = sinks.get("_bars"), sinks.get("_printed")
        if printed is not None and not self._are_records(printed):
            return False
        planned = printed.columns.pop("planned_steps", None) if printed is not None else None
        if bars is not None and planned is not None and (planned != (self._told or 0)).any():
            return False
        at, steps = np.empty(0, np.int64), np.empty(0, np.int64)
        if bars is not None:
            drawn = np.array([bars.columns[name] for name in BAR_COLUMNS], np.int64)
            self._bars.extend(drawn[0], drawn[1], drawn[2], bars.columns["line"])
            own = drawn[1] == self._told if self._told is not None else np.ones(len(bars.at), bool)
            at, steps = bars.at[own], drawn[0][own]
        if len(at) and (printed is None or at[0] <= printed.at[0]):
            self._printed.followed(int(steps[0]))
        if printed is not None:
            if planned is not None:
                self.facts.planned_steps = int(planned[-1])
            self._last = _texts(printed.ends[1])
            before = np.searchsorted(at, printed.at, side="right")
            step = np.append(self._step_of_bar, steps)[before]
            after, next_at = np.append(steps, 0)[before], np.append(at, LARGEST)[before]
            follows = next_at <= np.append(printed.at[1:], LARGEST - 1)
            numbered = "step" in printed.columns
            own_step = printed.columns.get("step", np.zeros(len(step), np.int64))
            columns = {**printed.columns, "step": np.where(own_step == 0, step, own_step)}
            self._printed.extend(columns, np.where(follows, after, 0), numbered=numbered, followed=bool(follows[-1]))
        self._step_of_bar = int(steps[-1]) if len(steps) else self._step_of_bar
        return True

    def _are_records(self, printed: Table) -> bool:
        """Whether no dictionary can be the one before it, printed again."""
        repeated = np.ones(len(printed.at) - 1, bool)
        for name, column in printed.columns.items():
            if name != "line":
                repeated &= np.isclose(column[1:], column[:-1], rtol=0, atol=0, equal_nan=True)
        one_form = bool((printed.form == printed.form[0]).all())
        return one_form and not repeated.any() and not _same_record(self._last, _texts(printed.ends[0]))

    def _fact(self, text: str) -> None:
        if configure(self.facts, text, "transformers"):
            return
        if match := _PLANNED.search(text):
            self.facts.planned_steps = _whole(match[1])
        if match := _EPOCHS.search(text):
            self._epochs = _whole(match[1])
        for name, pattern in (("total", _TOTAL_BATCH), ("device", _DEVICE_BATCH), ("accumulation", _ACCUMULATION)):
            if match := pattern.search(text):
                self._batch[name] = _whole(match[1])
        if match := _WORLD.search(text):
            self.facts.num_gpus = int(match[1])
        if match := _LENGTH.search(text):
            self.facts.seq_length = int(match[1] or match[2])
            self.facts.variable_length = True
        self.facts.gbs = self._batch.get("total", self.facts.gbs)
        self.facts.mbs = self._batch.get("device", self.facts.mbs)
        ranks = self._batch.get("total", 0) / max(1, self._batch.get("device", 0) * self._batch.get("accumulation", 0))
        if self.facts.num_gpus is None and ranks >= 1 and ranks == int(ranks) and len(self._batch) == 3:
            self.facts.num_gpus = int(ranks)

    def finish(self) -> Rows:
        """Rows of the dictionaries where there are any, else of the bars, else of the summary."""
        self._note_run_time()
        total = self._total()
        drawn = steps, clocks, _ = self._bars.of(total)
        if self.seen and steps and self._told is None:
            self.facts.planned_steps = self._guess = total
        if len(self._printed):
            self.rows = timed(self._printed, steps, clocks, self._average_time(), self._every(steps))
        elif self.seen and steps:
            self.rows = differences(drawn)
        elif self.seen:
            self.rows = self._average()
        return self.rows

    @property
    def _told(self) -> int | None:
        """The steps that were planned, where that is not a guess."""
        return None if self.facts.planned_steps == self._guess else self.facts.planned_steps

    @property
    def reached(self) -> int | None:
        """A bar is drawn for steps that no dictionary speaks of."""
        return max(self._bars.of(self._total())[0], default=None)

    def _every(self, steps: array[int]) -> int:
        """How many steps a dictionary comes after the one before it, by the epochs that were made or the last bar."""
        made = (self._told or 0) * self._printed.epochs / self._epochs if self._epochs else 0.0
        return max(round(made / len(self._printed)) or max(steps, default=0) // len(self._printed), 1)

    def _note_run_time(self) -> None:
        times = [time for time, _ in self._summaries]
        if times and max(times) <= min(times) * (1 + AGREE):
            self.facts.run_time_s = median(times)

    def _total(self) -> int:
        """The total of the training's bars: its number of steps, which is told or can be guessed."""
        planned = self._told
        if planned is None:
            planned = self._steps_of_summary()
        return self._bars.longest(len(self._printed)) if planned is None else planned

    def _steps_of_summary(self) -> int | None:
        """How many steps a summary speaks of: run time times rate, if only one whole number fits the three decimals."""
        for time, rate in self._summaries:
            if rate is not None and time * rate < MOST:
                low, high = ceil(time * (rate - 0.0005)), floor(time * (rate + 0.0005))
                if low == high and low > 0:
                    return low
        return None

    def _average_time(self) -> float | None:
        """The mean step of the whole run; None where the summaries contradict each other."""
        if self.facts.run_time_s is None:
            return None
        made = self.facts.planned_steps or self._steps_of_summary()
        return self.facts.run_time_s / made if made else None

    def _average(self) -> Rows:
        made, time_s = self.facts.planned_steps or self._steps_of_summary(), self._average_time()
        if made is None or time_s is None or made > MOST_AVERAGED:
            return Rows()
        if self.facts.planned_steps is None:
            self.facts.planned_steps = made
        return Rows(Step(step, time_s, 0) for step in range(1, made + 1))

    @property
    def whole_seconds(self) -> bool:
        """Unless each step was measured, or the dictionaries have a finer clock."""
        printed = self._printed
        return not len(printed) or (printed.measured < len(printed) and not printed.fine)

    @property
    def only_average(self) -> bool:
        """No clock anywhere: every row has the same time."""
        if not self._summaries or len(self.rows) < 2:
            return False
        return not (len(self._bars.of(self._total())[0]) or self._printed.clocked)


def _may_be_fact(text: str) -> bool:
    return " = " in text or ": " in text or " ..." in text


def _texts(line: str) -> dict[str, str]:
    """The texts of the dictionary on a line."""
    return {name: piece.text for name, piece in _pairs(line, _DICT.search(line)).items()}


def _pairs(text: str, match: re.Match[str] | None) -> dict[str, Piece]:
    """The names and values of a dictionary on a line."""
    pairs = {}
    for pair in _PAIR.finditer(text, *match.span()) if match else ():
        group = pair.lastindex or 4
        kept = pair[group].strip()
        pairs[pair[1]] = Piece(kept, pair.start(group) + pair[group].index(kept))
    return pairs


def _record(pairs: dict[str, Piece]) -> Record:
    """A dictionary of a step."""
    values = [pairs["loss"].value("loss")]
    # No row holds the learning rate; it tells two dictionaries apart.
    for name in ("grad_norm", "step_time_s", "epoch", "learning_rate"):
        if name in pairs:
            values.append(pairs[name].value(name))
    if "train_runtime" in pairs and positive(pairs["train_runtime"].text):
        values.append(pairs["train_runtime"].value("clock_s"))
    elif "elapsed_time" in pairs:
        values.append(pairs["elapsed_time"].value("clock_s", _CLOCK))
    both = pairs.get("global_step/max_steps") or pairs.get("iteration")
    if both and both.text:
        step, slash, planned = both.text.partition("/")
        values.append(Value("step", step, both.start, COUNT))
        if slash:
            values.append(Value("planned_steps", planned, both.start + len(step) + 1, COUNT))
    elif "current_steps" in pairs:
        values.append(pairs["current_steps"].value("step", COUNT))
    return Record(values, "_printed", needs=None)


def _same_record(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two dictionaries in a row are one: several launchers print it, and some loggers in two forms.

    The forms round differently, and have not the same fields; what both have must agree.
    """
    if one == other:
        return True
    common = one.keys() & other.keys()
    if not {"loss", "epoch", "learning_rate"} <= common or one.keys() == other.keys():
        return False
    return all(_near(one[name], other[name]) for name in common)


def _near(one: str, other: str) -> bool:
    """Equal to three digits."""
    first, second = number(one), number(other)
    return one == other if first is None or second is None else f"{first:.2e}" == f"{second:.2e}"


def _duration(text: str) -> float | None:
    """``1m 60s`` or ``0:01:02`` -> seconds."""
    if ":" in text:
        return float(seconds(text)) if re.fullmatch(r"\d{1,5}(:\d{1,2})+", text) else None
    parts: Iterator[re.Match[str]] = _DURATION.finditer(text)
    values = [int(part[1][:9]) * _UNIT[part[2]] for part in parts]
    return float(sum(values)) if values else None


_BAR_CLOCK = Reading(lambda text: float(seconds(text)), r"\d[\d:]*", plain=False)
_CLOCK = Reading(_duration, r"[\d:dhms ]+", plain=False)


def _whole(text: str) -> int:
    return int(text.replace(",", "") or 0)
