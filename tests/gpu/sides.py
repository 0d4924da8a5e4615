"""Prepares suites that stand side by side on one machine; measure.sh calls it. Prints JSON, which is YAML.

    sides.py order SUITE GPU REPEATS     each point's runs forth and back (A B B A), REPEATS times in all, on GPU
    sides.py again SUITE RUNS ID...      those runs of SUITE, launched as ID... in this order, that are to be repeated

A point is what follows one another and differs in the framework and in ``training`` alone.
"""

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

Run = dict[str, Any]
WIDEST = 0.05
"""Steps whose 5th and 95th percentile are further apart, as a share of the median, are no measurement: a slow rank of
one machine showed 0.15, sound runs that no host holds up 0.001 to 0.037 (four H200, November 2026)."""
BEHIND_PERCENT = 3.0
"""The same for the compute time of the slowest rank, in percent of the step."""


def ordered(runs: Sequence[Run], gpu: str, repeats: int) -> list[Run]:
    """The runs in the order to launch them in: point by point, each pass in the reverse order of the one before."""
    order: list[Run] = []
    for _, group in itertools.groupby(runs, key=_point):
        point = [run | {"gpu": gpu} for run in group]
        for repeat in range(repeats):
            order += reversed(point) if repeat % 2 else point
    return order


def _point(run: Run) -> str:
    settings = {key: value for key, value in run.get("set", {}).items() if key.partition(".")[0] != "training"}
    return json.dumps([run["recipe"], run["precision"], run["num_gpus"], settings], sort_keys=True)


def unsteady(metrics: Run | None) -> bool:
    """Whether a run with these contents of metrics.json has steps that vary, or a rank that is slow."""
    if not metrics or not (step := metrics.get("step_time_s")):
        return False
    slowest = ((metrics.get("ranks") or {}).get("slowest") or {}).get("behind_percent", 0.0)
    return bool(step["p95"] - step["p5"] > WIDEST * step["median"] or slowest > BEHIND_PERCENT)


def again(runs: Sequence[Run], ids: Sequence[str], metrics: Callable[[str], Run | None]) -> list[Run]:
    """The runs that are unsteady by the metrics of their id."""
    return [run for run, run_id in zip(runs, ids, strict=True) if unsteady(metrics(run_id))]


def main(verb: str, suite: str, *arguments: str) -> None:
    document = yaml.safe_load(Path(suite).read_text(encoding="utf-8"))
    if verb == "order":
        gpu, repeats = arguments
        runs = ordered(document["runs"], gpu, int(repeats))
    else:
        folder, *ids = arguments

        def metrics(run_id: str) -> Run | None:
            file = Path(folder, run_id, "metrics.json")
            return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

        runs = again(document["runs"], ids, metrics)
    json.dump({"description": document["description"], "runs": runs}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
