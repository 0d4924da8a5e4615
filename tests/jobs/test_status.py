"""Following and asking about a log of any size costs little: what is read, and how much memory, is counted."""

import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_local import tiny

from benchrun import api
from benchrun.cli.runs import status
from benchrun.frameworks.logs import Tail, last_rows
from benchrun.jobs.create import create
from benchrun.jobs.launcher import Observation, backoff
from benchrun.jobs.scheduler import Job, Phase
from benchrun.logs import files, reader
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.artifacts import ENDING, METRICS, STDOUT, Progress
from benchrun.rundir.folder import RunDir
from benchrun.usecases import jobs

MIB = 1 << 20
STEP = "iteration %8d/    9999 | consumed samples: 8 | elapsed time per iteration (ms): 5.0 | lm loss: 1.0E+00 |\n"
NOISE = b"".join(b"rank %4d: a word of no consequence, as ranks have them by the thousand\n" % n for n in range(15000))
NOISE = NOISE[: MIB - 1] + b"\n"


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 4 MiB are read at a place, an eighth of what a user's log gets."""
    monkeypatch.setattr(files, "LOOKS", (MIB, 4 * MIB))


def grow(path: Path, mebibytes: int) -> None:
    """About so many of noise."""
    with path.open("ab") as file:
        for _ in range(mebibytes):
            file.write(NOISE)


@pytest.fixture
def peak() -> Iterator[Callable[..., Any]]:
    """The most memory that was taken since the test began, in MiB."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """How many bytes were read of files called *.log, in MiB."""
    read = [0]

    class Counting(io.FileIO):
        def readinto(self, buffer: Any) -> Any:
            got = super().readinto(buffer)
            read[0] += got
            return got

    real = Path.open

    def opened(self: Path, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if self.suffix == ".log" and mode == "rb":
            return io.BufferedReader(Counting(self, "r"))
        return real(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", opened)
    return lambda: read[0] / MIB


def test_polls_come_slower_and_never_overflow() -> None:
    waits = [backoff(polls) for polls in (0, 1, 5, 12, 13, 2706, 10**9)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (1.0, 30.0)


def test_noise_while_waiting_costs_no_memory(tmp_path: Path, peak: Callable[..., Any]) -> None:
    path = tmp_path / "stdout.log"
    path.write_text(STEP % 1)
    tail = Tail(path)
    assert [row.step for row in tail.read()] == [1]
    grow(path, 50)
    assert tail.read() == []
    with path.open("a") as file:
        file.write(STEP % 2)
    assert [row.step for row in tail.read()] == [2]
    assert peak() < 20


def test_each_byte_is_read_once(tmp_path: Path, counted: Callable[..., Any]) -> None:
    path = tmp_path / "stdout.log"
    tail = Tail(path)
    for _ in range(4):
        grow(path, 5)
        tail.read()
        tail.read()
    assert 19 < counted() < 21


def test_waiting_makes_no_log_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its problems are looked for in every row, over and over."""
    run = create(tmp_path, tiny(), render(tiny()))
    phases = iter([Phase.RUNNING] * 4 + [Phase.ENDED])

    def seen(_: Any) -> Any:
        phase = next(phases)
        with (run.path / "stdout.log").open("a") as file:
            file.write(STEP % 1)
        return [Observation(run, Job("1", phase, phase.value), over=phase is Phase.ENDED)]

    monkeypatch.setattr(jobs, "observe", seen)
    monkeypatch.setattr(jobs, "backoff", lambda _: 0.0)
    monkeypatch.setattr(reader, "step_problems", lambda *_, **__: pytest.fail("a whole log was made"))
    api.wait(run, lambda *_: None)


@pytest.mark.parametrize(("before", "after", "near"), [(2, 0, 0), (1, 20, 0), (13, 13, 13 * MIB)])
def test_the_last_step_is_found_without_reading_everything(
    tmp_path: Path, counted: Callable[..., Any], peak: Callable[..., Any], before: int, after: int, near: int
) -> None:
    """At the end; at the start, before much noise; in the middle, where a watchdog saw it."""
    path = tmp_path / "stdout.log"
    grow(path, before)
    with path.open("a") as file:
        file.write(STEP % 41 + STEP % 42)
    grow(path, after)
    assert last_rows(path, near).last_step == 42
    assert counted() < 10
    assert peak() < 20


def test_a_step_beyond_what_is_read_is_not_guessed(tmp_path: Path, counted: Callable[..., Any]) -> None:
    path = tmp_path / "stdout.log"
    grow(path, 13)
    with path.open("a") as file:
        file.write(STEP % 42)
    grow(path, 13)
    assert last_rows(path).last_step is None
    assert counted() < 10


def test_the_line_in_which_reading_begins_is_no_step(tmp_path: Path) -> None:
    """Its head is missing: the step could be another one's."""
    path = tmp_path / "stdout.log"
    start = STEP % 1234
    path.write_text(start + STEP % 7 + "x" * (MIB - len(STEP % 7) - len(start) + 20) + "\n")
    assert path.stat().st_size - MIB < len(start)
    assert last_rows(path).last_step == 7


def asked(capsys: pytest.CaptureFixture[str], run: RunDir) -> dict[str, Any]:
    status([str(run.path), "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)[0]


def test_status_of_a_running_job_reads_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], counted: Callable[..., Any]
) -> None:
    run = create(tmp_path, tiny(), render(tiny()))
    path = run.path / "stdout.log"
    grow(path, 9)
    with path.open("a") as file:
        file.write(STEP % 13)
    at = path.stat().st_size - 100
    grow(path, 13)
    seen = Observation(run, Job("1", Phase.RUNNING, "RUNNING"), over=False)
    monkeypatch.setattr(api, "observe", lambda runs: [seen])
    assert asked(capsys, run)["last_step"] is None
    watched = Progress(checked="2026-11-22T00:00:00Z", quiet_s=1, no_step_s=9, step_file="stdout.log", step_offset=at)
    run.write_json("progress.json", watched.model_dump())
    assert asked(capsys, run)["last_step"] == 13
    assert counted() < 2 * 10


def test_the_log_of_an_ended_run_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], counted: Callable[..., Any]
) -> None:
    run = create(tmp_path, tiny(), render(tiny()))
    path = run.path / "stdout.log"
    grow(path, 5)
    with path.open("a") as file:
        file.write(STEP % 20)
    run.append_event("submitted", job=str(run.path))
    ended = Observation(run, Job("1", Phase.ENDED, "COMPLETED", 0), over=True, settled=True)
    assert api.record_end(ended).last_step == 20
    read = counted()
    assert (run.read_json("ending.json") or {})["last_step"] == 20
    row = asked(capsys, run)
    assert (row["state"], row["last_step"]) == ("completed", 20)
    assert counted() == read


def test_an_ending_of_an_older_version_still_tells_its_last_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path, tiny(), render(tiny()))
    (run.path / "stdout.log").write_text(STEP % 17)
    old = {"schema_version": 1, "ending": "failed", "evidence": ["scheduler: FAILED"], "exit_code": 1}
    run.write_json("ending.json", old)
    row = asked(capsys, run)
    assert (row["state"], row["last_step"], row["exit_code"]) == ("failed", 17, 1)


# The step time that ``benchrun status`` shows: measured, or of the last steps where nothing measured the run.

STEPS = 12


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run with twelve planned steps of 2 s, and three profiled ones of 9 s after them."""
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=(f"training.steps={STEPS}",)))
    made = create(tmp_path, spec, render(spec))
    rows = [
        f" iteration {n:8d}/{STEPS:8d} | elapsed time per iteration (ms): {2000.0 if n <= STEPS else 9000.0}"
        f" | global batch size: {spec.gbs:5d} | lm loss: {9 - n / 10:.6E} |"
        for n in range(1, STEPS + 4)
    ]
    (made.path / STDOUT).write_text("\n".join([*rows, ""]))
    return made


def shown(run: RunDir, state: str) -> float | None:
    job = Job("1", Phase.ENDED, state, 0)
    api.record_end(Observation(run, job, over=True, settled=True))
    recorded = run.read_json(ENDING)
    assert recorded is not None
    assert (recorded["ending"], recorded["last_step"]) == (state.lower(), STEPS + 3)
    (observation,) = api.observe([run])
    time = api.status_of(observation)["step_time_s"]
    assert time is None or isinstance(time, float)
    return time


def test_a_completed_run_that_nobody_judged_has_the_time_of_its_last_planned_steps(run: RunDir) -> None:
    assert shown(run, "COMPLETED") == pytest.approx(2.0)


def test_a_measured_run_has_the_measured_time(run: RunDir) -> None:
    run.write_json(METRICS, {"step_time_s": {"median": 2.5}})
    assert shown(run, "COMPLETED") == 2.5


def test_a_failed_run_has_none(run: RunDir) -> None:
    assert shown(run, "FAILED") is None
