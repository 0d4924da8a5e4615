"""Base of the dialects of post-training: a step has stages, and some steps hold a
validation or a checkpoint.

Stages are named alike whatever the framework prints; only stages that follow one
another are ever added up. A rate of a stage is the step's tokens, prompts and
responses, over the stage's seconds and the GPUs that work in it.
"""

from collections.abc import Mapping

from benchrun.logs.dialect import Dialect
from benchrun.logs.numerals import positive
from benchrun.logs.rows import Step


class Rollouts(Dialect):
    """Reads steps of reinforcement learning."""

    varying_length = True
    post_training = True
    one_rank_prints = True

    def add_step(
        self, row: Step, quantities: Mapping[str, float | None], other_work: str | None = None
    ) -> None:
        """Add a row, its ``quantities`` and what else its time contains."""
        self.rows.add(row, end=self.last_planned)
        self.measure(row.step, quantities, other_work)

    def measure(
        self, step: int, quantities: Mapping[str, float | None], other_work: str | None = None
    ) -> None:
        """Add ``quantities`` to a step."""
        for name, value in quantities.items():
            if value is not None:
                self.quantities.setdefault(name, {})[step] = value
        if other_work:
            self.other_work[step] = other_work


def total(values: Mapping[str, str], *names: str) -> float | None:
    """The sum of those of ``names`` that are times above zero; None if none is. For
    stages that do not overlap.
    """
    times = []
    for name in names:
        if (time := positive(values.get(name))) is not None:
            times.append(time)
    return sum(times) if times else None


def first(values: Mapping[str, str], *names: str) -> float | None:
    """The first of ``names`` that is a time above zero; None if none is."""
    return next((time for name in names if (time := positive(values.get(name))) is not None), None)
