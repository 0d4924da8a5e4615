"""Estimates the GPU memory of a run before the job waits in a queue."""

from benchrun.memory.estimate import ESTIMATE_ERROR, Memory, estimate, impossible, warning

__all__ = ["ESTIMATE_ERROR", "Memory", "estimate", "impossible", "warning"]
