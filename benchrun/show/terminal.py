"""One run or log for a reader: rich text for a terminal (plain lines elsewhere), or a
Markdown page.

A row is a name and a text; what was not measured has no row.
"""

from rich.text import Text

from benchrun import hardware
from benchrun.judge.rates import ErrorRates
from benchrun.judge.uneven import slow_steps
from benchrun.judge.verdict import PREDICTION, RunResult, SpeedRatio, Verdict
from benchrun.measure.model import SAMPLES, Measurement, Metrics, Summary
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import in_words

from .numbers import (
    Rows,
    measured_rows,
    metrics_rows,
    problem_rows,
    problems_of,
    result_rows,
    telemetry_rows,
)
from .runs import check_rows, layout_text, proxy, reference_line, site_name
from .table import Table, aligned, markdown, markdown_text

_COLOURS = {"pass": "green", "slow": "red", "invalid_run": "red"}


def verdict_view(verdict: Verdict, metrics: Metrics | None) -> Text:
    """The verdict first, then why, then the numbers."""
    own = verdict.conditions
    style = f"bold {_COLOURS.get(verdict.verdict, 'yellow')}"
    point = f"  {own.recipe}, {own.precision}, {own.num_gpus} x {own.gpu}: {verdict.reason}\n"
    rows = basis_rows(verdict)
    if metrics is not None and verdict.runs > 1:
        rows.append(
            (
                "repeats",
                f"{verdict.runs} runs were judged together; below are the numbers of the first",
            )
        )
    if metrics:
        rows += metrics_rows(metrics)
    return Text.assemble((verdict.headline, style), point).append_text(_aligned(rows))


def basis_rows(verdict: Verdict) -> Rows:
    """The references and the choice behind the verdict."""
    rows = []
    for check in verdict.checks:
        rows += check_rows(check)
    if verdict.ratio is not None:
        rows.append(("speed", speed_text(verdict.ratio)))
    if verdict.error_rates and verdict.ratio is not None:
        rows.append(("  errors", errors_text(verdict.error_rates)))
    if verdict.chosen_because is not None:
        rows.append(("  because", verdict.chosen_because.sentence))
    if verdict.nearest is not None:
        rows.append(("nearest", reference_line(verdict.nearest)))
    return rows


def speed_text(ratio: SpeedRatio) -> str:
    """The speed over that of the reference, with its interval."""
    ends = f"at least {ratio.low:.3f}"
    if ratio.high is not None:
        ends = f"{ratio.low:.3f} to {ratio.high:.3f}"
    if ratio.reference == PREDICTION:
        return f"{ratio.value:.3f} of the predicted ({ends})"
    return f"{ratio.value:.3f} of the reference's ({ends})"


def errors_text(rates: ErrorRates) -> str:
    """How often such a verdict errs, or why that is not known."""
    alarm, miss = rates["false_alarm"], rates["miss_at_5_percent"]
    if alarm is None or miss is None:
        return f"unknown: {rates['reason']}"
    return (
        f"{100 * alarm:.1f} % of runs as fast as it are called slow, "
        f"{100 * miss:.0f} % of those 5 % slower pass (from {rates['from']})"
    )


def summary_view(summary: Summary) -> Text:
    """The numbers of a log."""
    rows = [("framework", " ".join(filter(None, (summary.framework, summary.framework_version))))]
    planned = ""
    if summary.planned_steps:
        planned = f" of {summary.planned_steps} planned"
    if summary.complete:
        end = "complete"
    elif planned:
        end = "NOT complete"
    else:
        end = "the log states no planned end"
    steps = f"{summary.num_steps} rows, {summary.first_step} to {summary.last_step}{planned}: {end}"
    if summary.num_steps or not summary.results:
        rows.append(("steps", steps if summary.num_steps else "none"))
    if summary.segments > 1:
        rows.append(("restarts", str(summary.segments - 1)))
    rows += measured_rows(summary) if summary.num_steps else result_rows(summary)
    if summary.ranks:
        rows += [("ranks", summary.ranks.sentence)]
    rows += [
        *telemetry_rows(summary.telemetry),
        ("conditions", _conditions(summary)),
        *_more_rows(summary),
    ]
    rows += problem_rows(summary)
    uneven = slow_steps([summary])
    limit = ""
    if uneven:
        limit = f"  ({uneven.text})"
    return Text(f"{summary.file}{limit}\n").append_text(_aligned(rows))


def _conditions(summary: Summary) -> str:
    """Setting and layout, as far as they are known."""
    named = {
        "task": None if summary.task == "pretrain" else summary.task,
        "sequence": summary.seq_length,
        "global batch": summary.global_batch_size,
        "micro batch": summary.micro_batch_size,
        **summary.layout,
    }
    sizes = []
    for name, value in named.items():
        if value is not None:
            sizes.append(f"{name} {value}")
    gpus = f"{summary.num_gpus} x {summary.gpu or 'GPU'}" if summary.num_gpus else summary.gpu
    model = summary.model
    shape = None
    if model:
        shape = f"{model['num_layers']} layers of width {model['hidden_size']}"
    return (
        ", ".join(filter(None, [gpus, summary.precision, shape, *sizes])) or "the log states none"
    )


def _more_rows(summary: Summary) -> Rows:
    """Options that would give what is missing; none if nothing is, or the log has no
    steps.
    """
    if summary.post_training:
        counted = "tokens" in summary.quantities and summary.num_gpus is None
        if not counted:
            return []
        return [("  for tokens/s/GPU", "add --num-gpus")]
    needed = _needed(summary)
    if needed is None:
        return [("", "no row of this log has a time or a rate")]
    rows = []
    for what, names in needed.items():
        if names and summary.num_steps:
            rows.append((f"  for {what}", "add " + " ".join(f"--{name}" for name in names)))
    return rows


def _needed(summary: Summary) -> dict[str, list[str]] | None:
    """The options that each missing number lacks; None if no option would help."""
    batch = {
        "seq-length": summary.seq_length,
        "gbs": summary.global_batch_size,
        "num-gpus": summary.num_gpus,
    }
    rates = {"step time": summary.step_time_s, "tokens/s/GPU": summary.tokens_per_s_per_gpu.median}
    needed = {}
    for what, rate in rates.items():
        if not rate:
            needed[what] = [name for name, value in batch.items() if value is None]
    if SAMPLES in summary.quantities and not summary.step_time_s:
        needed["step time"] = ["gbs"]
    elif summary.window and not (any(rates.values()) or _left_out(summary)):
        return None
    if not summary.mfu and not summary.unknown_options:
        gpu = summary.gpu or summary.stated_peak
        peak = {"gpu": gpu, "precision": summary.precision, "recipe": summary.model}
        needed["MFU"] = [name for name, value in peak.items() if value is None]
        if summary.gpu and not summary.stated_peak and hardware.gpu(summary.gpu) is None:
            needed["MFU"].append("peak-tflops")
    return needed


def _left_out(measured: Measurement) -> bool:
    """True if times or rates were read, and left out as impossible."""
    return any(each.kind.startswith("impossible") for each in measured.problems)


def _aligned(rows: Rows) -> Text:
    """Two columns of unwrapped lines."""
    return Text("\n").join(
        Text.assemble((f"  {name}  ", "dim"), value) for name, value in aligned(rows)
    )


def run_page(result: RunResult) -> str:
    """Verdict or ending, reason, numbers, conditions. A run that measured nothing has
    problems in place of numbers.
    """
    verdict = result.verdict
    metrics = result.numbers
    parts = [f"# {result.run_id}\n"]
    if verdict is None:
        verb = "compare" if result.ending == "completed" else "status"
        parts.append(f"**{result.judgement}**: benchrun {verb} {result.run_id}\n")
    else:
        limits = "".join(f" ({markdown_text(label.text)})" for label in verdict.labels)
        basis = "".join(
            f"- {name.strip()}: {markdown_text(text)}\n" for name, text in basis_rows(verdict)
        )
        parts.append(f"**{verdict.verdict}**{limits}: {markdown_text(verdict.reason)}\n\n{basis}")
    if metrics:
        parts.append(markdown(Table(("measured", ""), metrics_rows(metrics))))
    elif result.metrics:
        problems = problems_of(result.metrics)
        parts.append(
            "".join(f"- {problem.kind}: {markdown_text(problem.detail)}\n" for problem in problems)
        )
    versions = in_words(result.versions.items())
    conditions = [*spec_rows(result.spec), *([("versions", versions)] if versions else [])]
    return "\n".join([*parts, markdown(Table(("conditions", ""), conditions))])


def spec_rows(spec: RunSpec) -> Rows:
    """Name and value of the conditions of a run."""
    nodes = f"{spec.num_nodes} node{'s' if spec.num_nodes > 1 else ''}"
    rows = [
        ("workload", f"{proxy(spec)}, {spec.task}"),
        ("framework", f"{spec.framework}, image {spec.container_image or 'none'}"),
        ("hardware", f"{spec.num_gpus} x {spec.gpu} on {nodes} (cluster {site_name(spec)})"),
        ("precision", spec.precision),
    ]
    if not isinstance(spec, TrainingSpec):
        return [*rows, ("settings", spec.settings)]
    batch = f"global {spec.gbs}, micro {spec.mbs}, sequence {spec.seq_length}"
    return [*rows, ("batch", batch), ("layout", layout_text(spec))]
