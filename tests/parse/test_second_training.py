"""Two trainings in one file: a job's output appended to another's is no restart, and gives no number together."""

import lzma
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchrun.frameworks.logs import Reader, parse_log
from benchrun.logs import Log
from benchrun.measure.summary import summarise
from tests.generated.draw import draw
from tests.generated.write import log as written

LOGS = Path(__file__).parent.parent / "logs"
COMPLETE = ["07", "10", "12", "13", "14", "17", "18", "19", "23"]
OTHERS = [("07", "10"), ("10", "07"), ("12", "13"), ("13", "12"), ("05", "23"), ("23", "05"), ("18", "19")]


def text(number: str) -> bytes:
    (file,) = LOGS.glob(f"{number}-*.xz")
    data = lzma.decompress(file.read_bytes())
    return data if data.endswith(b"\n") else data + b"\n"


def numbers(log: Log) -> list[object]:
    return [(row.step, row.step_time_s, row.loss, row.segment) for row in log.steps]


def both(tmp_path: Path, first: bytes, second: bytes) -> Log:
    (tmp_path / "both.log").write_bytes(first + second)
    return parse_log(tmp_path / "both.log")


def alone(tmp_path: Path, data: bytes) -> Log:
    (tmp_path / "alone.log").write_bytes(data)
    return parse_log(tmp_path / "alone.log")


def second_training(log: Log) -> list[int | None]:
    return [problem.line for problem in log.problems if problem.kind == "second_training"]


@pytest.mark.parametrize("number", COMPLETE)
def test_a_job_that_begins_after_the_planned_end_is_another_training(tmp_path: Path, number: str) -> None:
    data = text(number)
    log, summary = both(tmp_path, data, data), summarise(alone(tmp_path, data))
    (line,) = second_training(log)
    assert line is not None
    assert line > data.count(b"\n")
    assert numbers(log) == numbers(alone(tmp_path, data))
    fatal = summarise(log).fatal
    assert fatal is not None
    assert fatal.kind == "second_training"
    assert summarise(log).step_time_s == summary.step_time_s


@pytest.mark.parametrize(("first", "second"), OTHERS, ids="+".join)
def test_another_jobs_output_is_not_added_to_the_first(tmp_path: Path, first: str, second: str) -> None:
    log = both(tmp_path, text(first), text(second))
    assert second_training(log)
    assert numbers(log) == numbers(alone(tmp_path, text(second)))


def megatron(first: int, last: int, *, planned: int = 40, batch: int = 64, time_s: float = 2.0) -> bytes:
    arguments = f"  global_batch_size ............................... {batch}\n"
    lines = (
        f" iteration {step}/ {planned} | elapsed time per iteration (ms): {1000 * time_s + step % 3} |"
        f" lm loss: {3 - step / 100 + time_s / 1000:.4f} |\n"
        for step in range(first, last + 1)
    )
    return (arguments + "".join(lines)).encode()


def test_a_restart_from_a_checkpoint_is_the_same_training(tmp_path: Path) -> None:
    for again in (megatron(21, 40, time_s=3), megatron(1, 40, time_s=3)):
        log = both(tmp_path, megatron(1, 30), again)
        assert second_training(log) == []
        assert (log.segments, len(log.distinct)) == (2, 40)
    finished = both(tmp_path, megatron(1, 40), megatron(31, 40, time_s=3))
    assert (second_training(finished), finished.segments) == ([], 2)


@pytest.mark.parametrize("first", [2, 5, 15, 30, 37])
@pytest.mark.parametrize("loss", [1.002, 1.3, 0.5])
def test_the_tail_of_another_training_is_no_restart(tmp_path: Path, first: int, loss: float) -> None:
    tail = (
        f" iteration {step}/ 40 | elapsed time per iteration (ms): 2500.0 | lm loss: {loss * (3 - step / 100):.4f} |\n"
        for step in range(first, 41)
    )
    log = both(tmp_path, megatron(1, 40), "".join(tail).encode())
    assert second_training(log) == [42]
    assert [row.step for row in log.steps] == [*range(first, 41)]


def test_a_restart_with_other_arguments_is_another_training(tmp_path: Path) -> None:
    log = both(tmp_path, megatron(1, 30), megatron(21, 40, batch=128))
    assert len(second_training(log)) == 1
    assert (log.facts.gbs, [row.step for row in log.steps][::19], log.segments) == (128, [21, 40], 1)


def test_an_unfinished_second_training_ends_early(tmp_path: Path) -> None:
    log = both(tmp_path, megatron(1, 40), megatron(1, 10, time_s=3))
    assert {"second_training", "early_end"} <= {problem.kind for problem in log.problems}
    assert [round(row.step_time_s or 0) for row in log.steps] == [3] * 10


@pytest.mark.parametrize("size", [100, 2000, 1 << 20])
def test_how_the_bytes_come_changes_nothing(size: int) -> None:
    data = megatron(1, 40) + megatron(1, 40, time_s=3) + megatron(1, 40, batch=32)
    reading = Reader()
    for at in range(0, len(data), size):
        reading.feed(data[at : at + size])
    reading.end()
    log = reading.log("x")
    assert (second_training(log), numbers(log)[0][:2], len(log.steps)) == ([84], (1, 2.001), 40)


def test_arguments_at_the_end_of_a_block_of_many_steps_begin_another_training() -> None:
    first, second = megatron(1, 4000, planned=8000), megatron(3001, 8000, planned=8000, batch=128)
    arguments, _, steps = second.partition(b"\n")
    reading = Reader()
    for block in (first, arguments + b"\n", steps):
        reading.feed(block)
    reading.end()
    log = reading.log("x")
    assert (len(second_training(log)), len(log.steps), log.steps[0].step) == (1, 5000, 3001)


def torchtitan(first: int, last: int, *, completed: bool = True, time_s: float = 2.0) -> bytes:
    """A job of torchtitan that prints no number of planned steps."""
    words = "[rank0]:[titan] 2026-05-12 09:50:16,023 - root - INFO - "
    lines = ["Starting job: Llama 3 8B training", f"Training starts at step {first}."]
    lines += [
        f"step: {step:2d}  loss: {12 - step / 10 + time_s / 1000:.5f}  memory: 20.66GiB(65.88%)"
        f"  tps: {1000 / time_s + step:.0f}  tflops: 4.70  mfu: 0.48%"
        for step in range(first, last + 1)
    ]
    lines += ["Training completed"] if completed else []
    return "".join(f"{words}{line}\n" for line in lines).encode()


def test_torchtitan_says_where_a_training_ends_and_another_begins(tmp_path: Path) -> None:
    log = both(tmp_path, torchtitan(1, 40), torchtitan(1, 30, time_s=3))
    assert second_training(log) == [46]
    assert numbers(log) == numbers(alone(tmp_path, torchtitan(1, 30, time_s=3)))
    for first, again in (
        (torchtitan(1, 20, completed=False), torchtitan(1, 40, time_s=3)),
        (torchtitan(1, 20), torchtitan(21, 40, time_s=3)),
    ):
        log = both(tmp_path, first, again)
        assert (second_training(log), len(log.distinct)) == ([], 40)


def test_a_training_that_goes_on_for_longer_is_one(tmp_path: Path) -> None:
    """A job is submitted again with more steps: its arguments are the same but for their number."""
    done = b"[after training is done]\n"
    arguments = f"  train_iters {36 * '.'} {{}}\n"
    first = arguments.format(40).encode() + megatron(1, 40) + done
    log = both(tmp_path, first, arguments.format(80).encode() + megatron(41, 80, planned=80) + done)
    assert (second_training(log), len(log.distinct), log.planned_steps) == ([], 80, 80)
    assert summarise(log).complete
    dead = both(tmp_path, first, arguments.format(80).encode() + megatron(41, 70, planned=80))
    assert (second_training(dead), summarise(dead).complete) == ([], False)
    again = both(tmp_path, first, arguments.format(80).encode() + megatron(1, 80, planned=80) + done)
    assert second_training(again)


def test_a_second_run_of_mlperf_is_another_training(tmp_path: Path) -> None:
    for form in ("mllog-v3", "mllog-v4"):
        truth = draw(Random(4), form, "plain", scenario="sound")
        data = written(replace(truth, restart=None))
        assert second_training(both(tmp_path, data, data))
        assert second_training(alone(tmp_path, data)) == []


def trainer(seconds: int) -> bytes:
    """24 steps of a Trainer's bars and dictionaries, with a summary whose rate has too few digits to count them."""
    lines = []
    for step in range(1, 25):
        clock = f"{step * seconds // 60:02}:{step * seconds % 60:02}"
        bar = f"{100 * step // 24:3}%|          | {step}/24 [{clock}<00:00, {seconds}.00s/it]"
        lines.append(f"{bar}{{'loss': {13 - step / 10 - seconds / 1e3:.4f}, 'epoch': {step / 24:.4f}}}")
    summary = {"train_runtime": 24.0 * seconds, "train_steps_per_second": round(1 / seconds, 3), "epoch": 1.0}
    return "\n".join([*lines, f"{summary}", ""]).encode()


def test_a_trainer_that_states_no_steps_ends_where_its_bars_do(tmp_path: Path) -> None:
    log = both(tmp_path, trainer(85), trainer(170))
    assert len(second_training(log)) == 1
    assert {row.step_time_s for row in log.steps} - {None} == {170.0}
