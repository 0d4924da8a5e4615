"""The kept fingerprint of a profile names nothing of the site or of its code."""

import json
import lzma
from pathlib import Path

import kept_runs
import pytest

from benchrun.capabilities.traces.public import PublicNames
from benchrun.rundir.artifacts import FINGERPRINT, PROFILE
from benchrun.rundir.folder import RunDir
from benchrun.usecases.measurement import keep

TRACES = Path(__file__).parent / "traces"
FOUR = sorted((TRACES / "h200_llama_tp2_pp2_bf16").glob("*.json.xz"))
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


def test_keeping_a_profiled_run_keeps_its_fingerprint_without_the_names_of_hosts(tmp_path: Path) -> None:
    source = kept_runs.first("llama3.1-70b-*")
    run = tmp_path / "runs" / source.name
    (run / PROFILE).mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file():
            (run / file.name).write_bytes(file.read_bytes())
    trace = json.loads(lzma.decompress(FOUR[0].read_bytes()))
    at = next(event["ts"] for event in trace["traceEvents"] if event.get("cat") == "kernel")
    function = {"cat": "python_function", "name": "/home/someone/data_loader.py(3): next_batch"}
    range_ = {"cat": "user_annotation", "name": "epoch of zeus on gpunode7"}
    trace["traceEvents"] += [
        {**e, "ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": n} for n, e in ((5.0, function), (9.0, range_))
    ]
    (run / PROFILE / "gpunode7_123.456.pt.trace.json").write_text(json.dumps(trace))
    kept = keep(RunDir(run), tmp_path / "kept")
    assert not (kept.path / PROFILE).exists()
    stored = json.loads((kept.path / FINGERPRINT).read_text())
    assert [rank["file"] for rank in stored["ranks"]] == ["rank0.json"]
    assert "range_1" in [each["name"] for each in stored["ranges"]]
    for file in kept.path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            content = lzma.decompress(content) if file.suffix == ".xz" else content
            assert b"gpunode7" not in content and b"someone" not in content and b"zeus" not in content, file.name
