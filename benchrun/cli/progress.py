"""The live line of ``launch --wait``: state, steps, step time, tokens/s."""

from __future__ import annotations

import statistics
from collections import deque
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchrun.app import Observation, RunSpec, Step


class StepProgress:
    """A bar on a terminal; elsewhere one line per change of state, so that a log stays readable."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.fields[state]:>9}"),
            BarColumn(),
            TextColumn("step {task.completed:.0f} of {task.total:.0f}  {task.fields[rate]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("run", total=spec.planned_steps, state="submitted", rate="")
        self._times: deque[float] = deque(maxlen=20)
        self._state = ""

    def __enter__(self) -> StepProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, observation: Observation, steps: list[Step]) -> None:
        """Show the state and the new steps."""
        state = observation.job.phase.value if observation.job else "unknown"
        if observation.note and not observation.over:
            state = f"{state} ({observation.note})"
        if state != self._state and not self._console.is_terminal:
            self._console.print(state, highlight=False)
        self._state = state
        self._times += [step.step_time_s for step in steps if step.step_time_s is not None]
        done = {"completed": steps[-1].step} if steps else {}
        self._bar.update(self._task, state=state, rate=self._rate(), **done)  # type: ignore[arg-type]

    def _rate(self) -> str:
        if not self._times:
            return ""
        step_s = statistics.median(self._times)
        tokens = getattr(self._spec, "tokens_per_step", None)
        rate = f"  {tokens / step_s / self._spec.num_gpus:,.0f} tokens/s/GPU" if tokens else ""
        return f"{step_s:.3g} s{rate}"
