"""Each rule is needed: taken away, the generator finds a log of which benchrun says something untrue."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from .bulk import check
from .draw import draw
from .truth import Truth

LOGS = 40
"""How many logs one of which must fail."""


def nothing(*args: Any, **kwargs: Any) -> tuple[()]:
    return ()


def no_options(*args: Any, **kwargs: Any) -> dict[str, str]:
    return {}


def the_last(problems: Any) -> Any:
    """The last problem of a log in place of the one with the strongest evidence."""
    return problems[-1]


def writing(summarise: Callable[..., Any]) -> Callable[..., Any]:
    """A query that leaves a file beside the log."""

    def wrapped(log: Any, *args: Any, **kwargs: Any) -> Any:
        Path(log.file).with_suffix(".cache").write_text("")
        return summarise(log, *args, **kwargs)

    return wrapped


def drawn(form: str, scenario: str) -> Iterator[Truth]:
    """`LOGS` truths of one dialect in which one thing is wrong."""
    yield from (draw(Random(seed), form, "plain", scenario=scenario) for seed in range(LOGS))


RULES = {
    "printed against computed": ("benchrun.measure.summary.contradictory_rates", nothing, "rate"),
    "printed against dates": ("benchrun.measure.summary.contradictory_dates", nothing, "dates"),
    "stated against typed": ("benchrun.usecases.settings.check_options", nothing, "option"),
    "unknown options": ("benchrun.measure.setting.unknown_options", no_options, "exotic"),
    "cause of a crash": ("benchrun.measure.problems.strongest", the_last, "crash"),
    "order of lines": ("benchrun.logs.reader.Reader._newest_first", lambda *_: False, "newest"),
    "no training": ("benchrun.measure.summary.no_training", nothing, "loss"),
}
"""Rule -> function that holds it, what replaces it, scenario in which the lack shows."""
FORMS = {"rate": "maxtext-2025"}
"""Dialects of the scenarios; else Megatron-LM's."""


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_rule_taken_away_makes_a_log_fail(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, replacement, scenario = RULES[rule]

    def fails_without_it(truth: Truth, folder: Path) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(place, replacement)
            wrong = bool(check(truth, folder))
        return wrong and not check(truth, folder)

    with tempfile.TemporaryDirectory() as name:
        truths = drawn(FORMS.get(scenario, "megatron-0.14"), scenario)
        assert any(fails_without_it(truth, Path(name)) for truth in truths)


def test_a_query_that_writes_makes_a_log_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchrun import api

    monkeypatch.setattr("benchrun.api.summarise_log", writing(api.summarise_log))
    with tempfile.TemporaryDirectory() as name:
        truth = draw(Random(1), "verl-sft", "plain", scenario="sound")
        assert [finding.kind for finding in check(truth, Path(name))] == ["a query wrote"]
