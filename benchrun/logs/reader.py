"""Bytes -> one Log: find the lines that matter, pass them to the dialects, and keep the
dialect that finds steps.

A file may hold two trainings: the output of a second job went to the same file. They
give no number together: the last one counts, and the problem ``second_training`` names
the line where it begins.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from benchrun.errors import UserError
from benchrun.runspec.launched import Launched

from . import configuration, launched, problems, profiled, stamps, tracebacks
from .dialect import DIALECTS, Dialect
from .envelope import Envelope
from .forms import Forms
from .lines import (
    LONGEST_LINE,
    Grams,
    Hit,
    Line,
    clean,
    date_of,
    lines_around,
    newlines,
)
from .records import Facts, Log, Problem, Traits
from .rows import TYPES, Rows
from .serving import Served
from .skipped import NEEDLE as COUNT_OF_SKIPPED
from .skipped import Skipped
from .turns import another_training, two_jobs

UNKNOWN = "unknown"
"""The framework of a log without a step."""
CERTAIN_FACTS = 3
"""Facts of one dialect that are no accident in a log without a step."""
DENSE = 1 << 12
"""Bytes per step line below which the next block is read at once."""
_COLOUR = re.compile(rb"\x1b\[[\d;]*[mK]")
_PROBLEM, _PROFILE, _LAUNCH, _CONFIGURATION, _PAUSE = -1, -2, -3, -4, -5
"""Owners of the words that mean a problem, of those that announce profiled steps, of a
job's own statement, of what any program states, and of those that tell of a pause.
"""


class Reader:
    """Takes bytes as they come; the Log so far is available at any time."""

    def __init__(self, framework: str | None = None) -> None:
        """Start reading. If several dialects find a step the first wins.

        With ``framework`` only its lines are read.

        UserError for a framework without a dialect.
        """
        if framework is not None and framework not in DIALECTS:
            raise UserError(
                f"no dialect for framework '{framework}'",
                hint=f"legal: {', '.join(sorted(DIALECTS))}",
            )
        self._forced = framework
        self._classes = tuple(
            dialect for name, dialect in DIALECTS.items() if framework in (None, name)
        )
        self._all = tuple(range(len(self._classes)))
        self._dialects = [dialect() for dialect in self._classes]
        self._problems: list[Problem] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        """(Kind, role) -> how many problems were found."""
        self._ignored: set[int | None] = set()
        """Ranks whose next traceback ends no process."""
        self._tracebacks = tracebacks.Tracebacks()
        self._skip_messages, self._skipped = 0, Skipped()
        self._measured: int | None = None
        """Number of measured steps, if others are profiled after them."""
        self._launched: list[Launched] = []
        """Lines ``benchrun launched:`` of the jobs in these files."""
        self._finished: list[Log] = []
        self.begin(None)

    def begin(self, source: str | None) -> None:
        """Start another file of the run, called ``source``."""
        self._dialects = [dialect.continued() for dialect in self._dialects]
        self._source = source
        self._tracebacks = tracebacks.Tracebacks()
        self._envelope = Envelope()
        self._rest = b""
        """Bytes after the last line end: a line that is still being written, or was cut
        off.
        """
        self._number = 1
        self._pauses: list[int] = []
        self._winner: int | None = None
        """Index of the dialect that has found its own steps; no other dialect's lines
        count then.
        """
        self._began: float | None = None
        self._restarted: Dialect | None = None
        """Reads the facts that are printed again, after steps."""
        self._dense = False
        self._forms: Forms | None = None
        self._wanted = _search(self._classes, self._all, self._all)

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the file. They are read in blocks of whole lines; LF and CR
        both end a line.
        """
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if not end:
            self._rest += chunk
            if len(self._rest) > LONGEST_LINE:
                self._rest = self._rest[-LONGEST_LINE // 4 :]
            return
        block, self._rest = b"".join((self._rest, memoryview(chunk)[:end])), chunk[end:]
        self._read(block, terminated=True)
        self._number += newlines(block)

    def note(self, kind: str, detail: str) -> None:
        """Add a problem with the file itself."""
        self._problems.append(Problem(kind, None, detail, source=self._source))

    def take(self, served: Sequence[Served], file: str) -> None:
        """End the file, which is a document of results."""
        last = served[-1]
        self._finished.append(
            Log(
                file,
                last.framework,
                facts=last.facts,
                results=last.values,
                served=[*served],
                ended=last.closed,
            )
        )

    def end(self) -> None:
        """End the file: the rest is its last line, whole or cut."""
        if self._rest:
            self._read(self._rest, terminated=False)
        self._finished.append(self._file_log(""))
        self._problems = []

    def _read(self, block: bytes, *, terminated: bool) -> None:
        block = self._envelope.unwrapped(block)
        if b"\x1b[" in block:
            block = _COLOUR.sub(b"", block)  # grep colours the very words that are searched here
        # After facts that were printed again, the next step line shows whether another
        # training begins.
        at_once = self._dense and terminated and self._restarted is None
        steps, hits = self._read_at_once(block) if at_once else (0, [])
        if not steps:
            hits = self._wanted.find(block)
            steps = sum(hit.owner not in (_PROBLEM, _PAUSE) for hit in hits)
        self._dense = steps * DENSE > len(block)
        for line, owners in lines_around(
            block, hits, self._number, terminated=terminated, follow=lambda: self._tracebacks.open
        ):
            for owner in sorted(owner for owner in owners if owner >= 0):
                self._read_as(owner, line)
            self._note_words(owners, line)
            if _PROBLEM in owners or self._tracebacks.open:
                self._problem(line.text, line.number)
        if self._winner is not None:
            self._wanted = _search(self._classes, (self._winner,), (self._winner,))

    def _note_words(self, owners: set[int], line: Line) -> None:
        """Take what a line says that belongs to no dialect."""
        if _PAUSE in owners:
            self._pauses.append(line.number)
        if _PROFILE in owners:
            self._measured = profiled.measured_steps(line.text) or self._measured
        if _CONFIGURATION in owners:
            self._state(line)
        if _LAUNCH in owners and (stated := launched.launched(line.text)):
            self._launched.append(stated)

    def _read_at_once(self, block: bytes) -> tuple[int, list[Hit]]:
        """The number of steps read, and where problems stand; 0 if the block must be
        read line by line.
        """
        weak = (
            number
            for number in self._all
            if not self._classes[number].strong and self._dialects[number].seen
        )
        strong = self._winner is not None
        owner = self._winner if strong else next(weak, None)
        if owner is None:
            return 0, []
        others = () if strong else tuple(number for number in self._all if number != owner)
        hits = _search(self._classes, others, (owner,) if strong else self._all).find(block)
        if any(hit.owner not in (_PROBLEM, _PAUSE) for hit in hits):
            return 0, []  # another dialect may find steps of its own, or another training begins
        text = clean(block)
        needles = self._classes[owner].step_needles
        if (b"\x1b" in block or b"\x00" in block) and any(
            block.count(n) != text.count(n.decode()) for n in needles
        ):
            return 0, []  # line by line, needles are searched in raw bytes
        if self._forms is None or self._forms.dialect is not self._dialects[owner]:
            self._forms = Forms(self._dialects[owner])
        return self._forms.read(text, self._number), hits

    def _read_as(self, owner: int, line: Line) -> None:
        """Pass a line to the dialect with a needle in it; a fact after the first step
        describes another start.
        """
        number, is_fact = divmod(owner, 2)
        dialect = self._dialects[number]
        if self._winner is None:
            self._take(dialect, line, is_fact=bool(is_fact))
            # This is decided line by line, so that it does not depend on how the bytes
            # come.
            if dialect.strong and dialect.seen:
                self._winner = number
                self._began = date_of(line.text)
        elif self._winner != number:
            return
        elif is_fact:
            self._restarted = self._restarted or type(dialect)()
            self._take(self._restarted, line, is_fact=True)
        elif (how := self._other_training(dialect)) is None:
            self._restarted = None
            self._take(dialect, line, is_fact=False)
        elif self._restarted is not None:
            self._take(self._restarted, line, is_fact=False)
            if self._restarted.seen:
                self._dialects[number], self._restarted = self._restarted, None
                self._problems.append(self._second_training(line.number, how))

    def _take(self, dialect: Dialect, line: Line, *, is_fact: bool) -> None:
        """Let a dialect read a line, and note what it states of the run."""
        before = dict(vars(dialect.facts)) if is_fact else {}
        dialect.stamps.take(line.number, line.text)
        dialect.read(line)
        if is_fact:
            dialect.facts.note_line(before, self._source, line.number)

    def _state(self, line: Line) -> None:
        """Take what any program states: the dialect is not known yet."""
        for facts in (dialect.facts for dialect in self._dialects):
            before = dict(vars(facts))
            configuration.take(line.text, facts)
            facts.note_line(before, self._source, line.number)

    def _other_training(self, dialect: Dialect) -> str | None:
        """Reason why the facts that were printed again begin another training than the
        one of ``dialect``; None if not.
        """
        if self._restarted is None:
            return None
        if dialect.contradicts(self._restarted.facts):
            return "with other arguments"
        if self._restarted.begins_anew(dialect):
            return "after the end of the one before"
        return None

    def _second_training(self, line: int, how: str) -> Problem:
        detail = f"another training begins {how}; what this file holds before it is not measured"
        return Problem("second_training", line, detail, source=self._source)

    def _problem(self, text: str, number: int) -> None:
        self._skipped.take(text)
        if text.endswith(problems.REPEATED):
            return
        if any(words in text for words in problems.IGNORED):
            self._ignored.add(problems.rank_of(text))
        ignored = False
        if (
            self._ignored
            and tracebacks.HEADER in text
            and (rank := problems.rank_of(text)) in self._ignored
        ):
            ignored = True
            self._ignored.remove(rank)
        taken = self._tracebacks.read(text, number, ignored=ignored)
        if taken is None:
            if problems.REFUSED.search(text):
                self._problems = problems.without_refused(self._problems, number)
            problem = problems.recognise(text, number)
            if problem is not None:
                self._add_problem(problem)
        elif taken.problem is not None:
            self._add_problem(taken.problem, taken.replaces)

    def _add_problem(self, problem: Problem, replaces: Problem | None = None) -> None:
        """Record a problem, in the place of ``replaces`` if that is recorded: it was
        not known so well.
        """
        problem = problem._replace(source=self._source)
        before = replaces and replaces._replace(source=self._source)
        if before is not None and before in self._problems:
            self._problems[self._problems.index(before)] = problem
            return
        group = problem.kind, problem.role
        self._counts[group] += 1
        if problem.kind == "skipped_steps" and not problem.rank:
            self._skip_messages += 1  # rank 0 said it, or the only rank that prints
        if self._counts[group] > problems.MOST:
            same = [
                index
                for index, each in enumerate(self._problems)
                if (each.kind, each.role) == group
            ]
            if len(same) < problems.MOST:
                return  # the line is of an earlier file
            del self._problems[same[problems.MOST // 2]]
        self._problems.append(problem)

    @property
    def rows(self) -> Rows:
        """The measured steps read so far of this file."""
        log = self._file_log("")
        if self._measured is None:
            return log.steps
        return profiled.without_profiled(log, self._measured).steps

    def log(self, name: str) -> Log:
        """Everything read so far, of all files."""
        log = self._as_launched(_merged(name, self._finished or [self._file_log(name)]))
        if self._measured is not None:
            log = profiled.without_profiled(log, self._measured)
        left = [each for each in log.problems if each.kind != problems.FINISHED]
        if {each.then for each in log.problems if each not in left} - {"restart"}:
            log = replace(log, ended=True)
        causes = problems.without_consequences(problems.with_last_word(left, log))
        every = (*causes, *problems.step_problems(log))
        without_update = max(self._skip_messages, self._skipped.steps)
        return replace(log, problems=every, skip_messages=without_update)

    def _as_launched(self, log: Log) -> Log:
        """``log`` with the facts that its job stated, if it has none of its own."""
        trainings = 1 + sum(problem.kind == "second_training" for problem in log.problems)
        if len(self._launched) < trainings:
            return log  # the last training may be another one
        facts = replace(log.facts)
        facts.fill(launched.facts(self._launched[-1]))
        return replace(log, facts=facts, launched=self._launched[-1])

    def _file_log(self, name: str) -> Log:
        winner = [] if self._winner is None else [self._dialects[self._winner]]
        seen = [dialect for dialect in (*winner, *self._dialects) if dialect.seen]
        if not seen:
            most = max(
                (dialect.facts for dialect in self._dialects), key=lambda each: len(each.lines)
            )
            known = most if len(most.lines) >= CERTAIN_FACTS else Facts()
            return Log(name, self._forced or UNKNOWN, facts=known, problems=tuple(self._problems))
        chosen = seen[0]
        rows = chosen.finish()
        file_problems = self._problems
        if two_jobs(rows):
            detail = "steps of two jobs are mixed: equal numbers have other losses or times"
            file_problems = [*file_problems, Problem("two_jobs", None, detail, source=self._source)]
        if began := rows.began or another_training(rows, chosen.last_planned):
            line = rows[began].line
            file_problems = [
                *file_problems,
                self._second_training(line, "after the last planned step"),
            ]
            rows = rows.last_training(began)
        traits = {trait.name: getattr(chosen, trait.name) for trait in fields(Traits)}
        facts = chosen.facts  # the same object: the run's next file may state more
        if chosen.program is not None and chosen.program in (stated := self.stated()):
            facts = replace(facts)
            facts.fill(stated[chosen.program])
        return Log(
            name,
            chosen.name,
            rows,
            facts,
            _followed(file_problems, rows),
            began=self._began,
            dated_s=chosen.stamps.step_times(rows, self._pauses),
            **traits,
        )

    def stated(self) -> dict[str, Facts]:
        """Framework -> facts that its dialect has read."""
        return {dialect.name: dialect.facts for dialect in self._dialects}


@functools.cache
def _search(
    classes: tuple[type[Dialect], ...], steps: tuple[int, ...], facts: tuple[int, ...]
) -> Grams:
    """The search for step lines and facts of these dialects, and for problems. Owner: 2
    x dialect, + 1 for a fact.
    """
    unknown = len(facts) == len(classes)
    losses = problems.LOSSES if unknown else ()
    words = (*problems.NEEDLES, *losses, tracebacks.HEADER.encode(), tracebacks.FRAME.encode())
    wanted = [(each, _PROBLEM) for each in (*words, COUNT_OF_SKIPPED)]
    wanted += [(each, _CONFIGURATION) for each in configuration.NEEDLES if unknown]
    wanted += [(profiled.NEEDLE, _PROFILE), (launched.NEEDLE, _LAUNCH)]
    wanted += [(each, _PAUSE) for each in stamps.PAUSES]
    wanted += [(needle, 2 * number) for number in steps for needle in classes[number].step_needles]
    wanted += [
        (needle, 2 * number + 1) for number in facts for needle in classes[number].fact_needles
    ]
    return Grams(wanted)


def _followed(found: Sequence[Problem], rows: Rows) -> tuple[Problem, ...]:
    """The problems of one file, each with what its rows show after it."""
    segments, lines = rows.columns("segment", "line")
    firsts = lines[np.unique(segments, return_index=True)[1]]
    restarted, ends = firsts[1:].max(initial=0), lines.max(initial=0)
    followed = []
    for problem in found:
        line = problem.line or 0
        then = "restart" if 0 < line < restarted else "steps" if 0 < line < ends else problem.then
        followed.append(problem._replace(then=then))
    return tuple(problems.handled_again(followed))


def _merged(name: str, logs: Sequence[Log]) -> Log:
    """One log. A step that several files have is one row: the later file's, filled up
    from the earlier ones'.
    """
    last = max(log.steps.last_step or 0 for log in logs)
    problems = tuple(
        problem._replace(then="restart")
        if len(log.steps) and (log.steps.last_step or 0) < last
        else problem
        for log in logs
        for problem in log.problems
    )
    seen = [log for log in logs if len(log.steps) or log.results or log.served]
    if not seen:
        return replace(logs[0], file=name, facts=logs[-1].facts, problems=problems)
    longest = max(seen, key=lambda log: len(log.steps))
    same = [log for log in seen if log.framework == longest.framework]
    results = {name: result for log in same for name, result in log.results.items()}
    served, ended = [each for log in same for each in log.served], any(log.ended for log in same)
    facts = Facts()
    for log in reversed(same):
        facts.fill(log.facts)
    rows = (
        functools.reduce(_filled, (log.steps for log in same))
        if len(longest.steps)
        else longest.steps
    )
    merged = {"problems": problems, "results": results, "served": served, "ended": ended}
    return replace(longest, file=name, steps=rows, facts=facts, **merged)  # type: ignore[arg-type]


def _filled(earlier: Rows, later: Rows) -> Rows:
    """The rows of two files in the order of segment and step; one that both have is the
    later's, filled up.
    """
    both = {name: np.concatenate([earlier.column(name), later.column(name)]) for name in TYPES}
    order = np.lexsort((both["step"], both["segment"]))
    doubled = (np.diff(both["step"][order]) == 0) & (np.diff(both["segment"][order]) == 0)
    for name, column in both.items():
        missing = np.flatnonzero(doubled & (column[order][1:] == later.none[name]))
        column[order[missing + 1]] = column[order[missing]]
    chosen = order[np.append(~doubled, True)]
    segments = max(earlier.segments, later.segments)
    return Rows.of({name: column[chosen] for name, column in both.items()}, segments)
