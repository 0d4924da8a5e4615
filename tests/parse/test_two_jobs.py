"""Two jobs that write into one file at the same time give no number, however their lines are mixed."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchrun.capabilities.explain.verbs import diff
from benchrun.errors import NoNumberError
from benchrun.frameworks.logs import Reader
from benchrun.logs import Log
from benchrun.measure.model import MeanMedian, OtherWindows
from benchrun.measure.summary import summarise

STEPS = 12
Form = Callable[[int, float, float], str]
"""Number of the step, its time in s, its loss -> the lines of one step."""


def megatron(step: int, time_s: float, loss: float) -> str:
    return (
        f" iteration {step:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 * time_s:.1f} |"
        f" global batch size:   128 | lm loss: {loss:.6E} | grad norm: 1.000 |\n"
    )


def maxtext(step: int, time_s: float, loss: float) -> str:
    return (
        f"completed step: {step - 1}, seconds: {time_s:.3f}, TFLOP/s/device: {3000 / time_s:.3f}, "
        f"Tokens/s/device: {131072 / time_s:.3f}, total_weights: 1048576, loss: {loss:.3f}\n"
    )


def torchtitan(step: int, time_s: float, loss: float) -> str:
    return (
        f"[rank0]:[titan] 2026-05-12 09:50:16,023 - root - INFO - step: {step:2d}  loss: {loss:8.5f}  "
        f"grad_norm: 1.0000  memory: 20.66GiB(65.88%)  tps: {131072 / time_s:,.0f}  tflops: 4.70  mfu: 1.00%\n"
    )


def nemo2(step: int, time_s: float, loss: float) -> str:
    return (
        f"Training epoch 0, iteration {step - 1}/{STEPS - 1} | lr: 1e-06 | global_batch_size: 128 | "
        f"global_step: {step - 1} | reduced_train_loss: {loss:.4g} | train_step_timing in s: {time_s:.4g} | "
        f"consumed_samples: {128 * step}\n"
    )


def bars(step: int, time_s: float, loss: float) -> str:
    return (
        f"Epoch 0: : {100 * step // STEPS}%|█████| {step}/{STEPS} [{int(step * time_s) // 60:02d}:"
        f"{int(step * time_s) % 60:02d}<00:10, v_num=a, reduced_train_loss={loss:.3f}, global_step={step - 1}.0, "
        f"consumed_samples={128 * step}.0, train_step_timing in s={time_s:.3f}]\n"
    )


def redrawn(step: int, time_s: float, loss: float) -> str:
    return bars(step, time_s, loss).replace("\n", "\r")


def nanotron(step: int, time_s: float, loss: float) -> str:
    return (
        f"[INFO|DP=0|TP=0|host]: iteration: {step} / {STEPS} | consumed_tokens: {step}M | "
        f"time_per_iteration_ms: {time_s:.3g}K | tokens_per_sec_per_gpu: {131072 / time_s:.3g} | "
        f"global_batch_size: 1M | lm_loss: {loss:.3g} | model_tflops_per_gpu: 15.4 | \n"
    )


def trainer(step: int, time_s: float, loss: float) -> str:
    bar = f" {100 * step // STEPS}%|███| {step}/{STEPS} [{_clock(step * time_s)}<{_clock(99)}, {time_s:.2f}s/it]\r"
    return f"{bar}{{'loss': {loss:.4f}, 'learning_rate': {1e-4 * (STEPS - step)}, 'epoch': {step / STEPS:.4f}}}\n"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def aligner(step: int, time_s: float, loss: float) -> str:
    """NeMo-Aligner's bar, which is drawn twice with one postfix."""
    postfix = f"train_lr=5e-7, train_loss={loss:.3g}, train_consumed_samples={16 * step}, train_step_time={time_s:.4g}"
    bar = "Training steps: {0}%|###   | {1}/{2} [00:20<01:00, {3:.2f}s/it, {4}]\n"
    return "".join(bar.format(8 * number, number, STEPS, time_s, postfix) for number in (step - 1, step))


def deepspeed(step: int, time_s: float, loss: float) -> str:
    """DeepSpeed's timer: samples/s, no loss, and no batch."""
    return f"[timer.py:264:stop] 0/{step}, RunningAvgSamplesPerSec=3.7, CurrSamplesPerSec={128 / time_s}, Mem=1GB\n"


FORMS = [megatron, maxtext, torchtitan, nemo2, bars, nanotron, trainer, aligner]


def job(form: Form, time_s: float, start: float) -> list[str]:
    return [form(step, time_s * (1 + step % 3 / 500), start - step / 20) for step in range(1, STEPS + 1)]


def log_of(lines: list[str]) -> Log:
    reading = Reader()
    reading.feed("".join(lines).encode())
    reading.end()
    return reading.log("x")


def mixed(one: list[str], other: list[str], order: list[bool]) -> list[str]:
    queues, lines = ([*one], [*other]), []
    for choice in order:
        queue = queues[choice] or queues[not choice]
        lines.append(queue.pop(0))
    return lines


each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
quickly = settings(max_examples=30, deadline=None)


def kinds(lines: list[str]) -> set[str]:
    return {problem.kind for problem in log_of(lines).problems}


@each_form
def test_one_job_gives_a_number(form: Form) -> None:
    summary = summarise(log_of(job(form, 12.2, 11.9)))
    assert summary.fatal is None
    assert summary.step_time_s or summary.tokens_per_s_per_gpu.median


@each_form
@quickly
@given(
    choices=st.lists(st.booleans(), min_size=2 * STEPS, max_size=2 * STEPS),
    chunk=st.sampled_from([1, 2, 4]),
    times=st.sampled_from([(12.2, 24.4), (24.4, 12.2), (12.2, 12.3)]),
)
def test_lines_of_two_jobs_in_any_order_give_no_number(
    form: Form, choices: list[bool], chunk: int, times: tuple[float, float]
) -> None:
    one, other = job(form, times[0], 11.9), job(form, times[1], 9.4)
    lines = mixed(one, other, [choice for choice in choices for _ in range(chunk)][: 2 * STEPS])
    assume(lines not in (one + other, other + one))
    assert "two_jobs" in kinds(lines)
    summary = summarise(log_of(lines))
    assert summary.fatal is not None
    assert (summary.step_time_s, summary.tflops_per_gpu, summary.mfu, summary.quantities) == (None, None, (), {})
    rates = summary.tokens_per_s_per_gpu, summary.tflops_per_gpu_reported, summary.mfu_reported
    assert rates == (MeanMedian(), MeanMedian(), MeanMedian())
    assert summary.other_windows == OtherWindows()


def test_a_ratio_to_two_jobs_is_refused_on_stdout(tmp_path: Path) -> None:
    one, other = job(megatron, 12.2, 11.9), job(megatron, 24.4, 9.4)
    (tmp_path / "one.log").write_text("".join(one))
    (tmp_path / "both.log").write_text("".join(mixed(one, other, [False, True] * STEPS)))
    result = CliRunner().invoke(diff, [str(tmp_path / "one.log"), str(tmp_path / "both.log")])
    assert isinstance(result.exception, NoNumberError)
    assert "two_jobs" in result.stdout


@each_form
def test_equal_losses_with_another_clock_are_two_jobs(form: Form) -> None:
    pairs = zip(job(form, 12.2, 11.9), job(form, 24.4, 11.9), strict=True)
    assert "two_jobs" in kinds([line for pair in pairs for line in pair])


@pytest.mark.parametrize("form", [aligner, deepspeed], ids=lambda form: form.__name__)
@pytest.mark.parametrize("order", [[False, True], [False, False, True], [False, True, True]])
def test_jobs_that_take_turns_differ_in_their_clocks_alone(form: Form, order: list[bool]) -> None:
    one, other = job(form, 12.2, 11.9), job(form, 24.4, 11.9)
    assert "two_jobs" in kinds(mixed(one, other, (order * STEPS)[: 2 * STEPS]))
    assert "two_jobs" in kinds(mixed(other, one, (order * STEPS)[: 2 * STEPS]))


def test_bars_of_two_jobs_on_one_line_are_not_windows_of_it() -> None:
    one, other = job(redrawn, 12.2, 11.9), job(redrawn, 24.4, 9.4)
    assert "two_jobs" not in kinds(one)
    assert "two_jobs" in kinds(mixed(one, other, [False, False, True] * (2 * STEPS // 3)))


@pytest.mark.parametrize("times", [(12.2, 12.2), (12.2, 12.7)])
def test_samples_per_s_of_two_ranks_are_those_of_one_job(times: tuple[float, float]) -> None:
    one, other = (job(deepspeed, time_s, 0.0) for time_s in times)
    assert "two_jobs" not in kinds(mixed(one, other, [False, False, True] * (2 * STEPS // 3)))


def test_a_restart_on_slower_machines_is_one_job() -> None:
    one, other = job(deepspeed, 12.2, 0.0), job(deepspeed, 24.4, 0.0)
    assert "two_jobs" not in kinds(one[:8] + other[4:])


@each_form
@quickly
@given(seed=st.integers(0, 1 << 30))
def test_a_line_of_several_ranks_is_one_job(form: Form, seed: int) -> None:
    lines = job(form, 12.2, 11.9)
    rng = random.Random(seed)
    order = sorted([*enumerate(lines)] * 2, key=lambda pair: pair[0] + rng.random() * 1.5)
    assert "two_jobs" not in kinds([line for _, line in order])


@each_form
@pytest.mark.parametrize("late", [[10], [3, 10], [2, 5, 8, 10]], ids=str)
def test_steps_of_which_all_ranks_print_late_are_one_job(form: Form, late: list[int]) -> None:
    """Equal dictionaries of two ranks are one record: then no step seems to be made twice."""
    steps = list(range(STEPS))
    for step in late:
        steps[step - 1 : step + 1] = steps[step], steps[step - 1]
    lines = job(form, 12.2, 11.9)
    assert "two_jobs" not in kinds([lines[step] for step in steps for _ in range(2)])


@each_form
@quickly
@given(stops=st.lists(st.integers(2, STEPS - 1), min_size=1, max_size=3))
def test_restarts_from_a_checkpoint_are_one_job(form: Form, stops: list[int]) -> None:
    lines, job_lines, begin = [], job(form, 12.2, 11.9), 0
    for stop in stops:
        lines += job_lines[begin:stop]
        begin = stop // 4 * 4
    lines += job_lines[min(begin, STEPS - 1) :]
    assert "two_jobs" not in kinds(lines)


@given(st.sampled_from(FORMS), st.integers(1, STEPS), st.integers(0, STEPS))
def test_a_log_with_its_newest_line_first_gives_no_number(form: Form, first: int, restart: int) -> None:
    lines = [line for step in job(form, 2.0, 10.0)[first - 1 :] for line in step.splitlines(keepends=True)]
    assert "newest_first" not in kinds(lines)
    assert "newest_first" not in kinds(lines + lines[restart:])
    if STEPS - first > 2:
        log = log_of([line.replace("\r", "") + "\n" * line.endswith("\r") for line in lines[::-1]])
        assert "newest_first" in {problem.kind for problem in log.problems}
        assert summarise(log).step_time_s is None


def test_lines_that_a_collector_has_newest_first_give_no_number() -> None:
    """Steps without numbers and dates: the collector's times tell."""
    steps = [{"log": f"Step Time : 14.{n}s GPU utilization: 900.0MODEL_TFLOP/s/GPU\n"} for n in range(STEPS)]
    lines = [json.dumps({**step, "time": f"2026-01-05T10:00:{n}Z"}) + "\n" for n, step in enumerate(steps, 10)]
    assert "newest_first" not in kinds(lines)
    assert "newest_first" in kinds(lines[::-1])


@pytest.mark.parametrize("form", [megatron, maxtext, torchtitan, nemo2], ids=lambda form: form.__name__)
@quickly
@given(ratio=st.floats(1.055, 1.09), seed=st.integers(0, 1 << 30))
def test_clocks_that_are_apart_in_all_steps_are_those_of_two_jobs(form: Form, ratio: float, seed: int) -> None:
    rng = random.Random(seed)

    def together(one: list[float], other: list[float]) -> set[str]:
        lines = []
        for step, times in enumerate(zip(one, other, strict=True), 1):
            lines += [form(step, time_s, 9 - step / 20) for time_s in times]
        return kinds(lines)

    assert "two_jobs" in together([12.0 + rng.random() / 20 for _ in range(STEPS)], [12.0 * ratio] * STEPS)
    noise = [[12.0 * (1 + 0.02 * rng.uniform(-1, 1)) for _ in range(STEPS)] for _ in range(2)]
    assert "two_jobs" not in together(*noise)
