"""Stacks and processes: who waits, who is stopped, and who is only slow."""

import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from jobs import Fault, document, groups_of, job, write

from benchrun.capabilities.hangs.find import YOUNG_S, at_work, hang_of
from benchrun.capabilities.hangs.states import main_stack

THREAD = """Thread 0x00007f1 (most recent call first):
  File "/w/benchrun/worker/hang.py", line 45 in _listen
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

"""
IN_COLLECTIVE = "/p/torch/distributed/distributed_c10d.py", 3252, "all_reduce"
IN_LOADER = "/p/torch/utils/data/dataloader.py", 1275, "_try_get_data"
IN_SAVE = "/p/torch/serialization.py", 943, "save"
IN_IMPORT = "<frozen importlib._bootstrap>", 1176, "_find_and_load"
IN_COMPILER = "/p/torch/_inductor/compile_fx.py", 12, "compile_fx"
IN_SYNCHRONIZE = "/p/torch/cuda/__init__.py", 1000, "synchronize"
IN_LOCK = "/usr/lib/python3.11/threading.py", 327, "wait"
SLEEPING = "/home/me/train.py", 12, "work"


def stack(*frames: tuple[str, int, str]) -> str:
    """As faulthandler writes it, with a thread before the main one."""
    lines = [
        f'  File "{file}", line {line} in {name}' for file, line, name in (*frames, ("/home/me/t.py", 1, "<module>"))
    ]
    return THREAD + "Current thread 0x00007f2 (most recent call first):\n" + "\n".join(lines) + "\n"


def put(folder: Path, rank: int, frames: Any = (), state: str = "S", **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    if frames:
        (folder / f"stack_{rank}.txt").write_text(stack(frames))
    facts = {"rank": rank, "host": "n1", "state": state, "window_s": 2.0, **more}
    (folder / f"rank_{rank}.json").write_text(json.dumps(facts))


def found(folder: Path) -> Any:
    return hang_of(folder.iterdir())


def test_the_main_thread_is_the_one_that_no_thread_started() -> None:
    frames = main_stack(stack(IN_COLLECTIVE, SLEEPING))
    assert [(frame.file, int(frame.line), frame.function) for frame in frames[:2]] == [IN_COLLECTIVE, SLEEPING]


def test_stacks_of_py_spy_are_read_too() -> None:
    text = (
        'Process 7: python t.py\n\nThread 7 (idle): "MainThread"\n    work (train.py:12)\n    <module> (train.py:30)\n'
    )
    assert [str(frame) for frame in main_stack(text)] == ["work (train.py:12)", "<module> (train.py:30)"]


def test_without_dumps_the_rank_that_is_in_no_collective_is_named(tmp_path: Path) -> None:
    for rank in (0, 2, 3):
        put(tmp_path, rank, IN_COLLECTIVE)
    put(tmp_path, 1, SLEEPING)
    hang = found(tmp_path)
    assert (hang.ranks, hang.where, hang.collective) == ([1], "host", None)
    assert "rank 1 (host)" in hang.sentence
    assert any("work (home/me/train.py:12)" in line for line in hang.evidence)


def test_most_ranks_in_no_collective_are_not_named(tmp_path: Path) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, SLEEPING)
    put(tmp_path, 2, SLEEPING)
    assert found(tmp_path).ranks == []


def test_a_stopped_process_gives_no_stack_and_is_named(tmp_path: Path) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, state="T")
    hang = found(tmp_path)
    assert (hang.ranks, hang.where) == ([1], "host")
    assert any("stopped" in line for line in hang.evidence)


@pytest.mark.parametrize("state", ["T", "Z"])
def test_a_dead_loader(tmp_path: Path, state: str) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, IN_LOADER, children=[{"state": "S"}, {"state": state}])
    hang = found(tmp_path)
    assert hang.ranks == [1]
    assert any("loads" in line for line in hang.evidence)


SLOW = {
    "a loader that computes": (IN_LOADER, {"children": [{"state": "R", "cpu_s": 1.9}]}),
    "a loader that reads": (IN_LOADER, {"children": [{"state": "D", "io_bytes": 10**7}]}),
    "a loader whose server is slow": (IN_LOADER, {"children": [{"state": "S", "io_bytes": 4_000}]}),
    "a loader that receives": (IN_LOADER, {"children": [{"state": "S", "received": 1}]}),
    "a checkpoint that is written": (IN_SAVE, {"io_bytes": 10**8}),
    "a first step that compiles": (IN_COMPILER, {"cpu_s": 1.8, "state": "R"}),
    "an import": (("<frozen importlib._bootstrap>", 1176, "_find_and_load"), {"cpu_s": 1.0}),
    "an import that gets no core": (
        ("<frozen importlib._bootstrap>", 1176, "_find_and_load"),
        {"place": "futex_do_wait"},
    ),
    "a checkpoint of the user's own": (SLEEPING, {"io_bytes": 10**8}),
    "a child that compiles": (SLEEPING, {"children": [{"state": "S"}, {"state": "R", "cpu_s": 0.3}]}),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("recorded", [False, True])
def test_what_is_slow_and_moves_on_does_not_hang(tmp_path: Path, name: str, recorded: bool) -> None:
    frames, facts = SLOW[name]
    if recorded:
        write(tmp_path, 2, 2, Fault("host", (1,)))
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, frames, **facts)
    assert found(tmp_path) is None
    put(tmp_path, 1, frames, state="D")
    assert found(tmp_path).ranks == [1]


@pytest.mark.parametrize(("frames", "place"), [(IN_LOCK, ""), (SLEEPING, "futex_wait_queue")])
def test_the_only_rank_of_a_job_that_waits_for_a_lock_hangs(tmp_path: Path, frames: Any, place: str) -> None:
    """Nobody waits for it, and all of its calls have ended."""
    write(tmp_path, 1, 1, None)
    put(tmp_path, 0, frames, place=place)
    assert found(tmp_path) is None
    hang = hang_of(tmp_path.iterdir(), deadline_s=30, size=1)
    assert (hang.ranks, hang.where, hang.collective) == ([0], "host", None)
    assert "rank 0 (host) does not go on" in hang.sentence
    assert any(f"rank 0 is in {frames[2]}" in line for line in hang.evidence)
    (tmp_path / "device_0.txt").write_text("computes")
    assert hang_of(tmp_path.iterdir(), deadline_s=30, size=1) is None


@pytest.mark.parametrize("name", [*SLOW, "a loop", "a socket"])
def test_the_only_rank_of_a_job_that_is_at_work_does_not_hang(tmp_path: Path, name: str) -> None:
    """What a peer sends, and when, nobody sees."""
    more = {"a loop": {"state": "R", "cpu_s": 2.0}, "a socket": {"place": "wait_woken"}}
    frames, facts = SLOW.get(name) or (SLEEPING, more[name])
    put(tmp_path, 0, frames, **{"place": "futex_wait", **facts})
    assert hang_of(tmp_path.iterdir(), deadline_s=30, size=1) is None


IN_SUBPROCESS = "/usr/lib/python3.11/subprocess.py", 2004, "_try_wait"


@pytest.mark.parametrize(
    ("frames", "facts", "words"),
    [
        *((frames, facts, "loads data in") for frames, facts in list(SLOW.values())[:4]),
        (IN_SAVE, {"io_bytes": 10**8}, "saves a checkpoint in save"),
        (SLEEPING, {"io_bytes": 10**8}, "reads or writes in work"),
        (SLEEPING, {"cpu_s": 2.0}, "computes (slow work, or an endless loop) in work"),
        (IN_SUBPROCESS, {"io_bytes": 10**8}, "waits for a process of its own in _try_wait"),
        ((), {"children": [{"state": "R", "cpu_s": 1.9}]}, "waits for a process of its own"),
        ((), {}, "waits"),
    ],
)
def test_what_a_rank_of_a_slow_job_does(tmp_path: Path, frames: Any, facts: Any, words: str) -> None:
    write(tmp_path, 2, 2, Fault("host", (1,)))
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, frames, **facts)
    waiting, other = at_work(tmp_path.iterdir()).split("; ")
    assert waiting == "rank 0 waits in all_reduce 9 of group tp for rank 1"
    assert other.startswith(f"rank 1: {words}")


def test_a_rank_that_waits_for_importing_ones_is_no_hang(tmp_path: Path) -> None:
    put(tmp_path, 0, ("/p/torch/distributed/distributed_c10d.py", 2169, "_new_process_group_helper"))
    for rank in (1, 2):
        put(tmp_path, rank, SLEEPING)
    assert found(tmp_path) is not None
    for rank in (1, 2):
        put(tmp_path, rank, IN_IMPORT)
    assert found(tmp_path) is None


def test_what_a_loader_waits_in_is_said(tmp_path: Path) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, IN_LOADER, children=[{"state": "S", "place": "wait_for_partner"}])
    assert "rank 1 waits for data; its other processes are in wait_for_partner" in found(tmp_path).evidence


def test_a_quiet_checkpoint_ends_by_itself_and_a_quiet_loader_does_not(tmp_path: Path) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, IN_SAVE)
    assert found(tmp_path) is None
    put(tmp_path, 1, IN_LOADER)
    assert found(tmp_path).ranks == [1]


@pytest.mark.parametrize("frames", [SLEEPING, IN_SYNCHRONIZE])
def test_a_rank_that_computes_for_ever_hangs(tmp_path: Path, frames: tuple[str, int, str]) -> None:
    """Waiting for a device takes a core too."""
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, frames, state="R", cpu_s=2.0)
    assert found(tmp_path).ranks == [1]


@pytest.mark.parametrize("recorded", [False, True])
def test_a_rank_that_computes_hangs_only_if_no_other_thread_of_it_runs(tmp_path: Path, recorded: bool) -> None:
    """Slow work and an endless loop look alike; one that keeps Python's lock stops the rank's other threads."""
    if recorded:
        write(tmp_path, 2, 2, Fault("host", (1,)))
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, SLEEPING, state="R", cpu_s=2.0)
    hang = found(tmp_path)
    assert hang.ranks == [1] and any("keeps Python's lock" in line for line in hang.evidence)
    answered = (
        stack(SLEEPING).replace("Current thread", "Thread").replace("Thread 0x00007f1", "Current thread 0x00007f1")
    )
    (tmp_path / "stack_1.txt").write_text(answered)
    assert found(tmp_path) is None
    assert "endless loop" in at_work(tmp_path.iterdir())
    put(tmp_path, 1, SLEEPING)
    assert found(tmp_path).ranks == [1]


def test_a_checkpoint_into_a_full_pipe_hangs_until_somebody_reads_it(tmp_path: Path) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, IN_SAVE, place="anon_pipe_write", children=[{"state": "R", "io_bytes": 10**5}])
    assert found(tmp_path) is None
    put(tmp_path, 1, IN_SAVE, place="anon_pipe_write", children=[{"state": "S"}])
    assert found(tmp_path).ranks == [1]


def test_a_rank_that_collects_garbage_is_slow(tmp_path: Path) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, SLEEPING, state="R", cpu_s=2.0)
    stack_file = tmp_path / "stack_1.txt"
    stack_file.write_text(
        "Current thread 0x01 (most recent call first):\n  Garbage-collecting\n" + stack_file.read_text()
    )
    assert found(tmp_path) is None
    put(tmp_path, 1, SLEEPING, state="S")
    assert found(tmp_path).ranks == [1]


def test_a_heartbeat_is_no_progress(tmp_path: Path) -> None:
    put(tmp_path, 0, IN_COLLECTIVE)
    child = {"state": "S", "cpu_s": 0.02, "io_bytes": 900, "received": 0}
    put(tmp_path, 1, SLEEPING, io_bytes=8000, children=[child])
    assert found(tmp_path).ranks == [1]


def test_ranks_in_calls_that_all_have_ended_do_not_hang(tmp_path: Path) -> None:
    """Asked in a slow start, they were at work when the recorders were written."""
    write(tmp_path, 2, 2, None)
    for rank in range(2):
        put(tmp_path, rank, IN_COLLECTIVE, state="R", cpu_s=1.3)
    assert found(tmp_path) is None
    (tmp_path / "_dump_1").unlink()
    assert found(tmp_path) is not None


def test_a_rank_in_a_call_that_nobody_records_is_not_the_cause(tmp_path: Path) -> None:
    """gloo records no transfers: the rank waits in one, for a rank that stopped."""
    write(tmp_path, 3, 1, Fault("host", (1, 2)))
    put(tmp_path, 0, IN_COLLECTIVE)
    put(tmp_path, 1, IN_COLLECTIVE)
    put(tmp_path, 2, SLEEPING)
    assert found(tmp_path).ranks == [2]


@pytest.mark.parametrize(
    ("age_s", "limit_s", "hangs"), [(1, 600, False), (YOUNG_S + 60, 600, True), (10, 10, True), (7, 10, False)]
)
def test_dumps_of_a_job_at_work(tmp_path: Path, age_s: float, limit_s: int, hangs: bool) -> None:
    """A call is young when the dump is written, whenever the logs beside it were: it may end a moment later. One that
    waits for its whole time limit is not.
    """
    (tmp_path / "rank.log").write_text("")
    os.utime(tmp_path / "rank.log", (time.time() + 900, time.time() + 900))
    groups = groups_of(4, 2)
    for rank in job(4, 2, Fault("host", (3,))):
        dump = document(rank, groups)
        for entry in dump["entries"]:
            entry["time_created_ns"] = int((time.time() - age_s) * 1e9)
            entry["timeout_ms"] = 1000 * limit_s
        (tmp_path / f"rank_{rank.number}.json").write_text(json.dumps(dump))
    assert (found(tmp_path) is not None) is hangs


@pytest.mark.parametrize(("age_s", "deadline_s", "hangs"), [(1, 45, False), (30, 45, True), (8, 15, True)])
def test_a_job_that_was_asked_may_have_moved_on(tmp_path: Path, age_s: float, deadline_s: int, hangs: bool) -> None:
    """An evaluation after the last step, a slow start: their calls are younger than the deadline that passed."""
    groups = groups_of(2, 2)
    for rank in job(2, 2, Fault("host", (1,))):
        dump = document(rank, groups)
        for entry in dump["entries"]:
            entry["time_created_ns"] = int((time.time() - age_s) * 1e9)
        (tmp_path / f"dump_{rank.number}.json").write_text(json.dumps(dump))
        put(tmp_path, rank.number, SLEEPING, "R", cpu_s=1.9)
    assert (hang_of(tmp_path.iterdir(), deadline_s) is not None) == hangs


def test_damaged_files_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, 4, 2, Fault("host", (3,)))
    (tmp_path / "rank_0.json").write_text("{")
    (tmp_path / "rank_1.json").write_text('{"rank": "x"}')
    (tmp_path / "stack_2.txt").write_bytes(bytes(range(256)))
    assert found(tmp_path).ranks == [3]


def test_a_second_rank_that_stands_still_before_anybody_waits_for_it(tmp_path: Path) -> None:
    """Ranks 0 and 3 make no call any more; rank 1 waits for rank 0 in their group, rank 2 for nobody."""
    write(tmp_path, 4, 2, Fault("host", (0,)))
    for rank in (1, 2):
        put(tmp_path, rank, IN_COLLECTIVE)
    groups = groups_of(4, 2)
    ended = job(4, 2, None)
    (tmp_path / "_dump_3").write_bytes(pickle.dumps(document(ended[3], groups), 2))
    for rank in (0, 3):
        put(tmp_path, rank, SLEEPING)
    assert found(tmp_path).ranks == [0, 3]
    put(tmp_path, 3, SLEEPING, state="R", cpu_s=2.0)
    assert found(tmp_path).ranks == [0]


def test_the_last_rank_that_is_left_and_waits_for_a_lock_hangs(tmp_path: Path) -> None:
    """The others have ended: nobody waits for it."""
    write(tmp_path, 2, 2, None)
    put(tmp_path, 1, SLEEPING, place="futex_do_wait")
    assert hang_of(tmp_path.iterdir(), deadline_s=30, size=2).ranks == [1]
    put(tmp_path, 0, SLEEPING, state="R", cpu_s=2.0)
    assert hang_of(tmp_path.iterdir(), deadline_s=30, size=2) is None
