"""Rows of a table like the published ones -> workloads, and the step times they state."""

import csv
import functools
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchrun import hardware, paths
from benchrun.errors import UserError, closest
from benchrun.model import ModelShape
from benchrun.model.layout import Layout
from benchrun.predict import software
from benchrun.predict.counting import HEAD_WIDTH
from benchrun.predict.workload import Architecture, Number, Recomputed, Workload, architectures
from benchrun.recipe.files import recipe_document
from benchrun.vocabulary import Task

GPUS = {"A100-80": "A100", "A100-40": "A100-40GB"}
"""Names of GPUs in published tables that differ from the hardware table's."""
NUMBERS: dict[str, Number] = {
    "BF16": "bf16", "FP16": "fp16", "FP32": "fp32", "FP8": "fp8", "FP8-DS": "fp8", "FP8-CS": "fp8_current",
    "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "FP8-SUBCHANNEL": "mxfp8", "NVFP4": "nvfp4",
}  # fmt: skip
ABSENT = ("NA", "N/A", "-")
"""What tables write where they state nothing."""
RELEASE = re.compile(r"(?:@v|NeMo |ngc)(\d\d)\.(\d\d)")
"""Year and month of the software in a source: @v25.04 or NeMo 25.09."""
SIZE = re.compile(r"\d+(\.\d+)?[bt]")
"""The last word of many a model's name."""
COUNTS = ("num_gpus", "seq_len", "tp", "pp", "cp", "vp", "ep", "fsdp_shard", "layers")
"""Columns of whole numbers."""
RECIPES: Mapping[Task, str] = {"pretrain": "", "sft": "-sft", "lora": "-lora"}
"""Task -> how the names of its recipes end, after that of the model."""
PUBLISHED = Path(__file__).with_name("published.csv")
VOCABULARY = 51200
"""Of GPTs whose tables state none."""
LARGEST = 1e9
"""No column holds more."""
Row = Mapping[str, str | None]
OTHER_WORK = re.compile(r"(?<![a-z])(?:ppo|grpo|dpo|rl|rlhf|inference|serving|offline)(?![a-z])", re.I)
"""Tasks without a training step."""
SINGLE_NODE = {"gpu": "A100-80", "precision": "FP16", "source_id": "vtrain-single"}
"""What a table of layouts on one node (VIA-Research/vTrain data/ground_truth_single.csv) does not state."""


def workload(row: Row) -> Workload:
    """What a row describes. UserError where a column that is needed is empty or not understood."""
    if "hidden" in row and "gpu" not in row:
        row = {**row, **SINGLE_NODE}
    notes, task = row.get("notes") or "", _task_text(row)
    if OTHER_WORK.search(task):
        raise UserError(f"task is {task[:40]}: only a training step can be predicted")
    layers = int(_positive(row, "layers", 0))
    gpu = _gpu(row.get("gpu") or "", notes)
    num_gpus, seq_length = int(_positive(row, "num_gpus")), int(_positive(row, "seq_len"))
    stack = _stack(row, task)
    layout = _layout(row, num_gpus, stack)
    ranks = layout.dp(num_gpus)
    gbs = _positive(row, "gbs")
    mbs = _positive(row, "mbs", 0) or _likely_mbs(gbs, ranks, stack)
    load = Workload(
        model=_architecture(row, layers),
        gpu=gpu,
        num_gpus=num_gpus,
        layout=layout,
        mbs=mbs,
        gbs=max(gbs, mbs * ranks),
        seq_length=seq_length,
        number=_number(row),
        task=_task(task),
        recompute=_recompute(row),
        policy=(row.get("recompute") or "") if stack.startswith(software.JAX) else "",
        stack=stack,
        source=row.get("source_id") or "",
        release=software.release_year(RELEASE.search(row.get("source") or "")),
        tp_overlap=software.overlaps_tp(stack) or "async" in notes.lower(),
        power_limit=500 / 700 if "500W" in notes else 1.0,
    )
    _refuse_impossible(load)
    return load


def _refuse_impossible(load: Workload) -> None:
    """UserError where the GPU does not compute in this precision, or nothing can be spread like this."""
    shape, layout = load.model.shape, load.layout
    if load.number == "fp32":
        raise UserError("precision is fp32: only those of 16 bits and less can be predicted")
    if load.products_peak_tflops is None:
        raise UserError(f"precision is {load.number.removesuffix('_current')}, which {load.gpu.name} does not compute")
    stages, most = layout.pp * layout.vp, shape.num_layers + 2  # embedding and output layer may be stages of their own
    if stages > most:
        raise UserError(f"pp * vp = {stages} stages are more than the {shape.num_layers} layers")
    if shape.moe and shape.moe.num_experts % layout.ep:
        raise UserError(f"ep = {layout.ep} does not divide the {shape.moe.num_experts} experts")
    ranks = layout.tp * layout.cp * load.dp
    if shape.moe and ranks % layout.ep:
        raise UserError(f"ep = {layout.ep} does not divide the {ranks} GPUs of a stage")


def doubts(row: Row, load: Workload) -> list[str]:
    """A sentence for each value that is taken for another one: tables have misprints, and words of their own.

    A batch may not fill the data-parallel ranks.
    """
    stated, least = _positive(row, "gbs"), load.mbs * load.dp
    task, recompute = _task_text(row), (row.get("recompute") or "").strip()
    remarks = []
    if stated < load.gbs:
        remarks.append(f"gbs is {stated:g}: {load.gbs:g}, a micro-batch for each data-parallel rank")
    elif stated % least:
        remarks.append(f"gbs is {stated:g}: no multiple of mbs * dp = {least:g}")
    if load.task == "pretrain" and "pretrain" not in task:
        remarks.append(f"task is {task[:40]}: predicted as pretrain")
    if load.recompute == "none" and not load.policy and recompute.upper() not in ("", "NONE", *ABSENT):
        remarks.append(f"recompute is {recompute[:40]}: predicted as none (others: full, selective)")
    return remarks


def completed(row: Row) -> tuple[Row, list[str]]:
    """The row with what it leaves open and others tell, and a sentence for each value that was filled in."""
    filled, remarks = dict(row), []
    stated = row.get("model") or ""
    name = filled["model"] = _known_name(stated) or stated
    if _words(name) != _words(stated):
        remarks.append(f"no model is called '{stated}': {name} is meant")
    if not (row.get("seq_len") or "").strip() and (usual := _usual_length(name, _task_text(row))):
        filled["seq_len"] = str(usual[0])
        remarks.append(f"seq_len is empty: {usual[0]}, as {usual[1]}")
    if name not in architectures() and _gpt(row) is None and (width := _likely_width(row)):
        filled |= {"hidden": str(width), "heads": str(width // HEAD_WIDTH)}
        remarks.append(f"no model is called '{name}': a GPT of its parameters and layers, {width} wide, stands for it")
    return filled, remarks


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9.]+", name.lower()) if word]


def _known_name(name: str) -> str | None:
    """The one model that is called ``name`` but for capitals and punctuation, or but for the last words of either."""
    if name in architectures():
        return name
    words = _words(name)
    words_of = {each: _words(each) for each in architectures()}
    alike = [each for each, others in words_of.items() if "".join(others) == "".join(words)]
    alike = alike or [each for each, others in words_of.items() if words and others[: len(words)] == words]
    if not alike and len(words) > 1 and SIZE.fullmatch(words[-1]):
        alike = [each for each, others in words_of.items() if others == words[:-1]]
    shapes = {architectures()[each].shape for each in alike}
    return alike[0] if len(shapes) == 1 else None


def _usual_length(model: str, task: str) -> tuple[int, str] | None:
    """Tokens of a sequence where a table does not state them, and whose they are; None where nobody tells.

    Those of the recipe of this model and task; else the most frequent ones of published rows, of the same task if any.
    """
    recipe = model + RECIPES[_task(task)]
    shipped = recipe in paths.shipped(paths.RECIPES)
    if shipped and (length := recipe_document(recipe)[1].get("seq_length")):
        return int(length), f"recipe {recipe} has it"
    lengths = [(kind, length) for name, kind, length in _published_lengths() if name == model]
    alike = [length for kind, length in lengths if kind == _task(task)] or [length for _, length in lengths]
    if not alike:
        return None
    return Counter(alike).most_common(1)[0][0], f"most published rows of {model} have it"


@functools.cache
def _published_lengths() -> list[tuple[str, Task, int]]:
    """Model, task and sequence length of the published rows."""
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["seq_len"]]
    return [(row["model"], _task(_task_text(row)), int(float(row["seq_len"]))) for row in rows]


def _likely_width(row: Row) -> int | None:
    """The width of a GPT with a row's parameters and layers; None where it does not state both, or has experts."""
    try:
        params, layers = 1e9 * float(row.get("params_b") or ""), int(float(row.get("layers") or ""))
        experts = int(float(row.get("ep") or 1)) > 1
    except ValueError:
        return None
    if not (0 < params < LARGEST * 1e9 and 0 < layers < LARGEST) or experts:
        return None
    width = ((VOCABULARY**2 + 48 * layers * params) ** 0.5 - VOCABULARY) / (24 * layers)  # 12 l h^2 + v h = params
    return max(1, int(width / HEAD_WIDTH + 0.5)) * HEAD_WIDTH


def observed(row: Row) -> float | None:
    """The step time that a row states, in s; from its throughput where it has no time; None without either."""
    if row.get("step_time_s"):
        return float(row["step_time_s"] or 0)
    if row.get("tokens_per_s_per_gpu") and row.get("gbs") and row.get("seq_len"):
        tokens = float(row["gbs"] or 0) * float(row["seq_len"] or 0) / float(row["num_gpus"] or 1)
        return tokens / float(row["tokens_per_s_per_gpu"] or 1)
    return None


def _positive(row: Row, column: str, default: float | None = None) -> float:
    """The number above 0 in a column, or ``default`` where the row states none."""
    text = (row.get(column) or "").strip()
    if not text or text.upper() in ABSENT:
        if default is None:
            raise UserError(f"{column} is empty")
        return default
    try:
        number = float(text)
    except ValueError:
        raise UserError(f"{column} is '{text}', not a number") from None
    if not 0 < number < LARGEST or (column in COUNTS and number != int(number)):
        raise UserError(f"{column} is {text[:40]}, which is no {'whole ' if column in COUNTS else ''}number above 0")
    return number


def _layout(row: Row, num_gpus: int, stack: str) -> Layout:
    """How the model is spread over the GPUs; a size that the row does not state is 1, but for FSDP's share."""
    tp, pp, cp = (int(_positive(row, column, 1)) for column in ("tp", "pp", "cp"))
    if num_gpus % (tp * pp * cp):
        raise UserError(f"tp * pp * cp = {tp * pp * cp} does not divide the {num_gpus} GPUs")
    fsdp = int(_positive(row, "fsdp_shard", num_gpus if software.shares_among_all(stack) else 1))
    ep, vp = int(_positive(row, "ep", 1)), int(_positive(row, "vp", 1))
    # Rows of 2022 state sequence parallelism in the column of recomputation.
    split = tp > 1 and (stack != software.MEGATRON_2022 or "sp" in (row.get("recompute") or ""))
    return Layout(tp=tp, pp=pp, cp=cp, vp=vp, ep=ep, sequence_parallel=split, fsdp=max(1, fsdp))


def _gpu(name: str, notes: str) -> hardware.Gpu:
    gpu = hardware.gpu(GPUS.get(name) or hardware.name_of(name) or name)
    if gpu is None:
        raise UserError(f"no GPU is called '{name}'", hint=closest(name, hardware.names()))
    if "HBM2e" in notes + name and gpu.name == "H100":  # a variant with slower memory
        return gpu.model_copy(update={"memory_gb_per_s": 2400.0})
    return gpu


def _stack(row: Row, task: str) -> str:
    stated = software.of_source(row.get("source_id") or "") or software.of_task(task)
    old = (row.get("gpu") or "").startswith("A100") and (row.get("precision") or "") == "FP16"
    return stated or (software.MEGATRON_2022 if old else software.MEGATRON)


def _architecture(row: Row, layers: int) -> Architecture:
    """The model of a row, with its own number of layers where it is a proxy; a published table says so in its notes."""
    name, proxy = row.get("model") or "", "proxy" in (row.get("notes") or "") or not row.get("source_id")
    models = architectures()
    if name not in models and (shape := _gpt(row)):
        return Architecture(f"gpt of width {shape.hidden_size}", shape)
    if name not in models:
        raise UserError(f"no model is called '{name}'", hint=closest(name, models))
    model = models[name]
    if layers and proxy and layers != model.shape.num_layers:
        shape = model.shape.model_copy(update={"num_layers": layers})
        return Architecture(model.name, shape)
    return model


def _gpt(row: Row) -> ModelShape | None:
    """GPT-2's shape at the width, heads and layers that columns or notes state; None where they do not."""
    sizes = {
        name: row.get(name) or next(iter(re.findall(rf"{name} (\d+)", row.get("notes") or "")), None)
        for name in ("hidden", "heads", "layers")
    }
    if not all(sizes.values()):
        return None
    hidden, heads, layers = (int(float(size or 0)) for size in sizes.values())
    return ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=4 * hidden,
        num_attention_heads=heads,
        num_query_groups=heads,
        kv_channels=hidden // heads,
        vocab_size=VOCABULARY,
        max_position_embeddings=2**20,
        activation="gelu",
        normalization="LayerNorm",
        position_embedding="learned",
        tied_embeddings=True,
    )


def _number(row: Row) -> Number:
    text = row.get("precision") or "BF16"
    words = re.sub(r"\((?:no )?TE\)", "", text, flags=re.I)  # with or without transformer-engine
    number = NUMBERS.get("-".join(re.findall(r"[A-Z0-9]+", words.upper())))
    if number is None:
        raise UserError(f"no precision is called '{text}'", hint=closest(text, NUMBERS))
    current = number == "fp8" and software.scales_currently(row.get("source_id") or "")
    return "fp8_current" if current else number


def _task_text(row: Row) -> str:
    """What a row calls its task, in small letters."""
    return (row.get("task") or "").strip().lower() or "pretrain"


def _task(text: str) -> Task:
    return "lora" if "lora" in text else "sft" if re.search("sft|fine-?tun", text) else "pretrain"


def _recompute(row: Row) -> Recomputed:
    text = (row.get("recompute") or "").strip().lower()
    return "full" if text == "full" else "selective" if text.startswith("selective") else "none"


def _likely_mbs(gbs: float, ranks: int, stack: str) -> float:
    """The micro-batch where a table does not state it: 1, and of GPT-3 in 2021 what its paper's throughput suggests."""
    return max(1.0, min(gbs / ranks, 2.0)) if stack == software.MEGATRON_2022 else 1.0
