"""A study under a stand-in for Slurm: how many run at once, what is retried, and a launcher killed at any moment."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchrun import api
from benchrun.capabilities.studies import usecase as studies
from benchrun.capabilities.studies.resolved import ResolvedStudy
from benchrun.capabilities.studies.state import StudyDir
from benchrun.cli import group
from benchrun.errors import MachineError, UserError
from benchrun.jobs import launcher
from benchrun.recipes.select import Request
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir

RUN = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1, "set": {"training.steps": 12}}
STEP = (
    " iteration {n:8d}/{steps:8d} | consumed samples: 1 | elapsed time per iteration (ms): 100.0 |"
    " global batch size:     8 | lm loss: 2.0E+00 | number of nan iterations:   0 |\n"
)


class Killed(BaseException):
    """Stands for SIGKILL: nothing may handle it."""


class Site:
    """The stand-in cluster, whose jobs end when the test says so."""

    def __init__(self, slurm: Any, folder: Path) -> None:
        self.slurm, self.folder, self.most = slurm, folder, 0
        self.endings: list[int] = []
        """Exit codes of the jobs, in the order of their submission; 0 for all that come later."""

    def plan(self, **study: Any) -> ResolvedStudy:
        path = self.folder / "mine.yaml"
        document = {"description": "mine", "runs": [RUN], "matrix": {"mbs": [1, 2, 3, 4]}, **study}
        path.write_text(json.dumps(document))
        return api.plan_study(Request(str(path), cluster="slurm-cpu"))

    def jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = json.loads((self.folder / "bin" / "state.json").read_text())["jobs"]
        return jobs

    def going(self) -> list[dict[str, Any]]:
        return [job for job in self.jobs() if job.get("state", "RUNNING") in ("RUNNING", "PENDING")]

    def end_one(self, *_: Any) -> None:
        """Let the oldest running job end, with its log."""
        state = json.loads((self.folder / "bin" / "state.json").read_text())
        self.most = max(self.most, len(self.going()))
        for number, job in enumerate(state["jobs"]):
            if job.get("state", "RUNNING") == "RUNNING":
                code = self.endings[number] if number < len(self.endings) else 0
                run = RunDir(Path(job["dir"]))
                steps = 12 if code == 0 else 3
                (run.path / "stdout.log").write_text("".join(STEP.format(n=n + 1, steps=12) for n in range(steps)))
                done = {"exit_code": code, "signal": None, "restarts": 0, "job_id": job["id"], "host": "n1"}
                run.write_json("done.json", done)
                job |= {"state": "FAILED" if code else "COMPLETED", "code": f"{code}:0"}
                state["past"].append(job)
                break
        (self.folder / "bin" / "state.json").write_text(json.dumps(state))
        self.slurm._state = state


@pytest.fixture
def site(slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    found = Site(slurm, tmp_path)
    state = tmp_path / "bin" / "state.json"
    program = tmp_path / "bin" / "program.py"
    # Each job gets an id of its own.
    text = program.read_text().replace('state["jobs"].append(job)', 'state["jobs"].append(job); state["next"] += 1', 1)
    program.write_text(text)
    assert state.exists()
    monkeypatch.setattr(studies, "_pause", found.end_one)
    monkeypatch.setattr(launcher, "GRACE_S", 0)
    # The stand-in's log is whole at once, as on this machine's own disk.
    monkeypatch.setattr("benchrun.jobs.slurm.Slurm.lag_s", 0.0)
    return found


def test_at_most_so_many_run_at_once_and_every_point_once(site: Site) -> None:
    planned = site.plan(repeats=2)
    api.run_study(planned, concurrency=2)
    assert site.most == 2
    assert len(site.jobs()) == 6  # three legal points, twice
    found = api.study_result(planned)
    assert found.complete
    assert [(point.state.value, point.measured) for point in found.points] == [
        *(("completed", 2), ("completed", 2), ("refused", 0), ("completed", 2)),
    ]
    api.run_study(planned, concurrency=2)
    assert len(site.jobs()) == 6


def test_more_repeats_add_to_those_that_are_there(site: Site) -> None:
    api.run_study(site.plan(), concurrency=4)
    request = Request(str(site.folder / "mine.yaml"), cluster="slurm-cpu")
    again = api.plan_study(request, repeats=3)
    api.run_study(again, concurrency=4)
    assert len(site.jobs()) == 9
    assert [point.measured for point in api.study_result(again).points] == [3, 3, 0, 3]


def test_a_failed_run_is_launched_again_as_often_as_allowed(site: Site) -> None:
    planned = site.plan()
    site.endings = [1, 0, 0, 1, 1]
    api.run_study(planned, concurrency=1, retries=1)
    found = api.study_result(planned, retries=1)
    assert [len(point.runs) for point in found.points] == [2, 1, 0, 2]
    assert [point.state.value for point in found.points] == ["completed", "completed", "refused", "failed"]
    assert [point.measured for point in found.points] == [1, 1, 0, 0]


def test_without_retries_a_failure_stays_and_a_later_call_with_them_tries_again(site: Site) -> None:
    planned = site.plan()
    site.endings = [1]
    api.run_study(planned, concurrency=4)
    first = api.study_result(planned)
    assert (first.points[0].state.value, first.points[0].measured) == ("failed", 0)
    assert first.points[0].reason and "failed" in first.points[0].reason
    api.run_study(planned, concurrency=4)
    assert len(site.jobs()) == 3
    api.run_study(planned, concurrency=4, retries=1)
    assert len(site.jobs()) == 4
    assert api.study_result(planned, retries=1).complete


MOMENTS: dict[str, tuple[Any, str]] = {
    "prepared": (StudyDir, "record"),
    "recorded": (studies, "submit"),
    "submitted": (RunDir, "append_event"),
    "waiting": (studies, "_pause"),
}
"""What has just happened -> the function that is called next."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_launcher_killed_at_this_moment_loses_no_job_and_starts_none_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    planned, calls = site.plan(), []
    owner, name = MOMENTS[moment]
    original = getattr(owner, name)

    def killed_at_the_second(*args: Any, **facts: Any) -> Any:
        if moment != "submitted" or args[1] == "submitted":
            calls.append(args)
        if len(calls) == 2:
            calls.append(())
            raise Killed
        return original(*args, **facts)

    monkeypatch.setattr(owner, name, killed_at_the_second)
    with pytest.raises(Killed):
        api.run_study(planned, concurrency=2)
    before = len(site.jobs())
    api.run_study(planned, concurrency=2)
    found = api.study_result(planned)
    assert found.complete
    jobs = site.jobs()
    assert len(jobs) == 3 >= before  # one job for each legal point
    assert sorted(job["name"] for job in jobs) == sorted(
        run.run_id for run in find_runs() if run.job_id is not None or run.done()
    )
    assert site.most <= 2


def test_a_refusal_ends_the_study_and_the_same_command_goes_on(site: Site) -> None:
    planned = site.plan()
    site.slurm.answer(
        "sbatch",
        instead=True,
        code=1,
        err="sbatch: error: Batch job submission failed: Invalid partition name specified\n",
    )
    with pytest.raises(MachineError, match="Invalid partition") as error:
        api.run_study(planned, concurrency=2)
    assert "the same command goes on" in (error.value.hint or "")
    assert site.jobs() == []
    site.slurm.answer("sbatch")
    api.run_study(planned, concurrency=2)
    assert api.study_result(planned).complete


LIMIT = (
    "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
    "accounting/QOS policy (job submit limit, user's size and/or time limits)\n"
)


def test_a_refused_run_stays_waiting_although_somebody_asks_for_its_status(site: Site) -> None:
    planned = site.plan(matrix={"mbs": [1]})
    site.slurm.answer("sbatch", instead=True, code=1, err="sbatch: error: Batch job submission failed: No such job\n")
    with pytest.raises(MachineError):
        api.run_study(planned, concurrency=1)
    (refused,) = find_runs()
    row = api.status_of(api.observe([refused])[0])
    assert (row["state"], row["ended"]) == ("launch_failed", True)
    assert not (refused.path / "ending.json").exists()
    # Earlier versions stored one.
    refused.write_json("ending.json", {"schema_version": 1, "ending": "launch_failed", "evidence": []})
    site.slurm.answer("sbatch")
    api.run_study(planned, concurrency=1)
    assert [point.state.value for point in api.study_result(planned).points] == ["completed"]


def test_a_limit_on_jobs_is_waited_for_with_the_same_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, looks = site.plan(), []
    pause = studies._pause

    def room_at_the_third(*args: Any) -> None:
        looks.append(args)
        if len(looks) == 3:
            site.slurm.answer("sbatch")
        pause(*args)

    site.slurm.answer("sbatch", instead=True, code=1, err=LIMIT)
    monkeypatch.setattr(studies, "_pause", room_at_the_third)
    api.run_study(planned, concurrency=2)
    assert api.study_result(planned).complete
    assert len(site.jobs()) == len(find_runs()) == 3


def test_an_outage_while_submitting_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, lines = site.plan(), []
    site.slurm.answer(
        "sbatch",
        instead=True,
        code=1,
        err="sbatch: error: Batch job submission failed: Unable to contact slurm controller\n",
    )
    pause = studies._pause

    def back_again(*args: Any) -> None:
        if not site.jobs():
            site.slurm.answer("sbatch")
        pause(*args)

    monkeypatch.setattr(studies, "_pause", back_again)
    api.run_study(planned, concurrency=4, tell=lines.append)
    assert api.study_result(planned).complete
    assert len(site.jobs()) == 3
    assert any("looked for in the queue" in line for line in lines)


def test_runs_of_the_same_specification_are_reused_only_where_asked(site: Site) -> None:
    api.run_study(site.plan(), concurrency=4)
    other = site.plan(matrix={"mbs": [2, 4]}, runs=[{**RUN, "framework": "megatron-core"}])
    api.run_study(other, concurrency=4, reuse=True)
    assert len(site.jobs()) == 3
    assert api.study_result(other).complete
    third = site.plan(matrix={"mbs": [2]}, runs=[{**RUN, "gpu": "CPU"}])
    api.run_study(third, concurrency=4)
    assert len(site.jobs()) == 4


def test_one_study_has_one_launcher(site: Site) -> None:
    planned = site.plan()
    with StudyDir("mine").locked(), pytest.raises(UserError, match="another process launches these runs"):
        api.run_study(planned, concurrency=2)
    assert site.jobs() == []


def test_a_plan_that_another_process_runs_is_called_no_study(site: Site) -> None:
    path = site.folder / "plan.yaml"
    path.write_text(
        json.dumps({"description": "mine", "runs": [{"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 2}]})
    )
    planned = api.plan_acceptance(str(path), "slurm-cpu")
    with StudyDir(planned.study.expanded.name).locked():
        refused = CliRunner().invoke(group, ["plan", str(path), "--cluster", "slurm-cpu"])
    assert isinstance(refused.exception, UserError)
    assert "another process launches these runs" in refused.exception.message
    assert "study" not in refused.exception.message.replace(".study", "")
    assert site.jobs() == []


def test_a_query_launches_and_writes_nothing(site: Site) -> None:
    planned = site.plan()
    assert not api.study_result(planned).complete
    assert not (site.folder / "runs").exists()


def test_a_report_with_other_options_than_the_launch_says_so(site: Site) -> None:
    planned = site.plan()
    api.run_study(planned, concurrency=4)
    file = str(site.folder / "mine.yaml")
    command = ["study", file, "--cluster", "slurm-cpu", "--report"]
    other = CliRunner().invoke(group, [*command, "--set", "training.steps=13"])
    assert "3 runs of this study have other options" in other.stderr
    assert "other options" not in CliRunner().invoke(group, command).stderr
