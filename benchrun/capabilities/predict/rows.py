"""Rows of a table like the published ones -> workloads, and the step times they
state."""

import difflib
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from benchrun import hardware, paths
from benchrun.errors import UserError, closest
from benchrun.model import ModelShape
from benchrun.model.layout import Layout
from benchrun.recipes.files import recipe_document
from benchrun.vocabulary import Task

from . import software
from .counting import HEAD_WIDTH
from .workload import (
    Architecture,
    Number,
    Recomputed,
    Workload,
    architectures,
)

NUMBERS: dict[str, Number] = {
    "BF16": "bf16", "FP16": "fp16", "FP32": "fp32", "FP8": "fp8", "FP8-DS": "fp8", "FP8-CS": "fp8_current",
    "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "FP8-SUBCHANNEL": "mxfp8", "NVFP4": "nvfp4",
}  # fmt: skip
ABSENT = ("", "NA", "N/A", "-")
"""Cells of tables that state nothing."""
RELEASE = re.compile(r"(?:@v|NeMo |ngc)(\d\d)\.(\d\d)")
"""Year and month of the software in a source: @v25.04 or NeMo 25.09."""
SIZE = re.compile(r"\d+(\.\d+)?[bt]")
"""The last word of many models' names."""
COUNTS = ("num_gpus", "seq_len", "tp", "pp", "cp", "vp", "ep", "fsdp_shard", "layers")
"""Columns of whole numbers."""
COLUMNS = (
    *COUNTS,
    "model",
    "gpu",
    "precision",
    "gbs",
    "mbs",
    "task",
    "recompute",
    "hidden",
    "heads",
)
"""Columns that describe a step."""
RECIPES: Mapping[Task, str] = {"pretrain": "", "sft": "-sft", "lora": "-lora"}
"""Task -> how the names of its recipes end, after that of the model."""
PUBLISHED = "published.csv"
"""Rows that others published, with all that their sources state of the layout: beside
this module."""
VOCABULARY = 51200
"""Vocabulary of GPTs whose tables state none."""
LARGEST = 1e9
"""Largest number that a column may hold."""
HBM2E = {"memory_gb_per_s": 2400.0}
"""H100 with slower memory, as torchtitan's benchmarks used it: bandwidth, 10^9
bytes/s."""
Row = Mapping[str, str | None]
OTHER_WORK = re.compile(
    r"(?<![a-z])(?:ppo|grpo|dpo|rl|rlhf|inference|serving|offline)(?![a-z])", re.I
)
"""Tasks without a training step."""
SINGLE_NODE = {"gpu": "A100-80", "precision": "FP16", "source_id": "vtrain-single"}
"""Columns that a table of layouts on one node (VIA-Research/vTrain
data/ground_truth_single.csv) lacks."""


def workload_of_row(row: Row) -> Workload:
    """The step that a row describes. UserError if a needed column is empty or not
    understood."""
    if "hidden" in row and "gpu" not in row:
        row = {**row, **SINGLE_NODE}
    notes = row.get("notes") or ""
    task = _task_text(row)
    source = row.get("source_id") or ""
    if OTHER_WORK.search(task):
        raise UserError(f"task is {task[:40]}: only a training step can be predicted")
    layers = int(_positive(row, "layers", 0))
    gpu = _gpu(row.get("gpu") or "", notes)
    num_gpus = int(_positive(row, "num_gpus"))
    seq_length = int(_positive(row, "seq_len"))
    stack = _stack(row, task)
    layout = _layout(row, num_gpus, stack)
    ranks = layout.dp(num_gpus)
    gbs = _positive(row, "gbs")
    mbs = _positive(row, "mbs", 0) or _likely_mbs(gbs, ranks, stack)
    recompute = _recompute(row)
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
        recompute=_granularity(recompute),
        policy=recompute if stack.startswith(software.JAX) else "",
        stack=stack,
        source=source,
        release=software.release_year(RELEASE.search(row.get("source") or "")),
        tp_overlap=software.has("overlapping", stack) or "async" in notes.lower(),
        power_limit=500 / 700 if "500W" in notes else 1.0,
    )
    _refuse_impossible(load)
    return load


@functools.cache
def published() -> list[dict[str, str]]:
    """The rows of published.csv with their step times: those of results/reference if
    a row names one there."""
    rows = [dict(row) for row in paths.table(__file__, PUBLISHED)]
    for row in rows:
        if row["reference"]:
            row["step_time_s"] = str(_reference_step_s(row))
    return rows


def _reference_step_s(row: Row) -> float:
    """Step time in s that the row ``file:line`` of results/reference states, or means
    by its throughput."""
    file, _, line = (row["reference"] or "").partition(":")
    entry = paths.table(str(paths.REFERENCE / file), f"{file}.csv")[int(line) - 2]
    if entry.get("fit") == "no":
        raise ValueError(f"{PUBLISHED} names {row['reference']}, to which nothing may be fitted")
    value = float(entry["value"])
    if entry["metric"] == "step_time_s":
        return value
    tokens = _positive(row, "gbs") * _positive(row, "seq_len")
    return tokens / (_positive(row, "num_gpus") * value)


def _refuse_impossible(load: Workload) -> None:
    """UserError if the GPU does not compute in this precision, or nothing can be
    spread like this."""
    shape = load.model.shape
    layout = load.layout
    if load.number == "fp32":
        raise UserError("precision is fp32: only those of 16 bits and less can be predicted")
    if load.products_peak_tflops is None:
        number = load.number.removesuffix("_current")
        raise UserError(f"precision is {number}, which {load.gpu.name} does not compute")
    stages = layout.pp * layout.vp
    if stages > shape.num_layers + 2:  # embedding and output layer may be stages of their own
        raise UserError(f"pp * vp = {stages} stages are more than the {shape.num_layers} layers")
    if shape.moe and shape.moe.num_experts % layout.ep:
        raise UserError(f"ep = {layout.ep} does not divide the {shape.moe.num_experts} experts")
    ranks = layout.tp * layout.cp * load.dp
    if shape.moe and ranks % layout.ep:
        raise UserError(f"ep = {layout.ep} does not divide the {ranks} GPUs of a stage")


def doubts(row: Row, load: Workload) -> list[str]:
    """A sentence for each value that is taken for another one: misprints, words of the
    table's own."""
    stated = _positive(row, "gbs")
    least = load.mbs * load.dp
    task = _task_text(row)
    recompute = _recompute(row).strip()
    remarks = []
    if stated < load.gbs:
        remarks.append(
            f"gbs is {stated:g}: {load.gbs:g}, a micro-batch for each data-parallel rank"
        )
    elif stated % least:
        remarks.append(f"gbs is {stated:g}: no multiple of mbs * dp = {least:g}")
    if load.task == "pretrain" and "pretrain" not in task:
        remarks.append(f"task is {task[:40]}: predicted as pretrain")
    if load.recompute == "none" and not load.policy and recompute.upper() not in ("NONE", *ABSENT):
        remarks.append(
            f"recompute is {recompute[:40]}: predicted as none (others: full, selective)"
        )
    return remarks


def misnamed(columns: set[str]) -> Iterator[str]:
    """A sentence for each column whose name resembles one that is missing."""
    missing = [name for name in COLUMNS if name not in columns]
    for name in sorted(columns.difference(COLUMNS)):
        for right in difflib.get_close_matches(name, missing, n=1, cutoff=0.75):
            yield f"column '{name}' is not read: {right} is right"


def completed(row: Row) -> tuple[Row, list[str]]:
    """The row with what it leaves open and others tell, and a sentence for each value
    that was filled in."""
    filled = dict(row)
    remarks = []
    stated = row.get("model") or ""
    name = filled["model"] = _known_name(stated) or stated
    if _words(name) != _words(stated):
        remarks.append(f"no model is called '{stated}': {name} is meant")
    if not (row.get("seq_len") or "").strip():
        length, origin = _usual_length(name, _task_text(row))
        if length:
            filled["seq_len"] = str(length)
            remarks.append(f"seq_len is empty: {length}, as {origin}")
    if name not in architectures() and _gpt(row) is None:
        width = _likely_width(row)
        if width:
            filled |= {"hidden": str(width), "heads": str(width // HEAD_WIDTH)}
            gpt = f"a GPT of its parameters and layers, {width} wide"
            remarks.append(f"no model is called '{name}': {gpt}, stands for it")
    return filled, remarks


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9.]+", name.lower()) if word]


def _known_name(name: str) -> str | None:
    """The one model that is called ``name`` apart from capitals and punctuation, or
    except for the last words of either."""
    if name in architectures():
        return name
    words = _words(name)
    if not words:
        return None
    same = []
    longer = []
    shorter = []
    for each in architectures():
        others = _words(each)
        if "".join(others) == "".join(words):
            same.append(each)
        elif others[: len(words)] == words:
            longer.append(each)
        elif others == words[:-1] and SIZE.fullmatch(words[-1]):
            shorter.append(each)
    alike = same or longer or shorter
    shapes = {architectures()[each].shape for each in alike}
    if len(shapes) != 1:
        return None
    return alike[0]


def _usual_length(model: str, task: str) -> tuple[int, str]:
    """Tokens of a sequence if a table does not state them, and who says so; 0 if
    nobody does.

    The recipe of this model and task says it; else most of the published rows, of the
    same task if there are any.
    """
    recipe = model + RECIPES[_task(task)]
    if recipe in paths.shipped(paths.RECIPES):
        length = recipe_document(recipe)[1].get("seq_length")
        if length:
            return int(length), f"recipe {recipe} has it"
    of_task = Counter[int]()
    of_any = Counter[int]()
    for row in paths.table(__file__, PUBLISHED):
        if row["model"] == model and row["seq_len"]:
            of_any[int(row["seq_len"])] += 1
            if _task(_task_text(row)) == _task(task):
                of_task[int(row["seq_len"])] += 1
    for usual, _ in (of_task or of_any).most_common(1):
        return usual, f"most published rows of {model} have it"
    return 0, ""


def _likely_width(row: Row) -> int | None:
    """The width of a GPT with a row's parameters and layers; None if it does not
    state both, or has experts."""
    try:
        params = 1e9 * float(row.get("params_b") or "")
        layers = int(float(row.get("layers") or ""))
        experts = int(float(row.get("ep") or 1)) > 1
    except ValueError:
        return None
    if not (0 < params < LARGEST * 1e9 and 0 < layers < LARGEST) or experts:
        return None
    # 12 l h^2 + v h = params
    width = ((VOCABULARY**2 + 48 * layers * params) ** 0.5 - VOCABULARY) / (24 * layers)
    return max(1, int(width / HEAD_WIDTH + 0.5)) * HEAD_WIDTH


def _positive(row: Row, column: str, default: float | None = None) -> float:
    """The number above 0 in a column, or ``default`` if the row states none."""
    text = (row.get(column) or "").strip()
    if text.upper() in ABSENT:
        if default is None:
            raise UserError(f"{column} is empty")
        return default
    try:
        number = float(text)
    except ValueError:
        raise UserError(f"{column} is '{text}', not a number") from None
    kind = "whole number" if column in COUNTS else "number"
    if not 0 < number < LARGEST or (column in COUNTS and number % 1):
        raise UserError(f"{column} is {text[:40]}, which is no {kind} above 0")
    return number


def _layout(row: Row, num_gpus: int, stack: str) -> Layout:
    """The layout of a row; a degree that it does not state is 1, except for FSDP's
    share."""
    tp, pp, cp = (int(_positive(row, column, 1)) for column in ("tp", "pp", "cp"))
    if num_gpus % (tp * pp * cp):
        raise UserError(f"tp * pp * cp = {tp * pp * cp} does not divide the {num_gpus} GPUs")
    shards = 1
    if software.has("fully_sharded", stack):
        shards = num_gpus
    fsdp = int(_positive(row, "fsdp_shard", shards))
    ep = int(_positive(row, "ep", 1))
    vp = int(_positive(row, "vp", 1))
    # Rows of 2022 state sequence parallelism in the column of recomputation.
    split = tp > 1 and (stack != software.MEGATRON_2022 or "sp" in (row.get("recompute") or ""))
    return Layout(tp=tp, pp=pp, cp=cp, vp=vp, ep=ep, sequence_parallel=split, fsdp=max(1, fsdp))


def _gpu(name: str, notes: str) -> hardware.Gpu:
    gpu = hardware.gpu(hardware.name_of(name) or name)
    if gpu is None:
        raise UserError(f"no GPU is called '{name}'", hint=closest(name, hardware.names()))
    if "HBM2e" in notes + name and gpu.name == "H100":
        return gpu.model_copy(update=HBM2E)
    return gpu


def _stack(row: Row, task: str) -> str:
    stated = software.of_source(row.get("source_id") or "") or software.of_task(task)
    if stated:
        return stated
    if (row.get("gpu") or "").startswith("A100") and row.get("precision") == "FP16":
        return software.MEGATRON_2022
    return software.MEGATRON


def _architecture(row: Row, layers: int) -> Architecture:
    """The model of a row, with its own number of layers if it is a proxy; a
    published table says so in its notes."""
    name = row.get("model") or ""
    proxy = "proxy" in (row.get("notes") or "") or not row.get("source_id")
    models = architectures()
    if name not in models:
        gpt = _gpt(row)
        if gpt is None:
            raise UserError(f"no model is called '{name}'", hint=closest(name, models))
        return Architecture(f"gpt of width {gpt.hidden_size}", gpt)
    model = models[name]
    if not layers or not proxy or layers == model.shape.num_layers:
        return model
    return Architecture(model.name, model.shape.model_copy(update={"num_layers": layers}))


def _gpt(row: Row) -> ModelShape | None:
    """GPT-2's shape at the width, heads and layers that columns or notes state; None
    if they do not."""
    sizes = []
    for name in ("hidden", "heads", "layers"):
        noted = re.search(rf"{name} (\d+)", row.get("notes") or "")
        text = row.get(name) or (noted[1] if noted else "")
        if not text:
            return None
        sizes.append(int(float(text)))
    hidden, heads, layers = sizes
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
    if number == "fp8" and software.has("current_scaling", row.get("source_id") or ""):
        return "fp8_current"
    return number


def _task_text(row: Row) -> str:
    """The task as a row states it, in small letters."""
    return (row.get("task") or "").strip().lower() or "pretrain"


def _task(text: str) -> Task:
    if "lora" in text:
        return "lora"
    if re.search("sft|fine-?tun", text):
        return "sft"
    return "pretrain"


def _recompute(row: Row) -> str:
    return row.get("recompute") or ""


def _granularity(recompute: str) -> Recomputed:
    text = recompute.strip().lower()
    if text == "full":
        return "full"
    if text.startswith("selective"):
        return "selective"
    return "none"


def _likely_mbs(gbs: float, ranks: int, stack: str) -> float:
    """The micro-batch if a table states none: 1, and for GPT-3 in 2021 what its
    paper's throughput suggests."""
    if stack == software.MEGATRON_2022:
        return max(1.0, min(gbs / ranks, 2.0))
    return 1.0
