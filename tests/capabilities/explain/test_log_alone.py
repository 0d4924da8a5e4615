"""A log alone is explained by what it states, and what it does not state can be given."""

import csv
import json
import lzma
from pathlib import Path
from typing import Any

import kept_runs
import pytest
from test_explain_cli import call, document, has_fault

from benchrun.capabilities.explain.log_evidence import saves_async

LOGS = Path(__file__).parents[2] / "logs"
ROWS = list(csv.DictReader((LOGS / "expected.csv").open()))
RATES_ALONE = "20-"
"""A log that prints tokens/s, no times and no batch."""
NEITHER = "24-"
TIMED = [row for row in ROWS if not row["file"].startswith((RATES_ALONE, NEITHER))]
PIPELINE = LOGS / "19-torchtitan-pp4-500it.log.xz"
ONE_GPU = LOGS / "07-megatron-core-2026-15it-seq8192.log.xz"


def missing(found: dict[str, Any], word: str) -> list[str]:
    return [line for line in found["missing"] if word in line]


@pytest.mark.parametrize("row", TIMED, ids=lambda row: row["file"])
def test_every_log_with_times_is_explained(row: dict[str, str]) -> None:
    code, out, err = call("explain", LOGS / row["file"], "--json")
    found = json.loads(out)
    unfinished = missing(found, "unfinished")
    assert code == ((0 if unfinished else int(row["parse_exit_code"])) or has_fault(found)), err
    assert sum(part["seconds"] for part in found["waterfall"]) == pytest.approx(found["step_time_s"], rel=1e-4)
    assert min(part["seconds"] for part in found["waterfall"]) >= 0
    assert all(cause["evidence"] and cause["advice"] for cause in found["causes"])
    assert missing(found, "--gpu") or missing(found, "--recipe")
    assert not missing(found, "training.breakdown")  # of a job that somebody else launched


def test_the_bubble_follows_from_the_layout_and_the_batch_alone() -> None:
    """Of a pipeline of 4 ranks with 2 stages each and 4 micro-batches."""
    found = document("explain", PIPELINE)
    assert found["causes"][0]["cause"] == "bubble"
    assert found["causes"][0]["seconds"] / found["step_time_s"] == pytest.approx(0.375 / 1.375, rel=0.02)


def test_rates_alone_give_times_with_the_batch() -> None:
    (log,) = LOGS.glob(f"{RATES_ALONE}*")
    code, out, err = call("explain", log)
    assert (code, out) == (2, "")
    assert log.name in err and "--seq-length" in err and "--gbs" in err
    code, out, _ = call("explain", log, "--seq-length", 2048, "--gbs", 64, "--num-gpus", 8, "--json")
    assert code in (0, 4)
    assert json.loads(out)["step_time_s"] > 0


def test_steps_without_times_and_rates_give_no_number() -> None:
    (log,) = LOGS.glob(f"{NEITHER}*")
    code, out, err = call("explain", log, "--seq-length", 2048, "--gbs", 64, "--num-gpus", 8)
    assert (code, out, "its measured steps have no time" in err) == (4, "", True)


def test_the_work_at_the_peak_follows_from_the_gpu() -> None:
    found = document("explain", ONE_GPU, "--gpu", "H100")
    parts = {part["part"]: part["seconds"] for part in found["waterfall"]}
    work = parts["matmul at the GPU's peak"] + parts["attention at the GPU's peak"]
    mfu = json.loads(call("parse", ONE_GPU, "--gpu", "H100", "--json")[1])["mfu"][0]["causal"]
    assert work / found["step_time_s"] == pytest.approx(mfu, rel=0.02)
    assert not missing(found, "--gpu")
    faster = document("explain", ONE_GPU, "--gpu", "B200")
    at_peak = next(part["seconds"] for part in faster["waterfall"] if part["part"] == "matmul at the GPU's peak")
    assert at_peak == pytest.approx(parts["matmul at the GPU's peak"] * 989.4 / 2250, rel=0.02)


def test_an_option_that_the_log_contradicts_is_an_error() -> None:
    assert call("explain", ONE_GPU, "--num-gpus", 8)[0] == 2
    assert call("explain", ONE_GPU, "--recipe", "llama3.1-405b")[0] == 2


def test_a_pipeline_in_the_log_has_its_bubble() -> None:
    found = json.loads(call("explain", LOGS / "10-megatron-deepspeed-2026-ansi-8gpu.log.xz", "--json")[1])
    assert (found["causes"][0]["cause"], found["causes"][0]["kind"]) == ("bubble", "choice")
    assert found["causes"][0]["seconds"] == pytest.approx(found["step_time_s"] / 2, rel=0.01)


def test_whole_seconds_of_a_clock_are_no_jitter() -> None:
    found = document("explain", LOGS / "23-hf-trainer-msswift-30it.log.xz")
    assert "jitter" not in [cause["cause"] for cause in found["causes"]]


def test_pauses_of_a_bare_log_are_named(tmp_path: Path) -> None:
    text = lzma.decompress(ONE_GPU.read_bytes()).decode()
    log = tmp_path / "slow.log"
    slow = "elapsed time per iteration (ms): 13"
    lines = [
        line.replace(slow, slow.replace("13", "53"), 1) if any(f" {n}/" in line for n in (9, 12)) else line
        for line in text.splitlines()
    ]
    log.write_text("\n".join(lines) + "\n")
    causes = document("explain", log)["causes"]
    assert (causes[0]["cause"], causes[0]["kind"]) == ("jitter", "fault")  # the only checkpoint follows the last step
    saved = next(index for index, line in enumerate(lines) if "       9/" in line)
    log.write_text("\n".join([*lines[:saved], "Saving checkpoint at iteration 8", *lines[saved:]]) + "\n")
    causes = document("explain", log)["causes"]
    assert (causes[0]["cause"], causes[0]["kind"]) == ("checkpoint", "fault")
    assert not [cause for cause in document("explain", ONE_GPU)["causes"] if cause["kind"] == "fault"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  scheduled an async checkpoint save at iteration      10 to /checkpoints", True),
        ("[NeMo I 2025-03-07 22:46:55 model_checkpoint:497] Scheduled async checkpoint save for /checkpoints", True),
        ("0:   async_save ...................................... True", True),
        ("  async_save: true", True),
        ("I0317 09:59:16.237252 pyconfig.py:413] Config param async_checkpointing: True", True),
        ('  "async_mode": "async_with_pinned_mem",', True),
        ("0:   async_save ...................................... False", False),
        ("Config param async_checkpointing: False", False),
        ('async_mode = "disabled"', False),
        ("[titan] 2026-04-21 - root - INFO - Saving the checkpoint (or staging if async is enabled).", False),
        ("WARNING: MCore's async save is deprecated and will be removed", False),
    ],
)
def test_a_log_states_that_checkpoints_are_written_asynchronously(tmp_path: Path, line: str, expected: bool) -> None:
    (tmp_path / "train.log").write_text(f"start\n{line}\nend\n")
    assert saves_async(tmp_path / "train.log") is expected


def test_the_log_of_a_kept_run_says_the_same_of_its_work() -> None:
    run = kept_runs.named("llama3.1-8b-e65e456c-*")[0]
    own, bare = (
        {part["part"]: part["seconds"] for part in document("explain", each)["waterfall"]}
        for each in (run, run / "stdout.log.xz")
    )
    for name in ("matmul at the GPU's peak", "attention at the GPU's peak"):
        assert bare[name] == pytest.approx(own[name], rel=0.01)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--against", "RUN"), "diff"),
        (("--gpu", "H999"), "H999"),
        (("--recipe", "no-such"), "no-such"),
        (("--trace", "TRACE"), "the trace is not of"),
    ],
)
def test_what_does_not_fit_a_log_is_refused(words: tuple[str, str], expected: str) -> None:
    run = str(kept_runs.named("llama3.1-8b-e65e456c-*")[0])
    trace = str(Path(__file__).parents[1] / "traces/traces/h200_llama_tp2_pp2_bf16")
    given = [{"RUN": run, "TRACE": trace}.get(word, word) for word in words]
    code, out, err = call("explain", ONE_GPU, *given)
    assert (code, out, expected in err) == (2, "", True), err


def test_options_of_logs_are_refused_beside_a_run() -> None:
    run = kept_runs.named("llama3.1-8b-e65e456c-*")[0]
    code, out, err = call("explain", run, "--gpu", "H100")
    assert (code, out) == (2, "")
    assert "--gpu" in err and "for a log alone" in err


def test_a_file_without_steps_gives_no_number(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("nothing of a training\n")
    code, out, err = call("explain", log)
    assert (code, out, "train.log" in err) == (4, "", True)
