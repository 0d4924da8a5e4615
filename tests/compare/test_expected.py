"""Verdicts against a prediction: only beyond the whole interval is a run slow."""

from pathlib import Path

import pytest
from test_measured import finished, spec_of

from benchrun.app import judgement
from benchrun.app.judgement import judge_runs
from benchrun.app.predictions import expected_step
from benchrun.vocabulary import Exit


@pytest.mark.parametrize(
    ("share", "name", "code"),
    [(0.99, "as_expected", Exit.OK), (1.02, "slower_than_expected", Exit.SLOW)],
)
def test_a_run_beside_the_upper_end_of_its_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, name: str, code: Exit
) -> None:
    monkeypatch.setattr(judgement, "load_measured", lambda: ())
    expected = expected_step(spec_of())
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
    expected = expected_step(spec_of())
    assert expected
    verdict = judge_runs([finished(tmp_path, spec_of(), share * expected.low)]).verdict
    assert (verdict.verdict, verdict.exit_code) == (name, code)


def test_uneven_steps_are_not_as_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement, "load_measured", lambda: ())
    expected = expected_step(spec_of())
    assert expected
    verdict = judge_runs([finished(tmp_path, spec_of(), expected.median, uneven=0.2)]).verdict
    assert verdict.verdict in ("inconclusive", "slower_than_expected")
