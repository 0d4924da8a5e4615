"""Calls on logs, kept runs and traces."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from .calls_on_points import Words
from .perform import TREE_NAME

LOGS = (".log", ".xz", ".json", ".jsonl", ".txt")
SELDOM = 5
"""One of so many recipes or runs is asked what takes long."""
DRAWN = ("runs/*/profile", "traces/*", "more-traces/*")
"""Traces: files, and folders with a file per rank."""
STATED = ["--gpu=H100", "--precision=bf16", "--num-gpus=8", "--seq-length=4096", "--gbs=64"]
"""What a log may not state."""


def run_calls(inputs: Path) -> Iterator[Words]:
    """Every call on logs, runs and traces."""
    yield from _on_logs(inputs)
    runs = sorted(path.name for path in (inputs / "runs").iterdir())
    for number, run in enumerate(runs):
        yield from _of_run(inputs / "runs" / run)
        if number % SELDOM == 0:
            yield from _more_of_run(inputs / "runs" / run)
    for first, second in itertools.pairwise(runs):
        yield ["diff", f"runs/{first}", f"runs/{second}", "--json"]
        yield ["diff", f"runs/{first}", f"runs/{second}"]
    yield from _of_runs(inputs, runs)
    for pattern in DRAWN:
        for path in sorted(inputs.glob(pattern)):
            yield from _of_trace(str(path.relative_to(inputs)))


def _on_logs(inputs: Path) -> Iterator[Words]:
    """The logs of the tests, the generated ones, and more."""
    for log in _logs(inputs, "logs/**/*"):
        yield from _of_log(log)
    for log in _logs(inputs, "generated/*"):
        yield from _of_generated(log)
    for log in _logs(inputs, "more-logs-*/*"):
        yield ["parse", log, "--json"]
    yield from _stated(_logs(inputs, "logs/*")[::SELDOM])


def _logs(inputs: Path, pattern: str) -> list[str]:
    """Files that may be logs, as paths in the folder of a call."""
    files = sorted(path for path in inputs.glob(pattern) if path.is_file())
    return [str(path.relative_to(inputs)) for path in files if path.suffix in LOGS]


def _stated(logs: list[str]) -> Iterator[Words]:
    """Logs with every option that says what they leave out."""
    for log in logs:
        yield ["parse", log, *STATED, "--json"]
        yield ["parse", log, *STATED, "--recipe=llama3.1-8b", "--framework=megatron-lm", "--json"]
        yield ["parse", log, *STATED, "--peak-tflops=500", "--warmup=2"]
        yield ["explain", log, *STATED, "--warmup=2", "--json"]
        yield ["explain", log, "--framework=nemo2"]
        yield ["compare", log, "--recipe=llama3.1-8b", *STATED, "--num-layers=4", "--json"]
        yield ["compare", log, "--recipe=llama3.1-8b", "--gpu=B300", "--peak-tflops=500"]
        yield ["compare", log, "--recipe=llama2-70b", "--framework=megatron-lm", "--json"]


def _of_log(log: str) -> Iterator[Words]:
    yield ["parse", log, "--json"]
    yield ["parse", log]
    yield ["parse", log, "--steps", "csv"]
    yield ["explain", log, "--json"]
    yield ["compare", log, "--recipe", "llama3.1-8b", "--gpu", "H100", "--json"]


def _of_generated(log: str) -> Iterator[Words]:
    yield ["parse", log, "--json"]
    yield ["explain", log, "--gpu", "H100"]


def _of_run(run: Path) -> Iterator[Words]:
    """Every question about one kept run, and about its log alone."""
    name, spec = f"runs/{run.name}", json.loads((run / "spec.json").read_text())
    yield ["fingerprint", name, "--json"]
    yield ["compare", name, "--json"]
    yield from (
        ["explain", name, "--json"],
        ["explain", name],
        ["explain", run.name, "--format", "markdown"],
    )
    yield ["status", name, "--json"]
    for form in ("terminal", "markdown", "csv", "json", "html", "junit"):
        yield ["report", name, "--format", form]
    yield from (
        ["parse", name, "--json"],
        ["parse", f"{name}/stdout.log.xz", "--json", "--warmup", "1"],
    )
    options = ["--gpu", spec["gpu"], "--recipe", spec["recipe"]]
    yield ["compare", f"{name}/stdout.log.xz", *options, "--json"]
    yield ["explain", f"{name}/stdout.log.xz", *options]


def _more_of_run(run: Path) -> Iterator[Words]:
    """What takes longer, or says the same in other words."""
    name = f"runs/{run.name}"
    yield from (["compare", name], ["compare", name, "--warmup", "1", "--json"])
    yield ["parse", f"{name}/stdout.log.xz", "--steps", "rows.jsonl", "--plot", "steps.svg"]
    yield ["parse", f"{name}/stdout.log.xz", "--plot", "losses.svg", "--metric", "loss"]


def _of_runs(inputs: Path, runs: list[str]) -> Iterator[Words]:
    """Several runs together: the chosen ones, those in the runs folder, all kept ones."""
    for form in ("terminal", "markdown", "csv", "json", "html", "junit"):
        yield ["report", "runs", "--format", form]
        yield ["report", "--history", "--format", form]
    yield ["report", f"{TREE_NAME}/results/measured", "--json"]
    yield ["report", *(f"runs/{run}" for run in runs[:5]), "--keep", "kept"]
    for by in ("framework", "node", "driver", "image", "version"):
        yield ["report", "--by", by, "--json", *([] if by == "framework" else ["--history"])]
    yield from (
        ["report", "--scaling"],
        ["report", "--scaling", "--json"],
        ["report", "--plot", "curves.svg"],
    )
    yield ["report", "--history", "--plot", "history.svg"]
    own = sorted(path.parent.name for path in (inputs / "results/runs").glob("*/steps.jsonl"))
    yield from (["compare", *own, "--json"], ["compare", *own])
    yield from (["compare", name, "--baseline", own[0], "--json"] for name in own[1:4])
    yield from (["explain", name, "--against", own[0], "--json"] for name in own[1:4])
    yield from (["report", name, "--baseline", own[0], "--json"] for name in own[1:4])
    for profiled in sorted((inputs / "runs").glob("*/profile")):
        run = f"runs/{profiled.parent.name}"
        yield ["explain", run, "--trace", f"{run}/profile", "--json"]
    yield ["diff", *own[:4], "--json"]
    yield [
        "predict",
        "llama3.1-8b",
        "--gpu=H200",
        "--precision=fp8",
        "--num-gpus=2",
        f"--calibrate={own[0]}",
        "--json",
    ]
    yield from (
        ["status"],
        ["status", "--json"],
        ["status", "--state", "failed"],
        ["status", "--last", "2"],
    )
    yield from (
        ["status", "--recipe", "llama3.1-8b", "--json"],
        ["cancel", own[0]],
        ["cancel", "--all"],
        ["cancel"],
    )


def _of_trace(trace: str) -> Iterator[Words]:
    yield ["fingerprint", trace, "--json"]
    yield ["fingerprint", trace, "--window", "steps", "--json"]
    yield ["fingerprint", trace]
