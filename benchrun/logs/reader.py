"""Bytes -> one Log: find the lines that matter, pass them to the dialects, and keep the
dialect that finds steps.

A file may hold two trainings: the output of a second job went to the same file. They
give no number together: the last one counts, and the problem ``second_training`` names
the line where it begins.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from benchrun.errors import UserError
from benchrun.runspec.launched import Launched

from . import configuration, launched, problems, profiled, tracebacks
from .dialect import DIALECTS, Dialect
from .envelope import Envelope
from .forms import Forms
from .kinds import kind_of
from .lines import LONGEST_LINE, Hit, Line, clean, date_of, lines_around, newlines
from .merging import followed, merged
from .needles import CONFIGURATION, LAUNCH, PAUSE, PROBLEM, PROFILE, search_for
from .records import Facts, Log, Problem, Traits
from .row_problems import step_problems
from .rows import Rows
from .serving import Served
from .skipped import Skipped
from .stamps import work_of
from .turns import another_training, backwards, falling, two_jobs

UNKNOWN = "unknown"
"""The framework of a log without a step."""
CERTAIN_FACTS = 3
"""Facts of one dialect that are no accident in a log without a step."""
NEARLY_ALL = 0.75
"""Share of the rows with an evaluation in their times that leaves no time of a step."""
DENSE = 1 << 12
"""Bytes per step line below which the next block is read at once."""
_COLOUR = re.compile(rb"\x1b\[[\d;]*[mK]")


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
        self._classes = tuple(DIALECTS.values())
        if framework is not None:
            self._classes = (DIALECTS[framework],)
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
        if self._finished:
            self._dialects = [dialect.continued() for dialect in self._dialects]
        self._source = source
        self._tracebacks = tracebacks.Tracebacks()
        self._envelope = Envelope()
        self._rest = b""
        """Bytes after the last line end: a line that is still being written, or was cut
        off.
        """
        self._number = 1
        self._pauses: dict[int, str] = {}
        self._winner: int | None = None
        """Index of the dialect that has found its own steps; no other dialect's lines
        count then.
        """
        self._began: float | None = None
        self._restarted: Dialect | None = None
        """Reads the facts that are printed again, after steps."""
        self._dense = False
        self._forms: Forms | None = None
        self._wanted = search_for(self._classes, self._all, self._all)

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

    def learn(self, block: bytes) -> None:
        """Take the line in which a log states how its steps are read: no other
        program's steps count then.
        """
        for dialect in self._classes:
            words = (dialect.announcement or "").encode()
            if not words or words not in block or dialect.head is not None:
                continue
            line = block[block.index(words) :].splitlines()[0]
            reader = dialect.reader_for(line.decode(errors="replace"))
            if reader is not None:
                self._classes = (reader,)
                self._all = (0,)
                self._dialects = [reader()]
                self._wanted = search_for(self._classes, self._all, self._all)
                return

    def _read(self, block: bytes, *, terminated: bool) -> None:
        block = self._envelope.unwrapped(block)
        self.learn(block)
        if b"\x1b[" in block:
            block = _COLOUR.sub(b"", block)  # grep colours the very words that are searched here
        # After facts that were printed again, the next step line shows whether another
        # training begins.
        at_once = self._dense and terminated and self._restarted is None
        steps, hits = 0, list[Hit]()
        if at_once:
            steps, hits = self._read_at_once(block)
        if not steps:
            hits = self._wanted.find(block)
            steps = len(_of_a_dialect(hits))
        self._dense = steps * DENSE > len(block)
        for line, owners in lines_around(
            block, hits, self._number, terminated=terminated, follow=lambda: self._tracebacks.open
        ):
            for owner in sorted(owners):
                if owner >= 0:
                    self._read_as(owner, line)
            self._note_words(owners, line)
            if PROBLEM in owners or self._tracebacks.open:
                self._problem(line.text, line.number)
        if self._winner is not None:
            self._wanted = search_for(self._classes, (self._winner,), (self._winner,))

    def _note_words(self, owners: set[int], line: Line) -> None:
        """Take what a line says that belongs to no dialect."""
        if PAUSE in owners:
            self._pauses[line.number] = work_of(line.text)
            for dialect in self._dialects:
                if dialect.seen:
                    dialect.stamps.take(line.number, line.text)
        if PROFILE in owners:
            self._measured = profiled.measured_steps(line.text) or self._measured
        if CONFIGURATION in owners:
            self._state(line)
        if LAUNCH in owners and (stated := Launched.read(line.text)):
            self._launched.append(stated)

    def _read_at_once(self, block: bytes) -> tuple[int, list[Hit]]:
        """The number of steps read, and where problems stand; 0 if the block must be
        read line by line.
        """
        owner = self._winner
        others: tuple[int, ...] = ()
        facts = self._all
        if owner is not None:
            facts = (owner,)
        else:
            owner = self._first_weak()
            if owner is None:
                return 0, []
            others = self._all[:owner] + self._all[owner + 1 :]
        hits = search_for(self._classes, others, facts).find(block)
        if _of_a_dialect(hits):
            return 0, []  # another dialect may find steps of its own, or another training begins
        text = clean(block)
        if b"\x1b" in block or b"\x00" in block:
            for needle in self._classes[owner].step_needles:
                if block.count(needle) != text.count(needle.decode()):
                    return 0, []  # line by line, needles are searched in raw bytes
        if self._forms is None or self._forms.dialect is not self._dialects[owner]:
            self._forms = Forms(self._dialects[owner])
        return self._forms.read(text, self._number), hits

    def _first_weak(self) -> int | None:
        """The first dialect with steps that other frameworks print as well."""
        for number, dialect in enumerate(self._dialects):
            if dialect.seen and not dialect.strong:
                return number
        return None

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
            if self._restarted is not None:
                stated = self._restarted.facts  # of another stream that came late, or a restart
                planned = stated.planned_steps or dialect.facts.planned_steps
                dialect.facts.planned_steps, dialect.ended = planned, False
                dialect.facts.fill(stated)
                dialect.rows.again = self._failed_since(dialect)
            self._restarted = None
            self._take(dialect, line, is_fact=False)
        elif self._restarted is not None:
            self._take(self._restarted, line, is_fact=False)
            if self._restarted.seen:
                self._dialects[number], self._restarted = self._restarted, None
                self._problems.append(self._second_training(line.number, how))

    def _failed_since(self, dialect: Dialect) -> bool:
        """Whether a process ended after the last step."""
        last = dialect.rows[len(dialect.rows) - 1].line if len(dialect.rows) else 0
        for problem in self._problems:
            at = problem.line if problem.source == self._source else None
            if (at or 0) > last and kind_of(problem.kind).made_up_by is not None:
                return True
        return False

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
        stated = self._restarted.facts
        if (stated.planned_steps or 0) > (dialect.facts.planned_steps or 0):
            stated = replace(stated, planned_steps=None)  # the training goes on for longer
        if dialect.contradicts(stated):
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
            same = []
            for index, each in enumerate(self._problems):
                if (each.kind, each.role) == group:
                    same.append(index)
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
        log = self._as_launched(merged(name, self._finished or [self._file_log(name)]))
        if self._measured is not None:
            log = profiled.without_profiled(log, self._measured)
        left = [each for each in log.problems if each.kind != problems.FINISHED]
        if {each.then for each in log.problems if each not in left} - {"restart"}:
            log = replace(log, ended=True)
        if any(each.kind == problems.ORDERED and not each.then for each in left):
            made = replace(log.facts, planned_steps=log.steps_made or None)
            log = replace(log, facts=made)
        causes = problems.without_consequences(problems.with_last_word(left, log))
        every = (*causes, *step_problems(log))
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
        ordered = [*self._dialects]
        if self._winner is not None:
            ordered.insert(0, self._dialects[self._winner])
        seen = [dialect for dialect in ordered if dialect.seen]
        if not seen:
            most = max(self._dialects, key=lambda dialect: len(dialect.facts.lines)).facts
            if len(most.lines) < CERTAIN_FACTS:
                most = Facts()
            return Log(name, self._forced or UNKNOWN, facts=most, problems=tuple(self._problems))
        chosen = seen[0]
        rows = chosen.finish()
        file_problems = [*self._problems]
        if two_jobs(rows):
            detail = "steps of two jobs are mixed: equal numbers have other losses or times"
            file_problems.append(Problem("two_jobs", None, detail, source=self._source))
        if self._newest_first(chosen, rows):
            detail = "the newest line stands first: turn the log round (tac FILE)"
            file_problems.append(Problem("newest_first", None, detail, source=self._source))
        if began := rows.began or another_training(rows, chosen.last_planned):
            how = "after the last planned step"
            file_problems.append(self._second_training(rows[began].line, how))
            rows = rows.last_training(began)
        traits = {trait.name: getattr(chosen, trait.name) for trait in fields(Traits)}
        held = dict.fromkeys(chosen.stamps.holding(rows), "an evaluation")
        traits["other_work"] = {**held, **chosen.other_work}
        if held and len(held) >= NEARLY_ALL * (len(rows) - 1):
            detail = f"by the dates of the lines the times of {len(held)} rows hold an evaluation"
            traits["contradictions"] = [*chosen.contradictions, detail]
        facts = chosen.facts  # the same object: the run's next file may state more
        if self._restarted is not None and self._other_training(chosen) is None:
            facts = replace(facts)
            facts.fill(self._restarted.facts)
        if chosen.program is not None and chosen.program in (stated := self.stated()):
            facts = replace(facts)
            facts.fill(stated[chosen.program])
        return Log(
            name,
            chosen.name,
            rows,
            facts,
            followed(file_problems, rows),
            began=self._began,
            dated_s=chosen.stamps.step_times(rows, self._pauses, chosen.step_unit),
            pauses=tuple(chosen.stamps.pauses(rows, self._pauses)),
            **traits,
        )

    def _newest_first(self, chosen: Dialect, rows: Rows) -> bool:
        """Whether the steps, the program's dates or those of a collector fall."""
        step, line = rows.columns("step", "line")
        dates = chosen.stamps.of_lines(line)
        collected = backwards(self._envelope.rises, self._envelope.falls)
        return collected or falling(step) or falling(dates[~np.isnan(dates)])

    def stated(self) -> dict[str, Facts]:
        """Framework -> facts that its dialect has read."""
        return {dialect.name: dialect.facts for dialect in self._dialects}


def _of_a_dialect(hits: Sequence[Hit]) -> list[Hit]:
    """The places of step lines and of what is stated, not of problems and pauses."""
    return [hit for hit in hits if hit.owner not in (PROBLEM, PAUSE)]
