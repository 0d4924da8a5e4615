"""Environment variables that several frameworks share."""

from __future__ import annotations

from benchrun.frameworks.base import Variable
from benchrun.spec.runspec import TrainingSpec

NO_HUB = "never ask a model hub while measuring"
FORKED = "data-loader processes are forked after the tokenizer has run"
NO_NVLS = {"NCCL_NVLS_ENABLE": Variable("0", "no NVLink SHARP: saves GPU memory, as in the published runs")}
EXPANDABLE_SEGMENTS = {
    "PYTORCH_CUDA_ALLOC_CONF": Variable("expandable_segments:True", "less fragmentation of GPU memory"),
}
# With more, the threads of all ranks wait actively for work and take the cores from the threads that launch kernels:
# on four H200 with 64 cores, picking the 4096 tokens of a sequence took 51 ms.
ONE_THREAD = {"OMP_NUM_THREADS": Variable("1", "one CPU thread a rank: ranks share the machine")}
FUSED_ATTENTION = {"NVTE_FUSED_ATTN": Variable("1", "cuDNN's fused attention, the faster one on Hopper")}
LAUNCH_ORDER = {
    "CUDA_DEVICE_MAX_CONNECTIONS": Variable(
        "1", "kernels start in launch order, so that communication overlaps with compute"
    ),
}


def communication(spec: TrainingSpec) -> dict[str, Variable]:
    """For NCCL's kernels beside those of the computation, on PyTorch."""
    buffers = {"TORCH_NCCL_AVOID_RECORD_STREAMS": Variable("1", "frees communication buffers earlier")}
    return buffers | (LAUNCH_ORDER if spec.layout.tp > 1 or spec.layout.cp > 1 else {})
