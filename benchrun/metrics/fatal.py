"""The problems that invalidate a log's numbers, for ``parse`` and for the verdict."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.parse.records import Log, Problem

ALWAYS = frozenset({"nan_loss", "xid", "ecc", "early_end"})
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
    found = next((problem for problem in problems if _is_fatal(problem, complete)), None)
    share = skipped_share(log)
    if found is None and share > MOST_SKIPPED:
        found = Problem("skipped_steps", None, f"{100 * share:.0f} % of the steps had no update")
    return found


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
