"""paxml: PaXML, in NVIDIA's JAX containers. Source of the environment:
dgxc-benchmarking v24.11.1.
"""

from collections.abc import Iterator

from benchrun.frameworks.base import ImageFamily, MemoryFacts, Unmeasured
from benchrun.frameworks.jax import Jax, policies
from benchrun.runspec.spec import TrainingSpec

SUMMARY_STEPS = 10
"""SUMMARY_INTERVAL_STEPS in templates/frameworks/paxml_point.py.j2."""
GPT = {
    "activation": "gelu",
    "normalization": "LayerNorm",
    "position_embedding": "learned",
    "bias": True,
}


class PaXML(Jax):
    """Launched for GPT-3's kind of model, without micro-batches."""

    name = "paxml"
    model_values = GPT
    xla_flags = (
        "xla_gpu_enable_latency_hiding_scheduler=true xla_gpu_enable_triton_gemm=false "
        "xla_gpu_simplify_all_fp_conversions xla_gpu_enable_async_all_gather=true "
        "xla_gpu_enable_async_reduce_scatter=true "
        "xla_gpu_enable_highest_priority_async_stream=true "
        "xla_gpu_enable_triton_softmax_fusion=false xla_gpu_graph_level=0 "
        "xla_gpu_enable_async_all_reduce=true xla_gpu_enable_pipelined_all_gather=true "
        "xla_gpu_enable_pipelined_reduce_scatter=true xla_gpu_enable_pipelined_all_reduce=true "
        "xla_gpu_enable_while_loop_double_buffering=false "
        "xla_gpu_enable_xla_runtime_executable=false "
        "xla_gpu_enable_reduce_scatter_combine_by_dim=false "
        "xla_gpu_enable_all_gather_combine_by_dim=false xla_gpu_enable_cudnn_fmha=false "
        "xla_gpu_all_reduce_combine_threshold_bytes=536870912 "
        "xla_gpu_all_gather_combine_threshold_bytes=536870912 "
        "xla_gpu_reduce_scatter_combine_threshold_bytes=8388608 "
        "xla_disable_hlo_passes=rematerialization"
    )
    positions_per_sequence = True
    # Source of the policies: AutodiffCheckpointType in praxis.
    memory = MemoryFacts(planned_by_xla=True, micro_batches=False, policies=policies("paxml"))
    # As pax-2024-03-04 carries it: google/paxml 4a6bf200 with JAX-Toolbox's patch
    # PR-46.
    program = (
        "-m paxml.main --fdl_config=paxml_point.Point --job_log_dir=paxml-log --mode=train "
        "--enable_checkpoint_saving=False --multiprocess_gpu --alsologtostderr"
    )
    step_lines = ("steps/sec",)
    stderr_steps = True
    images = ImageFamily("paxml", r"(?<![a-z])pax")
    files = ("paxml_point.py",)
    profilers = dict.fromkeys(("nsys",), Unmeasured())

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of its model, of its log and of its batch."""
        yield from super().refusals(spec)
        model, steps = spec.model, spec.training.steps
        if model.num_query_groups != model.num_attention_heads:
            what = f"num_query_groups must be {model.num_attention_heads}, not {model.num_query_groups}"
            yield f"benchrun supports paxml without grouped queries: {what}"
        if model.kv_channels * model.num_attention_heads != model.hidden_size:
            yield f"paxml needs kv_channels ({model.kv_channels}) to be hidden_size / num_attention_heads"
        if steps % SUMMARY_STEPS:
            what = f"training.steps ({steps}) must be a multiple of {SUMMARY_STEPS}"
            yield f"paxml logs its throughput every {SUMMARY_STEPS} steps: {what}"
        if spec.gbs != spec.mbs * spec.num_gpus:
            yield f"paxml has no micro-batches: gbs ({spec.gbs}) must be mbs * GPUs ({spec.mbs} * {spec.num_gpus})"
