"""The one table of GPUs: memory and dense peaks, each with its source. What is not in it has no peak and no MFU."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path(__file__).with_name("hardware.csv")


@dataclass(frozen=True)
class Gpu:
    """One GPU. Peaks are dense (without structured sparsity), in TFLOPS."""

    name: str
    arch: str
    memory_gib: float
    """As sold: 80 GB of HBM are 80 GiB; driver and ECC leave about 1 % less. B300 and GB300 as nvidia-smi prints it:
    their 288 GB are no GiB."""
    peak_bf16_tflops: float
    peak_fp8_tflops: float | None
    """None where the GPU has no FP8 units."""
    gpus_per_node: int
    cpu_arch: str
    source: str

    def peak_tflops(self, precision: str) -> float | None:
        """Dense peak at ``precision``; None where there is none to divide by (FP32 training has no agreed peak)."""
        if precision in ("bf16", "fp16"):
            return self.peak_bf16_tflops
        return self.peak_fp8_tflops if precision == "fp8" else None


def gpu(name: str) -> Gpu | None:
    """The GPU called ``name``, or None: never a guess. SXM unless the name says otherwise."""
    return _gpus().get(name)


@functools.cache
def _gpus() -> dict[str, Gpu]:
    with _TABLE.open(newline="") as file:
        return {row["gpu"]: _gpu(row) for row in csv.DictReader(file)}


def _gpu(row: dict[str, str]) -> Gpu:
    return Gpu(
        name=row["gpu"],
        arch=row["arch"],
        memory_gib=float(row["memory_gib"]),
        peak_bf16_tflops=float(row["peak_bf16_tflops"]),
        peak_fp8_tflops=float(row["peak_fp8_tflops"]) if row["peak_fp8_tflops"] else None,
        gpus_per_node=int(row["gpus_per_node"]),
        cpu_arch=row["cpu_arch"],
        source=row["source"],
    )


def name_of(device: str) -> str | None:
    """The table's name of a device as the driver calls it (``NVIDIA H100 80GB HBM3``); None if it is not listed."""
    words = device.replace("-", " ").upper().split()
    if "MIG" in words:  # a part of a GPU, without a peak of its own
        return None
    words += [f"{word}B" for word in words if word.endswith("G")]
    form = next((form for form in ("PCIE", "NVL") if form in words), "")
    fitting = {}
    for name in _gpus():
        chip, _, variant = name.upper().partition("-")
        # A variant is another form of the card, or another memory, which the usual one does not name.
        if chip in words and (variant == form or (not form and variant in words)):
            fitting[variant] = name
    return fitting[max(fitting, key=len)] if fitting else None


def names() -> list[str]:
    """Every GPU of the table."""
    return list(_gpus())
