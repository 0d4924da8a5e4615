"""What weights in FP8 cost the other frameworks: kept runs on one GPU, which no fit has seen."""

from dataclasses import replace
from statistics import median

import kept_runs
import pytest

from benchrun import kept, paths
from benchrun.capabilities.predict.prediction import predict
from benchrun.capabilities.predict.runs import Measured, read

OTHERS = ("megatron-lm", "nemo2", "megatron-bridge")
KEPT = [
    read(kept_runs.folder(run))
    for name in OTHERS
    for run, entry in kept.entries(paths.MEASURED).items()
    if entry["framework"] == name
]


def recast() -> list[Measured]:
    """Runs on one GPU whose optimizer casts weights to FP8."""
    return [run for run in KEPT if run.load.framework in OTHERS and run.load.recast and run.load.num_gpus == 1]


def miss(run: Measured, *, counted: bool) -> float:
    """How far the prediction for nobody's run is from the measurement, relative."""
    load = replace(run.load, recast=counted, framework="", source="")
    return abs(run.step_s / predict(load).median - 1)


def test_the_cast_is_what_they_take_longer() -> None:
    runs = recast()
    assert len(runs) >= 15
    assert median(miss(run, counted=True) for run in runs) < 0.03
    assert median(miss(run, counted=False) for run in runs) > 0.1


def test_more_data_parallel_ranks_share_it() -> None:
    run = next(run for run in recast() if run.load.model.name == "gpt3-175b")
    parts = [
        predict(replace(run.load, num_gpus=gpus, gbs=8 * gpus, recast=counted)).parts["optimizer"]
        for gpus in (1, 8)
        for counted in (True, False)
    ]
    assert parts[0] - parts[1] == pytest.approx(8 * (parts[2] - parts[3]), rel=0.05)


@pytest.mark.parametrize("framework", ["megatron-core", "nemo1"])
def test_weights_in_bf16_and_the_worker_have_none(framework: str) -> None:
    assert not any(run.load.recast for run in KEPT if run.load.framework == framework)
