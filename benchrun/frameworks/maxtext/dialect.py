"""MaxText: one line per step.

    completed step: 10, seconds: 13.360, TFLOP/s/device: 305.127, Tokens/s/device: 3679.158, loss: 10.565

JAX dispatches asynchronously: step 0 compiles, the next one or two seem to take no time
at all, then one absorbs the backlog. Steps count from 0. Source:
AI-Hypercomputer/maxtext src/maxtext/common/metric_logger.py and its forms of 2024 and
2025.
"""

import re
from collections.abc import Iterator

from benchrun.logs.dialect import (
    NUMBER,
    Dialect,
    Reading,
    Record,
    Value,
    closed_fields,
    columns,
    groups,
    headed,
)
from benchrun.logs.numerals import NOT_FINITE

from .config import take_parameter

_STEP = re.compile(r"completed step: (?P<step>\d{1,15}),\s*(?=seconds: )")
_LAST = re.compile(rf"\s*(loss|lm_loss):\s{{1,16}}(-?\d+\.\d{{3}}|{NOT_FINITE}(?:\.0*)?)\s*")
_CLOSED = Reading(pattern=r"-?\d+\.\d{3}")
_NAMES = {
    "seconds": ("step_time_s", NUMBER),
    **dict.fromkeys(("loss", "lm_loss"), ("loss", _CLOSED)),
    **dict.fromkeys(("TFLOP/s/device", "TFLOP/s"), ("tflops_per_gpu", NUMBER)),
    "Tokens/s/device": ("tokens_per_s_per_gpu", NUMBER),
}
_PARAMETER = re.compile(r"Config param (\w{1,80}): ?(\S.{0,600}?|)\s*$")


class MaxText(Dialect):
    """MaxText since 2024."""

    name = "maxtext"
    step_needles = (b"completed step: ",)
    fact_needles = (b"Config param ", b"Num_devices: ")
    first_number = 0
    printed_conventions = ("full", "causal")
    fact_groups = (re.compile(r"Num_devices: (?P<num_gpus>\d{1,9}),"),)

    def __init__(self) -> None:
        super().__init__()
        self._config: dict[str, str] = {}

    def records(self, text: str) -> Iterator[Record]:
        """Every record of a line."""
        for head, end in headed(_STEP, text):
            # Every number but the last is closed by a comma; the last is a loss, with
            # three decimals.
            pieces, closed = closed_fields(text, head.end(), end, ",")
            if last := _LAST.fullmatch(text, closed + 1, end):
                pieces.setdefault(last[1], Value(last[1], last[2], last.start(2)))
            yield Record([*groups(head), *columns(pieces, _NAMES)])

    def read_facts(self, text: str) -> None:
        """The number of devices, or a parameter of the configuration."""
        super().read_facts(text)
        if parameter := _PARAMETER.search(text):
            take_parameter(self._config, parameter[1], parameter[2], self.facts)
