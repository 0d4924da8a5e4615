"""The command line. A verb is imported when it is called; it calls `benchrun.app` and formats the result."""

import gc
from typing import Any

import click

from benchrun import __version__
from benchrun.console import Verbs, run

VERBS = {
    "list": ("lookup", "Recipes, their points, suites, clusters, GPUs, frameworks."),
    "show": ("lookup", "One point: model, layout, memory, published numbers."),
    "render": ("points", "The sbatch script of one point."),
    "predict": ("predictions", "How long a step should take, in parts, with an interval."),
    "launch": ("points", "Run a point or a suite, under Slurm or on this machine."),
    "study": ("studies", "Run every point of a study, and compare the points."),
    "plan": ("acceptance", "Accept a cluster: runs, repeats, criteria, one verdict, an evidence pack."),
    "verify": ("acceptance", "An evidence pack, computed again from its logs."),
    "profile": ("points", "Launch with a few profiled steps after the measured ones."),
    "status": ("runs", "How runs are going, and how they ended."),
    "cancel": ("runs", "Stop runs."),
    "parse": ("logs", "A training log -> step time, tokens/s/GPU, TFLOPS."),
    "compare": ("logs", "Runs or logs against reference numbers: the verdict."),
    "report": ("reports", "Runs as tables."),
    "fingerprint": ("traces", "Traces of GPU runs (Kineto, Nsight Systems): where the time goes."),
    "explain": ("explanations", "Why a run is slow: from the GPU's peak to its step, causes, advice."),
    "diff": ("explanations", "Two runs: how much slower, what differs, where the seconds went."),
    "nodes": ("nodes", "Check a cluster's nodes: outliers and an exclude list."),
    "doctor": ("site", "What this machine can do; what would fail on a cluster."),
    "site": ("site", "Write a site file."),
    "images": ("site", "Container images that runs need."),
    "completion": ("lookup", "Completion of commands in your shell."),
}
"""Name -> module of this package and help. The function in that module has the name of the verb."""


@click.group(cls=Verbs, package=__name__, verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="benchrun %(version)s", help="Show the version.")
def group() -> None:
    """Does your cluster train large language models as fast as it should, and if not, why?

    A point is chosen everywhere by the same options:
    RECIPE --gpu H100 --precision fp8 --num-gpus 64 [--framework F] [--cluster NAME] [--set key=value ...]

    Exit codes: 0 all well; 1 measured and slow; 2 wrong input; 3 Slurm or the machine failed;
    4 finished but inconclusive, incomplete or not comparable.
    """


def main(argv: list[str] | None = None) -> Any:
    """Run the command line with ``argv``, or the process's arguments."""
    gc.set_threshold(100_000)  # collection would take a fifth of the time of a short command
    return run(group, "benchrun", argv)
