"""Expected errors: each has a message and may have a hint that shows the correction."""

from __future__ import annotations


class BenchrunError(Exception):
    """Base of all expected errors, which the command line prints without a traceback.

    ``where`` is a place such as ``recipes/x.yaml:12``; ``hint`` describes the correction.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\nhint: {self.hint}" if self.hint else text


class UserError(BenchrunError):
    """Wrong input: a recipe, a cluster profile, an option, a log file (exit code 2)."""


class MachineError(BenchrunError):
    """Slurm or the machine refuses or fails (exit code 3)."""

    exit_code = 3


class SchedulerUnavailable(MachineError):
    """The scheduler does not answer. The state of the jobs is unchanged: ask again later."""
