"""Calls on recipes, points, clusters, suites, studies and plans."""

from collections.abc import Iterator
from typing import Any

from .inputs import CHECK
from .perform import TREE

Words = list[str]
"""A call without its program."""
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


def point_calls(rows: list[Any]) -> Iterator[Words]:
    """Every call on points; ``rows``: what `list --json` prints."""
    points = _points(rows)
    yield from _inventories(points)
    for point in points:
        yield from _of_point(point)
    yield from _variants(points)
    yield from _more_options()
    yield from _of_plans_and_sites()


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


def _inventories(points: list[Any]) -> Iterator[Words]:
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


def _of_point(point: Any) -> Iterator[Words]:
    """What is known of one point, its job, and its prediction."""
    chosen = _choice(point)
    yield ["show", *chosen, "--json"]
    yield ["show", *chosen]
    yield ["render", *chosen, *([] if point["framework"] in COPIED else ["--output", "job"])]
    yield ["predict", *chosen, "--json"]


def _variants(points: list[Any]) -> Iterator[Words]:
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
        point = ["llama3.1-8b", "--cluster", cluster, "--precision", "bf16", "--num-gpus", "8"]
        yield ["render", *point]
        yield ["show", *point, "--json"]
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


def _more_options() -> Iterator[Words]:
    """Options that no other call has."""
    point = ["llama3.1-8b", "--gpu=H100", "--precision=bf16", "--num-gpus=8"]
    cluster = [*point, "--cluster=dgx-h100", "--set=training.steps=30"]
    yield from (["predict", *cluster], ["profile", *cluster, "--dry-run", "--exclude=n4"])
    yield ["launch", *cluster, "--dry-run", "--profile=nsys", "--repeats=2"]
    chosen = ["--framework=nemo2", "--cluster=dgx-h100", "--set=training.steps=30", "--repeats=2"]
    for form in ("plain", "markdown", "csv", "html"):
        yield ["study", "micro-batch", *chosen, "--dry-run", "--format", form]
    yield ["study", "micro-batch", "--dry-run", "--profile=kineto", "--json", "--plot=study.svg"]
    yield ["study", "--tune", *point, "--steps=20", "--dry-run"]
    yield ["plan", "two.yaml", "--cluster=hgx-h200", "--name=other", "--report", "--json"]
    yield ["plan", "two.yaml", "--report", "--pack=new-pack", "--with-site", "--json"]


def _of_plans_and_sites() -> Iterator[Words]:
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
