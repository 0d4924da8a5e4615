"""The machine that ran beside the one that the specification of a run names."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchrun import hardware
from benchrun.rundir.artifacts import objects

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


def _is_gpu(device: str, meant: str) -> bool:
    """Whether the driver's name ``device`` is that of the GPU ``meant``, which need not
    be listed; a CPU uses none.
    """
    listed = hardware.name_of(device)
    if meant == "CPU" or (listed is None and hardware.gpu(meant) is None):
        return True
    return listed == meant or (listed is not None and same_chip(listed, meant))
