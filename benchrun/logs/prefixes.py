"""The prefix of a line: what loggers, launchers and container runtimes print before its
text.

A prefix has labels, clocks, levels and names of streams, in any order and number. The
lines of one traceback share it, and only its clocks differ.
"""

import re
from collections.abc import Iterator

_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_CLOCKS = (
    rf"\d{{4}}[-/]\d\d[-/]\d\d|{_TIME}|\d\d-\d\d(?= )|\b[EWI]\d{{4}}\b|\b1[5-9]\d{{8}}(?:\.\d+)?\b"
    r"|(?<=\[)\+? *\d+\.\d+(?= ?s?\])"
)
CLOCK = re.compile(_CLOCKS)
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d|[A-Z][a-z]{2} {1,2}\d{1,2}|\d\d-\d\d|[ECF]\d{4})"
_NOTICE = re.compile(
    r"\s*(?:[\[(\w.-]{0,80}(?:(?i:warn)|(?<![a-zA-Z])(?i:info|debug|hint|note)\b)"
    r"|\[(?:\w{1,20} )?W[\d ])"
)
"""A level below that of an error, or the first word of an advice."""
_PIECE = re.compile(
    r"\s*(?:\[[^\]]{1,120}\](?:<\w{1,20}>)?:?|\([^)]{1,120}\):?"
    rf"|(?:[EF] )?{_DATE}[ T]{_TIME}(?:Z|[+-]\d\d:?\d\d| UTC)?:?"
    r"|(?:ERROR|CRITICAL|FATAL|Error|stderr [FP]|stdout [FP])(?=\s)"
    r"|(?:[\w.-]{1,80} )?[\w.-]{1,80}\[\d{1,9}\]:|(?:[EF\d]\d{0,8} )?[\w./-]{1,200}:\d{1,7}\]"
    r"|[\w.-]{1,80}(?::(?!\d)|\s{1,40}\|)|[\w.:<>-]{1,80} - |[|/-](?=\s))\s*"
)
_MOST_PIECES = 12
_LEVEL = re.compile(
    r"\s*(?:(?P<warning>\[?WARN(?:ING)?\b|W\d{4} |\[(?:\w{1,20} )?W[\d ])"
    r"|\[?(?:ERROR|CRITICAL|FATAL)\b)"
)


def starts(text: str) -> Iterator[int]:
    """Yield where the text may start: at 0, and after each piece of a prefix, up to a
    notice.
    """
    at = 0
    yield at
    for _ in range(_MOST_PIECES):
        piece = None if _NOTICE.match(text, at) else _PIECE.match(text, at)
        if piece is None:
            return
        at = piece.end()
        yield at


def is_warning(text: str) -> bool:
    """Whether the level in the line's prefix is that of a warning."""
    levels = (_LEVEL.match(text, at) for at in starts(text))
    first = next(filter(None, levels), None)
    return first is not None and first["warning"] is not None


def label_of(prefix: str) -> str:
    """The prefix without its clocks: the same in every line of one process."""
    return CLOCK.sub("", prefix).strip()


def shape_of(prefix: str) -> re.Pattern[str]:
    """A pattern of prefixes like this one: with other clocks, of other ranks and
    processes.
    """
    parts, at = [r"\s*"], 0
    prefix = prefix.strip()
    for clock in CLOCK.finditer(prefix):
        parts += [_with_numbers(prefix[at : clock.start()]), f"(?:{_CLOCKS})"]
        at = clock.end()
    return re.compile("".join((*parts, _with_numbers(prefix[at:]))))


def _with_numbers(text: str) -> str:
    """A pattern of ``text`` with any numbers and any blanks."""
    escaped = re.sub(r"(?:\\?\s)+", r"\\s*", re.escape(text))
    return re.sub(r"\d+", r"\\d+", escaped)
