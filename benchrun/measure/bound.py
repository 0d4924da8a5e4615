"""The time of a step if its matrix products ran as fast as they did alone.

The worker measures ceilings.json before its first step (benchrun/worker/ceiling.py):
each product of the operator list in the three passes of training, on all ranks at once;
the slowest rank counts.
"""

from benchrun.model import Frozen
from benchrun.model.flops import PASSES, attention_scores
from benchrun.model.operators import MULTIPLY_ADD, Pass, weight_passes
from benchrun.rundir.artifacts import Ceilings, Gemm
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import Precision

from .statistics import Spread


class Bound(Frozen):
    """A step of one GPU beside its ceiling, in s. Recomputed products count as rest:
    they are no progress.
    """

    step_s: float
    matmul_s: float
    """Every linear layer and the logits, forward and backward, at the measured
    ceilings.
    """
    attention_tflop: float
    """TFLOP of scores and values, causal, forward and backward."""
    attention_s: float
    """Seconds of attention at the rate of the fastest product of its precision: a lower
    bound that no attention kernel reaches.
    """
    rest_s: float
    """The step without both: slower attention, memory-bound kernels, exposed
    communication, optimizer, gaps.
    """

    @property
    def sentence(self) -> str:
        """One line for a person."""
        return (
            f"matmul at ceiling would take {self.matmul_s:.4g} s of the step's {self.step_s:.4g} s "
            f"({100 * self.matmul_s / self.step_s:.0f} %), attention at least {self.attention_s:.4g} s, "
            f"the rest takes {self.rest_s:.4g} s"
        )


def bound(ceilings: Ceilings | None, spec: RunSpec, step_time_s: Spread | None) -> Bound | None:
    """Bound of a step; None if a product was not measured in the precision in which the
    run computed it.
    """
    if (
        ceilings is None
        or step_time_s is None
        or not isinstance(spec, TrainingSpec)
        or spec.precision == "nvfp4"
    ):
        return None
    fp8, training = spec.precision == "fp8", spec.training
    high: Precision = "fp32" if spec.precision == "fp32" else "bf16"
    numbers: list[Precision] = []
    for gemm in ceilings.gemms:
        numbers.append("fp8" if fp8 and gemm.low_precision else high)
    of_attention = "fp8" if fp8 and training.fp8.dot_product_attention else high
    forward = []
    for gemm in ceilings.gemms:
        if of_attention in gemm.tflops:
            forward.append(gemm.tflops[of_attention]["forward"])
    products = list(zip(ceilings.gemms, numbers, strict=True))
    if not forward or any(number not in gemm.tflops for gemm, number in products):
        return None
    passes = weight_passes(spec.task)
    matmul = sum(
        spec.num_microbatches * _seconds(gemm, number, passes) for gemm, number in products
    )
    scores = PASSES * attention_scores(spec.model, spec.seq_length) / 2
    attention = scores * (spec.gbs / spec.num_gpus) * spec.seq_length / 1e12
    attention_s, step_s = attention / max(forward), step_time_s.median
    parts = {"matmul_s": matmul, "attention_tflop": attention, "attention_s": attention_s}
    return Bound(step_s=step_s, **parts, rest_s=step_s - matmul - attention_s)


def _seconds(gemm: Gemm, number: Precision, passes: tuple[Pass, ...]) -> float:
    """Time of this product in a micro-batch, at its ceiling."""
    flops = gemm.count * MULTIPLY_ADD * gemm.m * gemm.n * gemm.k
    return sum(flops / (gemm.tflops[number][each] * 1e12) for each in passes)
