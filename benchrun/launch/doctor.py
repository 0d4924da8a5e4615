"""Facts about this machine that matter before a launch, with a hint for each problem."""

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
    """One fact; ``found`` is None where it is missing."""

    what: str
    found: str | None
    hint: str = ""


def examine() -> list[Finding]:
    """Everything that a run may need, in the order of its use."""
    return [
        *(_slurm(), _accounting(), _tracking()),
        *(Finding(f"runtime {name}", _runtime(name)) for name in RUNTIMES),
        *(_gpus(), *(_library(name) for name in ("torch", "megatron-core", "transformer-engine"))),
        *(_disk(), _results()),
    ]


def _slurm() -> Finding:
    version = _first_line("sinfo", "--version")
    if version is None:
        broken = "sinfo is here, but fails: is SLURM_CONF set?"
        return Finding("Slurm", None, broken if shutil.which("sinfo") else "runs go to --cluster local")
    answer = _first_line("scontrol", "ping")
    down = answer is None or " DOWN" in answer
    return Finding("Slurm", version, "the controller does not answer" if down else "")


def _accounting() -> Finding:
    if _output("sacct", "-X", "--noheader", "--starttime=now", "--endtime=now") is None:
        return Finding("Slurm accounting", None, "endings then rest on the job's own done.json")
    return Finding("Slurm accounting", "answers")


def _tracking() -> Finding:
    """How Slurm finds the processes of a job: only cgroups hold processes that detach themselves."""
    lines = (_output("scontrol", "show", "config") or "").splitlines()
    values = [line.partition("=")[2].strip() for line in lines if line.startswith("ProctrackType")]
    tracking = values[0] if values else None
    hints = {
        "proctrack/linuxproc": "on a node without python3, daemons that a rank starts outlive their job",
        "proctrack/pgid": "after a cancel or the time limit, daemons that a rank starts may outlive their job",
    }
    return Finding("Slurm process tracking", tracking, hints.get(tracking or "", ""))


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
    """The stdout of a command; None where it is missing, fails or does not answer."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
