"""The job of a check of nodes, as one rank: products and memory of its GPU, then links
within the node and beyond.

Every rank writes its own file, first after what it measures alone: a node whose links
fail has shown the rest by then. All nodes measure at once, and the repeats are apart in
time, so that they show how much a node differs from itself.
"""

import os
import platform
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from benchrun.errors import UserError
from benchrun.model.costs import bus_factor
from benchrun.model.operators import MULTIPLY_ADD
from benchrun.rundir.artifacts import NODES
from benchrun.rundir.nodes import Pair, RankRates, Rate, Test, rounds
from benchrun.runspec.spec import NodesSpec, RunSpec

from . import entry, log, ranks

SIDE = {"cuda": 8192, "cpu": 512}
"""Rows and columns of the matrices."""
COPIED, SENT = {"cuda": 2**30, "cpu": 2**25}, {"cuda": 2**28, "cpu": 2**22}
"""Bytes of a copy and of a message."""
SECONDS = {"cuda": 0.3, "cpu": 0.5}
"""Time of one repeat: a GPU's clock has settled by then."""
PARTS = 10
"""Number of times in a repeat that the GPU's queue is waited for."""
TIMEOUT_S = 180
"""Time limit of a collective: the whole check takes less."""


def main(path: Path) -> None:
    """Measure as this process's rank and write its file."""
    spec = RunSpec.read(path)
    if not isinstance(spec, NodesSpec):
        raise UserError(f"{path} is no check of nodes")
    entry.prepare_process(spec)
    ranks.refuse_without_gpu(spec)
    check = _Check(spec)
    check.measure("products", _products(check), together=False)
    check.measure("memory", _memory(check), together=False)
    check.write(complete=False)
    check.measure("node_collective", _node_collective(check))
    check.measure("exchange", *_exchanges(check))
    check.write(complete=True)
    check.say("done")
    ranks.leave()


class _Work:
    """Work that a rank repeats: a function, its size in the unit of the rate times
    seconds, and its description.
    """

    def __init__(
        self, run: Callable[[], Any], size: float, text: str, peer: str | None = None
    ) -> None:
        self.run, self.size, self.text, self.peer = run, size, text, peer


class _Check:
    """This rank, its node, all nodes, and what was measured so far."""

    def __init__(self, spec: NodesSpec) -> None:
        self.gpu, self.repeats = spec.gpu != "CPU", spec.repeats
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.device = torch.device("cpu")
        if self.gpu:
            self.device = torch.device("cuda", self.local_rank % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        # gloo joins the ranks; NCCL follows with the first collective of GPUs, after
        # what needs no link.
        backend = "cpu:gloo,cuda:nccl" if self.gpu else "gloo"
        torch.distributed.init_process_group(backend, timeout=timedelta(seconds=TIMEOUT_S))
        self.rank, self.size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self.host = os.environ.get("SLURMD_NODENAME") or platform.node()
        places: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(places, (self.host, self.local_rank))
        self.ranks_of: dict[str, list[int]] = {}
        for rank, (host, _) in enumerate(places):
            self.ranks_of.setdefault(host, []).append(rank)
        self.hosts = list(self.ranks_of)
        self.rounds = rounds(len(self.hosts))
        self._random = torch.Generator(self.device).manual_seed(1)
        self._rates: list[Rate] = []

    def say(self, text: str) -> None:
        """A line of the log, from the first rank alone."""
        if self.rank == 0:
            log.say(f"benchrun nodes: {text}")

    def random(self, *size: int) -> Any:
        """Normal random numbers, because zeros need less power: BF16 on GPUs, FP32 on
        CPUs."""
        dtype = torch.bfloat16 if self.gpu else torch.float32
        return torch.randn(*size, generator=self._random, device=self.device, dtype=dtype)

    def measure(self, test: Test, *works: _Work | None, together: bool = True) -> None:
        """Repeat each of ``works`` and add its rates. All ranks call this; one without
        a work (None) only waits.

        The works take turns, so that what changes with time does not look like a
        difference between them. ``together``: the ranks wait for each other in a work,
        so all do it equally often, by the slowest.
        """
        self.say(test)
        seconds = [[self._first(work)] for work in works]
        for _ in range(self.repeats):
            for work, measured in zip(works, seconds, strict=True):
                slowest = self._largest(measured[-1])  # all start together
                if work:
                    measured.append(
                        self._repeat(work, slowest if together else measured[-1], together)
                    )
        for work, measured in zip(works, seconds, strict=True):
            if work:
                values = tuple(float(f"{work.size / each:.6g}") for each in measured[1:])
                self._rates.append(Rate(test=test, work=work.text, peer=work.peer, values=values))

    def _first(self, work: _Work | None) -> float:
        """Seconds of ``work`` without its first call, which loads kernels and connects."""
        if work is None:
            return 0.0
        work.run()
        return self._seconds(work, 4)

    def _repeat(self, work: _Work, expected_s: float, together: bool) -> float:
        """Seconds of ``work`` in one repeat."""
        length = SECONDS[self.device.type]
        if together:
            return self._seconds(work, max(1, round(length / expected_s)))
        # At least that long: an occasional disturbance must not fall between two
        # repeats.
        return self._seconds(work, max(1, round(length / expected_s / PARTS)), length)

    def write(self, *, complete: bool) -> None:
        """Write what this rank has measured so far into its file."""
        name = platform.processor() or platform.machine()
        uuid = None
        if self.gpu:
            name = torch.cuda.get_device_name()
            uuid = str(torch.cuda.get_device_properties(self.device).uuid)
        document = RankRates(
            host=self.host,
            rank=self.rank,
            local_rank=self.local_rank,
            device=name,
            device_id=uuid,
            ranks=self.size,
            complete=complete,
            rates=tuple(self._rates),
        )
        folder = Path(NODES)
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.host}.{self.rank}.json"
        file.with_suffix(".tmp").write_text(
            document.model_dump_json(indent=2) + "\n", encoding="utf-8"
        )
        file.with_suffix(".tmp").replace(file)

    def _seconds(self, work: _Work, times: int, at_least_s: float = 0.0) -> float:
        """Mean time of one run of ``work`` in a row of runs, repeated until
        ``at_least_s`` seconds have passed."""
        self._wait()
        started = time.perf_counter()
        count = 0
        while count == 0 or time.perf_counter() - started < at_least_s:
            for _ in range(times):
                work.run()
            self._wait()
            count += times
        return (time.perf_counter() - started) / count

    def _wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def _largest(self, value: float) -> float:
        """The largest value of all ranks, which wait for each other here."""
        tensor = torch.tensor([value], dtype=torch.float64)
        torch.distributed.all_reduce(tensor, op=torch.distributed.ReduceOp.MAX)
        return float(tensor)


def _products(check: _Check) -> _Work:
    side = SIDE[check.device.type]
    left = check.random(side, side)
    right = check.random(side, side)
    result = check.random(side, side)
    text = f"{side} x {side} x {side}, {'bf16' if check.gpu else 'fp32'}"
    return _Work(lambda: torch.mm(left, right, out=result), MULTIPLY_ADD * side**3 / 1e12, text)


def _memory(check: _Check) -> _Work:
    size = COPIED[check.device.type]
    source = torch.ones(size, dtype=torch.uint8, device=check.device)  # zeros may share one page
    target = torch.empty_like(source)
    return _Work(lambda: target.copy_(source), 2 * size / 1e9, f"copy of {size >> 20} MiB")


def _node_collective(check: _Check) -> _Work | None:
    """An all-reduce among the ranks of this node; None if the node has one rank."""
    own = check.ranks_of[check.host]
    if len(own) == 1:
        return None
    group = torch.distributed.new_group(own, use_local_synchronization=True)
    size = SENT[check.device.type]
    data = torch.ones(size // 4, device=check.device)

    def all_reduce() -> None:
        # Sums would overflow.
        torch.distributed.all_reduce(data, group=group, op=torch.distributed.ReduceOp.MAX)

    bus = bus_factor("all_reduce", len(own)) * size / 1e9
    return _Work(all_reduce, bus, f"all-reduce of {size >> 20} MiB among {len(own)} ranks")


def _exchanges(check: _Check) -> list[_Work | None]:
    """The exchange of each round; none for a single node."""
    if check.gpu:
        # NCCL connects all ranks in the first collective; an exchange among some of
        # them must not be that.
        torch.distributed.all_reduce(torch.ones(1, device=check.device))
    sent = torch.ones(SENT[check.device.type], dtype=torch.uint8, device=check.device)
    received = torch.empty_like(sent)
    return [_exchange(check, pairs, sent, received) for pairs in check.rounds]


def _exchange(check: _Check, pairs: Iterable[Pair], sent: Any, received: Any) -> _Work | None:
    """Sending to the same rank of the partner in ``pairs`` and receiving from it; None
    for a node that rests."""
    own = check.hosts.index(check.host)
    pair = next((pair for pair in pairs if own in pair), None)
    if pair is None:
        return None
    place = check.ranks_of[check.host].index(check.rank)
    peer = check.hosts[sum(pair) - own]
    if place >= len(check.ranks_of[peer]):
        return None
    other = check.ranks_of[peer][place]
    size = SENT[check.device.type]

    def exchange() -> None:
        operations = [
            torch.distributed.P2POp(torch.distributed.isend, sent, other),
            torch.distributed.P2POp(torch.distributed.irecv, received, other),
        ]
        for request in torch.distributed.batch_isend_irecv(operations):
            request.wait()

    return _Work(exchange, size / 1e9, f"{size >> 20} MiB each way", peer)


if __name__ == "__main__":
    file = entry.arguments("Measure a node as one rank.").spec
    entry.end_after(lambda: main(file))
