"""Marked ranges: what a process launches while one is open, and which belong to a window of whole steps."""

from pathlib import Path

import pytest
from made import call, fingerprint, host, kernel
from test_nsight import KERNEL, PROCESS, STRINGS, export, row

from benchrun import api

AUTOGRAD = 2
"""The thread that launches the backward pass."""


def test_a_range_counts_what_any_thread_of_its_process_launches(tmp_path: Path) -> None:
    other = {**call(35, 1, 4), "pid": 8}  # another process
    calls = [call(12, 1, 1), call(20, 1, 2, thread=AUTOGRAD), call(60, 1, 3, thread=AUTOGRAD), other]
    kernels = [kernel(100 * link - 80, 10 * link, link=link) for link in (1, 2, 3, 4)]
    (backward,) = fingerprint(tmp_path, [host(10, 40, "backward"), *calls, *kernels]).ranges
    assert (backward.name, backward.count) == ("backward", 1)
    assert backward.host_s == pytest.approx(40e-6)
    assert backward.device_s == pytest.approx(30e-6)


def test_a_range_of_nsight_counts_what_any_thread_of_its_process_launches(tmp_path: Path) -> None:
    names = [*STRINGS, {"id": 9, "value": "backward"}]
    threads = (PROCESS | 1, PROCESS | AUTOGRAD, (8 << 24) | 1)
    calls = [
        {"start": 10, "end": 11, "nameId": 2, "globalTid": thread, "correlationId": link}
        for link, thread in enumerate(threads, 1)
    ]
    kernels = [row(100 * link - 80, 110 * link - 80, demangledName=1, correlationId=link) for link in (1, 2, 3)]
    ranges = [{"start": 5, "end": 50, "eventType": 59, "textId": 9, "globalTid": PROCESS | 1}]
    tables = {KERNEL: kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, "NVTX_EVENTS": ranges, "StringIds": names}
    (backward,) = api.fingerprint_of([export(tmp_path / "t.sqlite", **tables)])[0].ranges
    assert backward.device_s == pytest.approx(30e-9)


def test_whole_steps_count_only_their_own_ranges(tmp_path: Path) -> None:
    """The device runs 300 us behind the host, so that the window ends within a step that does not count."""
    events = [host(0, 6000, "epoch")]
    for step in range(6):
        events += [host(1000 * step, 1000, f"ProfilerStep#{step}"), host(1000 * step + 400, 100, "loss")]
        events += [call(1000 * step + 10, 2, step), kernel(1000 * step + 300, 500, link=step)]
    result = fingerprint(tmp_path, events, window="steps")
    assert result.steps == 4
    assert {each.name: each.count for each in result.ranges} == {"ProfilerStep": 4, "epoch": 1, "loss": 4}
    times = {each.name: (each.host_s, each.device_s) for each in result.ranges}
    assert times["ProfilerStep"] == times["epoch"] == (pytest.approx(4e-3), pytest.approx(2e-3))
