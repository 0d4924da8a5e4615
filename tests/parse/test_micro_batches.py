"""Bars of micro-batches become steps of the optimizer, with the time of all their micro-batches."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Log


def bar(number: int, step: int, time_s: float) -> str:
    return (
        f"Epoch 0:   0%|          | {number}/9000 [{number // 60}:{number % 60:02d}<5:00:00, v_num=0,"
        f" global_step={step}.000, train_step_timing in s={time_s:.3f}, reduced_train_loss=3.{step % 10}00]"
    )


def parsed(folder: Path, bars: list[str]) -> Log:
    path = folder / "x.log"
    path.write_text("\r".join(bars) + "\n", encoding="utf-8", newline="")
    return parse_log(path)


@settings(max_examples=100, deadline=None)
@given(each=st.integers(2, 40), steps=st.integers(3, 12), late=st.booleans(), more=st.integers(0, 39), data=st.data())
def test_a_step_takes_the_time_of_its_micro_batches(
    each: int, steps: int, late: bool, more: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """``late``: the bar that ends a step shows the next number already."""
    count = each * steps + more % each
    bars = [bar(number, (number - 1 + late) // each, 0.5) for number in range(1, count + 1)]
    if data.draw(st.booleans()):  # a bar in the middle that was not drawn
        del bars[data.draw(st.integers(1, count - 2))]
    log = parsed(tmp_path_factory.mktemp("bars"), bars)
    assert {row.step_time_s for row in log.steps} == {0.5 * each}
    assert log.planned_steps == 9000 // each
    assert steps - 1 <= len(log.steps) <= steps + 1
    assert [row.step for row in log.steps] == list(range(log.steps[0].step, log.steps[0].step + len(log.steps)))


def test_a_bar_of_one_step_stays_a_step(tmp_path: Path) -> None:
    log = parsed(tmp_path, [bar(number, number - 1, 0.5) for number in range(1, 30)])
    assert [row.step for row in log.steps] == list(range(1, 30))
    assert {row.step_time_s for row in log.steps} == {0.5}


def test_an_irregular_number_of_micro_batches_gives_no_time(tmp_path: Path) -> None:
    numbers = [0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3, 4, 4, 4, 4]
    log = parsed(tmp_path, [bar(at, step, 0.5) for at, step in enumerate(numbers, 1)])
    assert {row.step_time_s for row in log.steps} == {None}


@pytest.mark.parametrize("end", ["\r", "\n"])
def test_a_number_drawn_first_with_the_values_of_the_step_before_has_its_own(end: str, tmp_path: Path) -> None:
    times = [16.2, *(0.8 + 0.01 * step for step in range(14))]
    bars = [bar(1, 0, times[0])]
    for number in range(2, 15):
        bars += [bar(number, number - 2, times[number - 2]), bar(number, number - 1, times[number - 1])]
    path = tmp_path / "x.log"
    path.write_text(end.join(bars) + "\n", encoding="utf-8", newline="")
    log = parse_log(path)
    assert [row.step_time_s for row in log.steps] == [round(time, 3) for time in times[:14]]
    assert "two_jobs" not in log.symptoms
