"""A small copy of a trace gives the fingerprint of the whole one, and holds no text that was not cleaned."""

import json
import lzma
from pathlib import Path
from typing import Any

import kept_runs
import pytest

from benchrun import api
from benchrun.capabilities.traces.kept import with_public_names
from benchrun.capabilities.traces.public import PublicNames
from benchrun.capabilities.traces.thin import thinned_trace
from benchrun.capabilities.traces.usecase import fingerprint_of_steps, nameless_fingerprint
from benchrun.errors import UserError
from benchrun.rundir.artifacts import FINGERPRINT, PROFILE
from benchrun.rundir.folder import RunDir
from benchrun.usecases.measurement import keep

TRACES = Path(__file__).parent / "traces"
FOUR = sorted((TRACES / "h200_llama_tp2_pp2_bf16").glob("*.json.xz"))
WHOLE = [*FOUR[:1], TRACES / "hta_a100_8rank_control.json.xz", TRACES / "tracelens_h100_qwen.json.xz"]
SECRET = "/home/someone/train.py"


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_the_small_copy_gives_the_same_fingerprint(path: Path, tmp_path: Path) -> None:
    public, small = PublicNames(), tmp_path / path.name
    whole = with_public_names(api.fingerprint_of([path])[0].model_dump(), public)
    small.write_bytes(thinned_trace(path, str, public))
    assert small.stat().st_size < 0.5 * path.stat().st_size
    copy = with_public_names(api.fingerprint_of([small])[0].model_dump(), public)
    assert [each["ranks"][0].pop("file") for each in (whole, copy)]
    assert copy == whole


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
    text = lzma.decompress(thinned_trace(path, lambda name: name.replace(SECRET, "PATH"), PublicNames())).decode()
    assert SECRET not in text
    kept = json.loads(text)
    assert [event["name"] for event in kept["traceEvents"]] == ["gemm PATH", "range_1"]
    assert kept["traceEvents"][0]["args"] == {"device": 0, "stream": 7, "correlation": 3}
    assert kept["distributedInfo"] == {"rank": 0}


OF_LIBRARIES = (
    *("ProfilerStep#7", "nccl:_all_gather_base", "Optimizer.step#FusedAdam.step", "[pl][profile]run_training_batch"),
    *("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "nvte_flash_attn_bwd", "aten::native_layer_norm"),
    *("FSDP::pre_backward (base_model.model.model.layers.24)", "autograd::engine::evaluate_function: _LinearBackward"),
    *("Torch-Compiled Region: 0/1", "ncclAllReduce, seq = 4", "global_step 12", "cub::DeviceScan::ExclusiveScan"),
)
OWN = ("acme_forward", "forward of project zeus", "node17 step", "/home/someone/model.py(3): forward", "AcmeAttention")


@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_names_of_libraries_stay(name: str) -> None:
    assert PublicNames().of_range(name) == name


def test_names_of_the_sites_code_become_numbers() -> None:
    public = PublicNames()
    assert [public.of_range(name) for name in OWN] == [f"range_{number}" for number in range(1, 6)]
    assert public.of_range("acme_forward#3") == "range_1"
    assert public.of_range("/home/someone/acme.py(3): next_batch") == "data_loader_1"
    assert public.of_kernel("void acme::secret<float>(int)") == "kernel_1"
    assert public.of_kernel("nvjet_tst_128x256") == "nvjet_tst_128x256"


def test_a_damaged_trace_has_no_small_copy(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "kernel"')
    with pytest.raises(UserError, match="is damaged or ends in the middle"):
        thinned_trace(path, str, PublicNames())


def test_keeping_a_profiled_run_keeps_small_traces_of_all_ranks(tmp_path: Path) -> None:
    source = kept_runs.first("llama3.1-70b-*")
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
    assert nameless_fingerprint(kept) == nameless_fingerprint(RunDir(run))
    assert (kept.path / FINGERPRINT).exists()
    assert len(fingerprint_of_steps([kept.path / PROFILE]).ranks) == 4


def profiled(tmp_path: Path, **traces: dict[str, Any]) -> RunDir:
    source = kept_runs.first("llama3.1-70b-*")
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
    range_ = {"cat": "user_annotation", "name": "epoch of zeus on gpunode7"}
    trace["traceEvents"] += [
        {**e, "ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": n} for n, e in ((5.0, function), (9.0, range_))
    ]
    kept = keep(profiled(tmp_path, **{"gpunode7_123.456.pt.trace": trace}), tmp_path / "kept")
    assert [file.name for file in (kept.path / PROFILE).iterdir()] == ["rank0.json.xz"]
    for file in kept.path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            content = lzma.decompress(content) if file.suffix == ".xz" else content
            assert b"gpunode7" not in content and b"someone" not in content and b"zeus" not in content, file.name


def test_a_trace_without_a_rank_takes_no_others_place(tmp_path: Path) -> None:
    traces = [json.loads(lzma.decompress(file.read_bytes())) for file in FOUR[:2]]
    kept = keep(profiled(tmp_path, a_rank1=traces[0], b=traces[1]), tmp_path / "kept")
    assert sorted(file.name for file in (kept.path / PROFILE).iterdir()) == ["rank0.json.xz", "rank1.json.xz"]


def test_places_in_groups_are_kept_in_the_order_of_the_files(tmp_path: Path) -> None:
    trace = json.loads(lzma.decompress(FOUR[0].read_bytes()))
    kept = keep(profiled(tmp_path, dp_rank_1_tp_rank_3=trace), tmp_path / "kept")
    assert [file.name for file in (kept.path / PROFILE).iterdir()] == ["rank0.json.xz"]


@pytest.mark.parametrize("event", [{"cat": 5}, {"cat": ["kernel"]}, {"cat": "user_annotation", "name": 5}])
def test_an_event_of_a_wrong_kind_has_no_small_copy(tmp_path: Path, event: dict[str, Any]) -> None:
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, **event}]}))
    with pytest.raises(UserError, match=r"rank0\.json: holds a damaged event: its (cat|name) is"):
        thinned_trace(path, str, PublicNames())


def test_a_damaged_trace_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    traces = [json.loads(lzma.decompress(file.read_bytes())) for file in FOUR[:2]]
    run, left_out = profiled(tmp_path, a_rank0=traces[0], a_rank1=traces[1]), []
    damaged = run.path / PROFILE / "a_rank1.json"
    damaged.write_bytes(damaged.read_bytes()[:-1000])
    kept = keep(run, tmp_path / "kept", left_out.append)
    assert [file.name for file in (kept.path / PROFILE).iterdir()] == ["rank0.json.xz"]
    assert len(left_out) == 1
    assert "a_rank1.json: is damaged or ends in the middle" in left_out[0]
    stored = json.loads((kept.path / FINGERPRINT).read_text())
    assert [rank["rank"] for rank in stored["ranks"]] == [0]
    assert any("a_rank1.json" in note for note in api.evidence(run).notes)
