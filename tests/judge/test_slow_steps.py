"""A verdict looks at all the steps: slow ones are named in its first line, and many of them are no pass."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_limits import RECIPE, STEPS, TIME_S, codes, judged, line

from benchrun.frameworks.logs import parse_log
from benchrun.judge.uneven import slow_steps
from benchrun.measure.summary import summarise
from benchrun.show.terminal import summary_view
from benchrun.vocabulary import Exit

PATTERNS = {"periodic", "stalls", "uneven_steps", "two_speeds"}


def verdict_of(times: list[float]) -> tuple[str, set[str], Exit]:
    with TemporaryDirectory() as folder:
        rows = [line(n, time_s) for n, time_s in enumerate(times, 1)]
        found = judged(Path(folder), rows)
        assert not any(label.text not in found.headline for label in found.labels)
        return found.verdict, PATTERNS & {*codes(found)}, found.exit_code


@settings(deadline=None, max_examples=25)
@given(
    slow=st.lists(st.integers(10, STEPS - 1), min_size=1, max_size=15, unique=True),
    factor=st.floats(1.5, 20),
)
def test_slow_steps_that_take_much_of_the_time_are_no_pass(slow: list[int], factor: float) -> None:
    times = [TIME_S * (factor if n in slow else 1 + n % 3 / 1000) for n in range(STEPS)]
    inside = times[5:]
    lost = 1 - TIME_S * len(inside) / sum(inside)
    name, patterns, code = verdict_of(times)
    if lost > 0.11:
        assert (name, code) == ("inconclusive", Exit.INCONCLUSIVE)
    if lost > 0.03:
        assert len(patterns) == 1
    if lost < 0.09:
        assert name == "pass"


@pytest.mark.parametrize(
    ("every", "factor", "patterns"), [(10, 3, {"periodic"}), (10, 1.05, set()), (1000, 1, set()), (5, 11, {"periodic"})]
)
def test_every_so_many_steps_a_slow_one_is_a_period(every: int, factor: float, patterns: set[str]) -> None:
    times = [TIME_S * (factor if n % every == 3 else 1 + n % 7 / 1000) for n in range(STEPS)]
    assert verdict_of(times)[1] == patterns


@pytest.mark.parametrize("slow", [0.4, 0.5, 0.6])
def test_two_speeds_stand_in_the_first_line(slow: float) -> None:
    """Half of the steps take twice as long, in an order without a period."""
    times = [TIME_S * (2 if n * 0.618 % 1 < slow else 1 + n % 3 / 1000) for n in range(STEPS)]
    assert verdict_of(times) == ("inconclusive", {"two_speeds"}, Exit.INCONCLUSIVE)


def test_the_first_steps_are_warm_up(tmp_path: Path) -> None:
    rows = [line(n, 20 * TIME_S if n < 4 else TIME_S) for n in range(1, STEPS + 1)]
    found = judged(tmp_path, rows, RECIPE)
    assert (found.verdict, codes(found)) == ("pass", [])


def test_a_log_s_first_line_has_the_label_of_the_verdict(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    for slow, named in ((9, True), (1, False)):
        file.write_text("".join(line(n, TIME_S * (slow if n % 10 == 3 else 1)) for n in range(1, STEPS + 1)))
        summary = summarise(parse_log(file))
        label = slow_steps([summary])
        first = str(summary_view(summary)).splitlines()[0]
        assert (label is not None) == named
        assert first == (f"{file}  ({label.text})" if label else str(file))
