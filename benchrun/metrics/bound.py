"""What a step would take if its matrix products ran as fast as they did alone: what is left is everything else.

ceilings.json is written by the worker before its first step (benchrun/trainer/ceiling.py). Each product was timed at
the shape that it has in the model, in the three forms of training, on all ranks at once; the slowest rank counts.
"""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from benchrun.model import Frozen, ModelShape
from benchrun.model.flops import PASSES, attention_scores
from benchrun.vocabulary import Task

Pass = Literal["forward", "input_gradient", "weight_gradient"]
Number = Literal["fp32", "bf16", "fp8"]
PASSES_IN_ORDER: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")


class Gemm(Frozen):
    """One matrix product of the model: (m x k) times (k x n) in the forward pass."""

    name: str
    m: PositiveInt
    n: PositiveInt
    k: PositiveInt
    count: PositiveFloat
    """How often a GPU makes it a micro-batch, the mean over pipeline stages."""
    low_precision: bool
    """Whether FP8 training makes it in FP8: the output layer stays in BF16."""
    tflops: dict[Number, dict[Pass, PositiveFloat]]
    """By precision and pass."""

    def seconds(self, precision: Number, passes: tuple[Pass, ...]) -> float:
        """All of a micro-batch's, at the ceiling."""
        rates = self.tflops[precision]
        return sum(self.count * 2 * self.m * self.n * self.k / (rates[each] * 1e12) for each in passes)


class Collective(Frozen):
    """One collective among the ranks of a group."""

    name: str
    group: str
    ranks: PositiveInt
    size_mib: PositiveFloat
    bus_gb_per_s: PositiveFloat
    """By the convention of nccl-tests: 10^9 bytes/s, times 2 (n - 1) / n for all-reduce, (n - 1) / n for the others."""


class Ceilings(Frozen):
    """ceilings.json."""

    schema_version: Literal[1] = 1
    device: str
    seconds: NonNegativeFloat
    """How long measuring took."""
    gemms: tuple[Gemm, ...]
    copy_gb_per_s: PositiveFloat
    """Device to device, bytes read and written."""
    collectives: tuple[Collective, ...]

    def best_tflops(self, precision: Number) -> float | None:
        """The fastest product of the forward pass."""
        return max((gemm.tflops[precision]["forward"] for gemm in self.gemms if precision in gemm.tflops), default=None)


class Bound(Frozen):
    """A step of one GPU beside its ceiling, in s. Recomputed products count as rest: they are no progress."""

    step_s: float
    matmul_s: float
    """Every linear layer and the logits, forward and backward, at the measured ceilings."""
    attention_tflop: float
    """Of scores and values, causal, forward and backward."""
    attention_s: float
    """At the fastest product of its precision: no attention kernel reaches it, so it takes at least this."""
    rest_s: float
    """The step without both: slower attention, memory-bound kernels, exposed communication, optimizer, gaps."""

    @property
    def sentence(self) -> str:
        """One line for a person."""
        return (
            f"matmul at ceiling would take {self.matmul_s:.4g} s of the step's {self.step_s:.4g} s "
            f"({100 * self.matmul_s / self.step_s:.0f} %), attention at least {self.attention_s:.4g} s, "
            f"the rest takes {self.rest_s:.4g} s"
        )


def bound(
    ceilings: Ceilings,
    *,
    model: ModelShape,
    seq_length: int,
    sequences_per_gpu: float,
    num_microbatches: int,
    precision: str,
    fp8_attention: bool,
    task: Task,
    step_time_s: float,
) -> Bound | None:
    """What bounds a step; ``sequences_per_gpu`` is the global batch over the number of GPUs.

    ``fp8_attention`` counts where ``precision`` is fp8.

    None where a product was not measured in the precision that the run made it in.
    """
    high: Number = "fp32" if precision == "fp32" else "bf16"
    passes = PASSES_IN_ORDER[:2] if task == "lora" else PASSES_IN_ORDER  # frozen weights have no gradient
    matmul = 0.0
    for gemm in ceilings.gemms:
        number: Number = "fp8" if precision == "fp8" and gemm.low_precision else high
        if number not in gemm.tflops:
            return None
        matmul += num_microbatches * gemm.seconds(number, passes)
    best = ceilings.best_tflops("fp8" if precision == "fp8" and fp8_attention else high)
    if best is None:
        return None
    attention = PASSES * attention_scores(model, seq_length) / 2 * sequences_per_gpu * seq_length / 1e12
    return Bound(
        step_s=step_time_s,
        matmul_s=matmul,
        attention_tflop=attention,
        attention_s=attention / best,
        rest_s=step_time_s - matmul - attention / best,
    )
