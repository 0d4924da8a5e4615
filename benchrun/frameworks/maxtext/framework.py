"""maxtext: MaxText, in NVIDIA's JAX containers. Source of the environment:
dgxc-benchmarking v24.11.1.
"""

from collections.abc import Iterator

from benchrun.frameworks.base import LLAMA, ImageFamily, MemoryFacts, Unmeasured
from benchrun.frameworks.jax import Jax, policies
from benchrun.runspec.spec import TrainingSpec


class MaxText(Jax):
    """Launched for Llama's kind of model."""

    name = "maxtext"
    model_values = LLAMA | {"bias": False}
    xla_flags = (
        "xla_gpu_enable_triton_gemm=false xla_gpu_graph_level=0 "
        "xla_gpu_enable_highest_priority_async_stream=true "
        "xla_gpu_enable_pipelined_all_gather=true xla_gpu_enable_pipelined_reduce_scatter=true "
        "xla_gpu_enable_pipelined_all_reduce=true "
        "xla_gpu_enable_while_loop_double_buffering=true "
        "xla_gpu_enable_triton_softmax_fusion=false "
        "xla_gpu_enable_all_gather_combine_by_dim=false "
        "xla_gpu_enable_reduce_scatter_combine_by_dim=false "
        "xla_gpu_enable_latency_hiding_scheduler=true "
        "xla_gpu_all_reduce_combine_threshold_bytes=2147483648 "
        "xla_gpu_all_gather_combine_threshold_bytes=2147483648 "
        "xla_gpu_reduce_scatter_combine_threshold_bytes=33554432 "
        "xla_disable_hlo_passes=rematerialization"
    )
    fp8_flags = (
        "xla_gpu_all_reduce_combine_threshold_bytes=1073741824 "
        "xla_gpu_all_gather_combine_threshold_bytes=536870912 "
        "xla_gpu_reduce_scatter_combine_threshold_bytes=8388608"
    )
    # Source of the policies: layers/models.py @ 02a8f5c1.
    memory = MemoryFacts(planned_by_xla=True, policies=policies("maxtext"))
    step_lines = ("completed step: ",)
    scripts = "/opt/maxtext"
    images = ImageFamily("maxtext", "maxtext")
    profilers = dict.fromkeys(("nsys", "xplane"), Unmeasured())

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """FP8 in one micro-batch, which train.py asserts; JAX's profiler, which one
        process starts, or every one.
        """
        yield from super().refusals(spec)
        if spec.precision == "fp8" and (count := spec.num_microbatches) > 1:
            yield f"maxtext accumulates no gradients in FP8: gbs must be mbs * dp, one micro-batch and not {count}"
        ranks = spec.profile.ranks
        if spec.profiler == "xplane" and ranks != (0,) and len({*ranks}) != spec.num_gpus:
            yield f"maxtext records rank 0 or all with xplane: profile.ranks must be [0], or name every rank: {ranks}"
