"""Lines of a program inside JSON: logs as container engines and clouds keep them -> the program's own lines.

    {"log":"iteration 5/ 50 | ...\\n","stream":"stderr","time":"2026-01-05T10:00:01Z"}     (docker, CRI-O)
    {"textPayload": "completed step: 3, seconds: 5.668", "timestamp": "..."}               (Google Cloud)
    {"timestamp": 1767603600000, "message": "..."}                                         (CloudWatch, fluent-bit)

The number of lines stays, so that a problem names the line of the file. A line end inside a text becomes a carriage
return, which ends a piece of a line everywhere else too.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

KEYS = ("log", "textPayload", "message", "MESSAGE", "msg", "line", "body", "@message")
"""Keys that hold the text of a line, in the order in which they count."""
PARTS = ("jsonPayload", "data", "record")
"""Keys of an object that holds one of KEYS."""
_ANY = "|".join(KEYS)
_SIGN = re.compile(rf'"(?:{_ANY})"\s*:\s*"'.encode())
_MEMBER = re.compile(rf'\s*"(?:{_ANY})"\s*:\s*(".*"),?\s*')
"""One member of an object that is printed over several lines."""


class Envelope:
    """Takes the blocks of one file in order; a text that docker cut in pieces is joined."""

    def __init__(self) -> None:
        self._pieces = ""
        """The text so far of a line whose end is still to come."""

    def unwrapped(self, block: bytes) -> bytes:
        """Return a block of whole lines with each text in the place of its object."""
        if not _SIGN.search(block) and not self._pieces:
            return block
        ends = block.endswith(b"\n")
        lines = block.decode("utf-8", errors="replace").split("\n")
        return "\n".join(self._lines(lines[:-1] if ends else lines)).encode() + b"\n" * ends

    def _lines(self, lines: list[str]) -> Iterator[str]:
        """Yield one line for each of ``lines``; the pieces of a cut text stand in the last one's place."""
        for line in lines:
            text, is_piece = _text(line)
            if text is None:
                yield line
            elif is_piece:
                self._pieces += text
                yield ""
            else:
                whole, self._pieces = self._pieces + text, ""
                yield whole.rstrip("\r\n").replace("\n", "\r")


def _text(line: str) -> tuple[str | None, bool]:
    """Return the text inside ``line``, None where it holds none, and whether it is a piece of a longer one."""
    if member := _MEMBER.fullmatch(line):
        return _string(member[1]), False
    if not line.lstrip().startswith("{"):
        return None, False
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None, False
    if not isinstance(entry, dict):
        return None, False
    text = _member(entry)
    # Docker closes a whole line with a line end, and cuts a line of more than 16 KiB into pieces.
    is_piece = text is not None and "stream" in entry and "log" in entry and not text.endswith("\n")
    return text, is_piece


def _member(entry: dict[str, Any]) -> str | None:
    """Return the text of an object; None where it has none, or is itself the record of a step."""
    if "loss" in entry:
        return None
    for key in KEYS:
        if isinstance(entry.get(key), str):
            return str(entry[key])
    for part in PARTS:
        if isinstance(entry.get(part), dict) and (text := _member(entry[part])) is not None:
            return text
    return None


def _string(text: str) -> str | None:
    try:
        return str(json.loads(text))
    except ValueError:
        return None
