"""Refuses a study that contradicts itself, with file and line. Whether its points are
legal is another question.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from benchrun.errors import UserError, closest

from .schema import Study, SuiteRun
from .select import KEYS, Request
from .yamlfile import Document, Loc

Settings = dict[str, Any]
"""Key -> value: a field of `Request`, or a key of ``--set``."""
OF_REQUEST = ("recipe", *KEYS)
"""Keys of a point that are no ``--set``."""
MOST_POINTS = 10_000
SWITCHES = (("true", "yes", "on", "y", "t"), ("false", "no", "off", "n", "f"))
"""Words that a switch takes; a YAML file has only ``true`` and ``false`` as such, and
the others as text.
"""


def text(value: Any) -> str:
    """A value as text, equal for equal values: 16.0 is 16."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)


def _meaning(value: Any) -> str:
    """Meaning of a value, the same for all that mean the same wherever a switch is
    expected: yes and on are true.
    """
    word = text(value)
    return next((each[0] for each in SWITCHES if word.lower() in each), word)


def alternatives(study: Study) -> list[list[Settings]]:
    """Alternatives of each independent choice: a factor's values, or the rows of a
    group that varies together.
    """
    crossed = []
    for key, values in study.matrix.items():
        crossed.append([{key: value} for value in values])
    rows = [zip(*group.values(), strict=True) for group in study.zip]
    return crossed + [
        [dict(zip(group, row, strict=True)) for row in each]
        for group, each in zip(study.zip, rows, strict=True)
    ]


def check(study: Study, document: Document, request: Request) -> None:
    """UserError for the first contradiction of ``study``, whose places ``document``
    has.
    """
    for index, group in enumerate(study.zip):
        if len(set(map(len, group.values()))) > 1:
            lengths = ", ".join(f"{key} has {len(values)}" for key, values in group.items())
            where = document.where(("zip", index))
            raise UserError(
                f"factors that vary together need equally many values: {lengths}", where=where
            )
    _check_size(study, document)
    factors = dict(_factors(study))
    for index, run in enumerate(study.runs):
        _check_run(run, factors, document.where(("runs", index)))
    for key, loc in _factors(study):
        _check_factor(study, key, document, loc, request)
    for loc, chosen in [
        *((("exclude", n), each) for n, each in enumerate(study.exclude)),
        (("baseline",), study.baseline),
    ]:
        _check_chosen(study, chosen, document, loc)


def _check_size(study: Study, document: Document) -> None:
    """UserError for more points than can be planned, before they are made."""
    sizes = list(map(len, alternatives(study)))
    size = math.prod(sizes) * len(study.runs)
    if size > MOST_POINTS:
        factors = " x ".join(map(str, [len(study.runs), *sizes]))
        raise UserError(
            f"the study has {size:,} points ({factors}), at most {MOST_POINTS:,} are planned",
            hint="fewer values, or several studies; `exclude` does not count here",
            where=document.where(
                ("matrix",) if study.matrix else ("zip",) if study.zip else ("runs",)
            ),
        )


def _factors(study: Study) -> Iterator[tuple[str, Loc]]:
    """Each factor with its place in the file."""
    for key in study.matrix:
        yield (key, ("matrix", key))
    for index, group in enumerate(study.zip):
        for key in group:
            yield (key, ("zip", index, key))


def _check_run(run: SuiteRun, factors: Mapping[str, Loc], where: str) -> None:
    if run.recipe is None and "recipe" not in factors:
        raise UserError("a run needs a recipe, or recipe must be a factor", where=where)
    for key in run.set:
        if key in OF_REQUEST:
            raise UserError(f"'{key}' stands beside set, not in it", where=where)
    for key in factors:
        if getattr(run, key) is not None if key in OF_REQUEST else key in run.set:
            raise UserError(
                f"this run states '{key}', which is a factor",
                hint="leave it out in one place",
                where=where,
            )


def _check_factor(study: Study, key: str, document: Document, loc: Loc, request: Request) -> None:
    where = document.where(loc)
    values = study.matrix[key] if loc[0] == "matrix" else study.zip[int(loc[1])][key]
    if [name for name, _ in _factors(study)].count(key) > 1:
        raise UserError(f"factor '{key}' is given twice", where=where)
    means = list(map(_meaning, values))
    if loc[0] == "matrix" and (
        twice := [values[n] for n, each in enumerate(means) if each in means[:n]]
    ):
        first = values[means.index(_meaning(twice[0]))]
        same = ""
        if text(first) != text(twice[0]):
            same = f": {text(first)} means the same"
        raise UserError(
            f"factor '{key}' has the value {text(twice[0])} twice{same}",
            hint="repeats: 2 runs each point twice",
            where=where,
        )
    if key in KEYS and getattr(request, key) is not None:
        raise UserError(
            f"--{key.replace('_', '-')} is a factor of this study",
            hint="edit a copy of its file",
            where=where,
        )
    if any(override.partition("=")[0] == key for override in request.overrides):
        raise UserError(
            f"--set {key}: it is a factor of this study",
            hint="edit a copy of its file",
            where=where,
        )
    for index, value in enumerate(values):
        if key in OF_REQUEST:
            _check_type(key, value, document.where((*loc, index)))


def _check_type(key: str, value: Any, where: str) -> None:
    try:
        SuiteRun.model_validate({key: value})
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise UserError(
            f"'{key}' is {value!r}: {message[:1].lower()}{message[1:]}", where=where
        ) from None
    if value is None:
        raise UserError(f"'{key}' cannot be null", where=where)


def _check_chosen(study: Study, chosen: Mapping[str, Any], document: Document, loc: Loc) -> None:
    """UserError unless each key of an exclusion or of the baseline is a factor with
    such a value.
    """
    factors = dict(_factors(study))
    for key, value in chosen.items():
        where = document.where((*loc, key))
        if key not in factors:
            hint = "this study has no factors"
            if factors:
                hint = closest(key, factors)
            raise UserError(f"{loc[0]} names '{key}', which is no factor", hint=hint, where=where)
        legal = []
        for choice in alternatives(study):
            for each in choice:
                if key in each:
                    legal.append(text(each[key]))
        if text(value) not in legal:
            raise UserError(
                f"{loc[0]}: {key} is never {text(value)}",
                hint=f"its values: {', '.join(legal)}",
                where=where,
            )
