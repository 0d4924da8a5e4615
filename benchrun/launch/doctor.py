"""A look at this machine before anything is launched. Facts, and what to do about those that stand in the way."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchrun import paths

RUNTIMES = {
    "pyxis": ("srun", "--help"),
    "enroot": ("enroot", "version"),
    "apptainer": ("apptainer", "--version"),
    "singularity": ("singularity", "--version"),
    "charliecloud": ("ch-run", "--version"),
    "podman": ("podman", "--version"),
    "docker": ("docker", "--version"),
}
MIN_FREE_GB = 5


@dataclass(frozen=True)
class Finding:
    """One fact; ``found`` is None where the thing is missing."""

    what: str
    found: str | None
    hint: str = ""


def examine() -> list[Finding]:
    """Everything a run may need, in the order in which it needs it."""
    found = [_slurm(), _accounting(), _tracking()]
    found += [Finding(f"runtime {name}", _runtime(name)) for name in RUNTIMES]
    found += [_gpus(), *(_library(name) for name in ("torch", "megatron-core", "transformer-engine"))]
    return [*found, _disk(), _results()]


def _slurm() -> Finding:
    version = _first_line("sinfo", "--version")
    if version is None:
        broken = "sinfo is here, but fails: is SLURM_CONF set?"
        return Finding("Slurm", None, broken if shutil.which("sinfo") else "runs go to --cluster local")
    answer = _first_line("scontrol", "ping")
    down = answer is None or " DOWN" in answer
    return Finding("Slurm", version, "the controller does not answer" if down else "")


def _accounting() -> Finding:
    row = (
        _first_line("sacct", "-X", "--noheader", "--starttime=now", "--endtime=now") if shutil.which("sacct") else None
    )
    hint = "" if row is not None else "endings then rest on the job's own done.json"
    return Finding("Slurm accounting", "answers" if row is not None else None, hint)


def _tracking() -> Finding:
    """How Slurm finds the processes of a job: by itself, only a cgroup holds those that detach themselves."""
    lines = (_output("scontrol", "show", "config") or "").splitlines()
    values = [line.partition("=")[2].strip() for line in lines if line.startswith("ProctrackType")]
    found = values[0] if values else None
    left = {
        "proctrack/linuxproc": "on a node without python3, daemons that a rank starts outlive their job",
        "proctrack/pgid": "after a cancel or the time limit, daemons that a rank starts may outlive their job",
    }
    hint = left.get(found or "", "")
    return Finding("Slurm process tracking", found, hint)


def _runtime(name: str) -> str | None:
    if name == "pyxis":
        text = _output(*RUNTIMES[name])
        return "srun has --container-image" if text and "--container-image" in text else None
    return _first_line(*RUNTIMES[name])


def _gpus() -> Finding:
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    lines = names.splitlines() if names else []
    return Finding("GPUs here", f"{len(lines)} x {lines[0]}" if lines else None)


def _library(name: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        extra = "te" if name == "transformer-engine" else "train"
        return Finding(name, None, f"needed here only to train on this machine: pip install 'benchrun[{extra}]'")


def _disk() -> Finding:
    free_gb = shutil.disk_usage(Path.cwd()).free / 1e9
    return Finding("free disk here", f"{free_gb:.0f} GB", "" if free_gb >= MIN_FREE_GB else "little")


def _results() -> Finding:
    root = paths.runs_dir()
    place = next(parent for parent in (root, *root.absolute().parents) if parent.exists())
    writable = os.access(place, os.W_OK)
    hint = "must lie on a file system that the nodes share" if writable else "not writable: set BENCHRUN_RESULTS"
    return Finding("runs go to", str(root.absolute()), hint)


def _first_line(*command: str) -> str | None:
    text = _output(*command)
    return None if text is None else (text.splitlines() or [""])[0].strip()


def _output(*command: str) -> str | None:
    """What a command prints; None where it is missing, fails, or gives no answer."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
