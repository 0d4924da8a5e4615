"""Differences between two documents: what is stated, and what is computed again."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

SAME = 1e-9
"""Relative difference of numbers that two machines may compute from one log."""
MISSING = object()
"""A key that only the other document has."""


def json_differences(stated: str, computed: str, complete: bool) -> Iterator[str]:
    """Differences of two JSON documents, or of documents one a line."""
    try:
        pair = [_documents(text) for text in (stated, computed)]
        yield from differences(*pair, complete=complete)
    except (ValueError, RecursionError, OverflowError) as error:
        yield f"not what benchrun writes: {error}"


def _documents(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return list(map(json.loads, text.splitlines()))


def differences(
    stated: Any,
    computed: Any,
    at: str = "",
    *,
    complete: bool = True,
    names: tuple[str, str] = ("the pack states", "its logs give"),
) -> Iterator[str]:
    """One sentence for each value that differs; equal numbers may differ in their last
    digits.

    Without ``complete`` a key that only ``computed`` has is no difference.
    """
    if isinstance(stated, Mapping) and isinstance(computed, Mapping):
        keys = [*stated, *(key for key in computed if key not in stated and complete)]
        for key in keys:
            pair = (stated.get(key, MISSING), computed.get(key, MISSING))
            yield from differences(
                *pair, f"{at}.{key}" if at else str(key), complete=complete, names=names
            )
    elif isinstance(stated, list) and isinstance(computed, list) and len(stated) == len(computed):
        for index, pair in enumerate(zip(stated, computed, strict=True)):
            yield from differences(*pair, f"{at}[{index}]", complete=complete, names=names)
    elif not _equal(stated, computed):
        yield f"{at or 'the file'}: {names[0]} {_brief(stated)}, {names[1]} {_brief(computed)}"


def _brief(value: Any) -> str:
    text = "nothing"
    if value is not MISSING:
        text = json.dumps(value)
    if len(text) <= 80:
        return text
    return f"{text[:77]}..."


def _equal(one: Any, other: Any) -> bool:
    numbers = all(
        isinstance(each, (int, float)) and not isinstance(each, bool) for each in (one, other)
    )
    if numbers:
        return math.isclose(one, other, rel_tol=SAME)
    return one == other and type(one) is type(other)
