"""benchrun says the truth of a generated log, or nothing, or ends with 4: a hundred logs in `make test`.

`python -m tests.generated --logs 50000 --seed 1` checks more, and keeps what fails.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import Reader
from benchrun.measure.summary import summarise

from .bulk import check, check_served, dumped, loaded, servers, truths
from .draw import draw
from .forms import ALL
from .truth import PRECISIONS
from .wrap import WRAPPERS, wrapped
from .write import lines, log

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


@pytest.mark.parametrize("form", sorted(ALL))
def test_a_last_line_that_was_cut_gives_no_half_a_number(form: str) -> None:
    """And one that lacks its line end alone is of a run that is over, in any wrapper."""
    for seed, wrapper in enumerate(("plain", "srun-torchrun", "cloud")):
        truth = replace(draw(Random(seed), form, wrapper, scenario="sound"), restart=None, evaluations=())
        written = lines(truth)
        rows = [index for index, line in enumerate(written) if line.part == "row"]
        data = wrapped(written[: rows[-1] + 1], wrapper, truth.gpus, truth.seed).rstrip()
        whole = read(data + b"\n")
        assert read(data)[0] == whole[0], dumped(truth)
        begin = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        before = read(data[:begin])
        for at in Random(seed).sample(range(begin, len(data)), 5):
            for value, *known in zip(read(data[:at])[1:], whole[1:], before[1:], strict=True):
                assert value in known or rb"\r" in data[begin:], dumped(truth)


def read(data: bytes) -> tuple[Any, ...]:
    """Whether the run is over; its time of a step, rate and last loss."""
    reader = Reader()
    reader.feed(data)
    reader.end()
    found = summarise(reader.log("job.log"))
    rate, time = found.tokens_per_s_per_gpu, found.step_time_s
    return found.complete, time and time.median, rate and rate.median, found.final_loss


# The generator itself: every form writes, the same seed gives the same logs, a truth survives its file.

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
