"""From a YAML document to a checked model; pydantic's errors get file:line and a legal alternative."""

from __future__ import annotations

import typing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from benchrun.errors import UserError, closest
from benchrun.recipe.yamlfile import Document, Loc
from benchrun.spec.cluster import IN_WORDS

M = TypeVar("M", bound=BaseModel)


UNKNOWN_NAME = "unknown_name"
"""Error type of a validator whose context holds the legal names."""
_MAPPING = "expected a mapping (key: value)"
_WORDS = {"tuple_type": "expected a list: [...]", "dict_type": _MAPPING, "model_type": _MAPPING}
"""Error type -> what was expected."""


def checked(model: type[M], document: Document) -> M:
    """``document`` as ``model``. UserError names the first problem and the number of the others."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        # A misspelt key is often a missing one as well: the error names the cause.
        problems = sorted(error.errors(include_url=False), key=lambda p: p["type"] != "extra_forbidden")
        first = problems[0]
        message, hint = _explain(model, first["loc"], dict(first))
        if len(problems) > 1:
            message += f" (and {len(problems) - 1} more)"
        raise UserError(message, hint=hint, where=document.where(first["loc"]) or None) from None


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
        name, quoted = (key.rpartition(".")[0], '["..."]') if isinstance(loc[-1], int) else (key, '"..."')
        hint = f"text needs quotes here: {name.rpartition('.')[2]}: {quoted}, or --set '{name}={quoted}'"
    text = text.removeprefix("value error, ")
    # The input of a contradiction is a whole mapping: too long for a message.
    return (f"'{key}': {text}" if kind == "value_error" else f"'{key}' is {value!r}: {text}"), hint


def fields(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys that are legal at ``loc`` below ``model``; empty where any key is."""
    current: type[BaseModel] | None = model
    for part in loc:
        if current and part in current.model_fields:
            current = _model_in(current.model_fields[str(part)].annotation)
    return list(current.model_fields) if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside ``X``, ``X | None``, ``tuple[X, ...]``, ``dict[str, X]``."""
    if typing.get_origin(annotation) is None:
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return next(filter(None, map(_model_in, typing.get_args(annotation))), None)
