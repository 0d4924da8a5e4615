"""What to change, by cause."""

import functools

from benchrun.explain.model import Name
from benchrun.paths import table


def advice(cause: Name) -> str:
    """One sentence."""
    return _advice()[cause]


@functools.cache
def _advice() -> dict[str, str]:
    return {row["cause"]: row["advice"] for row in table(__file__)}
