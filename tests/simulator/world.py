"""A Slurm with a virtual clock: jobs with their fates, the queue, accounting, and the files that jobs write.

Nothing runs by itself: `World.advance` moves the clock and lets happen what is due. Every choice comes from one seed.
"""

import heapq
import itertools
import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fates import CANCELLED, KINDS, STATE_LOST, STEPS, Fate, Kind, draw

from benchrun.rundir.artifacts import PROBE

BEGIN = 1_800_000_000.0
"""The clock's start, in seconds since the epoch."""
STEP = (
    " iteration {n:8d}/{all:8d} | consumed samples: {n} | elapsed time per iteration (ms): 100.0 |"
    " global batch size:     8 | lm loss: 2.{n}E+00 |\n"
)

ENDS_OF_LIVES = {kind.state: kind.endings for kind in (KINDS["node"], KINDS["preempted"])}
"""Slurm's states after which a job may run again, with the endings of a job that does not."""


@dataclass
class Job:
    """One job of the controller."""

    id: int
    name: str
    work_dir: str
    """Where it was submitted; Slurm never learns that the folder was moved."""
    folder: Path | None
    """Where that folder is now; None for a job of somebody else."""
    uid: int
    fate: Fate
    state: str = "PENDING"
    nodes: str = ""
    code: int = 0
    signal: int = 0
    by: int | None = None
    restarts: int = 0
    life: int = 0
    """Changes with each event that makes the planned ones void."""
    forgotten: bool = False
    """The queue lists it no more."""
    started_at: float | None = None
    """When its present life got nodes; None while it waits for them."""
    ended_at: float | None = None
    truth: frozenset[str] = frozenset()
    """The endings that are true, once it has ended."""
    hidden: frozenset[str] = frozenset()
    """Other endings that may be recorded, because what Slurm and the files show is no more."""
    rows: list[tuple[float, dict[str, str]]] = field(default_factory=list)
    """What accounting knows, and since when."""


@dataclass
class Site:
    """How the simulated cluster is set up."""

    accounting: bool
    accounting_late_s: float
    remembered_s: float
    """MinJobAge: how long the queue lists a job after its end."""
    most_jobs: int | None
    """Jobs that the account may have in the queue."""
    hanging_epilog: bool


class World:
    """The cluster and its clock."""

    def __init__(self, rng: random.Random, site: Site) -> None:
        self.rng, self.site, self.now = rng, site, BEGIN
        self.jobs: list[Job] = []
        self.others_until = 0.0
        """Until then other jobs of the account take all that it may have."""
        self.happened = False
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._count = itertools.count()
        self._next_id = 100
        self._bad_nodes: set[str] = set()

    # -- the clock

    def at(self, when: float, what: Callable[[], object]) -> None:
        """Let ``what`` happen at a time."""
        heapq.heappush(self._due, (when, next(self._count), what))

    @property
    def quiet_s(self) -> float:
        """Seconds until something happens."""
        return self._due[0][0] - self.now if self._due else 86400.0

    def advance(self, seconds: float) -> None:
        """Let the time pass."""
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            when, _, what = heapq.heappop(self._due)
            self.now, self.happened = max(self.now, when), True
            what()
        self.now = max(self.now, until)

    # -- jobs

    def submit(self, name: str, work_dir: str, uid: int, folder: Path | None) -> Job:
        """Accept a job."""
        fate = draw(self.rng, self.site.hanging_epilog)
        job = Job(self._next_id, name, work_dir, folder, uid, fate)
        self._next_id += 1
        self.jobs.append(job)
        self._log(job)
        self._later(job, fate.wait_s, self._begin)
        return job

    def queued(self) -> list[Job]:
        """The jobs that the queue lists."""
        return [job for job in self.jobs if not job.forgotten]

    def going(self) -> list[Job]:
        """Our jobs that have not ended."""
        return [job for job in self.jobs if job.folder and job.ended_at is None]

    def cancel(self, job: Job, uid: int) -> None:
        """End a job because a person asked for it."""
        if job.ended_at is None:
            job.by = uid
            self._end(job, CANCELLED if job.nodes else replace_kind(CANCELLED, done=None, words=""))

    def lose_state(self) -> None:
        """The controller begins anew: no job is in the queue, ids begin again, accounting closes what was open.

        What the controller had not told accounting yet is lost with its state.
        """
        for job in self.queued():
            told = self._told(job)
            hidden = _last_life(job, told)
            job.forgotten, job.rows = True, [*told]
            if job.ended_at is None:
                job.hidden |= hidden
                self._end(job, STATE_LOST if _runs(job) else replace_kind(STATE_LOST, done=None))
            else:
                self._log(job, STATE_LOST)
                job.hidden |= STATE_LOST.endings if _is_open(told) else set()
            if not _is_open(told):
                job.rows = told
        self._next_id = 100 + self.rng.randrange(3)

    def node_states(self) -> Mapping[str, str]:
        """The state of each node that is not idle."""
        return dict.fromkeys(self._bad_nodes, "drained")

    def known(self, job: Job) -> list[dict[str, str]]:
        """The rows of accounting about a job that are visible now: the last one of each of its lives."""
        return [*{row["Restarts"]: row for _, row in self._told(job)}.values()]

    def _told(self, job: Job) -> list[tuple[float, dict[str, str]]]:
        return [row for row in job.rows if row[0] + self.site.accounting_late_s <= self.now]

    # -- a life

    def _later(self, job: Job, seconds: float, what: Callable[[Job], None]) -> None:
        life = job.life
        self.at(self.now + seconds, lambda: what(job) if job.life == life else None)

    def _begin(self, job: Job) -> None:
        job.nodes, job.started_at = f"n{self.rng.randrange(1, 9)}", self.now
        if job.fate.kind is KINDS["prolog"]:
            job.by = 0
            self._bad_nodes.add(job.nodes)
            if job.folder:
                self._append(job, "stderr.log", "Error running slurm prolog: 1\n")
            self._end(job, job.fate.kind)
            return
        job.state = "RUNNING"
        self._log(job)
        if job.folder:
            (job.folder / "done.json").unlink(missing_ok=True)
            self._append(job, "stdout.log", _steps(0, 2))
            if not (job.fate.files_late_s or job.restarts):
                self._describe(job)
        half_s = job.fate.run_s / 2
        if job.fate.suspended_s and not job.restarts:
            self._later(job, half_s, self._suspend)
        else:
            self._later(job, half_s, self._half)

    def _suspend(self, job: Job) -> None:
        job.state = "SUSPENDED"
        self._log(job)
        self._later(job, job.fate.suspended_s, self._half)

    def _half(self, job: Job) -> None:
        job.state = "RUNNING"
        self._log(job)
        if job.folder:
            self._append(job, "stdout.log", _steps(2, 4))
        self._later(job, job.fate.run_s / 2, self._finish)

    def _finish(self, job: Job) -> None:
        if not (job.fate.again and not job.restarts):
            self._end(job, KINDS["well"] if job.restarts else job.fate.kind)
            return
        self._log(job, job.fate.kind)
        self._write_end(job, job.fate.kind)
        job.state = "COMPLETING"
        job.life += 1
        self._later(job, 5.0, self._requeue)

    def _requeue(self, job: Job) -> None:
        job.restarts += 1
        job.state, job.nodes, job.started_at = "PENDING", "", None
        self._log(job)
        self._later(job, job.fate.wait_s, self._begin)

    def _end(self, job: Job, kind: Kind) -> None:
        """The script has ended; the epilog begins, if it ever ran on a node."""
        if kind is CANCELLED and job.by is None:
            job.by = 0
        job.life += 1
        job.ended_at, job.code, job.signal = self.now, kind.code, kind.signal
        job.truth = frozenset({"requeued"}) if job.restarts and kind is KINDS["well"] else kind.endings
        self._log(job, kind)
        self._write_end(job, kind)
        job.state = "COMPLETING"
        if kind.state == "NODE_FAIL":
            self._bad_nodes.add(job.nodes)
        self._later(job, job.fate.completing_s if job.nodes else 0.0, lambda job: self._ended(job, kind))

    def _ended(self, job: Job, kind: Kind) -> None:
        job.state = kind.state
        self._later(job, self.site.remembered_s, self._forget)

    def _forget(self, job: Job) -> None:
        job.forgotten = True

    def _log(self, job: Job, kind: Kind | None = None) -> None:
        """Tell accounting; ``kind``: how this life of the job ended."""
        state = kind.state if kind else job.state
        by = f" by {job.by}" if kind and job.by is not None else ""
        row = {
            "JobID": str(job.id),
            "JobName": job.name,
            "State": state + by,
            "ExitCode": f"{kind.code}:{kind.signal}" if kind else "0:0",
            "NodeList": job.nodes or "None assigned",
            "Reason": "None",
            "Start": stamp(job.started_at),
            "End": stamp(self.now) if kind else "Unknown",
            "UID": str(job.uid),
            "Restarts": str(job.restarts),
            "WorkDir": job.work_dir,
        }
        job.rows.append((self.now, row))

    # -- files

    def _write_end(self, job: Job, kind: Kind) -> None:
        """The last lines and done.json, which other hosts may see late."""
        if not (job.folder and job.nodes and kind is not KINDS["prolog"]):
            return
        whole = kind.done == (0, None) and kind is not KINDS["short"]
        restarts, ended = job.restarts, self.now

        def seen() -> None:
            if job.fate.files_late_s:
                self._describe(job)
            if whole:
                self._append(job, "stdout.log", _steps(4, STEPS))
            if kind.words:
                self._append(job, "stderr.log", f"{kind.words}\n")
            if kind.done:
                code, signal = kind.done
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ended))
                times = {"started": stamp, "ended": stamp, "job_id": str(job.id), "host": "n1"}
                document = {"exit_code": code, "signal": signal, "restarts": restarts, **times}
                self._append(job, "done.json", json.dumps(document))

        if job.fate.files_late_s and not (job.fate.again and not restarts):
            self.at(self.now + job.fate.files_late_s, seen)
        else:
            seen()

    def _describe(self, job: Job) -> None:
        """The description of the job's node, which its script writes."""
        if job.folder and job.folder.exists():
            (job.folder / PROBE).mkdir(exist_ok=True)
            (job.folder / PROBE / f"{job.nodes}.json").write_text("{}", encoding="utf-8")

    def _append(self, job: Job, name: str, text: str) -> None:
        assert job.folder
        if job.folder.exists():
            with (job.folder / name).open("a", encoding="utf-8") as file:
                file.write(text)
            os.utime(job.folder / name, (self.now, self.now))


def stamp(seconds: float | None) -> str:
    """A time as Slurm prints it."""
    if seconds is None:
        return "Unknown"
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def replace_kind(kind: Kind, **changes: object) -> Kind:
    """A kind with other fields."""
    return kind._replace(**changes)  # type: ignore[arg-type]


def _runs(job: Job) -> bool:
    """Whether a script of the job runs: it has nodes, and is not between two lives."""
    return bool(job.nodes) and job.state != "COMPLETING"


def _last_life(job: Job, told: Sequence[tuple[float, dict[str, str]]]) -> frozenset[str]:
    """The endings that can be seen of a job that runs again, or was to, where no trace of its next life is left."""
    states = [row["State"] for _, row in job.rows if row["State"] in ENDS_OF_LIVES]
    if not states or (_runs(job) and (not told or _is_open(told))):
        return frozenset()
    return ENDS_OF_LIVES[states[-1]] | {"requeued"} if _runs(job) else ENDS_OF_LIVES[states[-1]]


def _is_open(rows: Sequence[tuple[float, dict[str, str]]]) -> bool:
    """Whether a job has not ended by what accounting knows of it; False where it knows nothing."""
    return bool(rows) and rows[-1][1]["End"] == "Unknown"


def _steps(first: int, last: int) -> str:
    return "".join(STEP.format(n=n + 1, all=STEPS) for n in range(first, last))
