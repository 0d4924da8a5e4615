"""Causes with what to change about them."""

import functools

from benchrun.explain.model import Cause, Name
from benchrun.paths import table


def fault(cause: Name, seconds: float, evidence: str, rank: int | None = None, host: str | None = None) -> Cause:
    """A cause of kind ``fault``; ``seconds`` of a step."""
    return Cause(
        cause=cause, kind="fault", seconds=seconds, rank=rank, host=host, evidence=evidence, advice=advice(cause)
    )


def choice(cause: Name, seconds: float, evidence: str) -> Cause:
    """A cause of kind ``choice``; ``seconds`` of a step."""
    return Cause(cause=cause, kind="choice", seconds=seconds, evidence=evidence, advice=advice(cause))


def advice(cause: Name) -> str:
    """One sentence."""
    return _advice()[cause]


@functools.cache
def _advice() -> dict[str, str]:
    return {row["cause"]: row["advice"] for row in table(__file__)}
