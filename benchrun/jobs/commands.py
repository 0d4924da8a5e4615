"""Runs programs of this machine: Slurm's, git, nvidia-smi."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchrun.errors import MachineError, SchedulerUnavailable

TIMEOUT_S = 30
"""Seconds that a command may take if its caller states nothing else."""
OPTIONS = ("SBATCH_", "SLURM_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_")
"""Prefixes of variables that are options of Slurm's commands."""
_WHICH_SLURM = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS")
"""Variables that choose the cluster; they are passed on."""
RUN = subprocess.run
"""Starts a program and waits for its end: the one place to put a simulated machine in.
"""
NOT_HERE = "submit from a login node, or use --cluster local"
"""Hint if a program of Slurm is missing."""


def require(program: str) -> None:
    """MachineError if a program is not on this machine."""
    if shutil.which(program) is None:
        raise MachineError(f"{program} is not on this machine", hint=NOT_HERE)


def call(
    command: Sequence[str], cwd: Path | None = None, timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run one command without the shell's options for another job (SBATCH_*,
    SLURM_JOB_*) or list (SQUEUE_*).
    """
    env = {}
    for name, value in os.environ.items():
        if name in _WHICH_SLURM or not name.startswith(OPTIONS):
            env[name] = value
    try:
        return RUN(
            command,
            cwd=cwd,
            env=env,
            timeout=timeout_s,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        raise MachineError(f"{command[0]} is not on this machine", hint=NOT_HERE) from None
    except OSError as error:
        raise MachineError(f"{command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise SchedulerUnavailable(f"{command[0]} gave no answer in {timeout_s:g} s") from None


def answer(*command: str) -> str:
    """Output of a command of Slurm. MachineError if it fails."""
    result = call(command)
    if result.returncode != 0:
        raise MachineError(
            f"{' '.join(command)} fails: {' '.join((result.stderr or result.stdout).split())[:300]}"
        )
    return result.stdout


def output(*command: str, timeout_s: float = 10) -> str | None:
    """The stdout of a command; None if it is missing, fails or does not answer in time."""
    try:
        result = call(command, timeout_s=timeout_s)
    except MachineError:
        return None
    if result.returncode != 0:
        return None
    return result.stdout.strip()


def has_pyxis() -> bool:
    """Whether srun has the container runtime pyxis."""
    return "--container-image" in (output("srun", "--help") or "")
