"""The problems of a log, and which of them are fatal."""

from collections.abc import Iterable, Iterator

from benchrun.metrics.convention import EXPLAINS, identify
from benchrun.metrics.model import Measurement, ProblemEntry
from benchrun.metrics.setting import Setting, same_chip, stated_setting
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.kinds import GENERIC, kind_of
from benchrun.parse.problems import strongest
from benchrun.parse.records import Log, Problem

EFFECTS = ("server_failed", "failed_requests")
"""Kinds that say more than the traceback of a server does."""
MOST_SKIPPED = 0.1
"""Above this share of steps without an update a run did not train."""


def fatal_problem(
    log: Log, problems: Iterable[Problem], planned_steps: int | None, skipped_share: float
) -> Problem | None:
    """The problem that ended a log's run, or one about too many steps without an update; None for a sound log.

    Of several the one with the strongest evidence, and of these the first.
    """
    complete = log.complete(planned_steps)
    found = [each for each in problems if _is_fatal(each, complete)]
    if found:
        cause = strongest(found)
        effects = (each for each in found if each.kind in EFFECTS)
        return next(effects, cause) if cause.kind == GENERIC else cause
    if skipped_share > MOST_SKIPPED:
        return Problem("skipped_steps", None, f"{100 * skipped_share:.0f} % of the steps had no update")
    return None


def _is_fatal(problem: Problem, complete: bool) -> bool:
    kind = kind_of(problem.kind)
    made_up_by = kind.made_up_by
    return made_up_by is not None and problem.then not in made_up_by and not (complete and kind.late)


def job_ended(log: Log) -> bool:
    """Whether a growing log shows that its job was ended, or ended itself, before the last planned step."""
    return any(kind_of(problem.kind).ends and not problem.then for problem in log.problems)


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
