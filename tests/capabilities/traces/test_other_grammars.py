"""Small real traces in the grammar of other exporters and versions: the same numbers, or one clear error."""

import json
import lzma
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.rundir.fingerprint import RankShares

TRACES = Path(__file__).parent / "traces"
DOCUMENT = json.loads(lzma.decompress((TRACES / "h200_llama_tp2_pp2_bf16/trace-rank0.json.xz").read_bytes()))
EXPORT = lzma.decompress((TRACES / "nsys_2025_h200_slow_loader.sqlite.xz").read_bytes())
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
Event = dict[str, Any]


def kineto(folder: Path, change: Callable[[Event], Event] = dict, start: bytes = b"") -> list[RankShares]:
    document = {**DOCUMENT, "traceEvents": [change(event) for event in DOCUMENT["traceEvents"]]}
    (folder / "t.json").write_bytes(start + json.dumps(document).encode())
    return api.fingerprint_of([folder / "t.json"], "device")[0].ranks


def nsight(folder: Path, *queries: str) -> list[RankShares]:
    file = folder / "t.sqlite"
    file.write_bytes(EXPORT)
    connection = sqlite3.connect(file)
    for query in queries:
        connection.execute(query)
    connection.commit()
    connection.close()
    return api.fingerprint_of([file], "device")[0].ranks


def of_kernels(**changed: Any) -> Callable[[Event], Event]:
    return lambda event: {**event, **changed} if event.get("cat") == "kernel" else event


SAME: dict[str, Callable[[Event], Event]] = {
    "capitals": lambda event: {**event, "cat": str(event.get("cat", "")).title()},
    "another word": of_kernels(cat="cuda_kernel"),
    "two categories": of_kernels(cat="kernel,gpu"),
    "lengths as text": lambda event: {**event, "dur": str(event["dur"])} if "dur" in event else event,
}


@pytest.mark.parametrize("way", SAME)
def test_categories_and_times_in_other_words_are_the_same(tmp_path: Path, way: str) -> None:
    assert kineto(tmp_path, SAME[way]) == kineto(tmp_path)


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    assert kineto(tmp_path, start=b"\xef\xbb\xbf") == kineto(tmp_path)


@pytest.mark.parametrize("change", [{"name": None}, {"dur": None}, {"dur": True}, {"ts": None}, {"cat": ["kernel"]}])
def test_kernels_without_what_counts_are_refused(tmp_path: Path, change: Event) -> None:
    with pytest.raises(UserError):
        kineto(tmp_path, of_kernels(**change))


@pytest.mark.parametrize(
    "queries",
    [
        (f"alter table {KERNEL} rename to other", f"alter table other rename to {KERNEL.lower()}"),
        (f"alter table {KERNEL} rename to CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",),
        (f"alter table {KERNEL} drop column deviceId",),
        (f"alter table {KERNEL} drop column globalPid",),
        ("alter table NVTX_EVENTS add column other blob", "drop table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"),
    ],
)
def test_exports_with_other_tables_are_the_same(tmp_path: Path, queries: tuple[str, ...]) -> None:
    assert nsight(tmp_path, *queries) == nsight(tmp_path)


@pytest.mark.parametrize("query", ["drop table StringIds", f'update {KERNEL} set "end" = start - 5'])
def test_exports_without_what_counts_are_refused(tmp_path: Path, query: str) -> None:
    with pytest.raises(UserError, match="damaged"):
        nsight(tmp_path, query)


def test_without_links_nobody_knows_why_a_gpu_waits(tmp_path: Path) -> None:
    (rank,) = nsight(tmp_path, f"alter table {KERNEL} drop column correlationId")
    assert (rank.idle, rank.idle_by_cause) == (nsight(tmp_path)[0].idle, None)
