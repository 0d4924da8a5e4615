"""Logs of many steps: restarts, gaps and several files give the same rows however the bytes come."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from benchrun.frameworks.logs import Reader, parse_log
from benchrun.logs import Log, Step
from benchrun.logs.columns import Columns
from benchrun.logs.rows import TYPES
from benchrun.measure.summary import summarise
from benchrun.show.table import step_lines as dumped

Print = Callable[[Iterable[int]], Iterator[str]]


def megatron(steps: Iterable[int], seed: int = 1) -> Iterator[str]:
    chance = Random(seed)
    for step in steps:
        loss = "" if chance.random() < 0.03 else f" lm loss: {2 + 1 / (step + 1):.4f} |"
        skipped = int(chance.random() < 0.03)
        yield (
            f" iteration {step}/ 200 | elapsed time per iteration (ms): {3000 + 100 * chance.random():.1f} |"
            f" global batch size: {64 if step < 40 else 128} |{loss} number of skipped iterations: {skipped} |\n"
        )


def titan(steps: Iterable[int], seed: int = 1) -> Iterator[str]:
    chance = Random(seed)
    yield from (f"step: {n}  loss: 2.5  tps: {7000 + int(99 * chance.random())}  mfu: 15.6%\n" for n in steps)


def trainer(steps: Iterable[int], seed: int = 1) -> Iterator[str]:
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


def content(log: Log) -> tuple[object, ...]:
    """The rows, those that count, the problems and the summary."""
    document = summarise(log).model_dump(mode="json")
    return list(map(repr, log.steps)), list(map(repr, log.distinct)), log.problems, json.dumps(document, sort_keys=True)


def read(text: str, size: int) -> Log:
    """The log of a file that comes in pieces of ``size`` bytes."""
    reading, data = Reader(), text.encode()
    for at in range(0, len(data), size):
        reading.feed(data[at : at + size])
    reading.end()
    return reading.log("x")


@pytest.mark.parametrize("steps", [ONCE, RESTARTED, GAPS], ids=["once", "restarted", "gaps"])
@pytest.mark.parametrize("kind", [megatron, titan, trainer])
def test_blocks_of_any_size_hold_the_same_rows(kind: Print, steps: Iterable[int]) -> None:
    text = "".join(kind(steps))
    whole = content(read(text, len(text)))
    assert content(read(text, 2000)) == content(read(text, 5000)) == whole
    assert len(whole[0]) >= len(set(steps)) - 1


def test_a_step_of_two_files_is_the_later_files_filled_up_from_the_earlier(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("".join(megatron(RESTARTED, 1)))
    (tmp_path / "b.log").write_text("".join(megatron(RESTARTED[::2], 2)))
    first, second, both = (parse_log(tmp_path / name) for name in ("a.log", "b.log", "."))
    known = {(row.segment, row.step): row for row in first.steps} | {
        (row.segment, row.step): row for row in second.steps
    }
    assert [(row.segment, row.step) for row in both.steps] == sorted(known)
    assert [row.step_time_s for row in both.steps] == [known[key].step_time_s for key in sorted(known)]
    filled = {(row.segment, row.step) for row in first.steps if row.loss is not None}
    assert all(row.loss is not None for row in both.steps if (row.segment, row.step) in filled)


def test_a_step_that_two_ranks_print_is_one_row_wherever_it_is() -> None:
    text = list(megatron(range(1, 101)))
    late = [*text[:100], text[3], text[50], *megatron(range(101, 121))]
    log = read("".join(late), 2000)
    assert (len(log.steps), log.segments) == (120, 1)
    assert log.steps[3].line == 101
    assert log.steps[50].line == 102


def test_the_order_of_the_rows_is_that_of_the_last_of_each_step() -> None:
    log = read("".join(megatron(RESTARTED)), 2000)
    kept = {row.step: row for row in log.steps}
    assert list(log.distinct) == [kept[step] for step in sorted(kept)]


def test_the_rows_go_into_a_dump_one_by_one() -> None:
    log = read("".join(megatron(ONCE)), 2000)
    assert [json.loads(line)["step"] for line in dumped(log.steps, "jsonl")] == list(ONCE)


def test_a_row_can_be_changed_and_minus_one_is_a_value() -> None:
    columns = Columns(TYPES)
    for step in range(50):
        columns.append(Step(step, None, 1, loss=-1.0))
    columns.put(3, Step(3, None, 1))
    columns.put(49, Step(49, None, 1, loss=7.0))
    losses = [columns.row(index)[5] for index in (3, 4, 49)]
    assert (losses, columns.row(3)[0], len(columns)) == ([None, -1.0, 7.0], 3, 50)
