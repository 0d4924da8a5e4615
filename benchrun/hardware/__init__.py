"""The table of GPUs: memory and dense peaks with their sources. A GPU that it does not
list has no MFU.
"""

import functools
from typing import Any, Protocol

from pydantic import BaseModel, Field

from benchrun.paths import table

BEFORE_BLOCKS = frozenset({"Volta", "Turing", "Ampere", "Ada", "Hopper", "CDNA 3"})
"""Architectures without units for numbers that share a scale in small blocks, as in
MXFP8: Blackwell was the first.
"""


class Device(BaseModel, frozen=True):
    """Memory and peaks of one GPU: what checks of memory and an MFU need. Peaks are
    dense (without structured sparsity), in TFLOPS.
    """

    name: str = Field(alias="gpu")
    arch: str
    memory_gib: float
    """The nominal size: 80 GB of HBM are 80 GiB, minus about 1 % for driver and ECC.
    For B300 and GB300 the size that nvidia-smi prints, because their 288 GB are not
    GiB.
    """
    peak_bf16_tflops: float
    peak_fp8_tflops: float | None
    """Dense peak in FP8; None if the GPU has no FP8 units."""
    peak_fp4_tflops: float | None = None
    """Dense peak in FP4; None if the GPU has no FP4 units."""
    source: str

    @property
    def family(self) -> str:
        """The architecture in one small word: Blackwell and Blackwell Ultra are
        ``blackwell``.
        """
        return self.arch.split()[0].lower()

    @property
    def launched(self) -> bool:
        """Whether its frameworks' templates hold for it: AMD's GPUs are only read and
        compared."""
        return not self.arch.startswith("CDNA")

    def peak_tflops(self, precision: str) -> float | None:
        """Dense peak at ``precision`` in TFLOPS; None if there is none (FP32 training
        has no agreed peak).
        """
        if precision in ("bf16", "fp16"):
            return self.peak_bf16_tflops
        return {"fp8": self.peak_fp8_tflops, "nvfp4": self.peak_fp4_tflops}.get(precision)

    def computes(self, number: str) -> bool:
        """Whether it has units for ``number``, a precision or the format of one:
        ``fp8``, ``mxfp8``, ``nvfp4``.
        """
        if number == "mxfp8" and self.arch in BEFORE_BLOCKS:
            return False
        low = {"fp8": self.peak_fp8_tflops, "fp4": self.peak_fp4_tflops}
        return low.get(number[-3:], self.peak_bf16_tflops) is not None


class Gpu(Device, frozen=True):
    """One GPU of the table, with its bandwidths."""

    gpus_per_node: int
    memory_gb_per_s: float
    """Bandwidth of the GPU's memory, 10^9 bytes/s."""
    nvlink_gb_per_s: float
    """NVLink of one GPU, one direction."""
    nic_gb_per_s: float
    """The usual network adapter of one GPU, one direction."""
    nvlink_domain: int
    """GPUs that NVLink joins."""
    power_w: float | None = None
    """Nominal power limit; None if the site chooses it."""


class Clock(BaseModel, frozen=True):
    """Clock and power of one GPU (column ``clock_source``)."""

    peak_clock_mhz: float
    """Clock at which the dense peak holds."""
    power_w: float | None
    """Nominal power limit; None if the site chooses it."""
    capped_clock_mhz: float | None
    """Lowest median clock of a kept run at that limit; None if none was measured."""

    def __str__(self) -> str:
        return f"{self.peak_clock_mhz:.0f} MHz"


@functools.cache
def clock(name: str) -> Clock | None:
    """Clock and power of the GPU called ``name``; None if the table does not state
    them.
    """
    for row in _rows():
        if row["gpu"] == name and row["peak_clock_mhz"]:
            return Clock.model_validate(row)
    return None


def gpu(name: str) -> Gpu | None:
    """The GPU called ``name``, None if it is not listed. A name without a form factor
    means SXM.
    """
    return _gpus().get(name)


class Site(Protocol):
    """Facts that a cluster profile states about its GPUs
    (`benchrun.runspec.cluster.Cluster`).
    """

    @property
    def gpu(self) -> str: ...
    @property
    def hardware(self) -> Any: ...


def site_gpu(site: Site) -> Device | None:
    """The GPU of a site: the row in its file, or else that of the table; None if
    neither has it.
    """
    if site.hardware is None:
        return gpu(site.gpu)
    return Device(gpu=site.gpu, **dict(site.hardware))


@functools.cache
def _gpus() -> dict[str, Gpu]:
    return {gpu.name: gpu for gpu in map(Gpu.model_validate, _rows())}


def _rows() -> list[dict[str, str | None]]:
    found = []
    for row in table(__file__, "hardware.csv"):
        found.append({column: value or None for column, value in row.items()})
    return found


def name_of(device: str) -> str | None:
    """The name in the table for a device name of the driver (``NVIDIA H100 80GB
    HBM3``); None if it is not listed.
    """
    words = device.replace("-", " ").upper().split()
    if "MIG" in words:  # a slice of a GPU has no listed peak
        return None
    words += [f"{word}B" for word in words if word.endswith("G")]
    words += [f"{word}GB" for word in words if word.isdigit()]
    form = next((form for form in ("PCIE", "NVL") if form in words), "")
    matches = {}
    for name in _gpus():
        chip, _, variant = name.upper().partition("-")
        # A variant is another form factor or memory size; names of the usual variant
        # contain neither.
        parts = {*variant.split("-")}
        if chip in words and (variant == form or (not form and parts <= {*words})):
            matches[variant] = name
    if not matches:
        return None
    return matches[max(matches, key=len)]


def chip(name: str) -> str:
    """A GPU's name without its form factor or memory size: ``H100`` of ``H100-PCIe``."""
    return name.partition("-")[0]


def names() -> list[str]:
    """The names of all GPUs in the table."""
    return list(_gpus())


EQUAL = (
    "arch",
    "peak_bf16_tflops",
    "peak_fp8_tflops",
    "peak_fp4_tflops",
    "gpus_per_node",
    "nvlink_gb_per_s",
    "nic_gb_per_s",
    "nvlink_domain",
    "power_w",
)
"""Columns that two GPUs share if they differ in their memory alone."""


def slower_twin(one: Gpu) -> Gpu | None:
    """The GPU that differs from ``one`` in its memory alone, which is slower; of
    several the fastest; None without.
    """
    twins = []
    for other in _gpus().values():
        if other.memory_gb_per_s < one.memory_gb_per_s and all(
            getattr(other, name) == getattr(one, name) for name in EQUAL
        ):
            twins.append(other)
    return max(twins, key=lambda twin: twin.memory_gb_per_s, default=None)
