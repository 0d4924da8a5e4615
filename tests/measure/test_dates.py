"""The dates that a program prints against the step times that it prints."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import Reader
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise

SETTING = Setting(seq_length=8192, gbs=128, num_gpus=8)
STEPS = 30
START = datetime(2026, 5, 1, 23, 50)
PAUSE = " validation loss at iteration 10 | lm loss value: 2.5 |\n"


def megatron(step: int, date: datetime, time_s: float) -> str:
    clock = f" [{date:%Y-%m-%d %H:%M:%S.%f}]"
    times = f"elapsed time per iteration (ms): {1000 * time_s:.1f}"
    return f"{clock} iteration {step:8d}/{STEPS:8d} | {times} | lm loss: {9 - step / 10:.6E} |\n"


def whole_seconds(step: int, date: datetime, time_s: float) -> str:
    return megatron(step, date, time_s).replace(f".{date:%f}]", "]")


def torchtitan(step: int, date: datetime, time_s: float) -> str:
    clock = f"[rank0]:[titan] {date:%Y-%m-%d %H:%M:%S},{date:%f}"[:-3]
    rate = f"tps: {128 * 8192 / 8 / time_s:,.0f}  tflops: 553.00  mfu: N/A"
    return f"{clock} - root - INFO - step: {step:2}  loss: {9 - step / 10:8.5f}  memory: 60.12GiB(75.90%)  {rate}\n"


def deepspeed(step: int, date: datetime, time_s: float) -> str:
    clock = f"[{date:%Y-%m-%d %H:%M:%S},{date:%f}"[:-3]
    rate = f"RunningAvgSamplesPerSec={128 / time_s}, CurrSamplesPerSec={128 / time_s}"
    clock += "] [INFO] [timer.py:264:stop]"
    return f"{clock} epoch=0/micro_step={step}/global_step={step}, {rate}, MemAllocated=12.5GB\n"


def mllog(step: int, date: datetime, time_s: float) -> str:
    """The number of a step counts tokens."""
    event = {"time_ms": int(1000 * date.timestamp()), "key": "tracked_stats", "value": {"train_step_timing": time_s}}
    return f":::MLLOG {json.dumps({**event, 'metadata': {'step': step * 128 * 8192}})}\n"


def automodel(step: int, date: datetime, time_s: float) -> str:
    rate = 128 * 8192 / time_s
    rates = {"tps": rate, "tps_per_gpu": rate / 8, "mfu": 30.0, "num_tokens_per_step": 128 * 8192}
    clock = date.replace(tzinfo=UTC).isoformat()
    return json.dumps({"step": step, "epoch": 0, "timestamp": clock, "loss": 9 - step / 10, **rates}) + "\n"


def elapsed(date: datetime) -> str:
    whole = int((date - START).total_seconds())
    return f"{whole // 3600:d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def nemo1(step: int, date: datetime, time_s: float) -> str:
    values = f"reduced_train_loss={9 - step / 10:.2f}, train_step_timing in s={time_s:.2f}"
    return f"Epoch 0: :   2%|#         | {step}/{STEPS} [{elapsed(date)}<09:57, v_num=0, {values}]\n"


def aligner(step: int, date: datetime, time_s: float) -> str:
    values = f"train_loss={9 - step / 10:.2f}, train_consumed_samples={128 * step}, train_step_time={time_s:.1f}"
    return f"Training steps:   2%|#         | {step}/{STEPS} [{elapsed(date)}<09:57, 12.20s/it, {values}]\n"


Writer = Callable[[int, datetime, float], str]
WRITERS: tuple[Writer, ...] = (
    *(megatron, whole_seconds, torchtitan, deepspeed),
    *(mllog, automodel, nemo1, aligner),
)


def said(text: str) -> str | None:
    reader = Reader()
    reader.feed(text.encode())
    reader.end()
    fatal = summarise(reader.log("x.log"), given=SETTING).fatal
    return fatal.kind if fatal else None


def log(writer: Writer, time_s: float, gaps: list[float], pauses: frozenset[int] = frozenset()) -> str:
    date, lines = START, []
    for step, gap in enumerate(gaps, start=1):
        date += timedelta(seconds=gap)
        lines.append(PAUSE * (step in pauses) + writer(step, date, time_s))
    return "".join(lines)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(WRITERS),
    st.floats(15, 50),
    st.one_of(st.floats(0.3, 0.6), st.floats(1.45, 10)),
    st.integers(0, 1),
)
def test_dates_that_contradict_the_printed_time_of_nearly_every_row(
    writer: Writer, time_s: float, factor: float, sound: int
) -> None:
    gaps = [time_s * factor * (1 + step % 7 / 1000) for step in range(STEPS)]
    gaps[10 : 10 + sound] = [time_s] * sound
    assert said(log(writer, time_s, gaps)) == "contradictory_dates"


@settings(max_examples=60, deadline=None)
@given(st.floats(8, 20), st.one_of(st.floats(0.5, 0.72), st.floats(1.35, 10)), st.integers(0, 2))
def test_dates_of_whole_seconds_are_as_exact_as_their_whole_stretch(time_s: float, factor: float, stalls: int) -> None:
    """Each gap may be a second off; all gaps together may be."""
    gaps = [time_s * factor] * STEPS
    gaps[10 : 10 + stalls] = [50 * time_s] * stalls
    assert said(log(whole_seconds, time_s, gaps)) == "contradictory_dates"


@settings(max_examples=60, deadline=None)
@given(st.floats(0.3, 15), st.floats(0.85, 1.2), st.floats(1, 3))
def test_dates_of_whole_seconds_near_the_printed_time_contradict_nothing(
    time_s: float, factor: float, every_third: float
) -> None:
    gaps = [time_s * (factor, factor, every_third)[step % 3] for step in range(STEPS)]
    assert said(log(whole_seconds, time_s, gaps)) is None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WRITERS), st.floats(0.3, 50), st.integers(5, 9), st.floats(1, 900))
def test_pauses_slow_starts_and_stalls_contradict_nothing(
    writer: Writer, time_s: float, every: int, pause_s: float
) -> None:
    gaps = [time_s + pause_s * (step % every == 0) for step in range(STEPS)]
    gaps[:3] = [900.0, 60.0, 9 * time_s]
    assert said(log(writer, time_s, gaps)) is None


def test_a_pause_between_all_rows_is_no_part_of_a_step() -> None:
    """Rows of ten steps, with an evaluation after each."""
    gaps, every = [12.2 * 1.6] * STEPS, frozenset(range(1, STEPS + 1))
    assert said(log(megatron, 12.2, gaps)) == "contradictory_dates"
    assert said(log(megatron, 12.2, gaps, every)) is None


@settings(max_examples=60, deadline=None)
@given(st.floats(2, 40), st.floats(8, 300), st.integers(1, 10), st.booleans())
def test_an_evaluation_in_the_times_of_rows(time_s: float, evaluation_s: float, every: int, held: bool) -> None:
    """The timer of the evaluation tells how long it took, and the dates whether a row's time has it."""
    date, text = START, ""
    for step in range(1, STEPS + 1):
        evaluated = evaluation_s * ((step - 1) % every == 0 and step > 1)
        date += timedelta(seconds=time_s + evaluated)
        text += megatron(step, date, time_s + evaluated * held)
        if step % every == 0:
            ms = f"({1000 * evaluation_s:.2f}, {1000 * evaluation_s + 2:.2f})"
            text += f"    evaluate .......................................: {ms}\n{PAUSE}"
    reader = Reader()
    reader.feed(text.encode())
    reader.end()
    found = summarise(reader.log("x.log"), given=SETTING)
    if held and every == 1:
        assert found.fatal.kind == "contradictory_rate"
    else:
        assert found.fatal is None
        assert found.step_time_s.p95 == pytest.approx(time_s, rel=1e-3)


@pytest.mark.parametrize("gaps", [[0.0] * STEPS, [1.0] * STEPS, [0.0, 0.0, 0.0, 0.0, 61.0] * 6])
def test_dates_that_stand_still_count_lines_or_come_in_batches_are_no_clock(gaps: list[float]) -> None:
    assert said(log(megatron, 12.2, gaps)) is None


def test_the_date_of_a_collector_is_no_clock() -> None:
    """A container engine dates a line when it arrives."""
    texts = log(megatron, 12.2, [12.2] * STEPS).splitlines(keepends=True)
    dated = [f"2026-05-01T23:{step:02d}:07.123456789Z stdout F {text}" for step, text in enumerate(texts)]
    undated = [line.replace(line[line.index("[") : line.index("]") + 1], "") for line in dated]
    assert said("".join(dated)) is None
    assert said("".join(undated)) is None
