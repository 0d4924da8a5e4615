"""The problems of a log, and which of them are fatal."""

from collections.abc import Iterable, Iterator

from benchrun.metrics.convention import EXPLAINS, identify
from benchrun.metrics.model import Measurement, ProblemEntry
from benchrun.metrics.setting import Setting, same_chip, stated_setting
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.records import Log, Problem

SERVER = "server_failed"
CRASH = "rank_crash"
"""No problem once the last planned step was seen: programs fail while they shut down."""
FATAL = {
    **dict.fromkeys(("nan_loss", "xid", "ecc", "early_end", "second_training", "two_jobs"), ()),
    **dict.fromkeys(("failed_requests", "contradictory_result"), ()),
    # Fatal even where steps follow, unless a restart repeated the work.
    **dict.fromkeys(("cuda_oom", "host_oom", "cuda_error", "nccl_error", "nccl_timeout", "hang"), ("restart",)),
    # Fatal unless steps follow: of a second attempt or of a requeued job.
    **dict.fromkeys(("image_missing", "mount_failed", "launch_failed", "cancelled"), ("steps", "restart")),
    **dict.fromkeys(("time_limit", "preempted", "node_failure", SERVER, CRASH), ("steps", "restart")),
}
"""What must follow each kind of fatal problem to make up for it."""
END = {"image_missing", "mount_failed", "launch_failed", "cancelled", "time_limit", "cuda_oom", "host_oom", CRASH}
"""Kinds after which a job writes no more steps. A preempted job, or one whose node failed, may be queued again."""
CAUSES = ("xid", "ecc", "cuda_oom", "host_oom", "cuda_error", "missing_module", "port_taken")
"""Kinds that make a rank or a server crash. Cancelled steps and NCCL errors often follow the crash of another rank."""
ABORTED = "srun: Job step aborted"
EFFECTS = (SERVER, "failed_requests")
"""Kinds that say more than the traceback of a server does."""
MOST_SKIPPED = 0.1
"""Above this share of steps without an update a run did not train."""


def fatal_problem(
    log: Log, problems: Iterable[Problem], planned_steps: int | None, skipped_share: float
) -> Problem | None:
    """The first fatal problem, or one about too many steps without an update; None for a sound log.

    In place of a crash the problem that caused it, where the log has one: a traceback begins before its error.
    """
    problems, harmless = [*problems], CRASH if log.complete(planned_steps) else None
    for problem in problems:
        if problem.kind != harmless and problem.kind in FATAL and problem.then not in FATAL[problem.kind]:
            return _cause(problem, problems) if problem.kind in (CRASH, SERVER) else problem
    if skipped_share > MOST_SKIPPED:
        return Problem("skipped_steps", None, f"{100 * skipped_share:.0f} % of the steps had no update")
    return None


def _cause(crash: Problem, problems: Iterable[Problem]) -> Problem:
    """The first problem that explains ``crash`` and that nothing made up for; else an effect, or the crash itself.

    Where srun aborted the step and no rank crashed, the cancelled job explains it.
    """
    left = [each for each in problems if each.then not in FATAL[CRASH]]
    causes = [each for kinds in (CAUSES, EFFECTS) for each in left if each.kind in kinds]
    if not any(each.kind == CRASH and ABORTED not in each.detail for each in left):
        causes += [each for each in left if each.kind == "cancelled" and " JOB " in each.detail]
    return causes[0] if causes else crash


def job_ended(log: Log) -> bool:
    """Whether a growing log shows that its job was ended, or ended itself, before the last planned step."""
    return any(problem.kind in END and not problem.then for problem in log.problems)


def updates(log: Log) -> tuple[int, int]:
    """Number of steps that the rows stand for, and how many of them made no update.

    Counted by the rows, else by messages; a single message is the usual search for a loss scale.
    """
    left_out, intervals = log.distinct.columns("skipped", "interval")
    skipped, steps = int(left_out.sum()), int(intervals.sum())
    if not skipped and log.skip_messages > 1:
        skipped = log.skip_messages
    return steps, min(skipped, steps)


CONSTANT_ROWS = 10
"""So many equal losses, and no other, are no training."""


def constant_loss(log: Log) -> Iterator[Problem]:
    """A loss that never changes: the weights are not updated, or the batch is not read. Not fatal: steps are steps.

    None of post-training: GRPO's loss is zero where each batch is used once.
    """
    if log.post_training:
        return
    losses = log.distinct.column("loss")
    losses = losses[losses != NO_VALUE]
    if len(losses) >= CONSTANT_ROWS and (losses == losses[0]).all():
        detail = f"{losses[0]:g} in all {len(losses)} rows: no update reaches the weights, or the batches are all alike"
        yield Problem("constant_loss", None, detail)


LAST_DIGIT_TFLOPS, LAST_DIGIT_S = 0.05, 0.005
"""Half of the last digit that frameworks print of TFLOPS and of a step time."""


def contradictions(log: Log, measured: Measurement, logged: Setting, given: Setting) -> Iterator[ProblemEntry]:
    """What contradicts ``given``, with which the run was launched; ``logged`` is that completed by the log."""
    own = stated_setting(log, Setting())
    for name in ("gpu", "num_gpus", "precision", "seq_length", "gbs"):
        value, meant = getattr(own, name), getattr(given, name)
        if value is not None and value != meant and not (name == "gpu" and same_chip(value, meant)):
            detail = f"the log states {name} {value}, the specification of the run {meant}"
            yield ProblemEntry(kind="other_conditions", line=None, detail=detail)
    # A batch that was typed in may be what is wrong: only where the log itself says how many tokens a step has.
    rates = log.steps.column("tokens_per_s_per_gpu")
    if given.task == "pretrain" and (own.gbs or (rates != NO_VALUE).any()):
        yield from _unexplained(log, measured, logged, given)


def _unexplained(log: Log, measured: Measurement, logged: Setting, given: Setting) -> Iterator[ProblemEntry]:
    """A printed TFLOPS that contradicts our own count: the log is of another model, or of other conditions."""
    printed, tokens = measured.tflops_per_gpu_reported.median, measured.tokens_per_s_per_gpu.median
    step, counted, ways = measured.step_time_s, measured.tflops_per_gpu, log.printed_conventions
    if not (printed and tokens and step and logged.seq_length and ways) or log.facts.exotic:
        return
    tolerance = EXPLAINS + LAST_DIGIT_TFLOPS / printed + LAST_DIGIT_S / step.median
    models = (given.model, logged.model)
    if any(identify(printed, tokens, model, logged.seq_length, ways, tolerance=tolerance) for model in models):
        return
    count = f", the model gives {counted.full:.4g} (full) or {counted.causal:.4g} (causal)" if counted else ""
    detail = f"the log prints {printed:.4g} TFLOPS{count}: the run trained another model, sequence length or batch"
    yield ProblemEntry(kind="unexplained_tflops", line=None, detail=detail)
