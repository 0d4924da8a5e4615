"""What a log states of its batch and of its layout is checked against its own counts of samples and of GPUs."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import Reader
from benchrun.measure.summary import summarise

EVERY = 5
ROWS = 30


def fatal(lines: list[str]) -> str | None:
    reading = Reader()
    reading.feed("".join(lines).encode())
    reading.end()
    found = summarise(reading.log("x")).fatal
    return found.kind if found else None


def row(step: int, samples: int, batch: int, last: int = ROWS * EVERY) -> str:
    return (
        f" iteration {step:8d}/{last:8d} | consumed samples: {samples:12d} | elapsed time per iteration (ms): 100.0 |"
        f" global batch size: {batch:5d} | lm loss: {9 - step / 1000:.6E} |\n"
    )


def steady(batch: int, printed: int, every: int = EVERY) -> list[str]:
    return [row(n * every, n * every * batch, printed, ROWS * every) for n in range(1, ROWS + 1)]


@pytest.mark.parametrize("every", [1, EVERY])
@pytest.mark.parametrize(
    ("printed", "kind"), [(128, None), (127, None), (64, "contradictory_rate"), (256, "contradictory_rate")]
)
def test_the_consumed_samples_rise_by_the_printed_batch(every: int, printed: int, kind: str | None) -> None:
    assert fatal(steady(128, printed, every)) == kind


@settings(deadline=None, max_examples=30)
@given(ramp=st.lists(st.integers(1, 40), min_size=ROWS, max_size=ROWS), stop=st.integers(2, ROWS))
def test_a_ramp_of_batches_and_a_restart_are_no_contradiction(ramp: list[int], stop: int) -> None:
    batches = sorted(32 * size for size in ramp)
    samples = itertools.accumulate(EVERY * batch for batch in batches)
    lines = [row(n * EVERY, count, batch) for n, (count, batch) in enumerate(zip(samples, batches, strict=True), 1)]
    assert fatal(lines) is None
    assert fatal([*lines[:stop], *lines[stop // 2 :]]) is None


@pytest.mark.parametrize(
    ("tp", "pp", "cp", "kind"),
    [
        (4, 2, 1, None),
        (2, 2, 2, None),
        (4, 4, 1, "contradictory_layout"),
        (2, 2, 4, "contradictory_layout"),
        (3, 1, 1, "contradictory_layout"),
    ],
)
def test_the_number_of_gpus_holds_whole_copies_of_the_model(tp: int, pp: int, cp: int, kind: str | None) -> None:
    sizes = {"world_size": 8, "tensor_model_parallel_size": tp, "pipeline_model_parallel_size": pp}
    stated = {**sizes, "context_parallel_size": cp}.items()
    dump = [f"  {name} {'.' * (48 - len(name))} {value}\n" for name, value in stated]
    assert fatal([*dump, *steady(128, 128)]) == kind
