"""A study with its points resolved: what can be launched, and what is refused and why."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchrun.errors import UserError
from benchrun.recipes.resolve import resolve
from benchrun.recipes.study import Expanded, StudyPoint
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec

from .cost import Hours, hours
from .state import Slot


@dataclass(frozen=True)
class ResolvedPoint:
    """One point of a study: its run, or why it has none."""

    point: StudyPoint
    spec: RunSpec | None
    """Specification of the point; None if it is refused."""
    refused: str = ""
    """Why; empty for a legal point."""
    hint: str | None = None
    """Hint at what would be legal."""

    @cached_property
    def key(self) -> str:
        """Twelve hex digits: equal for what measures the same and states the same, also
        in an edited study.
        """
        stated = [self.spec.repeat_key() if self.spec else "", self.point.settings]
        return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class ResolvedStudy:
    """A study and its points, in the order of the file."""

    expanded: Expanded
    points: tuple[ResolvedPoint, ...]

    @cached_property
    def legal(self) -> list[ResolvedPoint]:
        """The points that can be launched."""
        return [resolved for resolved in self.points if resolved.spec]

    @cached_property
    def slots(self) -> list[Slot]:
        """Every run of every legal point."""
        found = []
        for resolved in self.legal:
            for n in range(self.expanded.study.repeats):
                found.append((resolved.key, n + 1))
        return found

    def number(self, key: str) -> int:
        """Position of a legal point, from 1."""
        return self._numbers[key]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        found = {}
        for number, each in enumerate(self.points, 1):
            if each.spec:
                found[each.key] = number
        return found

    def own(self, launched: Mapping[Slot, Sequence[RunDir]]) -> dict[Slot, list[RunDir]]:
        """Choose, from the runs that a study's directory lists, those of its points, by
        their specification.
        """
        slots = set(self.slots)
        own = {}
        for slot, runs in launched.items():
            if slot in slots:
                own[slot] = [run for run in runs if not self.foreign(slot, run)]
        return own

    def foreign(self, slot: Slot, run: RunDir) -> str:
        """Reason why ``run`` is not of the point of ``slot``, whatever the directory
        says; empty if it is.

        The site does not count: a kept run does not name its own.
        """
        spec = self.points[self.number(slot[0]) - 1].spec
        assert spec is not None
        own = f"{run.spec.recipe} ({run.spec.identity()})"
        wanted = f"{spec.recipe} ({spec.identity()})"
        if own == wanted:
            return ""
        return f"{run.run_id}: the run is of recipe {own}, the point of {wanted}"

    def hours(self) -> dict[str, Hours]:
        """GPU-hours of one run of each legal point, by its key."""
        found = {}
        for resolved in self.points:
            if resolved.spec:
                found[resolved.key] = hours(resolved.spec)
        return found


def resolved_study(expanded: Expanded) -> ResolvedStudy:
    """The points of a study, each resolved or refused with its reason.

    UserError if none is legal: the reason of the first one.
    """
    resolved = resolved_points(expanded)
    if not any(each.spec for each in resolved):
        place = expanded.points[0].place
        raise UserError(f"no point is legal; the first: {resolved[0].refused}", where=place)
    return ResolvedStudy(expanded, resolved)


def resolved_points(expanded: Expanded) -> tuple[ResolvedPoint, ...]:
    """Every point, resolved or refused; one that repeats an earlier one is refused."""
    resolved = []
    numbers: dict[str, int] = {}
    for number, point in enumerate(expanded.points, 1):
        new = _planned(point)
        if new.spec and numbers.setdefault(new.key, number) != number:
            new = ResolvedPoint(point, None, f"the same as point {numbers[new.key]}")
        resolved.append(new)
    return tuple(resolved)


def _planned(point: StudyPoint) -> ResolvedPoint:
    try:
        return ResolvedPoint(point, resolve(point.request))
    except UserError as error:
        return ResolvedPoint(point, None, error.message, error.hint)
