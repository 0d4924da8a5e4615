"""Parses the output of Slurm's commands. Pure: damaged text gives no rows, never an error.

Named fields in parsable form, because ``--json`` changes between versions. Tested with 22.05.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchrun.launch.scheduler import Job, Phase

SQUEUE_FORMAT = "%i|%T|%U|%r|%N|%Z"
SACCT_FIELDS = ("JobID", "State", "ExitCode", "NodeList", "Reason", "End", "UID")
"""The work directory follows, last because it alone may contain a ``|``."""
_PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_ENDED = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"),
    *("PREEMPTED", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"),
)
_ID = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SUBMITTED = re.compile(r"([0-9]{1,18})(?:;\S+)?")
_BAD_OPTION = re.compile(
    r"^sbatch: (unrecognized option|invalid option|error: Invalid --\S+ specification)", re.MULTILINE
)
"""sbatch's errors for an invalid option: it ends before it asks the controller."""
_FAILED = "Batch job submission failed: "
# Words in slurm_errno.c (all versions) and in system errors for a message that was lost on its way.
_COMMUNICATION = re.compile(
    r"connect|socket|communicat|transmi|transport|receiv|\bsend|time ?out|timed out|contact slurm|network|message"
    r"|protocol|version|unpack|authentic|munge|shutting down|descriptor|would block|data received|TLS|HTTP",
    re.IGNORECASE,
)
_SYSTEM = frozenset(os.strerror(number) for number in errno.errorcode)


@dataclass(frozen=True)
class Row:
    """One job in the queue or in accounting, with the owner and work directory that identify its run."""

    job: Job
    uid: int | None
    work_dir: str


def submitted(text: str) -> str | None:
    """The job id in the output of ``sbatch --parsable``: the last such line (a site's wrapper may print more)."""
    ids = [match[1] for line in text.splitlines() if (match := _SUBMITTED.fullmatch(line.strip()))]
    return ids[-1] if ids else None


def refused(stderr: str) -> bool:
    """Whether sbatch reports that it could not read its options or that Slurm refused the job.

    After any other error, such as a lost connection, the job may be in the queue.
    """
    reasons = [line.partition(_FAILED)[2].strip() for line in stderr.splitlines() if _FAILED in line]
    if not reasons:
        return _BAD_OPTION.search(stderr) is not None
    return not (reasons[-1] in _SYSTEM or _COMMUNICATION.search(reasons[-1]))


def phase_of(state: str) -> Phase:
    """The phase of a Slurm state; an undocumented one counts as running until the queue drops the job."""
    word = _word(state)
    if word in _PENDING:
        return Phase.PENDING
    # sacct cuts a word that is too long for its column: "OUT_OF_ME+".
    return Phase.ENDED if word and any(ended.startswith(word) for ended in _ENDED) else Phase.RUNNING


def squeue_rows(text: str) -> Iterator[Row]:
    """The rows of ``squeue --format=SQUEUE_FORMAT``."""
    for fields in _fields(text, 6):
        job, state, uid, reason, nodes, work_dir = fields
        yield Row(Job(job, phase_of(state), _word(state), reason=_reason(reason), nodes=nodes), _number(uid), work_dir)


def sacct_rows(text: str, restarts: bool) -> Iterator[Row]:
    """The rows of sacct with SACCT_FIELDS, Restarts where that field exists, and WorkDir; oldest run first."""
    for fields in _fields(text, 9 if restarts else 8):
        job, state, code, nodes, reason, end, uid = fields[:7]
        exit_code, _, signal = code.partition(":")
        row = Job(
            job,
            phase_of(state),
            _word(state),
            exit_code=_number(exit_code),
            signal=_number(signal),
            reason=state if " by " in state else _reason(reason),  # "CANCELLED by 0" names the user
            nodes=nodes,
            restarts=(_number(fields[7]) or 0) if restarts else 0,
            ended_at=_epoch(end),
        )
        yield Row(row, _number(uid), fields[-1])


def _fields(text: str, count: int) -> Iterator[list[str]]:
    """The lines with a job id and a state among ``count`` fields."""
    for line in text.splitlines():
        fields = line.split("|", count - 1)
        if len(fields) == count and _ID.fullmatch(fields[0]) and fields[1].strip():
            yield fields


def _word(state: str) -> str:
    return (state.split() or [""])[0].rstrip("+")


def _reason(reason: str) -> str:
    return "" if reason == "None" else reason


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def _epoch(text: str) -> float | None:
    """Slurm's local time in seconds since the epoch; None for ``Unknown``."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
