"""Faster hardware is never predicted slower, and a curve is that of the whole model."""

import itertools
from dataclasses import replace

import pytest

from benchrun import api, hardware
from benchrun.capabilities.predict import prediction, runs
from benchrun.errors import UserError
from benchrun.recipes import catalogue
from benchrun.runspec.spec import TrainingSpec


def specs() -> list[TrainingSpec]:
    """Return points of the training recipes on H100, as they are resolved by default."""
    found = []
    for name in catalogue.trainings():
        for precision, num_gpus in itertools.product(("bf16", "fp8"), (8, 64, 512)):
            try:
                spec = api.resolve_shown(api.Request(name, "H100", precision, num_gpus))
            except UserError:
                continue
            if isinstance(spec, TrainingSpec):
                found.append(spec)
    return found


def test_an_h200_is_never_slower_than_an_h100() -> None:
    points = [(spec, scale) for spec in specs() for scale in (1, 4)]
    assert len(points) > 300
    for spec, scale in points:
        load = runs.workload_of_run(spec)
        load = replace(load, num_gpus=load.num_gpus * scale, gbs=load.gbs * scale)
        slow, fast = (prediction.predict(replace(load, gpu=hardware.gpu(name))) for name in ("H100", "H200"))
        assert fast.median <= slow.median * (1 + 1e-9), f"{spec.recipe} on {spec.num_gpus} GPUs"
        assert sum(fast.parts.values()) == pytest.approx(fast.median)
        assert fast.low <= fast.median <= fast.high


LARGE = api.Request("llama3.1-405b", "H100", "bf16")


def test_a_curve_does_not_become_that_of_a_proxy() -> None:
    """On 64 GPUs the recipe has a proxy alone, on 1,024 the whole model."""
    for numbers in ((512, 1024), (64, 1024)):
        spec = api.curve_point(LARGE, numbers)
        assert isinstance(spec, TrainingSpec)
        assert (spec.reduced, spec.num_gpus) == ((), numbers[0] if numbers[0] > 64 else numbers[1])
    with pytest.raises(UserError):
        api.curve_point(LARGE, (32, 64))


def test_a_proxy_that_is_asked_for_has_a_curve() -> None:
    spec = api.curve_point(replace(LARGE, overrides=("model.num_layers=30",)), (64, 128))
    assert isinstance(spec, TrainingSpec)
    assert spec.reduced


def test_a_curve_names_each_number_that_its_layout_or_memory_does_not_allow() -> None:
    large = replace(LARGE, gpu="H200")
    spec = api.curve_point(large, (64, 100, 1024))
    curve = api.predicted_curve(spec, (64, 100, 1024), "weak").document()
    assert [point["num_gpus"] for point in curve["points"]] == [1024]
    reasons = {each["num_gpus"]: each["reason"] for each in curve["left_out"]}
    assert set(reasons) == {64, 100}
    assert "GiB" in reasons[64]
    assert "no multiple of tp * pp * cp = 64" in reasons[100]


def test_the_hint_of_a_curve_of_proxies_is_a_command() -> None:
    experts = api.Request("deepseek-v3", "H200", "bf16")
    with pytest.raises(UserError) as refused:
        api.curve_point(experts, (8, 64))
    words = str(refused.value.hint).split("ask for the proxy: ")[1].replace("--set ", "").split()
    spec = api.curve_point(replace(experts, overrides=tuple(words)), (8, 16))
    assert [len(api.predicted_curve(spec, (8, 16), "weak").points), spec.num_gpus] == [2, 8]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (api.Request("llama3.1-8b", "H100", "fp8", 64), None),
        (api.Request("llama3.1-8b", "B300", "fp8", 64), "dense models on B300"),
        (api.Request("deepseek-v3", "H100", "bf16", 1024), "experts lie outside"),
        (api.Request("mixtral-8x7b", "A100", "bf16", 64), "experts on A100"),
        (api.Request("deepseek-v3", "H100", "fp8", 1024), None),
    ],
)
def test_a_point_beyond_what_was_tested_says_so(request_: api.Request, says: str | None) -> None:
    one = api.predicted(api.resolve_point(request_))
    assert (one.limit is None) == (says is None)
    if says:
        assert says in (one.limit or "")
        assert one.limit in one.document()["warnings"]
