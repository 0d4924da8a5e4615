"""The suite that runs both sides of a published comparison: the measured ratio is said beside the published one."""

from dataclasses import replace
from typing import Any

from benchrun import api
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references
from benchrun.judge.verdict import RunResult, judge
from benchrun.logs import Log, Rows, Step
from benchrun.measure.setting import setting_of
from benchrun.measure.summary import measure
from benchrun.recipes.select import Request
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.runs import ratio_line
from benchrun.show.scaling import fsdp_over_3d
from benchrun.vocabulary import Reduced

SUITE = api.resolve(Request("fsdp-against-3d"))
SLOWLY = 16
"""So that no step is faster than 8 GPUs can be."""
PUBLISHED = {8: 0.78, 16: 0.88, 32: 0.89, 64: 0.86, 128: 0.96}


def result(spec: TrainingSpec, step_time_s: float) -> RunResult:
    rows = Rows(Step(step=i, step_time_s=SLOWLY * step_time_s, line=i, loss=2.0) for i in range(1, 13))
    return RunResult("x", spec, measure(Log("x.log", "nemo2", rows), setting_of(spec), planned_steps=12), None)


def lines(specs: list[TrainingSpec], fsdp_s: float, other_s: float = 2.0) -> list[Any]:
    results = [result(spec, fsdp_s if spec.layout.fsdp > 1 else other_s) for spec in specs]
    return [ratio_line(ratio) for ratio in fsdp_over_3d(results, load_references())]


def test_each_scale_has_its_ratio_beside_the_published_one() -> None:
    found = lines(SUITE, 2.5)
    assert len(found) == len(PUBLISHED)
    for line, (num_gpus, ratio) in zip(found, PUBLISHED.items(), strict=True):
        assert line.startswith(f"FSDP reached 0.80 of the speed of 3D parallelism (gpt-20b, bf16, {num_gpus} x H100,")
        assert f"published: {ratio:g} x (NVIDIA 2023-12-04" in line


def test_one_side_alone_gives_no_ratio() -> None:
    assert lines([spec for spec in SUITE if spec.layout.fsdp == 1], 2.5) == []
    assert lines([spec for spec in SUITE if (spec.layout.fsdp > 1) == (spec.num_gpus > 8)], 2.5) == []


def test_the_fastest_layout_of_a_side_counts_by_the_median_of_its_repeats() -> None:
    other, fsdp = sorted(SUITE[:2], key=lambda spec: spec.layout.fsdp)
    slower = other.model_copy(update={"mbs": 2 * other.mbs})
    runs = [(fsdp, 2.0), (other, 1.8), (other, 2.0), (other, 2.2), (slower, 8.0), (slower, 8.0)]
    (ratio,) = fsdp_over_3d([result(*run) for run in runs], ())
    assert round(ratio.value, 2) == 1.0


def test_an_invalid_run_is_no_side_of_it() -> None:
    sides = [result(spec, 2.0) for spec in SUITE[:2]]
    wrong = judge(conditions(SUITE[0]), [sides[0].metrics], (), ending="failed")
    assert list(fsdp_over_3d(sides, ())) and not list(fsdp_over_3d([replace(sides[0], verdict=wrong), sides[1]], ()))


def test_what_nobody_published_is_said() -> None:
    (line,) = lines([spec.model_copy(update={"reduced": (Reduced("num_layers", 2, 44),)}) for spec in SUITE[:2]], 4.0)
    assert line.startswith("FSDP reached 0.50") and line.endswith("no ratio was published")


def test_the_suite_has_the_published_batch_at_every_scale() -> None:
    assert {(spec.precision, spec.gbs, spec.seq_length) for spec in SUITE} == {("bf16", 256, 2048)}
    assert [spec.num_gpus for spec in SUITE if spec.layout.fsdp > 1] == list(PUBLISHED)


def test_a_ratio_of_another_batch_or_precision_has_no_published_one_beside_it() -> None:
    for other in ({"precision": "fp8"}, {"gbs": 512}):
        (line,) = lines([spec.model_copy(update=other) for spec in SUITE[:2]], 4.0, 3.0)
        assert line.endswith("no ratio was published")
