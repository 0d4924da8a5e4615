"""What differs between two recordings, down to the digit."""

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .recording import Argv, read, recorded_verbs

NOTHING = "(nothing)"


class Difference(NamedTuple):
    """One place of one answer."""

    argv: Argv
    place: str
    """`exit_code`, `stdout.a.b[3]` in a JSON document, `stderr:7` for a line of text."""
    before: str
    after: str


class Number(str):
    """A number as it was printed: 1.0 and 1.00 differ."""

    __slots__ = ()


def between(before: Path, after: Path, only: str | None = None) -> Iterator[Difference]:
    """Every difference between two recordings, or those of one verb."""
    verbs = sorted({*recorded_verbs(before), *recorded_verbs(after)})
    for verb in [only] if only else verbs:
        old, new = read(before, verb), read(after, verb)
        for argv in dict.fromkeys((*old, *new)):
            if argv in old and argv in new:
                yield from of_answers(argv, old[argv], new[argv])
            else:
                sides = ("recorded" if argv in each else NOTHING for each in (old, new))
                yield Difference(argv, "call", *sides)


def of_answers(argv: Argv, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    """The differences of two answers to one call."""
    if old["exit_code"] != new["exit_code"]:
        yield Difference(argv, "exit_code", str(old["exit_code"]), str(new["exit_code"]))
    texts = [_texts(each) for each in (old, new)]
    for name in dict.fromkeys((*texts[0], *texts[1])):
        for place, *values in of_texts(*(each.get(name, "") for each in texts)):
            yield Difference(argv, name + place, *values)


def _texts(answer: dict[str, Any]) -> dict[str, str]:
    """Both streams and every file of an answer."""
    files = {f"files[{name}]": text for name, text in answer["files"].items()}
    return {"stdout": answer["stdout"], "stderr": answer["stderr"]} | files


def of_texts(old: str, new: str) -> Iterator[tuple[str, str, str]]:
    """Place, before and after: by path where two JSON documents differ in a value, else by line."""
    if old == new:
        return
    try:
        documents = [json.loads(text, parse_float=Number, parse_int=Number) for text in (old, new)]
    except ValueError:
        documents = []
    found = [*of_values(*documents)] if documents else []
    yield from found or of_lines(old.splitlines(), new.splitlines())


def of_values(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Place, before and after of every value that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _within(f"{place}.{key}", old.get(key, KeyError), new.get(key, KeyError))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            values = [each[index] if index < len(each) else KeyError for each in (old, new)]
            yield from _within(f"{place}[{index}]", *values)
    elif type(old) is not type(new) or old != new:
        yield place, _shown(old), _shown(new)


def _within(place: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    if old is KeyError or new is KeyError:
        yield place, _shown(old), _shown(new)
    else:
        yield from of_values(old, new, place)


def _shown(value: Any) -> str:
    if value is KeyError:
        return NOTHING
    return str(value) if isinstance(value, Number) else json.dumps(value)


def of_lines(old: list[str], new: list[str]) -> Iterator[tuple[str, str, str]]:
    """Place, before and after of every line that differs; the number is that of the older text."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        for index in range(max(last - first, end - begin)):
            before = old[first + index] if first + index < last else NOTHING
            after = new[begin + index] if begin + index < end else NOTHING
            yield f":{first + index + 1}", before, after


def pattern(place: str) -> str:
    """A place without the numbers of lines and entries."""
    return re.sub(r"\[\d+\]|:\d+$", "[]", place)
