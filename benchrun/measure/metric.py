"""One metric: its name, its unit, and how its value is read from a measurement."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchrun.vocabulary import Better

if TYPE_CHECKING:
    from .model import Measurement


@dataclass(frozen=True)
class Basis:
    """Basis of a published number beside the run: ours is read on the same one."""

    convention: str = "causal"
    """How FLOPs are counted: full or causal."""
    peak_tflops: float | None = None
    """Divisor of an MFU; the dense peak of the run's precision if None."""
    gbs: int | None = None
    """Sequences per step, of all GPUs."""


OURS = Basis()
Read = Callable[["Measurement", Basis], float | None]


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    """Name in the reference files, with its unit."""
    unit: str
    better: Better
    read: Read
    """The value of a measurement on a basis; None if the log does not give it."""
    title: str = ""
    """Heading in tables for readers."""
    format: str = ".4g"
    """Format of a value in tables for readers."""
    suffix: str = ""
    """Text after a formatted value, if the heading has no unit."""
    column: str = ""
    """Key in JSON, CSV and tables, if it is not ``name``: with the convention that ours
    is counted by.
    """
    tabled: bool = True
    """Whether runs have a column of it."""
    comparable: bool = True
    """Whether one run's speed is compared with a reference in it."""
    served: bool = False
    """Whether only runs of servers have it: other runs have no column of it."""
    counts_flops: bool = False
    """Whether it needs a count of FLOPs, and so a convention."""

    @property
    def how(self) -> str:
        """How it is computed, in one sentence: the docstring of ``read``."""
        return self.read.__doc__ or ""

    @property
    def key(self) -> str:
        """Key in JSON, CSV and tables."""
        return self.column or self.name

    def text(self, value: float | None, missing: str = "-") -> str:
        """A value for a reader."""
        if value is None:
            return missing
        return f"{value:{self.format}}{self.suffix}"
