"""`benchrun diff`: intervals hold what they promise, repeats are no difference, and the output says what was done."""

from dataclasses import replace
from itertools import groupby, permutations
from pathlib import Path

import kept_runs
import numpy as np
import pytest
from click.testing import CliRunner
from known import kept, known
from selection import some
from test_explain_cli import call

from benchrun import api
from benchrun.capabilities.explain.sides import sides_of
from benchrun.capabilities.explain.view import difference_text
from benchrun.cli import group
from benchrun.judge.difference import NOTICEABLE, Side, difference, ratio_interval
from benchrun.measure.statistics import Floats, student_95
from benchrun.vocabulary import Exit


def point(path: Path) -> str:
    """What repeats have in common: recipe and hash of the specification."""
    return path.name.rsplit("-", 2)[0]


KEPT = kept_runs.named()
REPEATS = [runs for _, each in groupby(KEPT, point) if len(runs := list(each)) > 1]
A, B = 8.0, 9.0


def drawn(random: np.random.Generator, usual: float, count: int, alike: float = 0.0) -> Floats:
    """Steps with a deviation of 2 %, each as ``alike`` to the one before."""
    noise = np.zeros(count)
    for step in range(count):
        own = random.normal()
        noise[step] = own if step == 0 else alike * noise[step - 1] + (1 - alike**2) ** 0.5 * own
    return usual * np.exp(0.02 * noise)


@pytest.mark.parametrize(("steps", "alike"), [(2, 0.0), (3, 0.0), (5, 0.0), (8, 0.0), (40, 0.0), (200, 0.6)])
def test_nine_of_ten_intervals_hold_the_true_ratio(steps: int, alike: float) -> None:
    random = np.random.default_rng(steps)
    held = 0
    for _ in range(500):
        interval, _ = ratio_interval(drawn(random, A, steps, alike), drawn(random, B, steps, alike))
        assert interval is not None
        held += interval.low <= B / A <= interval.high
    assert held / 500 > 0.92


def test_students_distribution() -> None:
    for freedom, half in ((1, 12.706), (2, 4.303), (3.9, 3.182), (9, 2.262), (120, 1.980)):
        assert student_95(freedom) == pytest.approx(half, abs=6e-4)


def side(times: list[float], tokens: float | None = None, name: str = "a") -> Side:
    return Side(name, np.array(times), tokens, {}, {"matmul": 2.0})


@pytest.mark.parametrize(
    ("times", "code"),
    [
        ([8.032, 8.033, 8.031], Exit.OK),  # 0.4 %, beyond its interval
        ([8.4, 8.41, 8.39], Exit.SLOW),
        ([7.9, 8.4, 8.9], Exit.INCONCLUSIVE),
        ([7.0, 7.01, 7.02], Exit.OK),
        ([9.0], Exit.INCONCLUSIVE),
    ],
)
def test_a_slowdown_is_more_than_the_interval_and_more_than_repeats_differ(times: list[float], code: Exit) -> None:
    assert difference(side([8.0, 8.001, 7.999]), side(times)).exit_code == code


@pytest.mark.parametrize("seconds", [7.0, 8.0, 8.4, 16.0])
@pytest.mark.parametrize("who", ["a", "b"])
def test_a_run_without_a_number_is_neither_slower_nor_as_fast(seconds: float, who: str) -> None:
    sides = [side([8.0, 8.001, 7.999]), side([seconds, seconds + 0.01, seconds - 0.01], name="b")]
    found = [replace(each, unreliable="nan_loss") if each.name == who else each for each in sides]
    assert difference(*found).exit_code == Exit.INCONCLUSIVE


@pytest.mark.parametrize("runs", some(REPEATS, 6), ids=lambda runs: point(runs[0]))
def test_a_repeat_is_no_slowdown(runs: list[Path]) -> None:
    sides = [api.differ([str(a), str(b)])[0] for a, b in permutations(runs, 2)]
    assert Exit.SLOW not in {each.exit_code for each in sides}


def test_parts_for_other_numbers_of_tokens_say_so() -> None:
    found = difference(side([8.0, 8.1, 8.2], tokens=100), side([4.0, 4.1, 4.2], tokens=50, name="b"))
    assert (found.scale, found.ratio) == (2, pytest.approx(8.2 / 8.1))
    text = difference_text(found)
    assert "0.5 times the tokens" in text
    assert "b s x 2" in text
    assert (found.parts[0].a, found.parts[0].b) == (2, 4)
    assert difference(side([8.0, 8.1]), side([4.0, 4.1])).scale == 1


def test_the_text_says_how_the_interval_came_about() -> None:
    runs = [
        str(path) for path in next(runs for runs in REPEATS if runs[0].name.startswith("llama3.1-8b-2c0cb897-"))[:2]
    ]
    result = CliRunner().invoke(group, ["diff", *runs])
    assert result.exit_code == 0
    assert "Student's t" in result.output
    assert f"repeats of one run differ by up to {100 * NOTICEABLE:.0f} %" in result.output


def test_other_models_are_not_comparable() -> None:
    runs = [str(kept_runs.named(f"{name}-*")[0]) for name in ("llama3.1-8b", "mixtral-8x7b")]
    for pair in permutations(runs):
        code, output, _ = call("diff", *pair)
        assert code == Exit.INCONCLUSIVE
        assert "not comparable: the runs do other work, another model" in output
        assert "answer      slower" not in output
        assert "model.vocab_size" in output
    assert api.differ(runs)[0].other_work == ("model",)


def test_another_task_is_not_comparable_and_another_longest_sequence_is() -> None:
    spec = kept().spec
    tuned = known(spec=spec.model_copy(update={"task": "lora"}))
    longer = known(spec=spec.model_copy(update={"model": spec.model.model_copy(update={"max_position_embeddings": 7})}))
    assert difference(*sides_of(known(), tuned)).other_work == ("task",)
    assert difference(*sides_of(known(), longer)).other_work == ()


@pytest.mark.parametrize(("batches", "scale"), [(1, 2), (2, 1)])
def test_other_sequences_are_compared_for_the_same_tokens(batches: int, scale: int) -> None:
    """Also where twice the sequences of half the length have as many tokens."""
    spec = kept().spec
    short = spec.model_copy(update={"seq_length": spec.seq_length // 2, "gbs": spec.gbs * batches})
    found = difference(*sides_of(known(), known(spec=short)))
    assert found.scale == scale
    assert "for the same tokens" in difference_text(found).splitlines()[0]
    assert "for the same tokens" not in difference_text(difference(*sides_of(known(), known())))


def test_steps_of_unknown_tokens_are_not_called_the_same_tokens() -> None:
    a, b = (Side(str(seq), np.array([8.0, 8.1]), None, {"seq_length": seq}) for seq in (4096, 8192))
    assert "for the same tokens" not in difference_text(difference(a, b))


@pytest.mark.parametrize(("stated", "code"), [("64", Exit.INCONCLUSIVE), ("32", Exit.SLOW), (None, Exit.SLOW)])
def test_logs_of_other_batches_are_not_compared_where_one_does_not_state_its_tokens(
    stated: str | None, code: Exit
) -> None:
    batches = ("32", 1.0), (stated, 2.0)
    a, b = (Side("log", np.full(20, step_s), None, {"global_batch_size": batch}) for batch, step_s in batches)
    found = difference(a, b)
    assert found.exit_code == code
    assert bool(found.other_tokens) == (code == Exit.INCONCLUSIVE)


def test_a_log_that_ends_early_shows_no_equality(tmp_path: Path) -> None:
    steps = "\n".join(
        f" iteration {step:8d}/{{planned}} | consumed samples: {8 * step} | elapsed time per iteration (ms): 500.{step}"
        " | learning rate: 1.0E-05 | global batch size: 8 | lm loss: 2.0E+00 |"
        for step in range(1, 21)
    )
    whole, early = tmp_path / "whole.log", tmp_path / "early.log"
    whole.write_text(steps.format(planned=20) + "\n")
    early.write_text(steps.format(planned=400) + "\n")
    assert call("diff", str(whole), str(whole))[0] == Exit.OK
    code, _, err = call("diff", str(whole), str(early))
    assert (code, err.splitlines()[0].startswith(f"no number to rely on, {early}: early_end")) == (4, True)


@pytest.mark.parametrize(("one", "other"), [(1.4, 1.6), (0.3, 0.35), (12.4, 12.6)])
def test_times_in_whole_seconds_are_compared_by_means(tmp_path: Path, one: float, other: float) -> None:
    """A bar shows steps of 1.4 s as 1 and 2 s: their medians have a ratio of 2."""
    logs = tmp_path / "a.log", tmp_path / "b.log"
    for log, step_s in zip(logs, (one, other), strict=True):
        clocks = [(step, divmod(int(step * step_s), 60)) for step in range(1, 201)]
        bars = "".join(f"{step // 2:3d}%|# | {step}/200 [{m:02d}:{s:02d}<05:00, 1s/it]\n" for step, (m, s) in clocks)
        log.write_text(f"{bars}{{'train_runtime': {200 * step_s:.4f}, 'train_loss': 2.0, 'epoch': 1.0}}\n")
    (found,) = api.differ([str(log) for log in logs])
    assert found.ratio == pytest.approx(other / one, rel=0.02)
    assert found.step_time_s == pytest.approx((one, other), rel=0.02)


def test_what_medians_hide_or_one_log_alone_states_is_no_answer() -> None:
    steady = np.full(20, 10.0) + np.linspace(0, 0.01, 20)
    stalled = steady.copy()
    stalled[[3, 9, 15]] = 100.0
    base = Side("a", steady, 1000.0, {}, work={"task": "all weights", "model": {"num_layers": 32}})
    assert difference(base, replace(base, name="b")).exit_code == 0
    assert difference(base, replace(base, times=stalled)).exit_code == 4
    assert difference(base, replace(base, work={"task": "lora", "model": {"num_layers": 32}})).other_work == ("task",)
    assert difference(base, replace(base, work={"task": "all weights"})).stated_by_one == ("model",)
    assert difference(base, replace(base, tokens=None)).exit_code == 4
