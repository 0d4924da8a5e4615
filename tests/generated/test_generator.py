"""The generator itself: every form writes, the same seed gives the same logs, a truth survives its file."""

from random import Random

import pytest

from .bulk import dumped, loaded, truths
from .draw import draw
from .forms import ALL
from .truth import PRECISIONS
from .wrap import WRAPPERS
from .write import log

SEEDS = range(6)


@pytest.mark.parametrize("form", sorted(ALL))
def test_a_form_writes_every_truth_that_it_can_draw(form: str) -> None:
    for seed in SEEDS:
        truth = draw(Random(seed), form)
        assert len(log(truth)) > 200
        assert loaded(dumped(truth)) == truth


def test_the_same_seed_writes_the_same_logs() -> None:
    assert list(truths(30, 5)) == list(truths(30, 5))
    assert list(truths(30, 5)) != list(truths(30, 6))


def test_dialects_wrappers_and_precisions_take_turns() -> None:
    """In 50,000 logs each occurs 200 times, as it does here once in 250."""
    count = 250 * max(len(ALL), len(WRAPPERS))
    found = list(truths(count // 4, 1))
    assert {truth.form for truth in found} == set(ALL)
    assert {truth.wrapper for truth in found} == set(WRAPPERS)
    assert {truth.precision for truth in found} == set(PRECISIONS)
