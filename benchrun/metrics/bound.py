"""The time of a step if its matrix products ran as fast as they did alone.

The worker measures ceilings.json before its first step (benchrun/trainer/ceiling.py): each product of the operator list
in the three passes of training, on all ranks at once; the slowest rank counts.
"""

from __future__ import annotations

from benchrun.model import Frozen, ModelShape
from benchrun.model.flops import PASSES, attention_scores
from benchrun.model.operators import MULTIPLY_ADD, Pass, weight_passes
from benchrun.spec.artifacts import Ceilings, Gemm, Number
from benchrun.vocabulary import Task


class Bound(Frozen):
    """A step of one GPU beside its ceiling, in s. Recomputed products count as rest: they are no progress."""

    step_s: float
    matmul_s: float
    """Every linear layer and the logits, forward and backward, at the measured ceilings."""
    attention_tflop: float
    """Of scores and values, causal, forward and backward."""
    attention_s: float
    """At the fastest product of its precision: a lower bound, no attention kernel reaches it."""
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
    """What bounds a step; None where a product was not measured in the precision in which the run computed it.

    ``sequences_per_gpu``: the global batch over the number of GPUs. ``fp8_attention`` matters for precision fp8 alone.
    """
    high: Number = "fp32" if precision == "fp32" else "bf16"
    matmul = 0.0
    for gemm in ceilings.gemms:
        number: Number = "fp8" if precision == "fp8" and gemm.low_precision else high
        if number not in gemm.tflops:
            return None
        matmul += num_microbatches * _seconds(gemm, number, weight_passes(task))
    best = _best_tflops(ceilings, "fp8" if precision == "fp8" and fp8_attention else high)
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


def _seconds(gemm: Gemm, number: Number, passes: tuple[Pass, ...]) -> float:
    """Time of this product in a micro-batch, at its ceiling."""
    flops = gemm.count * MULTIPLY_ADD * gemm.m * gemm.n * gemm.k
    return sum(flops / (gemm.tflops[number][each] * 1e12) for each in passes)


def _best_tflops(ceilings: Ceilings, number: Number) -> float | None:
    """The fastest product of the forward pass."""
    return max((gemm.tflops[number]["forward"] for gemm in ceilings.gemms if number in gemm.tflops), default=None)
