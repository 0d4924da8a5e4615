"""Measures the ceilings of this machine before the first step: matrix products of the
model, copies, collectives.

All ranks measure at once, as they train: the median of repeats on the slowest rank,
with random data. Writes ceilings.json and a line of the log.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch

from benchrun.model.costs import bus_factor
from benchrun.model.operators import MULTIPLY_ADD, Pass, Product, operators
from benchrun.rundir.artifacts import CEILINGS, Ceilings, CollectiveRate, Gemm
from benchrun.runspec.spec import TrainingSpec
from benchrun.vocabulary import Precision

from . import device, log

COPY, COLLECTIVE = {"cuda": 2**30, "cpu": 2**24}, {"cuda": 2**28, "cpu": 2**20}
"""Bytes: far larger than a cache, and large enough to saturate a link."""
SECONDS_EACH = {"cuda": 0.2, "cpu": 0.005}
"""Time of one measurement: about 8 s for all on a GPU."""
MIN_REPEATS, MAX_REPEATS = 5, 500


def products(spec: TrainingSpec) -> tuple[Product, ...]:
    """The matrix products of one rank and micro-batch, with the worker's own
    vocabulary."""
    model = spec.model.model_copy(update={"vocab_size": spec.model.padded_vocab_size})
    tokens = spec.mbs * spec.seq_length / spec.layout.cp
    return operators(model, tokens, spec.seq_length, spec.layout).products


def measure(spec: TrainingSpec, groups: dict[str, Any]) -> None:
    """Measure if ``training.ceilings`` is set; rank 0 writes ceilings.json. ``groups``:
    process groups by name."""
    if not spec.training.ceilings:
        return
    started = time.perf_counter()
    bench = _Bench(spec)
    gemms = tuple(_gemm(bench, product) for product in products(spec))
    copy = _copy(bench)
    rates: list[CollectiveRate] = []
    for name, group in groups.items():
        rates += _collectives(bench, name, group)
    ceilings = Ceilings(
        device=device.name(gpu=bench.gpu),
        gemms=gemms,
        copy_gb_per_s=copy,
        collectives=tuple(rates),
        seconds=round(time.perf_counter() - started, 2),
    )
    if bench.gpu:  # the peak memory is that of the training alone
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    if torch.distributed.get_rank() == 0:
        log.keep("ceilings", CEILINGS, ceilings)


class _Bench:
    """Times functions on the devices of all ranks."""

    def __init__(self, spec: TrainingSpec) -> None:
        self.gpu = spec.gpu != "CPU"
        self.device = device.current(gpu=self.gpu)
        self._random = torch.Generator(self.device).manual_seed(1)  # training has its own
        self.numbers: tuple[Precision, ...] = ("fp32", "bf16")
        if self.gpu:
            fp8 = torch.cuda.get_device_capability() >= (8, 9)
            self.numbers = ("bf16", "fp8") if fp8 else ("bf16",)

    def random(self, *size: int, dtype: Any = torch.bfloat16) -> Any:
        """Normal random numbers; zeros would need less power and run faster."""
        return torch.randn(*size, generator=self._random, device=self.device, dtype=dtype)

    def seconds(self, function: Callable[[], Any]) -> float:
        """Median time of ``function`` on the slowest rank."""
        for _ in range(2):
            function()
        # All ranks repeat equally often; otherwise a collective would hang.
        once = self._slowest(statistics.median(self._times(function, 3)))
        repeats = min(max(int(SECONDS_EACH[self.device.type] / once), MIN_REPEATS), MAX_REPEATS)
        return self._slowest(statistics.median(self._times(function, repeats)))

    def _times(self, function: Callable[[], Any], repeats: int) -> list[float]:
        marks = [self._mark()]
        for _ in range(repeats):
            function()
            marks.append(self._mark())
        if not self.gpu:
            return [end - start for start, end in pairwise(marks)]
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1000 for start, end in pairwise(marks)]

    def _mark(self) -> Any:
        """The time, or a mark in the GPU's queue."""
        if not self.gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _slowest(self, seconds: float) -> float:
        value = torch.tensor([seconds], dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(value, op=torch.distributed.ReduceOp.MAX)
        return max(float(value), 1e-9)


def _gemm(bench: _Bench, product: Product) -> Gemm:
    m, n, k = product.sizes["forward"]
    # FP8 kernels need multiples of 16.
    in_fp8 = product.low_precision and not (m % 16 or n % 16 or k % 16)
    tflops: dict[Precision, dict[Pass, float]] = {}
    for number in bench.numbers:
        if number == "fp8" and not in_fp8:
            continue
        tflops[number] = {}
        for each, size in product.sizes.items():
            seconds = bench.seconds(_product(bench, number, each, *size))
            tflops[number][each] = round(MULTIPLY_ADD * m * n * k / seconds / 1e12, 6)
    name = product.name
    count = product.count
    low_precision = product.low_precision
    return Gemm(name=name, m=m, n=n, k=k, count=count, low_precision=low_precision, tflops=tflops)


def _product(
    bench: _Bench, number: Precision, name: Pass, m: int, n: int, k: int
) -> Callable[[], Any]:
    """(m x k) times (k x n), with the memory layout of the pass ``name``."""
    if number == "fp8":
        # Like transformer-engine: both matrices contiguous along k, and fast
        # accumulation in the forward pass.
        left = bench.random(m, k).to(torch.float8_e4m3fn)
        right = bench.random(n, k).to(torch.float8_e4m3fn)
        one = torch.ones((), device=bench.device)
        fast = name == "forward"
        return lambda: torch._scaled_mm(
            left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    dtype = device.weight_type(number)
    left = (
        bench.random(k, m, dtype=dtype).t()
        if name == "weight_gradient"
        else bench.random(m, k, dtype=dtype)
    )
    right = (
        bench.random(n, k, dtype=dtype).t()
        if name == "forward"
        else bench.random(k, n, dtype=dtype)
    )
    return lambda: torch.mm(left, right)


def _copy(bench: _Bench) -> float:
    size = COPY[bench.device.type]
    source = bench.random(size // 2)
    target = torch.empty_like(source)
    return round(2 * size / bench.seconds(lambda: target.copy_(source)) / 1e9, 3)


def _collectives(bench: _Bench, group_name: str, group: Any) -> Iterator[CollectiveRate]:
    """Bus bandwidth as nccl-tests defines it: that of the links, independent of the
    number of ranks."""
    count = group.size()
    if count == 1:
        return
    # FP32 on CPUs: gloo cannot sum BF16.
    dtype = torch.bfloat16 if bench.gpu else torch.float32
    part_size = COLLECTIVE[bench.device.type] // dtype.itemsize // count
    whole = bench.random(part_size * count, dtype=dtype)
    part = bench.random(part_size, dtype=dtype)
    size = whole.numel() * dtype.itemsize
    distributed = torch.distributed
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: distributed.all_reduce(whole, group=group),
        "all_gather": lambda: distributed.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: distributed.reduce_scatter_tensor(part, whole, group=group),
    }
    for name, function in calls.items():
        rate = round(bus_factor(name, count) * size / bench.seconds(function) / 1e9, 6)
        whole.fill_(1.0)  # sums of sums would become infinite
        size_mib = round(size / 2**20, 3)
        yield CollectiveRate(
            name=name, group=group_name, ranks=count, size_mib=size_mib, bus_gb_per_s=rate
        )
