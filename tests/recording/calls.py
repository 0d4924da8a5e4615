"""The calls of a recording: every verb, on every recipe and on every input."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .inputs import CHECK, TREE, said
from .perform import TREE_NAME
from .recording import Argv, verb_of

VERBS = (
    *(
        "list",
        "show",
        "render",
        "predict",
        "launch",
        "study",
        "plan",
        "verify",
        "profile",
        "status",
    ),
    *("cancel", "parse", "compare", "report", "fingerprint", "explain", "diff", "nodes", "doctor"),
    *("site", "images", "completion"),
)
RUNTIMES = ("none", "pyxis", "apptainer", "singularity", "charliecloud", "podman", "docker")
COPIED = ("megatron-core", "hf", "transformers-serve", "vllm", "sglang", "trl")
"""Frameworks whose job has a copy of benchrun, which takes long."""
TUNED = (
    ("llama3.1-8b", "--gpu=H100", "--precision=fp8", "--num-gpus=8"),
    (
        "mixtral-8x7b",
        "--gpu=H100",
        "--precision=bf16",
        "--num-gpus=64",
        "--vary=ep=4,8",
        "--vary=tp=1,2",
    ),
    ("tiny-llama", "--gpu=CPU", "--precision=fp32", "--num-gpus=2"),
)
"""Points whose layouts are searched."""
SELDOM = 5
"""One of so many recipes or runs is asked what takes long."""
DRAWN = ("runs/*/profile", "traces/*", "more-traces/*")
"""Traces: files, and folders with a file per rank."""
BENCHRUN = "benchrun"


def all_calls(inputs: Path) -> list[Argv]:
    """Every call once, those of a verb together."""
    points = _points(said(inputs, "list", "--json"))
    runs = sorted(path.name for path in (inputs / "runs").iterdir())
    calls = [(BENCHRUN, *words) for words in _words(inputs, points, runs)]
    calls += [("datagen", *words) for words in _datagen()]
    return sorted(dict.fromkeys(calls), key=verb_of)


def _words(inputs: Path, points: list[Any], runs: list[str]) -> Iterator[list[str]]:
    """The words of every call of benchrun."""
    yield ["--help"]
    yield ["--version"]
    yield from ([verb, "--help"] for verb in VERBS)
    yield from _inventories(points)
    for point in points:
        yield from _of_point(point)
    yield from _variants(points)
    for log in sorted(filter(_is_log, (inputs / "logs").rglob("*"))):
        yield from _of_log(str(log.relative_to(inputs)))
    for log in sorted((inputs / "generated").iterdir()):
        yield from _of_generated(str(log.relative_to(inputs)))
    for log in sorted(filter(_is_log, inputs.glob("more-logs-*/*"))):
        yield ["parse", str(log.relative_to(inputs)), "--json"]
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
    yield from _of_plans_and_sites()
    yield from _wrong()


def _is_log(path: Path) -> bool:
    return path.is_file() and path.suffix in (".log", ".xz", ".json", ".jsonl", ".txt")


def _points(rows: list[Any]) -> list[Any]:
    """One point of each recipe, framework, GPU and precision; the sizes take turns."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("recipe", "framework", "gpu", "precision"))
        groups.setdefault(key, []).append(row)
    chosen = []
    for number, group in enumerate(groups.values()):
        by_size = sorted(group, key=lambda row: int(row["num_gpus"]))
        chosen.append(by_size[number % len(by_size)])
    return chosen


def _choice(point: Any) -> list[str]:
    """A point's words on the command line."""
    options = [f"--{key}={point[key]}" for key in ("gpu", "precision", "framework")]
    return [point["recipe"], *options, f"--num-gpus={point['num_gpus']}"]


def _inventories(points: list[Any]) -> Iterator[list[str]]:
    yield from (["list"], ["list", "--json"], ["list", "--all"])
    for name in ("suites", "studies", "plans", "clusters", "gpus", "frameworks"):
        yield from (["list", f"--{name}"], ["list", f"--{name}", "--json"])
    yield from (["list", "--gpu", gpu] for gpu in sorted({point["gpu"] for point in points}))
    yield from (["list", recipe] for recipe in sorted({point["recipe"] for point in points}))
    yield from (["list", "--cluster", cluster] for cluster in _shipped("clusters"))
    yield from (
        ["images"],
        ["images", "--json"],
        ["images", "--cluster", "site.yaml", "llama3.1-8b"],
    )
    yield ["images", "--gpu", "H200", "--framework", "nemo2", "--json"]
    yield from (["completion", shell] for shell in ("bash", "zsh", "fish"))


def _shipped(folder: str) -> list[str]:
    return sorted(path.stem for path in (TREE / "recipes" / folder).glob("*.yaml"))


def _of_point(point: Any) -> Iterator[list[str]]:
    """What is known of one point, its job, and its prediction."""
    chosen = _choice(point)
    yield ["show", *chosen, "--json"]
    yield ["show", *chosen]
    yield ["render", *chosen, *([] if point["framework"] in COPIED else ["--output", "job"])]
    yield ["predict", *chosen, "--json"]


def _variants(points: list[Any]) -> Iterator[list[str]]:
    """Clusters, runtimes, profilers, settings, curves, suites, studies, on some points."""
    one_each = {(point["framework"], point["gpu"] == "GH200"): point for point in points}
    for point in one_each.values():
        chosen = _choice(point)
        yield ["show", *chosen, "--all"]
        yield ["render", *chosen, "--output", "job"]
        yield ["predict", *chosen]
        yield ["launch", *chosen, "--dry-run", "--exclude", "n[1-3],n7"]
        yield [
            "launch",
            *chosen,
            "--dry-run",
            "--set",
            "training.steps=20",
            "--set",
            "cluster.account=me",
        ]
        for tool in ("kineto", "nsys", "xplane"):
            yield ["profile", *chosen, "--dry-run", "--tool", tool]
        for runtime in RUNTIMES:
            yield ["render", *chosen, "--set", f"cluster.container.runtime={runtime}"]
    for point in {point["recipe"]: point for point in points}.values():
        chosen = _choice(point)[:-1]
        yield ["predict", *chosen, "--num-gpus", "8,64,512", "--json"]
        yield ["predict", *chosen, "--num-gpus", "16,128", "--scaling", "strong"]
    for cluster in _shipped("clusters"):
        yield [
            "render",
            "llama3.1-8b",
            "--cluster",
            cluster,
            "--precision",
            "bf16",
            "--num-gpus",
            "8",
        ]
        yield [
            "show",
            "llama3.1-8b",
            "--cluster",
            cluster,
            "--precision",
            "bf16",
            "--num-gpus",
            "8",
            "--json",
        ]
    yield [
        "predict",
        "llama3.1-8b",
        "--gpu",
        "H100",
        "--precision",
        "fp8",
        "--num-gpus",
        "8,64",
        "--plot",
        "curve.svg",
    ]
    yield ["predict", "--csv", "table.csv"]
    for name in _shipped("suites"):
        yield from (["show", name], ["show", name, "--json"])
    for tuned in TUNED:
        yield from (
            ["study", "--tune", *tuned, "--dry-run", "--json"],
            ["study", "--tune", *tuned, "--report"],
        )
    for name in _shipped("studies"):
        yield from (
            ["study", name, "--dry-run", "--json", "--price-per-gpu-hour", "2"],
            ["study", name, "--report"],
        )


def _of_log(log: str) -> Iterator[list[str]]:
    yield ["parse", log, "--json"]
    yield ["parse", log]
    yield ["parse", log, "--steps", "csv"]
    yield ["explain", log, "--json"]
    yield ["compare", log, "--recipe", "llama3.1-8b", "--gpu", "H100", "--json"]


def _of_generated(log: str) -> Iterator[list[str]]:
    yield ["parse", log, "--json"]
    yield ["explain", log, "--gpu", "H100"]


def _of_run(run: Path) -> Iterator[list[str]]:
    """Every question about one kept run, and about its log alone."""
    name, spec = f"runs/{run.name}", json.loads((run / "spec.json").read_text())
    yield from (["show", name, "--json"], ["fingerprint", name, "--json"])
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


def _more_of_run(run: Path) -> Iterator[list[str]]:
    """What takes longer, or says the same in other words."""
    name = f"runs/{run.name}"
    yield from (["compare", name], ["compare", name, "--warmup", "1", "--json"])
    yield ["parse", f"{name}/stdout.log.xz", "--steps", "rows.jsonl", "--plot", "steps.svg"]
    yield ["parse", f"{name}/stdout.log.xz", "--plot", "losses.svg", "--metric", "loss"]


def _of_runs(inputs: Path, runs: list[str]) -> Iterator[list[str]]:
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


def _of_trace(trace: str) -> Iterator[list[str]]:
    yield ["fingerprint", trace, "--json"]
    yield ["fingerprint", trace, "--window", "steps", "--json"]
    yield ["fingerprint", trace]


def _of_plans_and_sites() -> Iterator[list[str]]:
    for plan in (*_shipped("plans"), "two.yaml"):
        yield from (["plan", plan, "--dry-run"], ["plan", plan, "--dry-run", "--json"])
        yield from (["plan", plan, "--report"], ["plan", plan, "--report", "--json"])
    yield ["plan", "two.yaml", "--report", "--pack", "new-pack"]
    yield from (
        ["verify", "pack"],
        ["verify", "pack", "--json"],
        ["verify", "pack", "--plan", "two.yaml"],
    )
    yield from (["verify", "pack", "--plan", "tiny", "--json"], ["verify", "runs", "--json"])
    yield from (["nodes", "--run", CHECK], ["nodes", "--run", CHECK, "--json"])
    yield from (
        ["nodes", "site.yaml", "--num-nodes", "4", "--dry-run"],
        ["nodes", "dgx-h100", "--dry-run"],
    )
    yield [
        "nodes",
        "site.yaml",
        "--num-nodes",
        "4",
        "--dry-run",
        "--json",
        "--set",
        "repeats=3",
        "--exclude",
        "n1",
    ]
    yield from (
        ["doctor"],
        ["doctor", "--json"],
        ["doctor", "--cluster", "local", "--no-node", "--json"],
    )
    yield from (
        ["doctor", "--cluster", "site.yaml", "--no-node"],
        ["site", "init"],
        ["site", "--help"],
    )


def _datagen() -> Iterator[list[str]]:
    yield from (
        ["--help"],
        ["tokens", "--help"],
        ["sft", "--help"],
        ["tokenizer", "--help"],
        ["inspect", "--help"],
    )
    small = ["--tokens", "20000", "--vocab-size", "1000", "--workers", "1"]
    for lengths in ("fixed", "lognormal", "zipf"):
        yield [
            "tokens",
            "--output",
            "new",
            *small,
            "--documents",
            lengths,
            "--mean-length",
            "64",
            "--json",
        ]
    yield ["tokens", "--output", "new", *small, "--distribution", "uniform", "--shards", "2"]
    yield ["tokens", "--output", "new", *small, "--learnable", "--json"]
    for form in ("dolly", "chat", "packed"):
        yield [
            "sft",
            "--output",
            "new",
            "--samples",
            "50",
            "--format",
            form,
            "--workers",
            "1",
            "--json",
        ]
    yield ["tokenizer", "--output", "words", "--vocab-size", "2000", "--json"]
    yield from (
        ["inspect", "runs"],
        ["inspect", "data/tokens"],
        ["inspect", "data/tokens", "--json"],
    )
    yield from (["inspect", "data/chat", "--document", "3"], ["inspect", "data/words", "--json"])


def _wrong() -> Iterator[list[str]]:
    """Wrong input: the message and the exit code."""
    yield from (
        [],
        ["lst"],
        ["show", "llama3"],
        ["show", "llama3.1-8b"],
        ["show", "llama3.1-8b", "--gpu", "H1000"],
    )
    point = ["llama3.1-8b", "--gpu=H100", "--precision=bf16", "--num-gpus=8"]
    for setting in (
        "layout.tp=3",
        "mbs=3",
        "no.such=1",
        "training.steps=-1",
        "cluster.container.runtime=lxc",
    ):
        yield ["show", *point, "--set", setting]
    yield from (
        ["parse", "no-such.log"],
        ["parse", "site.yaml"],
        ["compare", "site.yaml"],
        ["compare", "no-run"],
    )
    yield from (
        ["explain", "no-run"],
        ["diff", "site.yaml"],
        ["fingerprint", "site.yaml"],
        ["verify", "no-pack"],
    )
    yield from (
        ["predict"],
        ["predict", *point, "--num-gpus", "0"],
        ["study", "no-study"],
        ["plan", "no-plan"],
    )
    yield from (
        ["nodes"],
        ["report", "no-run"],
        ["report", "runs", "--output", "x.zip"],
        ["status", "no-run"],
    )
