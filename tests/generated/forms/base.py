"""A form: how one framework of one time writes a truth, and what its log states of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from ..series import Checkpoint, Evaluation, Restart, Row, events
from ..truth import Truth

SETTING = frozenset({"model", "num_gpus", "gbs", "seq_length", "precision", "layout"})
"""What a configuration states, where a framework prints all of it."""


@dataclass(frozen=True)
class Line:
    """One line of a log and the rank that wrote it."""

    text: str
    rank: int = 0
    part: str = "row"
    """head, row, event or end."""
    glued: bool = False
    """It continues the line before it, after a carriage return."""


@dataclass(frozen=True)
class Form:
    """A log format. Subclasses say what is printed; times without a unit are seconds."""

    name: str
    product: frozenset[str] = frozenset()
    """Names that benchrun may give the framework."""
    precisions: frozenset[str] = frozenset({"fp16", "bf16", "fp8"})
    intervals: tuple[int, ...] = (1,)
    features: frozenset[str] = field(default_factory=frozenset)
    """Parts of a model, kinds of events and of endings that the form can write."""
    zero_based: bool = False
    """The first step is 0."""
    numbered: bool = True
    """A step's line has its number."""
    loss_digits: int = 7
    """Significant digits of a printed loss; 0 where none is printed."""
    gradient: bool = False
    resumes: bool = True
    """A job may begin after step 1."""
    bars: bool = False
    """Every step has a bar, also where the interval is larger."""
    conversations: bool = False
    """A fine-tune whose samples are shorter than the sequence length: tokens need not follow."""
    mark: str | None = None
    """Sign before the milliseconds of a step's date: empty for whole seconds, None for no date."""
    quotient: bool = False
    """The batch over micro-batch and accumulation is the data-parallel width, no number of GPUs."""
    """A step's line has the norm of the gradient."""

    def date(self, truth: Truth, row: Row) -> str:
        """The date before the line of a step."""
        seconds = row.elapsed * truth.dates_factor
        minutes, second = divmod(int(seconds), 60)
        clock = f"2026-03-{1 + minutes // 1440:02d} {minutes // 60 % 24:02d}:{minutes % 60:02d}:{second:02d}"
        return clock + (f"{self.mark}{int(seconds % 1 * 1000):03d}" if self.mark else "")

    def states(self, truth: Truth) -> frozenset[str]:
        """Fields that this log states: of SETTING, and planned, step_s, rates, tflops."""
        raise NotImplementedError

    def resolution(self, truth: Truth) -> float:
        """Half a unit of the last printed digit of the step time, relative to it."""
        return 0.0005

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        """Lines before the first step."""
        return iter(())

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        """Lines of one step."""
        raise NotImplementedError

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        return iter(())

    def checkpoint(self, truth: Truth, event: Checkpoint) -> Iterator[Line]:
        return iter(())

    def end(self, truth: Truth) -> Iterator[Line]:
        """Last words of a job that reached its planned end."""
        return iter(())

    def _copies(self, truth: Truth, row: Row) -> Iterator[Line]:
        """The lines of a step from every process that prints it."""
        for copy in range(truth.copies):
            own = replace(row, seconds=row.seconds * (1 + 0.0004 * copy))
            for line in self.row(truth, own):
                yield replace(line, rank=line.rank + 8 * copy)

    def write(self, truth: Truth) -> list[Line]:
        """All lines of one job, without the way it ended where that is a crash."""
        random = Random(truth.seed + 1)
        lines = list(self.head(truth, random))
        for event in events(truth):
            if isinstance(event, Row):
                lines += self._copies(truth, event)
            elif isinstance(event, Evaluation):
                lines += self.evaluation(truth, event)
            elif isinstance(event, Checkpoint):
                lines += self.checkpoint(truth, event)
            elif isinstance(event, Restart):
                lines += self.head(truth, random)
        if truth.ending == "complete":
            lines += self.end(truth)
        return lines
