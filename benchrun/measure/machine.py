"""The machine that ran beside the one that the specification of a run names."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchrun import hardware
from benchrun.rundir.artifacts import objects, stated_network
from benchrun.rundir.network import slow_network

from .model import ProblemEntry
from .setting import same_chip


def other_gpus(environment: Mapping[str, Any], meant: str) -> Iterator[ProblemEntry]:
    """A problem for each kind of GPU in env.json that is not ``meant``, the one of the
    specification.
    """
    nodes = objects(environment.get("nodes"))
    found = {
        str(gpu.get("name") or ""): node for node in nodes for gpu in objects(node.get("gpus"))
    }
    for device, node in sorted(found.items()):
        if device and not _is_gpu(device, meant):
            detail = f"the node has {device}, the specification of the run {meant}"
            yield ProblemEntry(
                kind="other_conditions", line=None, detail=detail, host=node.get("host")
            )


def slow_links(environment: Mapping[str, Any], fabric: str | None) -> Iterator[ProblemEntry]:
    """A problem if env.json shows that the ranks sent over TCP beside a faster ``fabric``."""
    if why := slow_network(stated_network(environment), fabric):
        yield ProblemEntry(kind="slow_network", line=None, detail=why)


def _is_gpu(device: str, meant: str) -> bool:
    """Whether the driver's name ``device`` is that of the GPU ``meant``, which need not
    be listed; a CPU uses none.
    """
    listed = hardware.name_of(device)
    if meant == "CPU" or (listed is None and hardware.gpu(meant) is None):
        return True
    return listed == meant or (listed is not None and same_chip(listed, meant))
