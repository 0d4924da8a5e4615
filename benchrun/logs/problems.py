"""Problems that a log shows, in any framework, by fixed words of the programs that
print them; which of several ended the job.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchrun.paths import table

from .kinds import GENERIC, ROLES, kind_of
from .lines import SHORTEST
from .prefixes import is_warning, starts
from .records import Log, Problem

MOST = 50
"""The most problems of one kind that are recorded, the first and the last: a thousand
ranks die of one cause.
"""
MISSING = frozenset({"missing_file", "missing_module"})
"""Kinds that lead to other exceptions, and follow from none."""
LONGEST_DETAIL = 240
"""Characters of a line that a problem repeats."""
FINISHED, ORDERED = "finished", "ordered_end"
"""Rows of problems.csv for words that say that all work is done, or as much of it as the
job's options order: no problem.
"""
IGNORED = ("Exception ignored ", "[shutdown] API server: shutdown triggered")
"""Words before a traceback that ends nothing: Python's, of a destructor at interpreter
shutdown; vLLM's, after the signal that ends its server (release 0.26 reports the end of
its engine as an error).
"""
REFUSAL = 'HTTP/1.1" 4'
REFUSED = re.compile(r'HTTP/1\.1" 4\d\d\b')
"""A server's answer to a request that it refuses: what it raised just before that is
the client's mistake.
"""
LINES_OF_A_REFUSAL = 20
"""So many lines after an exception its answer may stand."""
REPEATED = "across cluster]"
"""End of a line that Ray prints in place of equal ones of other workers: the first of
them stands before it.
"""
HARMLESS = re.compile(r"\bImport of \S{1,255} from \S{1,255} failed with: ")
"""NeMo goes on without what it could not import."""
PLAIN_EXCEPTIONS = (
    "rror: ",
    "Exception: ",
    ".exceptions.",
    ".exc.",
    "pyarrow.lib.Arrow",
    "BadZipFile: ",
    "ERROR",
    "FATAL",
    "Aborted!",
    "AssertionError",
    "NotImplementedError",
    "RuntimeError",
    "TimeoutError",
    "EOFError",
)
"""Marks of an exception's last line, in a log without a traceback before it, or of
another error.
"""
_UNCAUGHT = "  what():  "
"""Text that C++ prints before the message of an exception that nobody caught: it ends
the process.
"""
_NAME = r"[A-Za-z_]\w{0,99}"
_EXCEPTION = re.compile(
    rf"(?:{_NAME}\.){{0,9}}"
    rf"(?:(?:{_NAME}Error|\w{{0,99}}Exception|(?<=\.exceptions\.){_NAME}"
    rf"|(?<=\.exc\.){_NAME}|BadZipFile|(?<=pyarrow\.lib\.)Arrow\w{{1,99}}): "
    r"|(?:Assertion|NotImplemented|Runtime|Timeout|EOF)Error\s*$)"
)
"""The last line of an exception that no traceback precedes, behind its prefix."""
_SOURCE = re.compile(r"(?:^|\s)raise [A-Za-z_][\w.]{0,200}(?:\(.*|\s+from \w+)?\s*$")
"""A line of a program, as a traceback shows it: the next lines say better what was
raised.
"""
_NO_ERROR_LINE = re.compile(r"(?i:warn|\bhint|\bnote\b|\binfo\b)|ld\.so|srun: |slurmstepd|level")
_ERROR_LINE = re.compile(r".{0,100}?(?<![^\s\[|(:])(?:ERROR|FATAL)\b[\]:|)]*\s+\S|\W*Aborted!\W*$")
_ERROR_WORD = re.compile(r"(?i:(?:fatal )?error|fatal): ")


class _Sign(NamedTuple):
    """A row of problems.csv."""

    kind: str
    words: str
    """Fixed words of the line; empty if the pattern alone decides, which
    ``in_exception`` allows.
    """
    only_with: re.Pattern[str]
    """Pattern that a line must match for the words to mean it."""
    role: str
    in_exception: bool
    """The words count in the last line of an exception alone."""


_PROGRAM = (
    r"(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|colossalai|horovodrun|ray|uv|tune"
    r"|axolotl|llamafactory-cli|swift|vllm|trtllm-\w+|[ms]run|sbatch|mpirun|mpiexec|docker|podman"
    r"|enroot|apptainer|singularity|numactl|nsys|conda|mamba)"
)
"""The program that a job was to start, as opposed to one that a script asks for a
detail.
"""
_SHELL = r"(?:\b(?:ba|da|a|k|z|c)?sh|\.sh|_script)(?:: line)?(?::? ?\d+)?: (?:exec: |\S+: )?"
_PARTS = {
    "{program}": _PROGRAM,
    "{no_number}": r"(?i)^(?!.*(overflow|skip|scale)).*loss['\"]?(?::| =|=)? ?nan\b",
    "{shell}": rf"(?:^|{_SHELL})(?:{_PROGRAM}|\S+\.(?:sh|py)|\S*/bin/\S+)",
}
"""Parts that patterns of problems.csv share: the program of a job, a shell that names
it, a loss.
"""


def _pattern(only_with: str) -> re.Pattern[str]:
    for name, part in _PARTS.items():
        only_with = only_with.replace(name, part)
    return re.compile(only_with)


_SIGNS = [
    _Sign(
        row["problem"],
        row["words"],
        _pattern(row["only_with"]),
        row["role"] or kind_of(row["problem"]).role,
        row["where"] == "exception",
    )
    for row in table(__file__)
]
"""The first that fits a line counts."""
_FIXED = [sign for sign in _SIGNS if not sign.in_exception]
_LOSSES = [sign.words for sign in _FIXED if (sign.kind, sign.role) == ("nan_loss", "word")]
_OTHERS = [sign.words for sign in _FIXED if sign.words not in _LOSSES]
_WORDS = tuple(dict.fromkeys((*_OTHERS, *IGNORED, *PLAIN_EXCEPTIONS, REFUSAL)))
_SHORT = [words for words in _WORDS if len(words) < SHORTEST]
"""Words that are searched for one by one, which takes most of the time."""
NEEDLES = tuple(
    words.encode() for words in _WORDS if not any(each in words for each in _SHORT if each != words)
)
"""Words that find every line with a sign: those that contain short ones are found with
them.
"""
LOSSES = tuple(words.encode() for words in _LOSSES)
"""Words that find the losses of programs whose steps no dialect reads."""
_HOST = re.compile(
    r"srun: error: (?P<srun>[\w.-]{1,255}): tasks? |slurmstepd-(?P<stepd>[\w.-]{1,255}):"
    r"| ON (?P<on>[\w.-]{1,255}) CANCELLED|^(?P<pdsh>[A-Za-z][\w.-]{0,254}\d): "
    r"|(?<![\w.-])(?P<nccl>[\w.-]{1,255}):\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
ENDED = ("fault", "exit", "after")
"""Roles of those who see a process end from outside."""
_UNRAISED = {"failure": "said", "remote": "peer"}
"""Role of an exception -> its role if it stands in no traceback."""
_RANK = re.compile(
    r"\[(?:rank|Rank |default)(\d{1,7})\]|\b[Rr]ank[ :=]+(\d{1,7})\b|: tasks? (\d{1,7})[:,-]|^\s*(\d{1,7}): "
)


def rank_of(text: str) -> int | None:
    """The rank that printed a line; None if the line has none."""
    match = _RANK.search(text)
    if match:
        return int(match[match.lastindex or 0])
    return None


def _sign_of(text: str, *, in_exception: bool) -> _Sign | None:
    for sign in _SIGNS:
        if (
            sign.words in text
            and (in_exception or not sign.in_exception)
            and sign.only_with.search(text)
        ):
            return sign
    return None


def recognise(text: str, line: int) -> Problem | None:
    """The problem that a line outside a traceback reports, if any, with host and rank
    if it names them.
    """
    uncaught = _UNCAUGHT in text
    in_exception = uncaught or any(_EXCEPTION.match(text, at) for at in starts(text))
    sign = _sign_of(text, in_exception=in_exception)
    if _SOURCE.search(text):
        if sign:
            return described(sign.kind, text, line, text, "last")
        return None
    if sign is None:
        if in_exception:
            return described(GENERIC, text, line, text, "said")
        if _is_error_line(text):
            return described(GENERIC, text, line, text, "word")
        return None
    # No program goes on after an error of CUDA or NCCL, or without memory: its
    # exception says so wherever it stands.
    sure = uncaught or (sign.role == "failure" and kind_of(sign.kind).fatal != "steps")
    # Nor is it sure that a warning ends a program.
    warns = kind_of(sign.kind).fatal == "steps" and is_warning(text)
    unsure = not sure and (in_exception or warns)
    role = _UNRAISED.get(sign.role, sign.role) if unsure else sign.role
    before = (
        max(text.find(sign.words) - LONGEST_DETAIL // 2, 0) if len(text) > LONGEST_DETAIL else 0
    )
    return described(sign.kind, text, line, text[before:], role)


def _is_error_line(text: str) -> bool:
    if _NO_ERROR_LINE.search(text):
        return False
    if _ERROR_LINE.match(text):
        return True
    return any(_ERROR_WORD.match(text, at) for at in starts(text))


def described(kind: str | None, text: str, line: int, detail: str, role: str) -> Problem:
    """A problem with host and rank if ``text`` names them.

    ``detail``: what the user sees; without a ``kind`` it is an exception, which says
    kind and role.
    """
    if kind is None:
        sign = _sign_of(detail, in_exception=True)
        kind, role = (sign.kind, sign.role) if sign else (GENERIC, role)
    match = _HOST.search(text)
    host = match[match.lastgroup or 0] if match else None
    return Problem(
        kind,
        line,
        " ".join(detail.split())[:LONGEST_DETAIL],
        host=host,
        rank=rank_of(text),
        role=role,
    )


def without_consequences(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems without those that follow from the one that ended the job: a run has
    one cause.
    """
    ends = _ends(problems)
    if not ends:
        return tuple(problems)
    cause = strongest(_without_echoes(ends))
    same = cause.kind, role_of(cause)
    return tuple(
        each for each in problems if each not in ends or (each.kind, role_of(each)) == same
    )


def _without_echoes(problems: list[Problem]) -> list[Problem]:
    """The problems without exceptions that are printed both before and after a missing
    part.

    A log may begin within a chain, whose first exception then stands in its second
    print alone.
    """
    kinds = [each.kind if role_of(each) == "failure" else "" for each in problems]
    at = next((index for index, kind in enumerate(kinds) if kind in MISSING), 0)
    before = {each.detail for each in problems[:at] if each.kind == GENERIC}
    echoes = before & {each.detail for each in problems[at:]}
    return [each for each in problems if each.detail not in echoes]


def without_refused(problems: list[Problem], line: int) -> list[Problem]:
    """The problems without exceptions that the server raised for the request it refuses
    in ``line``.
    """
    first = line - LINES_OF_A_REFUSAL
    chosen = []
    for each in problems:
        if not (_may_be_handled(each) and first <= (each.line or 0) < line):
            chosen.append(each)
    return chosen


def handled_again(problems: Sequence[Problem]) -> Iterator[Problem]:
    """The problems; an exception that the program has survived before, it survives,
    unless a launcher saw its end.
    """
    ended = max(
        (each.line or 0 for each in problems if role_of(each) in ENDED and not each.then), default=0
    )
    survived = {
        _without_numbers(each)
        for each in problems
        if _may_be_handled(each) and each.then == "steps"
    }
    for each in problems:
        alike = _may_be_handled(each) and not each.then and _without_numbers(each) in survived
        yield each._replace(then="steps") if alike and (each.line or 0) > ended else each


def _may_be_handled(problem: Problem) -> bool:
    return kind_of(problem.kind).fatal == "steps" and role_of(problem) in (
        "failure",
        "said",
        "last",
    )


def _without_numbers(problem: Problem) -> str:
    return _NUMBER.sub("0", problem.detail)


def with_last_word(problems: Sequence[Problem], log: Log) -> list[Problem]:
    """The problems; of the words among them one, and only if nothing else says why the
    work is not done.

    A word that names a kind explains what launchers saw; of error lines the last one
    before that.
    """
    others = [each for each in problems if each.role != "word"]
    planned = log.planned_steps
    if log.complete(planned):
        # What a run that ended well went on after was handled.
        return [each for each in others if (each.kind, each.then) != (GENERIC, "steps")]
    well = planned is None if len(log.steps) else bool(log.results or log.served)
    if well:
        return others
    ends = _ends(others)
    until = min((each.line or 0 for each in ends), default=math.inf)
    words = [each for each in problems if each.role == "word" and not each.then]
    named = [each for each in words if each.kind != GENERIC]
    plain = []
    for each in words:
        if each.kind == GENERIC and (each.line or 0) < until:
            plain.append(each)
    seen_from_outside = all(role_of(each) in ("exit", "after", "last") for each in ends)
    unnamed = all(each.kind == GENERIC for each in ends)
    if named and seen_from_outside:
        cause = named[0]
    elif plain and seen_from_outside and unnamed:
        cause = plain[-1]
    else:
        return others
    return [*(each for each in others if each not in ends), cause]


def _ends(problems: Sequence[Problem]) -> list[Problem]:
    """The problems that may have ended the job; what rows show, and what a file is, has
    no role.
    """
    chosen = []
    for each in problems:
        if each.role and not each.then and kind_of(each.kind).made_up_by is not None:
            chosen.append(each)
    return chosen


def strongest(problems: Sequence[Problem]) -> Problem:
    """The first of the problems with the strongest evidence."""
    roles = list(map(role_of, problems))
    remote = "peer" if "fault" in roles else "failure"
    strengths = [ROLES.index(remote if role == "remote" else role) for role in roles]
    return problems[strengths.index(min(strengths))]


def role_of(problem: Problem) -> str:
    """Reporter of a problem, one of ROLES."""
    return problem.role or kind_of(problem.kind).role
