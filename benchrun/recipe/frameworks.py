"""What each framework can run, in the release that its template was read against; the rest is refused before it queues.

A value that a framework would ignore without a word is refused too: the run would not be what its spec says.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.model import Moe
from benchrun.recipe.draft import Draft
from benchrun.recipe.worker import worker_only, worker_refusals
from benchrun.spec.cluster import Framework
from benchrun.spec.data import Data
from benchrun.spec.images import nemo_release as nemo_release
from benchrun.spec.training import Recompute, Training
from benchrun.vocabulary import Precision, Task

MEGATRONS: frozenset[Framework] = frozenset({"megatron-lm", "nemo1", "nemo2", "megatron-bridge"})
"""Those that train Megatron's model on GPUs, with transformer-engine."""
JAX: frozenset[Framework] = frozenset({"maxtext", "paxml"})
AS_LONG_AS_A_SEQUENCE: frozenset[Framework] = frozenset({"nemo1", "nemo2", "megatron-bridge", "paxml"})
"""Those whose table of learned positions has the length of a sequence, whatever max_position_embeddings says."""
PAXML_SUMMARY_STEPS = 10
"""SUMMARY_INTERVAL_STEPS in templates/frameworks/paxml_point.py.j2."""

REMAT = {
    "maxtext": (
        *("full", "minimal", "minimal_flash", "minimal_offloaded", "qkv_proj_offloaded", "save_dot_except_mlp"),
        *("save_dot_except_mlpwi", "save_dot_with_context_except_mlp", "save_out_proj", "save_qkv_proj"),
    ),
    "paxml": (
        *("SAVE_CONTEXT", "SAVE_CONTEXT_AND_OUT_PROJ", "SAVE_DOT_EXCEPT_LOGITS", "SAVE_DOT_EXCEPT_LOGITS_FFN1"),
        *("SAVE_DOT_ONLY", "SAVE_DOT_WITH_NO_BATCH_DIM", "SAVE_EVERYTHING", "SAVE_NOTHING", "SAVE_OUT_PROJ"),
        *("SAVE_QKV_OUT_PROJ", "SAVE_QKV_OUT_PROJ_SEPARATE"),
    ),
}
"""Names of what is kept for the backward pass. MaxText: layers/models.py @ 02a8f5c1; praxis: AutodiffCheckpointType."""


def unable(draft: Draft, num_gpus: int, precision: Precision, framework: Framework, task: Task) -> Iterator[str]:
    """Every reason why ``framework`` cannot run ``draft``; nothing where it can."""
    yield from _everywhere(draft, framework)
    if framework in AS_LONG_AS_A_SEQUENCE and draft.model.position_embedding == "learned":
        yield from _positions(draft, framework)
    if framework in MEGATRONS | JAX:
        yield from _on_gpus(draft, precision, framework, task)
    if framework == "megatron-lm" and draft.model.activation == "geglu":
        yield "megatron-lm's pretrain_gpt.py has no flag for geglu: take another framework"
    if framework == "megatron-core":
        yield from worker_refusals(draft, precision)
    else:
        yield from worker_only(draft, precision, framework)
    if framework == "nemo1":
        yield from _nemo1(draft, precision, task)
    if framework == "nemo2" and draft.data.kind == "mock" and draft.training.seed != Training().seed:
        yield f"NeMo 2's mock data and weights have a seed of their own: training.seed must be {Training().seed}"
    if framework in ("nemo2", "megatron-bridge"):
        yield from _whole_fsdp(draft, num_gpus, framework, task)
    if framework in JAX:
        yield from _jax(draft, num_gpus, framework, task)
        yield from _left_to_xla(draft.training, precision, framework)
        yield from _maxtext(draft) if framework == "maxtext" else _paxml(draft, num_gpus)
    if draft.data.kind == "synthetic" and task != "pretrain":
        yield from _conversations(draft, framework, task)


def _everywhere(draft: Draft, framework: Framework) -> Iterator[str]:
    layout, training = draft.layout, draft.training
    if training.recompute.policy is not None and framework not in JAX:
        yield f"{framework} knows no recompute.policy ({training.recompute.policy}): it belongs to maxtext and paxml"
    if framework not in ("megatron-core", "hf"):
        ours = "must be false; the workers of this repository do"
        if training.ceilings:
            yield f"{framework} measures no ceilings: training.ceilings {ours}"
        if training.breakdown:
            yield f"{framework} profiles no step: training.breakdown {ours}"
    if layout.fsdp > 1 and framework in ("megatron-core", "megatron-lm", "nemo1"):
        yield f"{framework} is launched without FSDP: fsdp ({layout.fsdp}) must be 1; nemo2 and megatron-bridge have it"
    if layout.account_for_embedding_and_loss and framework == "nemo1":
        yield "nemo1 deals layers out evenly: account_for_embedding_and_loss must be false"
    if training.tp_comm_overlap:
        if framework not in MEGATRONS | {"megatron-core"}:
            yield f"{framework} has no userbuffers: tp_comm_overlap must be false"
        elif layout.tp == 1 or not layout.sequence_parallel:
            yield f"tp_comm_overlap needs tp ({layout.tp}) > 1 and sequence_parallel"


def _positions(draft: Draft, framework: Framework) -> Iterator[str]:
    if (longest := draft.model.max_position_embeddings) != draft.seq_length:
        what = f"max_position_embeddings ({longest}) must be seq_length ({draft.seq_length})"
        yield f"{framework} learns a position for each token of a sequence, and no more: {what}"


def _on_gpus(draft: Draft, precision: Precision, framework: Framework, task: Task) -> Iterator[str]:
    if precision == "fp32":
        yield f"{framework} is launched in bf16 or fp8, not in fp32"
    if draft.cluster.gpu == "CPU":
        yield f"{framework} needs GPUs: take megatron-core on a CPU"
    fp8 = draft.training.fp8
    if precision == "fp8" and fp8.recipe != "delayed" and framework in ("nemo1", *JAX):
        yield f"{framework} scales FP8 by the history alone: fp8.recipe must be delayed, not {fp8.recipe}"
    held = precision == "fp8" and fp8.param_gather and not draft.training.distributed_optimizer
    if held and framework in MEGATRONS and task != "lora":  # weights beside adapters no optimizer changes
        yield "fp8.param_gather needs distributed_optimizer: one of the two must change"


def _nemo1(draft: Draft, precision: Precision, task: Task) -> Iterator[str]:
    training, release = draft.training, nemo_release(draft.image)
    if task != "pretrain":
        yield f"NeMo 1 fine-tunes nothing but a .nemo checkpoint, and here weights are random: take nemo2 for {task}"
    if not training.distributed_optimizer and (training.overlap_grad_reduce or not training.grad_reduce_in_fp32):
        how = "grad_reduce_in_fp32 must be true, overlap_grad_reduce and overlap_param_gather false"
        yield f"without distributed_optimizer NeMo 1 reduces gradients in FP32, after the backward pass: {how}"
    if training.tp_comm_overlap and release in ("24.05", "24.09") and draft.cluster.mpi is None:
        yield f"NeMo {release} starts userbuffers over MPI: cluster.mpi must be set (pmix), or tp_comm_overlap be false"
    if draft.model.moe is not None:
        yield from _nemo1_experts(draft, draft.model.moe, precision, release)


def _nemo1_experts(draft: Draft, moe: Moe, precision: Precision, release: str | None) -> Iterator[str]:
    layout, training = draft.layout, draft.training
    if moe.force_balance:
        yield "NeMo 1 cannot force equal load: moe.force_balance must be false; moe.capacity_factor 1 evens it out"
    if layout.etp != layout.tp:
        yield f"NeMo 1 splits experts like everything else: etp ({layout.etp}) must be tp ({layout.tp})"
    if not training.distributed_optimizer:
        yield "NeMo 1 trains experts with Megatron's distributed optimizer: distributed_optimizer must be true"
    if release == "24.05" and layout.ep > 1 and layout.cp > 1:
        yield f"NeMo 24.05 has no context parallelism with spread experts: cp ({layout.cp}), or ep, must be 1"
    if release == "24.05" and precision == "fp8" and training.fp8.param_gather:
        yield "NeMo 24.05's megatron-core trains experts and knows no FP8 weights: fp8.param_gather must be false"


def _whole_fsdp(draft: Draft, num_gpus: int, framework: Framework, task: Task) -> Iterator[str]:
    layout = draft.layout
    ranks = num_gpus // (layout.tp * layout.pp)
    if layout.fsdp > 1 and layout.fsdp != ranks:
        yield f"{framework} cuts over all data-parallel ranks: fsdp ({layout.fsdp}) must be 1 or dp * cp ({ranks})"
    if layout.fsdp > 1 and task == "lora":
        yield f"{framework} is not launched with adapters under FSDP: fsdp ({layout.fsdp}) must be 1"


def _conversations(draft: Draft, framework: Framework, task: Task) -> Iterator[str]:
    """hf packs them itself, NeMo 1 and JAX fine-tune nothing, the others would train on text or are given packs."""
    if framework in ("megatron-core", "megatron-lm"):
        yield f"{framework} reads no conversations: take nemo2, megatron-bridge or hf for {task}, or data.kind mock"
    if framework not in ("nemo2", "megatron-bridge"):
        return
    if draft.mbs > 1:
        yield f"{framework} takes packed sequences one at a time: mbs ({draft.mbs}) must be 1, or data.kind mock"
    if draft.layout.cp > 1:
        yield f"conversations are packed for one rank each: cp ({draft.layout.cp}) must be 1, or data.kind mock"
    said = draft.data.instructions
    # As datagen has it: near the end of a sequence there is no room for the longer half of a distribution.
    most = draft.seq_length if said.lengths == "fixed" else draft.seq_length // 2
    if said.mean_length > most:
        what = f"data.instructions.mean_length ({said.mean_length})"
        yield f"{what} must be at most {most}, for {said.lengths} lengths in sequences of {draft.seq_length}"


def _jax(draft: Draft, num_gpus: int, framework: Framework, task: Task) -> Iterator[str]:
    layout, training, per_node = draft.layout, draft.training, min(num_gpus, draft.cluster.gpus_per_node)
    if task != "pretrain":
        yield f"{framework} is launched for pretraining alone, not for {task}"
    for name in ("tp", "pp", "cp", "vp", "ep", "etp"):
        degree = getattr(layout, name)
        if degree > 1:
            yield f"{framework} is launched with data parallelism and FSDP alone: {name} ({degree}) must be 1"
    if per_node % layout.fsdp and (layout.fsdp % per_node or num_gpus % layout.fsdp):
        yield f"fsdp ({layout.fsdp}) must divide a node's {per_node} GPUs, or be a multiple that divides {num_gpus}"
    if draft.data.kind != "mock":
        yield f"{framework} makes its own tokens: data.kind must be mock, not {draft.data.kind}"
    if draft.cluster.scheduler != "slurm":
        yield f"{framework} learns from Slurm which rank it is: cluster.scheduler must be slurm"
    yield from _rematerialized(training.recompute, framework)
    if (workers := draft.data.num_workers) != (usual := Data().num_workers):
        yield f"{framework} starts no process for its data: data.num_workers ({workers}) must be left at {usual}"
    if (steps := training.manual_gc_interval) != (usual := Training().manual_gc_interval):
        yield f"{framework} leaves garbage to Python: training.manual_gc_interval ({steps}) must be left at {usual}"


def _rematerialized(recompute: Recompute, framework: Framework) -> Iterator[str]:
    if recompute.granularity == "selective":
        yield f"{framework} has no selective recompute: name a recompute.policy, or take none or full"
    if recompute.granularity == "full" and (recompute.method, recompute.num_layers) != ("uniform", 1):
        how = f"recompute.method ({recompute.method}) must be uniform, num_layers ({recompute.num_layers}) 1"
        yield f"{framework} recomputes every layer, each for itself: {how}"
    if recompute.policy and recompute.policy not in REMAT[framework]:
        yield f"{framework} has no policy '{recompute.policy}'; it could be {', '.join(REMAT[framework])}"


def _left_to_xla(training: Training, precision: Precision, framework: Framework) -> Iterator[str]:
    fp8 = training.fp8
    if precision == "fp8" and (fp8.format, fp8.amax_history_len, fp8.amax_compute_algo) != ("hybrid", 1024, "max"):
        yield f"{framework}'s FP8 is fixed: format hybrid, amax_history_len 1024, amax_compute_algo max"
    if precision == "fp8" and not fp8.param_gather:
        yield f"{framework} leaves it to XLA where weights become FP8: training.fp8.param_gather must be true"
    for name in ("distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather", "grad_reduce_in_fp32"):
        if (default := getattr(Training(), name)) != getattr(training, name):
            yield f"{framework} leaves it to XLA: training.{name} must be {str(default).lower()}"


def _differing(draft: Draft, framework: Framework, wanted: dict[str, object]) -> Iterator[str]:
    if draft.model.moe is not None:
        yield f"{framework} is launched for dense models: this one has experts"
    for name, value in wanted.items():
        found = getattr(draft.model, name)
        if found != value:
            yield f"{framework} is launched for another kind of model: {name} must be {value}, not {found}"


def _maxtext(draft: Draft) -> Iterator[str]:
    wanted = {"activation": "swiglu", "normalization": "RMSNorm", "position_embedding": "rope", "rotary_percent": 1.0}
    yield from _differing(draft, "maxtext", {**wanted, "bias": False})


def _paxml(draft: Draft, num_gpus: int) -> Iterator[str]:
    model = draft.model
    wanted = {"activation": "gelu", "normalization": "LayerNorm", "position_embedding": "learned", "bias": True}
    yield from _differing(draft, "paxml", {**wanted, "num_query_groups": model.num_attention_heads})
    if model.kv_channels * model.num_attention_heads != model.hidden_size:
        yield f"paxml wants kv_channels ({model.kv_channels}) to be hidden_size / num_attention_heads"
    if draft.training.steps % PAXML_SUMMARY_STEPS:
        every = f"a rate every {PAXML_SUMMARY_STEPS} steps, and the last would not be seen"
        yield f"paxml says {every}: training.steps ({draft.training.steps}) must be a multiple"
    if draft.gbs != draft.mbs * num_gpus:
        yield f"paxml has no micro-batches: gbs ({draft.gbs}) must be mbs * GPUs ({draft.mbs} * {num_gpus})"
