"""Evaluations and checkpoints of a Trainer are no step time, and bars count where dictionaries are few."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import parse_log
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.recipes.catalogue import training_file

REUSED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SUMMARY = "{'train_runtime': 229.2, 'train_steps_per_second': 0.524, 'epoch': 1.0}\n"


@dataclass(frozen=True)
class Truth:
    """A training from which a log is written."""

    steps: int
    step_s: float
    logging: int
    """A dictionary comes after so many steps."""
    evaluation: int
    """An evaluation comes after so many steps."""
    evaluation_s: float
    saving: int
    draws_evaluation: bool
    fine: bool
    """Each dictionary states the run time."""


def bar(step: int, total: int, clock_s: float) -> str:
    seconds = int(clock_s)
    clock = f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{100 * step // total:3d}%|##  | {step}/{total} [{clock}<1:00:00,  9.9s/it]"


def written(truth: Truth) -> str:
    """The log of a training whose checkpoints take three steps each."""
    lines, clock_s = ["***** Running training *****", f"  Total optimization steps = {truth.steps}"], 0.0
    for step in range(1, truth.steps + 1):
        clock_s += truth.step_s
        lines.append(bar(step, truth.steps, clock_s))
        if step % truth.logging == 0:
            run_time = f", 'train_runtime': {clock_s:.4f}" if truth.fine else ""
            lines.append(f"{{'loss': {9 - step / 100:.4f}, 'grad_norm': 1.5, 'epoch': {step / 900:.4f}{run_time}}}")
        if step % truth.evaluation == 0:
            clock_s += truth.evaluation_s
            if truth.draws_evaluation:
                lines += [bar(batch, 7, truth.evaluation_s * batch / 7) for batch in range(1, 8)]
            lines.append(f"{{'eval_loss': 2.5, 'eval_runtime': {truth.evaluation_s:.4f}, 'epoch': {step / 900:.4f}}}")
        if step % truth.saving == 0:
            clock_s += 3 * truth.step_s
            lines.append("Saving model checkpoint to out/checkpoint-1")
    return "\n".join(lines) + "\n"


TRUTHS = st.builds(
    Truth,
    steps=st.integers(60, 150),
    step_s=st.floats(2, 60),
    logging=st.sampled_from([1, 2, 5, 10, 25, 500]),
    evaluation=st.sampled_from([7, 10, 25]),
    evaluation_s=st.floats(1, 300),
    saving=st.sampled_from([9, 20, 1000]),
    draws_evaluation=st.booleans(),
    fine=st.booleans(),
)


@REUSED
@given(TRUTHS)
def test_the_step_time_is_that_of_the_steps(tmp_path: Path, truth: Truth) -> None:
    path = tmp_path / "x.log"
    path.write_text(written(truth))
    log = parse_log(path)
    found = summarise(log)
    assert log.framework == "hf"
    assert (found.complete, found.fatal) == (True, None)
    assert found.step_time_s.median == pytest.approx(truth.step_s, rel=0.02, abs=0.3)


def test_rows_after_an_evaluation_are_named(tmp_path: Path) -> None:
    truth = Truth(60, 10.0, 10, 20, 45.0, 1000, draws_evaluation=True, fine=False)
    path = tmp_path / "x.log"
    path.write_text(written(truth))
    log = parse_log(path)
    assert log.other_work == {21: "an evaluation", 41: "an evaluation"}
    assert [problem.kind for problem in summarise(log).problems] == ["other_work"]


def test_a_checkpoint_is_named_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(written(Truth(100, 10.2, 5, 1000, 1.0, 45, draws_evaluation=False, fine=True)))
    assert parse_log(path).other_work == {50: "a checkpoint", 95: "a checkpoint"}


def test_bars_alone_are_a_training_where_its_steps_are_stated(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    drawn = "\n".join(bar(step, 352, 290 * step) for step in range(1, 5)) + "\n"
    path.write_text("  Total optimization steps = 352\n" + drawn)
    log = parse_log(path)
    assert (log.framework, log.steps_made, log.planned_steps) == ("hf", 4, 352)
    assert summarise(log).step_time_s.median == 290
    path.write_text(drawn)
    assert parse_log(path).framework == "unknown"


def test_one_dictionary_does_not_hide_the_bars(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    drawn = "\n".join(bar(step, 100, 58 + 2 * step) for step in range(1, 101)) + "\n"
    path.write_text(drawn + "{'loss': 1.9, 'grad_norm': 1.5, 'epoch': 1.0}\n")
    found = summarise(parse_log(path))
    assert (found.step_time_s.median, found.num_steps, found.final_loss) == (2, 100, 1.9)
    assert "missing_loss" not in {problem.kind for problem in found.problems}


@REUSED
@given(step_s=st.floats(10, 90), steps=st.integers(40, 120), jitter=st.sampled_from([0.0, 0.05, 0.4]))
def test_a_clock_of_whole_seconds_gives_the_mean(tmp_path: Path, step_s: float, steps: int, jitter: float) -> None:
    path, clock_s, lines = tmp_path / "x.log", 0.0, []
    for step in range(1, steps + 1):
        clock_s += step_s + jitter * ((7 * step) % 5 - 2) / 2
        lines.append(bar(step, steps, clock_s))
        lines.append(f"{{'loss': {9 - step / 100:.4f}, 'epoch': {step / steps:.4f}}}")
    path.write_text("\n".join(lines) + "\n")
    found = summarise(parse_log(path), given=Setting(gbs=64, seq_length=4096, num_gpus=8))
    assert found.whole_seconds
    assert found.step_time_s.median == pytest.approx(step_s, abs=0.05 + jitter / 2)
    rate = 64 * 4096 / 8 / found.step_time_s.median
    assert found.tokens_per_s_per_gpu.median == pytest.approx(rate, rel=0.005)


def test_a_second_that_is_cut_off_makes_no_step_impossible(tmp_path: Path) -> None:
    """Steps of 1.91 s at 54 % of the peak: those that show 1 s would be above it."""
    path = tmp_path / "x.log"
    path.write_text("\n".join(bar(step, 120, 1.91 * step) for step in range(1, 121)) + "\n" + SUMMARY)
    model = training_file("llama2-13b")[1].model
    given = Setting(gbs=128, seq_length=2048, num_gpus=64, gpu="A100", precision="bf16", model=model)
    found = summarise(parse_log(path), given=given)
    assert found.step_time_s.median == pytest.approx(1.91, rel=0.01)
    assert not [each for each in found.problems if each.kind.startswith("impossible")]


@pytest.mark.parametrize(("steps", "restarted", "coarse"), [(24, 0.0, False), (24, 60.0, True), (2400, 0.0, True)])
def test_the_mean_of_all_steps_is_a_finer_clock(tmp_path: Path, steps: int, restarted: float, coarse: bool) -> None:
    """ms-swift's mean counts where it agrees with the whole seconds, and its four digits tell more than these."""
    path, clock, lines = tmp_path / "swift.log", 20.1, []
    for step in range(1, steps + 1):
        clock += 3.89 + (8.36 if step in (8, 14, 20) else 0.0)
        if step in (8, 14, 20):
            lines.append("{'eval_loss': '9.5', 'eval_runtime': '8.36'}")
        place = f"'global_step/max_steps': '{step}/{steps}', 'elapsed_time': '{round(clock)}s'"
        mean = f"{(clock + restarted) / step:.4g}"
        lines.append(f"{{'loss': '{9 - step / steps:.4g}', {place}, 'train_speed(s/it)': '{mean}'}}")
    path.write_text("\n".join(lines))
    found = summarise(parse_log(path))
    assert found.step_time_s.median == pytest.approx(3.89, rel=0.05 if coarse else 0.004)
    assert ("coarse_clock" in [problem.kind for problem in found.problems]) == coarse


@pytest.mark.parametrize(("batch_s", "drawn"), [(0.1, 1), (0.3, 1), (12.2, 1), (0.3, 20), (0.1, 30)])
def test_an_evaluation_with_as_many_batches_as_steps_is_no_training(tmp_path: Path, batch_s: float, drawn: int) -> None:
    """Quick batches are ``drawn`` now and then, and the last one not at all."""
    steps, lines, clock_s = 100, ["***** Running training *****", "  Total optimization steps = 100"], 0.0
    for step in range(1, steps + 1):
        clock_s += 10.0
        lines.append(bar(step, steps, clock_s))
        if step % 10 == 0:
            lines.append(f"{{'loss': {9 - step / 100:.4f}, 'grad_norm': 1.5, 'epoch': {step / 100:.2f}}}")
            lines += [bar(batch, steps, batch_s * batch) for batch in range(1 + drawn // 20, steps + 1, drawn)]
            lines.append(f"{{'eval_loss': 2.5, 'eval_runtime': {batch_s * steps:.1f}, 'epoch': {step / 100:.2f}}}")
            clock_s += batch_s * steps
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    found = summarise(parse_log(tmp_path / "log"))
    assert (found.complete, found.fatal) == (True, None)
    assert found.step_time_s.median == 10.0
    assert found.segments == 1


@pytest.mark.parametrize(("found", "every"), [(0, 1), (50, 1), (80, 1), (0, 10), (50, 10)])
@pytest.mark.parametrize("stated", [False, True])
def test_the_run_time_of_a_training_whose_first_steps_are_missing_tells_nothing(
    tmp_path: Path, found: int, every: int, stated: bool
) -> None:
    """A checkpoint had them, and the run time is of the others alone; or a cut took them, and it is of all."""
    lines = ["\\\\   /|    Num examples = 12,800 | Num Epochs = 1 | Total steps = 100"] * stated
    for step in range(found + every, 101, every):
        lines.append(f"{{'loss': {9 - step / 100:.4f}, 'grad_norm': 1.5, 'epoch': {step / 100:.2f}}}")
    rate = 100 / (10 * (100 - found))
    lines.append(f"{{'train_runtime': {10 * (100 - found)}.0, 'train_steps_per_second': {rate}, 'epoch': 1.0}}")
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    step_time = summarise(parse_log(tmp_path / "log")).step_time_s
    assert (step_time.median if step_time else None) == (None if found else pytest.approx(10.0))
