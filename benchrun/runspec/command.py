"""The workload ``command``: a training program of the user's own, whose log one regular
expression reads.
"""

import importlib
import re
import shlex
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from benchrun.model import ModelShape
from benchrun.model.layout import Size

from .cluster import Line, Text
from .launched import Statement
from .spec import Inputs, RunSpec

TIMES = ("step_time_s", "step_time_ms", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s")
"""Groups by which a step has a time."""
GROUPS = ("step", *TIMES, "loss", "grad_norm", "tflops_per_gpu", "global_batch_size")
"""Groups that an expression may have."""
SCRIPTS = (".py", ".sh", ".pl", ".jl")
SHORTEST_WORDS = 3
"""Characters of the fixed text by which step lines are found."""
STATED = "benchrun command: "
"""Begins the line in which a job states its expression."""


def fixed_text(expression: str) -> str:
    """The longest text that every match of ``expression`` holds; empty if there is
    none."""
    # Python 3.10 has the module under its old name.
    parser: Any = getattr(re, "_parser", None) or importlib.import_module("sre_parse")
    parsed = parser.parse(expression)
    if parsed.state.flags & re.IGNORECASE:
        return ""
    runs = [""]
    _collect(parsed, runs)
    return max(runs, key=len)


def _collect(items: Any, runs: list[str]) -> None:
    """Add the texts of ``items`` that stand in every match to ``runs``, of which the
    last one goes on."""
    for operation, argument in items:
        name = str(operation)
        if name == "LITERAL":
            runs[-1] += chr(argument)
        elif name == "SUBPATTERN":
            _collect(argument[-1], runs)
        else:
            runs.append("")


def _checked(expression: str) -> set[str]:
    """The groups of an expression that can read steps. ValueError says what is wrong."""
    try:
        names = set(re.compile(expression).groupindex)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    legal = ", ".join(GROUPS)
    if unknown := sorted(names - {*GROUPS}):
        raise ValueError(f"unknown group '{unknown[0]}'; legal: {legal}")
    if "step" not in names:
        raise ValueError(r"has no group 'step', the number of the step: (?P<step>\d+)")
    if not names & {*TIMES}:
        raise ValueError(f"has no time and no rate: a group {', '.join(TIMES)}")
    if len(fixed_text(expression)) < SHORTEST_WORDS:
        few = f"{SHORTEST_WORDS} characters that stand in every step line as they are"
        raise ValueError(f"has no fixed text of {few}, by which lines are found")
    return names


class CommandInputs(Inputs):
    """Inputs of a program of one's own."""

    argv: tuple[Text, ...] = Field(min_length=1)
    """The program and its arguments, one word each; every rank starts it, with RANK,
    LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    """
    steps: Size
    """Steps to be made; a run that prints no line of the last one is incomplete."""
    gbs: Size | None = None
    """Global batch: sequences or samples of a step, over all ranks; null: unknown."""
    seq_length: Size | None = None
    """Tokens of a sequence; null: unknown, and no tokens/s."""
    model: ModelShape | None = None
    """Dimensions of the model; null: unknown, and no TFLOPS and MFU."""

    step_line: Line
    """Regular expression of a step line, with named groups: ``step`` and
    ``step_time_s``, ``step_time_ms`` or a rate, also ``loss`` and others.
    """

    @field_validator("argv")
    @classmethod
    def _can_be_found(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if word.endswith(SCRIPTS) and not word.startswith("/"):
                raise ValueError(f"the job runs elsewhere, so {word} needs its whole path")
        return words

    @field_validator("step_line")
    @classmethod
    def _reads_times(cls, expression: str, info: ValidationInfo) -> str:
        names = _checked(expression)
        if names & {"step_time_s", "step_time_ms"}:
            return expression
        needed = ["gbs"] if "samples_per_s" in names else ["gbs", "seq_length"]
        missing = [name for name in needed if info.data.get(name) is None]
        if missing:
            raise ValueError(f"has a rate and no time: state {' and '.join(missing)}")
        return expression


class CommandSpec(CommandInputs, RunSpec):
    """One run of a program of one's own."""

    inputs = CommandInputs
    stepped = True
    workload: Literal["command"] = "command"
    """Kind of work."""

    @property
    def planned_steps(self) -> int:
        """Steps to be made."""
        return self.steps

    @property
    def settings(self) -> str:
        """The program and what it trains; its log's form and length do not count."""
        stated = [f"argv {shlex.join(self.argv)}"]
        for name in ("gbs", "seq_length"):
            if (size := getattr(self, name)) is not None:
                stated.append(f"{name} {size}")
        return ", ".join(stated)


class Stated(Statement):
    """What the log of a command says of its run before the first step."""

    begins = STATED
    step_line: Line
    steps: Size
    num_gpus: Size
    gpu: Line
    precision: Line
    gbs: Size | None = None
    seq_length: Size | None = None
    model: ModelShape | None = None

    @field_validator("step_line")
    @classmethod
    def _reads_steps(cls, expression: str) -> str:
        _checked(expression)
        return expression
