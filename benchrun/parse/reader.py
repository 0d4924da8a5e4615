"""Logs -> one Log: find the lines that matter, hand them to the dialects, keep the one whose log it is."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from benchrun.errors import UserError
from benchrun.parse import problems
from benchrun.parse.bulk import Bulk
from benchrun.parse.checks import step_problems
from benchrun.parse.deepspeed import DeepSpeed
from benchrun.parse.dialect import Dialect
from benchrun.parse.grams import Grams
from benchrun.parse.grouping import Part, grouped
from benchrun.parse.huggingface import HuggingFace
from benchrun.parse.inputs import STDIN, Truncated, chunks, logs_in, unpacked_name
from benchrun.parse.lines import Blocks, Hit, Line, lines_around, newlines
from benchrun.parse.maxtext import MaxText
from benchrun.parse.megatron import Megatron
from benchrun.parse.megatron_bridge import MegatronBridge
from benchrun.parse.merge import UNKNOWN, followed, merged
from benchrun.parse.nanotron import Nanotron
from benchrun.parse.nemo1 import Nemo1
from benchrun.parse.nemo2 import Nemo2
from benchrun.parse.paxml import Paxml
from benchrun.parse.records import Facts, Log, Problem, Rows
from benchrun.parse.torchtitan import Torchtitan
from benchrun.parse.worker import Worker

# The first whose log it is wins: those that print another's lines beside their own stand before it.
_CLASSES: tuple[type[Dialect], ...] = (
    *(Worker, MegatronBridge, Megatron, Nemo2, Nemo1, Torchtitan, MaxText, Nanotron, Paxml, HuggingFace, DeepSpeed),
)
DIALECTS: dict[str, type[Dialect]] = {dialect.name: dialect for dialect in _CLASSES}
"""Framework -> what reads its lines."""
NAMED = 4
DENSE = 1 << 12
"""Bytes from one step line to the next, up to which it is worth the while to read the next block as a whole."""
_DATE = re.compile(r"\b(20\d\d-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)\b")
_PROBLEM = -1
"""Owner of the words of problems."""


def parse_log(*paths: Path, framework: str | None = None) -> Log:
    """Read one run's log: a file, ``-`` for stdin, a directory, or several (of ranks, nodes, stdout and stderr).

    UserError for what cannot be read and for a framework without a dialect.
    """
    return _read([found.file for found in logs_in(paths)], framework).log(_name(paths))


def parse_logs(*paths: Path, framework: str | None = None) -> tuple[list[Log], list[Path]]:
    """Read the logs of any number of runs: one Log a run, and the files of directories that are left out.

    The logs of a run directory are one run; ``grouping`` says which others are.
    """
    found = logs_in(paths)
    if len(found) == 1 or {each.run for each in found} == {paths[0]}:
        return [parse_log(*paths, framework=framework)], []
    runs: dict[Path, list[Path]] = {}
    parts = []
    for each in found:
        if each.run is not None:
            runs.setdefault(each.run, []).append(each.file)
        else:
            reader = _read([each.file], framework)
            parts.append(Part(each, reader.log(_name([each.file])), reader.stated()))
    if not runs and not any(len(part.log.steps) for part in parts):
        return [_log_of(parts, _name(paths), framework)], []
    groups, left_out = grouped(parts)
    alone = len(groups) + len(runs) == 1
    logs = [_log_of(group, _name(paths) if alone else None, framework) for group in groups]
    logs += [_read(files, framework).log(_name(paths) if alone else str(run)) for run, files in runs.items()]
    return logs, [part.source.file for part in left_out]


def _log_of(parts: list[Part], name: str | None, framework: str | None) -> Log:
    """One run's log. Files of one run are read again, together: what one of them states holds for the steps of all."""
    files = [part.source.file for part in parts]
    name = name or _name(files)
    if len(parts) == 1:
        return replace(parts[0].log, file=name)
    if not all(file.is_file() for file in files):
        raise UserError("a pipe can be read once only", where=name, hint="write it to a file first")
    return _read(files, framework).log(name)


def _name(paths: Sequence[Path]) -> str:
    """What a run is called: its paths, of many the first."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join("stdin" if path == STDIN else str(path) for path in paths[:NAMED]) + more


def _read(files: Sequence[Path], framework: str | None) -> Reader:
    """A reader that has read the files of one run."""
    reader = Reader(framework)
    for file in files:
        reader.begin(unpacked_name(file) if len(files) > 1 else None)
        try:
            for chunk in chunks(file):
                reader.feed(chunk)
        except Truncated as error:
            reader.note("truncated_file", error.message)
        reader.end()
    return reader


class Reader:
    """Takes bytes as they come, and gives the Log so far at any time."""

    def __init__(self, framework: str | None = None) -> None:
        if framework is not None and framework not in DIALECTS:
            raise UserError(f"no dialect for framework '{framework}'", hint=f"legal: {', '.join(sorted(DIALECTS))}")
        self._forced = framework
        self._dialects = [dialect() for dialect in _CLASSES]
        self._problems: list[Problem] = []
        self._counts: Counter[str] = Counter()
        self._ignored: set[int | None] = set()
        """Ranks whose next traceback ends nothing."""
        self._skip_messages = 0
        self._finished: list[Log] = []
        self._source: str | None = None
        self._start()

    def begin(self, source: str | None) -> None:
        """What follows is another file of the run, called ``source``."""
        self._dialects = [dialect.continued() for dialect in self._dialects]
        self._source = source
        self._start()

    def _start(self) -> None:
        self._blocks = Blocks()
        self._number = 1
        self._winner: int | None = None
        """Whose log it is, once that is known: an index of the dialects."""
        self._began: float | None = None
        self._dense = False
        self._bulk: tuple[int, Bulk] | None = None
        numbers = range(len(_CLASSES))
        self._numbers = tuple(n for n in numbers if self._forced in (None, _CLASSES[n].name))
        self._wanted = _search(self._numbers, facts=True)

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the file."""
        block = self._blocks.feed(chunk)
        if block:
            self._read(block, terminated=True)
            self._number += newlines(block)

    def note(self, kind: str, detail: str) -> None:
        """A problem with the file, not in it."""
        self._problems.append(Problem(kind, None, detail, source=self._source))

    def end(self) -> None:
        """The file is over: what is left of it is its last line, whole or cut."""
        if self._blocks.rest:
            self._read(self._blocks.rest, terminated=False)
        self._finished.append(self._file_log(""))
        self._problems = []

    def _read(self, block: bytes, *, terminated: bool) -> None:
        steps, hits = self._read_at_once(block) if self._dense and terminated else (0, [])
        if not steps:
            hits = self._wanted.find(block)
            steps = sum(hit.owner != _PROBLEM for hit in hits)
        self._dense = steps * DENSE > len(block)
        for line, owners in lines_around(block, hits, self._number, terminated=terminated):
            for owner in sorted(owners - {_PROBLEM}):
                self._read_as(owner, line)
            if _PROBLEM in owners:
                self._problem(line)
        if self._winner is not None:
            self._wanted = _search((self._winner,), facts=False)

    def _read_at_once(self, block: bytes) -> tuple[int, list[Hit]]:
        """How many steps were taken, and where problems stand; 0 where the block must be read line by line."""
        weak = [number for number in self._numbers if not _CLASSES[number].strong and self._dialects[number].seen]
        owner = self._winner if self._winner is not None or not weak else weak[0]
        if owner is None or not _CLASSES[owner].one_line:
            return 0, []
        if self._winner is None:
            # It is not its log as soon as anybody else finds something.
            hits = _search(self._numbers, facts=True, without=owner).find(block)
            if any(hit.owner != _PROBLEM for hit in hits):
                return 0, []
        else:
            hits = _search((), facts=False).find(block)
        if self._bulk is None or self._bulk[0] != owner:
            self._bulk = owner, Bulk(self._dialects[owner], functools.partial(self._read_lines, owner))
        return self._bulk[1].read(block, self._number), hits

    def _read_lines(self, owner: int, block: bytes, number: int) -> None:
        hits = [hit for hit in _search((owner,), facts=False).find(block) if hit.owner != _PROBLEM]
        for line, _ in lines_around(block, hits, number, terminated=True):
            self._dialects[owner].read(line)

    def _read_as(self, owner: int, line: Line) -> None:
        """Hand a line to the dialect that has a needle in it; a fact only before the first step."""
        number, is_fact = divmod(owner, 2)
        dialect = self._dialects[number]
        if self._winner is None:
            dialect.read(line)
            # Once the log has shown whose it is, nobody else's lines count. This is settled line by line, so that it
            # does not depend on how the bytes come.
            if dialect.strong and dialect.seen:
                self._winner = number
                self._began = _date(line.text)
        elif self._winner == number and not is_fact:
            dialect.read(line)

    def _problem(self, line: Line) -> None:
        if problems.IGNORED in line.text:
            self._ignored.add(problems.rank_of(line.text))
        problem = problems.recognise(line.text, line.number)
        if problem is None:
            return
        self._counts[problem.kind] += 1
        if problem.kind == "skipped_steps" and not problem.rank:
            self._skip_messages += 1  # of rank 0, or where only one rank speaks
        if problem.kind == "rank_crash" and problem.rank in self._ignored:
            self._ignored.remove(problem.rank)
            problem = problem._replace(then="steps")
        if self._counts[problem.kind] <= problems.MOST:
            self._problems.append(problem._replace(source=self._source))

    @property
    def rows(self) -> Rows:
        """The steps read so far of this file."""
        return self._file_log("").steps

    def log(self, name: str) -> Log:
        """What was read so far, of all files."""
        log = merged(name, self._finished or [self._file_log(name)])
        dialect = DIALECTS.get(log.framework)
        may_skip = dialect is not None and dialect.may_skip
        found = (*log.problems, *step_problems(log, may_skip=may_skip))
        return replace(log, problems=found, skip_messages=self._skip_messages)

    def _file_log(self, name: str) -> Log:
        winner = [] if self._winner is None else [self._dialects[self._winner]]
        seen = [dialect for dialect in (*winner, *self._dialects) if dialect.seen]
        if not seen:
            return Log(name, self._forced or UNKNOWN, problems=tuple(self._problems))
        chosen = seen[0]
        rows = chosen.finish()
        return Log(
            name,
            chosen.name,
            rows,
            chosen.facts,
            tuple(followed(self._problems, rows)),
            first_number=chosen.first_number,
            only_average=chosen.only_average,
            reached=chosen.reached,
            whole_seconds=chosen.whole_seconds,
            one_rank_prints=chosen.one_rank_prints,
            began=self._began,
        )

    def stated(self) -> dict[str, Facts]:
        """Framework -> the facts that its dialect has read."""
        return {dialect.name: dialect.facts for dialect in self._dialects}


def _date(text: str) -> float | None:
    """The first date on a line, in s since 1970 if it is in UTC."""
    match = _DATE.search(text)
    try:
        return datetime.fromisoformat(f"{match[1]} {match[2]}+00:00").timestamp() if match else None
    except ValueError:
        return None


@functools.cache
def _search(dialects: tuple[int, ...], *, facts: bool, without: int | None = None) -> Grams:
    """The search for what these of _CLASSES, and problems, have to say. A hit's owner: 2 x dialect, + 1 for a fact.

    ``without``: whose steps are not looked for.
    """
    wanted: list[tuple[bytes, int]] = [(words, _PROBLEM) for words in problems.NEEDLES]
    for number in dialects:
        if number != without:
            wanted += [(needle, 2 * number) for needle in _CLASSES[number].step_needles]
        if facts:
            wanted += [(needle, 2 * number + 1) for needle in _CLASSES[number].fact_needles]
    return Grams(wanted)
