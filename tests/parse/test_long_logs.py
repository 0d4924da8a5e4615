"""Rows that do not fit in memory are the rows that do: the same steps, problems and numbers, through a file."""

from __future__ import annotations

import json
from random import Random
from unittest.mock import patch

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.metrics import streams
from benchrun.metrics.summary import summarise
from benchrun.parse import Reader
from benchrun.parse.columns import Columns
from benchrun.parse.records import Step
from benchrun.report.steps import lines as dumped

SMALL = 8
"""Rows of a block: a hundred rows are a long log then."""


def megatron(steps, seed=1):
    chance = Random(seed)
    for step in steps:
        loss = "" if chance.random() < 0.03 else f" lm loss: {2 + 1 / (step + 1):.4f} |"
        skipped = int(chance.random() < 0.03)
        yield (
            f" iteration {step}/ 200 | elapsed time per iteration (ms): {3000 + 100 * chance.random():.1f} |"
            f" global batch size: {64 if step < 40 else 128} |{loss} number of skipped iterations: {skipped} |\n"
        )


def titan(steps, seed=1):
    chance = Random(seed)
    yield from (f"step: {n}  loss: 2.5  tps: {7000 + int(99 * chance.random())}  mfu: 15.6%\n" for n in steps)


def trainer(steps, seed=1):
    chance, clock = Random(seed), 0
    for step in steps:
        clock += chance.choice((0, 17, 18))
        yield (
            f"{{'loss': '{2 + 1 / step:.3f}', 'epoch': '{step / 100:.3f}', 'global_step/max_steps': '{step}/200',"
            f" 'elapsed_time': '{clock // 60}m {clock % 60}s'}}\n"
        )


ONCE = range(1, 151)
RESTARTED = [*range(1, 90), *range(61, 120), *range(20, 30), *range(110, 151, 2), *range(113, 151)]
GAPS = [*range(1, 50), *range(60, 70), 90, *range(91, 151)]


@pytest.fixture
def small_blocks():
    with patch("benchrun.parse.columns.ROWS", SMALL):
        yield


def told(log):
    """The rows, those that count, the problems and the summary."""
    document = summarise(log).model_dump(mode="json")
    return list(map(repr, log.steps)), list(map(repr, log.distinct)), log.problems, json.dumps(document, sort_keys=True)


def read(text):
    reading = Reader()
    data = text.encode()
    for at in range(0, len(data), 2000):
        reading.feed(data[at : at + 2000])
    reading.end()
    return reading.log("x")


@pytest.mark.parametrize("steps", [ONCE, RESTARTED, GAPS], ids=["once", "restarted", "gaps"])
@pytest.mark.parametrize("kind", [megatron, titan, trainer])
def test_a_long_log_says_what_it_says_in_memory(kind, steps, small_blocks):
    log = read("".join(kind(steps)))
    assert log.steps.columns._written > len(log.steps) - 3 * SMALL
    found = told(log)
    with patch("benchrun.parse.columns.ROWS", 1 << 15):
        assert found == told(read("".join(kind(steps))))


def test_files_of_several_ranks_are_merged_in_blocks(tmp_path, small_blocks):
    (tmp_path / "a.log").write_text("".join(megatron(RESTARTED, 1)))
    (tmp_path / "b.log").write_text("".join(megatron(RESTARTED[::2], 2)))
    found = told(parse_log(tmp_path))
    with patch("benchrun.parse.columns.ROWS", 1 << 15):
        assert found == told(parse_log(tmp_path))


def test_a_step_that_two_ranks_print_is_one_row_wherever_it_is(small_blocks):
    text = list(megatron(range(1, 101)))
    late = [*text[:100], text[3], text[50], *megatron(range(101, 121))]
    log = read("".join(late))
    assert (len(log.steps), log.segments) == (120, 1)
    assert log.steps[3].line == 101
    assert log.steps[50].line == 102


def test_the_order_of_the_rows_is_that_of_the_last_of_each_step(small_blocks):
    kept = {row.step: row for row in read("".join(megatron(RESTARTED))).steps}
    assert list(read("".join(megatron(RESTARTED))).distinct) == [kept[step] for step in sorted(kept)]


def test_the_rows_go_into_a_dump_one_by_one(small_blocks):
    log = read("".join(megatron(ONCE)))
    assert [json.loads(line)["step"] for line in dumped(log.steps, "jsonl")] == list(ONCE)


def test_a_full_disk_is_the_users_to_mend(small_blocks):
    from benchrun.errors import UserError

    with patch("os.pwrite", side_effect=OSError(28, "No space left on device")), pytest.raises(UserError) as raised:
        read("".join(megatron(ONCE)))
    assert "TMPDIR" in str(raised.value.hint)


def test_a_value_in_the_file_can_be_changed(small_blocks):
    columns = Columns()
    for step in range(50):
        columns.append(Step(step, None, 1, loss=2.0), 0)
    columns.put("loss", 3, None)
    columns.put("loss", 49, 7.0)
    assert (columns.values(3)[5], columns.at("step", 3), columns.values(49)[5], len(columns)) == (None, 3, 7.0, 50)


@pytest.mark.parametrize("weights", [[1], [10], [1, 2, 7]])
def test_statistics_of_a_stream_are_those_of_the_list(weights):
    chance = Random(3)
    values = [chance.choice((3.0, 3.25, chance.lognormvariate(1, 2), 1e-9, 5e8)) for _ in range(1000)]
    blocks = [
        (
            streams.np.array(values[at : at + 70]),
            streams.np.array([weights[i % len(weights)] for i in range(at, at + 70)]),
        )
        for at in range(0, 980, 70)
    ]
    exact, middle = streams.spread_of(lambda: blocks), streams.median_of(lambda: blocks)
    with patch.object(streams, "IN_MEMORY", 10):
        found = streams.spread_of(lambda: blocks)
        assert streams.median_of(lambda: blocks) == middle
    assert (found.median, found.p5, found.p95) == (exact.median, pytest.approx(exact.p5), pytest.approx(exact.p95))
    assert (found.mean, found.stdev) == (pytest.approx(exact.mean, rel=1e-12), pytest.approx(exact.stdev, rel=1e-12))
