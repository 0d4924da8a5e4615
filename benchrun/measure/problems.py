"""The problems of a log, and which of them are fatal."""

import math
from collections.abc import Iterable, Iterator

from benchrun.logs.kinds import GENERIC, kind_of
from benchrun.logs.problems import role_of, strongest
from benchrun.logs.records import Facts, Log, Problem
from benchrun.logs.row_problems import MOST_LOST

from .model import ProblemEntry
from .setting import Setting, same_chip, stated_setting

RANKS = ("tp", "pp", "cp", "dp")
"""Degrees whose product is the number of GPUs."""
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
    """Stated sizes that cannot all be true: GPUs are the product of all degrees, or a
    multiple of the known ones; so is the batch that of what its ranks take in turns.
    """
    details = []
    if facts.other_device:
        details.append(f"the log lists {facts.device} and {facts.other_device}")
    guess = facts.derived.get("num_gpus")
    if guess and guess.value and (facts.num_gpus or 0) % guess.value:
        ranks = f"{guess.value} ranks by {guess.reason}"
        details.append(f"the log states {ranks} on {facts.num_gpus} GPUs")
    for whole, unit, names in (
        (facts.num_gpus, "GPUs", RANKS),
        (facts.dp and facts.gbs, "samples a step", ("mbs", "dp", "accumulation_steps")),
    ):
        product, stated = product_of(facts, names)
        of_all = all(getattr(facts, name) for name in names)
        if whole and (whole % product or (of_all and whole != product)):
            details.append(f"the log states {stated} on {whole} {unit}")
    for detail in details:
        yield Problem("contradictory_layout", None, detail)


def product_of(facts: Facts, names: Iterable[str]) -> tuple[int, str]:
    """The product of the facts that the log states, and its factors."""
    stated = {name: getattr(facts, name) for name in names if getattr(facts, name)}
    return math.prod(stated.values()), " x ".join(f"{name} {size}" for name, size in stated.items())


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
