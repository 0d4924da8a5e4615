"""Inventories besides recipes: suites, studies, clusters, GPUs, frameworks."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchrun import paths
from benchrun.recipes.files import cluster_document
from benchrun.recipes.yamlfile import load

from .listing import list_points

Rows = list[dict[str, Any]]


def _files(kind: str, folder: Path) -> Rows:
    """One row per shipped suite, study or plan."""
    rows = []
    for name in paths.shipped(folder):
        path = folder / f"{name}.yaml"
        document = load(path)
        runs = document["runs"]
        size: dict[str, Any] = {"runs": len(runs)}
        if kind == "study":
            size = {"factors": list(document.get("matrix") or {})}
        rows.append(
            {
                kind: name,
                **size,
                "gpu": _distinct(runs, "gpu"),
                "num_gpus": _distinct(runs, "num_gpus"),
                "recipes": _distinct(runs, "recipe"),
                "description": document["description"],
                "path": str(path),
            }
        )
    return rows


def _distinct(runs: Rows, key: str) -> list[Any]:
    """The values of a key, each of which may be one or a list."""
    found: dict[Any, None] = {}
    for run in runs:
        if key in run:
            values = run[key] if isinstance(run[key], list) else [run[key]]
            found |= dict.fromkeys(values)
    return list(found)


def list_clusters() -> Rows:
    """One row per shipped cluster profile."""
    rows = []
    for name in paths.shipped(paths.CLUSTERS):
        site = cluster_document(name)
        about = {}
        for key in ("scheduler", "gpu", "gpus_per_node", "partition"):
            about[key] = site.get(key)
        runtime = (site.get("container") or {}).get("runtime", "none")
        path = str(paths.CLUSTERS / f"{name}.yaml")
        rows.append(
            {
                "cluster": name,
                **about,
                "runtime": runtime,
                "description": site["description"],
                "path": path,
            }
        )
    return rows


def list_gpus() -> Rows:
    """One row per GPU of the hardware table, with the number of recipes that have
    points for it.
    """
    from benchrun import hardware

    recipes: dict[str, set[str]] = {}
    for row in list_points():
        recipes.setdefault(row["gpu"], set()).add(row["recipe"])
    table = []
    for name in hardware.names():
        if gpu := hardware.gpu(name):
            table.append(gpu)
    return [
        {
            **gpu.model_dump(exclude={"source"}, by_alias=True),
            "recipes": len(recipes.get(gpu.name, ())),
            "source": gpu.source,
        }
        for gpu in table
    ]


def list_frameworks() -> Rows:
    """One row per framework: those that benchrun launches, then those whose logs it
    only reads.
    """
    from benchrun.frameworks.logs import DIALECTS
    from benchrun.frameworks.registry import FRAMEWORKS

    rows = []
    for name, framework in FRAMEWORKS.items():
        rows.append(
            {
                "framework": name,
                "launched": True,
                "tasks": sorted(framework.tasks),
                "precisions": sorted(framework.precisions),
                "image": framework.images.name,
            }
        )
    only_read = [name for name in DIALECTS if name not in FRAMEWORKS]
    return rows + [
        {"framework": name, "launched": False, "tasks": [], "precisions": [], "image": None}
        for name in only_read
    ]


INVENTORIES: dict[str, Callable[[], Rows]] = {
    "suites": partial(_files, "suite", paths.SUITES),
    "studies": partial(_files, "study", paths.STUDIES),
    "plans": partial(_files, "plan", paths.PLANS),
    "clusters": list_clusters,
    "gpus": list_gpus,
    "frameworks": list_frameworks,
}
"""Options of ``benchrun list`` that list something else than recipes."""
