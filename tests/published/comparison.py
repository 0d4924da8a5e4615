"""The points of the recipes beside the publishers' own configurations of the same workload.

``bridge.csv`` and ``nemo.csv`` are the extracts of ``extract.py`` and ``extract_nemo.py``: a row per configuration, a
column for each argument by its part of the configuration (``model.recompute_modules``), and for each variable of the
ranks (``env.NCCL_NVLS_ENABLE``). Points of other frameworks stand beside those, and beside the layouts of the pages,
which are in ``results/reference``. ``test_first_frameworks.py`` compares NeMo 1, MaxText and PaXML with their files.
"""

import ast
import csv
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchrun import paths
from benchrun.frameworks.megatron.config import megatron_config
from benchrun.frameworks.megatron_bridge.framework import OVERLAPS
from benchrun.frameworks.registry import framework
from benchrun.judge.references import load_references
from benchrun.model.layout import Layout
from benchrun.recipes import catalogue
from benchrun.recipes.catalogue import Point
from benchrun.recipes.resolve import resolve_point
from benchrun.render import render
from benchrun.runspec.spec import TrainingSpec

HERE = Path(__file__).parent
FRAMEWORK = "megatron-bridge"
EXTRACTS = {FRAMEWORK: "bridge.csv", "nemo2": "nemo.csv"}
NVIDIAS = ("nemo1", *EXTRACTS)
"""Frameworks whose configurations others run as well."""
ORDER = {"v0.4.2": "26.04", "v0.5.1": "26.06", "v0.6.0": "26.08", "v0.3.1": "26.02", "v0.2.2": "25.11"}
"""Releases, first that of the image that the recipes name, and NeMo's containers that have them."""
PUBLISHED_AS = {
    **{"llama3.1-8b": "llama3-8b", "llama3.1-70b": "llama3-70b"},
    **{f"llama3-{size}-{task}": f"llama3-{size}" for size in ("8b", "70b") for task in ("lora", "sft")},
}
"""Recipes whose model the publisher calls otherwise."""
PARTS = {
    "TrainingConfig": "train",
    "OptimizerConfig": "optimizer",
    "DistributedDataParallelConfig": "ddp",
    "DistributedInitConfig": "dist",
    "CommOverlapConfig": "comm_overlap",
    "MixedPrecisionConfig": "mixed_precision",
    "RerunStateMachineConfig": "rerun_state_machine",
    "LoRA": "peft",
    "GPTModelProvider": "model",
    "MLAModelProvider": "model",
    "MambaModelProvider": "model",
    **dict.fromkeys(("MegatronStrategy", "GPTConfig", "DeepSeekConfig"), "model"),
    **{f"{kind}DataModule": "train" for kind in ("Mock", "FineTuning", "PreTraining")},
    **{"MegatronCommOverlapCallback": "comm_overlap", "MegatronMixedPrecision": "mixed_precision"},
    **{"GarbageCollectionCallback": "train", "LoRA": "peft"},
}
"""Class in a rendered driver -> part of the configuration."""
DEGREES = ("tensor_model", "pipeline_model", "virtual_pipeline_model", "context", "expert_model")
LAYOUT = ("train.global_batch_size", "train.micro_batch_size", *(f"model.{each}_parallel_size" for each in DEGREES))
"""Keys by which a point finds its configuration."""
NOTHING = "-"
"""Every way to say that something is off."""
OFF = ("None", "False", "", "[]", "0", "none", "no_shard")
NOT_SPEED = re.compile(
    "HF_HUB_|TRANSFORMERS_|TOKENIZERS_|NVTE_F(LASH|USED)_ATTN|NCCL_DEBUG|TORCH_NCCL_(TRACE|DEBUG|DUMP)"
)
"""Variables that change no speed, or that stand for an argument (the attention backend)."""
DENSE = ("llama3-8b", "llama3-70b", "llama3.1-405b", "nemotron-h-56b")
WHOLE = "full_iteration"
KEPT = "keep_fp8_transpose_cache"
OF_SIZE = ("train.global_batch_size", *(f"comm_overlap.{name}" for name in (*OVERLAPS[:3], "bucket_size")))
"""Arguments that follow from the number of GPUs; Megatron-Bridge's overlaps are compared by other names."""
OF_BUFFERS = ("tp_comm_overlap_cfg", "tp_comm_bulk_dgrad", "tp_comm_overlap_rs_dgrad", "tp_comm_overlap_disable_qkv")
AWARE = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
RAN = {
    "megatron-bridge": "NVIDIA-NeMo/Megatron-Bridge|tests/gb200",
    "nemo2": r"NVIDIA/NeMo |summary @ (25|24.* to 25)|(grok1|llama3.1|nemotron)[\w-]*/README.md|MLPerf[^,]* v5",
    "nemo1": r"NeMo-Framework-Launcher|summary @ 24|(grok1|llama3.1|nemotron|nemo_megatron)/README_|MLPerf[^,]* v4",
    "maxtext": "dgxc-benchmarking maxtext/",
    "paxml": "dgxc-benchmarking paxml/|rosetta/projects/pax",
    "hf": "dgxc-benchmarking hf-",
    **{"nemo-rl": "NVIDIA-NeMo/RL ", "trtllm": "NVIDIA/TensorRT-LLM", "sglang": "SemiAnalysisAI/InferenceX"},
}
"""Framework -> what a source says that ran it."""
Values = dict[str, str]


class Difference(NamedTuple):
    """One argument that a point and its configuration set otherwise."""

    recipe: str
    framework: str
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
    """The rows of all extracts, each with the columns of all."""
    rows = []
    for framework_name, file in EXTRACTS.items():
        with (HERE / file).open(encoding="utf-8", newline="") as lines:
            rows += [captured(row | {"framework": framework_name}) for row in csv.DictReader(lines)]
    columns = dict.fromkeys((key for row in rows for key in row), "")
    return [columns | row for row in rows]


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
    driver = framework(spec.framework)
    for node in ast.walk(ast.parse(render(spec)[driver.program])):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        for keyword in node.keywords if name in PARTS else ():  # type: ignore[attr-defined]
            argument = str(keyword.arg).replace("muon_use_", "muon_")  # named otherwise up to v0.4.2
            found[f"{PARTS[name]}.{argument}"] = _text(keyword.value)
    if "model.enable_cuda_graph" in found:  # NeMo 2's names
        kind = "local" if found["model.enable_cuda_graph"] == "True" else "none"
        found |= {"model.cuda_graph_impl": kind, "ddp.use_megatron_fsdp": str(found["model.fsdp"] == "megatron")}
        found["model.tp_comm_bulk_dgrad"] = {"False": "off"}.get(found.get("model.tp_comm_bulk_dgrad", ""), "None")
        found[f"ddp.{KEPT}"] = found.get(f"ddp.{KEPT}_when_using_custom_fsdp", "False")
        for name in OVERLAPS if found["ddp.use_distributed_optimizer"] == "False" else ():
            found[f"comm_overlap.{name}"] = found.get(f"ddp.{name}", "False")
    elif found["ddp.use_distributed_optimizer"] == "True" and "comm_overlap.tp_comm_overlap" in found:
        for name in OVERLAPS:  # as CommOverlapConfig.setup
            value = found.get(f"comm_overlap.{name}", "None")
            found |= {f"{part}.{name}": value for part in ("ddp", "optimizer")}
        found["ddp.bucket_size"] = found.get("comm_overlap.bucket_size", str(128 << 20))
    found["model.vocab_size"] = str(spec.model.vocab_size)
    found["model.quant_recipe"] = " ".join(spec.training.switches.get("model.quant_recipe", ()))  # type: ignore[arg-type]
    for name, variable in driver.environment(spec).items():
        found[f"env.{name}"] = variable.value
    return captured(found | {f"env.{name}": value for name, value in spec.env.items()})


def planned(spec: TrainingSpec) -> Values:
    """What a framework that is no driver of NeMo's is told, by Megatron-Bridge's names."""
    training, layout, aware = spec.training, spec.layout, spec.training.optimizer.precision_aware
    flexible = training.moe_dispatcher != "alltoall"
    found = {"train.global_batch_size": spec.gbs, "train.micro_batch_size": spec.mbs}
    for name, degree in zip(DEGREES, ("tp", "pp", "vp", "cp", "ep"), strict=True):
        found[f"model.{name}_parallel_size"] = getattr(layout, degree)
    found |= {f"model.recompute_{name}": value for name, value in training.recompute if name != "policy"}
    found["model.recompute_modules"] = " ".join(training.recompute.modules)
    found["model.vocab_size"] = spec.model.vocab_size
    found |= {"model.seq_length": spec.seq_length, "model.sequence_parallel": layout.sequence_parallel}
    found |= {"model.pipeline_model_parallel_layout": layout.stages, "ddp.use_megatron_fsdp": layout.fsdp > 1}
    found["model.moe_token_dispatcher_type"] = "flex" if flexible else "alltoall"
    found["model.moe_flex_dispatcher_backend"] = training.moe_dispatcher
    found["comm_overlap.overlap_moe_expert_parallel_comm"] = training.moe_overlap
    found |= {"optimizer.use_precision_aware_optimizer": aware, "model.offload_modules": training.offload_modules}
    kind = {"none": "none", "full_iteration": WHOLE}.get(training.cuda_graphs, "transformer_engine")
    found |= {"model.cuda_graph_impl": kind, "model.cuda_graph_scope": " ".join(training.graph_scopes)}
    if aware:
        found |= {f"optimizer.{name}": megatron_config(spec).optimizer[name] for name in AWARE}
    if spec.precision == "fp8":
        found["mixed_precision.fp8_recipe"] = training.fp8.recipe
    return captured({key: str(value) for key, value in found.items()})


def pages(spec: TrainingSpec) -> Iterator[Values]:
    """The layouts that pages print with numbers of this point."""
    for reference in load_references():
        key = reference.key
        theirs = (key.recipe, key.gpu, key.precision, key.num_gpus, key.gbs)
        ours = (spec.recipe, spec.gpu, spec.precision, spec.num_gpus, spec.gbs)
        proxy = key.num_layers not in (None, spec.model.num_layers) or key.seq_length not in (None, spec.seq_length)
        strange = key.framework not in (spec.framework, *NVIDIAS) or "third_party" in reference.flags
        if theirs != ours or strange or proxy:
            continue
        degrees = zip(DEGREES, (key.tp, key.pp, key.vp, key.cp, key.ep), strict=True)
        row = {f"model.{name}_parallel_size": degree for name, degree in degrees}
        row |= {"train.micro_batch_size": key.mbs, "model.seq_length": key.seq_length}
        row |= {"mixed_precision.fp8_recipe": key.fp8_recipe, "num_gpus": key.num_gpus, "release": key.image}
        row |= {"recipe": key.recipe, "precision": key.precision, "framework": key.framework}
        yield dict.fromkeys(extract()[0], "") | {name: str(value) for name, value in row.items() if value is not None}


def _text(node: ast.expr) -> str:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return getattr(node, "attr", ast.unparse(node))
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def plain(key: str, value: str | None) -> str:
    """One spelling per value."""
    if key.startswith("env."):
        return value or NOTHING
    if value is None or value in OFF or (key == "model.virtual_pipeline_model_parallel_size" and value == "1"):
        return NOTHING
    if key == "model.pipeline_model_parallel_layout":
        return "|".join(Layout(stages=value.replace(",", "")).stage_list)
    return value.removesuffix(".0")


def matters(key: str, row: Values, ours: Values) -> bool:
    """Whether an argument changes the work or the speed, given the others."""
    part, name = key.split(".", 1)

    def either(other: str) -> set[str]:
        return {plain(other, row.get(other)), plain(other, ours.get(other))}

    if part == "env":
        return not NOT_SPEED.match(name)
    if name.startswith("moe_") or name == "use_fused_weighted_squared_relu":
        if name in ("moe_flex_dispatcher_backend", "moe_flex_dispatcher_num_sms"):
            return "flex" in either("model.moe_token_dispatcher_type")
        if name == "moe_hybridep_num_sms":
            return "flex" in either("model.moe_token_dispatcher_type") and _hybridep(row, ours)
        return row["recipe"] not in DENSE
    if name in AWARE:
        return either("optimizer.use_precision_aware_optimizer") == {"True"}
    if name == "attention_backend":
        return row[key] not in ("auto", "None", "") and ours.get("env.NVTE_FLASH_ATTN") != "0"
    needs = {
        "fp4_recipe": row["precision"] == "nvfp4",
        "fp8_recipe": row["precision"] == "fp8",
        "vocab_size": row[key] != "None",  # the tokenizer's file says it
        "fp8_param": False,  # fp8_param_gather says it
        "grad_reduce_in_fp32": part == "ddp",
        "num_layers_at_start_in_bf16": row["mixed_precision.first_last_layers_bf16"] == "True",
        "num_layers_at_end_in_bf16": row["mixed_precision.first_last_layers_bf16"] == "True",
        "recompute_granularity": row[key] != "selective" or row["model.recompute_modules"] != "",
        "recompute_modules": "selective" in either("model.recompute_granularity"),
        "recompute_method": "full" in either("model.recompute_granularity"),
        "recompute_num_layers": "full" in either("model.recompute_granularity"),
        "cp_comm_type": row["model.context_parallel_size"] != "1",
        "align_param_gather": row["ddp.overlap_param_gather"] == "True"
        and row["model.virtual_pipeline_model_parallel_size"] not in ("None", "1"),
        "bucket_size": _replicas(row) > 1 and row["ddp.use_distributed_optimizer"] == "True",
        "store_param_remainders": either("optimizer.use_precision_aware_optimizer") != {NOTHING},
        "dropout_position": row.get("peft.dropout") not in ("0.0", ""),
        "data_parallel_sharding_strategy": either("ddp.use_megatron_fsdp") != {NOTHING},
        "num_distributed_optimizer_instances": row.get(key) != "1",
        "apply_rope_fusion": not row["recipe"].startswith("nemotron"),  # which rotates nothing
        "offload_modules": either("model.fine_grained_activation_offloading") != {NOTHING},
        "cpu_offloading_num_layers": either("model.cpu_offloading") != {NOTHING},
        **dict.fromkeys(
            OF_BUFFERS,
            row["model.tensor_model_parallel_size"] != "1" and row["comm_overlap.tp_comm_overlap"] == "True",
        ),
        "tp_only_amax_red": row["precision"] == "fp8",
        **dict.fromkeys(("fp8_amax_history_len", "fp8_amax_compute_algo"), row["fp8_recipe"] == "delayed"),
        "tp_comm_overlap": row["model.tensor_model_parallel_size"] != "1",
        "defer_embedding_wgrad_compute": row["model.pipeline_model_parallel_size"] != "1",
        "wgrad_deferral_limit": row["comm_overlap.defer_embedding_wgrad_compute"] == "True",
        "min_offloaded_tensor_size": either("model.fine_grained_activation_offloading") != {NOTHING},
        "mtp_use_repeated_layer": either("model.mtp_num_layers") != {NOTHING},
    }
    return needs.get(name, True)


def _replicas(row: Values) -> int:
    ranks = 1
    for name in ("tensor_model", "pipeline_model", "context"):
        ranks *= int(row[f"model.{name}_parallel_size"] or 1)
    return int(row["num_gpus"]) // ranks


def _hybridep(row: Values, ours: Values) -> bool:
    key = "model.moe_flex_dispatcher_backend"
    return "hybridep" in (row.get(key), ours.get(key))


def differences(recipe: str, point: Point, spec: TrainingSpec, row: Values, ours: Values) -> list[Difference]:
    """Every argument that matters and differs; a batch that grows with the GPUs at the publisher's number."""
    found = []
    variables = row["framework"] == spec.framework and row.get("env.TORCH_NCCL_AVOID_RECORD_STREAMS")
    for key in {**row, **ours}:
        value = row.get(key, "")
        said = value or (variables and key.startswith("env."))
        scaled = key in OF_SIZE and row["num_gpus"] != str(point.num_gpus)
        told = row["framework"] == spec.framework or key in ours
        if "." not in key or not said or scaled or not told or not matters(key, row, ours):
            continue
        stated, published = plain(key, ours.get(key)), plain(key, value)
        if stated != published:
            where = (recipe, spec.framework, point.gpu, spec.precision, str(point.num_gpus), str(spec.gbs))
            found.append(Difference(*where, key, stated, published))
    return found


def ran(source: str) -> list[str]:
    """The frameworks whose numbers or configurations a source has."""
    return [name for name, words in RAN.items() if re.search(words, source)]


def _alike(spec: TrainingSpec, row: Values) -> bool:
    """Whether the publisher's configuration is of the same workload, at this or another number of GPUs."""
    own = row["framework"] in (FRAMEWORK, spec.framework)
    if own and spec.precision == "fp8" and row["fp8_recipe"] != spec.training.fp8.recipe:
        return False
    if row["task"] != spec.task or row["gpu"] != spec.gpu or row["precision"] != spec.precision:
        return False
    scaled = int(row["train.global_batch_size"]) * spec.num_gpus == spec.gbs * int(row["num_gpus"])
    return int(row["num_gpus"]) == spec.num_gpus or scaled


def named(row: Values, point: Point) -> bool:
    """Whether the source of a point names the commit of a configuration, or the release."""
    source = point.group.source or ""
    first, last = _releases(row["release"]), _releases(source)
    overlap = bool(first and last) and first[0] <= last[-1] and last[0] <= first[-1]
    before = "[^);]*" if point.framework == FRAMEWORK else ""
    release = rf"\({before}{ORDER.get(row['release'], '-')}"
    return overlap or row["commit"] in source or bool(re.search(release, source))


def _releases(text: str) -> list[tuple[int, ...]]:
    return sorted(tuple(map(int, each.split("."))) for each in re.findall(r"\bv(\d\d\.\d\d(?:\.\d+)?)", text))


def points(recipe: str) -> Iterator[tuple[Point, TrainingSpec]]:
    """The points of whole models that may have a publisher: those that name a source, and all of Megatron-Bridge."""
    file = catalogue.recipe_file(recipe)
    for point in catalogue.points(file.recipe):
        bridge = point.framework == FRAMEWORK and point.gpu in {row["gpu"] for row in extract()}
        if not getattr(point.group, "num_layers", None) and (point.group.source or bridge):
            spec = resolve_point(file, point)
            if isinstance(spec, TrainingSpec):
                yield point, spec


def matches(recipe: str) -> Iterator[Match | Point]:
    """Each point with its configuration, then with its page; the point alone where nobody published one."""
    names = (recipe, PUBLISHED_AS.get(recipe))
    of_model = [row for row in extract() if row["recipe"] in names]
    for point, spec in points(recipe):
        alike = [row for row in of_model if _alike(spec, row)]
        own = [row for row in alike if row["framework"] == spec.framework]
        others = [row for row in alike if named(row, point) and point.group.source]
        found = nearest(point, spec, own or others)
        if found is None or spec.framework == "nemo2":
            printed = [*pages(spec)]
            own = [row for row in printed if row["framework"] == spec.framework]
            page = nearest(point, spec, own if own or found else printed)
            if page:
                yield page
            elif found is None:
                yield point
        if found:
            yield found


def nearest(point: Point, spec: TrainingSpec, candidates: list[Values]) -> Match | None:
    """The candidate that is most like a point, of the release that its source names."""
    best = None
    images = {tag for row in candidates for tag in row["variant"].partition(", image ")[2].split()}
    measured = max(images & _images(spec.recipe, spec.gpu, spec.framework), default="")
    for row in candidates:
        ours = rendered(spec) if row["framework"] == spec.framework in EXTRACTS else planned(spec)
        found = differences(spec.recipe, point, spec, row, ours)
        layout = sum(each.key in LAYOUT for each in found)
        release = [*ORDER, row["release"]].index(row["release"])
        scaled = row["num_gpus"] != str(point.num_gpus)
        chosen = (scaled, release)
        if spec.framework == "nemo2":  # of a range of releases that of the newest number counts, or the last
            last = _releases(row["release"])[-1:]
            newest = [[-part for part in each] for each in last]
            chosen = (measured not in row["variant"].split(), scaled, newest)
        rank = (not named(row, point), layout, *chosen, len(found))
        if best is None or rank < best[0]:
            best = (rank, Match(point, spec, row, found))
    return best[1] if best else None


@functools.cache
def _images(recipe: str, gpu: str, framework_name: str) -> set[str]:
    keys = [reference.key for reference in load_references()]
    alike = [key.image for key in keys if (key.recipe, key.gpu, key.framework) == (recipe, gpu, framework_name)]
    return {(image or "").rpartition(":")[2] for image in alike}


def recipes() -> list[str]:
    """The recipes of which something is published."""
    return [name for name in sorted(paths.shipped(paths.RECIPES)) if any(points(name))]
