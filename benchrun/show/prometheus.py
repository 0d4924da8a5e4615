"""Numbers of runs for Prometheus: one text that node_exporter's textfile collector
reads, and that is OpenMetrics too.
"""

from collections.abc import Iterator, Sequence

from benchrun.judge.verdict import RunResult
from benchrun.measure.metric import OURS
from benchrun.measure.registry import METRICS
from benchrun.vocabulary import Exit

from .runs import short_layout
from .table import visible

LABELS = ("recipe", "framework", "gpu", "precision", "num_gpus")
"""Fields of the specification that are labels."""
TOLD = {
    "launched_timestamp_seconds": "Time of the launch.",
    "exit_code": "Exit code of the verdict: 0 well, 1 slow, 4 no clear answer.",
    "ratio": "Speed over that of the reference.",
    "ratio_low": "Lower end of the interval of the ratio.",
    "ratio_high": "Upper end of the interval of the ratio.",
}
"""Numbers beside the metrics, and what each is."""


def prometheus(results: Sequence[RunResult]) -> str:
    """The newest run of each point: its labels stay from run to run, so that they are
    one series.
    """
    newest = {_labels(result): dict(_numbers(result)) for result in results}
    told = dict(TOLD)
    for metric in METRICS.values():
        told[metric.key] = " ".join(metric.how.split())
    lines = []
    for name, text in told.items():
        samples = []
        for labels, numbers in newest.items():
            value = numbers.get(name)
            if value is not None:
                samples.append(f"benchrun_{name}{{{labels}}} {float(value)!r}")
        if samples:
            lines += [f"# TYPE benchrun_{name} gauge", f"# HELP benchrun_{name} {text}", *samples]
    return "\n".join([*lines, "# EOF\n"])


def _labels(result: RunResult) -> str:
    spec = result.spec
    values = {name: str(getattr(spec, name)) for name in LABELS}
    values |= {"layout": short_layout(spec), "cluster": spec.cluster.name}
    values["identity"] = spec.identity()
    labels = []
    for name, value in values.items():
        escaped = visible(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        labels.append(f'{name}="{escaped}"')
    return ",".join(labels)


def _numbers(result: RunResult) -> Iterator[tuple[str, float | None]]:
    if result.launched:
        yield "launched_timestamp_seconds", result.launched.timestamp()
    verdict = result.verdict
    yield "exit_code", verdict.exit_code if verdict else Exit.INCONCLUSIVE
    if verdict and verdict.ratio:
        yield "ratio", verdict.ratio.value
        yield "ratio_low", verdict.ratio.low
        yield "ratio_high", verdict.ratio.high
    if result.numbers:
        for metric in METRICS.values():
            yield metric.key, metric.read(result.numbers, OURS)
