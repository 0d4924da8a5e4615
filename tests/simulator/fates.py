"""What happens to one job of the simulated Slurm, drawn from the seed, and how it may be called afterwards."""

import random
from dataclasses import dataclass
from typing import NamedTuple

STEPS = 12
"""Planned steps of every simulated run."""


class Kind(NamedTuple):
    """A way in which a job ends."""

    weight: int
    state: str
    """Slurm's final state."""
    code: int
    signal: int
    """Slurm's exit code and signal of the job."""
    done: tuple[int, str | None] | None
    """Exit code and signal in done.json; None where the script cannot write it."""
    words: str
    """Line in stderr.log at the end."""
    endings: frozenset[str]
    """The endings that are true."""


def _kind(
    weight: int, state: str, code: int, signal: int, done: tuple[int, str | None] | None, words: str, endings: str
) -> Kind:
    return Kind(weight, state, code, signal, done, words, frozenset(endings.split()))


_TERM = (143, "TERM")
_STOPPED = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T10:00:00"
KINDS = {
    "well": _kind(30, "COMPLETED", 0, 0, (0, None), "", "completed"),
    "crash": _kind(8, "FAILED", 3, 0, (3, None), "", "failed"),
    "short": _kind(3, "COMPLETED", 0, 0, (0, None), "", "incomplete"),
    "mute": _kind(2, "FAILED", 0, 9, None, "", "failed"),
    "time": _kind(4, "TIMEOUT", 0, 0, _TERM, f"{_STOPPED} DUE TO TIME LIMIT ***", "timeout"),
    "memory": _kind(3, "OUT_OF_MEMORY", 0, 125, (137, None), "error: Detected 1 oom_kill event", "out_of_memory_host"),
    "node": _kind(6, "NODE_FAIL", 1, 0, None, "", "node_failure"),
    "preempted": _kind(5, "PREEMPTED", 0, 15, _TERM, f"{_STOPPED} DUE TO PREEMPTION ***", "preempted"),
    "admin": _kind(4, "CANCELLED", 0, 15, _TERM, f"{_STOPPED} ***", "cancelled"),
    "prolog": _kind(4, "CANCELLED", 0, 0, None, "", "node_failure"),
    "node again": _kind(3, "NODE_FAIL", 1, 0, None, "", "requeued"),
    "preempted again": _kind(3, "PREEMPTED", 0, 15, _TERM, f"{_STOPPED} DUE TO PREEMPTION ***", "requeued"),
}
"""Those that end in ``again`` are put into the queue again, and then end well."""
CANCELLED = KINDS["admin"]
STATE_LOST = _kind(0, "CANCELLED", 0, 0, _TERM, "", "scheduler_failure")
"""The controller has lost its state: accounting closes the job, by nobody; its processes are ended."""


@dataclass
class Fate:
    """One job's life, in seconds of the virtual clock."""

    kind: Kind
    again: bool
    """It is requeued once, and ends well in its second life."""
    wait_s: float
    """In the queue."""
    run_s: float
    completing_s: float
    """In the state COMPLETING."""
    files_late_s: float
    """Until other hosts see the last lines and done.json."""
    suspended_s: float
    """In the state SUSPENDED, in the middle of its run; 0: it never is."""


def draw(rng: random.Random, hanging_epilog: bool) -> Fate:
    """The fate of the next job."""
    name = rng.choices([*KINDS], [kind.weight for kind in KINDS.values()])[0]
    hangs = hanging_epilog and KINDS[name].done and KINDS[name].state != "PREEMPTED" and rng.random() < 0.5
    epilog_s = rng.choice([0.0, 0.0, 2.0, 90.0])
    return Fate(
        KINDS[name],
        name.endswith("again"),
        wait_s=rng.choice([0.0, 2.0, 20.0, 3000.0]),
        run_s=rng.choice([5.0, 60.0, 900.0, 20000.0]),
        completing_s=2 * 86400.0 if hangs else epilog_s,
        files_late_s=rng.choice([0.0, 0.0, 1.0, 30.0]),
        suspended_s=rng.choice([0.0] * 9 + [1000.0]),
    )
