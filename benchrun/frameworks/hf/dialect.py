"""Hugging Face Trainer (also under TRL, ms-swift, LLaMA-Factory, accelerate):
dictionaries, progress bars, a summary.

    {'loss': 2.55, 'grad_norm': 6.8, 'learning_rate': 5e-05, 'epoch': 0.01}
      6%|6         | 1/16 [00:58<14:41, 58.76s/it]
    {'train_runtime': 425.4, 'train_samples_per_second': 5.64, 'train_steps_per_second': 0.235, 'epoch': 1.0}

No line has a step's time. It is the difference of two clocks: of the run time, if every
dictionary has it; else in whole seconds, of ms-swift's ``elapsed_time`` or of the bar.
Without a clock only the mean over the whole run is known, from the summary. The
fine-tune of this repository measures each step, and adds ``step_time_s`` and ms-swift's
``global_step/max_steps``. trl's reinforcement learning prints rewards and lengths of
responses in the dictionaries. Bars of other work (loading, tokenizing, evaluation) look
alike: the training's are those with its number of steps. Source: logs of transformers 4
and 5, and of ms-swift; tqdm's default format.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, floor
from statistics import median
from typing import Any

import numpy as np

from benchrun.frameworks.megatron_core.dialect import CONFIG, DONE, configure
from benchrun.logs.columns import NO_VALUE, Column, Columns
from benchrun.logs.dialect import Dialect, Record, Table, Value
from benchrun.logs.lines import Line
from benchrun.logs.numerals import positive
from benchrun.logs.records import Facts
from benchrun.logs.rows import Rows, Step

from . import facts as trainer_facts
from . import jobs as trainer_jobs
from . import rows as trainer_rows
from .closing import ClosingRates, contradictions
from .lines import DICTIONARY, EVALUATED, bars_on, pairs_of, record_of, same_record, texts_of
from .pauses import CHECKPOINT, EVALUATION, PAUSE_TYPES, Pauses, before_bars, before_dictionaries

_SAVING = re.compile(
    r"Saving model checkpoint to|\bcheckpoint \S+ is about to be saved", re.IGNORECASE
)
_RESUMED = re.compile(r"Continuing training from global step (\d{1,15})\b")
_LAST = re.compile(
    r"['\"]current_steps['\"]: (?P<step>\d{1,12}), ['\"]total_steps['\"]: (?P=step), "
)
MOST_AVERAGED, MOST_SUMMARISED = 1 << 16, 1 << 20
"""Steps of a run of which only the average is known; steps that a summary's rate can
count.
"""
FINE_ROWS, MANY_MORE = 10, 3
"""Rows of a fine clock that are enough; and the factor over the dictionaries from which
bars win.
"""
FEWEST = 3
"""Dictionaries whose epochs show where the first of them stands."""
EPOCH_DIGIT = 0.01
"""The last digit of a printed epoch."""
AGREE = 0.02
"""The summaries of one run's launchers agree to this."""


class HuggingFace(Dialect):
    """The Trainer's dictionaries, bars and summaries."""

    name = "hf"
    step_needles = (
        b"'loss':",
        b'"loss":',
        b"_runtime'",
        b'_runtime"',
        b"_loss'",
        b'_loss"',
        b"%|",
        b"/it]",
        b"it/s]",
        DONE,
        b'"percentage": 100.0',
        b"Continuing training from global step",
        b"Saving model checkpoint to",
        b" is about to be saved",
    )
    fact_needles = (*trainer_facts.NEEDLES, CONFIG)
    fact_groups = (*trainer_facts.RANKS, trainer_facts.DEVICE)
    fact_pairs = trainer_facts.PAIRS
    fact_names = trainer_facts.NAMES
    may_skip = True
    shows_end = True
    closing = ("}", "]")
    varying_length = True

    def __init__(self) -> None:
        super().__init__()
        self._dictionaries = Columns(trainer_rows.DICTIONARY_TYPES)
        self._bars = Columns(trainer_rows.BAR_TYPES)
        self._pauses = Columns(PAUSE_TYPES)
        self._drawn_planned = False
        """Whether a bar of the stated number of steps was drawn."""
        self._summaries: list[ClosingRates] = []
        self._last: dict[str, str] = {}
        """Texts of the last dictionary."""
        self._closed: int | None = None
        """The last planned step, in LLaMA-Factory's record of the end, which has no
        loss.
        """
        self._from_start = False
        """Whether the first dictionary with a mean time is that of the first step."""
        self._guess: int | None = None
        """Planned steps by the bars; a log that goes on may show better ones."""
        self._examples: int | None = None
        """Examples that were stated last, maybe of an evaluation."""
        self._resumed = 0
        """Steps that the last start found in a checkpoint: a summary counts them, but
        its time does not hold them.
        """

    def continued(self) -> Dialect:
        """Continue with the same reader: bars go to stderr, dictionaries to stdout."""
        return self

    def read(self, line: Line) -> None:
        """A dictionary, a bar, or a fact; a piece of line may hold the first two."""
        if resumed := _RESUMED.search(line.text):
            self._resumed = int(resumed[1])
        for bar in bars_on(line.text):
            self.add(bar, line.number)
        if last := _LAST.search(line.text):
            self._closed = int(last["step"])
        if _SAVING.search(line.text):
            self._pause(CHECKPOINT)
        dictionaries = _dictionaries(line.text) if self.whole(line) else []
        for pairs in dictionaries:
            self._dictionary(pairs, line.number)
        if not dictionaries and _may_be_fact(line.text):
            self.read_facts(line.text)

    def records(self, text: str) -> Iterator[Record]:
        """The bars of a line, and the dictionary of a step."""
        dictionaries = _dictionaries(text)
        if not dictionaries and _may_be_fact(text):
            return
        if all("loss" in pairs for pairs in dictionaries):
            yield from bars_on(text)
            yield from map(record_of, dictionaries)

    @property
    def seen(self) -> bool:
        """Bars alone may be another program's."""
        return bool(len(self._dictionaries) or self._summaries or self._drawn_planned)

    def _pause(self, kind: int, seconds: float = 0.0) -> None:
        """Take an evaluation or a checkpoint between what was read and what follows."""
        self._pauses.append((len(self._bars), len(self._dictionaries), seconds, kind))

    def _dictionary(self, pairs: dict[str, Value], line: int) -> None:
        texts = {name: value.text for name, value in pairs.items()}
        if "rewards/chosen" in texts:
            stated = {"preferences": "pairs of answers, as DPO has them"}
            self.facts.add_options(stated)
        if "loss" in texts:
            before, self._last = self._last, texts
            if not same_record(before, texts):
                self.add(record_of(pairs), line)
        elif (run_time := positive(texts.get("train_runtime"))) is not None:
            steps = positive(texts.get("train_steps_per_second"))
            samples = positive(texts.get("train_samples_per_second"))
            self._summaries.append(ClosingRates(run_time, steps, samples))
        else:
            spent = []
            for name, text in texts.items():
                if EVALUATED.fullmatch(name):
                    spent.append(positive(text))
            self._pause(EVALUATION, sum(filter(None, spent)))

    def complete(self, values: dict[str, Any]) -> None:
        """A clock from the mean time of all steps so far, which ms-swift prints on
        Megatron from the first step on.
        """
        mean_s, step = values.get("mean_s"), values.get("step")
        if mean_s is None or step is None or "clock_s" in values:
            return
        self._from_start |= not len(self._dictionaries) and np.ravel(step)[0] == self.first_number
        if self._from_start:
            values["clock_s"] = mean_s * step

    def add_row(self, sink: str, values: dict[str, Any]) -> None:
        """A bar or a dictionary."""
        if sink == "_bars" and values.get("total"):
            self._drawn_planned |= (
                values["step"] not in (None, 0) and values["total"] == self._stated_steps
            )
        values["bars"] = len(self._bars)
        table: Columns = getattr(self, sink)
        table.append(map(values.get, table.none))

    def take(self, tables: Sequence[Table]) -> bool:
        """Many bars and dictionaries, if each dictionary is a record of its own."""
        by_sink = {table.sink: table for table in tables}
        drawn, printed = by_sink.get("_bars"), by_sink.get("_dictionaries")
        if printed:
            if not self._are_records(printed):
                return False
            self._last = texts_of(printed.texts[printed.at[-1]])
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
        repeated = []
        for column in values:
            repeated.append(np.isclose(column[1:], column[:-1], rtol=0, atol=0, equal_nan=True))
        first = texts_of(printed.texts[printed.at[0]])
        return (
            printed.alike
            and not np.all(repeated, axis=0).any()
            and not same_record(self._last, first)
        )

    def read_facts(self, text: str) -> None:
        """The configuration of this repository's worker, or what the Trainer prints
        before it starts.
        """
        facts = self.facts
        if configure(facts, text, "transformers"):
            return
        super().read_facts(text)
        self._examples = trainer_facts.take_examples(facts, text, self._examples)
        trainer_facts.take_trained_part(facts, text)
        trainer_facts.take_length(facts, text)
        trainer_facts.take_precision(facts, text)

    def contradicts(self, facts: Facts) -> bool:
        """Planned steps that were guessed contradict nothing."""
        return replace(self.facts, planned_steps=self._stated_steps).contradict(facts)

    def finish(self) -> Rows:
        """Rows of the bars if these are many more, of the dictionaries, or of the
        summary.
        """
        facts, printed = self.facts, len(self._dictionaries)
        times = [time for time, _, _ in self._summaries]
        if times and max(times) <= min(times) * (1 + AGREE):
            facts.run_time_s = median(times)
        at, kind = self._pauses.columns("bars", "kind")
        trainer_rows.rename_evaluations(self._bars, self._dictionaries, at[kind == EVALUATION])
        drawn = self._training_bars()
        missing = 0 if self._resumed else self._missing_by_epochs(drawn)
        self._resumed, self._unsure = self._resumed or missing, missing > 0
        average_s, rows = self._average_s(), Rows()
        pauses = before_bars(self._pauses, self._bars, drawn)
        timed = drawn._replace(clock_s=pauses.without(drawn.clock_s))
        if self.seen and len(drawn.step):
            rows = trainer_rows.bar_rows(timed, facts.planned_steps)
        self.whole_seconds, self.only_average = True, False
        if printed:
            pauses, step = self._dictionary_rows(timed, pauses, average_s, rows)
        elif len(rows):
            self.rows, step = rows, drawn.step
        elif self.seen and average_s is not None and self._made <= MOST_AVERAGED:
            facts.planned_steps = self._made
            self.rows = Rows(
                Step(step, average_s, 0) for step in range(self._resumed + 1, self._made + 1)
            )
            self.only_average = len(self.rows) > 1
        trainer_facts.derive(facts, counts_prompts=self.post_training)
        if self._summaries and self._made and not self._resumed and not self.post_training:
            run_time, _, samples = self._summaries[-1]
            trainer_facts.derive_batch(facts, samples or 0.0, run_time / self._made)
            last = drawn.clock_s[-1:][drawn.step[-1:] == self._made]
            clock_s = float(last[0]) if len(last) else None
            if len(self._summaries) == 1:
                summary, epoch = self._summaries[0], self._dictionaries.column("epoch")
                self.contradictions = [*contradictions(summary, self._made, clock_s)]
                epochs = facts.num_epochs or np.ceil(epoch.max(initial=0))
                self.counted = summary.counted(self._made, epochs)
        if printed or len(rows):
            self.other_work = pauses.work(self.rows, step)
        self.reached = int(drawn.step.max()) if len(drawn.step) else self._closed
        if (
            self._summaries
            and len(self.rows)
            and self._made - (self.rows.last_step or 0) < self.rows[len(self.rows) - 1].interval
        ):
            self.reached = self._made
        self.rows.mixed = trainer_jobs.mixed(self._bars, self._dictionaries)
        return self.rows

    def _training_bars(self) -> trainer_rows.Drawn:
        """The bars of the training, and with them the planned steps if no line states
        these.
        """
        bars, stated = trainer_rows.bars_by_total(self._bars), self._stated_steps
        total = stated or self._steps_of_summary()
        if total is None:
            of_run = np.bincount(trainer_rows.runs(self._dictionaries))
            total = trainer_rows.longest_total(bars, int(of_run.max(initial=0)))
        drawn = bars.get(total, trainer_rows.NOT_DRAWN)
        if self.seen and len(drawn.step) and stated is None:
            self.facts.planned_steps = self._guess = total
        return drawn

    @property
    def _made(self) -> int:
        """The planned steps, stated or guessed; 0 if nothing tells."""
        return self.facts.planned_steps or self._steps_of_summary() or 0

    def _average_s(self) -> float | None:
        """Seconds of a step by the run time, without evaluations; None if it or the
        steps are unknown.
        """
        own = self._made - self._resumed
        if not self.facts.run_time_s or own <= 0 or self._unsure:
            return None
        spent = self.facts.run_time_s - float(self._pauses.column("seconds").sum())
        if spent > 0:
            return spent / own
        return None

    def _dictionary_rows(
        self, drawn: trainer_rows.Drawn, pauses: Pauses, average_s: float | None, by_bars: Rows
    ) -> tuple[Pauses, Column]:
        """Set the rows. Returns the pauses in their clock, and the step at each of its
        rows.
        """
        clock, measured, mean = self._dictionaries.columns("clock_s", "step_time_s", "mean_s")
        step, at = self._numbers(drawn), drawn.step
        clock = trainer_rows.finer(clock, mean, step)
        own = (measured != NO_VALUE).any() or (clock != NO_VALUE).all()
        fine = (clock[clock != NO_VALUE] % 1 != 0).any()
        if own:
            pauses, at = before_dictionaries(self._pauses, len(step)), step
            clock = clock if (clock == NO_VALUE).any() else pauses.without(clock)
        planned = self.facts.planned_steps
        rows = trainer_rows.dictionary_rows(
            self._dictionaries, step, clock, drawn, planned, average_s
        )
        untimed = not len(drawn.step) and not own and clock[0] == NO_VALUE
        self.only_average = bool(self._summaries and len(rows) > 1 and untimed)
        self.whole_seconds = bool((measured == NO_VALUE).any() and not fine)
        self._take_quantities(
            step, np.where(clock == NO_VALUE, trainer_rows.clocks(step, drawn), clock)
        )
        # Rows without a pause that a finer clock times.
        pure = len(rows) - len(pauses.work(rows, at)) if fine or (measured != NO_VALUE).any() else 0
        timed = int((by_bars.column("step_time_s") != NO_VALUE).sum())
        if pure < FINE_ROWS and timed >= MANY_MORE * len(rows):
            self.whole_seconds, rows = True, trainer_rows.with_losses(by_bars, rows)
            pauses, at = before_bars(self._pauses, self._bars, drawn), drawn.step
            spread = {}
            for name, each in self.quantities.items():
                spread[name] = trainer_rows.spread_over(each, rows)
            self.quantities = spread
        self.rows = rows
        return pauses, at

    def _numbers(self, drawn: trainer_rows.Drawn) -> Column:
        """The step of each dictionary."""
        printed, passed = len(self._dictionaries), self._steps_passed()
        made = passed or int(drawn.step.max(initial=0))
        every = (int(made) - self._resumed) // printed
        if passed:
            every = round((made - self._resumed) / printed)
        return trainer_rows.numbers(
            self._dictionaries, self._bars, self._stated_steps, max(every, 1), self._resumed
        )

    def _missing_by_epochs(self, drawn: trainer_rows.Drawn) -> int:
        """The steps before the first dictionary's, if its epoch or number is no start's: a
        checkpoint had them, or a cut took their lines, so that nobody knows how many steps
        the run time is of.
        """
        epoch, own = self._dictionaries.columns("epoch", "step")
        place = own if (own > 0).all() else epoch
        if len(drawn.step) or len(place) < FEWEST:
            return 0
        made = self._steps_passed() or self._made
        apart = float(place[-1] - place[0]) / (len(place) - 1)
        began = not apart > 0 or place[0] <= 2 * apart + EPOCH_DIGIT
        if began or trainer_rows.runs(self._dictionaries)[-1]:
            return 0
        return round(float(place[0] - apart) / float(place[-1]) * made)

    def _take_quantities(self, step: Column, clock: Column) -> None:
        """Rewards, lengths, rates and tokens of the dictionaries, by step."""
        self.quantities = trainer_rows.quantities(self._dictionaries, step)
        self.post_training = self.quantities.keys() >= {*trainer_rows.QUANTITIES}
        if by_step := trainer_rows.tokens(self._dictionaries, step, clock):
            self.quantities["tokens"], self.facts.variable_length = by_step, True

    @property
    def _stated_steps(self) -> int | None:
        """The planned steps, if they are not a guess."""
        if self.facts.planned_steps == self._guess:
            return None
        return self.facts.planned_steps

    def _steps_passed(self) -> float:
        """Planned steps times the part of the epochs that has passed; 0 if it is
        unknown or the run began again.
        """
        if not self.facts.num_epochs or trainer_rows.runs(self._dictionaries)[-1]:
            return 0.0
        epoch = max(float(self._dictionaries.column("epoch")[-1]), 0.0)
        return (self._stated_steps or 0) * epoch / self.facts.num_epochs

    def _steps_of_summary(self) -> int | None:
        """Steps by a summary: run time times rate, if only one whole number fits the
        three decimals.
        """
        for time, rate, _ in self._summaries:
            if rate is not None and time * rate < MOST_SUMMARISED:
                low, high = ceil(time * (rate - 0.0005)), floor(time * (rate + 0.0005))
                if low == high and low > 0:
                    return low
        return None


def _dictionaries(text: str) -> list[dict[str, Value]]:
    """The dictionaries of a line."""
    if "{" not in text:
        return []
    return [pairs_of(text, match) for match in DICTIONARY.finditer(text)]


def _may_be_fact(text: str) -> bool:
    return any(sign in text for sign in (" = ", ": ", " ...", "16=True,", "_type=", "_size="))
