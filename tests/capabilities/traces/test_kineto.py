"""The grammar of Kineto's files, and files that are broken."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from made import call, copy, fingerprint, host, kernel, write

from benchrun import api
from benchrun.capabilities.traces import json_stream
from benchrun.errors import UserError

EVENTS = [kernel(0, 60), kernel(80, 20)]


def shares(path: Path) -> tuple[float, float]:
    (rank,) = api.fingerprint_of([path])[0].ranks
    return rank.compute, rank.idle


def text_of(**properties: Any) -> str:
    return json.dumps({"schemaVersion": 1, **properties, "traceEvents": EVENTS})


@pytest.mark.parametrize(
    "text",
    [
        text_of(),
        text_of(note='a text with "traceEvents" in it'),
        json.dumps(EVENTS),
        json.dumps({"traceEvents": EVENTS, "traceName": "x"}, indent=4),
        text_of().replace('"stream": 7', '"stream": 7, "rate": NaN, "other": Infinity'),
        text_of().replace('"stream": 7', '"stream": "7"'),
        text_of().replace("gemm", "ge\tmm"),  # a control character
        text_of().replace('"cat": "kernel"', '"cat": "Kernel"'),
    ],
    ids=["plain", "the key as text", "a bare array", "indented", "NaN", "numbers as text", "tab", "until 1.11"],
)
def test_every_way_of_writing_gives_the_same(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    assert shares(tmp_path / "t.json") == (0.8, 0.2)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text.encode()))
    assert shares(tmp_path / "t.json.gz") == (0.8, 0.2)


@pytest.mark.parametrize("piece", [1, 300, 5000])
def test_the_size_of_pieces_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(json_stream, "PIECE", piece)
    nested = {"args": {"list": [{"a": 1}, {"b": "}, {"}]}, "name": "}, {", "ph": "i"}
    events = []
    for number in range(2000):
        events += [kernel(10 * number, 5, f"kernel {{{number % 3}}}, {{", link=number), nested]
    path = write(tmp_path / "t.json", events, last="kept")
    source = json_stream.JsonTrace(path)
    assert [event for batch in source.batches() for event in batch] == events
    assert source.properties["schemaVersion"] == 1


@pytest.mark.parametrize("piece", [300, 1 << 20])
def test_events_that_are_skipped_as_text_hide_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(json_stream, "PIECE", piece)
    events = []
    for number in range(200):
        events += [host(10 * number, 1, "aten::add", "cpu_op", text=['a} }, {"ph": "X", "b', "}", "{"][number % 3])]
        events += [{"ph": "s", "id": number, "ts": 10 * number, "cat": "ac2g", "name": "a} }, {b"}]
        events += [call(10 * number, 1, number, "cudaEventQuery"), call(10 * number, 1, number)]
        events += [kernel(10 * number + 2, 5, "k {}} }, {", link=number)]
    result = fingerprint(tmp_path, [*events, kernel(1995, 5)])
    (rank,) = result.ranks
    assert rank.compute == pytest.approx((200 * 5 + 3) / 1998, abs=1e-6)
    assert rank.idle_by_cause.host == pytest.approx(199 * 5 / 1998, abs=1e-6)


def test_an_event_of_another_layout_is_not_skipped_with_the_one_before_it(tmp_path: Path) -> None:
    skipped = json.dumps(host(0, 1, "aten::add", "cpu_op"))
    compact = json.dumps({"name": "gemm", **kernel(0, 5)}, separators=(",", ":"))
    events = [skipped, compact, skipped, json.dumps(kernel(8, 2)), *[skipped] * 9000]
    path = tmp_path / "t.json"
    path.write_text(f'{{"traceEvents": [{", ".join(events * 2)}]}}')
    assert path.stat().st_size > json_stream.PIECE
    assert shares(path) == (0.7, 0.3)


def test_a_large_file_without_an_end_of_an_event_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "LARGEST_EVENT", 3 << 20)
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"name": "' + "x" * (5 << 20) + '"}]}')
    with pytest.raises(UserError, match="no end of an event"):
        api.fingerprint_of([path])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "no json at all",
        '{"traceEvents": [',
        text_of()[:-40],
        '{"traceEvents": 3}',
        '{"traceEvents": [1, 2]}',
        '{"traceEvents": [{"cat": "kernel", "ph": "X", "name": "a", "ts": "now", "dur": 1, "args": {}}]}',
        '{"traceEvents": [{"cat": "kernel", "ph": "X", "name": "a", "dur": 1, "args": null}]}',
        '{"traceEvents": []}',
        json.dumps({"traceEvents": [host(0, 1, "only the host")]}),
        "\x00\x01\x02",
        "SQLite format 3\x00" + "x" * 200,
    ],
)
def test_a_broken_file_gives_one_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(UserError) as error:
        api.fingerprint_of([tmp_path / "t.json"])
    assert "t.json" in str(error.value)
    assert error.value.exit_code == 2


def test_a_compressed_file_that_ends_early_is_named_too(tmp_path: Path) -> None:
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text_of().encode())[:-12])
    with pytest.raises(UserError, match=r"t\.json\.gz"):
        api.fingerprint_of([tmp_path / "t.json.gz"])


def test_a_directory_holds_other_files_too(tmp_path: Path) -> None:
    write(tmp_path / "rank_1.json", EVENTS)
    write(tmp_path / "rank_0.json", EVENTS)
    (tmp_path / "config.json").write_text('{"recipe": "x"}')
    result, left_out = api.fingerprint_of([tmp_path])
    assert [(rank.rank, rank.file[-11:]) for rank in result.ranks] == [(0, "rank_0.json"), (1, "rank_1.json")]
    assert [path.name for path in left_out] == ["config.json"]


PLACES = [f"dp_rank_{dp}_tp_rank_{tp}.json" for dp in (0, 1) for tp in (0, 1)]


def test_a_name_with_places_in_groups_states_no_rank(tmp_path: Path) -> None:
    for name in PLACES:
        write(tmp_path / name, EVENTS)
    result = api.fingerprint_of([tmp_path])[0]
    assert [(rank.rank, Path(rank.file).name) for rank in result.ranks] == [*enumerate(PLACES)]
    assert api.fingerprint_of([tmp_path / PLACES[3]])[0].ranks[0].rank == 0


def test_the_rank_in_the_file_counts_before_that_of_its_name(tmp_path: Path) -> None:
    for rank, name in zip((3, 1, 2, 0), PLACES, strict=True):
        write(tmp_path / name, EVENTS, distributedInfo={"rank": rank})
    write(tmp_path / "rank_0.json", EVENTS, distributedInfo={"rank": 4})
    result = api.fingerprint_of([tmp_path])[0]
    names = [PLACES[3], PLACES[1], PLACES[2], PLACES[0], "rank_0.json"]
    assert [(rank.rank, Path(rank.file).name) for rank in result.ranks] == [*enumerate(names)]


def test_two_traces_of_one_rank_are_of_two_profiles(tmp_path: Path) -> None:
    for step in (10, 20):
        (tmp_path / f"iteration_{step}").mkdir()
        write(tmp_path / f"iteration_{step}" / "rank0_trace.json", EVENTS, distributedInfo={"rank": 0})
    with pytest.raises(UserError) as error:
        api.fingerprint_of([tmp_path])
    assert "iteration_10" in str(error.value)
    assert "iteration_20" in str(error.value)


def test_a_process_with_two_gpus_is_two_ranks(tmp_path: Path) -> None:
    result = fingerprint(tmp_path, [kernel(0, 10), kernel(0, 30, device=1), kernel(50, 10, device=1)])
    assert [(rank.rank, rank.device, rank.compute) for rank in result.ranks] == [(0, 0, 1), (1, 1, 4 / 6)]


def test_the_window_of_steps_goes_from_the_first_kernel_of_one_step_to_that_of_another(tmp_path: Path) -> None:
    events = []
    for step in range(6):
        events += [host(1000 * step, 900, f"ProfilerStep#{step}")]
        events += [{**host(1000 * step + 10, 2, "cudaLaunchKernel", "cuda_runtime", correlation=step)}]
        # The device runs 300 us behind the host; the first step also compiles.
        events += [kernel(1000 * step + 300, 950 if step == 0 else 500, link=step)]
    result = fingerprint(tmp_path, events, window="steps")
    (rank,) = result.ranks
    assert (result.steps, rank.window_s) == (4, pytest.approx(4e-3))
    assert (rank.compute, rank.idle) == (0.5, 0.5)


def test_a_step_begins_with_its_first_kernel_on_any_stream(tmp_path: Path) -> None:
    events = []
    for step in range(3):
        start = 1000 * step
        events += [
            host(start, 900, f"ProfilerStep#{step}"),
            call(start + 1, 1, 2 * step),
            call(start + 2, 1, 2 * step + 1),
        ]
        # The kernel that is launched second starts first; in the last step 50 us sooner than in the others.
        second = start + (50 if step == 2 else 100)
        events += [kernel(start + 300, 100, link=2 * step), kernel(second, 100, link=2 * step + 1, stream=8)]
    (rank,) = fingerprint(tmp_path, events, window="steps").ranks
    assert rank.window_s == pytest.approx(1.95e-3)


def test_annotations_of_the_device_are_no_work_of_it(tmp_path: Path) -> None:
    annotation = {**copy(0, 1000, "nccl:all_reduce"), "cat": "gpu_user_annotation"}
    (rank,) = fingerprint(tmp_path, [*EVENTS, annotation]).ranks
    assert (rank.compute, rank.idle) == (0.8, 0.2)


def test_of_nested_marks_of_steps_the_outer_ones_count(tmp_path: Path) -> None:
    events = []
    for step in range(6):
        start = 1000 * step
        events += [host(start, 1000, f"ProfilerStep#{step}"), host(start + 200, 700, f"step {step}")]
        events += [kernel(start, 500)]
    result = fingerprint(tmp_path, events, window="steps")
    assert (result.steps, result.ranks[0].window_s) == (4, pytest.approx(4e-3))
