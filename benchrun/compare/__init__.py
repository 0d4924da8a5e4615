"""Metrics + references -> verdict."""

from benchrun.compare.choice import references_for
from benchrun.compare.conditions import Conditions, conditions
from benchrun.compare.references import Reference, load_references, matching
from benchrun.compare.verdict import Verdict, judge

__all__ = ["Conditions", "Reference", "Verdict", "conditions", "judge", "load_references", "matching", "references_for"]
