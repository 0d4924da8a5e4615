"""A log and the model it trained -> metrics.json: the numbers a person acts on, each with its convention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from benchrun import hardware
from benchrun.metrics.bound import Bound
from benchrun.metrics.breakdown import Breakdown
from benchrun.metrics.convention import explained
from benchrun.metrics.fatal import updates
from benchrun.metrics.known import Known, known
from benchrun.metrics.statistics import Interval, Spread
from benchrun.metrics.steadiness import MIN_TREND, Steadiness
from benchrun.metrics.summary import (
    NOTHING,
    Conventions,
    MeanMedian,
    Mfu,
    OtherWindows,
    ProblemEntry,
    Summary,
    Window,
    summarise,
)
from benchrun.metrics.telemetry import Telemetry
from benchrun.model import Frozen, ModelShape
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.records import Log
from benchrun.vocabulary import Task

LAST_DIGIT_TFLOPS, LAST_DIGIT_S = 0.05, 0.005
"""Half of the last digit that frameworks print of TFLOPS and of a step time."""
ROSE = 1.1
"""A loss that ends above so many times its first value is no noise: the run did not train."""


class Metrics(Frozen):
    """What one run measured. Without a window (no step was seen) there is no number."""

    schema_version: Literal[1] = 1
    framework: str
    gpu: str
    precision: str
    num_gpus: int
    complete: bool | None
    """The last planned step was seen; None where nobody says how many were planned."""
    planned_steps: int | None
    num_steps: int
    warmup_rows_dropped: int
    window: Window | None
    step_time_s: Spread | None
    step_time_interval_s: Interval | None
    """Where the true median lies, with 95 % confidence; for 2 to 5 rows all that was seen, at its own level."""
    only_average: bool
    """The step time is a mean over the whole run, with start-up in it."""
    whole_seconds: bool
    """Each step time is known to a second only: the mean says more than the median."""
    steadiness: Steadiness | None
    other_windows: OtherWindows
    tokens_per_s_per_gpu: MeanMedian
    tflops_per_gpu: Conventions | None
    """From the median step time and our own count of FLOPs."""
    tflops_per_gpu_reported: MeanMedian
    reported_convention: str | None
    mfu: tuple[Mfu, ...]
    """One, over the dense peak of the run's precision; none for a GPU without a listed peak."""
    first_loss: float | None
    final_loss: float | None
    problems: tuple[ProblemEntry, ...]
    warmup: int | None = None
    """Rows to drop as warm-up, where the caller said how many."""
    steps_timed: int = 0
    """Steps that the rows stand for, the warm-up's too."""
    skipped_updates: int = 0
    """Of those: steps that left the weights as they were."""
    skipped_share: float = 0.0
    """Skipped updates over the steps of the log, 0 to 1."""
    fatal: ProblemEntry | None = None
    """The first problem that makes the numbers count for nothing."""
    bf16_peak_ratio: Conventions | None = None
    """TFLOPS over the dense BF16 peak, of a run in another precision; it may be above 1."""
    mfu_reported: MeanMedian = NOTHING
    """As the framework prints it, a fraction of a peak that it chose."""
    telemetry: Telemetry | None = None
    """What the GPUs did in the window; None where nothing was sampled."""
    bound: Bound | None = None
    """The step beside what the machine reached alone; None where that was not measured."""
    breakdown: Breakdown | None = None
    """Where the time of a step went; None where none was profiled."""

    @property
    def loss_rose(self) -> str | None:
        """Said of a run that diverged: its speed is a speed, but experts and clocks may have had other work."""
        if not self.first_loss or self.final_loss is None or self.final_loss <= ROSE * self.first_loss:
            return None
        return f"the loss rose from {self.first_loss:.4g} to {self.final_loss:.4g}"

    @property
    def drifted(self) -> str | None:
        """Said of steps whose time moved so far within the window that its median is that of no step."""
        even = self.steadiness
        if even is None or even.verdict != "drifting" or abs(even.drift_pct) < 100 * MIN_TREND:
            return None
        return even.detail


def measure(
    log: Log,
    *,
    model: ModelShape,
    seq_length: int,
    gbs: int,
    num_gpus: int,
    gpu: str,
    precision: str,
    planned_steps: int | None,
    task: Task = "pretrain",
    warmup: int | None = None,
) -> Metrics:
    """Metrics of one run. What the log says of its conditions wins over what the caller expects, and is a problem."""
    given = Known(seq_length, gbs, num_gpus, gpu, precision, model, task)
    summary = summarise(log, warmup=warmup, given=given, planned_steps=planned_steps)
    steps, skipped = updates(log)
    problems = (*summary.problems, *_otherwise(log, given), *_unexplained(log, summary, given))
    shared = {name: getattr(summary, name) for name in _SHARED}
    return Metrics(
        framework=log.framework,
        gpu=gpu,
        precision=precision,
        num_gpus=num_gpus,
        only_average=log.only_average,
        whole_seconds=log.whole_seconds,
        warmup=warmup,
        steps_timed=steps,
        skipped_updates=skipped,
        **{**shared, "problems": problems},
    )


def _unexplained(log: Log, summary: Summary, given: Known) -> Iterator[ProblemEntry]:
    """A printed TFLOPS that contradicts our own count: the log is of another model, or of other conditions.

    Only where the log itself says how many tokens a step has: a batch that was typed in may be wrong instead.
    """
    printed, tokens = summary.tflops_per_gpu_reported.median, summary.tokens_per_s_per_gpu.median
    step = summary.step_time_s
    if not (printed and tokens and step and summary.seq_length and _states_tokens(log)):
        return
    if not log.printed_conventions or given.task != "pretrain" or log.facts.exotic:
        return
    rounding = LAST_DIGIT_TFLOPS / printed + LAST_DIGIT_S / step.median
    models = [model for model in (given.model, known(log, given).model) if model]
    ways = log.printed_conventions
    if any(explained(printed, tokens, model, summary.seq_length, ways, rounding=rounding) for model in models):
        return
    counted = summary.tflops_per_gpu
    ours = f", our own count is {counted.full:.4g} (full) or {counted.causal:.4g} (causal)" if counted else ""
    detail = f"the log prints {printed:.4g} TFLOPS{ours}: another model, sequence or batch was trained"
    yield ProblemEntry(kind="unexplained_tflops", line=None, detail=detail)


def _states_tokens(log: Log) -> bool:
    """Whether the log itself gives a batch or a rate."""
    rates = log.steps.columns.column("tokens_per_s_per_gpu")
    return known(log, Known()).global_batch_size is not None or bool((rates != NO_VALUE).any())


def _otherwise(log: Log, given: Known) -> Iterator[ProblemEntry]:
    """What the log says otherwise than it was meant to be: the numbers are then those of other conditions."""
    said = known(log, Known())
    for name in ("gpu", "num_gpus", "precision", "seq_length", "global_batch_size"):
        found, meant = getattr(said, name), getattr(given, name)
        if found is not None and found != meant and not (name == "gpu" and _same_chip(found, meant)):
            detail = f"the log says {name} {found}, the run was to have {meant}"
            yield ProblemEntry(kind="other_conditions", line=None, detail=detail)


def _same_chip(one: str, other: str) -> bool:
    """Cards that differ in their memory alone."""
    first, second = hardware.gpu(one), hardware.gpu(other)
    if first is None or second is None or one.partition("-")[0] != other.partition("-")[0]:
        return False
    return first.peak_bf16_tflops == second.peak_bf16_tflops


_SHARED = (
    *("complete", "planned_steps", "num_steps", "warmup_rows_dropped", "window"),
    *("step_time_s", "step_time_interval_s", "steadiness"),
    *("other_windows", "tokens_per_s_per_gpu", "tflops_per_gpu", "tflops_per_gpu_reported", "reported_convention"),
    *("mfu", "bf16_peak_ratio", "mfu_reported", "first_loss", "final_loss", "problems", "fatal", "skipped_share"),
)
"""What a run's metrics and a log's summary have in common."""
