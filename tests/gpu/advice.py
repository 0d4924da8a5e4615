"""Compare what `explain` says that an advice saves with what it saved: runs of
`advice.tar.xz`, as a table in Markdown.

    python tests/gpu/advice.py
"""

import math
import tarfile
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import click

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.explanation import explain
from benchrun.capabilities.explain.model import Cause, Saving
from benchrun.capabilities.explain.usecase import evidence
from benchrun.rundir.find import open_run

RUNS = Path(__file__).with_name("advice.tar.xz")
TWICE = {"x0": "x9", "b0": "b9", "c0": "c12"}
TWICE |= {"2m0": "2m9", "2g0": "2g9", "2n0": "2n9", "2r0": "2r9", "2w0": "2w9"}
TWICE |= {"2c0": "2c12", "2d0": "2d12"}
TWICE |= {"3a0": "3a9", "3b0": "3b9", "3e0": "3e9", "3g0": "3g9", "3h0": "3h9"}
TWICE |= {"3j0": "3j12", "3k0": "3k12"}
"""Runs that were repeated last: the mean counts. Those of the later sets begin with their number."""
TRIED = """
x1 x0 1 recompute recompute less
x6 x0 1 recompute recompute less
x2 x0 1 memory_bound fused
x3 x0 1 memory_bound keep the activations
x4 x5 1 memory_bound fused
x5 x8 1 memory_bound transformer-engine
x0 x7 2 host larger micro
s0 s1 2 host larger micro
s0 s2 8 host larger micro
s1 s2 4 host larger micro
s0 s3 1 host CUDA
b0 b1 2 host larger micro
b0 b3 4 host larger micro
b1 b3 2 host larger micro
b0 b2 1 host CUDA
b4 b0 1 host bind
b5 b0 1 memory_bound fused
b6 b0 1 recompute recompute less
b7 b8 1 data more loader
f0 f1 1 host CUDA
f0 f2 4 host larger micro
f3 f4 4 host larger micro
q0 q1 1 exposed_dp training.overlap_grad
q1 q2 1 exposed_dp training.overlap_param
q0 q3 3 exposed_dp twice
q5 q0 1 exposed_dp gradients
q4 q0 1 comm_bandwidth NCCL
t1 t0 1 comm_bandwidth NCCL
t2 t0 1 comm_bandwidth NCCL
p0 p1 4 bubble twice
p0 p2 2 bubble twice
c1 c0 1 recompute recompute less
c3 c4 4 bubble twice
c0 c5 4 host larger micro
c6 c0 4 exposed_dp twice
c7 c0 1 host bind
c8 c9 1 data more loader
c11 c0 1 host bind
t0 q2 1 exposed_tp a smaller tp
c2 c0 1 exposed_tp a smaller tp
2m1 2m0 1 recompute recompute less
2m2 2m0 1 memory_bound fused
2m3 2m0 1 memory_bound keep the activations
2m0 2m4 2 host larger micro
2m0 2m5 4 host larger micro
2m4 2m5 2 host larger micro
2m0 2m6 1 host CUDA
2m7 2m8 1 memory_bound transformer-engine
2ma 2m0 1 host bind
2mb 2mc 1 data more loader
2g0 2g1 1 host CUDA
2g0 2g2 2 host larger micro
2g0 2g3 4 host larger micro
2g2 2g3 2 host larger micro
2g4 2g0 1 recompute recompute less
2g5 2g0 1 memory_bound fused
2n0 2n1 2 host larger micro
2n0 2n2 4 host larger micro
2n1 2n2 2 host larger micro
2n3 2n0 1 recompute recompute less
2n0 2n4 1 host CUDA
2n5 2n0 1 memory_bound fused
2r0 2r1 2 host larger micro
2r0 2r2 8 host larger micro
2r1 2r2 4 host larger micro
2r0 2r3 1 host CUDA
2w1 2w0 1 recompute recompute less
2w3 2w0 1 memory_bound fused
2c1 2c0 1 recompute recompute less
2c3 2c4 4 bubble twice
2c0 2c5 2 host larger micro
2c6 2c0 4 exposed_dp twice
2c7 2c0 1 host bind
2c8 2c9 1 data more loader
2d1 2d0 1 recompute recompute less
2d3 2d4 2 bubble twice
2d0 2d5 4 host larger micro
2d6 2d0 2 exposed_dp twice
2d8 2d9 1 data more loader
3a1 3a0 1 recompute recompute less
3a0 3a2 2 host larger micro
3a0 3a3 4 host larger micro
3a2 3a3 2 host larger micro
3a0 3a4 1 host CUDA
3a7 3a8 1 data more loader
3b0 3b2 2 host larger micro
3b0 3b3 4 host larger micro
3b2 3b3 2 host larger micro
3b0 3b4 1 host CUDA
3e1 3e0 1 recompute recompute less
3e0 3e2 2 host larger micro
3e0 3e3 4 host larger micro
3e2 3e3 2 host larger micro
3e0 3e4 1 host CUDA
3e5 3e0 1 host bind
3d7 3d9 1 memory_bound keep the activations
3d5 3d8 1 memory_bound transformer-engine
3g1 3g0 1 recompute recompute less
3g6 3g0 1 memory_bound fused
3h1 3h0 1 recompute recompute less
3h6 3h0 1 memory_bound fused
3h7 3h8 1 data more loader
3j1 3j0 1 recompute recompute less
3j3 3j4 2 bubble twice
3j6 3j0 2 exposed_dp twice
3j7 3j0 1 host bind
3j8 3j9 1 data more loader
3k1 3k0 1 recompute recompute less
3k3 3k4 2 bubble twice
3k6 3k0 2 exposed_dp twice
3k7 3k0 1 host bind
3k8 3k9 1 data more loader
"""
"""The run that got the advice, the run with it, how many times as much of what the advice
doubles, and the advice by its cause and first words.
"""
RISK = 0.01
HELD = 0.9


class Tried(NamedTuple):
    name: str
    cause: str
    advice: str
    stated: Saving | None
    saved: float
    step: float

    @property
    def held(self) -> bool:
        return self.stated is not None and self.stated.low <= self.saved <= self.stated.high


def run_of(folder: Path, name: str) -> Evidence:
    return evidence(open_run(str(folder / name)))


def step_of(folder: Path, name: str) -> float:
    """Median step, of both runs where a point ran twice."""
    names = [name, *([TWICE[name]] if name in TWICE else [])]
    return mean(run_of(folder, each).typical_s for each in names)


def tokens_of(folder: Path, name: str) -> float:
    return float(run_of(folder, name).spec.tokens_per_step)


def stated(cause: Cause, advice: str, times: int, step: float) -> Saving | None:
    """What is said of the advice; of more than twice as much in proportion, and of larger
    micro-batches as much of the cause as there is.
    """
    for cure in cause.cures:
        if cure.advice.startswith(advice):
            found = cure.saving_s
            if found is None or times <= 2:
                return found
            more = 2 * (1 - 1 / times)
            if advice.startswith("larger"):
                more = min(more, cause.seconds / min(cause.seconds, step / 2))
            return Saving(median=found.median * more, low=found.low * more, high=found.high * more)
    return None


def tried(folder: Path) -> list[Tried]:
    rows = []
    for line in TRIED.strip().splitlines():
        base, cured, times, name, advice = line.split(" ", 4)
        step = step_of(folder, base)
        work = tokens_of(folder, base) / tokens_of(folder, cured)
        saved = step - work * step_of(folder, cured)
        found = None
        for cause in explain(run_of(folder, base)).causes:
            if cause.cause == name and found is None:
                found = stated(cause, advice, int(times), step)
        rows.append(Tried(f"{base} {cured}", name, advice, found, saved, step))
    return rows


def fewest(count: int) -> int:
    """Fewest intervals of `count` that hold the truth, by chance of one in a hundred."""
    chance = 0.0
    for held in range(count + 1):
        chance += math.comb(count, held) * HELD**held * (1 - HELD) ** (count - held)
        if chance > RISK:
            return held
    return count


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(RUNS) as archive:
            archive.extractall(folder, filter="data")
        rows = tried(Path(folder))
    click.echo("| runs | cause | advice | step | said | saved | held |\n|---|---|---|---|---|---|---|")
    for row in rows:
        said = "nothing"
        if row.stated:
            said = f"{row.stated.low:.4f} to {row.stated.high:.4f}"
        held = "yes" if row.held else "no"
        click.echo(f"| {row.name} | {row.cause} | {row.advice} | {row.step:.4f} | {said} | {row.saved:.4f} | {held} |")
    told = [row for row in rows if row.stated]
    held = sum(row.held for row in told)
    slower = sum(row.saved < -0.02 * row.step for row in told)
    widths = []
    for row in told:
        if row.stated:
            half = (row.stated.high - row.stated.low) / 2
            widths.append(half / row.saved if row.saved > 0 else math.inf)
    summary = f"{held} of {len(told)} intervals hold (at least {fewest(len(told))} by chance)"
    summary += f"; median half-width {median(widths):.2f} of the saving"
    click.echo(f"\n{summary}; {slower} made it slower by 2 % or more")


if __name__ == "__main__":
    main()
