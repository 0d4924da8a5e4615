"""The tables of Nsight Systems' exports, which change by version and exist only if they have rows."""

import lzma
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.capabilities.traces.nsight import read_nsight
from benchrun.errors import UserError
from benchrun.rundir.fingerprint import RankShares

PROCESS = 7 << 24
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"


def export(path: Path, **tables: list[Any]) -> Path:
    """An export with these tables: each a list of rows with the same keys."""
    connection = sqlite3.connect(path)
    for name, rows in tables.items():
        keys = list(rows[0])
        columns = ", ".join(f'"{key}"' for key in keys)
        connection.execute(f"create table {name} ({columns})")
        connection.executemany(
            f"insert into {name} values ({', '.join('?' * len(keys))})", [list(row.values()) for row in rows]
        )
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("missing", [("start",), ("end",), ("start", "end")])
@pytest.mark.parametrize("kind", ["KERNEL", "MEMCPY", "RUNTIME"])
def test_a_table_without_times_is_a_damaged_export(tmp_path: Path, kind: str, missing: tuple[str, ...]) -> None:
    event = {key: value for key, value in row(0, 5, shortName=1, nameId=1, globalTid=7).items() if key not in missing}
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": [row(0, 5, shortName=1)], f"CUPTI_ACTIVITY_KIND_{kind}": [event]}
    with pytest.raises(UserError, match=f"{kind} has no column {' nor '.join(sorted(missing))}"):
        list(read_nsight(export(tmp_path / "x.sqlite", **tables)))


def test_a_text_where_a_number_is_expected_is_a_damaged_export(tmp_path: Path) -> None:
    event = {**row(0, 5), "deviceId": "first"}
    with pytest.raises(UserError, match="damaged"):
        list(read_nsight(export(tmp_path / "x.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=[event])))


@pytest.mark.parametrize("value", [None, b"gemm", 3])
def test_a_string_that_is_no_text_is_no_name(tmp_path: Path, value: Any) -> None:
    strings = [*STRINGS, {"id": 77, "value": value}]
    nameless = [row(0, 5, demangledName=77)]
    with pytest.raises(UserError, match="most kernels have no name") as error:
        api.fingerprint_of([export(tmp_path / "x.sqlite", StringIds=strings, **{KERNEL: nameless})])
    assert error.value.exit_code == 2
    measured(export(tmp_path / "y.sqlite", StringIds=strings, **{KERNEL: KERNELS}))


def row(start: int, end: int, **columns: int) -> dict[str, int]:
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "streamId": 7,
        "correlationId": 1,
        "globalPid": PROCESS,
        **columns,
    }


STRINGS = [{"id": 1, "value": "ampere_sgemm_128x64_nn"}, {"id": 2, "value": "cudaLaunchKernel_v7000"}]
STRINGS += [{"id": 3, "value": "clock_nanosleep"}, {"id": 4, "value": "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}]
KERNELS = [row(0, 400, demangledName=1, shortName=1), row(900, 1000, demangledName=1, shortName=1, correlationId=2)]


def measured(path: Path) -> RankShares:
    (rank,) = api.fingerprint_of([path])[0].ranks
    return rank


def test_kernels_alone_are_enough(tmp_path: Path) -> None:
    rank = measured(export(tmp_path / "t.sqlite", StringIds=STRINGS, **{KERNEL: KERNELS}))
    assert (rank.compute, rank.idle, rank.idle_by_cause) == (0.5, 0.5, None)
    assert (rank.classes.matmul, rank.window_s) == (0.5, 1e-6)


def test_an_old_version_has_fewer_columns(tmp_path: Path) -> None:
    rows = [
        {"start": 0, "end": 500, "deviceId": 0, "shortName": 4},
        {"start": 500, "end": 1000, "deviceId": 0, "shortName": 1},
    ]
    rank = measured(export(tmp_path / "t.sqlite", StringIds=STRINGS, **{KERNEL: rows}))
    assert (rank.compute, rank.exposed_comm) == (0.5, 0.5)


def test_copies_between_gpus_are_communication_and_graphs_compute(tmp_path: Path) -> None:
    copies = [
        row(0, 100, copyKind=10),
        row(100, 300, copyKind=1),
        row(300, 400, copyKind=8, srcDeviceId=0, dstDeviceId=1),
    ]
    keys = {"srcDeviceId": None, "dstDeviceId": None}
    copies = [{**keys, **each} for each in copies]
    copies = [{key: each[key] for key in copies[0]} for each in copies]
    tables = {
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "CUPTI_ACTIVITY_KIND_MEMSET": [row(400, 500, value=0)],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [row(500, 1000, graphId=3)],
    }
    result = api.fingerprint_of([export(tmp_path / "t.sqlite", **tables)])[0]
    (rank,) = result.ranks
    assert (rank.compute, rank.exposed_comm, rank.copies, rank.idle) == (0.5, 0.2, 0.3, 0)
    assert any("graph" in note for note in result.notes)


def test_each_gpu_of_each_process_is_a_rank(tmp_path: Path) -> None:
    rows = [row(0, 100, demangledName=1, deviceId=d, globalPid=p << 24) for d, p in ((1, 9), (0, 8), (0, 7))]
    result = api.fingerprint_of([export(tmp_path / "t.sqlite", StringIds=STRINGS, **{KERNEL: rows})])[0]
    assert [(rank.rank, rank.device) for rank in result.ranks] == [(0, 0), (1, 0), (2, 1)]


def test_a_process_with_few_events_beside_a_rank_is_left_out_with_a_note(tmp_path: Path) -> None:
    """Process 5 compiles on GPU 0, and process 9 makes its context there."""
    counts = {(0, 5): 1, (0, 7): 100, (0, 8): 2, (0, 9): 1, (1, 9): 200}
    rows = [
        row(10 * number, 10 * number + 5, demangledName=1, deviceId=device, globalPid=process << 24)
        for (device, process), count in counts.items()
        for number in range(count)
    ]
    result = api.fingerprint_of([export(tmp_path / "t.sqlite", StringIds=STRINGS, **{KERNEL: rows})])[0]
    assert [(rank.rank, rank.device) for rank in result.ranks] == [(0, 0), (1, 0), (2, 1)]
    (note,) = (note for note in result.notes if "left out" in note)
    assert "process 5 " in note
    assert "1 of its events ran on GPU 0" in note


def test_a_sleep_of_the_launching_thread_is_a_wait_for_data(tmp_path: Path) -> None:
    thread = PROCESS | 7
    call = {"nameId": 2, "globalTid": thread}
    calls = [{"start": 0, "end": 1, **call, "correlationId": 1}, {"start": 800, "end": 810, **call, "correlationId": 2}]
    waits = [{"start": 500, "end": 700, "nameId": 3, "globalTid": thread}]
    waits += [{"start": 400, "end": 800, "nameId": 3, "globalTid": thread + 1}]  # another thread
    tables = {KERNEL: KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, "OSRT_API": waits, "StringIds": STRINGS}
    causes = measured(export(tmp_path / "t.sqlite", **tables)).idle_by_cause
    assert causes.model_dump() == {"host": 0.3, "launch_gap": 0, "data": 0.2, "sync": 0}


def test_a_wait_inside_a_cuda_call_is_the_drivers(tmp_path: Path) -> None:
    thread = PROCESS | 7
    spans = ((0, 1, 1), (450, 750, 5), (800, 810, 2))
    calls = [{"start": s, "end": e, "nameId": 2, "globalTid": thread, "correlationId": link} for s, e, link in spans]
    waits = [{"start": 500, "end": 700, "nameId": 3, "globalTid": thread}]
    tables = {KERNEL: KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, "OSRT_API": waits, "StringIds": STRINGS}
    assert measured(export(tmp_path / "t.sqlite", **tables)).idle_by_cause.data == 0


def test_a_compressed_export_is_read_and_a_damaged_one_named(tmp_path: Path) -> None:
    whole = export(tmp_path / "t.sqlite", StringIds=STRINGS, **{KERNEL: KERNELS}).read_bytes()
    (tmp_path / "t.sqlite.xz").write_bytes(lzma.compress(whole))
    assert measured(tmp_path / "t.sqlite.xz").compute == 0.5
    (tmp_path / "cut.sqlite").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"cut\.sqlite"):
        api.fingerprint_of([tmp_path / "cut.sqlite"])


def test_a_report_that_only_nsys_can_read_says_how_to_export_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "t.nsys-rep").write_bytes(b"x")
    with pytest.raises(UserError) as error:
        api.fingerprint_of([tmp_path / "t.nsys-rep"])
    assert "nsys export" in error.value.hint


@pytest.mark.parametrize("in_directory", [False, True])
def test_a_report_is_exported_where_nsys_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_directory: bool
) -> None:
    """The program nsys is stood in for by one that takes the same command line."""
    whole = export(tmp_path / "whole.db", StringIds=STRINGS, **{KERNEL: KERNELS})
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1 $2 $3 $4" = "export --type sqlite --output" ] && cp {whole} "$5"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    report = tmp_path / "run" / "rank0.nsys-rep"
    report.parent.mkdir()
    report.write_bytes(b"x")
    assert measured(report.parent if in_directory else report).compute == 0.5
    assert sorted(path.name for path in report.parent.iterdir()) == ["rank0.nsys-rep"]


def test_a_report_that_nsys_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nsys"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "t.nsys-rep").write_bytes(b"x")
    with pytest.raises(UserError, match=r"t\.nsys-rep.*broken"):
        api.fingerprint_of([tmp_path / "t.nsys-rep"])
