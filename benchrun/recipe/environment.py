"""Environment variables a run needs, each with the reason it is there."""

from __future__ import annotations

from benchrun.spec.cluster import Framework
from benchrun.spec.layout import Layout
from benchrun.spec.training import Training
from benchrun.vocabulary import Precision

WHY = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "kernels start in launch order, so that communication overlaps with compute",
    "ENABLE_FP8": "transformer-engine's FP8 in PaXML",
    "ENABLE_TE": "transformer-engine's layers in PaXML, fused attention among them",
    "HF_HUB_OFFLINE": "never ask a model hub while measuring",
    "HYDRA_FULL_ERROR": "a wrong key of the configuration is named",
    "NCCL_GRAPH_REGISTER": "CUDA graphs and memory segments that grow: registered buffers would move",
    "NCCL_NVLS_ENABLE": "no NVLink SHARP: saves GPU memory, as in the published runs",
    "NCCL_P2P_NET_CHUNKSIZE": "larger pieces between pipeline stages: less time in their kernels",
    "NVTE_ASYNC_AMAX_REDUCTION": "the largest values of FP8 tensors are gathered while the GPU computes",
    "NVTE_BWD_LAYERNORM_SM_MARGIN": "leaves processors of the GPU free for communication",
    "NVTE_DP_AMAX_REDUCE_INTERVAL": "the largest values of FP8 tensors are not gathered over data-parallel ranks",
    "NVTE_FLASH_ATTN": "attention may be flash or cuDNN's: transformer-engine takes the faster",
    "NVTE_FUSED_ATTN": "cuDNN's fused attention, the faster one on Hopper",
    "NVTE_FWD_LAYERNORM_SM_MARGIN": "leaves processors of the GPU free for communication",
    "OMP_NUM_THREADS": "one CPU thread a rank: ranks share the machine",
    "PYTORCH_CUDA_ALLOC_CONF": "less fragmentation of GPU memory",
    "TOKENIZERS_PARALLELISM": "data-loader processes are forked after the tokenizer has run",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "frees communication buffers earlier",
    "TORCH_NCCL_HIGH_PRIORITY": "communication kernels go first",
    "TRANSFORMERS_OFFLINE": "never ask a model hub while measuring",
    "UB_SKIPMC": "userbuffers over CUDA IPC, not over NVLink multicast, which not every machine allows",
    "VOCAB_PATH": "PaXML asks for one on import; synthetic tokens read none",
    "XLA_FLAGS": "communication overlaps with compute and is gathered into large pieces, as in the published runs",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "how much of the GPU's memory JAX takes at once",
}

_XLA = {
    # NVIDIA/dgxc-benchmarking v24.11.1: maxtext/configure.sh and paxml/configure.sh.
    "maxtext": (
        "enable_triton_gemm=false graph_level=0 enable_highest_priority_async_stream=true "
        "enable_pipelined_all_gather=true enable_pipelined_reduce_scatter=true enable_pipelined_all_reduce=true "
        "enable_while_loop_double_buffering=true enable_triton_softmax_fusion=false "
        "enable_all_gather_combine_by_dim=false enable_reduce_scatter_combine_by_dim=false "
        "enable_latency_hiding_scheduler=true"
    ),
    "paxml": (
        "enable_latency_hiding_scheduler=true enable_triton_gemm=false simplify_all_fp_conversions "
        "enable_async_all_gather=true enable_async_reduce_scatter=true enable_highest_priority_async_stream=true "
        "enable_triton_softmax_fusion=false graph_level=0 enable_async_all_reduce=true "
        "enable_pipelined_all_gather=true enable_pipelined_reduce_scatter=true enable_pipelined_all_reduce=true "
        "enable_while_loop_double_buffering=false enable_xla_runtime_executable=false "
        "enable_reduce_scatter_combine_by_dim=false enable_all_gather_combine_by_dim=false enable_cudnn_fmha=false"
    ),
}
_MIB = 1 << 20
_COMBINED = {
    # Bytes from which XLA starts another all-reduce, all-gather and reduce-scatter; same source, up to 63 nodes.
    ("maxtext", "bf16"): (2048 * _MIB, 2048 * _MIB, 32 * _MIB),
    ("maxtext", "fp8"): (1024 * _MIB, 512 * _MIB, 8 * _MIB),
    ("paxml", "bf16"): (512 * _MIB, 512 * _MIB, 8 * _MIB),
    ("paxml", "fp8"): (512 * _MIB, 512 * _MIB, 8 * _MIB),
}


def framework_env(
    framework: Framework, gpu: str, layout: Layout, precision: Precision, training: Training
) -> dict[str, str]:
    """What ``framework`` needs on ``gpu``; recipe and cluster come on top."""
    hub = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"} if framework == "hf" else {}
    if gpu == "CPU":
        return {"OMP_NUM_THREADS": "1", **hub}
    if framework in ("maxtext", "paxml"):
        return _jax_env(framework, precision)
    env = {**hub, "NCCL_NVLS_ENABLE": "0"}
    own = framework == "megatron-core"
    # NeMo 1's releases were never published with it; memory that other processes map (userbuffers) cannot grow so.
    if framework != "nemo1" and not (own and training.tp_comm_overlap):
        env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if framework in ("megatron-core", "hf"):
        # Else the threads of all ranks, waiting for work, take the cores from those that launch kernels: on four H200
        # with 64 cores, picking the 4096 tokens of a sequence took 51 ms.
        env["OMP_NUM_THREADS"] = "1"
    if own and training.tp_comm_overlap:
        env["UB_SKIPMC"] = "1"
    if own and training.cuda_graphs != "none":
        env["NCCL_GRAPH_REGISTER"] = "0"
    env["TORCH_NCCL_AVOID_RECORD_STREAMS"] = "1"
    if layout.tp > 1 or layout.cp > 1:
        env["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    if framework not in ("megatron-core", "hf"):
        env["TRANSFORMERS_OFFLINE"] = "1"
    if framework in ("nemo1", "nemo2", "megatron-bridge"):
        env |= _nemo_env(framework, layout, precision)
    return env


def _nemo_env(framework: Framework, layout: Layout, precision: Precision) -> dict[str, str]:
    """As NVIDIA's own scripts: dgxc-benchmarking v24.11.1 (NeMo 1), NeMo v2.4.0 and Megatron-Bridge v0.2.2."""
    env = {"NVTE_FUSED_ATTN": "1", "TOKENIZERS_PARALLELISM": "False"}
    margin = "8" if framework == "nemo1" else "16"
    env |= {"NVTE_FWD_LAYERNORM_SM_MARGIN": margin, "NVTE_BWD_LAYERNORM_SM_MARGIN": margin}
    if layout.pp > 1:
        env["NCCL_P2P_NET_CHUNKSIZE"] = "2097152"
    if framework != "nemo1":
        return {**env, "NVTE_FLASH_ATTN": "1", "TORCH_NCCL_HIGH_PRIORITY": "1"}
    if precision == "fp8":
        env |= {"NVTE_DP_AMAX_REDUCE_INTERVAL": "0", "NVTE_ASYNC_AMAX_REDUCTION": "1"}
    return {**env, "HYDRA_FULL_ERROR": "1"}


def _jax_env(framework: Framework, precision: Precision) -> dict[str, str]:
    names = ("all_reduce", "all_gather", "reduce_scatter")
    sizes = zip(names, _COMBINED.get((framework, precision), ()), strict=False)
    flags = [*_XLA[framework].split(), *(f"{name}_combine_threshold_bytes={size}" for name, size in sizes)]
    env = {
        "NVTE_FUSED_ATTN": "1",
        "XLA_FLAGS": " ".join(f"--xla_gpu_{flag}" for flag in flags) + " --xla_disable_hlo_passes=rematerialization",
    }
    if framework == "maxtext":
        return {**env, "CUDA_DEVICE_MAX_CONNECTIONS": "1", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.94"}
    fp8 = "1" if precision == "fp8" else "0"
    vocabulary = "gs://t5-data/vocabs/cc_all.32000.100extra/sentencepiece.model"
    env |= {"ENABLE_TE": "1", "ENABLE_FP8": fp8, "VOCAB_PATH": vocabulary}
    return {**env, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.9"}
