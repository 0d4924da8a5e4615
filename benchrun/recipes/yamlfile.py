"""YAML with the file and line of every value, for errors.

Differs from YAML 1.1 where that surprises: a key given twice is an error, ``on``,
``no`` and ``00:30:00`` are text, ``1e9`` is a number.
"""

import functools
import itertools
import re
from collections.abc import Sequence
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
"""Values of a file once its aliases are expanded: a few lines of aliases can stand for
billions.
"""
LARGEST_INT = 2**63 - 1
"""Frameworks and tables have whole numbers of 64 bits."""
LONGEST_NUMBER = 40
"""Digits; what is longer stays text. Python refuses to convert thousands of them."""
_INT = re.compile(r"[-+]?[0-9][0-9_]*$")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?$")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


class Int(int):
    """A whole number that is not written as Python prints it, e.g. ``010``; ``text`` is
    how the file has it.
    """

    text: str


class Float(float):
    """Number with a fraction as it was written, e.g. ``1.10``."""

    text: str


class Items(list[Any]):
    """A list and the place of each item."""

    places: dict[int, str]


class Document(dict[str, Any]):
    """A mapping: plain values (str, int, float, bool, None), lists and mappings, with
    the place of each.
    """

    def __init__(self, place: str = "") -> None:
        self.place = place
        """Begin of the mapping: file:line, or the ``--set``."""
        self.places: dict[str, str] = {}

    def where(self, loc: Loc) -> str:
        """The place of a value, or of the closest enclosing one that has a place."""
        value: Any = self
        place = self.place
        for key in loc:
            if key not in getattr(value, "places", ()):
                break
            place = value.places[key]
            value = value.get(str(key)) if isinstance(value, Document) else value[key]
        return place

    def stated(self, loc: Loc) -> str | None:
        """The place of the value at ``loc``; None if nothing states it."""
        *outer, key = loc
        section: Any = self
        for name in outer:
            section = section.get(str(name)) if isinstance(section, Document) else None
        if not isinstance(section, Document):
            return None
        return section.places.get(str(key))

    def section(self, key: str, place: str) -> "Document":
        """The mapping below a key; a new one, at ``place``, if there is none."""
        if not isinstance(self.get(key), Document):
            self[key], self.places[key] = Document(place), place
        return self[key]  # type: ignore[no-any-return]

    def put(self, loc: Sequence[str], value: Any, place: str) -> None:
        """Set the value at ``loc``: mappings merge key by key, any other value replaces
        the earlier one.
        """
        *outer, key = loc
        target = functools.reduce(lambda section, name: section.section(name, place), outer, self)
        if isinstance(value, Document):
            target.places.setdefault(key, place)
            for name, inner in value.items():
                target.section(key, place).put((name,), inner, value.places.get(name, place))
        else:
            target[key], target.places[key] = value, place


def load(path: Path) -> Document:
    """One YAML file whose top is a mapping, read again if it changes. UserError with
    file:line for anything else.
    """
    try:
        return _load(path, path.stat().st_mtime_ns)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", where=path) from error


@functools.cache
def _load(path: Path, changed_ns: int) -> Document:
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, name: str, *, lines: bool = True) -> Document:
    """Parse YAML text; ``name`` is the name of the file in errors, without ``lines``
    the place of every value.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
        if not isinstance(root, yaml.MappingNode):
            raise UserError("expected a mapping (key: value) at the top", where=f"{name}:1")
        return _Builder(name, lines).mapping(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = getattr(error, "problem", None) or getattr(error, "context", None) or error
        raise UserError(
            f"not valid YAML: {what}", where=f"{name}:{mark.line + 1}" if mark else name
        ) from error
    except RecursionError:
        raise UserError("a value contains itself or is nested too deeply", where=name) from None


def scalar(text: str) -> Any:
    """The value of one unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > LONGEST_NUMBER:
        return text
    if _INT.match(text):
        value = int(text.replace("_", ""))
        if abs(value) > LARGEST_INT:
            raise UserError(
                f"{text} is too large for a whole number: at most 2^63 - 1",
                hint="quote it where it is text",
            )
        return _number(value, Int, text)
    if not _FLOAT.match(text):
        return text
    return _number(float(text), Float, text)


def _number(value: float, with_text: type[Int] | type[Float], text: str) -> float:
    """``value``, with ``text`` if that is not how Python prints it: a field for text
    gets what the file has.
    """
    if str(value) == text:
        return value
    number = with_text(value)
    number.text = text
    return number


class _Builder:
    """Builds the values of one file."""

    def __init__(self, name: str, lines: bool) -> None:
        self.name, self.lines, self.count = name, lines, itertools.count(1)

    def place(self, node: yaml.Node) -> str:
        if self.lines:
            return f"{self.name}:{node.start_mark.line + 1}"
        return self.name

    def value(self, node: yaml.Node) -> Any:
        if next(self.count) > MOST_VALUES:
            raise UserError(
                f"more than {MOST_VALUES:,} values with its aliases expanded", where=self.name
            )
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node)
        if isinstance(node, yaml.SequenceNode):
            items = Items(map(self.value, node.value))
            items.places = dict(enumerate(map(self.place, node.value)))
            return items
        quoted = getattr(node, "style", None)  # a quoted or block scalar is text
        try:
            if quoted:
                return node.value
            return scalar(node.value)
        except UserError as error:
            raise UserError(error.message, hint=error.hint, where=self.place(node)) from None

    def mapping(self, node: yaml.MappingNode) -> Document:
        result = Document(self.place(node))
        for key_node, value_node in node.value:
            key = key_node.value
            where = self.place(key_node)
            if not isinstance(key, str):
                raise UserError("a key must be one word", where=where)
            if (first := result.places.get(key)) is not None:
                raise UserError(
                    f"key '{key}' is given twice", hint=f"first at {first}; remove one", where=where
                )
            result[key], result.places[key] = self.value(value_node), where
        return result
