"""Real logs give what a careful person reads out of them."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.measure.summary import summarise

LOGS = Path(__file__).parent.parent / "logs"
EXPECTED = list(csv.DictReader((LOGS / "expected.csv").open()))
WHOLE = [row for row in EXPECTED if row["num_iterations"]]
# What `expected.csv` knows from elsewhere: the log itself does not hold it, so it is null.
NOT_IN_THE_LOG = {("04-hf-trainer-deepspeed-2021-64gpu-mbs8.log.xz", "seq_length")}


def named(rows: Any) -> Any:
    return pytest.mark.parametrize("row", rows, ids=[row["file"][:2] for row in rows])


@named(WHOLE)
def test_counts_are_exact(row: dict[str, str]) -> None:
    log = parse_log(LOGS / row["file"])
    summary = summarise(log, warmup=int(row["warmup_rows_dropped"]))
    assert summary.num_steps == int(row["num_iterations"])
    assert (summary.first_step, summary.last_step) == (int(row["first_step"]), int(row["last_step"]))
    for ours, column in (
        (summary.seq_length, "seq_length"),
        (summary.global_batch_size, "global_batch_size"),
        (summary.num_gpus, "gpus"),
    ):
        if row[column] and (row["file"], column) not in NOT_IN_THE_LOG:
            assert ours == int(row[column]), column
    assert all(getattr(summary, column) is None for file, column in NOT_IN_THE_LOG if file == row["file"])


@named(WHOLE)
def test_times_and_rates_are_within_half_a_percent(row: dict[str, str]) -> None:
    summary = summarise(parse_log(LOGS / row["file"]), warmup=int(row["warmup_rows_dropped"]))
    for ours, column in (
        (summary.step_time_s and summary.step_time_s.mean, "mean_step_s"),
        (summary.step_time_s and summary.step_time_s.median, "median_step_s"),
        (summary.tokens_per_s_per_gpu.mean, "mean_tokens_s_gpu"),
        (summary.tokens_per_s_per_gpu.median, "median_tokens_s_gpu"),
        (summary.tflops_per_gpu_reported.mean, "mean_tflops_gpu"),
        (summary.tflops_per_gpu_reported.median, "median_tflops_gpu"),
    ):
        if row[column]:
            assert ours == pytest.approx(float(row[column]), rel=0.005), column


@named(WHOLE)
def test_the_default_window_is_inside_the_log_and_near_the_stated_one(row: dict[str, str]) -> None:
    log = parse_log(LOGS / row["file"])
    by_default = summarise(log)
    assert 0 <= by_default.warmup_rows_dropped <= by_default.num_steps / 2
    if row["median_step_s"] and by_default.num_steps >= 15:
        assert by_default.step_time_s.median == pytest.approx(float(row["median_step_s"]), rel=0.05)


@named(EXPECTED)
def test_the_document_is_json_with_no_number_that_is_none(row: dict[str, str]) -> None:
    document = summarise(parse_log(LOGS / row["file"])).model_dump(mode="json")
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_lines_of_seven_jobs_are_seven_runs() -> None:
    log = parse_log(LOGS / "25-nemo1-tqdm-final-lines.log.xz")
    assert [row.step_time_s for row in log.steps] == [24.0, 12.8, 11.2, 11.1, 5.9, 3.13, 3.59]
    assert log.segments == 7


@pytest.mark.parametrize(
    ("file", "run_time_s"),
    [
        ("04-hf-trainer-deepspeed-2021-64gpu-mbs8", 273.0145),
        ("05-hf-trainer-deepspeed-2021-n4", 919.09365),
        ("23-hf-trainer-msswift-30it", 525.1),
    ],
)
def test_the_run_time_of_many_launchers_is_one(file: str, run_time_s: float) -> None:
    assert summarise(parse_log(LOGS / f"{file}.log.xz")).run_time_s == pytest.approx(run_time_s, rel=1e-6)


def test_two_runs_that_contradict_each_other_give_no_time() -> None:
    summary = summarise(parse_log(LOGS / "24-hf-trainer-ezpz-slides.log.xz"))
    assert (summary.step_time_s, summary.run_time_s, summary.segments) == (None, None, 2)


def test_an_impossible_step_is_left_out_and_named() -> None:
    summary = summarise(parse_log(LOGS / "22-maxtext-demo-tpu-v5p-10it.log.xz"), warmup=0)
    assert [problem.detail[:6] for problem in summary.problems if problem.kind == "impossible_step"] == ["step 1"]
    assert summary.step_time_s.p5 > 5


def test_the_version_and_the_machine_are_read() -> None:
    summary = summarise(parse_log(LOGS / "18-torchtitan-ansi-1gpu-2500it.log.xz"))
    assert (summary.framework, summary.framework_version) == ("torchtitan", "0.2.2")


def test_a_gradient_that_is_no_number_is_named_for_each_step() -> None:
    summary = summarise(parse_log(LOGS / "26-nemo-aligner-2024-sft-128gpu.log.xz"))
    assert len([problem for problem in summary.problems if problem.kind == "nan_grad"]) == 12
    assert (summary.planned_steps, summary.final_loss) == (1876, 1.92)


def test_two_processes_that_print_each_step_are_one_run_with_its_loss() -> None:
    log = parse_log(LOGS / "27-paxml-cpu-2ranks-150it.log.xz")
    assert (log.segments, log.planned_steps) == (1, 150)
    assert [row.step for row in log.steps] == list(range(10, 160, 10))
    assert (log.steps[0].loss, log.steps[-1].loss) == pytest.approx((5.2215, 4.6669), abs=1e-4)


FRAMEWORKS = {
    "megatron-lm": ("01", "02", "03", "06", "07", "08", "09", "10", "17"),
    "megatron-bridge": ("15", "16"),
    "nemo1": ("11", "25"),
    "nemo2": ("12", "13", "14"),
    "torchtitan": ("18", "19", "20", "21"),
    "maxtext": ("22",),
    "hf": ("04", "05", "23", "24"),
    "nemo-aligner-sft": ("26",),
    "paxml": ("27",),
}


@named(EXPECTED)
def test_the_framework_is_found(row: dict[str, str]) -> None:
    assert row["file"][:2] in FRAMEWORKS[parse_log(LOGS / row["file"]).framework]


@named(EXPECTED)
def test_only_logs_that_show_their_last_step_are_complete(row: dict[str, str]) -> None:
    complete = {True: "yes", False: "no", None: "unknown"}
    assert complete[summarise(parse_log(LOGS / row["file"])).complete] == row["complete"]
