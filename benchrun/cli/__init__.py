"""The command line. A verb is imported when it is called; it calls `benchrun.api` and
formats the result.
"""

import gc
from typing import Any

import click

from benchrun import __version__
from benchrun.console import Verbs, run

CORE, CAPABILITIES = "benchrun.cli", "benchrun.capabilities"
VERBS = {
    "list": (f"{CORE}.lookup", "List recipes, points, suites, clusters, GPUs, frameworks."),
    "show": (f"{CORE}.lookup", "Show one point: model, layout, memory, published numbers."),
    "recipe": (
        f"{CAPABILITIES}.from_hf.verbs",
        "Write a recipe for a model of Hugging Face.",
    ),
    "render": (f"{CORE}.points", "Print the sbatch script of one point."),
    "predict": (
        f"{CAPABILITIES}.predict.verbs",
        "Predict the time of a step, in parts, with an interval.",
    ),
    "launch": (f"{CORE}.points", "Run a point or a suite, under Slurm or on this machine."),
    "study": (
        f"{CAPABILITIES}.studies.verbs",
        "Run every point of a study, and compare the points.",
    ),
    "plan": (
        f"{CAPABILITIES}.acceptance.verbs",
        "Accept a cluster: runs, repeats, criteria, one verdict, an evidence pack.",
    ),
    "verify": (f"{CAPABILITIES}.acceptance.verbs", "Compute an evidence pack again from its logs."),
    "profile": (
        f"{CORE}.points",
        "Launch a run with a few profiled steps after the measured ones.",
    ),
    "status": (f"{CORE}.runs", "Show how runs are going, and how they ended."),
    "cancel": (f"{CORE}.runs", "Stop runs."),
    "parse": (f"{CORE}.logs", "Measure a training log: step time, tokens/s/GPU, TFLOPS."),
    "compare": (f"{CORE}.logs", "Judge runs or logs against reference numbers."),
    "report": (f"{CORE}.reports", "Show runs as tables, HTML, CSV, JSON or JUnit."),
    "fingerprint": (
        f"{CAPABILITIES}.traces.verbs",
        "Show where the time goes in traces (Kineto, Nsight Systems).",
    ),
    "explain": (
        f"{CAPABILITIES}.explain.verbs",
        "Explain why a run is slow: from the GPU's peak to its step, causes, advice.",
    ),
    "diff": (
        f"{CAPABILITIES}.explain.verbs",
        "Compare runs with each other: how much slower, what differs, where the seconds went.",
    ),
    "nodes": (
        f"{CAPABILITIES}.nodes.verbs",
        "Check a cluster's nodes: outliers and an exclude list.",
    ),
    "audit": (
        f"{CAPABILITIES}.audit.verbs",
        "Audit jobs that already ran: what was lost, to what, and which node is slow.",
    ),
    "doctor": (f"{CORE}.site", "Check what this machine can do, and what would fail on a cluster."),
    "site": (f"{CORE}.site", "Write a site file."),
    "images": (f"{CORE}.site", "List the container images that runs need."),
    "completion": (f"{CORE}.lookup", "Complete commands in your shell."),
}
"""Name -> module and help. The function in that module has the name of the verb."""


@click.group(
    cls=Verbs, verbs=VERBS, group="verbs", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="benchrun %(version)s", help="Show the version.")
def group() -> None:
    """Does your cluster train large language models as fast as it should, and if not,
    why?

    A point is chosen everywhere by the same options: RECIPE --gpu H100 --precision fp8
    --num-gpus 64 [--framework F] [--cluster NAME] [--set key=value ...]

    Exit codes: 0 all well; 1 measured and slow; 2 wrong input; 3 Slurm or the machine
    failed; 4 finished but inconclusive, incomplete or not comparable.
    """


def main(argv: list[str] | None = None) -> Any:
    """Run the command line with ``argv``, or the process's arguments."""
    gc.set_threshold(100_000)  # collection would take a fifth of the time of a short command
    return run(group, "benchrun", argv)
