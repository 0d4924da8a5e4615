"""The identity of a run: a digest of a canonical form of its RunSpec, with its own names and defaults.

The form is frozen. If a field of RunSpec gets another name or default, only the right-hand sides below change and every
id stays. A new field gets an entry and, in ``BASELINE``, the value that older runs had. Any other change needs the next
``VERSION``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from benchrun.spec.images import is_path

if TYPE_CHECKING:
    from benchrun.spec.runspec import RunSpec

VERSION = 1
BASELINE: Mapping[str, Any] = {
    **{"activation": "swiglu", "norm": "RMSNorm", "position": "rope", "rotary.base": 10000, "rotary.part": 1},
    **{"bias": False, "tied": False},
    **{"tp": 1, "pp": 1, "cp": 1, "vp": 1, "ep": 1, "etp": 1, "sp": False, "fsdp": 1, "even_ends": False},
    **{"seed": 1234, "lr.warmup": 0, "decay": 0.1, "clip": 1},
    **{"zero1": True, "overlap.grad": True, "overlap.param": True, "overlap.tp": False, "grad32": False},
    **{"cp.comm": "p2p", "graphs": "none", "impl": "transformer_engine", "fused": True, "gc": 100},
    **{"adam.aware": False, "adam.main": "fp32", "adam.m": "fp32", "adam.v": "fp32"},
    **{"recompute": "none", "recompute.how": None, "recompute.layers": None, "recompute.parts": "", "remat": None},
    **{"fp8.params": True, "fp8.attention": False, "fp8.inputs": False, "fp8.tp_amax": False},
    **{"lora.dropout": 0, "lora.on": ""},
    **{"experts.aux": 0.01, "experts.capacity": None, "experts.even": False, "experts.grouped": True},
    **{"experts.permute": True, "data": "mock", "data.workers": 1, "data.learnable": False},
}
"""Values that the form omits."""
ALWAYS = {
    **{"framework": "framework", "task": "task", "gpu": "gpu", "gpus": "num_gpus", "nodes": "num_nodes"},
    **{"precision": "precision", "sequence": "seq_length", "micro_batch": "mbs", "batch": "gbs"},
    **{"layers": "model.num_layers", "width": "model.hidden_size", "mlp": "model.ffn_hidden_size"},
    **{"heads": "model.num_attention_heads", "kv_heads": "model.num_query_groups", "head_width": "model.kv_channels"},
    **{"vocabulary": "model.vocab_size", "activation": "model.activation", "norm": "model.normalization"},
    **{"position": "model.position_embedding", "bias": "model.bias", "tied": "model.tied_embeddings"},
    **{name: f"layout.{name}" for name in ("tp", "pp", "cp", "vp", "ep", "etp", "fsdp")},
    **{"sp": "layout.sequence_parallel", "even_ends": "layout.account_for_embedding_and_loss"},
    **{"steps": "training.steps", "seed": "training.seed", "lr": "training.lr", "lr.end": "training.min_lr"},
    **{"lr.warmup": "training.lr_warmup_steps", "decay": "training.weight_decay", "clip": "training.clip_grad"},
    **{"zero1": "training.distributed_optimizer", "overlap.grad": "training.overlap_grad_reduce"},
    **{"overlap.param": "training.overlap_param_gather", "overlap.tp": "training.tp_comm_overlap"},
    **{"grad32": "training.grad_reduce_in_fp32", "cp.comm": "training.cp_comm", "graphs": "training.cuda_graphs"},
    **{"impl": "training.transformer_impl", "fused": "training.fused_kernels", "gc": "training.manual_gc_interval"},
    **{"adam.aware": "training.optimizer.precision_aware", "adam.main": "training.optimizer.main_params"},
    **{"adam.m": "training.optimizer.exp_avg", "adam.v": "training.optimizer.exp_avg_sq"},
    **{"recompute": "training.recompute.granularity", "recompute.how": "training.recompute.method"},
    **{"recompute.layers": "training.recompute.num_layers", "recompute.parts": "training.recompute.modules"},
    **{"remat": "training.recompute.policy", "data": "data.kind", "data.workers": "data.num_workers"},
}
"""Name in the form -> field of RunSpec; below, the same for fields that only some runs have."""
ROPE = {"rotary.base": "model.rotary_base", "rotary.part": "model.rotary_percent"}
LEARNED = {"positions": "model.max_position_embeddings"}
MOE = {
    **{"experts": "model.moe.num_experts", "experts.chosen": "model.moe.topk"},
    "experts.mlp": "model.moe.ffn_hidden_size",
    **{"experts.aux": "model.moe.aux_loss_coeff", "experts.capacity": "model.moe.capacity_factor"},
    **{"experts.even": "model.moe.force_balance", "experts.grouped": "training.moe_grouped_gemm"},
    **{"experts.permute": "training.moe_permute_fusion"},
}
FP8 = {
    **{"fp8": "training.fp8.recipe", "fp8.format": "training.fp8.format"},
    "fp8.history": "training.fp8.amax_history_len",
    **{"fp8.amax": "training.fp8.amax_compute_algo", "fp8.params": "training.fp8.param_gather"},
    **{"fp8.attention": "training.fp8.dot_product_attention", "fp8.inputs": "training.fp8.store_activation_input"},
    **{"fp8.tp_amax": "training.fp8.tp_only_amax_reduction"},
}
LORA = {
    **{"lora.rank": "training.lora.rank", "lora.alpha": "training.lora.alpha", "lora.dropout": "training.lora.dropout"},
    **{"lora.on": "training.lora.target_modules"},
}
TOKENS = {
    **{"data.seed": "data.synthetic.seed", "data.lengths": "data.synthetic.documents"},
    **{"data.mean": "data.synthetic.mean_length", "data.tokens": "data.synthetic.tokens"},
    **{"data.tokens_by": "data.synthetic.distribution", "data.exponent": "data.synthetic.exponent"},
    **{"data.learnable": "data.synthetic.learnable"},
}
CONVERSATIONS = {
    **{"data.lengths": "data.instructions.lengths", "data.mean": "data.instructions.mean_length"},
    **{"data.samples": "data.instructions.samples", "data.seed": "data.instructions.seed"},
}
NOT_SPEED = ("HF_HUB_OFFLINE", "HYDRA_FULL_ERROR", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_OFFLINE", "VOCAB_PATH")
"""Variables that do not change the speed."""
OF_THE_SITE = re.compile(r"_IFNAME$|_HCA$|_NET_DEVICES$|_ADDR$|_PORT$")
"""Variables that name a network interface or address."""


def canonical(spec: RunSpec) -> dict[str, Any]:
    """The form of ``spec``: everything that changes the measurement, without site and paths."""
    parts = [ALWAYS, ROPE if spec.model.position_embedding == "rope" else LEARNED]
    parts += [part for part, holds in ((MOE, spec.model.moe), (FP8, spec.precision == "fp8")) if holds]
    parts += [LORA] if spec.task == "lora" else []
    if spec.data.kind == "synthetic":
        parts.append(CONVERSATIONS if spec.instructed else TOKENS)
    form = {name: value_of(spec, field) for part in parts for name, field in part.items()}
    form["image"] = workload_image(spec)
    if form.get("data.tokens") in (None, spec.training.steps * spec.tokens_per_step + 1):
        form.pop("data.tokens", None)  # the run reads them all
    form |= {f"env.{name}": value for name, value in workload_env(spec).items() if _counts(name, value)}
    plain = {key: _plain(value) for key, value in form.items()}
    return {key: value for key, value in plain.items() if key not in BASELINE or value != BASELINE[key]}


def value_of(root: Any, field: str) -> Any:
    """The value of a dotted field."""
    return reduce(getattr, field.split("."), root)


def identity(spec: RunSpec) -> str:
    """Eight hex digits that differ when what is measured differs."""
    return _digest(canonical(spec))


def step_identity(spec: RunSpec) -> str:
    """The same without the number of steps."""
    return _digest({key: value for key, value in canonical(spec).items() if key != "steps"})


def workload_env(spec: RunSpec) -> dict[str, str]:
    """The variables of the framework and the recipe, before the cluster's took their place."""
    own = {name: value for name, value in spec.env.items() if name not in spec.cluster.env}
    return own | spec.replaced_env


def image_name(image: str) -> str:
    """``name:tag`` of an image in any registry or folder: ``nemo:25.07`` for ``/images/nvidia+nemo+25.07.sqsh``."""
    last = re.sub(r"\.(sqsh|sif|simg|img|tar|tgz)$", "", image.rstrip("/").rpartition("/")[2].rpartition("#")[2])
    if ":" in last or "@" in last:
        name, _, digest = last.partition("@")
        return name if ":" in name else f"{name}:{digest}"
    if "+" in last:
        return ":".join(last.split("+")[-2:])
    versioned = re.fullmatch(r"(.+?)[-_](v?\d.*)", last)
    return f"{versioned[1]}:{versioned[2]}" if versioned else last


def workload_image(spec: RunSpec) -> str | None:
    """``name:tag`` of the image. A site's file counts only where its name states a release of the recipe's image."""
    if spec.image is None:
        return None
    named, own = image_name(spec.image), spec.replaced_image and image_name(spec.replaced_image)
    if not is_path(spec.image):
        return named
    name, _, tag = named.partition(":")
    return named if tag and name.endswith((own or name).partition(":")[0]) else own


def _counts(name: str, value: str) -> bool:
    return name not in NOT_SPEED and not OF_THE_SITE.search(name) and "/" not in value


def _plain(value: Any) -> Any:
    """One spelling per value: 16.0 is 16, a list is its words, sorted."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "+".join(sorted(value)) if isinstance(value, Iterable) and not isinstance(value, str) else value


def _digest(form: Mapping[str, Any]) -> str:
    text = json.dumps({"form": VERSION, **form}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
