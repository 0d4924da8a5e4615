"""Python's tracebacks: each is collected as the block that one process prints, and its
last line is what went wrong.

Every line of a block may have a label: of srun, torchrun, a logger or a host. Ranks may
print at the same time; without labels their lines are one block.
"""

import builtins
import re
from typing import NamedTuple

from .kinds import GENERIC, RESOURCES, kind_of
from .prefixes import is_warning, label_of, shape_of
from .problems import HARMLESS, described, recognise, strongest
from .records import Problem

HEADER = "Traceback (most recent call last)"
FRAME = 'File "'
FRAME_INDENT = 2
"""Blanks of a frame beside its header."""
MOST_OPEN = 128
"""The most blocks that are collected at a time."""
MOST_LINES = 5000
"""A block of more lines has lost its end."""
LINES_OF_A_CALL = 4
"""Lines after a frame that may show its source, in a traceback whose header is missing.
"""
MESSAGE_LINES = 12
"""Lines after the exception that may belong to it: the rest of its message, or the next
exception of a chain.
"""
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
UNFINISHED = "a traceback without its last line"
_BOX = "╭╰─╮╯│┃❱┌└ \t"
_MARGIN = _BOX + "|+-"
"""Signs around a traceback: of rich, and of an exception group, which has nothing
before them.
"""
_OF_A_GROUP = re.compile(r" +\| ")
_FRAME = re.compile(r"[\s│┃╰╭❱|]|$|\[Previous line repeated|^During task with name|\.\.\. ")
_CALL = re.compile(r'File "[^"]{1,1000}", line \d{1,9}(?P<inside>, in )?')
_OTHER_RANK = re.compile(r"\s{0,8}\d{1,7}: ")
_LABEL = re.compile(r"\d{1,7}:|rank|default|\bpid=|\bip=")
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w{0,99}\.){0,9}[A-Za-z_]\w{0,99})(?:\(\w{1,99}\))?(?::(?:\s.*)?)?$"
)
_SUFFIXES = (
    "Error",
    "Exception",
    "Exit",
    "Interrupt",
    "Expired",
    "Failure",
    "Timeout",
    "Empty",
    "Abort",
    "Violation",
)
_ORIGINAL = "Original "
"""Word of torch before the header of the exception that another thread or process had.
"""
_WRAPPER = re.compile(
    r"(?:ray\.exceptions\.)?RayTaskError\b|(?:\w{1,99}\.)?(?:Base)?ExceptionGroup: "
    r"|(?:torch\.multiprocessing\.spawn\.ProcessRaised)?Exception:?\s*$"
    r"|[\w.]{1,200}: Caught \w{1,99} in (?:replica|DataLoader worker|pin memory)"
)
"""An exception whose own traceback follows within the block: of Ray, a group, a process
or thread of torch.
"""


class Taken(NamedTuple):
    """Reading of one line of a traceback."""

    problem: Problem | None = None
    replaces: Problem | None = None
    """The problem that was found before in the same block."""


class _Block:
    """The lines of one process."""

    def __init__(self, prefix: str, problem: Problem | None, *, cut: bool = False) -> None:
        self.shape = shape_of(prefix)
        self.labelled = bool(_LABEL.search(label_of(prefix)))
        """Whether each of its lines must have the label."""
        self.problem = problem
        """Problem of the traceback; None if it ends no process, and if its header is
        cut off until the exception comes.
        """
        self.cut = cut
        """Whether it has no header: it ends with its exception, or soon after its last
        frame.
        """
        self.framed = cut
        """Whether a frame has shown its prefix."""
        self.margin = ""
        """The blanks of its header behind the prefix and a blank after that."""
        self.lines = 0
        """Lines that are not empty."""
        self.after: int | None = None
        """Lines since the last exception; None within the frames."""

    @property
    def closed(self) -> bool:
        """Whether no more lines belong to it."""
        most = LINES_OF_A_CALL if self.cut and self.after is None else MOST_LINES
        return self.lines > most or (self.after is not None and self.after > MESSAGE_LINES)


class Tracebacks:
    """Collects the tracebacks of a log from its lines."""

    def __init__(self) -> None:
        self._blocks: dict[str, _Block] = {}
        """Label -> its open block."""
        self._shapes: list[re.Pattern[str]] = []
        """The different shapes of the blocks' prefixes, the longest first."""

    @property
    def open(self) -> bool:
        """Whether the next line may belong to a traceback."""
        return bool(self._blocks)

    def read(self, text: str, line: int, *, ignored: bool) -> Taken | None:
        """Take a line. None if it is no part of a traceback; ``ignored``: one that
        begins here ends no process.
        """
        at = text.find(HEADER)
        if at >= 0:
            return self._header(text, at, line, ignored)
        call = _CALL.search(text)
        if call is not None and self._blocks:
            self._frame(_prefix(text[: call.start()]))
        label, content = self._part(text) if self._blocks else ("", text)
        block = self._blocks.get(label)
        if block is None:
            return self._cut(text, call)
        block.lines += bool(content.strip())
        content = content.removeprefix(block.margin)
        taken = (_in_frames if block.after is None else _in_message)(block, content, text, line)
        if block.closed:
            del self._blocks[label]
            self._measure()
        return taken

    def _part(self, text: str) -> tuple[str, str]:
        """The label of the block that a line belongs to, and the rest of the line."""
        for shape in self._shapes:
            match = shape.match(text)
            if match is not None and (label := label_of(match[0])) in self._blocks:
                return label, text[match.end() :].removeprefix(" ")
        if "" in self._blocks:
            return ("-" if _OTHER_RANK.match(text) else ""), text
        # Some loggers label the first line alone.
        blocks = self._blocks.items()
        alone = (label for label, block in blocks if not (block.labelled or block.framed))
        return next(alone, "-"), text

    def _frame(self, prefix: str) -> None:
        """Give a block the prefix of its first frame: before its header a logger may
        say more.
        """
        label = label_of(prefix)
        before = self._blocks.get(label)
        if before is not None and before.after is None:
            before.framed = True
            return
        for longer, block in reversed(self._blocks.items()):
            if block.framed or not longer.startswith(label):
                continue
            if not block.labelled or _LABEL.search(label):
                block.shape, block.framed = shape_of(prefix), True
                self._blocks[label] = self._blocks.pop(longer)
                self._measure()
                return

    def _measure(self) -> None:
        shapes = {}
        for label, block in self._blocks.items():
            if label:
                shapes[block.shape.pattern] = block.shape
        self._shapes = [shapes[pattern] for pattern in sorted(shapes, key=len, reverse=True)]

    def _cut(self, text: str, call: re.Match[str] | None) -> Taken | None:
        """Begin a block with a frame whose header is not in the log; None if the line
        is no frame.
        """
        if call is None or not call["inside"] or len(self._blocks) >= MOST_OPEN:
            return None
        prefix = _prefix(text[: call.start()])
        block = _Block(prefix, None, cut=True)
        block.margin = _blanks(text[: call.start()], prefix)[FRAME_INDENT:]
        self._blocks[label_of(prefix)] = block
        self._measure()
        return Taken()

    def _header(self, text: str, at: int, line: int, ignored: bool) -> Taken:
        prefix = _prefix(text[:at])
        if _is_exception(prefix):
            prefix = ""  # IPython prints the exception's name in the header
        label = label_of(prefix)
        before = self._blocks.get(label)
        if before is not None and (
            before.after == -1 or (before.after is None and before.problem is not None)
        ):
            before.after = None
            return Taken()  # the next exception of a chain, or another rank without a label
        if HARMLESS.search(text) or is_warning(text) or len(self._blocks) >= MOST_OPEN:
            ignored = True
        problem = None if ignored else described(GENERIC, text, line, UNFINISHED, "last")
        block = _Block(prefix, problem)
        named = len(text) - len(text.lstrip(" "))  # an exception may stand before the header
        block.margin = _blanks(text[: at if prefix else named], prefix)
        self._blocks[label] = block
        self._measure()
        return Taken(problem)


def _prefix(before: str) -> str:
    """The prefix of a header or frame, without the margin of a traceback."""
    before = before.removesuffix(_ORIGINAL)
    if before.strip(_MARGIN):
        return before.strip(_BOX)
    return ""


def _blanks(before: str, prefix: str) -> str:
    """The blanks at the end of what stands before a header or frame, without the one
    that ends a prefix.
    """
    blanks = before[len(before.rstrip(" ")) :]
    if prefix:
        return blanks.removeprefix(" ")
    return blanks


def _in_frames(block: _Block, content: str, text: str, line: int) -> Taken | None:
    """Read a line between the header and the exception; None for a line of something
    else.
    """
    if block.cut and _CALL.search(content):
        block.lines = 0
    content = _OF_A_GROUP.sub("", content, 1)
    if _FRAME.match(content):
        return Taken()
    if not _is_exception(content):
        return None
    if _WRAPPER.match(content):
        return Taken()
    block.after = 0
    before = block.problem
    exception = described(None, text, line, content, "failure")
    if before is None and not block.cut:
        # A destructor that fails on a broken device is not why it is broken, but shows
        # that it is.
        broken = kind_of(exception.kind).fatal == "restart"
        return Taken(exception._replace(role="said") if broken else None)
    block.problem = exception
    if before is not None and before.detail != UNFINISHED:
        block.problem = _better(before, exception)
    if block.problem is not before:
        return Taken(block.problem, before)
    return Taken()


def _in_message(block: _Block, content: str, text: str, line: int) -> Taken | None:
    """Read a line after the exception; None for a line that is read as any other."""
    if content.startswith(_CHAINED):
        block.after = -1
        return Taken()
    if block.after is not None and block.after >= 0:
        block.after += 1
    before = block.problem
    problem = recognise(text, line) if before is not None and before.kind not in RESOURCES else None
    if (
        problem is None
        or problem.kind not in RESOURCES
        or problem.role not in ("resource", "hardware")
    ):
        return None
    block.problem = problem
    return Taken(problem, before)


def _better(before: Problem, last: Problem) -> Problem:
    """Choose from two exceptions of a chain: the one that names a resource, else the
    one that has a name, else the first.

    One that points to another exception, or to a peer, is neither.
    """
    if before.kind in RESOURCES or (before.kind != GENERIC and last.kind == GENERIC):
        return before
    only_last_has_name = before.kind == GENERIC != last.kind
    return strongest((last, before) if only_last_has_name else (before, last))


def _is_exception(content: str) -> bool:
    match = _EXCEPTION.match(content)
    if match is None:
        return False
    module, _, name = match["name"].rpartition(".")
    builtin = getattr(builtins, name, None)
    is_builtin = (
        isinstance(builtin, type)
        and issubclass(builtin, BaseException)
        and not issubclass(builtin, Warning)
    )
    return is_builtin or name.endswith(_SUFFIXES) or bool(module and name[0].isupper())
