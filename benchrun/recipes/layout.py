"""The rules of a layout, which refuse a run that cannot work before it waits in a
queue.

Each rule gives one line: the rule, the numbers, the nearest legal value. Sources: the
assertions of megatron.core (parallel_state, TransformerConfig, schedules) and
transformer-engine's size rules for FP8.
"""

import math
from collections.abc import Callable, Iterator

from benchrun import hardware
from benchrun.frameworks.base import Framework
from benchrun.memory import impossible
from benchrun.model import Moe
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.runspec.training import RESIDENT_LAYERS
from benchrun.vocabulary import LOW

from .capability import incapable

CHANGE_LAYOUT = "change the layout in the recipe or with --set"
Legal = Callable[[int], bool]


def refusals(spec: RunSpec, framework: Framework) -> dict[str, str | None]:
    """Every rule that ``spec`` breaks, with a hint if the text has none; empty when it
    can run.
    """
    broken: dict[str, str | None] = dict.fromkeys(_nodes(spec), CHANGE_LAYOUT)
    broken |= dict.fromkeys((*incapable(spec, framework), *_container(spec)))
    if isinstance(spec, TrainingSpec):
        broken |= dict.fromkeys((*_sizes(spec), *_spread(spec), *_experts(spec)), CHANGE_LAYOUT)
        broken |= _positions(spec)
        broken |= dict.fromkeys((*_training(spec), *_precision(spec)))
        if not broken and (too_large := impossible(spec)):
            broken[too_large] = CHANGE_LAYOUT
    return broken


def _container(spec: RunSpec) -> Iterator[str]:
    container = spec.cluster.container
    runtime = container.runtime
    if runtime == "none":
        return
    if not spec.image:
        needed = f"container runtime {runtime} needs an image on cluster {spec.cluster.name}"
        yield f"{needed}: set cluster.container.image, image in the recipe, or another --cluster"
    for option in container.options:
        if runtime != "pyxis" and option.startswith(("--container-", "--no-container-")):
            remedy = f"set cluster.container.options to options of {runtime}, or to []"
            yield f"{option} is an option of pyxis, which {runtime} does not have: {remedy}"
    if runtime == "docker" and spec.cluster.scheduler == "slurm":
        for name, value in spec.cluster.binding:
            if value not in (None, "none"):
                yield f"Slurm cannot bind ranks that docker's daemon starts: cluster.binding.{name} must be null"


SEARCHED = 100_000
"""Largest distance from a wrong value at which a legal one is sought."""


def _nearest(value: int, legal: Legal) -> str:
    """The closest legal numbers below and above ``value``."""
    below = next(filter(legal, range(value, max(0, value - SEARCHED), -1)), None)
    above = next(filter(legal, range(value, min(64 * value, value + SEARCHED) + 1)), None)
    return " or ".join(str(n) for n in dict.fromkeys((below, above)) if n is not None) or "none"


def _multiple(
    what: str,
    value: int,
    of: str,
    unit: int,
    plus: int = 0,
    change: tuple[str, int, Legal] | None = None,
) -> Iterator[str]:
    """``value + plus`` must be a multiple of ``unit``: names the nearest legal values,
    of ``change`` if given.
    """
    if (value + plus) % unit:
        name, number, legal = change or (what, value, lambda n: (n + plus) % unit == 0)
        extra = ""
        if plus:
            extra = f" with {plus} more for embedding and output"
        yield f"{what} ({value}){extra} must be a multiple of {of}: {name} could be {_nearest(number, legal)}"


def _divides(what: str, total: int, by: str, part: int) -> Iterator[str]:
    """``part`` must divide ``total``: names the nearest divisors."""
    yield from _multiple(
        what, total, f"{by} ({part})", part, change=(by, min(part, total), lambda n: total % n == 0)
    )


def _product(**factors: int) -> tuple[str, int]:
    """``tp * pp (4 * 2 = 8)``, and the product."""
    total = math.prod(factors.values())
    return f"{' * '.join(factors)} ({' * '.join(map(str, factors.values()))} = {total})", total


def _sizes(spec: TrainingSpec) -> Iterator[str]:
    model = spec.model
    layout = spec.layout
    split = ["num_attention_heads", "ffn_hidden_size"]
    if not model.mla:
        split.append("num_query_groups")
    for size in split:
        yield from _divides(size, getattr(model, size), "tp", layout.tp)
    if model.mamba:
        for size in ("num_heads", "num_groups"):
            yield from _divides(f"mamba.{size}", getattr(model.mamba, size), "tp", layout.tp)
    yield from _divides(
        "num_attention_heads", model.num_attention_heads, "num_query_groups", model.num_query_groups
    )
    if layout.pp == 1:
        if layout.vp > 1:
            yield f"vp ({layout.vp}) needs a pipeline: pp is 1, so vp must be 1"
        if layout.account_for_embedding_and_loss:
            yield "account_for_embedding_and_loss is about the stages of a pipeline: pp is 1, so it must be false"
    if layout.stages:
        yield from _stages(spec)
    else:
        ends = 2 if layout.account_for_embedding_and_loss else 0
        yield from _multiple(
            "num_layers", model.num_layers, *_product(pp=layout.pp, vp=layout.vp), plus=ends
        )
    yield from _sequence(spec)
    if spec.training.tp_comm_overlap and layout.tp > (per_node := spec.cluster.gpus_per_node):
        exceeds = (
            f"tp ({layout.tp}) exceeds the {per_node} GPUs per node of cluster {spec.cluster.name}"
        )
        yield f"tp_comm_overlap works only within a node: {exceeds}, so it must be false"


def _sequence(spec: TrainingSpec) -> Iterator[str]:
    layout = spec.layout
    pieces = 1
    if layout.cp > 1:
        pieces = 2 * layout.cp
    if layout.sequence_parallel:
        pieces *= layout.tp
    rule = f"{pieces} (2 * cp if cp > 1; times tp with sequence_parallel)"
    yield from _multiple("seq_length", spec.seq_length, rule, pieces)
    if layout.sequence_parallel and layout.tp == 1:
        yield "sequence_parallel splits over tensor-parallel ranks: tp is 1, so it must be false"


def _stages(spec: TrainingSpec) -> Iterator[str]:
    """``layout.stages`` must have the stages of the pipeline and the layers of the
    model, in their order.
    """
    model = spec.model
    layout = spec.layout
    stages, (rule, count) = layout.stage_list, _product(pp=layout.pp, vp=layout.vp)
    if layout.account_for_embedding_and_loss:
        yield "layout.stages places embedding and output layer: account_for_embedding_and_loss must be false"
    if len(stages) != count:
        yield f"layout.stages has {len(stages)} stages: it must have {rule}"
    order = "E" + "t" * model.num_layers + "m" * model.mtp_layers + "L"
    if "".join(stages) != order:
        what = f"E, {model.num_layers} times t, {model.mtp_layers} times m, L"
        yield f"layout.stages must name the model's layers in their order: {what}"


def _positions(spec: TrainingSpec) -> dict[str, str]:
    most = spec.model.max_position_embeddings
    if spec.seq_length <= most:
        return {}
    longer = f"--set model.max_position_embeddings={spec.seq_length} for a longer table"
    text = f"seq_length ({spec.seq_length}) must be at most max_position_embeddings ({most})"
    return {text: f"a shorter --set seq_length, or {longer}"}


def _spread(spec: TrainingSpec) -> Iterator[str]:
    layout = spec.layout
    dp = spec.dp
    rule, block = _product(**layout.units[0])
    yield from _multiple("number of GPUs", spec.num_gpus, rule, block)
    if spec.num_gpus % block:
        return
    if layout.fsdp > 1 and layout.pp > 1:
        yield f"fsdp ({layout.fsdp}) excludes a pipeline: pp is {layout.pp}, so fsdp must be 1, or pp 1"
    elif layout.fsdp > (ranks := dp * layout.cp) and layout.tp > 1:
        yield f"fsdp ({layout.fsdp}) exceeds dp * cp ({ranks}): fsdp could be {ranks}, or tp 1 instead of {layout.tp}"
    else:
        yield from _divides("dp * cp", dp * layout.cp, "fsdp", layout.fsdp)
    interleaved = {"pp": layout.pp} if layout.vp > 1 else {}
    rule, unit = _product(mbs=spec.mbs, dp=dp, **interleaved)
    yield from _multiple(
        "gbs", spec.gbs, rule + (" with interleaved stages" if interleaved else ""), unit
    )


def _experts(spec: TrainingSpec) -> Iterator[str]:
    layout = spec.layout
    moe = spec.model.moe
    if moe is None:
        if layout.ep > 1 or layout.etp > 1:
            yield f"ep ({layout.ep}) and etp ({layout.etp}) need experts: this model is dense, so both must be 1"
        return
    if moe.topk > moe.num_experts:
        yield f"topk ({moe.topk}) must be at most num_experts ({moe.num_experts})"
    if moe.topk == 1 and not moe.sigmoid and moe.balance != "sinkhorn":
        # The softmax over one chosen expert is 1: megatron.core raises, and the router
        # would learn nothing.
        yield "topk (1) must be 2 or more: the softmax is over the chosen experts, and one alone always gets weight 1"
    yield from _router(moe)
    yield from _sinkhorn(moe)
    yield from _divides("num_experts", moe.num_experts, "ep", layout.ep)
    yield from _divides("moe.ffn_hidden_size", moe.ffn_hidden_size, "etp", layout.etp)
    if layout.tp > 1 and not layout.sequence_parallel:
        yield f"experts with tp ({layout.tp}) > 1 need sequence_parallel: it must be true"
    if layout.ep == 1 and layout.etp != layout.tp:
        # megatron.core (seen in 0.16) treats experts as dense weights when ep is 1:
        # tensor-parallel ranks, which then hold whole experts, do not reduce their
        # gradients and drift apart.
        yield f"experts with ep 1 need etp ({layout.etp}) equal to tp ({layout.tp}): etp must be {layout.tp}"
    rule, block = _product(**layout.units[1])
    ranks = spec.num_gpus // layout.pp // layout.etp
    fitting = ("ep", layout.ep, lambda n: ranks % n == 0 and moe.num_experts % n == 0)
    yield from _multiple("number of GPUs", spec.num_gpus, rule, block, change=fitting)


def _router(moe: Moe) -> Iterator[str]:
    if moe.expert_bias and not moe.sigmoid:
        yield "moe.expert_bias needs a router with a sigmoid: moe.sigmoid must be true"
    if moe.probs_on_input and moe.topk > 1:
        yield f"moe.probs_on_input is for one expert per token: topk ({moe.topk}) must be 1"
    if moe.num_groups is None or moe.topk_groups is None:
        return
    yield from _divides("moe.num_experts", moe.num_experts, "moe.num_groups", moe.num_groups)
    reachable = moe.topk_groups * (moe.num_experts // moe.num_groups)
    if moe.topk_groups > moe.num_groups or moe.topk > reachable:
        what = f"topk_groups ({moe.topk_groups}) of num_groups ({moe.num_groups}) have {reachable} experts"
        yield f"moe.{what}: they must be at least topk ({moe.topk}), and topk_groups at most num_groups"


def _sinkhorn(moe: Moe) -> Iterator[str]:
    """Conditions that megatron.core refuses beside Sinkhorn's algorithm, or does not
    read then.
    """
    if moe.balance != "sinkhorn":
        return
    if moe.aux_loss_coeff:
        yield f"moe.balance sinkhorn has no loss: moe.aux_loss_coeff ({moe.aux_loss_coeff:g}) must be 0"
    if moe.topk > 1:
        yield f"moe.balance sinkhorn gives each token one expert, as in BASE layers: topk ({moe.topk}) must be 1"
    if moe.force_balance:
        yield "moe.balance sinkhorn evens out the loads: moe.force_balance must be false"
    for name in ("capacity_factor", "sigmoid", "expert_bias", "num_groups", "scaling_factor"):
        if (value := getattr(moe, name)) not in (None, False):
            legal = "false" if value is True else "null"
            yield f"moe.balance sinkhorn does not use moe.{name} ({str(value).lower()}): it must be {legal}"


def _training(spec: TrainingSpec) -> Iterator[str]:
    training = spec.training
    recompute = spec.training.recompute
    if training.min_lr > training.lr:
        yield f"min_lr ({training.min_lr:g}) must be at most lr ({training.lr:g}), from which the rate falls to it"
    if training.overlap_param_gather and not (
        training.distributed_optimizer and training.overlap_grad_reduce
    ):
        yield "overlap_param_gather needs distributed_optimizer and overlap_grad_reduce: both must be true"
    whole = recompute.method is not None and recompute.num_layers is not None
    if recompute.granularity == "full" and not whole:
        yield "recompute.granularity full needs recompute.method and recompute.num_layers"
    if recompute.policy and recompute.granularity != "none":
        yield f"recompute.policy replaces the granularity, which must be none, not {recompute.granularity}"
    if recompute.granularity != "full" and (recompute.method or recompute.num_layers):
        yield f"recompute.method and num_layers belong to granularity full, not {recompute.granularity}"
    if training.offload_activations and recompute.granularity != "none":
        yield f"offload_activations replaces recompute, whose granularity must be none, not {recompute.granularity}"
    if training.offload_activations and spec.model.num_layers <= RESIDENT_LAYERS:
        few = f"num_layers ({spec.model.num_layers}) must be at least {RESIDENT_LAYERS + 1}"
        yield f"offload_activations leaves {RESIDENT_LAYERS} layers on the GPU: {few}"
    layers = spec.model.num_layers // (spec.layout.pp * spec.layout.vp)
    if recompute.num_layers is not None and recompute.num_layers > max(layers, 1):
        stage = f"the layers of a (virtual) stage ({layers})"
        yield f"training.recompute.num_layers ({recompute.num_layers}) must be at most {stage}"


def _precision(spec: TrainingSpec) -> Iterator[str]:
    precision = spec.precision
    gpu = hardware.site_gpu(spec.cluster)
    if precision not in LOW:
        return
    if gpu is None or gpu.peak_tflops(precision) is None:
        units = "FP4" if precision == "nvfp4" else "FP8"
        other = "bf16"
        if gpu and gpu.peak_fp8_tflops:
            other = "fp8 or bf16"
        yield f"precision {precision} needs a GPU with {units} units: {spec.gpu} has none; use {other}"
    if (
        precision == "fp8"
        and spec.training.fp8.recipe == "mxfp8"
        and gpu is not None
        and not gpu.computes("mxfp8")
    ):
        yield f"fp8.recipe mxfp8 needs Blackwell; {spec.gpu} has delayed, tensorwise and blockwise"
    inner = (spec.model.moe or spec.model).ffn_hidden_size // spec.layout.tp
    yield from _multiple("hidden_size", spec.model.hidden_size, f"16 in {precision}", 16)
    yield from _multiple("ffn_hidden_size / tp", inner, f"16 in {precision}", 16)


def slow_links(spec: TrainingSpec) -> str | None:
    """A warning if tensor-parallel ranks communicate over the network in every layer;
    else None.
    """
    tp = spec.layout.tp
    per_node = spec.cluster.gpus_per_node
    gpu = hardware.gpu(spec.gpu)
    # NVLink of a rack joins more GPUs than a node has.
    joined = 0
    if gpu and gpu.nvlink_domain > gpu.gpus_per_node:
        joined = gpu.nvlink_domain
    if tp <= max(per_node, joined) or spec.gpu == "CPU":
        return None
    return (
        f"tp {tp} spans nodes of {per_node} GPUs (cluster {spec.cluster.name}) without NVLink between them: it needs "
        f"nodes of {tp} or more (--set cluster.gpus_per_node={tp}, or --cluster with such nodes)"
    )


def _nodes(spec: RunSpec) -> Iterator[str]:
    per_node = spec.cluster.gpus_per_node
    if spec.num_gpus > per_node:
        rule = f"{per_node}, the GPUs per node of cluster {spec.cluster.name}"
        yield from _multiple("number of GPUs", spec.num_gpus, rule, per_node)
    bound = {"cores", "threads"} & set((spec.cluster.binding.cpu_bind or "").split(","))
    if bound and spec.cluster.scheduler == "slurm" and spec.cluster.cpus_per_task is None:
        what = f"with cpu_bind {bound.pop()} each rank gets one CPU"
        yield f"{what}: set cluster.cpus_per_task to the CPUs of a node divided by its {per_node} ranks"
