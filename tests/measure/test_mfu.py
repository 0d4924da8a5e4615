"""A run has one MFU, over the peak of its precision; what else is a ratio, or printed, has its own name."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Log
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.recipes.catalogue import recipe_file
from benchrun.show.terminal import summary_view

LOGS = Path(__file__).parent.parent / "logs"
TITAN = LOGS / "18-torchtitan-ansi-1gpu-2500it.log.xz"


def log_of(path: Path, time_s: float) -> Log:
    line = " iteration {0:8d}/      50 | elapsed time per iteration (ms): {1:.1f} | lm loss: 2.0E+00 |\n"
    path.write_text("".join(line.format(n, 1000 * time_s) for n in range(1, 51)))
    return parse_log(path)


@pytest.mark.parametrize(
    ("precision", "divisor"),
    [("fp8", "H100 fp8 dense"), ("bf16", "H100 bf16 dense"), ("fp16", "H100 fp16 dense"), (None, "H100 bf16 dense")],
)
def test_one_mfu_of_the_runs_own_precision(tmp_path: Path, precision: str | None, divisor: str) -> None:
    model = recipe_file("llama3.1-8b").recipe.model
    given = Setting(8192, 128, 8, "H100", precision, model)
    found = summarise(log_of(tmp_path / "x.log", 7.9), given=given)
    assert [mfu.divisor for mfu in found.mfu] == [divisor]
    ratio = found.bf16_peak_ratio
    if precision == "fp8":
        assert ratio.full == pytest.approx(found.mfu[0].full * 1979 / 989)
        assert str(summary_view(found)).count("MFU") == 1
    elif precision != "fp16":
        assert ratio is None


def test_a_precision_without_a_listed_peak_has_no_mfu(tmp_path: Path) -> None:
    given = Setting(8192, 128, 8, "H100", "fp32", recipe_file("llama3.1-8b").recipe.model)
    found = summarise(log_of(tmp_path / "x.log", 12.3), given=given)
    assert (found.mfu, found.bf16_peak_ratio is None) == ((), False)


def test_what_torchtitan_prints_is_kept_under_its_own_name() -> None:
    found = summarise(parse_log(TITAN))
    assert found.mfu_reported.median == pytest.approx(0.1548)
    rows = [line.split("  ")[1] for line in str(summary_view(found)).splitlines() if line.startswith("  ")]
    assert {"TFLOPS printed", "MFU printed"} <= {row.strip() for row in rows}
    assert (found.mfu, found.tflops_per_gpu) == ((), None)


def test_an_mfu_that_is_not_printed_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    line = "[titan] - root - INFO - step: {0}  loss:  2.0  memory: 9GiB(9%)  tps: 9,000  tflops: 40.0  mfu: N/A\n"
    path.write_text("".join(line.format(n) for n in range(1, 31)))
    found = summarise(parse_log(path))
    assert (found.mfu_reported.median, found.tflops_per_gpu_reported.median) == (None, 40.0)


def test_the_dips_of_a_run_whose_rows_are_ten_steps_have_their_period() -> None:
    """About every 65 steps by eye: rows 330, 390, 450 ... 2440 are slow, 33 periods apart."""
    found = summarise(parse_log(TITAN), given=Setting(seq_length=2048, gbs=32)).steadiness
    assert (found.verdict, found.period) == ("periodic", pytest.approx((2440 - 330) / 33, abs=0.5))


@pytest.mark.parametrize(
    ("tflops", "precision", "impossible"), [("4,100", None, True), ("3,900", None, False), ("2,100", "bf16", True)]
)
def test_a_printed_rate_above_the_peak_gives_no_speed(
    tmp_path: Path, tflops: str, precision: str | None, impossible: bool
) -> None:
    line = "[titan] - root - INFO - step: {0}  loss:  2.0  memory: 9GiB(9%)  tps: 90,000  tflops: {1}  mfu: N/A\n"
    (tmp_path / "x.log").write_text("".join(line.format(n, tflops) for n in range(1, 31)))
    found = summarise(parse_log(tmp_path / "x.log"), given=Setting(2048, 8, 8, "H100", precision))
    assert ("impossible_rate" in {problem.kind for problem in found.problems}) == impossible
    assert (found.step_time_s is None, found.tokens_per_s_per_gpu.median is None) == (impossible, impossible)
    assert found.tflops_per_gpu_reported.median == float(tflops.replace(",", ""))


@pytest.mark.parametrize(("tflops", "impossible"), [("2100.0", True), ("1900.0", False)])
def test_bridge_can_print_no_more_than_the_scores_of_every_token(tmp_path: Path, tflops: str, impossible: bool) -> None:
    """None of the ways in which it counts exceeds ``full``."""
    text = "".join(f"Step Time : 1.50s GPU utilization: {tflops}MODEL_TFLOP/s/GPU\n" for _ in range(30))
    (tmp_path / "x.log").write_text(text)
    found = summarise(parse_log(tmp_path / "x.log"), given=Setting(2048, 8, 8, "H100", "bf16"))
    assert ("impossible_rate" in {problem.kind for problem in found.problems}) == impossible
