"""Logs -> one Log: cut out the lines that matter, hand them to the dialect, put segments and problems together."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from benchrun.errors import UserError
from benchrun.parse import megatron, problems
from benchrun.parse.lines import Line, matching_lines
from benchrun.parse.records import Facts, Log, Problem, Step

DIALECTS = {"megatron-lm": megatron, "megatron-core": megatron}
"""Framework -> the module that reads its lines."""


def parse_log(*files: Path, framework: str | None = None) -> Log:
    """Read one run's log; more than one file for a run whose stdout and stderr are apart.

    UserError for a file that cannot be read and for a framework without a dialect.
    """
    if framework is not None and framework not in DIALECTS:
        raise UserError(f"no dialect for framework '{framework}'", hint=f"legal: {', '.join(sorted(DIALECTS))}")
    collected = _Collected()
    for file in files:
        try:
            with file.open("rb") as stream:
                collected.read(stream, source=file.name if file != files[0] else None)
        except OSError as error:
            raise UserError(f"cannot be read: {error.strerror}", where=str(file)) from error
    return collected.log(str(files[0]), framework)


class Tail:
    """Reads a log that is still being written; each call gives the steps that are new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Step]:
        """Steps of the lines that were finished since the last call; none while there is no file."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                block = stream.read()
        except FileNotFoundError:
            return []
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = matching_lines(io.BytesIO(whole), (megatron.STEP_NEEDLE,))
        return [step for line in lines for step in megatron.steps(line.text, line.number, True)]


class _Collected:
    """What has been read so far."""

    def __init__(self) -> None:
        self.steps: dict[tuple[int, int], Step] = {}
        self.segment = 0
        self.last: int | None = None
        self.facts = Facts()
        self.problems: list[Problem] = []
        self.counts: Counter[str] = Counter()
        self.worker = False

    def read(self, stream: BinaryIO, source: str | None) -> None:
        for line in matching_lines(stream, (*megatron.NEEDLES, *problems.NEEDLES)):
            self._line(line, source)

    def _line(self, line: Line, source: str | None) -> None:
        if megatron.STEP_NEEDLE.decode() in line.text:
            for step in megatron.steps(line.text, line.number, line.terminated):
                self._step(step)
            return
        problem = problems.recognise(line.text, line.number)
        if problem:
            self._problem(replace(problem, source=source))
            return
        self.worker = self.worker or megatron.CONFIG_NEEDLE.decode() in line.text
        megatron.read_facts(line.text, self.facts)

    def _step(self, step: Step) -> None:
        if self.last is not None and step.step < self.last:
            self.segment += 1
        self.last = step.step
        self.steps[self.segment, step.step] = replace(step, segment=self.segment)

    def _problem(self, problem: Problem) -> None:
        self.counts[problem.kind] += 1
        if self.counts[problem.kind] <= problems.MOST:
            self.problems.append(problem)

    def log(self, file: str, framework: str | None) -> Log:
        steps = _with_intervals(self.steps.values())
        found = [*self.problems, *_step_problems(steps)]
        name = framework or ("megatron-core" if self.worker else megatron.NAME)
        return Log(file, name, tuple(steps), self.facts, tuple(found))


def _with_intervals(rows: Iterable[Step]) -> list[Step]:
    """How many steps each row averages: the distance to the row before it in its segment."""
    steps: list[Step] = []
    for row in rows:
        before = steps[-1] if steps and steps[-1].segment == row.segment else None
        interval = row.step - before.step if before else 1
        steps.append(replace(row, interval=max(interval, 1)))
    # The first row of a segment averages as many steps as the next one, where that is known.
    for i, row in enumerate(steps[:-1]):
        first = i == 0 or steps[i - 1].segment != row.segment
        if first and steps[i + 1].segment == row.segment and row.step >= steps[i + 1].interval:
            steps[i] = replace(row, interval=steps[i + 1].interval)
    return steps


def _step_problems(steps: Sequence[Step]) -> list[Problem]:
    """NaN losses, skipped steps, and gaps between rows."""
    found: list[Problem] = []
    usual = Counter(step.interval for step in steps).most_common(1)
    for before, step in zip([None, *steps], steps, strict=False):
        if step.nan or (step.loss is not None and step.loss != step.loss):
            found.append(Problem("nan_loss", step.line, f"step {step.step}: the loss is not a number"))
        if step.skipped:
            found.append(Problem("skipped_steps", step.line, f"step {step.step}: {step.skipped} without an update"))
        same = before is not None and before.segment == step.segment
        if same and before and usual and step.interval > usual[0][0]:
            found.append(Problem("missing_steps", step.line, f"no row between step {before.step} and {step.step}"))
    return found
