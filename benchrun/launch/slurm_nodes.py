"""The nodes of a Slurm cluster: lists of their names, and which of them can be used now."""

from benchrun.errors import MachineError
from benchrun.launch.commands import call

UNUSABLE = "down,drain,drained,draining,fail,failing,no_respond,power_down,reboot,unknown"
"""States of nodes that have failed or are taken out of service."""


def expanded(names: str) -> list[str]:
    """The single names in Slurm's notation, e.g. ``n[1-3],n7``. MachineError where Slurm cannot read it."""
    return _lines("scontrol", "show", "hostnames", names) if names else []


def idle_nodes(partition: str | None, nodelist: str | None, exclude: str | None) -> list[str]:
    """Nodes that run no job now, of a partition (all where None), among ``nodelist`` and without ``exclude``."""
    limits = [f"--partition={partition}"] if partition else []
    limits += [f"--nodes={nodelist}"] if nodelist else []
    idle = _lines("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N", *limits)
    excluded = set(expanded(exclude or ""))
    return [name for name in dict.fromkeys(idle) if name not in excluded]


def unusable_nodes(names: str) -> list[str]:
    """Those of ``names`` that have failed."""
    if not names:
        return []
    states = ("--noheader", "--Node", f"--states={UNUSABLE}", "--format=%N")
    return list(dict.fromkeys(_lines("sinfo", *states, f"--nodes={names}")))


def _lines(*command: str) -> list[str]:
    result = call(command)
    if result.returncode != 0:
        raise MachineError(f"{' '.join(command)}: {' '.join(result.stderr.split()) or 'failed'}")
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]
