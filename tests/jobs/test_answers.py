"""Answers of Slurm that a healthy cluster does not give: no job is lost, none of another is touched, no guess stays."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FakeSlurm

from benchrun import api, console, paths
from benchrun.cli import group
from benchrun.errors import MachineError, SchedulerUnavailable
from benchrun.jobs import slurm as slurm_module
from benchrun.jobs.endings import End, Ending
from benchrun.jobs.launcher import cancel, observe
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.artifacts import Progress
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir

DONE = {"schema_version": 1, "exit_code": 0, "signal": None, "restarts": 0, "job_id": "7", "host": "n1"}
LONG_AGO = "2026-01-01T00:00:00Z"


def long_ago(run: RunDir) -> None:
    """Let all that is recorded have been long ago."""
    lines = [json.loads(line) for line in (run.path / "events.jsonl").read_text().splitlines()]
    (run.path / "events.jsonl").write_text("".join(json.dumps({**line, "time": LONG_AGO}) + "\n" for line in lines))
    for log in run.logs:
        os.utime(log, (1, 1))


def steps(run: RunDir, count: int = 20) -> None:
    lines = (
        f" iteration {n:8}/      20 | consumed samples: {n * 8:12} | elapsed time per iteration (ms): 100.0 | "
        f"learning rate: 1.0E-03 | global batch size:     8 | lm loss: 5.0E+00 |\n"
        for n in range(1, count + 1)
    )
    (run.path / "stdout.log").write_text("".join(lines))


def end(run: RunDir) -> End:
    """How a run ended, after all that may lag has come."""
    observe([run])
    long_ago(run)
    observation = observe([run])[0]
    assert observation.over, observation
    return api.record_end(observation)


def benchrun(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str | int | None, Any]:
    """The exit code of a command, and what it printed."""
    with pytest.raises(SystemExit) as ended:
        console.run(group, "benchrun", list(arguments))
    return ended.value.code, capsys.readouterr()


def submit() -> RunDir:
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, None, "slurm-cpu", ()))
    return api.start(spec, paths.runs_dir())


@pytest.mark.parametrize("job", ["7", None])
def test_a_guess_is_not_stored_and_dropped_when_the_job_is_seen_again(
    slurm: FakeSlurm, make: Callable[..., Any], job: str | None
) -> None:
    run = make(job)
    guess = end(run)
    assert (guess.ending, guess.final) == (Ending.LOST if job else Ending.LAUNCH_FAILED, False)
    assert not (run.path / "ending.json").exists()
    slurm.queue(run)
    assert observe([run])[0].job.state == "RUNNING"
    assert cancel(run)
    assert slurm.calls("scancel") == ["scancel 7"]


def test_a_lost_run_that_an_earlier_version_wrote_down_is_asked_for_again(
    slurm: FakeSlurm, make: Callable[..., Any]
) -> None:
    run = make()
    run.write_json("ending.json", {"schema_version": 1, "ending": "lost", "evidence": [], "exit_code": None})
    slurm.queue(run)
    assert not observe([run])[0].over


def test_cancel_asks_the_scheduler_and_not_the_ending(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    run.write_json("ending.json", {"schema_version": 1, "ending": "failed", "evidence": [], "exit_code": 1})
    assert not cancel(run)
    slurm.queue(run)
    assert cancel(run)


def test_a_pending_job_that_cancel_stopped_is_cancelled_where_nobody_remembers_it(
    slurm: FakeSlurm, make: Callable[..., Any]
) -> None:
    run = make()
    slurm.queue(run, state="PENDING", nodes="")
    assert cancel(run)
    slurm.answer("squeue", out="")
    slurm.answer("sacct", err="Slurm accounting storage is disabled", code=1)
    assert (end(run).ending, end(run).final) == (Ending.CANCELLED, True)
    assert [event["event"] for event in run.events()].count("ended") == 1


def test_cancel_records_the_job_of_a_submission_without_an_answer(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make(job=None)
    slurm.queue(run, job="77")
    assert cancel(run)
    assert run.job_id == "77"


def test_a_job_that_only_late_accounting_lists_was_not_cancelled(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    (run.path / "stdout.log").touch()
    slurm.account(run)
    slurm.answer("scancel", err="scancel: error: Kill job error: Invalid job id specified", code=1)
    assert not cancel(run)
    slurm.account(run, state="CANCELLED")
    assert end(run).ending is Ending.SCHEDULER_FAILURE


def test_the_job_of_a_folder_that_was_moved_is_the_runs(
    slurm: FakeSlurm, make: Callable[..., Any], tmp_path: Path
) -> None:
    run = make()
    slurm.queue(run, dir=str(tmp_path / "before" / run.run_id))
    assert observe([run])[0].job.state == "RUNNING"
    assert cancel(run)
    (tmp_path / "before" / run.run_id).mkdir(parents=True)  # a copy: the job is that of the other folder
    slurm.account(run, dir=str(tmp_path / "before" / run.run_id), state="COMPLETED")
    assert observe([run])[0].job.state == "UNKNOWN"


@pytest.mark.parametrize(("state", "over"), [("COMPLETED", True), ("FAILED", True), ("PREEMPTED", False)])
def test_a_job_that_completes_has_ended_where_accounting_and_its_own_file_say_so(
    slurm: FakeSlurm, make: Callable[..., Any], state: str, over: bool
) -> None:
    """PREEMPTED: it may be requeued."""
    run = make()
    slurm.queue(run, state="COMPLETING")
    slurm.account(run, state=state)
    assert not observe([run])[0].over
    run.write_json("done.json", DONE)
    assert observe([run])[0].over is over


@pytest.mark.parametrize(
    ("state", "nodes", "log", "ending"),
    [
        ("CANCELLED by 0", "n1", "stdout.log", Ending.CANCELLED),
        ("CANCELLED by 0", "None assigned", None, Ending.CANCELLED),
        ("CANCELLED by 0", "n1", "stderr.log", Ending.NODE_FAILURE),  # where a failed prolog is told
        ("CANCELLED", "n1", "stdout.log", Ending.SCHEDULER_FAILURE),
        ("CANCELLED", "None assigned", None, Ending.SCHEDULER_FAILURE),
    ],
)
def test_only_a_person_cancels(
    slurm: FakeSlurm, make: Callable[..., Any], state: str, nodes: str, log: str | None, ending: Ending
) -> None:
    run = make()
    slurm.account(run, state=state, nodes=nodes)
    if log:
        (run.path / log).write_text("a line\n", encoding="utf-8")
    assert end(run).ending is ending
    assert api.status_of(observe([run])[0])["nodes"] == nodes.replace("None assigned", "")


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(
    ("nodes", "start", "ending"),
    [
        ("None assigned", "None", Ending.CANCELLED),
        ("None assigned", "2026-01-01T10:00:00", Ending.CANCELLED),
        ("n1", "2026-01-01T09:59:00", Ending.CANCELLED),
        ("n1", "2026-01-01T08:00:00", Ending.HUNG),
    ],
)
def test_silence_counts_while_the_job_runs_not_while_it_waits(
    slurm: FakeSlurm, make: Callable[..., Any], *, nodes: str, start: str, ending: Ending, watched: bool
) -> None:
    """A log of an earlier life is old; so is what its watchdog saw."""
    run = make()
    steps(run, 4)
    last_line = time.mktime(time.strptime("2026-01-01T09:00:00", "%Y-%m-%dT%H:%M:%S"))
    os.utime(run.path / "stdout.log", (last_line, last_line))
    if watched:
        run.write_json("progress.json", Progress(checked=LONG_AGO, quiet_s=4000, no_step_s=4000).model_dump())
        os.utime(run.path / "progress.json", (last_line, last_line))
    slurm.account(run, state="CANCELLED by 0", code="0:15", nodes=nodes, start=start, end="2026-01-01T10:00:00")
    assert api.record_end(observe([run])[0]).ending is ending


def test_a_job_that_waits_again_is_not_called_silent(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    steps(run, 4)
    os.utime(run.path / "stdout.log", (1, 1))
    slurm.queue(run, state="PENDING", why="Priority", nodes="", start="N/A")
    assert observe([run])[0].note == "Priority"


def test_cancel_does_not_claim_that_a_job_is_gone_which_nobody_knows(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = make(), make("8")
    slurm.answer("squeue", out="\n")
    slurm.account(other, "8")
    code, said = benchrun(capsys, "cancel", run.run_id, other.run_id)
    assert code == 3
    assert "scancel 7" in said.err
    assert slurm.calls("scancel") == ["scancel 8"]


def test_an_empty_queue_is_no_end_of_a_job_that_accounting_calls_running(
    slurm: FakeSlurm, make: Callable[..., Any]
) -> None:
    run = make()
    slurm.queue(run)
    observe([run])
    slurm.answer("squeue", out="")
    slurm.account(run)
    long_ago(run)
    observation = observe([run])[0]
    assert (observation.over, observation.job.state) == (False, "RUNNING")


@pytest.mark.parametrize("hours", [-48, 48])
def test_the_clock_of_this_host_ends_no_run(
    slurm: FakeSlurm, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    run, unknown = make(), make(None)
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + hours * 3600)
    observe([run, unknown])
    assert [observation.over for observation in observe([run, unknown])] == [False, False]
    (run.path / "stdout.log").write_text("a line")
    slurm.queue(run)
    assert observe([run])[0].quiet_s < 60


@pytest.mark.parametrize(
    "text",
    ["7\n", "7;cluster\n", "Welcome to the cluster of 2026!\n\n7\n", "7\nYour project has 3 h left\n", "500\n7;a\n"],
)
def test_the_job_id_is_found_among_the_lines_of_a_wrapper(slurm: FakeSlurm, text: str) -> None:
    slurm.answer("sbatch", out=text)
    assert submit().job_id == "7"


@pytest.mark.parametrize("text", ["", "Submitted batch job 7\n", "7.5\n"])
def test_an_sbatch_that_names_no_job_leaves_one_that_is_found_by_its_directory(slurm: FakeSlurm, text: str) -> None:
    slurm.answer("sbatch", out=text)
    with pytest.raises(SchedulerUnavailable):
        submit()
    (run,) = find_runs(paths.runs_dir())
    observe([run])
    assert run.job_id == "7"


def test_a_wrong_id_leads_to_no_job_of_another(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    """A controller that lost its state gives ids out again, and a wrapper prints other numbers."""
    run, other = make("7"), make("99")
    slurm.queue(other, "7", name=run.run_id)
    slurm.account(other, "7", name=run.run_id, state="FAILED", code="1:0")
    observation = observe([run])[0]
    assert (observation.over, observation.job.state) == (False, "UNKNOWN")
    with pytest.raises(MachineError):
        cancel(run)
    assert not slurm.calls("scancel")
    slurm.queue(run, "12")
    assert (observe([run])[0].job.id, run.job_id) == ("12", "12")


def test_a_job_of_the_same_name_is_not_the_runs(slurm: FakeSlurm, make: Callable[..., Any], tmp_path: Path) -> None:
    run = make(None)
    slurm.queue(run, "7", dir=str(tmp_path / "elsewhere" / run.run_id))
    slurm.queue(run, "8", uid=os.getuid() + 1)
    slurm.account(run, "9", dir=str(tmp_path / "elsewhere" / run.run_id))
    assert observe([run])[0].job is None
    assert not cancel(run)
    assert not slurm.calls("scancel")
    slurm.queue(run, "10")
    assert observe([run])[0].job.id == "10"


def test_a_directory_of_two_names_is_one(slurm: FakeSlurm, make: Callable[..., Any], tmp_path: Path) -> None:
    run = make()
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    slurm.queue(run, dir=str(tmp_path / "link" / run.run_id))
    assert observe([run])[0].job.state == "RUNNING"


def test_a_forgotten_id_hides_no_job_of_another_user(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    old, theirs = make("5"), make("7")
    slurm.queue(theirs, uid=os.getuid() + 1)
    assert observe([old, theirs])[1].job.state == "RUNNING"


def test_nothing_is_written_into_the_run_of_another_user(
    slurm: FakeSlurm, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make()
    steps(run)
    slurm.queue(run, state="COMPLETED")
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    stranger = os.getuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    assert api.record_end(observe([run])[0]).ending is Ending.COMPLETED
    api.store_measurement(api.measure_run(run))
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


LOST = [
    "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
    "sbatch: error: Batch job submission failed: Connection reset by peer",
    "sbatch: error: Batch job submission failed: Unexpected missing socket error",
    "sbatch: error: Batch job submission failed: Communication connection failure",
    "sbatch: error: Batch job submission failed: Message receive failure",
    "sbatch: error: Batch job submission failed: Protocol authentication error",
    "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    "sbatch: error: Batch job submission failed: Transport endpoint is not connected",
    "sbatch: error: Batch job submission failed: Broken pipe",
    "sbatch: error: Batch job submission failed: Kernel reported delayed socket error after successful write()",
    "sbatch-wrapper: the submission host went away",
    "",
]


@pytest.mark.parametrize("text", LOST)
def test_an_answer_that_was_lost_is_no_refusal(slurm: FakeSlurm, text: str) -> None:
    slurm.answer("sbatch", err=text, code=1)
    with pytest.raises(SchedulerUnavailable) as error:
        submit()
    assert error.value.exit_code == 3
    (run,) = find_runs(paths.runs_dir())
    assert observe([run])[0].job.state == "RUNNING"
    assert cancel(run)


@pytest.mark.parametrize("bad", ["unrecognized option '--segment=8'", "error: Invalid --mem specification"])
def test_an_option_that_sbatch_cannot_read_is_a_refusal(slurm: FakeSlurm, bad: str) -> None:
    slurm.answer("sbatch", err=f'sbatch: {bad}\nTry "sbatch --help" for more information\n', code=1, instead=True)
    with pytest.raises(MachineError) as error:
        submit()
    assert not isinstance(error.value, SchedulerUnavailable)


@pytest.mark.parametrize(
    "text",
    [
        "Invalid partition name specified",
        "Requested node configuration is not available",
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "Invalid account or account/partition combination specified",
        "Unspecified error",
        "Requested time limit is invalid (missing or exceeds some limit)",
    ],
)
def test_what_slurm_decided_is_a_refusal(slurm: FakeSlurm, text: str) -> None:
    words = f"sbatch: error: a message of the network team\nsbatch: error: Batch job submission failed: {text}"
    slurm.answer("sbatch", err=words, code=1, instead=True)
    with pytest.raises(MachineError) as error:
        submit()
    assert not isinstance(error.value, SchedulerUnavailable)
    (run,) = find_runs(paths.runs_dir())
    refused = api.record_end(observe([run])[0])
    assert (refused.ending, refused.final) == (Ending.LAUNCH_FAILED, True)
    assert not (run.path / "ending.json").exists()  # a plan submits another one, whoever looks meanwhile


def test_a_log_that_lags_behind_is_not_incomplete_for_ever(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    slurm.queue(run, state="COMPLETED")
    run.write_json("done.json", DONE)
    steps(run, 19)
    first = api.record_end(observe([run])[0])
    assert (first.ending, first.final) == (Ending.INCOMPLETE, False)
    steps(run)
    assert api.record_end(observe([run])[0]).ending is Ending.COMPLETED


def test_a_launcher_that_waits_reads_the_lines_that_come_after_the_end(
    slurm: FakeSlurm, make: Callable[..., Any]
) -> None:
    run = make()
    slurm.queue(run, state="COMPLETED")
    run.write_json("done.json", DONE)
    steps(run, 19)
    looks = []

    def progress(observation: Any, rows: Any) -> None:
        looks.append(observation.over)
        if len(looks) == 2:
            steps(run)

    assert api.record_end(api.wait(run, progress)).ending is Ending.COMPLETED
    assert looks[0] is True


def test_a_log_that_stays_short_is_incomplete_in_the_end(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    slurm.queue(run, state="COMPLETED")
    steps(run, 19)
    assert (end(run).ending, end(run).final) == (Ending.INCOMPLETE, True)
    assert json.loads((run.path / "ending.json").read_text())["ending"] == "incomplete"


def test_the_nodes_are_described_when_they_arrive_late(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    slurm.queue(run, state="COMPLETED")
    steps(run)
    assert api.record_end(observe([run])[0]).ending is Ending.COMPLETED
    (run.path / "probe").mkdir()
    (run.path / "probe" / "n1.json").write_text('{"host": "n1"}')
    api.record_end(observe([run])[0])
    assert run.read_json("env.json")["nodes"] == [{"host": "n1"}]
    assert (run.path / "ending.json").exists()


def test_accounting_that_hangs_costs_one_wait_and_hides_no_end(
    slurm: FakeSlurm, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_module, "ACCOUNTING_TIMEOUT_S", 0.5)
    slurm.answer("sacct", sleep=5)
    runs = [make("7"), make("8"), make(None)]
    for run, job in zip(runs, ("7", "8", "9"), strict=True):
        steps(run)
        run.write_json("done.json", {**DONE, "job_id": job})
    running = make("10")
    ends = [api.record_end(observation).ending for observation in observe([*runs, running])[:3]]
    assert ends == [Ending.COMPLETED] * 3
    assert len(slurm.calls("sacct")) == 1
    long_ago(running)
    assert not observe([running])[0].over  # nobody could be asked, so nobody can say that it is lost
