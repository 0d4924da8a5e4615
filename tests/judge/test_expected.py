"""Verdicts against a prediction: only beyond the whole interval is a run slow."""

from pathlib import Path
from typing import Any

import pytest
from test_measured import finished, spec_of

from benchrun.capabilities.predict.usecase import predicted_step
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.usecases import judgement
from benchrun.usecases.judgement import judge_runs
from benchrun.vocabulary import Exit


@pytest.mark.parametrize(
    ("share", "name", "code"),
    [(0.99, "as_expected", Exit.OK), (1.02, "slower_than_expected", Exit.SLOW)],
)
def test_a_run_beside_the_upper_end_of_its_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, name: str, code: Exit
) -> None:
    monkeypatch.setattr(judgement, "load_measured", lambda: ())
    expected = predicted_step(spec_of())
    assert expected
    verdict = judge_runs([finished(tmp_path, spec_of(), share * expected.high)]).verdict
    assert (verdict.verdict, verdict.exit_code) == (name, code)
    assert "prediction" in {label.code for label in verdict.labels}


@pytest.mark.parametrize(
    ("share", "name", "code"),
    [(1.02, "as_expected", Exit.OK), (0.98, "faster_than_expected", Exit.INCONCLUSIVE)],
)
def test_a_run_beside_the_lower_end_of_its_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, name: str, code: Exit
) -> None:
    monkeypatch.setattr(judgement, "load_measured", lambda: ())
    expected = predicted_step(spec_of())
    assert expected
    verdict = judge_runs([finished(tmp_path, spec_of(), share * expected.low)]).verdict
    assert (verdict.verdict, verdict.exit_code) == (name, code)


@pytest.mark.parametrize(
    ("changed", "label"),
    [
        ({}, None),
        ({"steps": 8}, "few_steps"),
        ({"uneven": 0.2}, "drifting"),
        ({"reasons": "0x0000000000000008"}, "throttled"),
    ],
)
def test_the_limits_of_step_times_stand_in_the_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], label: str | None
) -> None:
    monkeypatch.setattr(judgement, "load_measured", lambda: ())
    steps = changed.pop("steps", 50)
    layers = "model.num_layers=32"
    spec = resolve(
        Request("llama3.1-8b", "H200", "bf16", 4, "megatron-core", "hgx-h200", (layers, f"training.steps={steps}"))
    )
    expected = predicted_step(spec)
    assert expected
    verdict = judge_runs([finished(tmp_path, spec, expected.median, **changed)]).verdict
    found = {each.code: each.text for each in verdict.labels}
    assert set(found) == {"prediction", *([label] if label else [])}
    assert all(text in verdict.headline for text in found.values())


def test_uneven_steps_are_not_as_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement, "load_measured", lambda: ())
    expected = predicted_step(spec_of())
    assert expected
    verdict = judge_runs([finished(tmp_path, spec_of(), expected.median, uneven=0.2)]).verdict
    assert verdict.verdict in ("inconclusive", "slower_than_expected")
