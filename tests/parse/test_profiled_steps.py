"""Steps that a job profiled after the measured ones are in its log and in no number."""

import json
import lzma
from pathlib import Path

import pytest

from benchrun import api
from benchrun.frameworks.logs import Reader, Tail, last_step, parse_log, parse_logs
from benchrun.logs.profiled import measured_steps
from benchrun.measure.samples import COLUMNS
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.profile import PROFILES
from benchrun.usecases.jobs import _progress

LOGS = Path(__file__).parents[1] / "logs"
FROM_ZERO = {"12-nemo2-embedding-100it", "13-nemo2-resiliency-20it", "22-maxtext-demo-tpu-v5p-10it"}
CASES = {
    "07-megatron-core-2026-15it-seq8192": 12,
    "08-megatron-core-2026-tiny-nothroughput": 16,
    "12-nemo2-embedding-100it": 96,
    "13-nemo2-resiliency-20it": 15,
    "17-megatron-bridge-gb300-iterlines-bf16": 17,
    "22-maxtext-demo-tpu-v5p-10it": 7,
}
"""Log -> how many of its steps are measured."""


def announced(name: str, steps: int) -> str:
    """The log with the line that a profiled job prints before it trains."""
    text = lzma.decompress((LOGS / f"{name}.log.xz").read_bytes()).decode(errors="surrogateescape")
    return f"a node's banner\n{PROFILES.format(steps)}\n{text}"


def write(folder: Path, name: str, steps: int) -> Path:
    path = folder / "stdout.log"
    path.write_bytes(announced(name, steps).encode(errors="surrogateescape"))
    return path


@pytest.mark.parametrize(("name", "steps"), CASES.items())
def test_rows_after_the_measured_steps_are_left_out(tmp_path: Path, name: str, steps: int) -> None:
    whole, log = parse_log(LOGS / f"{name}.log.xz"), parse_log(write(tmp_path, name, steps))
    first = 0 if name in FROM_ZERO else 1
    assert log.steps.column("step").tolist() == list(range(first, steps + first))
    assert len(whole.steps) > steps
    for column in ("step_time_s", "loss"):
        assert log.steps.column(column).tolist() == whole.steps.column(column)[:steps].tolist()
    assert (log.planned_steps, log.steps_made, log.profiled_after) == (steps, steps, steps)
    assert log.complete(log.planned_steps)
    assert [problem for problem in log.problems if problem.kind == "early_end"] == []


@pytest.mark.parametrize(("name", "steps"), CASES.items())
def test_numbers_are_those_of_a_job_that_made_no_other_steps(tmp_path: Path, name: str, steps: int) -> None:
    summary = summarise(parse_log(write(tmp_path, name, steps)), given=Setting())
    rows = parse_log(LOGS / f"{name}.log.xz").steps
    kept = rows.column("step_time_s")[:steps][summary.warmup_rows_dropped :]
    assert summary.step_time_s.mean == pytest.approx(kept.mean())
    assert (summary.num_steps, summary.profiled_after, summary.complete) == (steps, steps, True)
    if "loss" in rows[steps - 1]._asdict() and rows[steps - 1].loss is not None:
        assert summary.final_loss == pytest.approx(rows[steps - 1].loss)


def test_the_line_counts_whatever_the_chunks_and_in_another_file_of_the_run(tmp_path: Path) -> None:
    name, steps = "07-megatron-core-2026-15it-seq8192", 12
    data = announced(name, steps).encode(errors="surrogateescape")
    for size in (7, 64, 4096):
        reader = Reader()
        reader.begin(None)
        for start in range(0, 1000, size):
            reader.feed(data[start : start + size])
        assert reader.log("x").profiled_after == steps
    run = tmp_path / "run"
    run.mkdir()
    write(run, name, steps)
    (run / "stdout.log").rename(run / "stderr.log")
    (run / "stdout.log").write_text(PROFILES.format(steps) + "\n")
    (run / "spec.json").write_text("{}")
    (log,), left_out = parse_logs(run)
    assert (len(log.steps), left_out) == (steps, [])


def test_a_log_that_grows_ends_with_its_measured_steps(tmp_path: Path) -> None:
    name, steps = "07-megatron-core-2026-15it-seq8192", 12
    tail = Tail(write(tmp_path, name, steps))
    assert [row.step for row in tail.read()] == list(range(1, steps + 1))
    assert tail.log().complete(steps)


def test_another_line_announces_nothing() -> None:
    line = PROFILES.format(50)
    assert measured_steps(line) == 50
    for other in (line[:-1], line.replace("50", "fifty"), line.replace("benchrun: ", ""), PROFILES):
        assert measured_steps(other) is None


def test_the_line_of_a_job_is_the_one_that_is_read(tmp_path: Path) -> None:
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=("profile.tool=kineto", "training.steps=7")))
    printed = [measured_steps(line) for line in render(spec)["job.sh"].splitlines()]
    assert [steps for steps in printed if steps is not None] == [7]


LINE = (
    " [2026-11-22 12:00:{0:02d}] iteration {0:8d}/      13 | consumed samples: {0}"
    " | elapsed time per iteration (ms): {1}"
    " | learning rate: 1.0E-04 | global batch size: 8 | lm loss: 2.{0:02d}E+00 | number of skipped iterations: 0 |\n"
)


ENDED = {"steps": 10, "ended": "2026-11-22T12:00:10Z"}


def run_of(folder: Path, *, ended: bool = False, between: str = "") -> api.RunDir:
    """A finished run: ten measured steps, three profiled ones that took eight times as long.

    With ``ended`` its log states when the measured steps ended, as the worker's does.
    """
    overrides = (
        "gbs=8",
        "profile.tool=nsys",
        "training.steps=10",
        "cluster.scheduler=local",
        "cluster.container.runtime=none",
    )
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8, "megatron-core", "dgx-h100", overrides))
    run = folder / "run"
    (run / "telemetry").mkdir(parents=True)
    (run / "spec.json").write_text(spec.model_dump_json())
    steps = "".join(LINE.format(step, 1000 if step <= 10 else 8000) for step in range(1, 14))
    worker = ('benchrun config: {"versions": {"megatron-core": "0.16.1"}}\n', f"benchrun done: {json.dumps(ENDED)}\n")
    first, last = worker if ended else ("", "")
    (run / "stdout.log").write_text(f"{PROFILES.format(10)}\n{first}{between}{steps}{last}")
    return api.RunDir(run)


def test_a_run_is_measured_without_its_profiled_steps(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    metrics = api.measure_run(run).metrics
    assert (metrics.step_time_s.median, metrics.num_steps, metrics.complete) == (1.0, 10, True)
    assert (metrics.profiled_after, metrics.planned_steps, metrics.fatal) == (10, 10, None)
    assert json.loads(metrics.model_dump_json())["profiled_after"] == 10


def test_a_run_without_its_profile_is_not_complete(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    log = run.path / "stdout.log"
    log.write_text(log.read_text().partition("iteration        9/")[0])
    metrics = api.measure_run(run).metrics
    assert (metrics.complete, metrics.fatal.kind) == (False, "early_end")


def test_the_status_of_a_long_log_counts_no_step_beyond_the_planned_ones(tmp_path: Path) -> None:
    """Only the end of a long log is read, where the line is not."""
    run = run_of(tmp_path, between="a warning of some rank\n" * 60_000)
    assert last_step(run.path / "stdout.log") == 13
    assert _progress(run, run.logs)[0] == 10


@pytest.mark.parametrize("ended", [True, False])
def test_gpus_are_described_only_where_the_end_of_the_measured_steps_is_known(tmp_path: Path, ended: bool) -> None:
    """Otherwise the last sample under load would count as that end, and it is one of a profiled step."""
    run = run_of(tmp_path, ended=ended)
    header = f"time,gpu,{','.join(COLUMNS)},reasons"
    samples = [
        f"2026/11/22 12:00:{second:02d}.000, {gpu}, 1755, 2619, {400 if second <= 10 else 700}, 700, 60, 99, 8192, 0x0"
        for second in range(40)
        for gpu in range(8)
    ]
    (run.path / "telemetry" / "n1.csv").write_text("\n".join([header, *samples]))
    telemetry = api.measure_run(run).metrics.telemetry
    assert (telemetry and (telemetry.power_w, telemetry.ends)) == ((400.0, "log") if ended else None)


def test_a_profile_without_a_trace_is_a_problem_and_no_failure(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert api.measure_run(run).metrics.problems == ()  # without the folder, as a kept run
    (run.path / "profile" / "host").mkdir(parents=True)
    metrics = api.measure_run(run).metrics
    assert ([problem.kind for problem in metrics.problems], metrics.fatal) == (["no_trace"], None)
    (run.path / "profile" / "rank0.nsys-rep").write_text("a report")
    assert api.measure_run(run).metrics.problems == ()
