"""The problems of a log, and which of them are fatal."""

import math
from collections.abc import Iterable, Iterator

from benchrun.logs.kinds import GENERIC, kind_of
from benchrun.logs.problems import role_of, strongest
from benchrun.logs.records import Facts, Log, Problem
from benchrun.logs.row_problems import MOST_LOST

from .model import ProblemEntry
from .setting import Setting, same_chip, stated_setting

EFFECTS = ("server_failed", "failed_requests")
"""Kinds that say more than the traceback of a server does."""


def fatal_problem(
    log: Log, problems: Iterable[Problem], planned_steps: int | None, skipped_share: float
) -> Problem | None:
    """The problem that ended a log's run, or one about too many steps without an
    update; None for a sound log.

    Of several the one with the strongest evidence, and of these the first.
    """
    done = log.done(planned_steps)
    fatal = [each for each in problems if _is_fatal(each, done)]
    if any(map(_is_from_scheduler, fatal)):
        fatal = [
            each for each in fatal if each.then != "steps"
        ]  # the job went on until its scheduler ended it
    if fatal:
        cause = strongest(fatal)
        effects = (each for each in fatal if each.kind in EFFECTS)
        if cause.kind == GENERIC:
            return next(effects, cause)
        return cause
    if skipped_share > MOST_LOST:
        return Problem(
            "skipped_steps", None, f"{100 * skipped_share:.0f} % of the steps had no update"
        )
    return None


def _is_fatal(problem: Problem, done: bool) -> bool:
    kind = kind_of(problem.kind)
    role = role_of(problem)
    if role == "said" and problem.then:
        return False  # it was handled
    if done and role == "resource" and problem.then == "steps":
        return False  # something was freed, and all the work was done
    made_up_by = kind.made_up_by
    # When all work is done, ranks leave one after the other, and some see others go.
    late = kind.late or role in ("peer", "said")
    return made_up_by is not None and problem.then not in made_up_by and not (done and late)


def _is_from_scheduler(problem: Problem) -> bool:
    return (
        kind_of(problem.kind).told_by == "signal"
        and role_of(problem) in ("failure", "resource")
        and not problem.then
    )


def job_ended(log: Log) -> bool:
    """Whether a growing log shows that its job was ended, or ended itself, before the
    last planned step.
    """
    return any(map(_ends_job, log.problems))


def _ends_job(problem: Problem) -> bool:
    return kind_of(problem.kind).ends and not problem.then and problem.role != "word"


def contradictory_layout(facts: Facts) -> Iterator[Problem]:
    """A problem if the stated number of GPUs is no multiple of the ranks that hold one
    copy of the model, or of those that share a batch.
    """
    if facts.other_device:
        detail = f"the log lists {facts.device} and {facts.other_device}"
        yield Problem("contradictory_layout", None, detail)
    ranks, stated = ranks_of_a_copy(facts)
    guess = facts.derived.get("num_gpus")
    shares = {ranks: stated}
    if guess and guess.value:
        shares[guess.value] = f"{guess.value} ranks by {guess.reason}"
    for share, reason in shares.items():
        if facts.num_gpus and facts.num_gpus % share:
            detail = f"the log states {reason} on {facts.num_gpus} GPUs"
            yield Problem("contradictory_layout", None, detail)


def ranks_of_a_copy(facts: Facts) -> tuple[int, str]:
    """The number of ranks that hold one copy of the model, at least, and the degrees it
    is the product of.
    """
    degrees = {name: getattr(facts, name) or 1 for name in ("tp", "pp", "cp")}
    return math.prod(degrees.values()), " x ".join(
        f"{name} {degree}" for name, degree in degrees.items()
    )


def contradictions(log: Log, given: Setting) -> Iterator[ProblemEntry]:
    """Find facts that the log states and that contradict ``given``, with which the run
    was launched.
    """
    own = stated_setting(log, Setting())
    for name in ("gpu", "num_gpus", "precision", "seq_length", "gbs"):
        value, meant = getattr(own, name), getattr(given, name)
        if value is not None and value != meant and not (name == "gpu" and same_chip(value, meant)):
            detail = f"the log states {name} {value}, the specification of the run {meant}"
            yield ProblemEntry(kind="other_conditions", line=None, detail=detail)
