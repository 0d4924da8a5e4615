"""What this machine reaches alone, measured before the first step: matrix products, copies, collectives.

The products have the model's shapes. All ranks measure at once, as they train; the slowest one counts. Random data, the
median of repeats. The result is ceilings.json (benchrun/metrics/bound.py reads it) and a few lines of the log.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchrun.spec.runspec import RunSpec
from benchrun.trainer import log, ranks

FILE = "ceilings.json"
GPU_SIZES = {"copy": 2**30, "collective": 2**28}
CPU_SIZES = {"copy": 2**24, "collective": 2**20}
"""Bytes: far larger than a cache, and of a size at which a link is busy."""
ENOUGH_S = {"cuda": 0.2, "cpu": 0.005}
"""A measurement repeats until so much time is spent: some 8 s in all on a GPU."""
FEWEST, MOST = 5, 500


@dataclass(frozen=True)
class Shape:
    """A linear layer of this rank's part: m tokens, n outputs, k inputs."""

    name: str
    m: int
    n: int
    k: int
    count: float
    """Times a micro-batch, the mean over pipeline stages."""
    low_precision: bool = True

    @property
    def passes(self) -> dict[str, tuple[int, int, int]]:
        """(m, n, k) of each product that training makes with it."""
        m, n, k = self.m, self.n, self.k
        return {"forward": (m, n, k), "input_gradient": (m, k, n), "weight_gradient": (n, k, m)}


def shapes(spec: RunSpec) -> list[Shape]:
    """The matrix products of one rank and micro-batch; experts with an even share of the tokens."""
    model, layout = spec.model, spec.layout
    tokens = spec.mbs * spec.seq_length // layout.cp
    hidden, heads = model.hidden_size, model.kv_channels * model.num_attention_heads
    layers = model.num_layers / layout.pp
    qkv = heads + 2 * model.kv_channels * model.num_query_groups
    rows, inner, copies = tokens, model.ffn_hidden_size // layout.tp, layers
    if model.moe:
        # Each tp rank routes its part of the sequence; an expert that is split over etp ranks sees the tokens of all.
        routed = tokens * model.moe.topk * layout.etp // layout.tp
        rows = max(routed * layout.ep // model.moe.num_experts, 1)
        inner = model.moe.ffn_hidden_size // layout.etp
        copies = layers * model.moe.num_experts / layout.ep
    vocabulary = model.padded_vocab_size // layout.tp
    return [
        Shape("qkv", tokens, qkv // layout.tp, hidden, layers),
        Shape("proj", tokens, hidden, heads // layout.tp, layers),
        Shape("fc1", rows, inner * (2 if model.gated else 1), hidden, copies),
        Shape("fc2", rows, hidden, inner, copies),
        Shape("logits", tokens, vocabulary, hidden, 1 / layout.pp, low_precision=False),
    ]


def measure(spec: RunSpec, groups: dict[str, Any]) -> None:
    """Measure where the run asks for it; the first rank writes FILE. ``groups``: the process groups by name."""
    if not spec.training.ceilings:
        return
    started, bench = time.perf_counter(), _Bench(spec)
    gemms = [_gemm(bench, shape) for shape in shapes(spec)]
    found = {
        "schema_version": 1,
        "device": torch.cuda.get_device_name() if bench.gpu else "cpu",
        "gemms": gemms,
        "copy_gb_per_s": _copy(bench),
        "collectives": _collectives(bench, groups),
        "seconds": round(time.perf_counter() - started, 2),
    }
    bench.free()
    if ranks.place().rank == 0:
        Path(FILE).write_text(json.dumps(found, indent=2) + "\n")
        for line in _lines(found):
            log.say(line)


class _Bench:
    """Times functions on this rank's device, and takes the slowest rank's time."""

    def __init__(self, spec: RunSpec) -> None:
        self.gpu = spec.gpu != "CPU"
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.gpu else torch.device("cpu")
        self.sizes = GPU_SIZES if self.gpu else CPU_SIZES
        self._random = torch.Generator(self.device).manual_seed(1)  # not the training's
        fp8 = self.gpu and torch.cuda.get_device_capability() >= (8, 9)
        self.precisions = (["bf16", "fp8"] if fp8 else ["bf16"]) if self.gpu else ["fp32", "bf16"]

    def random(self, *size: int, dtype: Any = torch.bfloat16) -> Any:
        """Normal random numbers: zeros would draw less power, and so run faster."""
        return torch.randn(*size, generator=self._random, device=self.device, dtype=dtype)

    def seconds(self, function: Callable[[], Any]) -> float:
        """Median time of ``function``, on the slowest rank."""
        for _ in range(2):
            function()
        # All ranks repeat equally often, or a collective would wait for ever.
        once = self._slowest(statistics.median(self._times(function, 3)))
        repeats = min(max(int(ENOUGH_S[self.device.type] / once), FEWEST), MOST)
        return self._slowest(statistics.median(self._times(function, repeats)))

    def _times(self, function: Callable[[], Any], repeats: int) -> list[float]:
        if not self.gpu:
            marks = [time.perf_counter()]
            for _ in range(repeats):
                function()
                marks.append(time.perf_counter())
            return [end - start for start, end in pairwise(marks)]
        events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        events[0].record()
        for event in events[1:]:
            function()
            event.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1000 for start, end in pairwise(events)]

    def _slowest(self, seconds: float) -> float:
        value = torch.tensor([seconds], dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(value, op=torch.distributed.ReduceOp.MAX)
        return max(float(value), 1e-9)

    def free(self) -> None:
        """Leave the memory as it was found."""
        if self.gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def _gemm(bench: _Bench, shape: Shape) -> dict[str, Any]:
    tflops: dict[str, dict[str, float]] = {}
    for precision in bench.precisions:
        # FP8's units take multiples of 16 only.
        if precision == "fp8" and (not shape.low_precision or any(n % 16 for n in (shape.m, shape.n, shape.k))):
            continue
        tflops[precision] = {
            name: round(2 * m * n * k / bench.seconds(_product(bench, precision, name, m, n, k)) / 1e12, 6)
            for name, (m, n, k) in shape.passes.items()
        }
    return {
        **{name: getattr(shape, name) for name in ("name", "m", "n", "k", "count", "low_precision")},
        "tflops": tflops,
    }


def _product(bench: _Bench, precision: str, name: str, m: int, n: int, k: int) -> Callable[[], Any]:
    """(m x k) times (k x n), each laid out as it lies in memory in that pass."""
    if precision == "fp8":
        # transformer-engine transposes while it casts, so that both lie along k, and adds up fast in the forward pass.
        left, right = (bench.random(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
        one, fast = torch.ones((), device=bench.device), name == "forward"
        return lambda: torch._scaled_mm(
            left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    left = bench.random(k, m, dtype=dtype).t() if name == "weight_gradient" else bench.random(m, k, dtype=dtype)
    right = bench.random(n, k, dtype=dtype).t() if name == "forward" else bench.random(k, n, dtype=dtype)
    return lambda: torch.mm(left, right)


def _copy(bench: _Bench) -> float:
    source = bench.random(bench.sizes["copy"] // 2)
    target = torch.empty_like(source)
    return round(2 * bench.sizes["copy"] / bench.seconds(lambda: target.copy_(source)) / 1e9, 3)


def _collectives(bench: _Bench, groups: dict[str, Any]) -> list[dict[str, Any]]:
    """Bus bandwidth as nccl-tests count it: that of the links, whatever the number of ranks."""
    found = []
    for group_name, group in groups.items():
        count = group.size()
        if count == 1:
            continue
        # FP32 on CPUs: gloo adds up no BF16.
        dtype = torch.bfloat16 if bench.gpu else torch.float32
        part_size = bench.sizes["collective"] // dtype.itemsize // count
        whole, part = bench.random(part_size * count, dtype=dtype), bench.random(part_size, dtype=dtype)
        share = (count - 1) / count
        for name, factor, function in _calls(whole, part, group, share):
            seconds = bench.seconds(function)
            whole.fill_(1.0)  # sums of sums would become infinite
            size = whole.numel() * dtype.itemsize
            found.append(
                {
                    "name": name,
                    "group": group_name,
                    "ranks": count,
                    "size_mib": round(size / 2**20, 3),
                    "bus_gb_per_s": round(factor * size / seconds / 1e9, 6),
                }
            )
    return found


def _calls(whole: Any, part: Any, group: Any, share: float) -> list[tuple[str, float, Callable[[], Any]]]:
    distributed = torch.distributed
    return [
        ("all_reduce", 2 * share, lambda: distributed.all_reduce(whole, group=group)),
        ("all_gather", share, lambda: distributed.all_gather_into_tensor(whole, part, group=group)),
        ("reduce_scatter", share, lambda: distributed.reduce_scatter_tensor(part, whole, group=group)),
    ]


def _lines(found: dict[str, Any]) -> list[str]:
    """What a person wants to see in the log."""
    lines = [f"benchrun ceilings: on {found['device']}, measured in {found['seconds']} s, the slowest rank of each"]
    for gemm in found["gemms"]:
        rates = [
            f"{number} {' / '.join(f'{rate:.4g}' for rate in by.values())}" for number, by in gemm["tflops"].items()
        ]
        size = f"{gemm['m']} x {gemm['n']} x {gemm['k']}"
        lines.append(f"  {gemm['name']} {size}: {', '.join(rates)} TFLOPS (forward / input / weight gradient)")
    lines.append(f"  copy: {found['copy_gb_per_s']:.4g} GB/s read and written")
    for each in found["collectives"]:
        over = f"{each['ranks']} ranks of {each['group']}, {each['size_mib']:g} MiB"
        lines.append(f"  {each['name']} over {over}: {each['bus_gb_per_s']:.4g} GB/s bus bandwidth")
    return lines
