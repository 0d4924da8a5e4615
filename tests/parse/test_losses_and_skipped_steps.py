"""Steps without an update are counted by whatever counts them: a share above a tenth is no training."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rollouts import summary

from benchrun.frameworks.logs import Reader
from benchrun.logs import Log
from benchrun.measure.summary import summarise

COUNT = "[2026-05-01 10:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step={0}, skipped={1}, lr=[2e-05]\n"
TIMER = (
    "[2026-05-01 10:00:00,001] [INFO] [timer.py:260:stop] epoch=0/micro_step={0}/global_step={0}, "
    "RunningAvgSamplesPerSec=9.5, CurrSamplesPerSec=9.1,\n"
)
MEGATRON = (
    " iteration {0:8d}/     400 | elapsed time per iteration (ms): 1000.0 | lm loss: {1:.6E} |"
    " number of skipped iterations: {2:3d} | number of nan iterations:   0 |\n"
)


def log_of(text: str) -> Log:
    reading = Reader()
    reading.feed(text.encode())
    reading.end()
    return reading.log("x")


def fatal(text: str) -> str | None:
    found = summarise(log_of(text)).fatal
    return found.kind if found else None


@settings(deadline=None, max_examples=60)
@given(
    skipped=st.sets(st.integers(1, 40), max_size=8),
    before=st.sampled_from([(0, 0), (1000, 0), (1000, 300)]),
    ranks=st.sampled_from([1, 2]),
)
def test_a_count_that_rises_in_more_than_a_tenth_of_the_steps(
    skipped: set[int], before: tuple[int, int], ranks: int
) -> None:
    lines, (made, count) = [], before
    for step in range(1, 41):
        count += step in skipped
        lines += [COUNT.format(made + step, count)] * ranks
        lines.append(TIMER.format(made + step))
    seen = len(skipped - {1}) if made else len(skipped)  # before a resume nobody saw the count
    assert log_of("".join(lines)).skip_messages == seen
    if seen > 1:
        assert fatal("".join(lines)) == ("skipped_steps" if seen > 4 else None)


def test_a_restart_counts_from_its_checkpoint() -> None:
    counts = [(step, step // 4) for step in (*range(1, 31), *range(21, 41))]
    text = "".join(COUNT.format(*each) + TIMER.format(each[0]) for each in counts)
    assert log_of(text).skip_messages == 30 // 4 + 40 // 4 - 21 // 4


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 10), min_size=40, max_size=40))
def test_the_count_of_a_row_is_of_all_its_steps(counts: list[int]) -> None:
    rows = enumerate(counts, 1)
    text = "".join(MEGATRON.format(10 * n, 9 - n / 10, each) for n, each in rows)
    assert fatal(text) == ("skipped_steps" if sum(counts) > 40 else None)


# A loss that a step of post-training states as null or None is not a number; a step without one may be sound.

CONFIG = 'benchrun config: {"recipe": "tiny-grpo", "planned_steps": 20, "versions": {"trl": "1.16.0"}}\n'


def without_losses(form: str, word: str, steps: range) -> str:
    """Twenty steps; those of ``steps`` state ``word`` in place of their loss."""
    lines = []
    for step in range(1, 21):
        loss = word if step in steps else f"{0.01 * step:.2f}"
        if form == "trl":
            loss = "null" if loss == "None" else loss
            row = f'{{"step": {step}, "step_time_s": 1.{step:02}, "policy_loss": {loss}}}'
            lines.append(f"benchrun step: {row}\n")
        elif form == "verl":
            lines.append(f"step:{step} - actor/pg_loss:{loss} - timing_s/gen:0.500 - timing_s/step:1.{step:02}0\n")
        else:
            values = f"{{'policy_loss': {loss}, 'timing/step_total': 1.{step:02}}}"
            lines.append(f"Global step {step}: {values}\n")
    return "".join([CONFIG if form == "trl" else "", *lines])


@pytest.mark.parametrize("form", ["trl", "verl", "openrlhf"])
@pytest.mark.parametrize("steps", [range(3, 21), range(1, 21)], ids=["most", "all"])
def test_a_loss_that_is_none_is_not_a_number(form: str, steps: range, tmp_path: Path) -> None:
    found = summary(tmp_path, without_losses(form, "None", steps))
    assert (found.num_steps, found.fatal and found.fatal.kind) == (20, "nan_loss")


@pytest.mark.parametrize("form", ["trl", "verl", "openrlhf"])
def test_a_sound_loss_is_none_in_no_step(form: str, tmp_path: Path) -> None:
    assert summary(tmp_path, without_losses(form, "None", range(0))).fatal is None


def test_steps_that_train_the_critic_alone_have_no_loss_of_the_policy(tmp_path: Path) -> None:
    text = without_losses("verl", "None", range(1, 9)).replace(" - actor/pg_loss:None", "")
    found = summary(tmp_path, text)
    assert (found.num_steps, found.fatal, found.problems) == (20, None, ())


@pytest.mark.parametrize("time", ["-12190.3", "12,190.3", "1e99"])
@pytest.mark.parametrize(("readable", "kind"), [(3, "unreadable_rows"), (12, None)])
def test_a_log_most_of_whose_times_cannot_be_read_has_no_number(time: str, readable: int, kind: str | None) -> None:
    rows = []
    for number in range(1, 21):
        ms = "12190.3" if number <= readable else time
        rows.append(
            f" iteration {number:8d}/      20 | consumed samples: {128 * number:12d}"
            f" | elapsed time per iteration (ms): {ms} | global batch size:   128"
            f" | lm loss: {9 - number / 10:.6E} | number of nan iterations:   0 |"
        )
    assert fatal("\n".join([*rows, "[after training is done] datetime: 2026-03-01 10:10:20", ""])) == kind
