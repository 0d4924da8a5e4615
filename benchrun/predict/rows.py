"""Rows of a table like the published ones -> workloads, and the step times they state."""

import re
from collections.abc import Mapping

from benchrun import hardware, paths
from benchrun.errors import UserError, closest
from benchrun.model import ModelShape
from benchrun.model.layout import Layout
from benchrun.predict import software
from benchrun.predict.workload import Architecture, Number, Recomputed, Workload, architectures
from benchrun.recipe.files import names, recipe_document
from benchrun.vocabulary import Task

GPUS = {"A100-80": "A100", "A100-40": "A100-40GB"}
"""Names of GPUs in published tables that differ from the hardware table's."""
NUMBERS: dict[str, Number] = {
    "BF16": "bf16", "FP16": "fp16", "FP32": "fp32", "FP8": "fp8", "FP8-DS": "fp8", "FP8_DS": "fp8",
    "FP8-CS": "fp8_current", "FP8_CS": "fp8_current",
    "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "FP8_MX": "mxfp8", "NVFP4": "nvfp4",
}  # fmt: skip
COUNTS = ("num_gpus", "seq_len", "tp", "pp", "cp", "vp", "ep", "fsdp_shard")
"""Columns of whole numbers."""
RECIPES = {"pretrain": "", "sft": "-sft", "lora": "-lora"}
"""Task -> how the names of its recipes end, after that of the model."""
LARGEST = 1e9
"""No column holds more."""
Row = Mapping[str, str | None]
SINGLE_NODE = {"gpu": "A100-80", "precision": "FP16", "source_id": "vtrain-single"}
"""What a table of layouts on one node (VIA-Research/vTrain data/ground_truth_single.csv) does not state."""


def workload(row: Row) -> Workload:
    """What a row describes. UserError where a column that is needed is empty or not understood."""
    if "hidden" in row and "gpu" not in row:
        row = {**row, **SINGLE_NODE}

    def whole(column: str, default: float | None = None) -> float:
        text = (row.get(column) or "").strip()
        if not text:
            if default is None:
                raise UserError(f"{column} is empty")
            return default
        try:
            number = float(text)
        except ValueError:
            raise UserError(f"{column} is '{text}', not a number") from None
        if not 0 < number < LARGEST or (column in COUNTS and number != int(number)):
            raise UserError(
                f"{column} is {text[:40]}, which is no {'whole ' if column in COUNTS else ''}number above 0"
            )
        return number

    notes, task = row.get("notes") or "", row.get("task") or "pretrain"
    gpu = _gpu(row.get("gpu") or "", notes)
    num_gpus, seq_length = int(whole("num_gpus")), int(whole("seq_len"))
    tp, pp, cp = (int(whole(column, 1)) for column in ("tp", "pp", "cp"))
    if num_gpus % (tp * pp * cp):
        raise UserError(f"tp * pp * cp = {tp * pp * cp} does not divide the {num_gpus} GPUs")
    ranks = num_gpus // (tp * pp * cp)
    stack = _stack(row, task)
    fsdp = int(whole("fsdp_shard", num_gpus if stack in software.FULLY_SHARDED else 1))
    moe_ep = int(whole("ep", 1))
    gbs = whole("gbs")
    mbs = whole("mbs", 0) or _likely_mbs(gbs, ranks, stack)
    layout = Layout(
        tp=tp, pp=pp, cp=cp, vp=int(whole("vp", 1)), ep=moe_ep, etp=1, sequence_parallel=tp > 1, fsdp=max(1, fsdp)
    )
    if stack == software.MEGATRON_2022 and "sp" not in (row.get("recompute") or ""):
        layout = layout.model_copy(update={"sequence_parallel": False})
    return Workload(
        model=_architecture(row, stack),
        gpu=gpu,
        num_gpus=num_gpus,
        layout=layout,
        mbs=mbs,
        gbs=max(gbs, mbs * ranks),
        seq_length=seq_length,
        number=_number(row),
        task=_task(task),
        recompute=_recompute(row.get("recompute") or ""),
        stack=stack,
        source=row.get("source_id") or "",
        release=_release(row.get("source") or ""),
        tp_overlap=stack in software.OVERLAPPING or "async" in notes.lower(),
        power_limit=500 / 700 if "500W" in notes else 1.0,
    )


def with_sequence_length(row: Row) -> tuple[Row, str | None]:
    """The row with its recipe's sequence length where ``seq_len`` is empty, and a sentence that says so.

    Unchanged where it is stated, and where no shipped recipe trains this model for this task.
    """
    name = (row.get("model") or "") + RECIPES.get(row.get("task") or "pretrain", "?")
    if (row.get("seq_len") or "").strip() or name not in names(paths.RECIPES):
        return row, None
    length = recipe_document(name)[1]["seq_length"]
    return {**row, "seq_len": str(length)}, f"seq_len is empty: {length}, as recipe {name} has it"


def observed(row: Row) -> float | None:
    """The step time that a row states, in s; from its throughput where it has no time; None without either."""
    if row.get("step_time_s"):
        return float(row["step_time_s"] or 0)
    if row.get("tokens_per_s_per_gpu") and row.get("gbs") and row.get("seq_len"):
        tokens = float(row["gbs"] or 0) * float(row["seq_len"] or 0) / float(row["num_gpus"] or 1)
        return tokens / float(row["tokens_per_s_per_gpu"] or 1)
    return None


def _gpu(name: str, notes: str) -> hardware.Gpu:
    gpu = hardware.gpu(GPUS.get(name, name))
    if gpu is None:
        raise UserError(f"no GPU is called '{name}'", hint=closest(name, hardware.names()))
    if "HBM2e" in notes and gpu.name == "H100":  # a variant with slower memory
        return gpu.model_copy(update={"memory_gb_per_s": 2400.0})
    return gpu


def _stack(row: Row, task: str) -> str:
    stated = software.of_source(row.get("source_id") or "") or software.of_task(task)
    old = (row.get("gpu") or "").startswith("A100") and (row.get("precision") or "") == "FP16"
    return stated or (software.MEGATRON_2022 if old else software.MEGATRON)


def _architecture(row: Row, stack: str) -> Architecture:
    name, notes = row.get("model") or "", row.get("notes") or ""
    models = architectures()
    if name not in models and (shape := _gpt(row)):
        return Architecture(f"gpt of width {shape.hidden_size}", shape)
    if name not in models:
        raise UserError(f"no model is called '{name}'", hint=closest(name, models))
    model = models[name]
    layers = int(float(row.get("layers") or 0))
    if layers and "proxy" in notes and layers != model.shape.num_layers:
        shape = model.shape.model_copy(update={"num_layers": layers})
        dense = round(model.dense_layers * layers / model.shape.num_layers)
        return Architecture(model.name, shape, model.shared_ffn, dense, model.attention_params)
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
        vocab_size=51200,
        max_position_embeddings=2**20,
        activation="gelu",
        normalization="LayerNorm",
        position_embedding="learned",
        tied_embeddings=True,
    )


def _number(row: Row) -> Number:
    text = row.get("precision") or "BF16"
    number = NUMBERS.get(text.upper().replace(" ", ""))
    if number is None:
        raise UserError(f"no precision is called '{text}'", hint=closest(text, NUMBERS))
    current = number == "fp8" and software.scales_currently(row.get("source_id") or "")
    return "fp8_current" if current else number


def _task(text: str) -> Task:
    return "lora" if "lora" in text else "sft" if "sft" in text or "finetune" in text else "pretrain"


def _recompute(text: str) -> Recomputed:
    return "full" if text == "full" else "selective" if text.startswith("selective") else "none"


def _likely_mbs(gbs: float, ranks: int, stack: str) -> float:
    """The micro-batch where a table does not state it: 1, and of GPT-3 in 2021 what its paper's throughput suggests."""
    return max(1.0, min(gbs / ranks, 2.0)) if stack == software.MEGATRON_2022 else 1.0


def _release(source: str) -> float | None:
    """Years, from the version in a source: v25.04 or NeMo 25.09."""
    stated = re.search(r"(?:@v|NeMo |ngc)(\d\d)\.(\d\d)", source)
    return 2000 + int(stated[1]) + (int(stated[2]) - 0.5) / 12 if stated else None
