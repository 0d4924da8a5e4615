"""benchrun says the truth of a generated log, or nothing, or ends with 4: a hundred logs in `make test`.

`python -m tests.generated --logs 50000 --seed 1` checks more, and keeps what fails.
"""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .bulk import check, check_served, dumped, servers
from .draw import draw
from .forms import ALL
from .wrap import WRAPPERS

OPEN: frozenset[tuple[str, str]] = frozenset()
"""Family of forms and kind of what benchrun still says wrongly."""
QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)


def says_the_truth(form: str, wrapper: str, random: Random) -> None:
    truth = draw(random, form, wrapper)
    with tempfile.TemporaryDirectory() as name:
        found = check(truth, Path(name))
    family = type(ALL[form]).__name__
    wrong = [finding for finding in found if (family, finding.kind) not in OPEN]
    assert not wrong, dumped(truth)


@pytest.mark.parametrize("logs", [100, pytest.param(300, marks=pytest.mark.thorough)])
def test_benchrun_says_the_truth_or_nothing(logs: int) -> None:
    forms, wrappers = st.sampled_from(sorted(ALL)), st.sampled_from(sorted(WRAPPERS))
    drawn = given(forms, wrappers, st.randoms(use_true_random=False))(says_the_truth)
    settings(max_examples=logs, deadline=None, derandomize=True, suppress_health_check=QUIET)(drawn)()


def test_servers_have_their_rates_or_none() -> None:
    with tempfile.TemporaryDirectory() as name:
        for truth in servers(60, 1):
            assert not check_served(truth, Path(name)), truth
