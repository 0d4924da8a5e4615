"""Study file -> points: every run of the file under every combination of its factors.

A point is a request and what it states. Whether it is legal shows when it is resolved;
here only the study is checked.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from benchrun.errors import UserError

from .catalogue import study_file
from .files import cluster_document
from .schema import Study, SuiteRun
from .select import KEYS, Request
from .study_rules import OF_REQUEST, Settings, alternatives, check, text


@dataclass(frozen=True)
class StudyPoint:
    """One point of a study."""

    run: int
    """Position of its run in the file."""
    settings: Settings
    """Settings that the file states: of the run, and of the factors."""
    request: Request
    place: str
    """File and line of its run."""


@dataclass(frozen=True)
class Expanded:
    """A study and its points."""

    name: str
    study: Study
    points: tuple[StudyPoint, ...]

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """Keys whose values differ between points."""
        stated = dict.fromkeys(key for point in self.points for key in point.settings)
        differ = []
        for key in stated:
            if len({text(point.settings.get(key)) for point in self.points}) > 1:
                differ.append(key)
        return tuple(differ)

    def baseline(self, point: StudyPoint) -> StudyPoint | None:
        """The point that ``point`` is compared with, maybe itself; None if it is
        excluded.
        """
        if not self.study.baseline:
            return self._first_of[point.run]
        wanted = dict(point.settings)
        for choice in alternatives(self.study):
            stated = {}
            for key, value in self.study.baseline.items():
                if key in choice[0]:
                    stated[key] = value
            wanted |= next(each for each in choice if _has(each, stated)) if stated else {}
        return self._by_values.get((point.run, _values(wanted)))

    @functools.cached_property
    def _first_of(self) -> dict[int, StudyPoint]:
        """The first point of each run."""
        return {point.run: point for point in reversed(self.points)}

    @functools.cached_property
    def _by_values(self) -> dict[tuple[int, frozenset[tuple[str, str]]], StudyPoint]:
        """The first point of a run with each combination of values."""
        found = {}
        for point in reversed(self.points):
            found[(point.run, _values(point.settings))] = point
        return found


def expand(request: Request) -> Expanded:
    """The points of the study or suite that ``request`` names; what else ``request``
    states applies to every point.

    UserError for a study that contradicts itself, with file and line.
    """
    name, study, document = study_file(request.recipe)
    if request.cluster:
        cluster_document(request.cluster)  # an error in it is no error of the study
    check(study, document, request)
    groups = alternatives(study)
    combined = []
    for chosen in product(*groups):
        combined.append(functools.reduce(dict.__or__, chosen, Settings()))
    varied = []
    for each in combined:
        if not any(_has(each, excluded) for excluded in study.exclude):
            varied.append(each)
    if not varied:
        raise UserError("exclude leaves no point", where=document.where(("exclude",)))
    if not any(_has(each, study.baseline) for each in varied):
        hint = "name one that stays, or leave out that exclusion"
        excluded = any(_has(each, study.baseline) for each in combined)
        why = "no point has the values of the baseline"
        if excluded:
            why = "exclude removes every point of the baseline"
        raise UserError(why, hint=hint, where=document.where(("baseline",)))
    points = []
    for index, run in enumerate(study.runs):
        for values in varied:
            points.append(point_of(index, run, values, request, document.where(("runs", index))))
    return Expanded(name, study, tuple(points))


def point_of(
    index: int, run: SuiteRun, varied: Settings, request: Request, place: str
) -> StudyPoint:
    """The point of the run at position ``index`` with the values ``varied``; what
    ``request`` states counts more.
    """
    stated = {}
    for key in OF_REQUEST:
        if getattr(run, key) is not None:
            stated[key] = getattr(run, key)
    stated |= run.set | varied
    for key in KEYS:
        if getattr(request, key) is not None:
            stated[key] = getattr(request, key)
    sets = []
    for key, value in stated.items():
        if key not in OF_REQUEST:
            sets.append(f"{key}={json.dumps(value)}")
    chosen: dict[str, Any] = {key: stated.get(key) for key in OF_REQUEST}
    own = replace(request, overrides=(*sets, *request.overrides), **chosen)
    return StudyPoint(index, stated, own, place)


def _values(settings: Settings) -> frozenset[tuple[str, str]]:
    """Keys and values, equal for equal settings."""
    return frozenset((key, text(value)) for key, value in settings.items())


def _has(settings: Settings, values: Mapping[str, Any]) -> bool:
    return all(text(settings[key]) == text(value) for key, value in values.items())
