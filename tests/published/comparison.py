"""The points of the recipes beside Megatron-Bridge's own configurations of the same workload.

``bridge.csv`` is the extract that ``extract.py`` makes: a row for each configuration, a column for each argument by its
part of the configuration (``model.recompute_modules``), and for each variable of the ranks (``env.NCCL_NVLS_ENABLE``).
"""

import ast
import csv
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchrun.frameworks.megatron_bridge.framework import OVERLAPS
from benchrun.frameworks.registry import framework
from benchrun.model.layout import Layout
from benchrun.recipes import catalogue
from benchrun.recipes.catalogue import Point
from benchrun.recipes.resolve import resolve_point
from benchrun.render import render
from benchrun.runspec.spec import TrainingSpec

HERE = Path(__file__).parent
FRAMEWORK = "megatron-bridge"
ORDER = ("v0.4.2", "v0.5.1", "v0.6.0", "v0.3.1", "v0.2.2")
"""Releases, first that of the image that the recipes name."""
PUBLISHED_AS = {
    **{"llama3.1-8b": "llama3-8b", "llama3.1-70b": "llama3-70b"},
    **{f"llama3-{size}-{task}": f"llama3-{size}" for size in ("8b", "70b") for task in ("lora", "sft")},
}
"""Recipes whose model the publisher calls otherwise."""
PARTS = {
    "TrainingConfig": "train",
    "OptimizerConfig": "optimizer",
    "DistributedDataParallelConfig": "ddp",
    "CommOverlapConfig": "comm_overlap",
    "MixedPrecisionConfig": "mixed_precision",
    "GPTModelProvider": "model",
    "MLAModelProvider": "model",
    "MambaModelProvider": "model",
}
"""Class in a rendered driver -> part of the configuration."""
DEGREES = ("tensor_model", "pipeline_model", "virtual_pipeline_model", "context", "expert_model")
LAYOUT = ("train.global_batch_size", "train.micro_batch_size", *(f"model.{each}_parallel_size" for each in DEGREES))
"""Keys by which a point finds its configuration."""
NOTHING = "-"
"""Every way to say that something is off."""
OFF = ("None", "False", "", "[]", "0", "none", "no_shard")
NOT_SPEED = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM", "NVTE_FLASH_ATTN")
"""Variables that change no speed, or that stand for an argument (the attention backend)."""
DENSE = ("llama3-8b", "llama3-70b", "llama3.1-405b", "nemotron-h-56b")
WHOLE = "full_iteration"
AWARE = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
Values = dict[str, str]


class Difference(NamedTuple):
    """One argument that a point and its configuration set otherwise."""

    recipe: str
    gpu: str
    precision: str
    num_gpus: str
    gbs: str
    key: str
    ours: str
    published: str


class Match(NamedTuple):
    """A point with the configuration that is most like it."""

    point: Point
    spec: TrainingSpec
    row: Values
    differences: list[Difference]


@functools.cache
def extract() -> list[Values]:
    with (HERE / "bridge.csv").open(encoding="utf-8", newline="") as lines:
        return [captured(row) for row in csv.DictReader(lines)]


def captured(values: Values) -> Values:
    """With the graphs that the training loop makes: scopes count only where a kind reads them."""
    kind, scope = (values.get(f"model.cuda_graph_{name}", "") for name in ("impl", "scope"))
    if kind == "local" and scope == WHOLE:
        kind = WHOLE
    modules = scope if kind == "transformer_engine" and plain("", scope) != NOTHING else NOTHING
    return values | {"model.cuda_graph_impl": kind, "model.cuda_graph_scope": modules}


def rendered(spec: TrainingSpec) -> Values:
    """What the driver and the job of ``spec`` set."""
    found: Values = {}
    for node in ast.walk(ast.parse(render(spec)["train_megatron_bridge.py"])):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        for keyword in node.keywords if name in PARTS else ():  # type: ignore[attr-defined]
            found[f"{PARTS[name]}.{keyword.arg}"] = _text(keyword.value)
    if found["ddp.use_distributed_optimizer"] == "True":  # as CommOverlapConfig.setup
        for name in OVERLAPS:
            value = found.get(f"comm_overlap.{name}", "None")
            found |= {f"{part}.{name}": value for part in ("ddp", "optimizer")}
    for name, variable in framework(FRAMEWORK).environment(spec).items():
        found[f"env.{name}"] = variable.value
    return captured(found | {f"env.{name}": value for name, value in spec.env.items()})


def _text(node: ast.expr) -> str:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return getattr(node, "attr", ast.unparse(node))
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def plain(key: str, value: str | None) -> str:
    """One spelling per value."""
    if value is None or value in OFF or (key == "model.virtual_pipeline_model_parallel_size" and value == "1"):
        return NOTHING
    if key == "model.pipeline_model_parallel_layout":
        return "|".join(Layout(stages=value.replace(",", "")).stage_list)
    return value


def matters(key: str, row: Values, ours: Values) -> bool:
    """Whether an argument changes the work or the speed, given the others."""
    part, name = key.split(".", 1)

    def either(other: str) -> set[str]:
        return {plain(other, row.get(other)), plain(other, ours.get(other))}

    if part == "env":
        return name not in NOT_SPEED
    if name.startswith("moe_") or name == "use_fused_weighted_squared_relu":
        if name == "moe_flex_dispatcher_backend":
            return "flex" in either("model.moe_token_dispatcher_type")
        if name == "moe_hybridep_num_sms":
            return "flex" in either("model.moe_token_dispatcher_type") and _hybridep(row, ours)
        return row["recipe"] not in DENSE
    if name in AWARE:
        return either("optimizer.use_precision_aware_optimizer") != {NOTHING}
    if name == "attention_backend":
        return row[key] not in ("auto", "None", "") and ours.get("env.NVTE_FLASH_ATTN") != "0"
    needs = {
        "fp4_recipe": row["precision"] == "nvfp4",
        "fp8_recipe": row["precision"] == "fp8",
        "fp8_param": False,  # fp8_param_gather says it
        "grad_reduce_in_fp32": part == "ddp",
        "num_layers_at_start_in_bf16": row["mixed_precision.first_last_layers_bf16"] == "True",
        "num_layers_at_end_in_bf16": row["mixed_precision.first_last_layers_bf16"] == "True",
        "recompute_granularity": row[key] != "selective" or row["model.recompute_modules"] != "",
        "recompute_modules": "selective" in either("model.recompute_granularity"),
        "recompute_method": "full" in either("model.recompute_granularity"),
        "recompute_num_layers": "full" in either("model.recompute_granularity"),
        "data_parallel_sharding_strategy": either("ddp.use_megatron_fsdp") != {NOTHING},
        "num_distributed_optimizer_instances": row.get(key) != "1",
        "apply_rope_fusion": not row["recipe"].startswith("nemotron"),  # which rotates nothing
        "offload_modules": either("model.fine_grained_activation_offloading") != {NOTHING},
        "cpu_offloading_num_layers": either("model.cpu_offloading") != {NOTHING},
        "tp_comm_overlap": row["model.tensor_model_parallel_size"] != "1",
        "mtp_use_repeated_layer": either("model.mtp_num_layers") != {NOTHING},
    }
    return needs.get(name, True)


def _hybridep(row: Values, ours: Values) -> bool:
    key = "model.moe_flex_dispatcher_backend"
    return "hybridep" in (row.get(key), ours.get(key))


def differences(recipe: str, point: Point, spec: TrainingSpec, row: Values, ours: Values) -> list[Difference]:
    """Every argument that matters and differs; a batch that grows with the GPUs at the publisher's number."""
    found = []
    for key, value in row.items():
        scaled = key == "train.global_batch_size" and row["num_gpus"] != str(point.num_gpus)
        if "." not in key or value == "" or scaled or not matters(key, row, ours):
            continue
        stated, published = plain(key, ours.get(key)), plain(key, value)
        if stated != published:
            where = (recipe, point.gpu, spec.precision, str(point.num_gpus), str(spec.gbs))
            found.append(Difference(*where, key, stated, published))
    return found


def _alike(spec: TrainingSpec, row: Values) -> bool:
    """Whether the publisher's configuration is of the same workload, at this or another number of GPUs."""
    if spec.precision == "fp8" and row["fp8_recipe"] != spec.training.fp8.recipe:
        return False
    if row["task"] != spec.task or row["gpu"] != spec.gpu or row["precision"] != spec.precision:
        return False
    scaled = int(row["train.global_batch_size"]) * spec.num_gpus == spec.gbs * int(row["num_gpus"])
    return int(row["num_gpus"]) == spec.num_gpus or scaled


def points(recipe: str) -> Iterator[tuple[Point, TrainingSpec]]:
    """The points of whole models on the GPUs of the extract."""
    file, gpus = catalogue.recipe_file(recipe), {row["gpu"] for row in extract()}
    for point in catalogue.points(file.recipe):
        if point.framework == FRAMEWORK and point.gpu in gpus and not point.group.num_layers:
            yield point, resolve_point(file, point)


def matches(recipe: str) -> Iterator[Match | Point]:
    """Each point with its configuration; the point alone where nobody published one."""
    name = PUBLISHED_AS.get(recipe, recipe)
    of_model = [row for row in extract() if row["recipe"] == name]
    for point, spec in points(recipe):
        candidates = [row for row in of_model if _alike(spec, row)]
        if not candidates:
            yield point
            continue
        ours, best = rendered(spec), None
        for row in candidates:
            found = differences(recipe, point, spec, row, ours)
            layout = sum(each.key in LAYOUT for each in found)
            rank = (layout, row["num_gpus"] != str(point.num_gpus), ORDER.index(row["release"]), len(found))
            if best is None or rank < best[0]:
                best = (rank, row, found)
        assert best is not None
        yield Match(point, spec, best[1], best[2])


def recipes() -> list[str]:
    """The recipes of which there are configurations."""
    return sorted({row["recipe"] for row in extract()} | {*PUBLISHED_AS})
