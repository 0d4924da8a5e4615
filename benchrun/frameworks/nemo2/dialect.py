"""NeMo 2: one line per step, from its ProgressPrinter.

    Training epoch 0, iteration 3/99 | lr: 1e-06 | global_batch_size: 128 | global_step: 3 | reduced_train_loss: 11.03
    | train_step_timing in s: 12.64 | TFLOPS_per_GPU: 712.3 | consumed_samples: 512         (on one line)

Steps count from 0, the iteration within an epoch, the denominator is the last
iteration; four significant digits. The order of the fields changes after a restart and
after a validation. Source: NVIDIA/NeMo
nemo/lightning/pytorch/callbacks/progress_printer.py.
"""

import re
from collections.abc import Iterator

from benchrun.frameworks.lightning import facts as lightning
from benchrun.logs.dialect import (
    COUNT,
    NUMBER,
    Dialect,
    Reading,
    Record,
    closed_fields,
    columns,
    fields,
    groups,
    headed,
)
from benchrun.logs.numerals import count
from benchrun.logs.rows import Rows

_HEAD = re.compile(
    r"Training epoch \d{1,9}, iteration (?P<step>\d{1,15})/(?P<planned_steps>\d{1,15}) \| "
)
_TIME = "train_step_timing in s"
_LAST = COUNT._replace(scale=lambda value: value + 1)
_CLOSED = Reading(pattern=r"\d{2,3}\.\d{1,2}|\d(?:\.\d{1,3})?e\+\d\d")
"""A rate at the end of a line: if it is cut, by less than 1 %; an exponent is whole."""
_SAMPLES = {
    "consumed_samples": (
        "consumed_samples",
        Reading(lambda text: count(text) if text.isdigit() else None, r"\d{1,15}"),
    ),
}
_NAMES = {
    _TIME: ("step_time_s", NUMBER),
    "reduced_train_loss": ("loss", NUMBER),
    "grad_norm": ("grad_norm", NUMBER),
    "global_batch_size": ("global_batch_size", NUMBER),
    **_SAMPLES,
    "TFLOPS_per_GPU": ("tflops_per_gpu", NUMBER),
    "tokens_per_sec_per_gpu": ("tokens_per_s_per_gpu", NUMBER),
}
_RATES = {
    name: (column, _CLOSED) for name, (column, _) in _NAMES.items() if column.endswith("_per_gpu")
}
_WHOLE = re.compile(_CLOSED.pattern)


class Nemo2(Dialect):
    """NeMo 2.x."""

    name = "nemo2"
    step_needles = (b"train_step_timing in s: ",)
    fact_needles = (
        *lightning.NEEDLES,
        *lightning.SPREAD_NEEDLES,
        *lightning.WORK_NEEDLES,
        lightning.LORA.encode(),
    )
    fact_groups = lightning.FACTS
    first_number = 0
    one_rank_prints = True
    averages = ("rows",)

    def __init__(self) -> None:
        super().__init__()
        self._spread = lightning.Spread()

    def records(self, text: str) -> Iterator[Record]:
        """Every record of a line."""
        for head, end in headed(_HEAD, text):
            # At the end of a line a number may be cut, so the last field does not
            # count. But after a restart the time stands there by right, behind the
            # samples; and in a run's first row, whose time includes start-up anyway.
            pieces, closed = closed_fields(text, head.end(), end, " | ")
            final = fields(text, closed + 3, end, " | ")
            rates = [v for v in columns(final, _RATES) if _WHOLE.fullmatch(v.text)]
            rates += columns(final, _SAMPLES)  # one of many rows may be cut
            last = text.startswith(_TIME, closed + 3 if closed > head.end() else closed)
            if last and "consumed_samples" in pieces:
                pieces |= fields(text, closed + 3, end, " | ")
            first = last and (not len(self.rows) or self.rows.ended)
            values = [*groups(head, planned_steps=_LAST), *columns(pieces, _NAMES), *rates]
            if (step := pieces.get("global_step")) and COUNT.parse(step.text) is not None:
                values[0] = step._replace(column="step", reading=COUNT)
            yield Record(values, needs="step" if first else "step_time_s", usual=not first)

    def read_facts(self, text: str) -> None:
        """Read the facts, the groups of ranks too, and whether adapters are trained."""
        super().read_facts(text)
        self._spread.read(text, self.facts)
        lightning.read_work(text, self.facts)
        if lightning.LORA in text:
            self.facts.task = "lora"

    def finish(self) -> Rows:
        """The rows; their batch gives the micro-batch."""
        batches = self.rows.column("global_batch_size")
        if len(batches) and (mbs := self._spread.micro_batch(int(batches[-1]))):
            self.facts.mbs = mbs
        return self.rows
