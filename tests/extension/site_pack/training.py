"""A framework that trains on one CPU, the log that it prints, a metric, and the step time that it should reach."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchrun.frameworks.base import Framework
from benchrun.frameworks.environment import Variable
from benchrun.logs.dialect import COUNT, DECIMAL, Dialect, Record, Value
from benchrun.measure.metric import Metric
from benchrun.runspec.spec import RunSpec
from site_pack import TEMPLATES


class Abacus(Framework):
    """Trains in FP32 on one CPU."""

    name = "abacus"
    tasks = frozenset({"pretrain"})
    precisions = frozenset({"fp32"})
    needs_gpu = False
    degrees = ()
    fsdp = False
    step_lines = ("abacus step ",)
    files = ("abacus.py",)
    folder = TEMPLATES

    def refusals(self, spec: RunSpec) -> Iterator[str]:
        """One rule of its own."""
        if spec.training.seed == 13:
            yield "abacus is superstitious: training.seed must not be 13"

    def environment(self, spec: RunSpec) -> dict[str, Variable]:
        """One variable."""
        return {"ABACUS": Variable("on", "it counts only when it is on")}

    def configuration(self, spec: RunSpec) -> dict[str, Any]:
        """One value for its template."""
        return {"beads": 42}


class AbacusLog(Dialect):
    """One line a step."""

    name = "abacus"
    step_needles = (b"abacus step ", b"abacus plans ")
    end_words = "abacus is done"
    _step = re.compile(r"abacus step (\d{1,15}) took (\d+\.\d+) s, loss (\d+\.\d+)\b")

    def records(self, text: str) -> Iterator[Record]:
        """The step of a line."""
        if match := self._step.search(text):
            yield Record(
                [
                    Value("step", match[1], match.start(1), COUNT),
                    Value("step_time_s", match[2], match.start(2), DECIMAL),
                    Value("loss", match[3], match.start(3), DECIMAL),
                ]
            )


def _p95(run: Any, _: Any) -> float | None:
    """95th percentile of the step time over the window."""
    return run.step_time_s.p95 if run.step_time_s else None


SLOWEST = Metric("p95_step_s", "s", "lower", _p95, tabled=False)


class Expected(NamedTuple):
    """How long a step should take, in s, with its 90 % interval."""

    median: float
    low: float
    high: float
    calibration: str = "the maker of the abacus"


def expected_step(spec: RunSpec) -> Expected | None:
    """A step of an abacus takes 10 ms, whatever it counts."""
    return Expected(0.010, 0.008, 0.012) if spec.framework == Abacus.name else None
