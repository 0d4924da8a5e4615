"""Curves over numbers of GPUs: where they break and why, of predictions and of runs."""

import json
from pathlib import Path

import kept_runs
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from benchrun.cli import group
from benchrun.errors import UserError
from benchrun.measure.scaling import LOSS, CurvePoint, breaks, efficiencies

POINT = ("llama3.1-8b", "--gpu", "H100", "--precision", "fp8")
KEPT = [str(path) for path in kept_runs.named("llama3.1-8b-*")]


def ran(*arguments: str) -> str:
    result = CliRunner().invoke(group, arguments, standalone_mode=False, catch_exceptions=False)
    return result.stdout


def weak(*steps: float, **part: float) -> list[CurvePoint]:
    """A weak curve over 8, 16, ... GPUs; the last point has the parts ``part``, the others half of them."""
    sizes = [8 * 2**n for n in range(len(steps))]
    halves = {name: seconds / 2 for name, seconds in part.items()}
    return [
        CurvePoint(size, 4 * size, step, part if step == steps[-1] else halves)
        for size, step in zip(sizes, steps, strict=True)
    ]


class TestBreaks:
    def test_the_part_that_grew_most_comes_first(self) -> None:
        found = breaks(weak(10.0, 10.1, 12.0, dp=3.0, tp=0.5))
        assert found is not None
        assert (found.num_gpus, found.lost_s) == (32, pytest.approx(1.9))
        assert found.grew == {"dp": 1.5, "tp": 0.25}
        assert list(found.grew) == ["dp", "tp"]

    def test_of_a_strong_curve_a_part_that_halves_has_not_grown(self) -> None:
        before = CurvePoint(8, 64, 10.0, {"matmul": 9.0, "dp": 1.0})
        after = CurvePoint(16, 64, 5.6, {"matmul": 4.5, "dp": 1.1})
        found = breaks([before, after])
        assert found is not None
        assert found.lost_s == pytest.approx(0.6)
        assert found.grew == {"dp": pytest.approx(0.6)}

    @given(st.floats(0, 0.99 * LOSS), st.integers(1, 6), st.integers(1, 4))
    def test_a_small_loss_a_doubling_is_no_break(self, loss: float, doublings: int, more: int) -> None:
        sizes = [8, 8 * 2**doublings, 8 * 2 ** (doublings + more)]
        steps = [1 / (1 - loss) ** n for n in (0, doublings, doublings + more)]
        points = [CurvePoint(size, size, step, {}) for size, step in zip(sizes, steps, strict=True)]
        assert breaks(points) is None
        assert efficiencies(points)[-1] == pytest.approx((1 - loss) ** (doublings + more))


class TestPredicted:
    def test_a_strong_curve_with_its_break(self, tmp_path: Path) -> None:
        picture = tmp_path / "curve.png"
        options = ("--num-gpus", "8,64,128", "--scaling", "strong", "--plot", str(picture), "--json")
        document = json.loads(ran("predict", *POINT, *options))
        shares = [point["efficiency"] for point in document["points"]]
        assert shares[0] == 1
        assert shares == sorted(shares, reverse=True)
        assert document["break"]["num_gpus"] in (64, 128)
        assert set(document["break"]["grew_s"]) <= set(document["points"][0]["parts_s"])
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_a_weak_curve_keeps_most_of_its_speed(self) -> None:
        document = json.loads(ran("predict", *POINT, "--num-gpus", "8,64,512,2304", "--json"))
        assert document["break"] is None
        assert 0.85 < document["points"][-1]["efficiency"] <= 1

    def test_numbers_of_gpus_hold_every_rank_of_the_experts(self) -> None:
        experts = ("predict", "mixtral-8x7b", "--gpu", "H200", "--precision", "bf16", "--num-gpus")
        document = json.loads(ran(*experts, "8,64,128", "--json"))
        assert [point["num_gpus"] for point in document["points"]] == [64, 128]
        assert [(each["num_gpus"], "ep" in each["reason"]) for each in document["left_out"]] == [(8, True)]

    def test_a_proxy_is_named_in_every_form(self) -> None:
        proxy = ("llama3.1-405b", "--gpu", "H100", "--precision", "fp8", "--num-gpus", "8")
        document = json.loads(ran("predict", *proxy, "--json"))
        assert (document["framework"], document["reduced"]) == ("megatron-lm", ["num_layers 7 of 126"])
        asked = "--set", "model.num_layers=7", "--scaling", "weak"
        pages = ran("predict", *proxy), ran("predict", *proxy, *asked)
        assert [page.count("proxy: num_layers 7 of 126") for page in pages] == [1, 2]
        with pytest.raises(UserError, match="no point of the whole model"):
            ran("predict", *proxy, "--scaling", "weak")
        assert json.loads(ran("predict", *POINT, "--num-gpus", "8", "--json"))["reduced"] == []

    def test_a_page_says_where_it_breaks(self) -> None:
        page = ran("predict", *POINT, "--num-gpus", "8,64,128", "--scaling", "strong")
        assert "breaks at 128 GPUs" in page


class TestMeasured:
    def test_runs_beside_predictions(self, tmp_path: Path) -> None:
        picture = tmp_path / "curve.svg"
        document = json.loads(ran("report", *KEPT, "--scaling", "--plot", str(picture), "--json"))
        assert {curve["scaling"] for curve in document["curves"]} == {"weak", "strong"}
        for curve in document["curves"]:
            sizes = [point["num_gpus"] for point in curve["points"]]
            assert sizes == sorted(set(sizes))
            assert len(sizes) > 1
            for point in curve["points"]:
                assert point["predicted_s"]["low"] <= point["step_time_s"] <= point["predicted_s"]["high"]
        assert picture.stat().st_size > 0

    def test_runs_of_one_size_make_no_curve(self) -> None:
        result = CliRunner().invoke(group, ["report", KEPT[0], "--scaling"], standalone_mode=False)
        assert result.stdout == ""
        assert "at least two numbers of GPUs" in result.stderr
