"""A training step to predict: model, layout, GPUs, precision, software."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchrun import paths
from benchrun.hardware import Gpu
from benchrun.model import ModelShape
from benchrun.model.layout import Layout
from benchrun.recipes.yamlfile import load
from benchrun.vocabulary import Task

from .software import MEGATRON

Number = Literal["fp32", "bf16", "fp16", "fp8", "fp8_current", "mxfp8", "nvfp4"]
"""Numbers of the matrix products; FP8 with scales of earlier steps, of the tensor
itself, or of blocks."""
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
    """Checkpoint policy of MaxText or PaXML; empty if none is stated."""
    stack: str = MEGATRON
    """Software whose kernels and overlap are alike (software.csv): the constants differ
    between them."""
    source: str = ""
    """Name of who measured it: rows of one source share what no column says.

    Empty if nobody did.
    """
    framework: str = ""
    """Framework of this suite that trained a kept run; else empty."""
    release: float | None = None
    """Date of the software's release, in years (2025.5: mid-2025); None if unknown."""
    tp_overlap: bool = True
    """Tensor-parallel communication overlaps with its products."""
    power_limit: float = 1.0
    """Share of the GPU's usual power."""
    gradient_bytes: float = 2
    """Bytes of a gradient as ranks reduce it."""
    state_bytes: float = 12
    """Bytes that Adam keeps of a parameter."""
    offloaded_bytes: float = 0
    """Activations of a micro-batch that wait in the host's memory for the backward
    pass."""
    host: str = ""
    """Framework that starts kernels on a part of a node, as in the kept runs; else
    empty: publishers' hosts are faster."""
    recast: bool = False
    """The optimizer casts weights to FP8 together with their transposes; published rows
    do not state it."""
    graphed: bool = False
    """CUDA graphs start the kernels of a layer; published rows do not state it."""
    low_attention: bool = False
    """Attention is computed in FP8; published rows do not state it."""
    packed: bool = True
    """Fine-tuning: samples are packed to sequences, and attend to themselves alone."""
    node: int = 0
    """GPUs of a node, if they are not the usual number."""

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node."""
        return self.node or self.gpu.gpus_per_node

    @property
    def products_peak_tflops(self) -> float | None:
        """Dense peak of the GPU in the number of the products; None if it does not
        compute them."""
        return self.gpu.peak_tflops(PRECISIONS.get(self.number, self.number))

    @property
    def domain(self) -> int:
        """GPUs that NVLink joins."""
        if not self.node:
            return self.gpu.nvlink_domain
        return max(self.gpu.nvlink_domain, min(self.node, 8))

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
    """Every model by name: those of recipes, and those of published rows (models.csv),
    whose family names them."""
    published = {}
    known = {}
    for row in paths.table(__file__, "models.csv"):
        file = Path(row["source"])
        dimensions = {}
        for name in row:
            if row[name] and name in ModelShape.model_fields:
                dimensions[name] = row[name]
        published[row["model"]] = Architecture(
            row["family"], ModelShape.model_validate(dimensions or _read(file.stem))
        )
        if not dimensions:
            known[file.stem] = published[row["model"]]
    for name in paths.shipped(paths.MODELS):
        if name not in {*known, *published}:
            known[name] = Architecture(name, ModelShape.model_validate(_read(name)))
    return {**known, **published}


def _read(name: str) -> dict[str, Any]:
    return dict(load(paths.MODELS / f"{name}.yaml"))
