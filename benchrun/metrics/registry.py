"""Every metric, once. An entry here appears in JSON, in every table, as a reference and in plots without more code.

To add one, write the function that reads its value from a measurement; its docstring says how the value is computed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchrun.errors import UserError
from benchrun.vocabulary import Better

if TYPE_CHECKING:
    from benchrun.metrics.model import Measurement


@dataclass(frozen=True)
class Basis:
    """What a published number rests on besides the run: ours is read on the same basis."""

    convention: str = "causal"
    """How FLOPs are counted: full or causal."""
    peak_tflops: float | None = None
    """Divisor of an MFU; the dense peak of the run's precision where None."""
    gbs: int | None = None
    """Sequences per step, of all GPUs."""


OURS = Basis()
Read = Callable[["Measurement", Basis], float | None]


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    """In the reference files, with its unit."""
    unit: str
    better: Better
    read: Read
    """The value of a measurement on a basis; None where the log does not give it."""
    title: str = ""
    """Heading in tables for readers."""
    format: str = ".4g"
    """Format of a value in tables for readers."""
    suffix: str = ""
    """After a formatted value, where the heading has no unit."""
    column: str = ""
    """Key in JSON, CSV and tables, where it is not ``name``: with the convention that ours is counted by."""
    tabled: bool = True
    """Whether runs have a column of it."""
    comparable: bool = True
    """Whether one run's speed is compared with a reference in it."""
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
        return missing if value is None else f"{value:{self.format}}{self.suffix}"


METRICS: dict[str, Metric] = {}


def register(metric: Metric) -> None:
    """Add one entry. ValueError for a name or key that is taken."""
    if any(metric.name == other.name or metric.key == other.key for other in METRICS.values()):
        raise ValueError(f"metric {metric.name} is registered already")
    METRICS[metric.name] = metric


def metric(name: str) -> Metric:
    """The entry called ``name``. UserError lists the names that are registered."""
    if name not in METRICS:
        raise UserError(f"no metric is called '{name}'", hint=f"legal: {', '.join(METRICS)}")
    return METRICS[name]


def tabled() -> Iterator[Metric]:
    """The metrics that runs have a column of, in the order of registration."""
    return (entry for entry in METRICS.values() if entry.tabled)


def entry(name: str, unit: str, better: Better, *shown: Any, **flags: Any) -> Callable[[Read], Read]:
    """Register the function below as metric ``name``; ``shown`` and ``flags`` are further fields of `Metric`."""

    def add(read: Read) -> Read:
        register(Metric(name, unit, better, read, *shown, **flags))
        return read

    return add


@entry("step_time_s", "s", "lower", "step time s")
def _step_time(run: "Measurement", _: Basis) -> float | None:
    """Median time of a step over the window, without the warm-up."""
    return run.step_time_s.median if run.step_time_s else None


@entry("tokens_per_s_per_gpu", "tokens/s/GPU", "higher", "tokens/s/GPU", ",.0f")
def _rate(run: "Measurement", _: Basis) -> float | None:
    """Median over the window of tokens per step / step time / GPUs."""
    return run.tokens_per_s_per_gpu.median


@entry("samples_per_s", "sequences/s", "higher", tabled=False)
def _samples(run: "Measurement", basis: Basis) -> float | None:
    """Sequences per step / median step time, over all GPUs."""
    return basis.gbs / run.step_time_s.median if run.step_time_s and basis.gbs else None


@entry("tflops_per_gpu", "TFLOPS/GPU", "higher", "TFLOPS/GPU", ".0f", "", "tflops_per_gpu_causal", counts_flops=True)
def _tflops(run: "Measurement", basis: Basis) -> float | None:
    """Tokens per second and GPU x FLOPs per token, causal unless a reference counts all scores."""
    value: float | None = getattr(run.tflops_per_gpu, basis.convention, None)
    return value


@entry("mfu_percent", "% MFU", "higher", "MFU", ".1f", " %", "mfu_causal_pct", counts_flops=True)
def _mfu_percent(run: "Measurement", basis: Basis) -> float | None:
    """TFLOPS per GPU / dense peak of the run's precision; none for a GPU without a row in the table."""
    if basis.peak_tflops is None:
        return 100 * float(getattr(run.mfu[0], basis.convention)) if run.mfu else None
    tflops = _tflops(run, basis)
    return None if tflops is None else tflops / (basis.peak_tflops / 100)


@entry("tokens_per_joule", "tokens/J", "higher", "tokens/J", ".3g", comparable=False)
def _energy(run: "Measurement", _: Basis) -> float | None:
    """Tokens per second and GPU / mean power of a GPU over the measured steps."""
    return run.telemetry.tokens_per_joule if run.telemetry else None


@entry("rank_spread_percent", "% of step", "lower", "slowest rank", ".1f", " %", comparable=False)
def _rank_spread(run: "Measurement", _: Basis) -> float | None:
    """How much longer the slowest rank computes than the median of the others of its stage / step time."""
    return run.ranks.slowest.behind_percent if run.ranks and run.ranks.slowest else None


@entry("peak_memory_gib", "GiB", "lower", "memory", ".3g", " GiB", tabled=False, comparable=False)
def _memory(run: "Measurement", _: Basis) -> float | None:
    """Largest memory of one rank: allocated on its GPU, or resident on a CPU."""
    return run.peak_memory_gib


@entry("final_loss", "nats", "equal", tabled=False, comparable=False)
def _final_loss(run: "Measurement", _: Basis) -> float | None:
    """Loss of the last step."""
    return run.final_loss


@entry("fsdp_over_3d", "x", "higher", tabled=False, comparable=False)
def _of_two_runs(*_: object) -> None:
    """Tokens per second and GPU with FSDP / the same with tensor and pipeline parallelism, of two runs."""
