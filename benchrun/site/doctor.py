"""Facts about this machine that matter before a launch, with a hint for each problem."""

import importlib.metadata
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchrun import paths
from benchrun.jobs.commands import has_pyxis, output

RUNTIMES = {
    "enroot": ("enroot", "version"),
    "apptainer": ("apptainer", "--version"),
    "singularity": ("singularity", "--version"),
    "charliecloud": ("ch-run", "--version"),
    "podman": ("podman", "--version"),
    "docker": ("docker", "--version"),
}
TRACKING = {
    "proctrack/linuxproc": "on a node without python3, daemons that a rank starts outlive their job",
    "proctrack/pgid": "after a cancel or the time limit, daemons that a rank starts may outlive their job",
}
"""Hints on how Slurm finds the processes of a job: only cgroups hold processes that
detach themselves.
"""
LIBRARIES = {"torch": "train", "megatron-core": "train", "transformer-engine": "te"}
"""Library -> extra of this package."""
MIN_FREE_GB = 5


@dataclass(frozen=True)
class Finding:
    """One fact; ``found`` is None if it is missing."""

    what: str
    found: str | None
    hint: str = ""


def examine() -> list[Finding]:
    """Everything that a run may need, in the order of its use."""
    return [*_slurm(), *_runtimes(), *_worker(), *_files()]


def installed(runtime: str) -> bool:
    """Whether a container runtime of RUNTIMES answers on this machine."""
    return output(*RUNTIMES[runtime]) is not None


def _slurm() -> Iterator[Finding]:
    version = output("sinfo", "--version")
    if version is None:
        broken = "sinfo is installed but fails: is SLURM_CONF set?"
        hint = "not installed: use --cluster local"
        if shutil.which("sinfo"):
            hint = broken
    else:
        hint = ""
        if " DOWN" in (output("scontrol", "ping") or " DOWN"):
            hint = "the controller does not answer"
    yield Finding("Slurm", version, hint)
    answers = output("sacct", "-X", "--noheader", "--starttime=now", "--endtime=now") is not None
    hint = "without it an ending is taken from the job's done.json"
    if answers:
        hint = ""
    yield Finding("Slurm accounting", "answers" if answers else None, hint)
    kind = re.search(
        r"^ProctrackType\s*=\s*(\S+)", output("scontrol", "show", "config") or "", re.MULTILINE
    )
    yield Finding(
        "Slurm process tracking", kind and kind[1], TRACKING.get(kind[1] if kind else "", "")
    )


def _runtimes() -> Iterator[Finding]:
    yield Finding("runtime pyxis", "srun has --container-image" if has_pyxis() else None)
    for name, command in RUNTIMES.items():
        version = output(*command)
        yield Finding(f"runtime {name}", version and version.partition("\n")[0])


def _worker() -> Iterator[Finding]:
    gpus = (output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "").splitlines()
    yield Finding("GPUs here", f"{len(gpus)} x {gpus[0]}" if gpus else None)
    for name, extra in LIBRARIES.items():
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(
                name, None, f"needed here only to train on this machine: pip install '.[{extra}]'"
            )


def _files() -> Iterator[Finding]:
    free_gb = shutil.disk_usage(Path.cwd()).free / 1e9
    yield Finding("free disk here", f"{free_gb:.0f} GB", "" if free_gb >= MIN_FREE_GB else "little")
    root = paths.runs_dir().absolute()
    writable = os.access(
        next(parent for parent in (root, *root.parents) if parent.exists()), os.W_OK
    )
    hint = "not writable: set BENCHRUN_RESULTS"
    if writable:
        hint = "must lie on a file system that the nodes share"
    yield Finding("runs go to", str(root), hint)
