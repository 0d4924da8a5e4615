"""Every metric, once. An entry here appears in JSON, in every table, as a reference and in plots without more code.

To add one, register it: name, unit, direction, how its value is read from a measurement, how it is shown.
"""

from __future__ import annotations

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
    how: str = ""
    """How it is computed, in one sentence."""

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


def values_of(measurement: Measurement) -> dict[str, float | None]:
    """Value of each tabled metric, by key."""
    return {entry.key: entry.read(measurement, OURS) for entry in tabled()}


def _tflops(run: Measurement, basis: Basis) -> float | None:
    value: float | None = getattr(run.tflops_per_gpu, basis.convention, None)
    return value


def _mfu_percent(run: Measurement, basis: Basis) -> float | None:
    if basis.peak_tflops is None:
        return 100 * float(getattr(run.mfu[0], basis.convention)) if run.mfu else None
    tflops = _tflops(run, basis)
    return None if tflops is None else tflops / (basis.peak_tflops / 100)


def _samples(run: Measurement, basis: Basis) -> float | None:
    return basis.gbs / run.step_time_s.median if run.step_time_s and basis.gbs else None


def _path(path: str) -> Read:
    """Reads a field, or a field of a field; None where one of them is."""

    def read(run: Measurement, _: Basis) -> float | None:
        value: Any = run
        for name in path.split("."):
            value = getattr(value, name, None)
        return None if value is None else float(value)

    return read


_rate, _energy = _path("tokens_per_s_per_gpu.median"), _path("telemetry.tokens_per_joule")
_causal = "tflops_per_gpu_causal"
for _entry in (
    Metric(
        "step_time_s",
        "s",
        "lower",
        _path("step_time_s.median"),
        "step time s",
        how="Median time of a step over the window, without the warm-up.",
    ),
    Metric(
        "tokens_per_s_per_gpu",
        "tokens/s/GPU",
        "higher",
        _rate,
        "tokens/s/GPU",
        ",.0f",
        how="Median over the window of tokens per step / step time / GPUs.",
    ),
    Metric(
        "samples_per_s",
        "sequences/s",
        "higher",
        _samples,
        tabled=False,
        how="Sequences per step / median step time, over all GPUs.",
    ),
    Metric(
        "tflops_per_gpu",
        "TFLOPS/GPU",
        "higher",
        _tflops,
        "TFLOPS/GPU",
        ".0f",
        "",
        _causal,
        counts_flops=True,
        how="Tokens per second and GPU x FLOPs per token, causal unless a reference counts all scores.",
    ),
    Metric(
        "mfu_percent",
        "% MFU",
        "higher",
        _mfu_percent,
        "MFU",
        ".1f",
        " %",
        "mfu_causal_pct",
        counts_flops=True,
        how="TFLOPS per GPU / dense peak of the run's precision; none for a GPU without a row in the table.",
    ),
    Metric(
        "tokens_per_joule",
        "tokens/J",
        "higher",
        _energy,
        "tokens/J",
        ".3g",
        comparable=False,
        how="Tokens per second and GPU / mean power of a GPU over the measured steps.",
    ),
    Metric(
        "final_loss",
        "nats",
        "equal",
        _path("final_loss"),
        tabled=False,
        comparable=False,
        how="Loss of the last step.",
    ),
    # Of two runs: no measurement has it.
    Metric(
        "fsdp_over_3d",
        "x",
        "higher",
        lambda *_: None,
        tabled=False,
        comparable=False,
        how="Tokens per second and GPU with FSDP / the same with tensor and pipeline parallelism, of two runs.",
    ),
):
    register(_entry)
