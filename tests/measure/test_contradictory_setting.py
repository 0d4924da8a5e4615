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


@pytest.mark.parametrize(("stated", "notes"), [(128, 0), (256, 1)])
def test_a_batch_that_the_rows_do_not_print_is_named(stated: int, notes: int) -> None:
    reading = Reader()
    reading.feed("".join([*dumped(global_batch_size=stated), *steady(128, 128)]).encode())
    reading.end()
    found = summarise(reading.log("x"))
    details = [each.detail for each in found.problems if each.kind == "other_batch"]
    named = f"the log states a global batch of {stated}, its rows print 128, which counts"
    assert (found.fatal, found.global_batch_size, details) == (None, 128, [named] * notes)


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


def dumped(**sizes: int) -> list[str]:
    return [f"  {name} {'.' * (48 - len(name))} {value}\n" for name, value in sizes.items()]


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("cp", [None, 1, 2])
@pytest.mark.parametrize("dp", [1, 2, 3, 4, 8, 16])
def test_the_gpus_are_the_product_of_all_degrees(tp: int, cp: int | None, dp: int) -> None:
    """GPUs are a multiple of the degrees that are known: older programs have no context parallelism."""
    sizes = {"world_size": 8, "tensor_model_parallel_size": tp, "pipeline_model_parallel_size": 1}
    stated = {**sizes, **({"context_parallel_size": cp} if cp else {}), "data_parallel_size": dp}
    sound = tp * cp * dp == 8 if cp else 8 % (tp * dp) == 0
    assert fatal([*dumped(**stated), *steady(128, 128)]) == (None if sound else "contradictory_layout")


@pytest.mark.parametrize(("mbs", "dp", "sound"), [(1, 8, True), (4, 8, True), (3, 8, False), (32, 8, False)])
def test_the_batch_is_a_multiple_of_what_the_ranks_take_at_a_time(mbs: int, dp: int, sound: bool) -> None:
    kind = None if sound else "contradictory_layout"
    sizes = dumped(micro_batch_size=mbs, data_parallel_size=dp, global_batch_size=128)
    assert fatal([*sizes, *steady(128, 128)]) == kind
    fits = dumped(micro_batch_size=mbs, data_parallel_size=dp, decrease_batch_size_if_needed=1)
    assert fatal([*fits, *dumped(global_batch_size=128), *steady(128, 128)]) is None
    rank = f"train_micro_batch_size_per_gpu  {mbs}"
    config = ["train_batch_size ............. 128", rank, f"world_size ................... {dp}"]
    lines = [f"[2026-05-15 19:00:00,000] [INFO] [config.py:1001:print]   {text}\n" for text in config]
    for step in range(1, ROWS + 1):
        rates = "RunningAvgSamplesPerSec=64.0, CurrSamplesPerSec=64.01"
        lines.append(f"[timer.py:260:stop] epoch=0/micro_step={step}/global_step={step}, {rates}\n")
    assert fatal(lines) == kind
    titan = "[titan] 2026-05-15 19:00:00,000 - root - INFO - "
    lines = [f"{titan}Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard={dp}, cp=1, tp=1, ep=1\n"]
    batch = f"local batch size {mbs}, global batch size 128, gradient accumulation steps 1"
    lines.append(f"{titan}Trainer is initialized with {batch}, sequence length 8192, total steps {ROWS} (warmup 2)\n")
    for step in range(1, ROWS + 1):
        lines.append(f"{titan}step: {step:2}  loss: {9 - step / 10:.5f}  tps: 8,192  tflops: 300.00  mfu: 30.33%\n")
    assert fatal(lines) == kind
