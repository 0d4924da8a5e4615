"""megatron-core: the worker of this repository (benchrun/worker), on megatron.core and
transformer-engine.

Sources of the refusals: megatron.core 0.16.1 and 0.19.2, transformer-engine 2.11.
"""

from collections.abc import Iterator

from benchrun import hardware
from benchrun.frameworks.base import PROFILERS, WORKER_OPTIONS, MemoryFacts
from benchrun.frameworks.megatron.framework import Megatron, partly_sharded
from benchrun.model.adapters import MEGATRON_LINEARS
from benchrun.model.features import TRANSFORMER
from benchrun.model.layers import layer_counts
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import FP32_AT_A_TIME, Training
from benchrun.vocabulary import GIB

WITHOUT_FSDP = (
    "distributed_optimizer",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "grad_reduce_in_fp32",
    "cuda_graphs",
    "offload_activations",
    "late_loss_scale",
)
"""Fields of ``training`` that must have their default beside FSDP."""


class MegatronCore(Megatron):
    """The worker reads every value of the TrainingSpec, and also trains on CPUs."""

    name = "megatron-core"
    precisions = frozenset({"fp32", "bf16", "fp8", "nvfp4"})
    features = TRANSFORMER  # Mamba-2 needs mamba-ssm, which runs on GPUs alone
    stages = True
    needs_gpu = False
    options = tuple(
        name
        for name in WORKER_OPTIONS
        if name not in ("moe_overlap", "offload_modules", "switches")
    )
    own_worker = True
    profilers = PROFILERS
    memory = MemoryFacts(moments_at_a_time=FP32_AT_A_TIME, unfused_gates=True)
    program = "-m benchrun.worker --spec spec.json"
    step_lines = ("elapsed time per iteration (",)

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Settings for which megatron.core or transformer-engine would raise, or that
        would have no effect.
        """
        yield from super().refusals(spec)
        for refused in (
            _without_transformer_engine,
            _recompute,
            _attention,
            _biases,
            _fp8,
            _kernels,
            _fsdp,
            _graphs,
            _offload,
            _lora,
        ):
            yield from refused(spec)
        training = spec.training
        for name in ("moe_grouped_gemm", "moe_permute_fusion"):
            if spec.model.moe is None and not getattr(training, name):
                yield f"{name} is for a model with experts: it must be true here"
        if training.tp_comm_overlap and spec.gpu == "CPU":
            yield "tp_comm_overlap is between GPUs: it must be false"


def _without_transformer_engine(spec: TrainingSpec) -> Iterator[str]:
    if spec.training.transformer_impl == "transformer_engine":
        return
    # megatron.core's own attention would store an S x S mask.
    cp = ["layout.cp above 1"] if spec.layout.cp > 1 and spec.gpu != "CPU" else []
    for name in (*spec.of_transformer_engine, *cp):
        yield f"{name} needs transformer-engine: transformer_impl must be transformer_engine"


def _graphs(spec: TrainingSpec) -> Iterator[str]:
    """Graphs that megatron.core cannot capture."""
    training, moe = spec.training, spec.model.moe
    if spec.gpu == "CPU" and training.moe_dispatcher != "alltoall":
        yield f"{training.moe_dispatcher} is between GPUs: moe_dispatcher must be alltoall"
    if training.cuda_graphs == "none":
        return
    if spec.gpu == "CPU" or training.recompute.granularity == "full":
        yield "cuda_graphs need a GPU, and no full recompute: they must be none"
    if spec.layout.pp > 1:  # 0.19.2 fails to capture them (on two H100)
        yield "megatron.core cannot capture cuda_graphs in a pipeline: they must be none here"
    whole = training.cuda_graphs == "full_iteration" or "moe" in training.graph_scopes
    if moe and whole and moe.capacity_factor is None:
        yield "the tokens of an expert vary, which no graph can: give moe.capacity_factor, or graph_scopes without moe"
    routes = {"moe_router", "moe_preprocess"} & {*training.graph_scopes}
    if moe is None and (routes or "moe" in training.graph_scopes):
        yield "graph_scopes names moe, and the model has no experts"
    if routes and "moe" in training.graph_scopes:
        yield "graph_scopes moe holds moe_router and moe_preprocess: leave them out"
    if "mlp" in training.graph_scopes and not layer_counts(spec.model).dense:
        yield "graph_scopes names mlp, and every layer has experts"
    if "mamba" in training.graph_scopes:
        yield "graph_scopes names mamba, and the model has no such layer"


def _absent(spec: TrainingSpec, name: str) -> Iterator[str]:
    """A module to be recomputed that the model has not."""
    model, what = spec.model, f"recompute.modules names {name}, and"
    if name in ("moe", "moe_act") and model.moe is None:
        yield f"{what} the model has no experts"
    if name == "mlp" and not layer_counts(model).dense:
        yield f"{what} every layer has experts: it is moe there"
    if name == "mla_up_proj" and model.mla is None:
        yield f"{what} the model has no latent attention"
    if name == "shared_experts" and not (model.moe and model.moe.shared_ffn_hidden_size):
        yield f"{what} the model has none"


def _recompute(spec: TrainingSpec) -> Iterator[str]:
    recompute, training, experts = (
        spec.training.recompute,
        spec.training,
        spec.model.moe is not None,
    )
    for name in recompute.modules:
        yield from _absent(spec, name)
        if name in ("layernorm", "moe_act") and not spec.transformer_engine:
            # megatron.core asks transformer-engine how far its FP8 is before it drops
            # an output.
            yield f"recompute.modules {name} needs transformer-engine, on a GPU: leave it out"
        elif name == "layernorm" and not experts and not spec.model.mla:
            # Both norms of a dense layer are part of a product: megatron.core finds
            # none to compute again.
            yield "recompute.modules layernorm does nothing without experts: norms are in transformer-engine's products"
        if name == "moe_act" and not training.moe_grouped_gemm:
            yield "recompute.modules moe_act needs moe_grouped_gemm: it must be true"
        if (
            name in ("layernorm", "moe_act")
            and spec.precision == "fp8"
            and training.fp8.recipe == "delayed"
        ):
            yield f"{name} does not work with fp8.recipe delayed: use tensorwise or blockwise"


def _attention(spec: TrainingSpec) -> Iterator[str]:
    layout, model, comm = spec.layout, spec.model, spec.training.cp_comm
    if model.mla and layout.tp > 1 and not spec.transformer_engine:
        # Seen in 0.16.1: a rank's gradient of the rotated part, which all heads share,
        # lacks the other ranks' heads.
        yield f"latent attention is split over tensor-parallel ranks by transformer-engine alone: tp ({layout.tp})"
    if model.mtp_layers and layout.cp > 1:
        yield f"benchrun supports the worker's multi-token prediction without context parallelism: cp ({layout.cp})"
    if model.window and layout.cp > 1 and spec.gpu != "CPU":
        yield f"transformer-engine has no sliding windows over context-parallel ranks: cp ({layout.cp}) must be 1"
    if model.attention_sinks and layout.cp > 1 and spec.gpu != "CPU":
        yield f"benchrun supports attention sinks on GPUs without context parallelism: cp ({layout.cp}) must be 1"
    if comm == "p2p":
        return
    if layout.cp == 1 or spec.gpu == "CPU":
        yield f"cp_comm {comm} is transformer-engine's, between GPUs: cp {layout.cp} on {spec.gpu} takes p2p"
    elif comm == "a2a":
        for name, count in (
            ("heads", model.num_attention_heads),
            ("query groups", model.num_query_groups),
        ):
            if count // layout.tp % layout.cp:
                yield f"cp_comm a2a distributes {name}: {count} / tp {layout.tp} must be a multiple of cp {layout.cp}"


def _biases(spec: TrainingSpec) -> Iterator[str]:
    if spec.model.moe and spec.model.bias and spec.layout.tp > 1:
        # Seen in 0.16.1: the gradient norm is another than without tensor parallelism.
        yield f"benchrun supports the worker's experts with biases without tp: tp ({spec.layout.tp}) must be 1"


def _fp8(spec: TrainingSpec) -> Iterator[str]:
    fp8, training, layout = spec.training.fp8, spec.training, spec.layout
    if spec.precision != "fp8":
        return
    if fp8.dot_product_attention and fp8.recipe == "blockwise":
        yield "fp8.dot_product_attention needs delayed or tensorwise scaling, not blockwise"
    gpu, width = hardware.site_gpu(spec.cluster), spec.model.kv_channels
    if fp8.dot_product_attention and gpu and gpu.arch == "Hopper" and width != 128:
        yield f"fp8.dot_product_attention trains on Hopper with heads of 128 channels alone: kv_channels is {width}"
    if fp8.store_activation_input and spec.model.activation != "swiglu":
        yield f"fp8.store_activation_input is for swiglu, not for {spec.model.activation}: it must be false"
    tokens = (
        spec.mbs * spec.seq_length // layout.cp // (layout.tp if layout.sequence_parallel else 1)
    )
    if tokens % 16:
        yield f"mbs * seq_length / cp (/ tp with sequence_parallel) = {tokens} must be a multiple of 16 in fp8"
    if fp8.fast_gradients and fp8.recipe != "delayed":
        yield f"fp8.fast_gradients is for delayed scaling, not for {fp8.recipe}: it must be false"
    if fp8.tp_only_amax_reduction and training.optimizer.precision_aware and fp8.param_gather:
        # Adam then finds the largest value of its own shard only, and nothing else
        # shares it.
        yield "fp8.tp_only_amax_reduction with optimizer.precision_aware would leave ranks with different FP8 weights"


def _kernels(spec: TrainingSpec) -> Iterator[str]:
    """Fused kernels that the run does not have, or that do not do what it needs."""
    training, model = spec.training, spec.model
    if spec.gpu == "CPU" and (training.swiglu != "torch" or training.late_loss_scale):
        yield "swiglu transformer_engine and late_loss_scale are of transformer-engine's kernels: they need a GPU"
    if training.swiglu != "torch":
        if model.activation != "swiglu" or model.bias or not training.fused_kernels:
            yield "swiglu transformer_engine is for swiglu without bias, and fused_kernels: it must be torch"
        if training.offload_activations or (
            spec.precision == "fp8" and training.fp8.store_activation_input
        ):
            yield "swiglu transformer_engine neither offloads its input nor stores it in FP8: it must be torch"
    if training.late_loss_scale and (model.mtp_layers or not training.fused_kernels):
        yield "late_loss_scale needs fused_kernels, and one loss a token: it excludes multi-token prediction"


def _fsdp(spec: TrainingSpec) -> Iterator[str]:
    """Refuse what the worker's FSDP excludes, and what was not tried with it."""
    layout, training = spec.layout, spec.training
    if layout.fsdp == 1:
        return
    fsdp = f"fsdp ({layout.fsdp})"
    yield from partly_sharded(spec, "the worker")
    if layout.ep > 1:
        yield f"benchrun does not support {fsdp} beside expert parallelism in the worker: ep ({layout.ep}) must be 1"
    yield from _fsdp_weights(spec, fsdp)
    if training.optimizer.precision_aware:
        yield f"benchrun does not support optimizer.precision_aware beside {fsdp}: it must be false"
    for name in WITHOUT_FSDP:
        if getattr(training, name) != (usual := Training.model_fields[name].default):
            yield f"{name} has no effect with {fsdp}, or excludes it: it must be {str(usual).lower()}"


def _fsdp_weights(spec: TrainingSpec, fsdp: str) -> Iterator[str]:
    """Weights that FSDP cannot cut or gather."""
    gpu, built = hardware.site_gpu(spec.cluster), 2 * spec.model.params_total / spec.layout.tp / GIB
    if gpu and built > 0.9 * gpu.memory_gib:
        yield f"the worker builds all weights ({built:.0f} GiB) on each GPU before it cuts them: use tp beside {fsdp}"
    if spec.model.tied_embeddings and spec.gpu == "CPU":
        yield f"torch's FSDP2 gathers embedding and output layer apart: on CPUs a model that ties them excludes {fsdp}"
    if spec.task == "lora":
        yield f"benchrun does not support the worker's adapters under FSDP: {fsdp} must be 1"
    if spec.precision == "fp8" and spec.training.fp8.param_gather:
        yield f"{fsdp} gathers BF16 weights: fp8.param_gather must be false"


def _offload(spec: TrainingSpec) -> Iterator[str]:
    """Refuse what was not tried with offloading; megatron.core refuses a pipeline."""
    if not spec.training.offload_activations:
        return
    if spec.layout.pp > 1:
        yield f"offload_activations excludes a pipeline: pp ({spec.layout.pp}) must be 1"
    if spec.precision == "fp8":
        yield "benchrun supports offload_activations in bf16 and fp32, not in fp8"
    if spec.model.moe is not None:
        yield "benchrun supports offload_activations for models without experts: this one has some"
    if spec.training.cuda_graphs != "none":
        yield "offload_activations excludes cuda_graphs: they must be none"


def _lora(spec: TrainingSpec) -> Iterator[str]:
    """Refuse what the worker's adapters were not built for."""
    if spec.task != "lora":
        return
    training = spec.training
    for name in ("tp", "pp", "ep"):
        if (size := getattr(spec.layout, name)) > 1:
            yield f"the worker's adapters have data and context parallelism alone: {name} ({size}) must be 1"
    if spec.model.moe is not None:
        yield "the worker has no adapters for experts: take a model without"
    if training.offload_activations:
        yield "benchrun supports the worker's adapters without offload_activations"
    if unknown := [name for name in training.lora.target_modules if name not in MEGATRON_LINEARS]:
        yield f"lora.target_modules could be {', '.join(MEGATRON_LINEARS)}, not {', '.join(unknown)}"
