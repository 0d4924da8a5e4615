"""The problems of a log, and which of them are fatal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchrun import hardware
from benchrun.metrics.convention import explained
from benchrun.metrics.model import ProblemEntry, Summary
from benchrun.metrics.setting import Setting, stated
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.records import Log, Problem

ALWAYS = frozenset({"nan_loss", "xid", "ecc", "early_end", "second_training"})
UNTIL_RESTARTED = frozenset({"cuda_oom", "host_oom", "cuda_error", "nccl_error", "nccl_timeout", "hang"})
"""Fatal even where steps follow, unless a restart repeated the work."""
UNTIL_CONTINUED = frozenset(
    {"image_missing", "mount_failed", "launch_failed", "cancelled", "time_limit", "preempted", "node_failure"}
)
"""Fatal unless steps follow: of a second attempt or of a requeued job."""
CRASH = "rank_crash"
"""Fatal unless steps follow or the last planned step was seen: programs fail while they shut down."""
FATAL_KINDS = ALWAYS | UNTIL_RESTARTED | UNTIL_CONTINUED | {CRASH, "skipped_steps"}
MOST_SKIPPED = 0.1
"""Above this share of steps without an update a run did not train."""


def fatal_problem(log: Log, problems: Iterable[Problem], planned_steps: int | None) -> Problem | None:
    """The first fatal problem, or one about too many steps without an update; None for a sound log."""
    complete = log.complete(planned_steps)
    fatal = next((problem for problem in problems if _is_fatal(problem, complete)), None)
    share = skipped_share(log)
    if fatal is None and share > MOST_SKIPPED:
        fatal = Problem("skipped_steps", None, f"{100 * share:.0f} % of the steps had no update")
    return fatal


def _is_fatal(problem: Problem, complete: bool) -> bool:
    if problem.kind == CRASH:
        return not (complete or problem.then)
    if problem.kind in UNTIL_RESTARTED:
        return problem.then != "restart"
    return problem.kind in ALWAYS or (problem.kind in UNTIL_CONTINUED and not problem.then)


def skipped_share(log: Log) -> float:
    """Steps without an update over the steps of the log, 0 to 1."""
    steps, skipped = updates(log)
    return skipped / steps if steps else 0.0


def updates(log: Log) -> tuple[int, int]:
    """Number of steps that the rows stand for, and how many of them made no update.

    Counted by the rows, else by messages; a single message is the usual search for a loss scale.
    """
    left_out, intervals = log.distinct.columns.columns("skipped", "interval")
    skipped, steps = int(left_out.sum()), int(intervals.sum())
    if not skipped and log.skip_messages > 1:
        skipped = log.skip_messages
    return steps, min(skipped, steps)


LAST_DIGIT_TFLOPS, LAST_DIGIT_S = 0.05, 0.005
"""Half of the last digit that frameworks print of TFLOPS and of a step time."""


def unexplained(log: Log, summary: Summary, setting: Setting) -> Iterator[ProblemEntry]:
    """A printed TFLOPS that contradicts our own count: the log is of another model, or of other conditions.

    Only where the log itself says how many tokens a step has: a batch that was typed in may be wrong instead.
    """
    printed, tokens = summary.tflops_per_gpu_reported.median, summary.tokens_per_s_per_gpu.median
    step = summary.step_time_s
    if not (printed and tokens and step and summary.seq_length and _states_tokens(log)):
        return
    if not log.printed_conventions or setting.task != "pretrain" or log.facts.exotic:
        return
    rounding = LAST_DIGIT_TFLOPS / printed + LAST_DIGIT_S / step.median
    models = [model for model in (setting.model, stated(log, setting).model) if model]
    ways = log.printed_conventions
    if any(explained(printed, tokens, model, summary.seq_length, ways, rounding=rounding) for model in models):
        return
    counted = summary.tflops_per_gpu
    own = f", our own count is {counted.full:.4g} (full) or {counted.causal:.4g} (causal)" if counted else ""
    detail = f"the log prints {printed:.4g} TFLOPS{own}: another model, sequence or batch was trained"
    yield ProblemEntry(kind="unexplained_tflops", line=None, detail=detail)


def _states_tokens(log: Log) -> bool:
    """Whether the log itself gives a batch or a rate."""
    rates = log.steps.columns.column("tokens_per_s_per_gpu")
    return stated(log, Setting()).gbs is not None or bool((rates != NO_VALUE).any())


def other_conditions(log: Log, setting: Setting) -> Iterator[ProblemEntry]:
    """A problem for each value that the log states otherwise than the run was launched with."""
    logged = stated(log, Setting())
    for name in ("gpu", "num_gpus", "precision", "seq_length", "gbs"):
        value, meant = getattr(logged, name), getattr(setting, name)
        if value is not None and value != meant and not (name == "gpu" and _same_chip(value, meant)):
            detail = f"the log says {name} {value}, the run was to have {meant}"
            yield ProblemEntry(kind="other_conditions", line=None, detail=detail)


def _same_chip(one: str, other: str) -> bool:
    """Whether two cards differ in their memory alone."""
    first, second = hardware.gpu(one), hardware.gpu(other)
    same_name = one.partition("-")[0] == other.partition("-")[0]
    return bool(same_name and first and second and first.peak_bf16_tflops == second.peak_bf16_tflops)
