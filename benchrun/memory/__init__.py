"""Estimates the GPU memory of a run before the job waits in a queue."""

from .estimate import ESTIMATE_ERROR, Memory, estimate, impossible, warning

__all__ = ["ESTIMATE_ERROR", "Memory", "estimate", "impossible", "warning"]
