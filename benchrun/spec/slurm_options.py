"""Options of sbatch and srun that a site file cannot set: benchrun sets them, or they break a run."""

from __future__ import annotations

import re

_BOTH = {
    "nodes": ("N", "num_gpus and cluster.gpus_per_node"),
    "ntasks": ("n", "num_gpus"),
    "ntasks-per-node": ("", "cluster.gpus_per_node"),
    "ntasks-per-gpu": ("", "cluster.gpus_per_node"),
    "ntasks-per-socket": ("", "cluster.gpus_per_node"),
    "cpus-per-task": ("c", "cluster.cpus_per_task"),
    "partition": ("p", "cluster.partition"),
    "account": ("A", "cluster.account"),
    "qos": ("q", "cluster.qos"),
    "reservation": ("", "cluster.reservation"),
    "constraint": ("C", "cluster.constraint"),
    "nodelist": ("w", "cluster.nodelist"),
    "exclude": ("x", "cluster.exclude"),
    "time": ("t", "cluster.time_limit"),
    "job-name": ("J", "nothing: the name is the run's, by which the job is found"),
    "output": ("o", "nothing: the log is stdout.log in the run directory"),
    "error": ("e", "nothing: the log is stderr.log in the run directory"),
    "open-mode": ("", "nothing: the log is added to"),
    "chdir": ("D", "BENCHRUN_RESULTS: a job runs in its run directory"),
    "export": ("", "cluster.env and cluster.secrets"),
    "export-file": ("", "cluster.env and cluster.secrets"),
    "clusters": ("M", "SLURM_CLUSTERS in the shell you submit from: later questions must go there too"),
    "test-only": ("", "benchrun render"),
    "help": ("h", "nothing"),
    "usage": ("", "nothing"),
    "version": ("V", "nothing"),
}
_SBATCH = _BOTH | {
    "gres": ("", "cluster.gres"),
    "mem": ("", "cluster.mem"),
    "exclusive": ("", "cluster.exclusive"),
    "oversubscribe": ("s", "cluster.exclusive: false"),
    "share": ("", "cluster.exclusive: false"),
    "array": ("a", "a suite: each run is a job of its own"),
    "requeue": ("", "nothing: a run that Slurm restarts is not one measurement"),
    "no-requeue": ("", "nothing: it is set"),
    "wait": ("W", "benchrun launch --wait"),
    "wrap": ("", "cluster.setup"),
    "parsable": ("", "nothing: it is set"),
}
_SRUN = _BOTH | {
    "kill-on-bad-exit": ("K", "nothing: it is set"),
    "mpi": ("", "cluster.mpi"),
    "cpu-bind": ("", "cluster.binding.cpu_bind"),
    "input": ("i", "nothing: ranks read nothing"),
    "multi-prog": ("", "nothing: every rank runs one command"),
    "pty": ("", "nothing: the log is a file"),
    "jobid": ("", "nothing: the step is the job's own"),
    "container-image": ("", "cluster.container.image"),
    "container-mounts": ("", "cluster.container.mounts"),
    "container-workdir": ("", "nothing: the run directory is the working directory"),
    "container-env": ("", "cluster.env and cluster.secrets"),
}
_OPTION = re.compile(r"--(?P<long>[^=\s]+)|-[HOQkuvlX]*(?P<short>[^-\s])")
"""Short options without a value may stand before another in one word: ``-Ha1-3``."""


def sbatch_option(option: str) -> str:
    """``option`` unchanged; ValueError if the header of a job cannot have it."""
    return _allowed(option, _SBATCH, "sbatch")


def srun_option(option: str) -> str:
    """``option`` unchanged; ValueError if the ranks' srun cannot have it."""
    return _allowed(option, _SRUN, "srun")


def _allowed(option: str, refused: dict[str, tuple[str, str]], program: str) -> str:
    match = _OPTION.match(option)
    if match is None:
        raise ValueError(f"{option!r} is no option")
    for name, (letter, alternative) in refused.items():
        # getopt accepts an unambiguous prefix of a long name: --arr is --array.
        long = match["long"] is not None and name.startswith(match["long"])
        if long or (letter and match["short"] == letter):
            raise ValueError(f"a site file cannot set {program} --{name}; use {alternative}")
    return option
