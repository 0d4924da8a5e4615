"""Real logs give what a careful person reads out of them; damaged ones the same, or less, never another number."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchrun.metrics.summary import summarise
from benchrun.parse import Tail, parse_log

LOGS = Path(__file__).parent.parent / "logs"
EXPECTED = list(csv.DictReader((LOGS / "expected.csv").open()))
LONG = LOGS / "06-megatron-core-2026-srun-label-1gpu.log"


def number(text):
    return float(text) if text else None


@pytest.mark.parametrize("row", EXPECTED, ids=[row["file"] for row in EXPECTED])
def test_the_log_gives_the_expected_values(row):
    summary = summarise(parse_log(LOGS / row["file"]), warmup=int(row["warmup_rows_dropped"]))
    assert summary.num_steps == int(row["num_iterations"])
    assert (summary.first_step, summary.last_step) == (int(row["first_step"]), int(row["last_step"]))
    assert summary.step_time_s.mean == pytest.approx(number(row["mean_step_s"]), rel=0.005)
    assert summary.step_time_s.median == pytest.approx(number(row["median_step_s"]), rel=0.005)
    for ours, column in (
        (summary.tokens_per_s_per_gpu.median, "median_tokens_s_gpu"),
        (summary.tflops_per_gpu_reported.median, "median_tflops_gpu"),
        (summary.seq_length, "seq_length"),
        (summary.global_batch_size, "global_batch_size"),
        (summary.num_gpus, "gpus"),
    ):
        if row[column]:
            assert ours == pytest.approx(number(row[column]), rel=0.005), column


def damaged(tmp_path, change):
    path = tmp_path / "damaged.log"
    path.write_bytes(change(LONG.read_bytes()))
    return parse_log(path)


WHOLE = {step.step: step.step_time_s for step in parse_log(LONG).distinct}


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.replace(b"\n", b"\r\n"),
        lambda log: log.replace(b" | ", b" |\x1b[32m "),
        lambda log: log.replace(b"\n", b"\n\x00\x00"),
        lambda log: b"".join(line + line for line in log.splitlines(keepends=True)),
        lambda log: log.replace(b"\n", b"\n\xff\xfe not text | iteration of what? \n"),
        lambda log: b"".join(b"[rank3]: 12: " + line for line in log.splitlines(keepends=True)),
        lambda log: log.replace(b"\n", b"\n validation loss at iteration 100 | lm loss value: 4.8 | elapsed |\n"),
        lambda log: b"x" * 10_000_000 + b"\n" + log,
    ],
    ids=["crlf", "ansi", "nul", "twice", "noise", "prefixes", "validation", "long-line"],
)
def test_noise_changes_nothing(tmp_path, change):
    found = {step.step: step.step_time_s for step in damaged(tmp_path, change).distinct}
    assert found == WHOLE


@pytest.mark.parametrize("keep", [100_000, 150_001, 180_777])
def test_a_cut_log_gives_only_whole_rows(tmp_path, keep):
    log = damaged(tmp_path, lambda log: log[:keep])
    found = {step.step: step.step_time_s for step in log.distinct}
    assert found
    assert found.items() <= WHOLE.items()
    assert not summarise(log).complete


def test_dropped_rows_are_noticed(tmp_path):
    log = damaged(tmp_path, lambda log: b"".join(x for x in log.splitlines(keepends=True) if b" 200/ " not in x))
    assert summarise(log).num_steps == len(WHOLE) - 1
    assert [(p.kind, p.detail) for p in log.problems] == [("missing_steps", "no row between step 199 and 201")]


def test_a_restart_is_a_new_segment_and_its_rows_win(tmp_path):
    lines = [x for x in LONG.read_bytes().splitlines(keepends=True) if b"elapsed time" in x][:20]
    again = [x.replace(b"(ms): 3", b"(ms): 9") for x in lines[10:]]
    path = tmp_path / "restarted.log"
    path.write_bytes(b"".join([*lines[:15], *again]))
    log = parse_log(path)
    assert log.segments == 2
    assert [step.segment for step in log.distinct] == [0] * 10 + [1] * 10
    assert all(step.step_time_s > 9 for step in log.distinct[10:])


def test_a_nan_is_a_problem(tmp_path):
    log = damaged(tmp_path, lambda log: log.replace(b"nan iterations:   0", b"nan iterations:   1", 1))
    assert [problem.kind for problem in log.problems] == ["nan_loss"]


def test_an_empty_log_has_no_step(tmp_path):
    (tmp_path / "empty.log").write_bytes(b"")
    summary = summarise(parse_log(tmp_path / "empty.log"))
    assert (summary.num_steps, summary.step_time_s, summary.complete) == (0, None, False)


def test_a_growing_log_is_read_once(tmp_path):
    path = tmp_path / "grows.log"
    tail = Tail(path)
    assert tail.read() == []
    lines = [x for x in LONG.read_bytes().splitlines(keepends=True) if b"elapsed time" in x][:3]
    path.write_bytes(lines[0] + lines[1][:50])
    assert [step.step for step in tail.read()] == [1]
    with path.open("ab") as file:
        file.write(lines[1][50:] + lines[2])
    assert [step.step for step in tail.read()] == [2, 3]
    assert tail.read() == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "cuda_oom"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "host_oom"),
        ("slurmstepd-n1: error: StepId=25.1 exceeded memory limit (229720064 > 104857600), being killed", "host_oom"),
        ("[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)", "nccl_timeout"),
        ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970", "nccl_error"),
        ("NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid"),
        ("pyxis: failed to import docker image", "image_missing"),
        ("[ERROR] No such file or directory: /images/nemo.sqsh", "image_missing"),
        ("FATAL:   could not open image /images/nemo.sif: no such file", "image_missing"),
        ("ch-run[5396]: error: can't stat: /none/such: No such file or directory (ch_core.c:255 2)", "image_missing"),
        ("srun: error: n1: task 1: Exited with exit code 7", "rank_crash"),
        ("Traceback (most recent call last):", "rank_crash"),
        ("srun: error: Unable to create step for job 12: Invalid generic resource", "launch_failed"),
    ],
)
def test_what_went_wrong_is_recognised(tmp_path, text, kind):
    path = tmp_path / "x.log"
    path.write_text(f"one\n{text}\n")
    assert [(p.kind, p.line) for p in parse_log(path).problems] == [(kind, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'x.json'",
        "the memory limit of this node is 80 GB",
        "NCCL version 2.27.3+cuda12.9",
    ],
)
def test_what_only_sounds_wrong_is_not(tmp_path, text):
    path = tmp_path / "x.log"
    path.write_text(f"{text}\n")
    assert parse_log(path).problems == ()
