"""A program's own last words decide whether a run reached its planned end."""

import json
import lzma
from pathlib import Path

import pytest
from test_causes import STEPS, frames, summary

from benchrun import api
from benchrun.frameworks.logs import Reader, Tail, last_rows, parse_log, parse_logs
from benchrun.logs.profiled import measured_steps
from benchrun.measure.samples import COLUMNS
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.profile import PROFILES
from benchrun.usecases.jobs import _progress


def mllog(key: str, **metadata: object) -> str:
    return ":::MLLOG " + json.dumps({"time_ms": 5000, "key": key, "value": None, "metadata": metadata})


TIMINGS = [
    ":::MLLOG "
    + json.dumps({"time_ms": 5000 * n, "key": "tracked_stats", "value": {"train_step_time": 0.5, "train_loss": 4 - n},
                  "metadata": {"step": 10 * n}})
    for n in range(1, 4)
]  # fmt: skip
LATE = ["Exception in thread Thread-9 (_loop):", *frames(2), "ConnectionResetError: [Errno 104] Connection reset"]


@pytest.mark.parametrize(
    ("status", "after", "fatal"),
    [("success", [], None), ("success", LATE, None), ("aborted", [], "early_end"), ("aborted", LATE, "rank_crash")],
)
def test_the_last_words_of_mlperf_decide_the_ending(
    tmp_path: Path, status: str, after: list[str], fatal: str | None
) -> None:
    found = summary(tmp_path, [mllog("init_start"), *TIMINGS, mllog("run_stop", status=status), *after])
    assert (found.fatal and found.fatal.kind) == fatal


UNKNOWN = ["[n1:0:42 - context.c:601] ERROR sharp_create_job failed: No Aggregation Manager detected(-52)"]


@pytest.mark.parametrize(
    ("before", "after"),
    [(UNKNOWN, []), ([], UNKNOWN), ([], LATE), ([], ["srun: error: n1: task 3: Segmentation fault (core dumped)"])],
)
def test_errors_of_an_unknown_program_that_says_it_is_done_are_no_cause(
    tmp_path: Path, before: list[str], after: list[str]
) -> None:
    done, broken = (
        summary(tmp_path, [*before, mllog("run_stop", status=status), *after]) for status in ("success", "aborted")
    )
    assert (done.fatal, broken.fatal is None) == (None, False)
    assert "finished" not in {each.kind for each in done.problems}


def test_a_run_of_mlperf_that_began_and_did_not_stop_is_unfinished(tmp_path: Path) -> None:
    lines = [mllog("init_start"), mllog("run_start"), *TIMINGS]
    cut, whole = summary(tmp_path, lines), summary(tmp_path, [*lines, mllog("run_stop", status="success")])
    assert (cut.complete, cut.fatal and cut.fatal.kind) == (False, "early_end")
    assert whole.fatal is None


@pytest.mark.parametrize(
    ("words", "complete"), [([], False), (["[after training is done] datetime: 2026-01-05"], True)]
)
def test_a_run_that_says_it_is_done_is_complete(tmp_path: Path, words: list[str], complete: bool) -> None:
    lines = [step.replace("/      50", "/       9") for step in STEPS]
    found = summary(tmp_path, [*lines, *words])
    assert (found.complete, found.fatal is None) == (complete, complete)


@pytest.mark.parametrize(
    ("words", "complete"),
    [
        ("exiting program at iteration 50 datetime: 2026-11-01 11:00:00", True),
        ("exiting program after 20.1 minutes datetime: 2026-11-01 11:00:00", True),
        ("exiting program after receiving SIGTERM.", False),
    ],
)
def test_an_end_that_the_options_order_is_one(tmp_path: Path, words: str, complete: bool) -> None:
    lines = [step.replace("/      50", "/   50000") for step in STEPS]
    found = summary(tmp_path, [*lines, words])
    assert (found.complete, found.fatal is None) == (complete, complete)
    if complete:
        assert found.planned_steps == found.last_step
        went_on = summary(tmp_path, [*lines, words, *lines])
        assert (went_on.complete, went_on.planned_steps) == (False, 50000)


def torchtitan(last: int, *words: str) -> list[str]:
    """Steps up to ``last`` of 40, every other one printed, and the last ``words``."""
    head = "[rank0]:[titan] 2026-05-05 11:07:15,162 - root - INFO - "
    batch = "local batch size 1, global batch size 8, gradient accumulation steps 1, sequence length 4096"
    step = "step: {0:2}  loss:  4.0{0}  memory: 9.00GiB(9.00%)  tps: 4,4{0:02}  tflops: 26.87  mfu: 1.0%"
    rows = [step.format(number) for number in range(2, last + 1, 2)]
    lines = [f"Trainer is initialized with {batch}, total steps 40 (warmup 2)", "Training starts at step 1"]
    return [head + line for line in (*lines, *rows, *words)]


@pytest.mark.parametrize(
    ("last", "words", "complete"),
    [
        (20, [], False),
        (20, ["Training completed"], None),  # its data end there
        (40, [], None),
        (40, ["Training completed"], None),
    ],
)
def test_torchtitan_that_breaks_off_did_not_reach_its_total(
    tmp_path: Path, last: int, words: list[str], complete: bool | None
) -> None:
    found = summary(tmp_path, torchtitan(last, *words))
    early = any(problem.kind == "early_end" for problem in found.problems)
    assert (found.complete, early) == (complete, complete is False)
    assert (found.last_step, found.planned_steps) == (last, 40 if early else None)


def test_what_a_teardown_raises_after_torchtitan_has_completed_is_late(tmp_path: Path) -> None:
    found = summary(tmp_path, torchtitan(40, "Training completed", *LATE))
    assert found.fatal is None


# Steps that a job profiled after the measured ones are in its log and in no number.

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
    assert last_rows(run.path / "stdout.log").last_step == 13
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
