"""Several runs as one table: one row per point, its repeats together; and words that
every report uses.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from benchrun.judge.checks import Check
from benchrun.judge.conditions import conditions
from benchrun.judge.measured import by_point
from benchrun.judge.references import Reference
from benchrun.judge.verdict import RunResult, SpeedRatio
from benchrun.measure.metric import Metric
from benchrun.measure.registry import tabled
from benchrun.measure.statistics import confidence_interval, spread_percent
from benchrun.rundir.find import stamp_of
from benchrun.runspec.cluster import UNNAMED
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import DEGREES, by_path, in_words

from .repeats import median_of, valid_values
from .scaling import KindRatio
from .table import Table

STATED = ("framework", "gpu", "precision", "num_gpus", "seq_length", "gbs", "mbs")
"""Fields of the specification that have a column."""
NOT_COMPARED = frozenset(
    {
        "schema_version",
        "identity",
        "megatron",
        "cluster",
        "replaced_env",
        "image",
        "derived",
        "source",
    }
)
"""Fields of a specification that follow from others, or have a line of their own."""
RATIO = {
    "ratio": "value",
    "low": "low",
    "high": "high",
    "reference": "reference",
    "source": "source",
}
"""Columns of the speed over that of the reference -> fields of a verdict's ratio."""
MINOR = frozenset(
    {
        "steps",
        "min_lr",
        "lr_warmup_steps",
        "ceilings",
        "breakdown",
        "profile.trace",
        "profiled_steps",
    }
)
"""Settings that do not change a step."""
SIDES = {
    "trtllm_over_nemo": ("TensorRT-LLM", "NeMo's"),
    "vllm_over_transformers": ("vLLM", "transformers' own"),
}
"""Names of the two engines, by the name of their ratio."""
SPREAD = "step_time_s"
"""Metric whose range over the repeats is shown."""


def points_by_repeats(results: Sequence[RunResult]) -> Table:
    """One row per point. Metrics are medians of the valid repeats, ``spread_pct`` is
    the range of their step times.
    """
    points = by_point(results)
    columns = _columns(results)
    metrics = (metric.key for metric in columns)
    titles = (
        "recipe",
        *STATED,
        "layout",
        "cluster",
        "runs",
        *metrics,
        "verdict",
        *RATIO,
        "limits",
        "spread_pct",
    )
    return Table(titles, [_row(point, columns) for point in points])


def _columns(results: Sequence[RunResult]) -> tuple[Metric, ...]:
    """The metrics that have a column: those of servers only if a run is of one."""
    return tuple(
        tabled(served=any(result.numbers and result.numbers.settings for result in results))
    )


def identified(results: Sequence[RunResult]) -> Table:
    """`points_by_repeats` for programs: with the runs of each point, when they were
    launched, and every condition by itself.
    """
    plain = points_by_repeats(results)
    rows = []
    for row, point in zip(plain.rows, by_point(results), strict=True):
        ids = [result.run_id for result in point]
        spec = point[0].spec
        own = conditions(spec)
        degrees = [getattr(own, name) for name in DEGREES]
        reduced = ", ".join(map(str, own.reduced))
        identity = (spec.image, spec.identity(), own.task, reduced)
        more = (*identity, *degrees, getattr(spec, "dp", None), ", ".join(own.options or ()))
        rows.append((*row, " ".join(ids), _distinct(map(stamp_of, ids)), *more))
    titles = (
        *plain.titles,
        "run_ids",
        "launched",
        "image",
        "identity",
        "task",
        "proxy",
        *DEGREES,
        "dp",
        "options",
    )
    return Table(titles, rows)


def distinctions(specs: Sequence[RunSpec]) -> list[str]:
    """Fields in which each of several specifications differs, e.g. ``data.num_workers 4``.

    Those in `MINOR`, the image and what follows from others are shown only where the rest
    does not tell all of them apart.
    """
    if len(specs) < 2:
        return [""] * len(specs)
    stated = [dict(by_path(spec.document())) for spec in specs]
    shown: dict[str, str] = {}
    minor: dict[str, str] = {}
    follows: dict[str, str] = {}
    for name in dict.fromkeys(chain(*stated)):
        if len({str(each.get(name)) for each in stated}) > 1:
            short = re.sub(r"^(training|layout|env)\.", "", name)
            where = minor if short in MINOR else shown
            if name.partition(".")[0] in NOT_COMPARED:
                where = follows
            where[name] = short
    texts = [_stated(each, shown) for each in stated]
    follows.pop("identity.hash", None)
    for name, short in {**minor, **follows}.items():
        more = [_stated(each, {**shown, name: short}) for each in stated]
        if len(set(more)) > len(set(texts)):
            shown[name] = short
            texts = more
    return texts


def _stated(spec: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """The fields ``shown`` of a specification, under their short names."""
    return ", ".join(f"{short} {spec.get(name)}" for name, short in shown.items())


def _row(repeats: Sequence[RunResult], columns: Sequence[Metric]) -> list[Any]:
    spec = repeats[0].spec
    measured = [result.numbers for result in repeats if result.numbers]
    labels: list[str] = []
    for result in repeats:
        if result.verdict:
            labels += [label.code for label in result.verdict.labels]
    row = [proxy(spec), *(getattr(spec, name, None) for name in STATED)]
    row += [short_layout(spec), spec.cluster.name, len(repeats)]
    for metric in columns:
        row.append(median_of(metric.key, measured))
    row += [_distinct(result.judgement for result in repeats), *ratio_cells(repeats)]
    return [*row, _distinct(labels), spread_percent(valid_values(SPREAD, measured))]


def ratio_cells(repeats: Sequence[RunResult]) -> list[Any]:
    """The values of `RATIO` for one point."""
    found = ratio_of(repeats)
    return [getattr(found, name, None) for name in RATIO.values()]


def ratio_of(repeats: Sequence[RunResult]) -> SpeedRatio | None:
    """The ratio of one point: of verdicts on single runs the median and its interval, as
    far as they have the reference of the newest.
    """
    found = []
    for result in sorted(repeats, key=lambda run: stamp_of(run.run_id), reverse=True):
        if result.verdict and result.verdict.ratio:
            found.append(result.verdict.ratio)
    if not found:
        return None
    newest = found[0]
    values = [each.value for each in found if each.reference == newest.reference]
    interval = confidence_interval(values)
    if interval and len(set(values)) > 1:
        sizes = {"value": median(values), "low": interval.low, "high": interval.high}
        newest = newest.model_copy(update=sizes)
    return newest


def ratio_line(ratio: KindRatio) -> str:
    """One ratio beside the published one."""
    spec = ratio.spec
    published = ratio.published
    what = f"{spec.recipe}, {spec.precision}, {spec.num_gpus} x {spec.gpu}, {spec.framework}"
    beside = "no ratio was published"
    if published:
        beside = f"published: {reference_line(published)}"
    if ratio.metric in SIDES:
        fast, slow = SIDES[ratio.metric]
        return f"{fast}'s generation made the run {ratio.value:.2f} times as fast as {slow} ({what}); {beside}"
    return f"FSDP reached {ratio.value:.2f} of the speed of 3D parallelism ({what}); {beside}"


def proxy(spec: RunSpec) -> str:
    """The recipe's name, with what a proxy has less of."""
    reduced = getattr(spec, "reduced", ())
    return spec.recipe + (f" (proxy: {', '.join(map(str, reduced))})" if reduced else "")


def site_name(spec: RunSpec) -> str:
    """Name of the cluster, as far as a run states it."""
    if spec.cluster.name == UNNAMED:
        return "not stated"
    return spec.cluster.name


def layout_text(spec: TrainingSpec) -> str:
    """Every degree of the layout."""
    return in_words((*spec.layout.degrees, ("dp", spec.dp)))


def short_layout(spec: RunSpec) -> str:
    """The degrees and the micro-batch in one word each."""
    if not isinstance(spec, TrainingSpec):
        return spec.settings
    degrees = [f"{name}{getattr(spec.layout, name)}" for name in DEGREES]
    return " ".join(
        [*degrees, f"mbs{spec.mbs}", *([f"fsdp{spec.layout.fsdp}"] if spec.layout.fsdp > 1 else [])]
    )


def _distinct(words: Iterable[str]) -> str:
    """The different words, in order."""
    return ", ".join(dict.fromkeys(filter(None, words)))


def reference_line(entry: Reference) -> str:
    """A reference with its source."""
    return f"{entry.value:g} {entry.unit} ({entry.cited}){_flags(entry)}"


def _flags(entry: Reference) -> str:
    if not entry.flags:
        return ""
    return f" [{', '.join(entry.flags)}]"


def check_rows(check: Check) -> list[tuple[str, str]]:
    """One number beside the reference it was compared with; if that stands; what
    differs.
    """
    entry = check.reference
    digits = ".0f" if check.value >= 1000 else ".4g"  # the digits of the step time below it
    is_loss = entry.better == "equal"
    value = f"final loss {check.value:.4f}" if is_loss else f"{check.value:{digits}} {entry.unit}"
    rows = [
        ("compared", f"{value}, reference {entry.value:g} {entry.unit}{_flags(entry)}"),
        ("  source", entry.cited),
    ]
    if check.differs:
        rows.append(
            ("  differs", ", ".join(f"{d.key} {d.theirs} -> {d.ours}" for d in check.differs))
        )
    return rows
