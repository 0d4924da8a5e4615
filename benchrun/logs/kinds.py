"""Every kind of problem: who says it, whether it is fatal, whether it ends the job, and
which ending it shows.

The columns of kinds.csv:

- ``role``: who reports a problem of this kind, one of ROLES. A line of problems.csv may state another one.
- ``fatal``: ``always``; ``restart``, unless a restart repeated the work; ``steps``, unless steps follow; ``verdict``,
  to a verdict alone; empty for a note.
- ``ends``: ``yes`` if the job writes no more steps after it.
- ``late``: ``yes`` if it is harmless after the last planned step, because programs fail while they shut down.
- ``ending``, ``told_by``: the ending of a job whose log shows it: of one that failed, or of one that got a signal.
- ``node``: ``yes`` if a node causes it, whatever it runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchrun.paths import table

ROLES = (
    "hardware",
    "resource",
    "failure",
    "remote",
    "said",
    "fault",
    "peer",
    "exit",
    "after",
    "word",
    "last",
    "",
)
"""Roles from the strongest evidence to the weakest.

``hardware``: a broken part. ``resource``: what ran out. ``failure``: the last line of
an exception, or another reason for the end of the process or job. ``remote``: an
exception that blames another rank or the network: a ``failure``, but the word of a
``peer`` if a launcher saw a ``fault``. ``said``: an error outside a traceback, which
may have been handled. ``fault``: a process that signal 11 ended, as a launcher saw it.
``peer``: that another rank has gone. ``exit``: the exit code that a launcher saw.
``after``: what a launcher did then. ``word``: an error line that says no more.
``last``: that work is missing. Empty: no evidence of an end.
"""
MADE_UP_BY = {"always": (), "verdict": (), "restart": ("restart",), "steps": ("steps", "restart")}
"""Events that must follow a problem in the log to make up for it, by the column
``fatal``.
"""
RESOURCES = frozenset({"xid", "ecc", "cuda_oom", "host_oom", "disk_full", "shm_full"})
"""Kinds that explain every other error of the same process."""
GENERIC = "rank_crash"
"""A process that died of something that no other kind names."""


@dataclass(frozen=True)
class Kind:
    """Consequences of a problem of one kind."""

    role: str = ""
    fatal: str = ""
    ends: bool = False
    late: bool = False
    ending: str = ""
    told_by: str = ""
    node: bool = False

    @property
    def made_up_by(self) -> tuple[str, ...] | None:
        """Events that make up for it, values of ``Problem.then``; None if it is never
        fatal to a log.
        """
        if self.fatal in ("", "verdict"):
            return None
        return MADE_UP_BY[self.fatal]


NOTE = Kind()
KINDS = {
    row["problem"]: Kind(
        role=row["role"],
        fatal=row["fatal"],
        ends=row["ends"] == "yes",
        late=row["late"] == "yes",
        ending=row["ending"],
        told_by=row["told_by"],
        node=row["node"] == "yes",
    )
    for row in table(__file__)
}
"""Name of a kind -> its facts, causes before consequences. A kind that is not listed is
a NOTE.
"""


def kind_of(name: str) -> Kind:
    """The facts of the kind ``name``."""
    return KINDS.get(name, NOTE)


def blaming_node(problems: Iterable[Any]) -> list[Any]:
    """The problems that a node causes, whatever it runs; each may name it as ``host``."""
    return [problem for problem in problems if kind_of(problem.kind).node]


def short_name(host: str) -> str:
    """A node's name without its domain."""
    return host.partition(".")[0]
