"""Logs as container engines and clouds keep them -> the program's own lines.

    {"log":"iteration 5/ 50 | ...\\n","stream":"stderr","time":"2026-01-05T10:00:01Z"}     (docker)
    {"textPayload": "completed step: 3, seconds: 5.668", "timestamp": "..."}               (Google Cloud)
    {"timestamp": 1767603600000, "message": "..."}                                         (CloudWatch, fluent-bit)

Kubernetes (CRI) keeps text behind a time and a stream, ``2026-01-05T10:00:01.5Z stdout
F text``, in pieces if there is a ``P``.

The number of lines stays, so that a problem names the line of the file. A line end
inside a text becomes a carriage return, which ends a piece of a line everywhere else
too.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

KEYS = ("log", "textPayload", "message", "MESSAGE", "msg", "line", "body", "@message")
"""Keys that hold the text of a line, in the order in which they count."""
PARTS = ("jsonPayload", "data", "record")
"""Keys of an object that holds one of KEYS."""
_ANY = "|".join(KEYS)
_SIGN = re.compile(rf'"(?:{_ANY})"\s*:\s*"'.encode())
_MEMBER = re.compile(rf'\s*"(?:{_ANY})"\s*:\s*(".*"),?\s*')
"""One member of an object that is printed over several lines."""


_CRI = re.compile(
    r"(?P<head>(?P<time>\d{4}-\d\d-\d\dT\S{8,30}) (?P<stream>stdout|stderr) )(?P<tag>[PF])(?P<text>(?: .*)?)",
    re.DOTALL,
)
_CRI_PIECES = (b" stdout P ", b" stderr P ")


_TIMES = ("timestamp", "time", "@timestamp", "receiveTimestamp")


def one_a_line(document: bytes) -> bytes:
    """An array of objects with one on each line, the oldest first, as ``gcloud logging
    read`` does not print it; other documents as they are.
    """
    try:
        entries = json.loads(document)
    except ValueError:
        return document
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        return document
    for key in _TIMES:
        times = [each.get(key) for each in entries]
        if all(times) and str(times[0]) > str(times[-1]):
            entries.reverse()
            break
    return b"".join(json.dumps(each).encode() + b"\n" for each in entries)


class _Text(NamedTuple):
    """The text inside one line."""

    text: str
    stream: str = ""
    is_piece: bool = False
    """Whether the next text of the stream continues it."""
    head: str = ""
    """Text that stays before the line's own text."""
    time: str = ""
    """When the collector got it."""


class Envelope:
    """Takes the blocks of one file in order; a text that docker or containerd cut in
    pieces is joined.
    """

    def __init__(self) -> None:
        self._time = ""
        self.rises = self.falls = 0
        """Lines that the collector got later, or earlier, than the line before."""
        self._pieces: dict[str, str] = {}
        """Stream -> the text so far of a line whose end is still to come."""

    def unwrapped(self, block: bytes) -> bytes:
        """Return a block of whole lines with each text in the place of its object."""
        cut = any(sign in block for sign in _CRI_PIECES)
        if not cut and not self._pieces and not _SIGN.search(block):
            return block
        ends = block.endswith(b"\n")
        lines = block.decode("utf-8", errors="replace").split("\n")
        return "\n".join(self._lines(lines[:-1] if ends else lines)).encode() + b"\n" * ends

    def _lines(self, lines: list[str]) -> Iterator[str]:
        """Yield one line for each of ``lines``; the pieces of a cut text stand in the
        last one's place.
        """
        for line in lines:
            found = _of_cri(line) or _of_json(line)
            if found is None:
                yield line
                continue
            if found.time:
                self.rises += found.time > self._time
                self.falls += found.time < self._time
                self._time = found.time
            whole = self._pieces.pop(found.stream, "") + found.text
            if found.is_piece:
                self._pieces[found.stream] = whole
            yield "" if found.is_piece else found.head + whole


def _of_cri(line: str) -> _Text | None:
    """The text that containerd or CRI-O keeps behind a time and a stream; a line of
    more than 16 KiB is in pieces.
    """
    match = _CRI.fullmatch(line)
    if match is None:
        return None
    return _Text(
        match["text"][1:], match["stream"], match["tag"] == "P", f"{match['head']}F ", match["time"]
    )


def _of_json(line: str) -> _Text | None:
    """The text inside an object; None if it holds none."""
    if member := _MEMBER.fullmatch(line):
        text = _string(member[1])
        if text is None:
            return None
        return _Text(_closed(text))
    if not line.lstrip().startswith("{"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or (text := _member(entry)) is None:
        return None
    # Docker closes a whole line with a line end, and cuts a line of more than 16 KiB
    # into pieces.
    is_piece = "stream" in entry and "log" in entry and not text.endswith("\n")
    time = next((str(entry[key]) for key in _TIMES if key in entry), "")
    text = text if is_piece else _closed(text)
    return _Text(text, str(entry.get("stream", "")), is_piece, time=time)


def _closed(text: str) -> str:
    return text.rstrip("\r\n").replace("\n", "\r")


def _member(entry: dict[str, Any]) -> str | None:
    """Return the text of an object; None if it has none, or is itself the record of a
    step.
    """
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
