"""Files of ranks that are valid one by one, and missing or contradictory together; a scheduler without an answer."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calling import call

from benchrun import api
from benchrun.errors import UserError
from benchrun.jobs.create import create
from benchrun.recipes.resolve import resolve_nodes
from benchrun.render import render
from benchrun.rundir.artifacts import EXCLUDE, FLEET, NODES
from benchrun.rundir.folder import RunDir

Documents = dict[str, dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    spec = resolve_nodes("slurm-cpu", 4)
    return create(tmp_path / "runs", spec, render(spec))


def healthy(gpus: int = 1) -> Documents:
    """What the ranks of four nodes write, by the name of the file."""
    return {
        f"n{rank // gpus}.{rank}": {
            "schema_version": 1,
            "host": f"n{rank // gpus}",
            "rank": rank,
            "local_rank": rank % gpus,
            "device": "CPU",
            "ranks": 4 * gpus,
            "complete": True,
            "rates": [{"test": "products", "work": "1024", "values": [100 + rank / 10, 100.2, 99.9]}],
        }
        for rank in range(4 * gpus)
    }


def write(run: RunDir, documents: Documents) -> None:
    (run.path / NODES).mkdir()
    for name, document in documents.items():
        (run.path / NODES / f"{name}.json").write_text(json.dumps(document))


def test_all_files_of_a_healthy_fleet_lack_nothing(run: RunDir) -> None:
    write(run, healthy(2))
    found = api.fleet_of(run)
    assert (found.missing, found.exclude, len(found.nodes)) == ((), (), 4)


@pytest.mark.parametrize(("gpus", "lost", "missing"), [(1, "n3.3", "rank 3"), (2, "n2.5", "rank 5")])
def test_a_rank_without_a_file_is_missing_and_no_node_is_guessed(
    run: RunDir, gpus: int, lost: str, missing: str
) -> None:
    write(run, {name: each for name, each in healthy(gpus).items() if name != lost})
    found = api.fleet_of(run)
    assert (found.missing, found.exclude) == ((missing,), ())


def other_work(files: Documents) -> None:
    files["n1.1"]["rates"][0].update(work="4096", values=[60.0, 60.1, 60.2])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_work, "n1.1"),
        (lambda files: files.update({"n9.1": files["n1.1"]}), "n9.1"),
        (lambda files: files["n1.1"].update(rank=0), "n1.1"),
        (lambda files: files["n1.1"].update(rank=4), "n1.1"),
        (lambda files: files["n1.1"].update(ranks=400), "n1.1"),
    ],
)
def test_files_that_contradict_each_other_are_one_error_that_names_the_file(
    run: RunDir, change: Callable[[Documents], object], named: str
) -> None:
    documents = healthy()
    change(documents)
    write(run, documents)
    with pytest.raises(UserError) as error:
        api.fleet_of(run)
    assert error.value.where == str(run.path / NODES / f"{named}.json")


@pytest.mark.parametrize("queue", ["exit 1", "exit 0"])  # of a queue that answers only the accounting is silent
@pytest.mark.parametrize(
    ("lost", "contradiction", "code"), [((), False, 0), (("n3.3",), False, 4), (("n3.3",), True, 2)]
)
def test_without_an_answer_of_slurm_the_command_shows_what_is_there(
    run: RunDir, tmp_path: Path, lost: tuple[str, ...], contradiction: bool, code: int, queue: str
) -> None:
    """It neither waits nor writes: the job may go on."""
    documents = {name: each for name, each in healthy().items() if name not in lost}
    if contradiction:
        other_work(documents)
    write(run, documents)
    run.append_event("submitted", job="7")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("squeue", "sacct", "scontrol", "sinfo"):
        end = queue if name == "squeue" else "exit 1"
        (programs / name).write_text(f"#!/bin/sh\necho 'Unable to contact slurm' >&2\n{end}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    result = call("nodes", "--run", run.run_id, "--json", BENCHRUN_RESULTS=str(tmp_path), PATH=path)
    assert result.returncode == code, result.stderr
    assert not (run.path / FLEET).exists() and not (run.path / EXCLUDE).exists()
    if code != 2:
        found = json.loads(result.stdout)
        assert found["missing"] == [f"rank {name.partition('.')[2]}" for name in lost]
        assert found["reason"]
