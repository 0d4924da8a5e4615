"""Environment variables a run needs, each with the reason it is there."""

from __future__ import annotations

from benchrun.recipe.spec import Framework, Layout

WHY = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "kernels start in launch order, so that communication overlaps with compute",
    "HF_HUB_OFFLINE": "never ask a model hub while measuring",
    "NCCL_NVLS_ENABLE": "no NVLink SHARP: saves GPU memory, as in the published runs",
    "OMP_NUM_THREADS": "one CPU thread a rank: ranks share the machine",
    "PYTORCH_CUDA_ALLOC_CONF": "less fragmentation of GPU memory",
    "TOKENIZERS_PARALLELISM": "data-loader processes are forked after the tokenizer has run",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "frees communication buffers earlier",
    "TRANSFORMERS_OFFLINE": "never ask a model hub while measuring",
}


def framework_env(framework: Framework, gpu: str, layout: Layout) -> dict[str, str]:
    """What ``framework`` needs on ``gpu`` with ``layout``; recipe and cluster come on top."""
    hub = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"} if framework == "hf" else {}
    if gpu == "CPU":
        return {"OMP_NUM_THREADS": "1", **hub}
    env = {
        **hub,
        "NCCL_NVLS_ENABLE": "0",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
    }
    if layout.tp > 1 or layout.cp > 1:
        env["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    if framework not in ("megatron-core", "hf"):
        env["TRANSFORMERS_OFFLINE"] = "1"
    return env
