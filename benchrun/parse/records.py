"""What a log says, as plain records. Every dialect fills the same ones; what a log does not say is None."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One step row. Times are means over ``interval`` steps, as the framework printed them."""

    step: int
    step_time_s: float
    line: int
    segment: int = 0
    """Counts restarts within one log."""
    planned_steps: int | None = None
    interval: int = 1
    loss: float | None = None
    grad_norm: float | None = None
    global_batch_size: int | None = None
    tflops_per_gpu: float | None = None
    """As reported, under whatever convention the framework uses."""
    tokens_per_s_per_gpu: float | None = None
    skipped: int = 0
    nan: int = 0


@dataclass(frozen=True)
class Problem:
    """Something in a log that a number must not hide."""

    kind: str
    line: int | None
    """Line in ``source``, from 1; None for what is missing."""
    detail: str
    source: str | None = None
    """Name of the file, where several were read."""


@dataclass
class Facts:
    """What the log itself says of the run."""

    framework_version: str | None = None
    seq_length: int | None = None
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    num_gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    num_layers: int | None = None
    planned_steps: int | None = None
    precision: str | None = None
    device: str | None = None


@dataclass(frozen=True)
class Log:
    """A whole log."""

    file: str
    framework: str
    steps: tuple[Step, ...] = ()
    """In the order of the file; a step printed again within a segment is there once, as its last row."""
    facts: Facts = field(default_factory=Facts)
    problems: tuple[Problem, ...] = ()

    @property
    def segments(self) -> int:
        """How often training (re)started; 0 without a step."""
        return len({step.segment for step in self.steps})

    @property
    def planned_steps(self) -> int | None:
        """Steps the run was to make."""
        said = [step.planned_steps for step in self.steps if step.planned_steps is not None]
        return said[-1] if said else self.facts.planned_steps

    @property
    def distinct(self) -> tuple[Step, ...]:
        """One row a step number, the last one printed, in the order of the numbers: the work that was kept."""
        rows = {step.step: step for step in self.steps}
        return tuple(rows[number] for number in sorted(rows))
