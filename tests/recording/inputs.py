"""The fixed inputs of a recording: logs, kept runs, traces, tables, a plan, a site.

A later recording takes the inputs of the first, wherever the checkout keeps its own by then.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from benchrun import kept

from .perform import TREE

RUNS = 40
"""Kept runs that are asked one by one."""
OWN = 12
"""Kept runs of one recipe that lie in the runs folder, as a history."""
MEASURED = TREE / "results/measured"
SEED = 1
"""Of the generated logs."""
SITE = """\
scheduler: slurm
gpu: H100
gpus_per_node: 8
partition: batch
container: {runtime: pyxis, image: nvcr.io/nvidia/pytorch:25.06-py3}
"""
OPTIMIZER = {"precision_aware": True, "exp_avg": "bf16", "exp_avg_sq": "bf16"}
SETTINGS = {"mbs": 2, "gbs": 32, "training.steps": 6, "training.optimizer": OPTIMIZER}
PLANNED = {"recipe": "llama3.1-8b", "gpu": "H200", "precision": "fp8", "num_gpus": 2}
PLAN = {
    "description": "Three kept runs on two H200",
    "cluster": "hgx-h200",
    "runs": [{**PLANNED, "framework": "megatron-core", "set": SETTINGS}],
    "criteria": {
        "at_least": {"mfu_percent": 40, "tokens_per_joule": 20},
        "at_most": {"peak_memory_gib": 130},
        "max_below_reference_percent": 3,
        "max_spread_percent": 0.1,
        "max_throttled_runs": 0,
    },
}
PLANNED_IDENTITY = "2c0cb897"
"""Of the runs that this plan would launch."""
PLANNED_RUNS = 3
CHECK = "nodes-00000000-20261122T000000Z-0000"
"""A check of nodes."""
NODES, GPUS, SLOW_RANK = 4, 2, 5


def copy_inputs(folder: Path, others: list[Path]) -> None:
    """Fill the new ``folder``; ``others`` are folders of more logs."""
    folder.mkdir(parents=True)
    shutil.copytree(TREE / "tests/logs", folder / "logs")
    for number, other in enumerate(others):
        shutil.copytree(other, folder / f"more-logs-{number}")
    shutil.copytree(TREE / "tests/capabilities/traces/traces", folder / "traces")
    shutil.copytree(TREE / "results/traces", folder / "more-traces")
    _write_generated(folder / "generated")
    places = map(kept.place, kept.runs(MEASURED))
    specs = {place.name: json.loads((place / "spec.json").read_text()) for place in places}
    for name in _varied(specs):
        shutil.copytree(kept.place(MEASURED / name), folder / "runs" / name)
    for name in _own(specs):
        shutil.copytree(kept.place(MEASURED / name), folder / "results/runs" / name)
    (folder / "site.yaml").write_text(SITE)
    (folder / "two.yaml").write_text(json.dumps(PLAN))
    write_table(folder / "table.csv", said(folder, "list", "--json"))
    own_plan(folder)
    own_check(folder)
    own_data(folder / "data")


def _write_generated(folder: Path) -> None:
    """One log of each dialect and of each client of a server, from its stated truth."""
    from tests.generated.bulk import servers, truths
    from tests.generated.forms import ALL
    from tests.generated.served import FORMS, served_log
    from tests.generated.write import log

    folder.mkdir()
    for truth in truths(len(ALL), SEED):
        (folder / f"{truth.form}.log").write_bytes(log(truth))
    for served in servers(len(FORMS), SEED):
        ending = "json" if served.form.endswith("json") else "log"
        (folder / f"{served.form}.{ending}").write_bytes(served_log(served))


def _varied(specs: dict[str, Any]) -> list[str]:
    """Kept runs that differ most: each has the most features that none before it has."""
    features = {name: {*_features(name, spec)} for name, spec in specs.items()}
    seen: set[object] = set()
    chosen: list[str] = []
    while len(chosen) < min(RUNS, len(specs)):
        best = max(
            (name for name in specs if name not in chosen),
            key=lambda name: len(features[name] - seen),
        )
        chosen.append(best)
        seen |= features[best]
    return sorted(chosen)


def _features(name: str, spec: Any) -> Iterator[object]:
    """What makes a kept run another kind than the next."""
    place = kept.place(MEASURED / name)
    framework = spec["framework"]
    verdict = json.loads((place / "verdict.json").read_text())["verdict"]
    yield from (spec["recipe"], verdict, spec["gpu"], spec.get("workload"), spec.get("task"))
    yield from ((framework, spec.get(key)) for key in ("gpu", "precision", "num_gpus", "task"))
    yield (framework, verdict)
    yield from (("file", str(path.relative_to(place))) for path in place.rglob("*"))
    for key, value in spec.get("layout", {}).items():
        if isinstance(value, int | str):
            yield ("layout", key, value)


def _own(specs: dict[str, Any]) -> list[str]:
    """The runs of the plan, and the newest of the recipe, GPU, precision and size with the most."""
    planned = [name for name in specs if f"-{PLANNED_IDENTITY}-" in name][:PLANNED_RUNS]
    points: dict[tuple[Any, ...], list[str]] = {}
    for name, spec in specs.items():
        point = tuple(spec.get(key) for key in ("recipe", "gpu", "precision", "num_gpus"))
        points.setdefault(point, []).append(name)
    most = sorted(max(points.values(), key=len), key=lambda name: name.rsplit("-", 2)[1])
    return list(dict.fromkeys((*planned, *most[-OWN:])))


def said(folder: Path, *words: str, program: str = "benchrun") -> Any:
    """The JSON document that a command line prints in ``folder``."""
    command = [sys.executable, "-m", program, *words]
    path = os.pathsep.join((str(TREE), os.environ.get("PYTHONPATH", "")))
    variables = {**os.environ, "PYTHONPATH": path, "BENCHRUN_RESULTS": "results"}
    return json.loads(subprocess.check_output(command, cwd=folder, env=variables))


def write_table(file: Path, points: list[Any]) -> None:
    """A table for `predict --csv`: each recipe and GPU, and a row that cannot be predicted."""
    names = {"model": "recipe", "seq_len": "seq_length"}
    same = (
        "gpu",
        "precision",
        "num_gpus",
        "tp",
        "pp",
        "cp",
        "vp",
        "ep",
        "dp",
        "mbs",
        "gbs",
        "framework",
    )
    columns = [*names, *same]
    chosen = {(point["recipe"], point["gpu"]): point for point in points}
    with file.open("w", newline="") as target:
        writer = csv.DictWriter(target, columns)
        writer.writeheader()
        for point in chosen.values():
            writer.writerow({column: point[names.get(column, column)] for column in columns})
        writer.writerow({"model": "no-such-model", "gpu": "H100", "num_gpus": 8})


def own_plan(folder: Path) -> None:
    """Note in the runs folder that the plan launched its runs, and write its evidence pack."""
    study = said(folder, "plan", "two.yaml", "--dry-run", "--json")["study"]
    place = folder / "results/runs" / Path(study["directory"]).name
    place.mkdir()
    names = sorted(path.name for path in place.parent.glob(f"*-{PLANNED_IDENTITY}-*"))
    prepared = {
        "time": "2026-11-22T00:00:00Z",
        "event": "prepared",
        "point": study["points"][0]["key"],
    }
    with (place / "events.jsonl").open("w") as events:
        for number, name in enumerate(names, 1):
            events.write(json.dumps({**prepared, "repeat": number, "run": name}) + "\n")
    said(folder, "plan", "two.yaml", "--report", "--pack", "pack", "--json")


def own_check(folder: Path) -> None:
    """A check of four nodes with two GPUs each, of which one has a slow memory."""
    place = folder / "results/runs" / CHECK
    (place / "nodes").mkdir(parents=True)
    spec = said(folder, "nodes", "site.yaml", "--num-nodes", "4", "--dry-run", "--json")["spec"]
    (place / "spec.json").write_text(json.dumps(spec))
    ending = {
        "schema_version": 1,
        "ending": "completed",
        "evidence": ["scheduler: COMPLETED"],
        "exit_code": 0,
    }
    (place / "ending.json").write_text(json.dumps(ending))
    for rank in range(NODES * GPUS):
        host = f"n{rank // GPUS}"
        rates = [_rate(test, rank) for test in ("products", "memory")]
        facts = {
            "host": host,
            "rank": rank,
            "local_rank": rank % GPUS,
            "device": "H100",
            "ranks": NODES * GPUS,
        }
        document = {"schema_version": 1, **facts, "complete": True, "rates": rates}
        (place / "nodes" / f"{host}.{rank}.json").write_text(json.dumps(document))


def _rate(test: str, rank: int) -> dict[str, Any]:
    """Five repeats of a test on one rank."""
    random = Random(f"{test}:{rank}")
    speed = 700.0 * (0.9 if (test, rank) == ("memory", SLOW_RANK) else 1.0)
    return {
        "test": test,
        "work": "stated",
        "peer": None,
        "values": [random.gauss(speed, 2) for _ in range(5)],
    }


def own_data(folder: Path) -> None:
    """Small data sets of datagen, to be inspected."""
    tokens = ["tokens", "--output", "tokens", "--tokens", "5000", "--vocab-size", "500"]
    chat = ["sft", "--output", "chat", "--samples", "20", "--format", "chat"]
    folder.mkdir()
    for words in (tokens, chat, ["tokenizer", "--output", "words", "--vocab-size", "1000"]):
        said(folder, *words, "--json", program="datagen")
