"""Speed against one condition: curves over the number of GPUs, FSDP over 3D
parallelism, one engine over another.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from statistics import median
from typing import Any, Protocol

from benchrun.judge.measured import grouped
from benchrun.judge.references import Reference
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import Metrics
from benchrun.runspec.post_training import Engine, PostTrainingSpec
from benchrun.runspec.spec import RunSpec, TrainingSpec


@dataclass(frozen=True)
class Curve:
    """One workload on at least two numbers of GPUs."""

    spec: TrainingSpec
    """The run with the fewest GPUs."""
    kind: str
    """weak: the same batch per GPU; strong: the same global batch."""
    rates: dict[int, float]
    """Tokens/s/GPU by number of GPUs, the fewest first."""
    batches: tuple[int, ...]
    """Global batches, in sequences, in the same order; one if it stays the same."""
    specs: tuple[TrainingSpec, ...] = ()
    """One run of each number of GPUs, in the same order."""


class CurveRun(Protocol):
    """The fields of a run that a curve needs."""

    @property
    def spec(self) -> TrainingSpec: ...
    @property
    def metrics(self) -> Metrics: ...


def curves(groups: Sequence[Sequence[CurveRun]]) -> list[Curve]:
    """Every curve among ``groups`` of repeats."""
    points = []
    for group in groups:
        rates = []
        for run in group:
            if rate := run.metrics.tokens_per_s_per_gpu.median:
                rates.append(rate)
        if rates:
            points.append((group[0].spec, median(rates)))
    return curves_of(points)


def curves_of(points: Iterable[tuple[TrainingSpec, float]]) -> list[Curve]:
    """Every curve among ``points``: runs with their tokens/s/GPU."""
    families: dict[tuple[str, Fraction, str], dict[int, tuple[TrainingSpec, float]]] = defaultdict(
        dict
    )
    for spec, rate in points:
        # Everything except the size and the number of steps stays the same along a
        # curve; of runs that are spread over more nodes those on the fewest count.
        same = spec.model_copy(update=dict.fromkeys(SIZES, 1)).step_identity()
        for kind, batch in (
            ("weak", Fraction(spec.gbs, spec.num_gpus)),
            ("strong", Fraction(spec.gbs)),
        ):
            family = families[kind, batch, same]
            held = family.get(spec.num_gpus)
            if held is None or spec.num_nodes <= held[0].num_nodes:
                family[spec.num_gpus] = (spec, rate)
    found = []
    for (kind, *_), family in families.items():
        if len(family) > 1:
            specs = tuple(family[count][0] for count in sorted(family))
            rates = {count: family[count][1] for count in sorted(family)}
            batches = tuple(dict.fromkeys(spec.gbs for spec in specs))
            found.append(Curve(specs[0], kind, rates, batches, specs))
    return found


SIZES = ("num_gpus", "num_nodes", "dp", "gbs", "num_microbatches")
"""Fields that change along a curve."""
PUBLISHED = attrgetter("recipe", "gpu", "num_gpus", "precision", "seq_length", "gbs")
"""Fields that a published ratio shares with the runs."""
FSDP = attrgetter("spec.layout.fsdp")
BOTH_SIDES = attrgetter("framework", "image", "reduced", "cluster.name")
"""Other fields that both sides share. Layout and micro-batch are tuned: the fastest
point of each side counts.
"""


@dataclass(frozen=True)
class KindRatio:
    """Speed of one kind of run over that of another, of one workload."""

    spec: RunSpec
    """Specification of one of the runs."""
    value: float
    published: Reference | None
    metric: str = "fsdp_over_3d"
    """Name of the ratio among the metrics."""


def ratios(results: Sequence[RunResult], references: Sequence[Reference]) -> Iterator[KindRatio]:
    """Every ratio of two kinds of runs that is published for some workload."""
    yield from fsdp_over_3d(results, references)
    yield from engine_ratios(results, references)


def fsdp_over_3d(
    results: Sequence[RunResult], references: Sequence[Reference]
) -> Iterator[KindRatio]:
    """One ratio for each workload measured with and without FSDP; the speed of a point
    is the median of its repeats.
    """
    trainings = (result for result in results if isinstance(result.spec, TrainingSpec))
    for runs in grouped(
        trainings, lambda result: (PUBLISHED(result.spec), BOTH_SIDES(result.spec))
    ):
        spec: Any = runs[0].spec
        with_fsdp = _fastest(run for run in runs if FSDP(run) > 1)
        without = _fastest(run for run in runs if FSDP(run) <= 1)
        if with_fsdp and without:
            published = None
            if not spec.reduced:
                published = _published("fsdp_over_3d", PUBLISHED, spec, references)
            yield KindRatio(spec, with_fsdp / without, published)


def _fastest(runs: Iterable[RunResult]) -> float | None:
    """Tokens/s/GPU of the fastest point."""
    points = defaultdict(list)
    for run in runs:
        if run.numbers and (rate := run.numbers.tokens_per_s_per_gpu.median) is not None:
            points[run.spec.repeat_key()].append(rate)
    return max(map(median, points.values()), default=None)


def _published(
    metric: str, shared: Callable[[Any], Any], spec: RunSpec, references: Sequence[Reference]
) -> Reference | None:
    """The published ratio of this name for a run with the same ``shared`` fields."""
    for entry in references:
        if entry.metric == metric and shared(entry.key) == shared(spec):
            return entry
    return None


GENERATED = attrgetter("recipe", "gpu", "num_gpus", "precision", "gbs")
"""Fields that a published ratio of two engines shares with the runs."""


ENGINES: Mapping[str, tuple[Engine, Engine]] = {
    "trtllm_over_nemo": ("tensorrt-llm", "nemo"),
    "vllm_over_transformers": ("vllm", "transformers"),
}
"""Ratio -> the engine that is faster, and the training framework's own."""


def engine_ratios(
    results: Sequence[RunResult], references: Sequence[Reference]
) -> Iterator[KindRatio]:
    """One ratio for each post-training measured with both engines; the rest of the work
    agrees.
    """
    for runs in grouped(
        (each for each in results if isinstance(each.spec, PostTrainingSpec)), _besides_engine
    ):
        for metric, engines in ENGINES.items():
            fast, slow = (_fastest(run for run in runs if _engine(run) == name) for name in engines)
            if fast and slow:
                published = _published(metric, GENERATED, runs[0].spec, references)
                yield KindRatio(runs[0].spec, fast / slow, published, metric)


def _engine(run: RunResult) -> str:
    spec: Any = run.spec
    return str(spec.generation.engine)


def _besides_engine(run: RunResult) -> tuple[Any, ...]:
    spec = run.spec
    return (
        GENERATED(spec),
        spec.settings.replace(_engine(run), ""),
        spec.framework,
        spec.image,
        spec.cluster.name,
    )
