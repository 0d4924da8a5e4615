"""A workload that is no training: requests that are answered, by a framework with results in place of steps."""

import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, PositiveInt

from benchrun.frameworks.base import Framework
from benchrun.logs.dialect import Dialect
from benchrun.measure.metric import Metric
from benchrun.runspec.spec import Inputs, RunSpec
from site_pack import TEMPLATES


class AnsweringInputs(Inputs):
    """What a user can set."""

    requests: PositiveInt
    concurrency: PositiveInt
    prompt_words: int = Field(default=16, le=1000)


class AnsweringSpec(AnsweringInputs, RunSpec):
    """One run of the workload."""

    inputs = AnsweringInputs
    workload: Literal["answering"] = "answering"


class Oracle(Framework):
    """Answers on a CPU."""

    name = "oracle"
    workload = "answering"
    tasks = frozenset({"offline"})
    precisions = frozenset({"fp32"})
    needs_gpu = False
    step_lines = ("oracle result",)
    files = ("oracle.py",)
    folder = TEMPLATES

    def refusals(self, spec: AnsweringSpec) -> Iterator[str]:
        """One rule of its own."""
        if spec.concurrency > spec.requests:
            yield "concurrency must be at most requests"


class OracleLog(Dialect):
    """Results without steps."""

    name = "oracle"
    step_needles = (b"oracle result: ", b"oracle: all")
    result_pairs = re.compile(r"(\w+) = ([\d.]+)")
    end_words = "all requests answered"


def _answers(run: Any, _: Any) -> float | None:
    """Requests answered per second, as the log states them."""
    answered: float | None = run.results.get("requests_per_s")
    return answered


ANSWERS = Metric("requests_per_s", "requests/s", "higher", _answers, tabled=False)
