"""Parses the output of Slurm's commands. Pure: damaged text gives no rows, never an
error.

Named fields in parsable form, because ``--json`` changes between versions. Tested with
22.05.
"""

import errno
import functools
import os
import re
import time
from collections.abc import Mapping, Sequence

from .endings import BY_NOBODY, BY_STATE
from .scheduler import Job, Phase

SQUEUE = {
    "JobID": "%i",
    "State": "%T",
    "UID": "%U",
    "Reason": "%r",
    "NodeList": "%N",
    "Start": "%S",
    "WorkDir": "%Z",
}
"""sacct's name of a field -> squeue's. WorkDir is last, because it alone may contain a
``|``.
"""
SACCT = (
    "JobID",
    "State",
    "ExitCode",
    "NodeList",
    "Reason",
    "Start",
    "End",
    "UID",
    "Restarts",
    "WorkDir",
)
_PENDING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_SUSPENDED = ("SUSPENDED", "STOPPED")
_ENDED = ("COMPLETED", "FAILED", *BY_STATE)
_ID = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SUBMITTED = re.compile(r"([0-9]{1,18})(?:;\S+)?")
_BAD_OPTION = re.compile(
    r"^sbatch: (unrecognized option|invalid option|error: Invalid --\S+ specification)",
    re.MULTILINE,
)
"""sbatch's errors for an invalid option: it ends before it asks the controller."""
_LIMIT = re.compile(r"\b(Assoc|QOS)\w*Submit\w*Limit\b")
"""Slurm's names of limits on the number of jobs in the queue (job_state_reason_string),
which sbatch prints.
"""
_FAILED = "Batch job submission failed: "
# Words in slurm_errno.c (all versions) and in system errors for a message that was lost
# on its way.
_COMMUNICATION = re.compile(
    r"connect|socket|communicat|transmi|transport|receiv|\bsend|time ?out|timed out|contact slurm|network|message"
    r"|protocol|version|unpack|authentic|munge|shutting down|descriptor|would block|data received|TLS|HTTP",
    re.IGNORECASE,
)
_SYSTEM = frozenset(map(os.strerror, errno.errorcode))


def submitted(text: str) -> str | None:
    """The job id in the output of ``sbatch --parsable``: the last such line (a site's
    wrapper may print more).
    """
    ids = []
    for line in text.splitlines():
        if match := _SUBMITTED.fullmatch(line.strip()):
            ids.append(match[1])
    if not ids:
        return None
    return ids[-1]


def refused(stderr: str) -> bool:
    """Whether sbatch reports that it could not read its options or that Slurm refused
    the job.

    After any other error, such as a lost connection, the job may be in the queue.
    """
    reasons = []
    for line in stderr.splitlines():
        if _FAILED in line:
            reasons.append(line.partition(_FAILED)[2].strip())
    if not reasons:
        return _BAD_OPTION.search(stderr) is not None
    return not (reasons[-1] in _SYSTEM or _COMMUNICATION.search(reasons[-1]))


def limited(stderr: str) -> bool:
    """Whether sbatch was refused because of the jobs that are in the queue, so that a
    later one will be accepted.
    """
    return _LIMIT.search(stderr) is not None


def phase_of(state: str) -> Phase:
    """The phase of a Slurm state; an undocumented one counts as running until the queue
    drops the job.
    """
    word = _word(state)
    if word in _PENDING:
        return Phase.PENDING
    if word in _SUSPENDED:
        return Phase.SUSPENDED
    # sacct cuts a word that is too long for its column: "OUT_OF_ME+".
    if word and any(ended.startswith(word) for ended in _ENDED):
        return Phase.ENDED
    return Phase.RUNNING


def jobs(text: str, fields: Sequence[str]) -> list[Job]:
    """The jobs in lines of ``fields`` (sacct's names) with ``|`` between them, in their
    order.
    """
    lines = (line.split("|", len(fields) - 1) for line in text.splitlines())
    rows = []
    for line in lines:
        if len(line) == len(fields):
            rows.append(dict(zip(fields, line, strict=True)))
    found = []
    for row in rows:
        if _ID.fullmatch(row["JobID"]) and row["State"].strip():
            found.append(_job(row))
    return found


def _job(row: Mapping[str, str]) -> Job:
    state = row["State"]
    reason = row["Reason"]
    exit_code, _, signal = row.get("ExitCode", "").partition(":")
    nodes = ""
    if row["NodeList"] != "None assigned":
        nodes = row["NodeList"]
    ended_at = _epoch(row.get("End", ""))
    return Job(
        row["JobID"],
        phase_of(state),
        _word(state),
        exit_code=_number(exit_code),
        signal=_number(signal),
        reason=_why(state, reason, in_accounting="ExitCode" in row),
        nodes=nodes,
        restarts=_number(row.get("Restarts", "")) or 0,
        started_at=_epoch(row["Start"]) if nodes else ended_at,
        ended_at=ended_at,
        uid=_number(row["UID"]),
        work_dir=row["WorkDir"],
    )


def _why(state: str, reason: str, *, in_accounting: bool) -> str:
    """Why a job is in its state; accounting writes the user who cancelled it into the
    state: ``CANCELLED by 0``.
    """
    if " by " in state:
        return state
    if in_accounting and state == "CANCELLED":
        return BY_NOBODY
    if reason == "None":
        return ""
    return reason


def _word(state: str) -> str:
    return (state.split() or [""])[0].rstrip("+")


def _number(text: str) -> int | None:
    if not _NUMBER.fullmatch(text):
        return None
    return int(text)


@functools.lru_cache
def _epoch(text: str) -> float | None:
    """Slurm's local time in seconds since the epoch; None for ``Unknown``."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
