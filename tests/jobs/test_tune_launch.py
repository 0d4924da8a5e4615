"""The search for a layout under a stand-in for Slurm: rounds of short jobs, taken up again, and its result."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_study_launch import Site, site  # noqa: F401

from benchrun import api
from benchrun.capabilities.predict.prediction import predict
from benchrun.capabilities.predict.runs import workload_of_run
from benchrun.capabilities.studies import usecase as studies
from benchrun.capabilities.studies.tuning import Tuning
from benchrun.cli import group
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir
from benchrun.vocabulary import Exit

POINT = {"gpu": "H200", "precision": "bf16", "num_gpus": 4, "framework": "megatron-core", "cluster": "hgx-h200"}
SETS = ("model.num_layers=8", "cluster.container.runtime=none", "training.ceilings=false")
STEP = (
    " iteration {n:8d}/{steps:8d} | consumed samples: {seen:12d} | elapsed time per iteration (ms): {ms:.1f} |"
    " global batch size: {gbs:5d} | lm loss: 2.0E+00 | number of nan iterations:   0 |\n"
)


class Machine:
    """Jobs end at once; a step takes 1.1 times the prediction, but for layouts of ``factors``; those of 0 fail."""

    def __init__(self, cluster: Site) -> None:
        self.site = cluster
        self.factors: dict[tuple[int, int, int], float] = {}
        """By tp, pp and micro-batch."""

    def end_all(self, *_: Any) -> None:
        state = json.loads((self.site.folder / "bin" / "state.json").read_text())
        for job in list(state["jobs"]):
            if job.get("state", "RUNNING") == "RUNNING":
                code = 0 if self._log(RunDir(Path(job["dir"])), job["id"]) else 1
                job |= {"state": "FAILED" if code else "COMPLETED", "code": f"{code}:0"}
                state["past"].append(job)
        (self.site.folder / "bin" / "state.json").write_text(json.dumps(state))
        self.site.slurm._state = state

    def _log(self, run: RunDir, job: str) -> bool:
        spec: Any = run.spec
        factor = self.factors.get((spec.layout.tp, spec.layout.pp, spec.mbs), 1.1)
        steps, time_ms = spec.training.steps, 1000 * factor * predict(workload_of_run(spec)).median
        rows = [
            STEP.format(n=n, steps=steps, seen=n * spec.gbs, ms=time_ms, gbs=spec.gbs)
            for n in range(1, steps + 1 if factor else 2)
        ]
        (run.path / "stdout.log").write_text("".join(rows))
        run.write_json("done.json", {"exit_code": 0 if factor else 1, "signal": None, "job_id": job, "host": "n1"})
        return bool(factor)


@pytest.fixture
def machine(site: Site, monkeypatch: pytest.MonkeyPatch) -> Machine:  # noqa: F811
    found = Machine(site)
    monkeypatch.setattr(studies, "_pause", found.end_all)
    return found


def planned() -> Tuning:
    return api.plan_tuning(api.Request("llama3.1-8b", overrides=SETS, **POINT), {"mbs": [1, 2]}, 12)  # type: ignore[arg-type]


def test_the_search_ends_with_the_fastest_of_few(machine: Machine) -> None:
    tuning = planned()
    api.tune(tuning)
    result = api.tuning_result(tuning)
    assert result.over
    assert result.best == result.layouts[0]
    assert result.best.measured_s == pytest.approx(1.1 * result.best.predicted_s, rel=0.01)
    tried = [each for each in result.layouts if each.steps]
    assert len(tried) < len(result.layouts) / 2
    assert result.device_s <= 0.3 * result.exhaustive_device_s
    jobs = len(find_runs())
    api.tune(tuning)
    assert len(find_runs()) == jobs, "a search that is over launches nothing"


def test_a_layout_that_fails_is_left_out_and_a_slow_favourite_loses(machine: Machine) -> None:
    tuning = planned()
    first, second = (each.spec for each in tuning.candidates[:2])
    machine.factors[first.layout.tp, first.layout.pp, first.mbs] = 0.0
    machine.factors[second.layout.tp, second.layout.pp, second.mbs] = 2.0
    api.tune(tuning)
    result = api.tuning_result(tuning)
    assert result.layouts[0].measured_s is None
    assert result.layouts[0].steps > 0
    assert result.best not in (None, *result.layouts[:2])


def test_a_killed_search_goes_on_where_it_was(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning, ends = planned(), machine.end_all

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, "_pause", killed)
    with pytest.raises(KeyboardInterrupt):
        api.tune(tuning)
    launched = len(find_runs())
    assert launched > 0
    assert not api.tuning_result(tuning).over
    monkeypatch.setattr(studies, "_pause", ends)
    api.tune(tuning)
    result = api.tuning_result(tuning)
    assert result.over
    assert len(find_runs()) == sum(1 for each in result.layouts if each.steps) + _again(result)


def _again(result: Any) -> int:
    """Jobs over twice the steps."""
    return sum(each.steps > 12 for each in result.layouts)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--vary", "mbs=1,2"), Exit.OK),
        (("--vary", "mbs=0"), 2),
        (("--vary", "colour=1"), 2),
        (("--vary", "mbs=1", "--vary", "mbs=2"), 2),
    ],
)
def test_the_command_ranks_layouts_without_launching(site: Site, options: tuple[str, ...], code: int) -> None:  # noqa: F811
    words = [word for name, value in POINT.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    sets = [word for text in SETS for word in ("--set", text)]
    arguments = ["study", "llama3.1-8b", "--tune", "--dry-run", "--json", *words, *sets, *options]
    result = CliRunner().invoke(group, arguments, standalone_mode=False)
    found = result.return_value if result.exception is None else getattr(result.exception, "exit_code", None)
    assert found == code
    if code == Exit.OK:
        document = json.loads(result.stdout)
        assert result.stderr.count("ranking layouts") == 1, "where no terminal is, progress is one line"
        assert document["best"] is None
        search = document["foreseen"]
        assert 0 < search["jobs"] <= len(document["layouts"])
        assert 0 < search["gpu_hours"] <= search["most_gpu_hours"]
        assert [each["predicted_s"] for each in document["layouts"]] == sorted(
            each["predicted_s"] for each in document["layouts"]
        )
    assert find_runs() == []


def test_the_page_says_what_the_search_costs_and_nothing_of_measurements() -> None:
    words = ["study", "llama3.1-8b", "--tune", "--dry-run", "--gpu", "H100", "--precision", "bf16", "--num-gpus", "8"]
    page = []
    for price in ([], ["--price-per-gpu-hour", "2.5"]):
        call = [*words, "--vary", "mbs=1", *price]
        page.append(CliRunner().invoke(group, call, standalone_mode=False).stdout)
    assert "expected s" not in page[0]
    assert "GPU-hours if predictions hold; at most" in page[0]
    hours, cost = re.search(r"at most ([\d.]+) GPU-hours, cost (\d+)", page[1]).groups()
    assert float(cost) == pytest.approx(2.5 * float(hours), abs=1)


def test_without_a_search_nothing_varies() -> None:
    result = CliRunner().invoke(group, ["study", "tiny", "--dry-run", "--vary", "mbs=1"], standalone_mode=False)
    assert getattr(result.exception, "exit_code", None) == 2
