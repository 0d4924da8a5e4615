"""Reading a JSON trace of any size: batches of events, and the other keys of the
document.

The text of the array ``traceEvents`` is cut between two events, and each piece is
parsed by itself. A cut in a nested object or in a string would leave text that is no
JSON, so a piece that can be parsed was cut rightly.
"""

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pydantic_core

from benchrun.errors import UserError
from benchrun.logs.inputs import chunks

PIECE = 1 << 20
"""Bytes that are parsed at once."""
TAIL = 1 << 16
"""Bytes at the end of a piece in which a cut is tried."""
TRIES = 20
LARGEST_EVENT = 64 << 20
"""Bytes without an end of an event, from which on a file is damaged."""
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[|^(?:\xef\xbb\xbf)?\s*\[(?=\s*[{\]])')
_OPENING = re.compile(rb'\{\s*"ph":\s*"')
_CUT = re.compile(rb"\}\s*,\s*(?=\{)")
BOM = b"\xef\xbb\xbf"
"""Some editors and Windows tools begin a file with it."""
Event = dict[str, Any]


class NoTrace(UserError):
    """A file that is something else than a trace."""


class JsonTrace:
    """The events of a file, then ``properties``."""

    def __init__(self, path: Path, skip: re.Pattern[bytes] | None = None) -> None:
        """``skip`` matches the beginning of events that are not needed, from the value
        of ``ph`` on.
        """
        self._path = path
        self._skip = skip
        self.properties: dict[str, Any] = {}
        """The keys of the document beside ``traceEvents``; complete when all events
        were read.
        """

    def batches(self) -> Iterator[list[Event]]:
        """Events in the order of the file, in lists of some thousands. UserError for a
        file that is no whole trace.
        """
        source = chunks(self._path)
        with _no_collection():
            head, rest = self._head(source)
            buffer = [rest]
            size = len(rest)
            for chunk in source:
                buffer.append(chunk)
                size += len(chunk)
                if size < PIECE:
                    continue
                text = b"".join(buffer)
                events, rest = self._piece(text)
                if not events and len(text) > LARGEST_EVENT:
                    raise self._damaged("no end of an event")
                yield events
                buffer, size = [rest], len(rest) if events else 0  # not cut yet: read as much again
            yield self._end(head, b"".join(buffer))

    def _head(self, source: Iterator[bytes]) -> tuple[bytes, bytes]:
        """The text before the events and what follows of them."""
        text = b""
        for chunk in source:
            text += chunk
            if match := _ARRAY.search(text):
                return text[: match.start()].removeprefix(BOM), text[match.end() :]
        raise NoTrace("is no Kineto trace: it has no traceEvents", where=str(self._path), hint=HINT)

    def _piece(self, text: bytes) -> tuple[list[Event], bytes]:
        """The events up to the last cut, and the text after it; no events if no cut was
        right.
        """
        cuts = list(_CUT.finditer(text, max(len(text) - TAIL, 0)))
        for cut in cuts[: -TRIES - 1 : -1]:
            inside = text[: cut.start() + 1]
            rest = text[cut.end() :]
            # Text that was skipped wrongly, for braces in a name, leaves no JSON
            # either.
            for events in (self._needed(inside), inside):
                with suppress(ValueError):
                    return _objects(parse(b"[" + events + b"]")), rest
        return [], text

    def _needed(self, text: bytes) -> bytes:
        """``text`` without the events that are skipped. The last one stays, because no
        comma follows it.
        """
        opening = _OPENING.search(text)
        if self._skip is None or opening is None:
            return text
        before, *events = text.split(opening[0])
        skip = self._skip.match
        last = events.pop()
        # An event of another layout, which the opening does not find, stands behind one
        # that it found.
        needed = [event for event in events if not skip(event) or b'"ph"' in event]
        return opening[0].join((before, *needed, last))

    def _end(self, head: bytes, text: bytes) -> list[Event]:
        """The last events; the text before and after the array becomes ``properties``."""
        try:
            if not head.strip():
                return _objects(parse(b"[" + text))
            last = parse(b'{"traceEvents":[' + text)
            self.properties = {**parse(head + b'"traceEvents":[]}'), **last}
            return _objects(self.properties.pop("traceEvents"))
        except (ValueError, AttributeError, TypeError) as error:
            raise self._damaged(error) from None

    def _damaged(self, why: object) -> UserError:
        hint = "the job may have ended while the profiler wrote; profile again, or export again"
        return UserError(
            f"is damaged or ends in the middle: {why}", where=str(self._path), hint=hint
        )


def _objects(values: list[Any]) -> list[Event]:
    """The events among ``values``; some exporters end an array with null."""
    return [each for each in values if type(each) is dict]


HINT = "expected a Kineto trace (.json, .json.gz) or an Nsight Systems export (.sqlite)"


def parse(text: bytes) -> Any:
    """The value of a JSON text. NaN and control characters, which some profilers write,
    are accepted.
    """
    try:
        return pydantic_core.from_json(text, cache_strings="all")
    except ValueError:
        return json.loads(text.decode(errors="replace"), strict=False)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switch off cyclic garbage collection, which takes more than half of the time of
    parsing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
