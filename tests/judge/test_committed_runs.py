"""The committed runs: logs give their numbers, memory was estimated, and they do not tell where they ran."""

import json
import re
from pathlib import Path

import kept_runs
import pytest
from selection import representative
from test_measured import KEPT, text_of

from benchrun import api, kept, paths
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.measure.model import Metrics
from benchrun.memory import estimate
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec
from benchrun.usecases.keep import PATH


def estimated(path: Path) -> bool:
    """Whether the run trained in the worker."""
    entry = kept.entries(paths.MEASURED)[path.name]
    return entry["workload"] == "training" and FRAMEWORKS[entry["framework"]].own_worker


OF_THE_WORKER = [path for path in KEPT if estimated(path)]


@pytest.mark.parametrize("path", representative(KEPT), ids=lambda path: path.name)
def test_a_committed_log_gives_the_committed_metrics_to_the_digit(path: Path) -> None:
    run = RunDir(kept_runs.folder(path))
    committed = Metrics.model_validate(run.read_json("metrics.json"))
    # Counted since later versions only: what older files do not say is not compared.
    since = {"steps_timed", "skipped_updates", "peak_memory_gib"} - committed.model_fields_set
    again = api.measure_run(run, committed.warmup).metrics
    assert again.model_dump(exclude=since) == committed.model_dump(exclude=since)


@pytest.mark.parametrize("path", representative(OF_THE_WORKER), ids=lambda path: path.name)
def test_a_committed_run_took_the_memory_that_was_estimated(path: Path) -> None:
    (peak,) = re.findall(r'"peak_memory_gib": ([\d.]+)', text_of(kept_runs.folder(path))["stdout.log.xz"])
    spec = RunSpec.read(kept_runs.folder(path) / "spec.json")
    assert estimate(spec).total == pytest.approx(float(peak), rel=0.1 if spec.framework == "hf" else 0.05)


@pytest.mark.parametrize("path", representative(KEPT), ids=lambda path: path.name)
def test_a_committed_run_does_not_tell_where_it_ran(path: Path) -> None:
    for name, text in text_of(kept_runs.folder(path)).items():
        found = PATH.search(text)
        assert found is None, f"{name}: {found[0]}"
    env = json.loads((kept_runs.folder(path) / "env.json").read_text())
    assert all(re.fullmatch(r"node\d+", node["host"]) for node in env["nodes"])
