"""The live line of ``launch --wait``: state, steps, step time, tokens/s."""

import statistics
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchrun.app import Observation, RunSpec, Step


class StepProgress(Progress):
    """A bar on a terminal; elsewhere one line per change of state, so that a log stays readable."""

    def __init__(self, spec: RunSpec) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("{task.fields[state]:>9}"),
            BarColumn(),
            TextColumn("step {task.completed:.0f} of {task.total:.0f}  {task.fields[rate]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tokens_per_gpu = getattr(spec, "tokens_per_step", 0) / spec.num_gpus
        self._task = self.add_task("run", total=spec.planned_steps, state="submitted", rate="")
        self._times: deque[float] = deque(maxlen=20)
        self._state = ""

    def show(self, observation: Observation, steps: list[Step]) -> None:
        """Show the state and the new steps."""
        state = observation.job.phase.value if observation.job else "unknown"
        if observation.note and not observation.over:
            state = f"{state} ({observation.note})"
        if state != self._state and not self.console.is_terminal:
            self.console.print(state, highlight=False)
        self._state, rate = state, ""
        self._times += [step.step_time_s for step in steps if step.step_time_s is not None]
        if self._times:
            step_s = statistics.median(self._times)
            tokens = f"  {self._tokens_per_gpu / step_s:,.0f} tokens/s/GPU" if self._tokens_per_gpu else ""
            rate = f"{step_s:.3g} s{tokens}"
        self.update(self._task, state=state, rate=rate, completed=steps[-1].step if steps else None)
