"""Endings of jobs with their evidence: a total classification."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pydantic import Field

from benchrun.logs.kinds import KINDS
from benchrun.paths import table
from benchrun.rundir.artifacts import DONE, ENDING, Done, EndingRecord
from benchrun.rundir.artifacts import Ending as Ending
from benchrun.rundir.folder import RunDir

from .scheduler import Job, Phase


class End(EndingRecord):
    """An ending and its evidence, which may be a guess."""

    final: bool = Field(default=True, exclude=True)
    """Whether the ending rests on the scheduler's final state, on done.json, or on a
    refusal; otherwise it is a guess.
    """


UNKNOWN_JOB = "neither queue nor accounting knows the job"
BY_NOBODY = "CANCELLED by nobody"
"""Reason of a job that accounting calls cancelled without naming who did."""
ASKED = "benchrun cancel asked for its end"
NEVER_BEGAN = "it got nodes, but its script never began"
BY_STATE = {row["state"]: Ending(row["ending"]) for row in table(__file__)}
"""Slurm's final states (man squeue, JOB STATE CODES, 22.05 to 26.05) that are
unambiguous.
"""
_OUTCOMES = {Ending(row["ending"]): row for row in table(__file__, "outcomes.csv")}
AGAIN = {ending: row["again"] for ending, row in _OUTCOMES.items()}
"""Whether a run that ended so is launched again if retries are allowed.

``always``; ``never``: a person wanted it, or it would end so again; ``maybe``: another
try may end otherwise; ``done``.
"""
NO_ANSWER = frozenset(ending.value for ending, row in _OUTCOMES.items() if row["answer"] == "no")
"""Endings that show neither that the cluster is good nor that it is bad."""
_STATED = re.compile(
    rf"""scheduler:\ (?P<state>.+)
    |exit\ code\ (?P<code>\d{{1,9}}|None)(,\ signal\ (?P<signal>\d{{1,9}}))?
    |reason:\ (?P<reason>.+)
    |restarted\ (?P<restarts>\d{{1,9}})\ times
    |{re.escape(DONE)}:\ exit\ code\ (?P<done>\d{{1,9}})(,\ signal\ (?P<done_signal>.+))?
        ,\ restarts\ (?P<done_restarts>\d{{1,9}})
    |no\ step\ for\ the\ last\ (?P<no_step_s>\d{{1,9}})\ s,.*
    |{re.escape(ASKED)}|{re.escape(NEVER_BEGAN)}
    |no\ line\ in\ its\ log\ for\ the\ last\ (?P<quiet_s>\d{{1,9}})\ s""",
    re.VERBOSE,
)
"""A line of the evidence that is no symptom of the log."""
_SIGNALS = {
    24: "SIGXCPU: it used the CPU time that its limit allows (ulimit -t)",
    25: "SIGXFSZ: a file reached the size that its limit allows (ulimit -f)",
    53: "Slurm's word for a log that the node cannot open: it does not see the run directory by this name",
}
"""Number of a signal -> the meaning that its number alone does not show."""
SILENT_S = 600
"""Seconds without a line in its log after which a job that reaches its time limit was
hung.
"""


def symptoms(evidence: Sequence[str]) -> list[str]:
    """The lines of the evidence that are from the log, in order: what went wrong,
    without how the job ended.
    """
    return [line for line in evidence if not _STATED.fullmatch(line)]


def recorded(run: RunDir) -> End | None:
    """The ending in ending.json; None if the file is missing or damaged, or holds a
    guess (lost).
    """
    end = run.read(ENDING, End)
    if end is None or end.ending is Ending.LOST:
        return None
    return end


def unreadable_ending(run: RunDir) -> bool:
    """Whether ending.json is there, and so the run has ended, but holds no ending that
    can be read.
    """
    return os.path.lexists(run.path / ENDING) and run.read(ENDING, End) is None


def recorded_name(run: RunDir) -> str | None:
    """The name of the ending that `recorded` returns, e.g. ``completed``; None without
    one.
    """
    end = recorded(run)
    if not end:
        return None
    return end.ending.value


def classify(
    job: Job,
    done: Done | None,
    *,
    symptoms: Mapping[str, str] = MappingProxyType({}),
    steps_seen: int = 0,
    steps_planned: int = 0,
    quiet_s: float = 0.0,
    asked: bool = False,
    began: bool = True,
) -> End:
    """Name the ending of a job that is no longer in the queue.

    ``job``: the scheduler's last answer. ``done``: done.json. ``symptoms``: problems in
    the log, the first line of each kind. ``quiet_s``: how long the log had been silent
    when the job ended. ``asked``: `launcher.cancel` stopped it. ``began``: false if it
    had nodes, but its script left no file.
    """
    # The script's own code first: Slurm reports 0:0 for a job that ended itself.
    code = done.exit_code if done else job.exit_code
    evidence = _evidence(job, done, symptoms)
    evidence += [ASKED] * asked + [NEVER_BEGAN] * (not began)
    if steps_planned and 0 < steps_seen < steps_planned:
        evidence.append(f"{steps_seen} of {steps_planned} steps")
    ending = _ending(job, done, symptoms, steps_seen >= steps_planned, quiet_s)
    if done is None or done.signal:
        ending = _stopped(job, asked=asked, began=began) or ending
    elif job.reason == BY_NOBODY:
        ending = _ending(
            replace(job, state="UNKNOWN"), done, symptoms, steps_seen >= steps_planned, quiet_s
        )
    if done and done.no_step_s is not None:
        evidence.append(
            f"no step for the last {done.no_step_s} s, longer than step_deadline_s allows"
        )
    elif ending is Ending.HUNG:
        evidence.append(f"no line in its log for the last {quiet_s:.0f} s")
    final = job.phase is Phase.ENDED or ending is Ending.CANCELLED
    if job.phase is Phase.GONE and done is not None:
        # A script that was sent TERM does not know why; after a restart, nor does its
        # log, which holds both lives.
        final = not (done.signal and ending in (Ending.FAILED, Ending.REQUEUED))
    return End(ending=ending, evidence=tuple(evidence), exit_code=code, final=final)


def classified_again(
    evidence: Sequence[str], *, symptoms: Mapping[str, str], steps_seen: int, steps_planned: int
) -> End:
    """The ending that ``classify`` gives for the scheduler's answer and the done.json
    that ``evidence`` states.
    """
    facts: dict[str, str] = {}
    for line in evidence:
        if match := _STATED.fullmatch(line):
            facts |= {name: text for name, text in match.groupdict().items() if text}

    def number(name: str) -> int | None:
        text = facts.get(name, "None")
        if text == "None":
            return None
        return int(text)

    gone = UNKNOWN_JOB in evidence
    job = Job(
        "",
        Phase.GONE if gone else Phase.ENDED,
        facts.get("state", "UNKNOWN"),
        exit_code=number("code"),
        signal=number("signal"),
        reason=facts.get("reason", ""),
        restarts=number("restarts") or 0,
    )
    code = number("done")
    restarts = number("done_restarts") or 0
    done = None
    if code is not None:
        done = Done.model_construct(
            exit_code=code,
            signal=facts.get("done_signal"),
            restarts=restarts,
            no_step_s=number("no_step_s"),
        )
    quiet_s = float(facts.get("quiet_s", 0))
    return classify(
        job,
        done,
        symptoms=symptoms,
        steps_seen=steps_seen,
        steps_planned=steps_planned,
        quiet_s=quiet_s,
        asked=ASKED in evidence,
        began=NEVER_BEGAN not in evidence,
    )


def _stopped(job: Job, *, asked: bool, began: bool) -> Ending | None:
    """The ending of a job that was stopped before its script could say why; None for
    any other.

    Accounting names who cancelled a job. After a failed prolog that is Slurm's own
    user, who may be a person's: but the script of a job that has nodes left no file.
    After a controller lost its state it is nobody.
    """
    if job.phase is Phase.GONE:
        if not asked:
            return None
        return Ending.CANCELLED
    if job.state != "CANCELLED" or asked:
        return None
    if not began:
        return Ending.NODE_FAILURE
    if job.reason != BY_NOBODY:
        return None
    return Ending.SCHEDULER_FAILURE


def _ending(
    job: Job, done: Done | None, symptoms: Mapping[str, str], has_all_steps: bool, quiet_s: float
) -> Ending:
    by_state = BY_STATE.get(job.state)
    if done and done.no_step_s is not None:
        return Ending.HUNG
    if by_state in (Ending.TIMEOUT, Ending.CANCELLED) and quiet_s >= SILENT_S:
        return Ending.HUNG
    restarted = max(job.restarts, done.restarts if done else 0) > 0
    # If a preempted job ran again, accounting may still list only its first run.
    if by_state is not None and not (by_state is Ending.PREEMPTED and restarted):
        return by_state
    if restarted:
        return Ending.REQUEUED
    if job.phase is Phase.GONE and done is None:
        return Ending.LOST
    # Slurm's own line in the log shows why a job that queue and accounting have
    # forgotten was signalled. Otherwise the problems in the log show why a job failed:
    # kinds.csv has causes before consequences.
    signalled = job.phase is Phase.GONE and done and done.signal
    if signalled or job.state not in ("COMPLETED", "UNKNOWN") or (done and done.exit_code):
        return _by_symptoms(symptoms, "signal" if signalled else "failure")
    if has_all_steps:
        return Ending.COMPLETED
    return Ending.INCOMPLETE


def _by_symptoms(symptoms: Mapping[str, str], told_by: str) -> Ending:
    """The ending of the first kind of problem that the log has and that is ``told_by``
    this.
    """
    for name, kind in KINDS.items():
        if kind.told_by == told_by and name in symptoms:
            return Ending(kind.ending)
    return Ending.FAILED


def _evidence(job: Job, done: Done | None, symptoms: Mapping[str, str]) -> list[str]:
    facts = [UNKNOWN_JOB if job.phase is Phase.GONE else f"scheduler: {job.state}"]
    if job.exit_code is not None or job.signal:
        facts.append(
            f"exit code {job.exit_code}" + (f", signal {job.signal}" if job.signal else "")
        )
    if job.reason and job.reason != job.state:
        facts.append(f"reason: {job.reason}")
    if job.restarts:
        facts.append(f"restarted {job.restarts} times")
    if done is None:
        facts.append(f"the job wrote no {DONE}")
    else:
        sign = ""
        if done.signal:
            sign = f", signal {done.signal}"
        facts.append(f"{DONE}: exit code {done.exit_code}{sign}, restarts {done.restarts}")
    code = (done.exit_code if done else job.exit_code) or 0
    for number in {job.signal or 0, code - 128} & _SIGNALS.keys():
        facts.append(f"signal {number} is {_SIGNALS[number]}")
    return [*facts, *(f"{kind}: {detail}" for kind, detail in symptoms.items())]
