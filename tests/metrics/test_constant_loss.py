"""A loss that never changes is a problem that is named, and no fatal one."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.metrics.setting import Setting
from benchrun.metrics.summary import summarise

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
        ([f"{9 - n / 10:.4E}" for n in range(20)], False),
    ],
)
def test_only_a_constant_loss_of_ten_rows_is_named(tmp_path: Path, losses: list[str], named: bool) -> None:
    summary = summarise(parse_log(log_of(tmp_path / "a.log", losses)), given=Setting())
    assert ("constant_loss" in [problem.kind for problem in summary.problems]) is named
    assert summary.fatal is None


@pytest.mark.parametrize("name", ["13-nemo2-resiliency-20it", "19-torchtitan-pp4-500it"])
def test_real_logs_of_models_that_learn_nothing(name: str) -> None:
    summary = summarise(parse_log(LOGS / f"{name}.log.xz"), given=Setting())
    assert "constant_loss" in [problem.kind for problem in summary.problems]
    assert summary.fatal is None
