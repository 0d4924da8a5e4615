"""The nodes of a Slurm cluster: lists of their names, and which of them can be used
now.
"""

from .commands import answer

UNUSABLE = ("down", "drain", "drng", "fail", "unk")
"""Begin of the states of nodes that have failed or are taken out of service; a star
after it: it does not answer.
"""


def expanded(names: str) -> list[str]:
    """The single names in Slurm's notation, e.g. ``n[1-3],n7``. MachineError if Slurm
    cannot read it.
    """
    if not names:
        return []
    return answer("scontrol", "show", "hostnames", names).split()


def idle_nodes(partition: str | None, nodelist: str | None, exclude: str | None) -> list[str]:
    """Nodes that run no job now, of a partition (all if None), among ``nodelist`` and
    without ``exclude``.
    """
    limits = [f"--partition={partition}"] if partition else []
    if nodelist:
        limits += [f"--nodes={nodelist}"]
    excluded = set(expanded(exclude or ""))
    found = []
    for name, state in _states(*limits).items():
        if state == "idle" and name not in excluded:
            found.append(name)
    return found


def unusable_nodes(names: str) -> list[str]:
    """Return those of ``names`` that have failed."""
    states = _states(f"--nodes={names}") if names else {}
    found = []
    for name, state in states.items():
        if state.startswith(UNUSABLE) or state.endswith("*"):
            found.append(name)
    return found


def _states(*limits: str) -> dict[str, str]:
    """The state of each node. Not --states: releases know other names."""
    rows = map(
        str.split, answer("sinfo", "--noheader", "--Node", "--format=%N %T", *limits).splitlines()
    )
    return {row[0]: row[-1] for row in rows if row}
