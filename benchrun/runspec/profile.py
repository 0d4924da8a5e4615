"""Profile of a run: the tool, how many steps after the measured ones, and which ranks."""

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, NonNegativeInt

from benchrun.model import Frozen
from benchrun.model.layout import Size

from .cluster import Option

T = TypeVar("T")
Tool = Literal["none", "kineto", "nsys", "xplane"]
Trace = Literal["cuda", "cudnn", "cublas", "osrt", "nvtx", "mpi", "ucx"]
PROFILES = "benchrun: steps after {} are profiled, not measured"
"""The line of a job's log by which the parser leaves out the steps that follow; with
the number of measured steps.
"""
SET_HERE = (
    "--output",
    "-o",
    "--force-overwrite",
    "-f",
    "--export",
    "--trace",
    "-t",
    "--show-output",
    "-w",
    "--capture-range",
    "-c",
    "--capture-range-end",
)
"""Options of nsys by which the rest of benchrun finds the traces."""


def _allowed(option: str) -> str:
    """``option``. ValueError for one of SET_HERE, and for a value after a space, which
    the shell would not part.
    """
    name = option.partition("=")[0]
    if " " in name:
        raise ValueError(
            f"an option and its value are one word, --name=value, e.g. {'='.join(option.split(None, 1))}"
        )
    if name in SET_HERE:
        advice = "leave it out"
        if name in ("--trace", "-t"):
            advice = "profile.trace states what is recorded"
        raise ValueError(f"benchrun sets {name} itself: {advice}")
    return option


def _some(values: tuple[T, ...]) -> tuple[T, ...]:
    """``values``. ValueError if there is none; an error of an item is reported before."""
    if not values:
        raise ValueError("name at least one")
    return values


class Profile(Frozen):
    """The profiled steps follow the measured ones, which run without a profile."""

    tool: Tool = "none"
    """kineto: torch.profiler; nsys: Nsight Systems; xplane: JAX's own profiler. Not
    every framework has all.
    """
    steps: Size = 3
    """Profiled steps."""
    ranks: Annotated[tuple[NonNegativeInt, ...], AfterValidator(_some)] = (0,)
    """Profiled ranks; each writes a trace of its own."""
    trace: Annotated[tuple[Trace, ...], AfterValidator(_some)] = ("cuda", "osrt", "nvtx")
    """Events that nsys records (its option --trace).

    For cudnn and cublas it loads libraries into the process, which must be those that
    PyTorch uses: docs/how-to/profile-a-run.md says how to name them.
    """
    options: tuple[Annotated[Option, AfterValidator(_allowed)], ...] = ()
    """More options of ``nsys profile``, each one word, e.g.
    ``--event-sample=system-wide``.
    """
