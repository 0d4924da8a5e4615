"""maxtext: MaxText, in NVIDIA's JAX containers. Source of the environment: dgxc-benchmarking v24.11.1."""

from __future__ import annotations

from benchrun.frameworks.base import LLAMA, ImageFamily, MemoryFacts, Variable
from benchrun.frameworks.jax import Jax, gpu_memory
from benchrun.frameworks.variables import LAUNCH_ORDER
from benchrun.spec.runspec import TrainingSpec

LLAMA_WITHOUT_BIAS = {**LLAMA, "bias": False}
XLA_FLAGS = (
    "enable_triton_gemm=false graph_level=0 enable_highest_priority_async_stream=true "
    "enable_pipelined_all_gather=true enable_pipelined_reduce_scatter=true enable_pipelined_all_reduce=true "
    "enable_while_loop_double_buffering=true enable_triton_softmax_fusion=false "
    "enable_all_gather_combine_by_dim=false enable_reduce_scatter_combine_by_dim=false "
    "enable_latency_hiding_scheduler=true"
)


class MaxText(Jax):
    """Launched for Llama's kind of model."""

    name = "maxtext"
    model_values = LLAMA_WITHOUT_BIAS
    # Source of the policies: layers/models.py @ 02a8f5c1.
    memory = MemoryFacts(
        planned_by_xla=True,
        policies={
            **{"full": (), "minimal": None, "minimal_flash": None, "minimal_offloaded": None},
            **{"qkv_proj_offloaded": None, "save_dot_except_mlp": ("qkv", "proj")},
            **{"save_dot_except_mlpwi": ("qkv", "proj", "fc2"), "save_dot_with_context_except_mlp": None},
            **{"save_out_proj": None, "save_qkv_proj": ("qkv",)},
        },
    )
    step_lines = ("completed step: ",)
    scripts = "/opt/maxtext"
    images = ImageFamily("maxtext", "maxtext")

    def environment(self, spec: TrainingSpec) -> dict[str, Variable]:
        """XLA's flags as published, up to 63 nodes."""
        combined_mib = (1024, 512, 8) if spec.precision == "fp8" else (2048, 2048, 32)
        return self.xla(XLA_FLAGS, combined_mib) | LAUNCH_ORDER | gpu_memory("0.94")
