"""From a YAML document to a checked model; pydantic's errors get file:line and a legal alternative."""

from __future__ import annotations

import types
import typing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from benchrun.errors import UserError, closest
from benchrun.recipe.yamlfile import Document, Loc
from benchrun.spec.cluster import IN_WORDS

M = TypeVar("M", bound=BaseModel)


UNKNOWN_NAME = "unknown_name"
"""Error type of a validator whose context holds the legal names."""
_WORDS = {
    "tuple_type": "expected a list: [...]",
    "dict_type": "expected a mapping (key: value)",
    "model_type": "expected a mapping (key: value)",
}
"""Error type -> what was expected."""


def checked(model: type[M], document: Document, at: Loc = (), data: Any = None) -> M:
    """``document``, or ``data`` that stands ``at`` a place in it, as ``model``.

    UserError names the first problem and the number of the others.
    """
    try:
        return model.model_validate(document.data if data is None else data)
    except ValidationError as error:
        # A misspelt key is often a missing one as well: the error names the cause.
        problems = sorted(error.errors(include_url=False), key=lambda p: p["type"] != "extra_forbidden")
        first = problems[0]
        loc = _without_tags(document, at, first["loc"])
        message, hint = _explain(model, loc, dict(first))
        if len(problems) > 1:
            message += f" (and {len(problems) - 1} more)"
        raise UserError(message, hint=hint, where=document.where((*at, *loc)) or None) from None


def _explain(model: type[BaseModel], loc: Loc, problem: dict[str, Any]) -> tuple[str, str | None]:
    key = ".".join(str(part) for part in loc).removesuffix(".[key]") or "the file"
    kind, value = problem["type"], problem.get("input")
    if "secrets" in loc:
        value = "(not shown)"  # somebody may have written a secret's value in place of its name
    if kind == "extra_forbidden":
        legal = fields(model, loc[:-1])
        return f"unknown key '{key}'", closest(str(loc[-1]), legal) if legal else None
    if kind == "missing":
        return f"key '{key}' is missing", None
    if kind == UNKNOWN_NAME:
        return f"'{key}' is {value!r}", closest(str(value), problem["ctx"]["legal"])
    if kind == "literal_error":
        return f"'{key}' is {value!r}", f"legal: {problem['ctx']['expected']}"
    text = problem["msg"][:1].lower() + problem["msg"][1:]
    if kind in _WORDS:
        text = _WORDS[kind]
    elif kind == "string_pattern_mismatch" and (expected := IN_WORDS.get(problem["ctx"]["pattern"])):
        text = f"expected {expected}"
    hint = None
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        # Not converted to text: YAML reads 010 as 8 and 12:30 as 750, so the text in the file is lost.
        hint = f'text needs quotes here: {key.rpartition(".")[2]}: "...", or --set \'{key}="..."\''
        if isinstance(loc[-1], int):
            whole = ".".join(str(part) for part in loc[:-1])
            hint = f'text needs quotes here: ["..."], or --set \'{whole}=["..."]\''
    text = text.removeprefix("value error, ")
    # The input of a contradiction is a whole mapping: too long for a message.
    return (f"'{key}': {text}" if kind == "value_error" else f"'{key}' is {value!r}: {text}"), hint


def _without_tags(document: Document, at: Loc, loc: Loc) -> Loc:
    """``loc`` without the names of union members, which pydantic adds to it."""
    in_file: Loc = ()
    for part in loc:
        in_file = (*in_file, part) if (*at, *in_file, part) in document.places or part == loc[-1] else in_file
    return in_file


def fields(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys that are legal at ``loc`` below ``model``."""
    current: Any = model
    for part in loc:
        if isinstance(part, int) or not (isinstance(current, type) and issubclass(current, BaseModel)):
            continue
        field = current.model_fields.get(part)
        current = _inner_model(field.annotation) if field else None
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _inner_model(annotation: Any) -> Any:
    """The model inside ``X``, ``X | None``, ``tuple[X, ...]``."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation
    for part in typing.get_args(annotation):
        inner = _inner_model(part)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return inner
    return None
