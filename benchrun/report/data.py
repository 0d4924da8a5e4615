"""What a report is made from, and its parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchrun.comparison.verdict import RunResult
from benchrun.explain.evidence import Evidence
from benchrun.metrics.rows import CompletedRows
from benchrun.metrics.samples import Samples
from benchrun.report.plot import Plot
from benchrun.report.table import Table


@dataclass(frozen=True)
class RunData:
    """One run, as far as it was measured."""

    result: RunResult
    rows: CompletedRows | None = None
    """Its step rows; None without a log."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """env.json; empty where it is missing."""
    telemetry: Mapping[str, Mapping[int, Samples]] = field(default_factory=dict)
    """Samples of each host's GPUs."""
    evidence: Evidence | None = None
    """What an explanation needs; None where it was not read, and of a run without measured steps."""


@dataclass(frozen=True)
class RunSection:
    """One run for a reader."""

    run_id: str
    title: str
    judgement: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    """What was measured, and what it was compared with."""
    conditions: tuple[tuple[str, str], ...]
    plots: tuple[Plot, ...]
    causes: Table | None = None
    """Why a step takes as long as it does; None where nothing explains it."""
    missing: tuple[str, ...] = ()
    """What would make the explanation sharper."""


@dataclass(frozen=True)
class Section:
    """A part of a report on several runs."""

    identity: str
    """Its anchor: beside, published, frameworks, scaling, breakdowns or history."""
    title: str
    text: str
    """What it shows, in one or two sentences."""
    plots: tuple[Plot, ...]
    tables: tuple[Table, ...] = ()
