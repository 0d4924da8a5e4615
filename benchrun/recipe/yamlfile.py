"""YAML with the file and line of every value, for errors.

Differs from YAML 1.1 where that surprises: a key given twice is an error, ``on``, ``no`` and ``00:30:00`` are text,
``1e9`` is a number.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchrun.errors import UserError

Loc = tuple[str | int, ...]
"""Keys and list positions from the top of a document to a value."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """A loader without YAML's types: `scalar` reads every value."""

    def resolve(self, *_: Any) -> str:
        return ""


MOST_VALUES = 100_000
"""Values of a file once its aliases are expanded: a few lines of aliases can stand for billions."""
LONGEST_NUMBER = 40
"""Digits; what is longer stays text. Python refuses to convert thousands of them."""
_INT = re.compile(r"[-+]?[0-9][0-9_]*$")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?$")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True)
class Document:
    """Plain values (dict, list, str, int, float, bool, None) and the place of each."""

    data: dict[str, Any]
    places: Mapping[Loc, str] = field(default_factory=dict)

    def where(self, loc: Loc) -> str:
        """The place of a value, or of the closest enclosing one that has a place."""
        for end in range(len(loc), -1, -1):
            if loc[:end] in self.places:
                return self.places[loc[:end]]
        return ""


def load(path: Path) -> Document:
    """One YAML file whose top is a mapping, read again if it changes. UserError with file:line for anything else."""
    try:
        return _load(path, path.stat().st_mtime_ns)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", where=str(path)) from error


@functools.cache
def _load(path: Path, changed_ns: int) -> Document:
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, name: str) -> Document:
    """Parse YAML text; ``name`` is the name of the file in errors."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise UserError(f"not valid YAML: {error.problem or error.context}", where=where) from error
    except yaml.YAMLError as error:
        raise UserError(f"not valid YAML: {error}", where=name) from error
    if not isinstance(root, yaml.MappingNode):
        raise UserError("expected a mapping (key: value) at the top", where=f"{name}:1")
    places: dict[Loc, str] = {}
    try:
        return Document(_build(root, (), name, places), places)
    except RecursionError:
        raise UserError("a value contains itself or is nested too deeply", where=name) from None


def scalar(text: str) -> Any:
    """The value of one unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > LONGEST_NUMBER:
        return text
    if _INT.match(text):
        return int(text.replace("_", ""))
    return float(text) if _FLOAT.match(text) else text


def _build(node: yaml.Node, loc: Loc, name: str, places: dict[Loc, str]) -> Any:
    places.setdefault(loc, f"{name}:{node.start_mark.line + 1}")
    if len(places) > MOST_VALUES:
        raise UserError(f"more than {MOST_VALUES:,} values with its aliases expanded", where=name)
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*loc, i), name, places) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, loc, name, places)
    quoted = getattr(node, "style", None)  # a quoted or block scalar is text
    return node.value if quoted else scalar(node.value)


def _mapping(node: yaml.MappingNode, loc: Loc, name: str, places: dict[Loc, str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, where = key_node.value, f"{name}:{key_node.start_mark.line + 1}"
        if not isinstance(key, str):
            raise UserError("a key must be one word", where=where)
        here = (*loc, key)
        if key in result:
            raise UserError(f"key '{key}' is given twice", hint=f"first at {places[here]}; remove one", where=where)
        places[here] = where
        result[key] = _build(value_node, here, name, places)
    return result
