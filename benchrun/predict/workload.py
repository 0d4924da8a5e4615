"""What is predicted: a model, how it is spread over which GPUs, in which precision, by which software."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchrun import paths
from benchrun.hardware import Gpu
from benchrun.model import ModelShape, Moe
from benchrun.model.layout import Layout
from benchrun.predict.software import MEGATRON
from benchrun.recipe.yamlfile import load
from benchrun.vocabulary import Task

Number = Literal["fp32", "bf16", "fp16", "fp8", "fp8_current", "mxfp8", "nvfp4"]
"""Numbers of the matrix products; FP8 with scales of earlier steps, of the tensor itself, or of blocks."""
PRECISIONS: dict[Number, str] = {"fp8_current": "fp8", "mxfp8": "fp8"}
"""Numbers whose peak is that of another name."""
Recomputed = Literal["none", "selective", "full"]


@dataclass(frozen=True)
class Architecture:
    """A model."""

    name: str
    """Models of one family have the same products, up to the number of layers."""
    shape: ModelShape


@dataclass(frozen=True)
class Workload:
    """One training step to predict."""

    model: Architecture
    gpu: Gpu
    num_gpus: int
    layout: Layout
    mbs: float
    gbs: float
    """Sequences per step, over all GPUs."""
    seq_length: int
    number: Number = "bf16"
    task: Task = "pretrain"
    recompute: Recomputed = "none"
    policy: str = ""
    """Checkpoint policy of MaxText or PaXML; empty where none is stated."""
    stack: str = MEGATRON
    """Software whose kernels and overlap are alike (software.csv): the constants differ between them."""
    source: str = ""
    """Who measured it: rows of one source share what no column says. Empty where nobody did."""
    framework: str = ""
    """Which of this suite's frameworks trained a kept run; else empty."""
    release: float | None = None
    """When the software was released, in years (2025.5: mid-2025); None where it is unknown."""
    tp_overlap: bool = True
    """Tensor-parallel communication overlaps with its products."""
    power_limit: float = 1.0
    """Share of the GPU's usual power."""
    gradient_bytes: float = 2
    """Bytes of a gradient as ranks reduce it."""
    state_bytes: float = 12
    """What Adam keeps of a parameter."""
    offloaded_bytes: float = 0
    """Activations of a micro-batch that wait in the host's memory for the backward pass."""
    hooked: bool = False
    """Adapters are hooks in Python."""
    recast: bool = False
    """The optimizer casts weights to FP8 together with their transposes; published rows do not state it."""
    graphed: bool = False
    """CUDA graphs start the kernels of a layer; published rows do not state it."""
    low_attention: bool = False
    """Attention is computed in FP8; published rows do not state it."""
    packed: bool = True
    """Fine-tuning: samples are packed to sequences, and attend to themselves alone."""
    node: int = 0
    """GPUs of a node, where they are not the usual number."""

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node."""
        return self.node or self.gpu.gpus_per_node

    @property
    def products_peak_tflops(self) -> float | None:
        """Dense peak of the GPU in the number of the products; None where it does not compute them."""
        return self.gpu.peak_tflops(PRECISIONS.get(self.number, self.number))

    @property
    def domain(self) -> int:
        """GPUs that NVLink joins."""
        return max(self.gpu.nvlink_domain, min(self.gpus_per_node, 8)) if self.node else self.gpu.nvlink_domain

    @property
    def dp(self) -> int:
        """Data-parallel ranks."""
        return self.layout.dp(self.num_gpus)

    @property
    def microbatches(self) -> float:
        """Micro-batches of a step."""
        return max(1.0, self.gbs / (self.mbs * self.dp))

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens of a step per GPU: divided by the step time, the throughput."""
        return self.gbs * self.seq_length / self.num_gpus


@functools.cache
def architectures() -> dict[str, Architecture]:
    """The models that published rows name: of this suite's recipes, or with dimensions of their own; all its others."""
    rows = paths.table(__file__, "models.csv")
    named = {row["model"]: _architecture(row) for row in rows}
    files = {Path(row["source"]).stem: named[row["model"]] for row in rows if not row["layers"]}
    others = {path.stem: path for path in sorted(paths.MODELS.glob("*.yaml")) if path.stem not in {*named, *files}}
    return {**files, **{name: Architecture(name, _shape(path)) for name, path in others.items()}, **named}


def _shape(path: Path) -> ModelShape:
    return ModelShape.model_validate(dict(load(path)))


def _architecture(row: dict[str, str]) -> Architecture:
    if not row["layers"]:
        return Architecture(row["family"], _shape(paths.MODELS / Path(row["source"]).name))

    def number(column: str) -> int:
        return int(row[column] or 0)

    moe = None
    if row["experts"]:
        sizes = {"num_experts": number("experts"), "topk": number("topk"), "ffn_hidden_size": number("expert_ffn")}
        moe = Moe.model_validate(sizes)
    shape = ModelShape.model_validate(
        {
            "num_layers": number("layers"),
            "hidden_size": number("hidden"),
            "ffn_hidden_size": number("ffn"),
            "num_attention_heads": number("heads"),
            "num_query_groups": number("groups"),
            "kv_channels": number("head_dim"),
            "vocab_size": number("vocab"),
            "max_position_embeddings": 2**20,
            "activation": row["activation"],
            "normalization": "LayerNorm" if row["activation"] == "gelu" else "RMSNorm",
            "position_embedding": "learned" if row["activation"] == "gelu" else "rope",
            "tied_embeddings": row["tied"] == "1",
            "moe": moe,
        }
    )
    return Architecture(row["family"], shape)
