"""The steps of a truth in the order in which a framework would print them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from .truth import Truth

NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """What a framework knows when it prints a step: a mean over the interval since the last print."""

    step: int
    seconds: float
    """Seconds per step."""
    elapsed: float
    """Seconds since the first step began, with evaluations and checkpoints."""
    loss: float
    grad_norm: float
    gbs: int
    samples: int
    """Samples since the first step of the job."""
    skipped: int = 0


@dataclass(frozen=True)
class Evaluation:
    """An evaluation after ``step`` that took ``seconds``."""

    step: int
    seconds: float
    loss: float


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint after ``step`` that took ``seconds``."""

    step: int
    seconds: float


@dataclass(frozen=True)
class Restart:
    """The job died after ``step`` and goes on after step ``back``."""

    step: int
    back: int


Event = Row | Evaluation | Checkpoint | Restart


def _losses(truth: Truth, random: Random, count: int) -> list[float]:
    """One loss per row, as the kind of ``truth.loss`` has them."""
    start = math.log(truth.model.vocab) + 0.3
    sound = [start * (0.35 + 0.65 * math.exp(-i / 15)) + random.gauss(0, 0.01) for i in range(count)]
    if truth.loss == "constant":
        return [round(start, 3)] * count
    if truth.loss == "nan":
        return sound[:2] + [NAN] * (count - 2)
    if truth.loss == "zero_gradient":
        return [start + random.gauss(0, 0.01) for _ in range(count)]
    if truth.loss == "repeated":
        return [sound[i - i % 3] for i in range(count)]
    return sound


def _norm(truth: Truth, index: int, random: Random) -> float:
    """The gradient norm of a row."""
    if truth.loss in ("zero_gradient", "no_norm"):
        return 0.0
    if index >= 2 and truth.loss in ("nan", "nan_gradient"):
        return NAN
    return abs(random.gauss(1.2, 0.2)) + 0.1


def _seconds(truth: Truth, index: int, random: Random) -> float:
    """Seconds per step of a row: the warm-up is slower, a stall much slower, half a batch faster."""
    seconds = truth.step_s * (1 + random.gauss(0, truth.noise))
    if index < truth.ramp:
        seconds *= 0.55
    if truth.backlog and index in (1, 2, 3):
        return truth.step_s * (3.2 if index == 3 else 0.01)
    if index < truth.warmup:
        seconds *= 1.6 + 2.5 * random.random()
    if index in truth.stalls:
        seconds *= 3 + 4 * random.random()
    return seconds


def _order(truth: Truth) -> Iterator[tuple[int, int]]:
    """Index of each printed row, and the row before which a restart stands (else -1)."""
    if truth.restart is None:
        yield from ((index, -1) for index in range(truth.rows))
        return
    died, back = truth.restart
    yield from ((index, -1) for index in range(died))
    yield back, died
    yield from ((index, -1) for index in range(back + 1, truth.rows))


def events(truth: Truth) -> list[Event]:
    """Rows, evaluations, checkpoints and restarts of one job, in order."""
    random = Random(truth.seed)
    losses = _losses(truth, random, truth.rows)
    found: list[Event] = []
    elapsed, samples = 0.0, (truth.first_step - 1) * truth.gbs
    after: dict[int, int] = {}
    for index, died in _order(truth):
        step = truth.first_step - 1 + (index + 1) * truth.interval
        if died >= 0:
            last = truth.first_step - 1 + died * truth.interval
            found.append(Restart(last, truth.first_step - 1 + index * truth.interval))
            elapsed, samples = 0.0, after[index]
        after[index] = samples
        gbs = truth.gbs // 2 if index < truth.ramp else truth.gbs
        warm = index if died < 0 else 0
        seconds = _seconds(truth, warm, random)
        elapsed += seconds * truth.interval
        samples += gbs * truth.interval
        norm = _norm(truth, index, random)
        found.append(Row(step, seconds, elapsed, losses[index], norm, gbs, samples))
        if index in truth.evaluations:
            pause = truth.step_s * (2 + random.random())
            elapsed += pause
            found.append(Evaluation(step, pause, abs(losses[index]) + 0.1))
        if index in truth.checkpoints:
            pause = truth.step_s * (1 + random.random())
            elapsed += pause
            found.append(Checkpoint(step, pause))
    return found
