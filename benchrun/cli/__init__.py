"""The command line. A verb is imported when it is called; it calls `benchrun.app` and formats the result."""

import gc
from typing import Any

import click

from benchrun import __version__
from benchrun.console import Verbs, run

VERBS = {
    "list": ("lookup", "List recipes, points, suites, clusters, GPUs, frameworks."),
    "show": ("lookup", "Show one point: model, layout, memory, published numbers."),
    "render": ("points", "Print the sbatch script of one point."),
    "predict": ("predictions", "Predict the time of a step, in parts, with an interval."),
    "launch": ("points", "Run a point or a suite, under Slurm or on this machine."),
    "study": ("studies", "Run every point of a study, and compare the points."),
    "plan": ("acceptance", "Accept a cluster: runs, repeats, criteria, one verdict, an evidence pack."),
    "verify": ("acceptance", "Compute an evidence pack again from its logs."),
    "profile": ("points", "Launch a run with a few profiled steps after the measured ones."),
    "status": ("runs", "Show how runs are going, and how they ended."),
    "cancel": ("runs", "Stop runs."),
    "parse": ("logs", "Measure a training log: step time, tokens/s/GPU, TFLOPS."),
    "compare": ("logs", "Judge runs or logs against reference numbers."),
    "report": ("reports", "Show runs as tables, HTML, CSV, JSON or JUnit."),
    "fingerprint": ("traces", "Show where the time goes in traces (Kineto, Nsight Systems)."),
    "explain": ("explanations", "Explain why a run is slow: from the GPU's peak to its step, causes, advice."),
    "diff": ("explanations", "Compare runs with each other: how much slower, what differs, where the seconds went."),
    "nodes": ("nodes", "Check a cluster's nodes: outliers and an exclude list."),
    "doctor": ("site", "Check what this machine can do, and what would fail on a cluster."),
    "site": ("site", "Write a site file."),
    "images": ("site", "List the container images that runs need."),
    "completion": ("lookup", "Complete commands in your shell."),
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
