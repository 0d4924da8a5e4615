"""nemo2: NeMo 2 (nemo.collections.llm), in NeMo's containers 25.02 to 25.09."""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.frameworks.base import SLURM_VARIABLES
from benchrun.frameworks.nemo import NeMoOfCore
from benchrun.spec.runspec import RunSpec
from benchrun.spec.training import Training


class NeMo2(NeMoOfCore):
    """Its values are in a driver beside the job script."""

    name = "nemo2"
    step_lines = ("train_step_timing in s: ",)
    rank_variables = SLURM_VARIABLES
    releases = ("25.02", "25.09")
    files = ("train_nemo2.py",)

    def refusals(self, spec: RunSpec) -> Iterator[str]:
        """A seed that its mock data would ignore."""
        yield from super().refusals(spec)
        if spec.data.kind == "mock" and spec.training.seed != (seed := Training().seed):
            yield f"nemo2's mock data and weights have a seed of their own: training.seed must be {seed}"
