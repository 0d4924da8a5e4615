"""The input of a report, and its sections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.judge.verdict import RunResult
from benchrun.measure.rows import CompletedRows
from benchrun.measure.samples import Samples
from benchrun.show.plot import Plot
from benchrun.show.table import Table


@dataclass(frozen=True)
class RunData:
    """One run, as far as it was measured."""

    result: RunResult
    rows: CompletedRows | None = None
    """Its step rows; None without a log."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """env.json; empty if it is missing."""
    telemetry: Mapping[str, Mapping[int, Samples]] = field(default_factory=dict)
    """Samples of each host's GPUs."""
    evidence: Evidence | None = None
    """The input of an explanation; None if it was not read or the run has no measured step."""


@dataclass(frozen=True)
class RunSection:
    """One run for a reader."""

    run_id: str
    title: str
    judgement: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    """The measured values, and the references that they were compared with."""
    conditions: tuple[tuple[str, str], ...]
    plots: tuple[Plot, ...]
    causes: Table | None = None
    """Explanation of a step's time; None if nothing explains it."""
    missing: tuple[str, ...] = ()
    """Measurements that would make the explanation sharper."""


@dataclass(frozen=True)
class Section:
    """A part of a report on several runs."""

    identity: str
    """Its anchor: beside, published, frameworks, scaling, breakdowns or history."""
    title: str
    text: str
    """Its content in one or two sentences."""
    plots: tuple[Plot, ...]
    tables: tuple[Table, ...] = ()
