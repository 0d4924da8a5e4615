"""Causes by what logs say themselves: timers, reports on ranks, NCCL's lines, and where the speed changes; in the forms
of logs that people publish when they ask why their job is slow.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_explain_cli import document

DICE = random.Random(20261128)
STRAGGLER = (
    "0: INFO:megatron.core.utils:[2026-03-14 23:07:56] | MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 3468.20ms/0 | "
    "MnUtl/Rnk: 97%/8 | MxUtl/Rnk: 100%/6 | MnClk/Rnk: {mhz}MHz/{rank} | MxClk/Rnk: 1980MHz/0 | "
    "MnDRtt/Rnk: 14.27ms/23 | MxDRtt/Rnk: 34.65ms/3 | MnEtpt/Rnk: {slow}TF/{rank} | MxEtpt/Rnk: 297.32TF/8"
)


def step(number: int, ms: float, noise: float = 0.004) -> str:
    ms *= 1 + DICE.gauss(0, noise)
    return (
        f" iteration {number:8d}/  100000 | consumed samples: {64 * number:12d} "
        f"| elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.5E-04 | global batch size:    64 "
        f"| lm loss: {3 - number / 1000 + DICE.random() / 20:.6E}"
        " | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def one_line(**timers: float) -> str:
    words = (f"{name.replace('_', '-')}: {value:.2f}" for name, value in timers.items())
    return f"time (ms) | {' | '.join(words)}"


def over_ranks(**timers: tuple[float, float]) -> Iterator[str]:
    yield "(min, max) time across ranks (ms):"
    for name, (low, high) in timers.items():
        yield f"    {name.replace('_', '-') + ' ':.<48}: ({low:.2f}, {high:.2f})"


def by_rank(slow: int, factor: float) -> Iterator[str]:
    yield "times across ranks (ms):"
    for name, ms in (("forward-compute", 900), ("backward-compute", 1800)):
        yield f"  {name}:"
        for rank in range(8):
            yield f"     rank {rank:2d}: {ms * (factor if rank == slow else 1) + DICE.gauss(0, 4):.2f}"


def scores(slow: int, score: float) -> Iterator[str]:
    yield "[NeMo I 2026-03-07 22:46:39 straggler_det_callback:144] "
    yield "    GPU relative performance:"
    for rank in range(8):
        yield f"      Rank={rank} Node=n{rank // 4} Score={score if rank == slow else 0.98:.2f}"


def rises() -> Iterator[str]:
    for number in range(170, 260):
        yield step(number, 127000 if number < 210 else 151500, 0.012)


def passes() -> Iterator[str]:
    for number in range(1, 160):
        yield step(number, 3900 if 60 <= number < 90 else 3000)


def grows() -> Iterator[str]:
    for number in range(1, 200):
        yield step(number, 800 + 12 * number)


def loader() -> Iterator[str]:
    for number in range(1, 120):
        waits = 20 if number < 70 else 1600
        yield step(number, 3000 + waits)
        yield from over_ranks(forward_compute=(900 + waits, 910 + waits), batch_generator=(waits / 2, waits))


def sockets() -> Iterator[str]:
    yield "n1:1:1 [0] NCCL INFO NET/Socket : Using [0]ens3:10.0.0.2<0>"
    yield "n1:1:3 [0] NCCL INFO Channel 00 : 0[1b0] -> 1[1b0] [send] via NET/Socket/0"
    for number in range(1, 60):
        yield step(number, 2900)
        yield one_line(forward_compute=310, backward_compute=420, backward_params_all_reduce=2050, optimizer=90)


def slow_rank() -> Iterator[str]:
    for number in range(1, 100):
        yield step(number, 3000 if number < 40 else 3600)
        yield from by_rank(5, 1 if number < 40 else 1.25)


def cold_gpu() -> Iterator[str]:
    for number in range(1, 100):
        yield step(number, 3450)
        if number % 10 == 0:
            yield STRAGGLER.format(mhz=1410, rank=13, slow=226.02)


def slow_node() -> Iterator[str]:
    for number in range(1, 100):
        yield step(number, 3000 if number < 50 else 3700)
        if number % 10 == 0:
            yield from scores(6, 0.97 if number < 50 else 0.78)


def healthy() -> Iterator[str]:
    for number in range(1, 120):
        yield step(number, 3000, 0.01)
        yield from over_ranks(forward_compute=(900, 915), backward_compute=(1800, 1820), batch_generator=(2, 12))
        if number % 10 == 0:
            yield from scores(DICE.randrange(8), 0.96)
            yield STRAGGLER.format(mhz=1950, rank=DICE.randrange(16), slow=294.1)


CASES: dict[Callable[[], Iterator[str]], dict[str, Any]] = {
    rises: {"cause": "unknown", "since_step": 210},
    passes: {"cause": "unknown", "since_step": 60},
    grows: {"cause": "unknown"},
    loader: {"cause": "data", "since_step": 70},
    sockets: {"cause": "comm_bandwidth", "since_step": None},
    slow_rank: {"cause": "slow_rank", "rank": 5, "since_step": 40},
    cold_gpu: {"cause": "clocks", "rank": 13, "since_step": None},
    slow_node: {"cause": "slow_rank", "rank": 6, "host": "n1"},
}


def explained(tmp_path: Path, lines: Iterator[str]) -> dict[str, Any]:
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
    return document("explain", tmp_path / "job.log")


@pytest.mark.parametrize("log", CASES, ids=lambda log: log.__name__)
def test_the_log_itself_shows_the_cause(tmp_path: Path, log: Callable[[], Iterator[str]]) -> None:
    found = explained(tmp_path, log())
    first = found["causes"][0]
    assert first["kind"] == "fault"
    assert {name: first[name] for name in CASES[log]} == CASES[log]


def test_a_healthy_log_with_timers_and_reports_has_no_fault(tmp_path: Path) -> None:
    found = explained(tmp_path, healthy())
    assert [cause for cause in found["causes"] if cause["seconds"] >= 0.03 * found["step_time_s"]] == []
    assert found["stretches"] == []


def timed() -> Iterator[str]:
    for number in range(1, 60):
        yield step(number, 3000)
        yield one_line(
            forward_compute=700, forward_recv=100, backward_compute=1500, backward_send_forward_recv=200,
            backward_params_all_reduce=250, batch_generator=50, optimizer=100,
        )  # fmt: skip


def test_a_logs_own_timers_separate_its_step(tmp_path: Path) -> None:
    found = explained(tmp_path, timed())
    parts = {part["part"].partition(":")[0]: part["seconds"] for part in found["waterfall"]}
    assert parts["pipeline bubble"] == pytest.approx(0.3, abs=0.01)
    assert parts["exposed dp communication"] == pytest.approx(0.25, abs=0.01)
    assert parts["waiting for data"] == pytest.approx(0.05, abs=0.01)
    assert parts["computing beyond that"] == pytest.approx(2.2, abs=0.01)
    assert parts["not separated"] < 0.25
    (trace,) = [line for line in found["missing"] if "--trace FILE" in line]
    assert "benchrun explain" in trace


def checkpoint(after_ms: float, save_ms: float) -> Iterator[str]:
    for number in range(1, 100):
        yield step(number, after_ms if number == 51 else 1250)
        yield from over_ranks(forward_backward=(1100, 1110))
        if number == 50:
            yield from over_ranks(save_checkpoint=(save_ms, save_ms))


@pytest.mark.parametrize(("after_ms", "save_ms"), [(1600, 20300), (1600, 1300)])
def test_one_checkpoint_is_not_the_time_of_every_step(tmp_path: Path, after_ms: float, save_ms: float) -> None:
    found = explained(tmp_path, checkpoint(after_ms, save_ms))
    assert [cause for cause in found["causes"] if cause["seconds"] >= 0.03 * found["step_time_s"]] == []


@pytest.mark.parametrize(
    ("log", "bounds"), [(rises, [(None, 209), (210, 259)]), (passes, [(None, 59), (60, 89), (90, 159)])]
)
def test_the_run_is_split_where_its_speed_changes(
    tmp_path: Path, log: Callable[[], Iterator[str]], bounds: list[tuple[int | None, int]]
) -> None:
    found = explained(tmp_path, log())["stretches"]
    assert [(each["first_step"] if place else None, each["last_step"]) for place, each in enumerate(found)] == bounds
    assert [each["cause"] for each in found] == [None, "unknown", None][: len(bounds)]


def test_a_log_without_timers_says_which_would_name_the_cause(tmp_path: Path) -> None:
    assert any("--timing-log-option all" in line for line in explained(tmp_path, rises())["missing"])
