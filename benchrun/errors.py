"""Expected errors: each has a message and may have a hint that shows the correction."""

import contextlib
import errno
from collections.abc import Iterable, Iterator, Sequence

from benchrun.vocabulary import Exit

MOST_NAMED = 5
"""Most names that a hint lists of many."""
FEW = 20
"""Most names that are listed beside a similar one."""


class BenchrunError(Exception):
    """Base of all expected errors, which the command line prints without a traceback.

    ``where`` is a place such as ``recipes/x.yaml:12``; ``hint`` describes the
    correction; ``others`` are further errors of the same input, so that a file is
    corrected once.
    """

    exit_code = Exit.USER

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        where: object = None,
        others: "Sequence[BenchrunError]" = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = None
        if where is not None:
            self.where = str(where)
        self.others = tuple(others)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        hint = ""
        if self.hint:
            hint = f"\nhint: {self.hint}"
        return "\n".join([text + hint, *(f"error: {other}" for other in self.others)])


class UserError(BenchrunError):
    """Wrong input: a recipe, a cluster profile, an option, a log file (exit code 2)."""


class NoNumberError(BenchrunError):
    """A run that failed, is incomplete or broken gives no number (exit code 4)."""

    exit_code = Exit.INCONCLUSIVE


class MachineError(BenchrunError):
    """Slurm or the machine refuses or fails (exit code 3)."""

    exit_code = Exit.MACHINE


class SchedulerUnavailable(MachineError):
    """The scheduler does not answer. The state of the jobs is unknown: ask again later."""


class SubmitLimit(MachineError):
    """The scheduler takes no more jobs of this account for now. The job does not exist:
    submit it again later.
    """


def closest(word: str, legal: Iterable[object]) -> str:
    """A hint with what would be legal: what is similar to ``word``, and all that is,
    unless these are many.
    """
    import difflib

    names = sorted(map(str, legal))
    if len(names) > FEW:
        if similar := _similar(word, names):
            return f"did you mean {' or '.join(map(repr, similar))}?"
        return f"one of {len(names)} names, such as {', '.join(names[:MOST_NAMED])}"
    listing = ", ".join(names)
    if near := difflib.get_close_matches(word, names, n=1, cutoff=0.6):
        return f"did you mean '{near[0]}'? Legal: {listing}"
    return f"legal: {listing}"


def _similar(word: str, names: Sequence[str]) -> list[str]:
    """The few of many names that begin with ``word``, or are like it in whole or in
    their begin: ``lama3.1`` is like ``llama3.1-8b``.
    """
    import difflib

    begun = [name for name in names if name.startswith(word)]
    if begun:
        return sorted(begun, key=len)[:MOST_NAMED]
    matcher = difflib.SequenceMatcher(b=word.lower())
    likeness: dict[str, float] = {}
    for name in names:
        for text in (name, name[: len(word) + 1]):
            matcher.set_seq1(text.lower())
            likeness[name] = max(likeness.get(name, 0.0), matcher.ratio())
    least = max(0.6, max(likeness.values()) - 0.05)
    alike = [name for name in names if likeness[name] >= least]
    return sorted(alike, key=lambda name: (-likeness[name], len(name)))[:MOST_NAMED]


def exit_code_of(error: OSError) -> Exit:
    """USER for a path that may not be read or is too long; MACHINE for a full disk and
    whatever else fails.
    """
    if error.errno in (errno.EACCES, errno.ENAMETOOLONG):
        return Exit.USER
    return Exit.MACHINE


@contextlib.contextmanager
def reading(place: object) -> Iterator[None]:
    """Makes a path that the user named and that cannot be looked at (permissions, a
    name too long) a UserError.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=place) from error


@contextlib.contextmanager
def writing(path: object) -> Iterator[None]:
    """Raises UserError if ``path`` cannot be written. A closed pipe stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path) from error
