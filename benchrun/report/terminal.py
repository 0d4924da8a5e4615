"""Metrics and verdicts for a person at a terminal; plain lines where it is none."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from benchrun.compare.references import Reference
from benchrun.compare.verdict import Check, Verdict
from benchrun.metrics.measure import Metrics
from benchrun.metrics.statistics import Spread
from benchrun.metrics.summary import ProblemEntry, Summary

_COLOURS = {"pass": "green", "slow": "red", "invalid_run": "red"}
SHOWN_PROBLEMS = 5


def verdict_view(verdict: Verdict, metrics: Metrics | None) -> Text:
    """The verdict first, then why, then the numbers."""
    ours = verdict.conditions
    style = f"bold {_COLOURS.get(verdict.verdict, 'yellow')}"
    text = Text.assemble(
        (verdict.verdict.upper(), style),
        f"  {ours.recipe}, {ours.precision}, {ours.num_gpus} x {ours.gpu}: {verdict.reason}\n",
    )
    rows = [("compared", check_line(check)) for check in verdict.checks]
    if verdict.nearest is not None:
        rows.append(("nearest", reference_line(verdict.nearest)))
    if metrics is not None:
        rows += metrics_rows(metrics)
    return text.append_text(_aligned(rows))


def summary_view(summary: Summary) -> Text:
    """What a log alone tells."""
    rows = [("framework", summary.framework), *_steps_rows(summary)]
    rows += _number_rows(summary.step_time_s, summary.tokens_per_s_per_gpu.median)
    if summary.tflops_per_gpu_reported.median is not None:
        rows.append(("TFLOPS/GPU as printed", f"{summary.tflops_per_gpu_reported.median:.1f}"))
    said = {
        "sequence": summary.seq_length,
        "global batch": summary.global_batch_size,
        "GPUs": summary.num_gpus,
    }
    rows.append(("the log says", ", ".join(f"{k} {v}" for k, v in said.items() if v is not None) or "no conditions"))
    return Text(f"{summary.file}\n").append_text(_aligned([*rows, *problem_rows(summary.problems)]))


def check_line(check: Check) -> str:
    """One number beside the reference it was held against."""
    if check.metric == "final_loss":
        return f"final loss {check.value:.4f}, reference {reference_line(check.reference)}"
    digits = 4 if check.value < 1 else 3
    line = f"{check.value:.{digits}g} {check.reference.unit}, reference {reference_line(check.reference)}"
    if check.differs:
        line += "; differs: " + ", ".join(f"{d.key} {d.theirs} -> {d.ours}" for d in check.differs)
    return line


def reference_line(entry: Reference) -> str:
    """A reference with its source."""
    flags = f" [{', '.join(entry.flags)}]" if entry.flags else ""
    version = f", {entry.framework_version}" if entry.framework_version else ""
    return (
        f"{entry.value:g} {entry.unit} ({entry.source.who} {entry.source.date}{version}; {entry.source.where}){flags}"
    )


def metrics_rows(metrics: Metrics) -> list[tuple[str, str]]:
    """Name and value of everything a run measured."""
    rows = []
    if metrics.window:
        window = metrics.window
        rows.append(
            (
                "window",
                f"steps {window.first_step} to {window.last_step} of {metrics.planned_steps} "
                f"({window.warmup_rows_dropped} warm-up rows dropped)",
            )
        )
    rows += _number_rows(metrics.step_time_s, metrics.tokens_per_s_per_gpu.median)
    if metrics.tflops_per_gpu:
        both = metrics.tflops_per_gpu
        rows.append(("TFLOPS/GPU", f"{_short(both.full)} full, {_short(both.causal)} causal"))
    for mfu in metrics.mfu:
        says = f"{100 * mfu.full:.1f} % full, {100 * mfu.causal:.1f} % causal, of {mfu.peak_tflops:g} ({mfu.divisor})"
        rows.append(("MFU", says))
    if not metrics.mfu and metrics.step_time_s:
        rows.append(("MFU", f"none: no peak is listed for {metrics.gpu} at {metrics.precision}"))
    if metrics.first_loss is not None and metrics.final_loss is not None:
        rows.append(("loss", f"{metrics.first_loss:.4f} -> {metrics.final_loss:.4f}"))
    return [*rows, *problem_rows(metrics.problems)]


def problem_rows(problems: Iterable[ProblemEntry]) -> list[tuple[str, str]]:
    """The first few problems, and how many more."""
    listed = list(problems)
    rows = [
        (entry.kind, f"line {entry.line}: {entry.detail}" if entry.line else entry.detail)
        for entry in listed[:SHOWN_PROBLEMS]
    ]
    more = len(listed) - SHOWN_PROBLEMS
    return [*rows, ("", f"and {more} more problems")] if more > 0 else rows


def _steps_rows(summary: Summary) -> list[tuple[str, str]]:
    if not summary.num_steps:
        return [("steps", "none")]
    planned = f" of {summary.planned_steps} planned" if summary.planned_steps else ""
    state = "complete" if summary.complete else "NOT complete"
    rows = [("steps", f"{summary.num_steps} rows, {summary.first_step} to {summary.last_step}{planned}: {state}")]
    if summary.segments > 1:
        rows.append(("restarts", str(summary.segments - 1)))
    rows.append(("window", f"{summary.warmup_rows_dropped} warm-up rows dropped"))
    return rows


def _number_rows(step: Spread | None, tokens: float | None) -> list[tuple[str, str]]:
    if step is None:
        return [("step time", "none")]
    spread = f"mean {_short(step.mean)}, stdev {_short(step.stdev)}, p5 {_short(step.p5)}, p95 {_short(step.p95)}"
    rows = [("step time", f"{_short(step.median)} s median ({spread})")]
    if tokens is not None:
        rows.append(("tokens/s/GPU", f"{tokens:,.0f}"))
    return rows


def _short(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def _aligned(rows: Iterable[tuple[str, str]]) -> Text:
    """Two columns. Lines are not wrapped: a pipe wants them whole, and a terminal wraps by itself."""
    listed = list(rows)
    width = max((len(name) for name, _ in listed), default=0)
    return Text("\n").join(Text.assemble((f"  {name:<{width}}  ", "dim"), value) for name, value in listed)
