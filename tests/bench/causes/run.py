"""Inject causes of slowness into real runs and see which one `benchrun explain` names first.

    python tests/bench/causes/run.py [NAME...] [--folder DIR]                   # on CPUs
    python tests/bench/causes/run.py [NAME...] --where gpu --gpu H100           # on a machine with two GPUs
    python tests/bench/causes/run.py [NAME...] --where gpu1 --gpu H200          # with one GPU
    python tests/bench/causes/run.py [NAME...] --where gpu1 --folder DIR --again    # explains runs made before

causes.csv has the causes and the names that are right for each (column `right`; empty: no fault may be named). A run is
explained with all that it has, without its trace, and from log, telemetry and breakdown alone (with the ceilings, as no
table lists the speed of CPUs); a healthy one from every set of its records. The last lines say how many first causes
are right. The exit code is 1 where fewer than 9 of 10 are right with all of it, or 6 of 10 from log, telemetry and
breakdown, or a healthy run has a fault.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))

from benchrun import api  # noqa: E402

WORKER = ["--framework=megatron-core", "--num-gpus=2"]
POINTS = {
    "cpu": ["tiny-llama", "--gpu=CPU", "--precision=fp32", *WORKER, "--cluster=local", "--set=gbs=16"],
    "gpu": [
        *("llama3.1-8b", "--precision=bf16", *WORKER, f"--cluster={HERE / 'node.yaml'}", "--set=model.num_layers=4"),
        *("--set=layout={tp: 1, cp: 1, pp: 1}", "--set=gbs=8", "--set=mbs=1", "--set=training.steps=14"),
        *("--profile=kineto", "--set=profile.ranks=[0,1]"),
    ],
}
POINTS["gpu1"] = [
    *(each for each in POINTS["gpu"] if "profile.ranks" not in each),
    *("--num-gpus=1", "--set=cluster.gpus_per_node=1", "--set=model.num_layers=2", "--set=seq_length=4096"),
    *("--set=profile.ranks=[0]",),
]
"""The point into which causes are injected: a tiny model on CPUs, a few layers of a large one on GPUs."""
SETS = ["training.ceilings=true", "training.breakdown=true"]


class Case(NamedTuple):
    """One row of causes.csv."""

    name: str
    where: str
    right: list[str]
    rank: str
    sets: list[str]
    seconds: str


def cases() -> Iterator[Case]:
    """All rows of causes.csv."""
    with (HERE / "causes.csv").open() as file:
        for row in csv.DictReader(file):
            env = (pair.split("=") for pair in row["env"].split())
            sets = row["sets"].split() + [f'env.{name}="{value}"' for name, value in env]
            yield Case(row["name"], row["where"], row["right"].split(), row["rank"], sets, row["seconds"])


def made(case: Case, point: list[str], folder: Path) -> Path:
    """The directory of a run with the cause injected."""
    results = folder / case.name
    shutil.rmtree(results, ignore_errors=True)
    site = results / "site"
    site.mkdir(parents=True)
    shutil.copy(HERE / "inject.py", site / "sitecustomize.py")
    env = {**os.environ, "INJECT": case.name, "INJECT_SECONDS": case.seconds, "BENCHRUN_RESULTS": str(results)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), str(ROOT), os.environ.get("PYTHONPATH"))))
    sets = [f"--set={each}" for each in (*SETS, *case.sets)]
    command = [sys.executable, "-m", "benchrun", "launch", *point, *sets, "--wait"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    runs = [spec.parent for spec in (results / "runs").glob("*/spec.json")]
    if not runs or not (runs[0] / "done.json").exists():
        raise SystemExit(f"{case.name}: no run\n{result.stdout}{result.stderr}")
    return runs[0]


def explained(run: Path) -> dict[str, Any]:
    """What `benchrun explain --json` prints of a run."""
    return api.explain_run(api.open_run(str(run))).model_dump(mode="json")


def right(case: Case, document: dict[str, Any]) -> bool:
    """Whether the first cause is a right one, with its rank; of a healthy run: whether no large fault is named."""
    causes, step = document["causes"], document["step_time_s"]
    if not case.right:
        return not any(cause["kind"] == "fault" and cause["seconds"] >= 0.03 * step for cause in causes)
    first = causes[0] if causes else {"cause": None, "rank": None}
    return first["cause"] in case.right and (not case.rank or str(first["rank"]) == case.rank)


def shown(document: dict[str, Any]) -> str:
    """The first causes with their shares of the step."""
    step = document["step_time_s"]
    named = [
        f"{cause['cause']}{'' if cause['rank'] is None else ' of rank ' + str(cause['rank'])}"
        f" {100 * cause['seconds'] / step:.0f} %{' (fault)' if cause['kind'] == 'fault' else ''}"
        for cause in document["causes"][:3]
    ]
    return ", ".join(named) or "none"


def judged(case: Case, run: Path, folder: Path) -> Iterator[tuple[str, bool]]:
    """Each way in which the run is explained and whether its first cause is right; prints a line for it."""
    for way, left_out in (WAYS if case.right else dict(every_set(run))).items():
        if way == TRACED and not any((run / name).exists() for name in TRACE):
            continue
        document = explained(_without(run, folder / case.name / "without", left_out) if left_out else run)
        well = right(case, document)
        if case.right or not well or not left_out:
            sys.stdout.write(f"{'right' if well else 'WRONG'}  {case.name} {way}: {shown(document)}\n")
            sys.stdout.flush()
        yield way, well


def main() -> int:
    """Run the cases and print a line for each; 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="causes; all of the machine by default")
    parser.add_argument("--where", choices=list(POINTS), default="cpu")
    parser.add_argument("--gpu", default="H100", help="name of the GPU, where it is not cpu")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no run is started")
    parser.add_argument("--only-runs", action="store_true", help="make the runs, explain none")
    parser.add_argument("--again", action="store_true", help="explain the runs in --folder, without new ones")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="causes-"))
    point = [
        *POINTS[given.where],
        *([f"--gpu={given.gpu}", f"--set=cluster.gpu={given.gpu}"] if given.where != "cpu" else []),
    ]
    answers: dict[str, list[bool]] = {}
    healthy, started = True, time.monotonic()
    for case in cases():
        if given.where != case.where or (given.names and case.name not in given.names):
            continue
        if time.monotonic() - started > given.limit:
            sys.stdout.write(f"not tried: {case.name}\n")
            continue
        runs = [spec.parent for spec in (folder / case.name / "runs").glob("*/spec.json")]
        if given.again and not runs:
            continue
        run = runs[0] if given.again else made(case, point, folder)
        if given.only_runs:
            sys.stdout.write(f"run  {case.name} after {time.monotonic() - started:.0f} s\n")
            sys.stdout.flush()
            continue
        for way, well in judged(case, run, folder):
            if case.right:
                answers.setdefault(way, []).append(well)
            healthy &= well or bool(case.right)
    for way, each in answers.items():
        sys.stdout.write(f"{sum(each)} of {len(each)} right {way}\n")
    enough = (sum(each) >= ENOUGH.get(way, 0.9) * len(each) for way, each in answers.items())
    return 0 if healthy and all(enough) else 1


TRACED, ALONE = "with its trace", "from log, telemetry and breakdown alone"
TRACE = ("profile", "fingerprint.json")
WAYS: dict[str, tuple[str, ...]] = {
    TRACED: (),
    "without a trace": TRACE,
    ALONE: (*TRACE, "ranks.json", "host.json"),
}
"""What a run is explained from -> what is left out of its directory."""
ENOUGH = {ALONE: 0.6}
"""Share of right answers; 0.9 for the others."""
RECORDS = ("ranks.json", "host.json", "breakdown.json", "ceilings.json", "telemetry", *TRACE)
"""What a run may hold beside its log."""


def every_set(run: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each set of the run's records: its name, and what is left out for it."""
    held = [name for name in RECORDS if (run / name).exists()]
    for left_out in chain.from_iterable(combinations(held, count) for count in range(len(held) + 1)):
        words = f"without {', '.join(left_out)}" if left_out else f"from its log and every set of {', '.join(held)}"
        yield words, left_out


def _without(run: Path, folder: Path, left_out: tuple[str, ...]) -> Path:
    """A copy of the run that lacks these files, and its results, which were computed with them."""
    target = folder / run.name
    shutil.rmtree(target, ignore_errors=True)
    computed = ("worker", "metrics.json", "verdict.json")
    shutil.copytree(run, target, ignore=shutil.ignore_patterns(*left_out, *computed))
    return target


if __name__ == "__main__":
    sys.exit(main())
