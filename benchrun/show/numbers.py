"""The numbers of a run or a log as rows: a name and a text; what was not measured has
no row.
"""

from collections.abc import Callable

from benchrun import extensions
from benchrun.judge.checks import not_understood
from benchrun.measure.metric import OURS
from benchrun.measure.model import Measurement, Metrics, ProblemEntry
from benchrun.measure.registry import METRICS
from benchrun.measure.telemetry import Telemetry, percent

Rows = list[tuple[str, str]]
SHOWN_PROBLEMS = 5
"""Problems that are listed."""


def metrics_rows(metrics: Metrics) -> Rows:
    """Name and value of everything a run measured."""
    rows = measured_rows(metrics)
    # RL steps mix generation and training: MFU is undefined.
    if not metrics.mfu and metrics.step_time_s and metrics.final_reward is None:
        rows.append(("MFU", f"none: {_why_no_mfu(metrics)}"))
    rows += telemetry_rows(metrics.telemetry)
    for name in ("bound", "breakdown", "ranks"):
        if part := getattr(metrics, name):
            rows.append((name, part.sentence))
    return [*rows, *problem_rows(metrics)]


def _why_no_mfu(metrics: Metrics) -> str:
    if metrics.tflops_per_gpu:
        return f"no peak is listed for {metrics.gpu} at {metrics.precision}"
    if not_understood([metrics]):
        return "options of the log are not understood"
    if metrics.tokens_per_s_per_gpu.median:
        return "the model is unknown: write `model:` into the recipe, or name one with --recipe"
    return "the tokens per step are unknown"


def telemetry_rows(measured: Telemetry | None) -> Rows:
    """One row of the GPUs' state, one of their energy."""
    if measured is None:
        return []
    readings = {
        "clock {} MHz": measured.sm_clock_mhz,
        "lowest {} MHz": measured.sm_clock_min_mhz,
        "{} W": measured.power_w,
        "limit {} W": measured.power_limit_w,
        "hottest {} C": measured.temperature_c,
        "memory {} GiB": measured.memory_gib,
    }
    state = []
    for words, value in readings.items():
        if value is not None:
            state.append(words.format(_short(value)))
    for name, share in measured.reasons.items():
        state.append(f"{name} in {percent(share)} of the samples")
    healthy = "not throttled"
    if measured.reasons:
        healthy = "otherwise not throttled"
    rows = [("GPUs", f"{', '.join(state)}; {measured.fault or healthy}")]
    if measured.energy_j and measured.tokens_per_joule:
        kilojoules = f"{measured.energy_j / 1000:,.0f} kJ of GPUs"
        rows.append(("energy", f"{_short(measured.tokens_per_joule)} tokens/J, {kilojoules}"))
    return rows


def measured_rows(measured: Measurement) -> Rows:
    """Every metric that has a value, in the order of the registry; those in DETAILS
    with what qualifies them.
    """
    rows = result_rows(measured)
    dropped = measured.warmup_rows_dropped
    if window := measured.window:
        planned = ""
        if measured.planned_steps:
            planned = f" of {measured.planned_steps}"
        steps = f"steps {window.first_step} to {window.last_step}{planned}"
        rows.append(
            ("window", f"{steps}, {_rows(window.rows)} ({_rows(dropped, 'warm-up ')} dropped)")
        )
    elif 0 < measured.num_steps <= dropped:
        rows.append(("window", f"none: all {dropped} rows were dropped as warm-up"))
    if measured.profiled_after is not None:
        rows.append(
            (
                "profiled",
                f"the steps after {measured.profiled_after}, which are left out of all numbers",
            )
        )
    for entry in METRICS.values():
        if entry.name in DETAILS:
            rows += DETAILS[entry.name](measured)
        elif (
            entry.tabled and not entry.served and (value := entry.read(measured, OURS)) is not None
        ):
            rows.append((entry.title or entry.key, entry.text(value)))
    return rows + _quantity_rows(measured)


def _quantity_rows(measured: Measurement) -> Rows:
    """The median of each quantity of the steps, with its share of the step if it is a
    part of it.
    """
    rows = []
    step = measured.step_time_s
    for name, spread in measured.quantities.items():
        if name == "reward":  # it has a row of its own
            continue
        words = f"{_short(spread.median)} (p5 {_short(spread.p5)}, p95 {_short(spread.p95)})"
        if step and name.endswith("_s"):
            words += f", {100 * spread.median / step.median:.0f} % of the step"
        rows.append((name, words))
    return rows


def result_rows(measured: Measurement) -> Rows:
    """Named results; of a benchmark of a server by request, rate and latency."""
    if measured.settings or "completed" in measured.results:
        return [*extensions.capability("serving.view", "serving_rows")(measured)]
    return [(name, _short(value)) for name, value in measured.results.items()]


def _step_time_rows(measured: Measurement) -> Rows:
    step = measured.step_time_s
    interval = measured.step_time_interval_s
    others = measured.other_windows
    if step is None:
        if measured.results:
            return []
        return [("step time", "none")]
    limits = (
        interval
        and f", {100 * interval.level:.0f} % interval {_short(interval.low)} to {_short(interval.high)}"
    )
    spread = f"mean {_short(step.mean)}, stdev {_short(step.stdev)}, p5 {_short(step.p5)}, p95 {_short(step.p95)}"
    rows = [("step time", f"{_short(step.median)} s median{limits or ''}"), ("", spread)]
    windows = {"last 10 rows": others.last_10_rows, "steps 35 to 44": others.steps_35_to_44}
    means = []
    for name, mean in windows.items():
        if mean is not None:
            means.append(f"{name} {_short(mean)} s")
    if means:
        rows.append(("  other windows", f"mean of the {', of '.join(means)}"))
    if even := measured.steadiness:
        rows.append(
            (
                "steadiness",
                even.detail if even.verdict == "too_short" else f"{even.verdict}: {even.detail}",
            )
        )
    return rows


def _tokens_rows(measured: Measurement) -> Rows:
    tokens = measured.tokens_per_s_per_gpu.median
    if tokens is None:
        return []
    return [("tokens/s/GPU", f"{tokens:,.0f}" if tokens >= 100 else _short(tokens))]


def _tflops_rows(measured: Measurement) -> Rows:
    both = measured.tflops_per_gpu
    printed = measured.tflops_per_gpu_reported.median
    rows = (
        [("TFLOPS/GPU", f"{_short(both.full)} full, {_short(both.causal)} causal")] if both else []
    )
    if printed is not None:
        unknown = ""
        if both:
            unknown = ", counted by a convention not recognised"
        by = (
            f", counted as {measured.reported_convention}"
            if measured.reported_convention
            else unknown
        )
        rows.append(("  as printed" if both else "TFLOPS printed", f"{_short(printed)}{by}"))
    return rows


def _mfu_rows(measured: Measurement) -> Rows:
    rows = []
    for mfu in measured.mfu:
        rows.append(
            (
                "MFU",
                f"{100 * mfu.full:.1f} % full, {100 * mfu.causal:.1f} % causal, of {mfu.peak_tflops:g} ({mfu.divisor})",
            )
        )
    if (printed := measured.mfu_reported.median) is not None:
        name = "  as printed" if measured.mfu else "MFU printed"
        rows.append((name, f"{100 * printed:.1f} %, with the framework's own peak"))
    return rows


def _loss_rows(measured: Measurement) -> Rows:
    first = measured.first_loss
    final = measured.final_loss
    if first is None or final is None:
        return []
    return [("loss", f"{first:.4f} -> {final:.4f}")]


def _reward_rows(measured: Measurement) -> Rows:
    first = measured.first_reward
    final = measured.final_reward
    if first is None or final is None:
        return []
    return [
        (
            "reward",
            f"{_short(first)} -> {_short(final)}, means of the first and the last tenth of the steps",
        )
    ]


DETAILS: dict[str, Callable[[Measurement], Rows]] = {
    "step_time_s": _step_time_rows,
    "tokens_per_s_per_gpu": _tokens_rows,
    "tflops_per_gpu": _tflops_rows,
    "mfu_percent": _mfu_rows,
    "tokens_per_joule": lambda _: [],  # shown in the row of the GPUs' energy
    "rank_spread_percent": lambda _: [],  # shown in the row of the ranks
    "final_loss": _loss_rows,
    "final_reward": _reward_rows,
}
"""Metrics that take more than their value."""


def problem_rows(measured: Measurement) -> Rows:
    """Derived conditions with their reasons, then the first problems, the fatal one
    first.
    """
    guesses = []
    for name, reason in measured.derived.items():
        guesses.append((f"  {name.replace('_', ' ')}", reason))
    rows = []
    for entry in problems_of(measured):
        places = {"line": entry.line, "host": entry.host, "rank": entry.rank}
        place = ", ".join(f"{name} {value}" for name, value in places.items() if value is not None)
        place = ", ".join(filter(None, ["fatal" if entry == measured.fatal else "", place]))
        rows.append((entry.kind, f"{place}: {entry.detail}" if place else entry.detail))
    more = len(rows) - SHOWN_PROBLEMS
    shown = [*rows[:SHOWN_PROBLEMS], ("", f"and {more} more: --json")] if more > 0 else rows
    return guesses + shown


def problems_of(measured: Measurement) -> list[ProblemEntry]:
    """Every problem once, the fatal one first."""
    return [*dict.fromkeys(filter(None, (measured.fatal, *measured.problems)))]


def _rows(number: int, kind: str = "") -> str:
    return f"{number} {kind}row{'' if number == 1 else 's'}"


def _short(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"
