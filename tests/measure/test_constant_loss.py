"""A run that does not train has no speed: losses that never change, gradients that are zero or not a number."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import Reader, parse_log
from benchrun.logs import Log
from benchrun.measure.setting import Setting
from benchrun.measure.summary import measure, summarise

LOGS = Path(__file__).parents[1] / "logs"


def log_of(path: Path, losses: list[str]) -> Path:
    rows = [
        f" iteration {n:8d}/{len(losses):8d} | elapsed time per iteration (ms): 100.0 | lm loss: {loss} |"
        for n, loss in enumerate(losses, 1)
    ]
    path.write_text("\n".join([*rows, ""]))
    return path


@pytest.mark.parametrize(
    ("losses", "named"),
    [
        (["1.093E+01"] * 20, True),
        (["1.093E+01"] * 10, True),
        (["1.093E+01"] * 9, False),  # too few to tell: they may differ in digits that are not printed
        (["1.093E+01"] * 19 + ["1.092E+01"], False),
        (["1.09300E+01"] * 19 + ["1.09301E+01"], False),
        ([f"{9 - n / 10:.4E}" for n in range(20)], False),
    ],
)
def test_only_a_constant_loss_of_ten_rows_is_named(tmp_path: Path, losses: list[str], named: bool) -> None:
    summary = summarise(parse_log(log_of(tmp_path / "a.log", losses)), given=Setting())
    assert ("constant_loss" in [problem.kind for problem in summary.problems]) is named
    assert summary.fatal is None


def fatal_kind(log: Log) -> str | None:
    fatal = summarise(log).fatal
    return fatal.kind if fatal else None


@pytest.mark.parametrize(
    ("loss", "kind"),
    [("1.150000E+01", "no_update"), ("1.1500E+01", "no_update"), ("0.000000E+00", None), ("1.150E+01", None)],
)
def test_a_loss_that_is_constant_in_five_digits_is_no_training(tmp_path: Path, loss: str, kind: str | None) -> None:
    assert fatal_kind(parse_log(log_of(tmp_path / "a.log", [loss] * 20))) == kind
    # What the warm-up holds does not count.
    assert fatal_kind(parse_log(log_of(tmp_path / "b.log", ["1.234E+01", *[loss] * 19]))) == kind


@pytest.mark.parametrize(("warmup", "kind"), [(49, None), (48, None), (47, "no_update")])
def test_a_constant_loss_needs_three_rows(tmp_path: Path, warmup: int, kind: str | None) -> None:
    losses = [f"{12 - min(n, 47) / 10:.6E}" for n in range(50)]
    fatal = summarise(parse_log(log_of(tmp_path / "a.log", losses)), warmup=warmup).fatal
    assert (fatal.kind if fatal else None) == kind


def titan(path: Path, mesh: str, losses: list[str]) -> Path:
    words = "[rank0]:[titan] 2026-05-12 09:50:16,023 - root - INFO - "
    lines = [f"Building 1-D device mesh with {mesh}"]
    lines += [
        f"step: {step:2d}  loss: {loss:>8}  grad_norm: 1.0000  memory: 20.66GiB(65.88%)  tps: 1,000  "
        "tflops: 4.70  mfu: 0.48%"
        for step, loss in enumerate(losses, 1)
    ]
    path.write_text("".join(f"{words}{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("mesh", "loss", "kind"),
    [
        ("['dp_shard'], [8]", "11.76178", "no_update"),
        ("['pp'], [4]", "11.76178", None),
        ("['dp_shard'], [8]", "-1.00000", None),
    ],
)
def test_a_stage_without_a_loss_prints_a_placeholder(tmp_path: Path, mesh: str, loss: str, kind: str | None) -> None:
    log = parse_log(titan(tmp_path / "a.log", mesh, [loss] * 20))
    assert len(log.steps) == 20
    assert fatal_kind(log) == kind
    assert measure(log, Setting(), planned_steps=None).loss_rose is None


@settings(deadline=None, max_examples=50)
@given(norms=st.lists(st.sampled_from(["0.000", "nan", "1.234", "inf"]), min_size=20, max_size=20))
def test_a_tenth_of_the_steps_may_have_no_gradients(norms: list[str]) -> None:
    lines = [
        f" iteration {n:8d}/      20 | elapsed time per iteration (ms): 100.0 | lm loss: {9 + n % 3 / 10:.6E} |"
        f" grad norm: {norm} |\n"
        for n, norm in enumerate(norms, 1)
    ]
    reading = Reader()
    reading.feed("".join(lines).encode())
    reading.end()
    lost = norms.count("0.000") + norms.count("nan")
    log = reading.log("x")
    assert fatal_kind(log) == ("no_update" if lost > 2 else None)
    noted = "infinite_norm" in [problem.kind for problem in summarise(log).problems]
    assert noted is (norms.count("inf") > 2)


@settings(deadline=None, max_examples=50)
@given(lost=st.sets(st.integers(1, 30), max_size=6), word=st.sampled_from(["nan", "inf", "-nan", "1.#QNAN"]))
def test_a_tenth_of_the_steps_may_have_a_loss_that_is_no_number(lost: set[int], word: str) -> None:
    lines = [
        f" iteration {n:8d}/      30 | elapsed time per iteration (ms): 100.0 |"
        f" lm loss: {word if n in lost else f'{9 - n / 10:.6E}'} |\n"
        for n in range(1, 31)
    ]
    reading = Reader()
    reading.feed("".join(lines).encode())
    reading.end()
    log = reading.log("x")
    diverged = len(lost) > 3 or 30 in lost  # the last one: nothing is learned any more
    assert fatal_kind(log) == ("nan_loss" if diverged else None)
    assert ("few_nan_losses" in [problem.kind for problem in log.problems]) is (bool(lost) and not diverged)


@settings(deadline=None, max_examples=50)
@given(
    losses=st.lists(st.floats(2.4, 2.6), min_size=20, max_size=40, unique=True),
    fall=st.sampled_from([0.0, 0.1]),
)
def test_a_norm_of_zero_in_all_rows_is_none_where_the_loss_falls(losses: list[float], fall: float) -> None:
    """Some programs print zero in place of a norm that they do not compute."""
    lines = [
        f" iteration {n:8d}/{len(losses):8d} | elapsed time per iteration (ms): 100.0 |"
        f" lm loss: {loss + fall * (len(losses) - n):.6E} | grad norm: 0.000 | num zeros: 0.0 |\n"
        for n, loss in enumerate(losses, 1)
    ]
    reading = Reader()
    reading.feed("".join(lines).encode())
    reading.end()
    found = reading.log("x")
    assert fatal_kind(found) == (None if fall else "no_update")
    assert ("zero_norm" in {problem.kind for problem in summarise(found).problems}) == bool(fall)


@pytest.mark.parametrize("name", ["13-nemo2-resiliency-20it", "19-torchtitan-pp4-500it"])
def test_real_logs_of_models_that_learn_nothing(name: str) -> None:
    summary = summarise(parse_log(LOGS / f"{name}.log.xz"), given=Setting())
    assert "constant_loss" in [problem.kind for problem in summary.problems]
    assert summary.fatal is None


def mllog(path: Path, loss: str) -> Path:
    values = ", ".join([f'"reduced_train_loss": {loss}', '"train_step_timing": 12.16'])
    line = ':::MLLOG {{"key": "tracked_stats", "value": {{{0}}}, "metadata": {{"step": {1}}}}}\n'
    path.write_text("".join(line.format(values, 4194304 * step) for step in range(1, 21)))
    return path


def verl(path: Path, loss: str) -> Path:
    lines = (f"step:{step} - train/loss:{loss} - train/time(s):14.796027\n" for step in range(1, 21))
    path.write_text("".join(lines))
    return path


def dllogger(path: Path, loss: str) -> Path:
    values = ", ".join([f'"reduced_train_loss": {loss}', '"train_step_timing in s": 52.8'])
    line = 'DLLL {{"type": "LOG", "step": {1}, "data": {{{0}}}}}\n'
    path.write_text("".join(line.format(values, step) for step in range(1, 21)))
    return path


@pytest.mark.parametrize("form", [mllog, dllogger, verl])
@pytest.mark.parametrize(("loss", "kind"), [("11.126", "no_update"), ("11.1", None)])
def test_digits_count_however_a_log_prints_its_losses(
    tmp_path: Path, form: Callable[[Path, str], Path], loss: str, kind: str | None
) -> None:
    assert fatal_kind(parse_log(form(tmp_path / "a.log", loss))) == kind


REWARDS = "'reward': 0.0, 'completion_length': 1.0"


@pytest.mark.parametrize(
    ("rows", "kind"),
    [([("0.0", "0.0")], "no_update"), ([("0.0", "0.0"), ("0.1", "0.0")], None), ([("0.0", "0.2")], None)],
)
def test_a_post_training_whose_losses_and_gradients_are_all_zero_trains_nothing(
    tmp_path: Path, rows: list[tuple[str, str]], kind: str | None
) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"{{'loss': {loss}, 'grad_norm': {norm}, {REWARDS}}}\n" for loss, norm in rows))
    assert fatal_kind(parse_log(path)) == kind


@pytest.mark.parametrize("blank", [0, 1, 3])
def test_the_digits_of_a_loss_count_however_the_log_is_read(tmp_path: Path, blank: int) -> None:
    # The first block of a log has bars alone, so that all dictionaries are read with one regex.
    bars = [f" {n}%|#         | {n}/40 [00:{n:02d}<01:00,  1.00s/it]" + " " * 60 * blank for n in range(1, 41)]
    losses = [f"{{'loss': 12.062, 'grad_norm': {n / 7}, 'epoch': {n / 100}}}" for n in range(1, 41)]
    path = tmp_path / "a.log"
    path.write_text("  Total optimization steps = 40\n" + "\n".join([*bars, *losses, ""]))
    assert fatal_kind(parse_log(path)) == "no_update"
