"""The live display of ``launch --wait`` and ``status --watch``: state, steps, step time
and tokens/s of each run.
"""

import statistics
from collections import deque
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchrun.api import Observation, RunDir, Step

MOST_LINES = 20
"""Runs that have a line on a terminal; the others are only counted."""


class RunsProgress(Progress):
    """Bars on a terminal; elsewhere one line per change of state, so that a log stays
    readable.
    """

    def __init__(self, runs: Sequence[RunDir]) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("{task.description}"),
            TextColumn("{task.fields[state]:>9}"),
            BarColumn(),
            TextColumn("step {task.completed:.0f} of {task.total:.0f}  {task.fields[rate]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._lines = {run: _Line(run, self._line(run, len(runs))) for run in runs}

    def _line(self, run: RunDir, runs: int) -> TaskID:
        name = ""
        if runs > 1:
            name = run.run_id
        shown = len(self.tasks) < MOST_LINES
        return self.add_task(
            name, total=run.spec.planned_steps, state="submitted", rate="", visible=shown
        )

    def show(self, observation: Observation, steps: list[Step]) -> None:
        """Show the state and the new steps of a run."""
        line = self._lines[observation.run]
        state = "unknown"
        if observation.job:
            state = observation.job.phase.value
        if observation.note and not observation.over:
            state = f"{state} ({observation.note})"
        if state != line.state and not self.console.is_terminal:
            self.console.print(
                f"{observation.run.run_id}  {state}", highlight=False, soft_wrap=True
            )
        line.state = state
        line.times += [step.step_time_s for step in steps if step.step_time_s is not None]
        self.update(
            line.task, state=state, rate=line.rate(), completed=steps[-1].step if steps else None
        )
        if observation.over:
            self._make_room(line)

    def _make_room(self, line: "_Line") -> None:
        """Give the line of an ended run to one without, if there are more runs than
        lines.
        """
        hidden = []
        for task in self.tasks:
            if not task.visible and not task.fields.get("over"):
                hidden.append(task)
        self.update(line.task, over=True)
        if hidden:
            self.update(line.task, visible=False)
            self.update(hidden[0].id, visible=True)


class _Line:
    """One run's place in the display."""

    def __init__(self, run: RunDir, task: TaskID) -> None:
        self.task, self.state = task, ""
        self.times: deque[float] = deque(maxlen=20)
        self._tokens_per_gpu = getattr(run.spec, "tokens_per_step", 0) / run.spec.num_gpus

    def rate(self) -> str:
        """Step time and tokens/s/GPU of the last steps; empty before the first."""
        if not self.times:
            return ""
        step_s = statistics.median(self.times)
        tokens = ""
        if self._tokens_per_gpu:
            tokens = f"  {self._tokens_per_gpu / step_s:,.0f} tokens/s/GPU"
        return f"{step_s:.3g} s{tokens}"
