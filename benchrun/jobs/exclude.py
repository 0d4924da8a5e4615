"""Leaving nodes out of a job."""

import re
from pathlib import Path
from typing import TypeVar

from benchrun.errors import UserError
from benchrun.rundir.folder import read_text
from benchrun.runspec.spec import RunSpec

S = TypeVar("S", bound=RunSpec)
_NODES = re.compile(r"\w[\w.-]*(?:\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\][\w.-]*)*")
"""Names of nodes in Slurm's notation."""
_FILE = re.compile(r".*\.(?:txt|csv|json|ya?ml|lst|list)", re.IGNORECASE)
"""Names of files that do not exist, rather than of nodes."""


def without_nodes(spec: S, exclude: str | None) -> S:
    """``spec`` with the nodes that ``exclude`` names left out, besides those that the
    site leaves out.

    ``exclude`` is a file of names or a list, both in Slurm's notation. UserError if it
    is neither.
    """
    if exclude is None or not (names := _names(exclude)):
        return spec
    if spec.cluster.scheduler != "slurm":
        raise UserError(
            f"--exclude is for nodes of Slurm, and cluster {spec.cluster.name} is this machine"
        )
    together = ",".join(
        dict.fromkeys([*([spec.cluster.exclude] if spec.cluster.exclude else []), *names])
    )
    return spec.model_copy(
        update={"cluster": spec.cluster.model_copy(update={"exclude": together})}
    )


def _names(exclude: str) -> list[str]:
    """The names of nodes in a file or a list, as they are written. UserError for
    anything else.
    """
    file = Path(exclude)
    from_file = file.is_file()
    text = (read_text(file) or "").removeprefix("\ufeff") if from_file else exclude
    # Not at commas within brackets.
    names = list(filter(None, re.split(r"[\s,]+(?![^\[]*\])", text)))
    if wrong := next((name for name in names if not _is_node(name)), None):
        where = None
        if from_file:
            where = str(file)
        hint = "names of nodes as in n1,n[4-7], or a file of them, as benchrun nodes writes it"
        raise UserError(
            f"--exclude: {wrong!r} is neither a file nor a node's name", hint=hint, where=where
        )
    if not names and not from_file:
        raise UserError("--exclude names no node", hint="an unset variable?")
    return names


def _is_node(name: str) -> bool:
    """Whether ``name`` has the form of a node's name, or of several with rising ranges."""
    ranges = []
    for part in re.findall(r"\[(.*?)\]", name):
        ranges += re.findall(r"(\d+)-(\d+)", part)
    rising = all(int(first) <= int(last) for first, last in ranges)
    return bool(_NODES.fullmatch(name)) and not _FILE.fullmatch(name) and rising
