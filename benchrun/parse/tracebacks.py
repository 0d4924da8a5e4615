"""Python's tracebacks: each is collected as the block that one process prints, and its last line is what went wrong.

Every line of a block may have a label: of srun, torchrun, a logger or a host. Ranks may print at the same time; without
labels their lines are one block.
"""

import builtins
import re
from typing import NamedTuple

from benchrun.parse.kinds import GENERIC, RESOURCES
from benchrun.parse.problems import HARMLESS, described, recognise, strongest
from benchrun.parse.records import Problem

HEADER = "Traceback (most recent call last)"
FRAME = 'File "'
MOST_OPEN = 128
"""The most blocks that are collected at a time."""
MOST_LINES = 5000
"""A block of more lines has lost its end."""
LINES_OF_A_CALL = 4
"""So many lines after a frame may show its source, in a traceback whose header is missing."""
MESSAGE_LINES = 12
"""So many lines after the exception may belong to it: the rest of its message, or the next exception of a chain."""
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d(?:[.,]\d+)?|\d\d-\d\d(?= )|\b[EWI]\d{4}\b|(?<=\[)\+? *\d+\.\d+(?= ?s?\])"
)
_BOX = "╭╰─╮╯│┃❱┌└ \t|"
_FRAME = re.compile(r"[\s│┃╰╭❱|]|$|\[Previous line repeated|^During task with name|\.\.\. ")
_CALL = re.compile(r'File "[^"]{1,1000}", line \d{1,9}, in ')
_OTHER_RANK = re.compile(r"\s{0,8}\d{1,7}: ")
_LABEL = re.compile(r"\d{1,7}:|rank|default|\bpid=|\bip=")
_EXCEPTION = re.compile(r"(?P<name>(?:[A-Za-z_]\w{0,99}\.){0,9}[A-Za-z_]\w{0,99})(?:\(\w{1,99}\))?(?::(?:\s.*)?)?$")
_SUFFIXES = ("Error", "Exception", "Exit", "Interrupt", "Expired", "Failure", "Timeout", "Empty", "Abort", "Violation")
_WRAPPER = re.compile(
    r"(?:ray\.exceptions\.)?RayTaskError\b|(?:torch\.multiprocessing\.spawn\.ProcessRaised)?Exception:?\s*$"
)
"""An exception whose own traceback follows within the block: Ray's, and that of a process which torch has spawned."""


class Taken(NamedTuple):
    """What a line of a traceback adds."""

    problem: Problem | None = None
    replaces: Problem | None = None
    """The problem that was found before in the same block."""


class _Block:
    """The lines of one process."""

    def __init__(self, prefix: str, problem: Problem | None, *, cut: bool = False) -> None:
        self.labelled = bool(_LABEL.search(prefix))
        """Whether each of its lines must have the label."""
        self.problem = problem
        """None where the traceback ends no process, and where its header is cut off until the exception comes."""
        self.cut = cut
        """Whether it has no header: it ends with its exception, or soon after its last frame."""
        self.lines = 0
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
        """Label -> its open block. A label has no clocks, which differ from line to line."""
        self._lengths: list[int] = []
        """Lengths of the labels, the longest first."""
        self._clocks = False
        """Whether a label had a clock."""

    @property
    def open(self) -> bool:
        """Whether the next line may belong to a traceback."""
        return bool(self._blocks)

    def read(self, text: str, line: int, *, ignored: bool) -> Taken | None:
        """Take a line. None where it is no part of a traceback; ``ignored``: one that begins here ends no process."""
        at = text.find(HEADER)
        if at >= 0:
            return self._header(text, at, line, ignored)
        label, content = self._part(text) if self._blocks else ("", text)
        block = self._blocks.get(label)
        if block is None:
            return self._cut(text)
        block.lines += 1
        taken = (_in_frames if block.after is None else _in_message)(block, content, text, line)
        if block.closed:
            del self._blocks[label]
            self._measure()
        return taken

    def _part(self, text: str) -> tuple[str, str]:
        """The label of the block that a line belongs to, and the rest of the line."""
        line = _CLOCK.sub("", text).strip() if self._clocks else text.strip()
        for length in self._lengths:
            if length and line[:length] in self._blocks:
                return line[:length], line[length:].removeprefix(" ")
        if "" in self._blocks:
            return ("-" if _OTHER_RANK.match(text) else ""), text
        # Some loggers label the first line alone.
        return next((label for label, block in self._blocks.items() if not block.labelled), "-"), text

    def _measure(self) -> None:
        self._lengths = sorted({len(label) for label in self._blocks}, reverse=True)

    def _label(self, prefix: str) -> str:
        label = _CLOCK.sub("", prefix).strip()
        self._clocks |= label != prefix
        return label

    def _cut(self, text: str) -> Taken | None:
        """Begin a block with a frame whose header is not in the log; None where the line is no frame."""
        call = _CALL.search(text)
        if call is None or len(self._blocks) >= MOST_OPEN:
            return None
        prefix = text[: call.start()].strip(_BOX)
        self._blocks[self._label(prefix)] = _Block(prefix, None, cut=True)
        self._measure()
        return Taken()

    def _header(self, text: str, at: int, line: int, ignored: bool) -> Taken:
        prefix = text[:at].strip(_BOX)
        if _is_exception(prefix):
            prefix = ""  # IPython prints the exception's name in the header
        label = self._label(prefix)
        before = self._blocks.get(label)
        if before is not None and (before.after == -1 or (before.after is None and before.problem is not None)):
            before.after = None
            return Taken()  # the next exception of a chain, or another rank without a label
        if HARMLESS.search(text) or len(self._blocks) >= MOST_OPEN:
            ignored = True
        problem = None if ignored else described(GENERIC, text, line, "a traceback without its last line", "last")
        self._blocks[label] = _Block(prefix, problem)
        self._measure()
        return Taken(problem)


def _in_frames(block: _Block, content: str, text: str, line: int) -> Taken | None:
    """What a line between the header and the exception adds; None for a line of something else."""
    if block.cut and _CALL.search(content):
        block.lines = 0
    if _FRAME.match(content):
        return Taken()
    if not _is_exception(content):
        return None
    if _WRAPPER.match(content):
        return Taken()
    block.after = 0
    before = block.problem
    if before is None and not block.cut:
        return Taken()
    exception = described(None, text, line, content, "failure")
    block.problem = _better(before, exception) if before else exception
    return Taken(block.problem, before) if block.problem is not before else Taken()


def _in_message(block: _Block, content: str, text: str, line: int) -> Taken | None:
    """What a line after the exception adds; None for a line that is read as any other."""
    if content.startswith(_CHAINED):
        block.after = -1
        return Taken()
    if block.after is not None and block.after >= 0:
        block.after += 1
    before = block.problem
    problem = recognise(text, line) if before is not None and before.kind not in RESOURCES else None
    if problem is None or problem.kind not in RESOURCES or problem.role not in ("resource", "hardware"):
        return None
    block.problem = problem
    return Taken(problem, before)


def _better(before: Problem, last: Problem) -> Problem:
    """Of two exceptions of a chain the one that names a resource, else the one that has a name, else the first.

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
    is_builtin = isinstance(builtin, type) and issubclass(builtin, BaseException) and not issubclass(builtin, Warning)
    return is_builtin or name.endswith(_SUFFIXES) or bool(module and name[0].isupper())
