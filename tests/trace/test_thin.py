"""A small copy of a trace gives the fingerprint of the whole one, and holds no text that was not cleaned."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from benchrun import app, paths
from benchrun.app.measurement import keep
from benchrun.app.traces import fingerprint_of_steps, shares
from benchrun.errors import UserError
from benchrun.launch.rundir import RunDir
from benchrun.spec.artifacts import FINGERPRINT, PROFILE
from benchrun.trace.thin import thinned

TRACES = Path(__file__).parent / "traces"
FOUR = sorted((TRACES / "h200_llama_tp2_pp2_bf16").glob("*.json.xz"))
WHOLE = [*FOUR[:1], TRACES / "hta_a100_8rank_control.json.xz", TRACES / "tracelens_h100_qwen.json.xz"]
SECRET = "/home/someone/train.py"


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_the_small_copy_gives_the_same_fingerprint(path: Path, tmp_path: Path) -> None:
    small = tmp_path / path.name
    small.write_bytes(thinned(path, str))
    assert small.stat().st_size < 0.5 * path.stat().st_size
    one, other = (app.fingerprint_of([file])[0].model_dump() for file in (path, small))
    for each in (one, other):
        each["ranks"][0].pop("file")
    assert one == other


def test_every_text_is_cleaned_and_what_is_not_needed_is_gone(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": f"gemm {SECRET}", "pid": 0, "tid": 7, "ts": 1.0, "dur": 2.0}
    events = [
        {**kernel, "args": {"device": 0, "stream": 7, "correlation": 3, "grid": [1, 1, 1]}},
        {"ph": "X", "cat": "user_annotation", "name": f"step 1 {SECRET}", "pid": 1, "tid": 1, "ts": 0.0, "dur": 4.0},
        {"ph": "X", "cat": "python_function", "name": f"{SECRET}(3): train", "pid": 1, "tid": 1, "ts": 0.0, "dur": 4.0},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": SECRET}},
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceName": SECRET, "distributedInfo": {"rank": 0}, "traceEvents": events}))
    text = lzma.decompress(thinned(path, lambda name: name.replace(SECRET, "PATH"))).decode()
    assert SECRET not in text
    kept = json.loads(text)
    assert [event["name"] for event in kept["traceEvents"]] == ["gemm PATH", "step 1 PATH"]
    assert kept["traceEvents"][0]["args"] == {"device": 0, "stream": 7, "correlation": 3}
    assert kept["distributedInfo"] == {"rank": 0}


def test_a_damaged_trace_has_no_small_copy(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "kernel"')
    with pytest.raises(UserError, match="is damaged or ends in the middle"):
        thinned(path, str)


def test_keeping_a_profiled_run_keeps_small_traces_of_all_ranks(tmp_path: Path) -> None:
    source = next(spec.parent for spec in paths.MEASURED.glob("llama3.1-70b-*/spec.json"))
    run = tmp_path / "runs" / source.name
    (run / PROFILE).mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file():
            (run / file.name).write_bytes(file.read_bytes())
    for rank, file in enumerate(FOUR):
        (run / PROFILE / f"gpunode7_{rank}.{file.name}").write_bytes(file.read_bytes())
    kept = keep(RunDir(run), tmp_path / "kept")
    files = sorted((kept.path / PROFILE).iterdir())
    assert [file.name for file in files] == [f"rank{rank}.json.xz" for rank in range(4)]
    assert shares(kept) == shares(RunDir(run))
    assert (kept.path / FINGERPRINT).exists()
    assert len(fingerprint_of_steps([kept.path / PROFILE]).ranks) == 4


def profiled(tmp_path: Path, **traces: dict[str, Any]) -> RunDir:
    source = next(spec.parent for spec in paths.MEASURED.glob("llama3.1-70b-*/spec.json"))
    run = tmp_path / "runs" / source.name
    (run / PROFILE).mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file():
            (run / file.name).write_bytes(file.read_bytes())
    for name, trace in traces.items():
        (run / PROFILE / f"{name}.json").write_text(json.dumps(trace))
    return RunDir(run)


def test_the_name_of_a_host_is_nowhere_in_what_is_kept(tmp_path: Path) -> None:
    trace = json.loads(lzma.decompress(FOUR[0].read_bytes()))
    at = next(event["ts"] for event in trace["traceEvents"] if event.get("cat") == "kernel")
    function = {"cat": "python_function", "name": "/home/someone/data_loader.py(3): next_batch"}
    range_ = {"cat": "user_annotation", "name": "epoch on gpunode7"}
    trace["traceEvents"] += [
        {**e, "ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": n} for n, e in ((5.0, function), (9.0, range_))
    ]
    kept = keep(profiled(tmp_path, **{"gpunode7_123.456.pt.trace": trace}), tmp_path / "kept")
    assert [file.name for file in (kept.path / PROFILE).iterdir()] == ["rank0.json.xz"]
    for file in kept.path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            content = lzma.decompress(content) if file.suffix == ".xz" else content
            assert b"gpunode7" not in content and b"someone" not in content, file.name


def test_a_trace_without_a_rank_takes_no_others_place(tmp_path: Path) -> None:
    traces = [json.loads(lzma.decompress(file.read_bytes())) for file in FOUR[:2]]
    kept = keep(profiled(tmp_path, a_rank1=traces[0], b=traces[1]), tmp_path / "kept")
    assert sorted(file.name for file in (kept.path / PROFILE).iterdir()) == ["rank0.json.xz", "rank1.json.xz"]
