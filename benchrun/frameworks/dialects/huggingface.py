"""Hugging Face Trainer (also under TRL, ms-swift, LLaMA-Factory, accelerate): dictionaries, progress bars, a summary.

    {'loss': 2.55, 'grad_norm': 6.8, 'learning_rate': 5e-05, 'epoch': 0.01}
      6%|6         | 1/16 [00:58<14:41, 58.76s/it]
    {'train_runtime': 425.4, 'train_samples_per_second': 5.64, 'train_steps_per_second': 0.235, 'epoch': 1.0}

No line has a step's time. It is the difference of two clocks: of the run time, where every dictionary has it; else in
whole seconds, of ms-swift's ``elapsed_time`` or of the bar. Without a clock only the mean over the whole run is known,
from the summary. The fine-tune of this repository measures each step, and adds ``step_time_s`` and ms-swift's
``global_step/max_steps``. trl's reinforcement learning prints rewards and lengths of responses in the dictionaries.
Bars of other work (loading, tokenizing, evaluation) look alike: the training's are those
with its number of steps. Source: logs of transformers 4 and 5, and of ms-swift; tqdm's default format.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, floor
from statistics import median
from typing import Any

import numpy as np

from benchrun.frameworks.dialects import trainer_jobs, trainer_rows
from benchrun.frameworks.dialects.worker import CONFIG, DONE, configure
from benchrun.parse.columns import NO_VALUE, Columns
from benchrun.parse.dialect import COUNT, Dialect, Reading, Record, Table, Value, groups, number, positive, seconds
from benchrun.parse.lines import Line
from benchrun.parse.records import Facts
from benchrun.parse.rows import Rows, Step

_DICT = re.compile(r"\{[^{}]{0,4000}?['\"](?:loss|train_runtime)['\"]\s*:[^{}]*\}")
_PAIR = re.compile(r"['\"]([^'\"]+)['\"]\s*:\s*(?:'([^']*)'|\"([^\"]*)\"|([^,{}'\"]+))")
_BAR = re.compile(r"(?<!\d)\d{1,3}%\|[^|]*\|\s*(?P<step>\d{1,12})/(?P<total>\d{1,12}) \[(?P<clock_s>\d[\d:]*)<")
# Nothing but what a launcher writes stands before a training bar: a rank, a host, a time, the stream. "Loading
# checkpoint shards:" is other work.
_BEFORE_BAR = re.compile(
    r"(?:[\]>]:?|\d:|[)|}]|:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s|\bstd(?:out|err)(?::| [FP])|\bTrain:)\s*$"
)
# GPT-2's context, to which its examples cut every sample; newer models are trained far below their limit.
_LENGTHS = (
    re.compile(r"(?<!_)\bmax_length: (?P<seq_length>\d{1,9})\b"),
    re.compile(r"\"n_positions\": (?P<seq_length>\d{1,9})\b"),
)
# In TrainingArguments as they are printed: on one line, or each on its own.
_PRECISION = re.compile(r"(?<![-\w.`])(?P<precision>bf16|fp16)=True,")
_RESUMED = re.compile(r"Continuing training from global step (\d{1,15})\b")
_LAST = re.compile(r"['\"]current_steps['\"]: (?P<step>\d{1,12}), ['\"]total_steps['\"]: (?P=step), ")
_DURATION = re.compile(r"(\d+)([dhms])")
_CLOCK_TIME = re.compile(r"(?:(\d{1,4}) days?, )?(\d{1,5}(?::\d{1,2})+)")
_UNIT = {"d": 86400, "h": 3600, "m": 60, "s": 1}
LONGEST_LABEL = 80
"""Bytes before a bar that are looked at."""
DATA_PARALLEL = "total batch / (micro-batch x accumulation): data-parallel ranks, which tp, pp, cp or sp multiply"
MOST_AVERAGED, MOST_SUMMARISED = 1 << 16, 1 << 20
"""Steps of a run of which only the average is known; steps that a summary's rate can count."""
AGREE = 0.02
"""The summaries of one run's launchers agree to this."""


def _duration(text: str) -> float | None:
    """``1m 60s`` or ``1 day, 0:01:02`` -> seconds."""
    if ":" in text:
        clock = _CLOCK_TIME.fullmatch(text)
        return int(clock[1] or 0) * _UNIT["d"] + float(seconds(clock[2])) if clock else None
    values = [int(part[1][:9]) * _UNIT[part[2]] for part in _DURATION.finditer(text)]
    return float(sum(values)) if values else None


_BAR_CLOCK = Reading(seconds, r"\d[\d:]*", plain=False)
_FINE = Reading(lambda text: number(text) if re.fullmatch(r"\d+\.\d{4,}", text) else None, r"\d+\.\d{4,15}")
_CLOCK = Reading(_duration, r"[\d:dhmsay, ]+", plain=False)


_FACTS = {
    "Num Epochs": "num_epochs",
    "Total optimization steps": "planned_steps",
    "Total train batch size": "gbs",
    "Instantaneous batch size per device": "mbs",
    "Gradient Accumulation steps": "accumulation_steps",
}


class HuggingFace(Dialect):
    """The Trainer's dictionaries, bars and summaries."""

    name = "hf"
    step_needles = (
        *(b"'loss':", b'"loss":', b"'train_runtime':", b"%|", b"Continuing training from global step", DONE),
        b'"percentage": 100.0',
    )
    fact_needles = (
        *(name.encode() for name in _FACTS),
        *(b"world_size: ", b"  world_size ....", b" max_length: ", b'"n_positions": ', b"16=True,", CONFIG),
    )
    fact_groups = (re.compile(r"\bworld_size(?:: | \.{4,} )(?P<num_gpus>\d{1,7})\b"), *_LENGTHS, _PRECISION)
    fact_pairs = re.compile(rf"({'|'.join(_FACTS)})(?: \(.*?\))? = ([\d,]{{1,15}})")
    fact_names = _FACTS
    may_skip = True
    closing = ("}", "]")
    varying_length = True

    def __init__(self) -> None:
        super().__init__()
        self._dictionaries = Columns(trainer_rows.DICTIONARY_TYPES)
        self._bars = Columns(trainer_rows.BAR_TYPES)
        self._summaries: list[tuple[float, float | None]] = []
        """Run time in s, and steps per second."""
        self._last: dict[str, str] = {}
        """Texts of the last dictionary."""
        self._closed: int | None = None
        """The last planned step, in LLaMA-Factory's record of the end, which has no loss."""
        self._from_start = False
        """Whether the first dictionary with a mean time is that of the first step."""
        self._guess: int | None = None
        """Planned steps by the bars; a log that goes on may show better ones."""
        self._resumed = 0
        """Steps that the last start found in a checkpoint: a summary counts them, but its time does not hold them."""

    def continued(self) -> Dialect:
        """The same reader: bars go to stderr, dictionaries to stdout."""
        return self

    def read(self, line: Line) -> None:
        """A dictionary, a bar, or a fact; a piece of line may hold the first two."""
        if resumed := _RESUMED.search(line.text):
            self._resumed = int(resumed[1])
        for bar in _bars_on(line.text):
            self.add(bar, line.number)
        if last := _LAST.search(line.text):
            self._closed = int(last["step"])
        dictionaries = list(_DICT.finditer(line.text)) if "{" in line.text and self.whole(line) else []
        for match in dictionaries:
            self._dictionary(_pairs(line.text, match), line.number)
        if not dictionaries and _may_be_fact(line.text):
            self.read_facts(line.text)

    def records(self, text: str) -> Iterator[Record]:
        """The bars of a line, and the dictionary of a step."""
        dictionaries = [_pairs(text, match) for match in _DICT.finditer(text)] if "{" in text else []
        if all("loss" in pairs for pairs in dictionaries) and (dictionaries or not _may_be_fact(text)):
            yield from _bars_on(text)
            yield from map(_record, dictionaries)

    @property
    def seen(self) -> bool:
        """Bars alone may be another program's."""
        return bool(len(self._dictionaries) or self._summaries)

    def _dictionary(self, pairs: dict[str, Value], line: int) -> None:
        texts = {name: value.text for name, value in pairs.items()}
        if "loss" in texts:
            before, self._last = self._last, texts
            if not _same_record(before, texts):
                self.add(_record(pairs), line)
        elif (run_time := positive(texts.get("train_runtime"))) is not None:
            self._summaries.append((run_time, positive(texts.get("train_steps_per_second"))))

    def complete(self, values: dict[str, Any]) -> None:
        """A clock from the mean time of all steps so far, which ms-swift prints on Megatron from the first step on."""
        mean_s, step = values.pop("mean_s", None), values.get("step")
        if mean_s is None or step is None:
            return
        self._from_start |= not len(self._dictionaries) and np.ravel(step)[0] == self.first_number
        if self._from_start:
            values["clock_s"] = mean_s * step

    def add_row(self, sink: str, values: dict[str, Any]) -> None:
        """A bar or a dictionary."""
        values["bars"] = len(self._bars)
        table: Columns = getattr(self, sink)
        table.append(map(values.get, table.none))

    def take(self, tables: Sequence[Table]) -> bool:
        """Many bars and dictionaries, where each dictionary is a record of its own."""
        by_sink = {table.sink: table for table in tables}
        drawn, printed = by_sink.get("_bars"), by_sink.get("_dictionaries")
        if printed:
            if not self._are_records(printed):
                return False
            self._last = _texts(printed.texts[printed.at[-1]])
            # On one line the bar stands before the dictionary.
            before = np.searchsorted(drawn.at, printed.at, side="right") if drawn else 0
            printed.columns["bars"] = len(self._bars) + before
        return super().take(tables)

    def extend(self, table: Table) -> None:
        """Many bars or dictionaries."""
        getattr(self, table.sink).append_columns(table.columns, len(table.at))

    def _are_records(self, printed: Table) -> bool:
        """Whether no dictionary can be the one before it, printed again."""
        values = [column for name, column in printed.columns.items() if name != "line"]
        repeated = [np.isclose(column[1:], column[:-1], rtol=0, atol=0, equal_nan=True) for column in values]
        first = _texts(printed.texts[printed.at[0]])
        return printed.alike and not np.all(repeated, axis=0).any() and not _same_record(self._last, first)

    def read_facts(self, text: str) -> None:
        """The configuration of this repository's worker, or what the Trainer prints before it starts."""
        facts = self.facts
        if configure(facts, text, "transformers"):
            return
        super().read_facts(text)
        if any(length.search(text) for length in _LENGTHS):
            facts.variable_length = True
        per_rank = (facts.mbs or 0) * (facts.accumulation_steps or 0)
        if facts.gbs and per_rank and facts.gbs % per_rank == 0:
            facts.derive("num_gpus", facts.gbs // per_rank, DATA_PARALLEL)

    def contradicts(self, facts: Facts) -> bool:
        """Lengths are stated in passing, and of more than one thing."""
        return replace(self.facts, planned_steps=self._stated_steps).contradict(replace(facts, seq_length=None))

    def finish(self) -> Rows:
        """Rows of the dictionaries where there are any, else of the bars, else of the summary."""
        facts, printed = self.facts, len(self._dictionaries)
        times = [time for time, _ in self._summaries]
        if times and max(times) <= min(times) * (1 + AGREE):
            facts.run_time_s = median(times)
        bars, stated = trainer_rows.bars_by_total(self._bars), self._stated_steps
        total = stated or self._steps_of_summary()
        total = trainer_rows.longest_total(bars, printed) if total is None else total
        drawn = bars.get(total, trainer_rows.NOT_DRAWN)
        steps = len(drawn.step)
        if self.seen and steps and stated is None:
            facts.planned_steps = self._guess = total
        made = facts.planned_steps or self._steps_of_summary()
        own = (made or 0) - self._resumed
        average_s = facts.run_time_s / own if facts.run_time_s and own > 0 else None
        clock, measured = self._dictionaries.columns("clock_s", "step_time_s")
        if printed:
            passed, drawn_last = self._steps_passed(), int(drawn.step.max(initial=0))
            every = round((passed - self._resumed) / printed) if passed else (drawn_last - self._resumed) // printed
            step = trainer_rows.numbers(self._dictionaries, self._bars, stated, max(every, 1), self._resumed)
            self.quantities = trainer_rows.quantities(self._dictionaries, step)
            self.post_training = len(self.quantities) == len(trainer_rows.QUANTITIES)
            if by_step := trainer_rows.tokens(self._dictionaries, step):
                self.quantities["tokens"], facts.variable_length = by_step, True
            planned = facts.planned_steps
            self.rows = trainer_rows.dictionary_rows(self._dictionaries, step, drawn, planned, average_s)
        elif self.seen and steps:
            self.rows = trainer_rows.bar_rows(drawn)
        elif self.seen and made and average_s is not None and made <= MOST_AVERAGED:
            facts.planned_steps = made
            self.rows = Rows(Step(step, average_s, 0) for step in range(self._resumed + 1, made + 1))
        clocked = printed and (clock[0] != NO_VALUE or (measured != NO_VALUE).any())
        self.only_average = bool(self._summaries) and len(self.rows) > 1 and not steps and not clocked
        fine = (clock[clock != NO_VALUE] % 1 != 0).any()
        self.whole_seconds = not printed or bool((measured == NO_VALUE).any() and not fine)
        self.reached = int(drawn.step.max()) if steps else self._closed
        self.rows.mixed = trainer_jobs.mixed(self._bars, self._dictionaries)
        return self.rows

    @property
    def _stated_steps(self) -> int | None:
        """The planned steps, where they are not a guess."""
        return None if self.facts.planned_steps == self._guess else self.facts.planned_steps

    def _steps_passed(self) -> float:
        """Planned steps times the part of the epochs that has passed; 0 where it is unknown or the run began again."""
        if not self.facts.num_epochs or trainer_rows.runs(self._dictionaries)[-1]:
            return 0.0
        epoch = max(float(self._dictionaries.column("epoch")[-1]), 0.0)
        return (self._stated_steps or 0) * epoch / self.facts.num_epochs

    def _steps_of_summary(self) -> int | None:
        """Steps by a summary: run time times rate, if only one whole number fits the three decimals."""
        for time, rate in self._summaries:
            if rate is not None and time * rate < MOST_SUMMARISED:
                low, high = ceil(time * (rate - 0.0005)), floor(time * (rate + 0.0005))
                if low == high and low > 0:
                    return low
        return None


def _bars_on(text: str) -> Iterator[Record]:
    """The bars of a line that may be the training's."""
    for bar in _BAR.finditer(text) if "%|" in text else ():
        before = text[max(bar.start() - LONGEST_LABEL, 0) : bar.start()]
        if not before.strip() or _BEFORE_BAR.search(before):
            yield Record(groups(bar, total=COUNT, clock_s=_BAR_CLOCK), "_bars", needs=None)


def _may_be_fact(text: str) -> bool:
    return any(sign in text for sign in (" = ", ": ", " ...", "16=True,"))


def _texts(line: str) -> dict[str, str]:
    """The texts of the dictionary on a line."""
    return {name: value.text for name, value in _pairs(line, _DICT.search(line)).items()}


def _pairs(text: str, match: re.Match[str] | None) -> dict[str, Value]:
    """The names and values of a dictionary on a line."""
    pairs = {}
    for pair in _PAIR.finditer(text, *match.span()) if match else ():
        group = pair.lastindex or 4
        value = pair[group].strip()
        pairs[pair[1]] = Value(pair[1], value, pair.start(group) + pair[group].index(value))
    return pairs


def _record(pairs: dict[str, Value]) -> Record:
    """A dictionary of a step."""
    # No row holds the learning rate; it tells two dictionaries apart.
    names = ("loss", "grad_norm", "step_time_s", "epoch", "learning_rate", "reward")
    values = [pairs[name] for name in names if name in pairs]
    length = pairs.get("completions/mean_length") or pairs.get("completion_length")
    if length:
        values.append(length._replace(column="response_tokens"))
    if seen := pairs.get("num_input_tokens_seen") or pairs.get("num_tokens"):
        values.append(seen._replace(column="tokens_seen"))
    if "train_runtime" in pairs and positive(pairs["train_runtime"].text):
        values.append(pairs["train_runtime"]._replace(column="clock_s"))
    elif "elapsed_time" in pairs:
        values.append(pairs["elapsed_time"]._replace(column="clock_s", reading=_CLOCK))
    elif "train_speed(s/it)" in pairs and _FINE.parse(pairs["train_speed(s/it)"].text):
        values.append(pairs["train_speed(s/it)"]._replace(column="mean_s", reading=_FINE))
    counters = ("global_step/max_steps", "iteration", "current_steps", "step", "global_step")
    both = next((pairs[name] for name in counters if name in pairs), None)
    if both and both.text:
        step, slash, planned = both.text.partition("/")
        values.append(Value("step", step, both.start, COUNT))
        if slash:
            values.append(Value("planned_steps", planned, both.start + len(step) + 1, COUNT))
        elif "total_steps" in pairs:
            values.append(pairs["total_steps"]._replace(column="planned_steps", reading=COUNT))
    return Record(values, "_dictionaries", needs=None)


def _same_record(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two dictionaries in a row are one: several launchers print it, and some loggers in two forms.

    The forms round differently, and have other fields; what both have must agree to three digits.
    """
    common = one.keys() & other.keys()
    forms = one.keys() != other.keys() and {"loss", "epoch", "learning_rate"} <= common
    return one == other or (forms and all(_digits(one[name]) == _digits(other[name]) for name in common))


def _digits(text: str) -> str:
    """Three digits of a number; any other text as it is."""
    value = number(text)
    return text if value is None else f"{value:.2e}"
