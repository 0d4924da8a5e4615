"""Where a step's time goes: kernels by name, overlaps counted once. tests/cli/test_whole_way.py profiles a step."""

import gc
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchrun.recipes.resolve import resolve  # noqa: E402
from benchrun.recipes.select import Request  # noqa: E402
from benchrun.worker import breakdown, cpu  # noqa: E402
from benchrun.worker.breakdown import is_kernel, kind, split  # noqa: E402
from benchrun.worker.data import order  # noqa: E402
from benchrun.worker.host import HostClock  # noqa: E402

NAMES = {
    # As profilers name them: H200, torch 2.11, cuDNN 9, transformer-engine 2.11, NCCL 2.28; and torch on a CPU.
    "nvjet_sm90_qqtst_320x128_128x3_1x2_h_bz_coopB_TNT": "matmul",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64": "matmul",
    "aten::addmm": "matmul",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1": "attention",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication",
    "gloo:all_reduce": "communication",
    "triton_poi_fused_add_cat_mul_rsub_sigmoid_silu_split_0": "other",
    "void transformer_engine::multi_tensor_adam": "other",
    "Memcpy DtoD (Device -> Device)": "other",
    "aten::mm_backward_something": "other",
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_a_kernels_name_gives_its_kind(name: str, expected: str) -> None:
    assert kind(name) == expected


@pytest.mark.parametrize(
    ("name", "annotation", "gpu", "expected"),
    [
        ("aten::add", False, False, True),
        ("gloo:all_reduce", True, False, True),
        ("Memcpy DtoD (Device -> Device)", False, True, True),
        ("Optimizer.step#AdamW.step", True, False, False),
        ("Optimizer.step#AdamW.step", True, True, False),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", True, False, False),
        ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", False, False, False),
    ],
)
def test_a_range_around_kernels_is_none(name: str, annotation: bool, gpu: bool, expected: bool) -> None:
    """A sleep within an optimizer's step was called a kernel bound by memory."""
    assert is_kernel(name, annotation=annotation, gpu=gpu) is expected


def test_overlaps_count_once_and_communication_only_where_nothing_hides_it() -> None:
    kernels = [
        *(("matmul", 0, 4), ("other", 3, 6), ("communication", 5, 10), ("attention", 8, 9)),
        *(("matmul", 20, 21), ("matmul", 20, 22)),
    ]
    assert split(kernels) == {"matmul_s": 6, "attention_s": 1, "other_s": 2, "communication_s": 3, "hidden_s": 2}


def test_kernels_that_follow_at_once_leave_no_gap_and_none_at_all_is_no_time() -> None:
    assert split([("other", 0, 1), ("other", 1, 2)])["other_s"] == 2
    assert set(split([]).values()) == {0.0}


def test_the_profiled_step_reads_samples_of_the_run_and_changes_none_of_them() -> None:
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 2))
    steps = spec.training.steps
    for rank in range(2):
        assert order(spec, rank, steps + 1) == order(spec, rank, steps) + order(spec, rank, 1)


def test_a_profiler_that_saw_no_kernel_leaves_no_breakdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CUPTI may be missing, or another profiler hold it: the step's time would all be called idle."""

    class BlindProfiler:
        def __init__(self, **_: Any) -> None:
            pass

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None:
            pass

        def events(self) -> list[Any]:
            return []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.profiler, "profile", BlindProfiler)
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=("training.breakdown=true",)))
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    host = HostClock(spec)
    try:
        breakdown.measure(spec, int, host)
    finally:
        gc.callbacks.remove(host._collected)
        torch.distributed.destroy_process_group()
    assert list(tmp_path.iterdir()) == []
    assert "no breakdown, the profiler saw no kernel" in capsys.readouterr().out


def test_an_all_gather_without_a_group_is_one_of_all_ranks() -> None:
    """As torch has it, and as the breakdown calls it."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        parts, own = [torch.empty(3)], torch.ones(3)
        cpu._all_gather(parts, own)
        assert parts[0].equal(own)
    finally:
        torch.distributed.destroy_process_group()
