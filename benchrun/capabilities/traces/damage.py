"""Faults of a damaged event, in words."""

import json
from typing import Any

LARGEST = 9e15
"""Most microseconds: more do not fit a whole number of 64 bits in ns."""
SHOWN = 40
"""Characters of a value."""
TIMED = frozenset({"X", "B", "E"})
"""Phases of events that need a time."""
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "cat": ("a text", (str,)),
    "name": ("a text", (str,)),
    "args": ("an object", (dict,)),
    "pid": ("a number or a text", (int, float, str)),
    "tid": ("a number or a text", (int, float, str)),
}
"""Keys of an event that may be missing or empty, and what else their values are."""


def damage_of(event: dict[str, Any]) -> str | None:
    """The first value of a wrong kind and what would be right; None if each is as
    expected.
    """
    if event.get("ts") is None and event.get("ph") in TIMED:
        return "it has no ts, the time of its start"
    for key in ("ts", "dur"):
        if event.get(key) is not None and not _is_time(event[key]):
            return f"its {key} is {shown(event[key])}, expected a number of microseconds below {LARGEST:g}"
    for key, (expected, types) in _KINDS.items():
        if event.get(key) and not isinstance(event[key], types):
            return f"its {key} is {shown(event[key])}, expected {expected}"
    return None


def shown(value: Any) -> str:
    """A value of a document as it stands there, cut if it is long."""
    text = json.dumps(value)
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}..."


def _is_time(value: Any) -> bool:
    """True for a number, which some exporters write as text."""
    try:
        return not isinstance(value, bool) and abs(float(value)) < LARGEST
    except (TypeError, ValueError, OverflowError):
        return False
