"""maxtext: MaxText, in NVIDIA's JAX containers. Source of the environment: dgxc-benchmarking v24.11.1."""

from benchrun.frameworks.base import LLAMA, ImageFamily, MemoryFacts, Unmeasured
from benchrun.frameworks.jax import Jax, policies


class MaxText(Jax):
    """Launched for Llama's kind of model."""

    name = "maxtext"
    model_values = LLAMA | {"bias": False}
    combined_mib = dict.fromkeys(("fp32", "bf16"), (2048, 2048, 32)) | {"fp8": (1024, 512, 8)}
    xla_flags = (
        "enable_triton_gemm=false graph_level=0 enable_highest_priority_async_stream=true "
        "enable_pipelined_all_gather=true enable_pipelined_reduce_scatter=true enable_pipelined_all_reduce=true "
        "enable_while_loop_double_buffering=true enable_triton_softmax_fusion=false "
        "enable_all_gather_combine_by_dim=false enable_reduce_scatter_combine_by_dim=false "
        "enable_latency_hiding_scheduler=true"
    )
    # Source of the policies: layers/models.py @ 02a8f5c1.
    memory = MemoryFacts(planned_by_xla=True, policies=policies("maxtext"))
    step_lines = ("completed step: ",)
    scripts = "/opt/maxtext"
    images = ImageFamily("maxtext", "maxtext")
    profilers = {"nsys": Unmeasured(), "xplane": Unmeasured()}
