"""Several runs as one table: a row a point, repeats put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchrun.compare.verdict import Verdict
from benchrun.metrics.measure import Metrics
from benchrun.spec.runspec import RunSpec

if TYPE_CHECKING:
    import pandas

POINT = ["recipe", "framework", "gpu", "precision", "num_gpus", "seq_length", "gbs", "layout", "cluster", "identity"]


@dataclass(frozen=True)
class RunResult:
    """One run with what is known of it."""

    run_id: str
    spec: RunSpec
    metrics: Metrics | None
    verdict: Verdict | None
    ending: str | None = None
    """How it ended, where that is recorded."""

    @property
    def numbers(self) -> Metrics | None:
        """The metrics; None of a run that is invalid, broken or not at its end, whose speed is no measurement."""
        metrics = self.metrics
        if metrics is None or (self.verdict and self.verdict.verdict == "invalid_run"):
            return None
        broken = self.ending not in (None, "completed") or metrics.complete is False or metrics.fatal is not None
        return None if broken else metrics

    @property
    def judgement(self) -> str:
        """The verdict, else how the run ended, else that it was not judged."""
        if self.verdict:
            return self.verdict.verdict
        return self.ending if self.ending not in (None, "completed") else "not judged"


def frame(results: Sequence[RunResult]) -> pandas.DataFrame:
    """One row a point. Step times and tokens/s are medians over the valid repeats; ``spread_pct`` is their range."""
    import pandas

    rows = pandas.DataFrame([_row(result) for result in results])
    if rows.empty:
        return rows
    points = rows.groupby(POINT, sort=False, dropna=False)
    table = points.agg(
        runs=("run_id", "count"),
        timed=("step_time_s", "count"),
        step_time_s=("step_time_s", "median"),
        fastest=("step_time_s", "min"),
        slowest=("step_time_s", "max"),
        tokens_per_s_per_gpu=("tokens_per_s_per_gpu", "median"),
        tflops_per_gpu_causal=("tflops_per_gpu_causal", "median"),
        mfu_causal_pct=("mfu_causal_pct", "median"),
        tokens_per_joule=("tokens_per_joule", "median"),
        verdict=("verdict", _distinct),
        limits=("limits", _distinct),
    ).reset_index()
    spread = 100 * (table.pop("slowest") - table.pop("fastest")) / table["step_time_s"]
    table["spread_pct"] = spread.where(table.pop("timed") > 1)  # one run has none
    return table.drop(columns="identity").round(4)


def markdown(table: pandas.DataFrame) -> str:
    """The table as Markdown; an empty cell is what was not measured."""
    if table.empty:
        return "no runs\n"
    columns = [str(column) for column in table.columns]
    lines = [columns, ["---"] * len(columns), *([_cell(v) for v in row] for row in table.itertuples(index=False))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(result: RunResult) -> dict[str, Any]:
    spec, metrics = result.spec, result.numbers
    layout = spec.layout
    mfu = metrics.mfu[0] if metrics and metrics.mfu else None
    return {
        "run_id": result.run_id,
        "recipe": spec.recipe + (f" (proxy: {', '.join(spec.reduced)})" if spec.proxy else ""),
        "cluster": spec.cluster.name,
        "framework": spec.framework,
        "gpu": spec.gpu,
        "precision": spec.precision,
        "num_gpus": spec.num_gpus,
        "seq_length": spec.seq_length,
        "gbs": spec.gbs,
        "layout": f"tp{layout.tp} pp{layout.pp} cp{layout.cp} vp{layout.vp} ep{layout.ep} mbs{spec.mbs}"
        + (f" fsdp{layout.fsdp}" if layout.fsdp > 1 else ""),
        "identity": spec.repeat_key(),
        "step_time_s": metrics.step_time_s.median if metrics and metrics.step_time_s else float("nan"),
        "tokens_per_s_per_gpu": _number(metrics.tokens_per_s_per_gpu.median if metrics else None),
        "tflops_per_gpu_causal": _number(metrics.tflops_per_gpu.causal if metrics and metrics.tflops_per_gpu else None),
        "mfu_causal_pct": _number(100 * mfu.causal if mfu else None),
        "tokens_per_joule": _number(metrics.telemetry.tokens_per_joule if metrics and metrics.telemetry else None),
        "verdict": result.judgement,
        "limits": ", ".join(label.code for label in result.verdict.labels) if result.verdict else "",
    }


def _distinct(words: Iterable[str]) -> str:
    """Each of the texts that the rows hold, once."""
    return ", ".join(dict.fromkeys(word for word in words if word))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return str(value)
