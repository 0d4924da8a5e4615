"""Tables of docs/measured.md on the kept runs that are no trainings: servers, and post-training."""

from collections.abc import Iterable, Sequence

from benchrun.judge.verdict import RunResult
from benchrun.measure.registry import METRICS
from benchrun.runspec.spec import RunSpec
from benchrun.show.runs import proxy
from benchrun.show.table import Table

NOTHING = "-"
SERVERS = {
    "output_tokens_per_s_per_gpu": "output tokens/s/GPU",
    "output_tokens_per_s_per_user": "output tokens/s/user",
    "median_ttft_ms": "time to first token, ms",
    "median_tpot_ms": "time per output token, ms",
}
STAGES = {
    "step_time_s": "step s",
    "generation_s": "generation s",
    "logprob_s": "probabilities s",
    "weight_sync_s": "weights s",
    "training_s": "training s",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
}
"""Metric -> title, in the order of the columns."""


def other_workloads(results: Sequence[RunResult]) -> dict[str, Table]:
    """Each table by its name in the page's text; one row for each run."""
    return {
        "servers": _table(results, "inference", SERVERS),
        "post_training": _table(results, "post-training", STAGES),
    }


def _table(results: Iterable[RunResult], workload: str, metrics: dict[str, str]) -> Table:
    of_it = sorted((each for each in results if each.spec.workload == workload), key=_order)
    rows = [(*_stated(run), *_values(run, metrics), run.run_id) for run in of_it]
    return Table(
        ("run", "framework", "GPUs", "settings", *metrics.values(), "run id"), rows, NOTHING
    )


def _order(run: RunResult) -> tuple[str, str, str, str, float]:
    spec = run.spec
    rate = (run.numbers.metrics.get("output_tokens_per_s_per_gpu") if run.numbers else None) or 0.0
    return spec.recipe, spec.framework, spec.gpu, spec.precision, rate


def _stated(run: RunResult) -> tuple[str, str, str, str]:
    spec: RunSpec = run.spec
    return (
        f"{proxy(spec)} {spec.precision}",
        spec.framework,
        f"{spec.num_gpus} x {spec.gpu}",
        spec.settings,
    )


def _values(run: RunResult, names: Iterable[str]) -> list[str]:
    values: dict[str, float | None] = {}
    if run.numbers:
        values = {
            **{name: each.median for name, each in run.numbers.quantities.items()},
            **run.numbers.metrics,
        }
    return [METRICS[name].text(values.get(name)) for name in names]
