"""A site file: written from what Slurm reports, and checked before anything waits in a
queue.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchrun import hardware
from benchrun.errors import MachineError, UserError, closest, writing
from benchrun.recipes.catalogue import checked
from benchrun.recipes.files import cluster_document
from benchrun.runspec.cluster import Cluster
from benchrun.site.doctor import RUNTIMES, installed
from benchrun.site.file_checks import Check, gpu_check, queue_checks
from benchrun.site.limits import limit_checks
from benchrun.site.node_job import node_gpu
from benchrun.site.node_probe import login_checks, node_checks, test_only
from benchrun.site.sitefile import chosen, site_text, slurm_gpu
from benchrun.site.survey import survey


def write_site(
    file: Path,
    partition: str | None = None,
    gpu: str | None = None,
    runtime: str | None = None,
    ask: Callable[[Sequence[str]], str] = lambda _: "none",
) -> bool:
    """Write a commented site file for a partition of this machine's Slurm (by default
    that with the most GPUs).

    ``gpu``: its name in the hardware table, if Slurm states none; by default a node is
    asked. Whether it is known; if not, the file has ``CPU``, with a remark.

    ``runtime``: of containers; by default pyxis where srun has it, else what ``ask``
    answers for those that this machine has: the nodes may have others.

    UserError if the file exists; MachineError if Slurm does not answer.
    """
    if file.exists():
        raise UserError(
            f"{file} exists",
            hint="a site file is never overwritten: name another with --output FILE",
        )
    if gpu is not None and gpu not in hardware.names():
        raise UserError(
            f"the hardware table has no GPU '{gpu}'", hint=closest(gpu.upper(), hardware.names())
        )
    try:
        slurm = survey()
    except MachineError as error:
        copy = "run it on a login node, or copy the closest file: benchrun list --clusters --json has the paths"
        raise type(error)(error.message, hint=copy) from error
    here = [name for name in RUNTIMES if name != "enroot" and installed(name)]
    if runtime is None and slurm.pyxis:
        runtime = "pyxis"
    elif runtime is None and here:
        runtime = ask(here)
    place = chosen(slurm, partition)
    named = slurm_gpu(slurm, place) or gpu or node_gpu(place.name)
    text = site_text(slurm, runtime or "none", place, named)
    with writing(file), file.open("x", encoding="utf-8") as stream:
        stream.write(text)
    return named is not None


def check_site(cluster: str, *, wait_s: int = 60, on_node: bool = True) -> Iterator[Check]:
    """Everything that would fail with this cluster profile, in the order in which a job
    would meet it.

    A node is waited for ``wait_s`` seconds; without ``on_node`` none is asked.
    UserError for a wrong file.
    """
    site = checked(Cluster, cluster_document(cluster))
    pyxis = False
    faults = 0
    yield from gpu_check(site)
    if site.scheduler == "slurm":
        slurm = survey()
        pyxis = slurm.pyxis
        limits = [*limit_checks(site, slurm)]
        # The names of these keys are right, but jobs may not use them.
        limited = {check.what for check in limits}
        named = []
        for check in queue_checks(site, slurm):
            if check.status != "ok" or check.what not in limited:
                named.append(check)
        for check in (*named, *limits):
            faults += check.status == "fault"
            yield check
        if not faults:
            for check in test_only(site):
                faults += check.status == "fault"
                yield check
    yield from login_checks(site, os.environ, pyxis)
    if not on_node:
        return
    if faults:
        yield Check("a node", "not_checked", "no job would start", "correct the faults above first")
        return
    yield from node_checks(site, wait_s)
