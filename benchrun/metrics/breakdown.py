"""Where the time of one step went, as a profiler saw it. benchrun/trainer/breakdown.py writes breakdown.json."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, PositiveFloat

from benchrun.model import Frozen


class Breakdown(Frozen):
    """One step after the measured ones, in s; the mean over ranks. The parts but ``hidden_s`` add up to the step.

    Where kernels overlap, the time is the first's of: matrix products, attention, others, communication.
    """

    schema_version: Literal[1] = 1
    step_s: PositiveFloat
    """With the profiler looking on."""
    matmul_s: NonNegativeFloat
    attention_s: NonNegativeFloat
    other_s: NonNegativeFloat
    """Norms, activations, casts, copies, the optimizer."""
    communication_s: NonNegativeFloat
    """While nothing else ran: also waiting for other ranks, and a pipeline's bubble."""
    idle_s: NonNegativeFloat
    """The GPU had nothing to do."""
    hidden_s: NonNegativeFloat
    """Communication beside other kernels."""

    @property
    def sentence(self) -> str:
        """One line for a person."""
        parts = {
            "matmul": self.matmul_s,
            "attention": self.attention_s,
            "other kernels": self.other_s,
            "communication alone": self.communication_s,
            "nothing": self.idle_s,
        }
        said = ", ".join(f"{name} {100 * part / self.step_s:.1f} %" for name, part in parts.items())
        return f"{said} of a profiled step of {self.step_s:.4g} s; {self.hidden_s:.3g} s of communication were hidden"
