"""Predictions by AIConfigurator: a server's latencies and throughput, and the generation
of a step of GRPO.

It looks measured kernels up, needs no GPU, and states no interval.
"""

import json
import logging
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.judge.conditions import conditions, settings_distance
from benchrun.judge.references import load_references
from benchrun.model import ModelShape

from . import software
from .prediction import PUBLISHED, predict
from .runs import architecture
from .workload import Workload

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")
"""Names of the number of experts in files of Hugging Face."""
SPEED = "output_tokens_per_s_per_gpu"
NEAREST = 4
"""Published numbers that stand for a prediction."""
LONGEST = "of the longest responses; probabilities, rewards and the transfer of weights take more"


def served(spec: Any) -> dict[str, Any]:
    """Document of ``predict --json`` of a server or of GRPO. UserError for any other
    workload, and where AIConfigurator is missing or knows no answer."""
    if spec.workload == "inference":
        return _of_server(spec)
    if spec.task == "grpo":
        return _of_grpo(spec)
    raise UserError(
        f"{spec.recipe} is no training, no server and no GRPO, which alone are predicted"
    )


def _of_server(spec: Any) -> dict[str, Any]:
    """Latencies and throughput for requests of the mean length, in all slots."""
    if spec.concurrency is None:
        raise UserError(
            f"{_unlisted(spec)}a server is predicted with all slots taken",
            hint=f"--set concurrency=64{_published(spec)}",
        )
    share = (1 + spec.shortest) / 2
    replicas = 1
    if spec.ep == 1:
        replicas = spec.dp
    found, source = _estimated(
        spec,
        spec.framework,
        isl=round(share * spec.input_tokens),
        osl=round(share * spec.output_tokens),
        batch_size=-(-spec.concurrency // spec.dp),
        tp_size=spec.tp,
        pp_size=spec.pp,
        attention_dp_size=spec.dp // replicas,
        moe_tp_size=spec.tp * spec.dp // replicas // spec.ep,
        moe_ep_size=spec.ep,
        kvcache_quant_mode=None if spec.kv_cache == "auto" else spec.kv_cache,
    )
    return {
        "mean_ttft_ms": found.ttft,
        "mean_tpot_ms": found.tpot,
        "output_tokens_per_s_per_gpu": found.raw["tokens/s/gpu"],
        "calibration": source,
    }


def _of_grpo(spec: Any) -> dict[str, Any]:
    """Seconds of generation and of the updates, for responses of the greatest length."""
    made = spec.generation
    length = spec.max_response_length
    found, source = _estimated(
        spec,
        made.engine,
        isl=max(spec.max_sequence_length - length, 128),
        osl=length,
        batch_size=-(-spec.rollouts * made.tp * made.pp // spec.generation_gpus),
        tp_size=made.tp,
        pp_size=made.pp,
        moe_tp_size=made.tp,
    )
    gpu = hardware.gpu(spec.gpu)
    assert gpu is not None  # AIConfigurator knows no other
    whole = (spec.policy_gpus, spec.layout, spec.mbs, spec.gbs, spec.max_sequence_length)
    stack = software.of_framework(spec.framework)
    load = Workload(architecture(spec), gpu, *whole, spec.precision, "sft", stack=stack)
    return {
        "generation_s": (found.ttft + found.tpot * (length - 1)) / 1000,
        "training_s": predict(load).median * spec.rollouts / spec.gbs,
        "calibration": f"{source}, and {PUBLISHED}, {LONGEST}",
    }


def _estimated(spec: Any, engine: str, **options: Any) -> tuple[Any, str]:
    """AIConfigurator's estimate of one replica, and what it rests on."""
    try:
        from aiconfigurator.cli import api
    except ImportError:
        raise UserError(
            "AIConfigurator, which predicts servers and generation, is not installed",
            hint=f"pip install '.[predict]' (Linux x86-64; no GPU is needed){_published(spec)}",
        ) from None
    for name in ("aiconfigurator", "aiconfigurator_core"):
        logging.getLogger(name).setLevel(logging.ERROR)
    config = _config(spec.model)
    if spec.precision == "bf16":
        config.pop("quantization_config", None)
    elif "quantization_config" not in config:
        options |= {"gemm_quant_mode": spec.precision, "moe_quant_mode": spec.precision}
    system = spec.gpu.lower() + "_sxm" * (not spec.gpu.startswith("GB"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
        try:
            found = api.cli_estimate(folder, system, backend_name=engine, **options)
        except (RuntimeError, ValueError, KeyError) as error:
            reason = str(error).replace(folder, spec.recipe).partition(" at /")[0]
            raise UserError(
                f"AIConfigurator does not predict {engine} on {spec.gpu}: {reason}",
                hint="fewer or shorter requests, another precision, tp or framework may do",
            ) from None
    return found, f"AIConfigurator for {engine} {found.backend_version} on {system}"


def _unlisted(spec: Any) -> str:
    """The point that the recipe does not list, and what stands for it; empty if it does."""
    place, borrowed, _ = (spec.derived or "").partition(", as in")
    if not borrowed:
        return ""
    return f"no {spec.precision} on {spec.num_gpus} x {spec.gpu} in {spec.recipe} ({place}); "


def _published(spec: Any) -> str:
    """Numbers published for servers of this model on this GPU, the nearest workload
    first, and of these the newest; empty without any."""
    own = conditions(spec)
    model = spec.recipe.rpartition("-")[0]
    rows = []
    for entry in load_references():
        key = entry.key
        same = (key.gpu, key.precision) == (own.gpu, own.precision)
        if same and entry.metric == SPEED and key.recipe.rpartition("-")[0] == model:
            rows.append(entry)
    rows.sort(key=lambda e: e.source.date)
    rows.reverse()  # of one date the last of its file
    rows.sort(key=lambda e: settings_distance(e.key.settings, own.settings))
    lines = []
    for entry in rows[:NEAREST]:
        key = entry.key
        gpus = f"{key.num_gpus} x {key.gpu} {key.precision}"
        lines.append(
            f"\n  published: {entry.value:,.4g} output tokens/s/GPU, {gpus}, {entry.software}, "
            f"{key.settings} ({entry.id})"
        )
    return "".join(lines)


def _config(model: ModelShape) -> dict[str, Any]:
    """The model as Hugging Face states it: a dense one as a Llama, one of experts as the
    one of its width that AIConfigurator knows."""
    if model.moe is None:
        return {
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": model.hidden_size,
            "intermediate_size": model.ffn_hidden_size,
            "num_hidden_layers": model.num_layers,
            "num_attention_heads": model.num_attention_heads,
            "num_key_value_heads": model.num_query_groups,
            "head_dim": model.kv_channels,
            "vocab_size": model.vocab_size,
            "max_position_embeddings": model.max_position_embeddings,
        }
    for file in sorted(map(str, resources.files("aiconfigurator_core.model_configs").iterdir())):
        config: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
        same = config.get("hidden_size") == model.hidden_size
        if same and model.moe.num_experts in map(config.get, EXPERTS):
            return {**config, "num_hidden_layers": model.num_layers}
    raise UserError("AIConfigurator knows no model with these experts")
