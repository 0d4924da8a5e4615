"""One history: a seed draws a site, its troubles and what people do; the real launcher runs; what must hold is checked.

`python tests/simulator/run.py --seed N` replays one, and prints what happened.
"""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from commands import Commands, Trouble
from fates import STEPS
from shells import Killed, Shells, Stuck, replaced
from world import BEGIN, Job, Site, World

from benchrun import api
from benchrun.capabilities.studies.resolved import ResolvedStudy
from benchrun.capabilities.studies.state import StudyDir
from benchrun.errors import MachineError
from benchrun.jobs.endings import recorded
from benchrun.recipes.select import Request
from benchrun.rundir.artifacts import ENDING
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir

MEMORY = Path("/dev/shm")
HOUR_S = 3600.0
NOBODY = 65533
"""The user id of the other person."""


@dataclass
class Course:
    """What a history did."""

    findings: list[str] = field(default_factory=list)
    """What must not be."""
    story: list[str] = field(default_factory=list)
    """What happened, a line each."""
    outcome: list[tuple[Any, ...]] = field(default_factory=list)
    """What another number of looks must not change."""


@cache
def plans() -> tuple[ResolvedStudy, ...]:
    """The studies that are run: one point once, two points twice, three points."""
    with tempfile.TemporaryDirectory() as folder:
        return tuple(_study(Path(folder), points, repeats) for points, repeats in ((1, 1), (2, 2), (3, 1)))


def _study(folder: Path, points: int, repeats: int) -> ResolvedStudy:
    run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1, "set": {"training.steps": STEPS}}
    file = folder / f"of{points}.yaml"
    matrix = {"mbs": [1, 2, 4][:points]}
    document = {"description": "simulated", "runs": [run], "matrix": matrix, "repeats": repeats}
    file.write_text(json.dumps(document), encoding="utf-8")
    return api.plan_study(Request(str(file), cluster="slurm-cpu"))


class History:
    """One history. ``looks``: how often other shells ask for the status; None: as the seed has it.

    ``calm``: jobs have their fates, but all commands are answered, nobody interferes, and runs come one by one.
    """

    def __init__(self, seed: int, looks: int | None = None, *, calm: bool = False) -> None:
        self.rng = random.Random(seed)
        self.course = Course()
        self.uid = os.geteuid()
        site = Site(
            accounting=calm or self.rng.random() < 0.7,
            accounting_late_s=self.rng.choice([0.0, 0.0, 5.0, 50.0]),
            remembered_s=self.rng.choice([2.0, 300.0, 300.0]),
            most_jobs=None if calm else self.rng.choice([None, None, 1, 2]),
            hanging_epilog=self.rng.random() < 0.15,
        )
        self.calm = calm
        often = 0.0 if calm else self.rng.choice([0.0, 0.0, 0.02, 0.1])
        trouble = Trouble(often, often / 2, often * 2, often / 2, often * 2)
        self.world = World(random.Random(seed + 1), site)
        self.commands = Commands(self.world, trouble, random.Random(seed + 2), self.uid)
        self.shells = Shells(self.world, self.commands)
        drawn = self.rng.choice([0, 1, 3, 8])
        self.looks = drawn if looks is None else looks
        self.folder = Path()
        self.asked: set[str] = set()
        """Names of the runs that somebody asked to cancel."""

    def run(self) -> Course:
        """Let it happen."""
        self.folder = Path(tempfile.mkdtemp(prefix="history", dir=MEMORY if MEMORY.is_dir() else None))
        try:
            with replaced(self.shells, self.folder, random.Random(self.rng.random())):
                self._plan_looks()
                if not self.calm:
                    self._plan_troubles()
                    self._plan_people()
                try:
                    self._front()
                    self._wait_for_all()
                except Stuck as error:
                    self.course.findings.append(f"stuck: {error}")
                self._check()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.course

    # -- what happens around the launcher

    def _say(self, line: str) -> None:
        self.course.story.append(f"{self.world.now - BEGIN:9.0f} {line}")

    def _moment(self) -> float:
        return BEGIN + self.rng.choice([10.0, 100.0, 1000.0, 20000.0]) * self.rng.random()

    def _plan_troubles(self) -> None:
        rng, world = self.rng, self.world
        if rng.random() < 0.1:
            start, length = self._moment(), rng.choice([30.0, 600.0, 5000.0])
            world.at(start, lambda: setattr(self.commands, "down_until", start + length))
        if rng.random() < 0.1:
            world.at(self._moment(), self._lose_state)
        if world.site.most_jobs and rng.random() < 0.3:
            world.others_until = BEGIN + rng.choice([50.0, 2000.0])
        if rng.random() < 0.3:
            world.at(self._moment(), self._submit_as_another)

    def _lose_state(self) -> None:
        self._say("slurmctld loses its state")
        self.world.lose_state()

    def _submit_as_another(self) -> None:
        """A job of somebody else with the name of one of our runs."""
        runs = self._runs()
        if runs:
            name = self.rng.choice(runs).run_id
            self.world.submit(name, f"/home/other/results/runs/{name}", NOBODY, None)

    def _plan_looks(self) -> None:
        looking = random.Random(self.rng.random())
        for _ in range(self.looks):
            self.world.at(BEGIN + looking.choice([20.0, 500.0, 5000.0, 50000.0]) * looking.random(), self._look)
        if self.looks and looking.random() < 0.3:
            self.shells.other_writes = lambda: self._look() if looking.random() < 0.2 else None

    def _plan_people(self) -> None:
        rng = self.rng
        if rng.random() < 0.2:
            self.world.at(self._moment(), self._cancel)
        if rng.random() < 0.3:
            self.world.at(self._moment(), lambda: setattr(self.shells, "kill", True))

    def _runs(self) -> list[RunDir]:
        return find_runs()

    def _look(self) -> list[dict[str, Any]]:
        """``benchrun status`` in another shell."""
        with self.shells.aside():
            rows = [api.status_of(each) for each in api.observe(self._runs())]
        for job in self.world.going():
            if job.folder and (job.folder / ENDING).exists():
                self._find("an ending of a job that runs", job.name)
        return rows

    def _cancel(self) -> None:
        """``benchrun cancel`` in another shell."""
        with self.shells.aside():
            for run in self._runs()[:1]:
                self._say(f"cancel {run.run_id}")
                self.asked.add(run.run_id)
                try:
                    api.cancel(run)
                except MachineError as error:
                    self._say(f"  {error.message}")

    # -- the launcher in front

    def _front(self) -> None:
        planned = self.rng.choice(plans())
        concurrency, retries = 1 if self.calm else self.rng.choice([1, 2, 4]), self.rng.choice([0, 0, 1, 2])
        kinds: list[Callable[[], None]] = [
            lambda: self._study(planned, concurrency, retries),
            lambda: self._launch(planned),
        ]
        self.rng.choice(kinds)()

    def _again(self, what: Callable[[], None]) -> None:
        """A person calls the same command until it ends by itself."""
        for _ in range(30):
            try:
                what()
                return
            except Killed:
                self._say("the launcher is killed")
            except MachineError as error:
                self._say(f"the launcher ends: {error.message}")
                if "Limit" in error.message:
                    self.course.findings.append(f"a limit ends the launcher: {error.message[:60]}")
            self.shells.kill = False
            self.world.advance(self.rng.choice([1.0, 100.0, 5000.0]))

    def _study(self, planned: ResolvedStudy, concurrency: int, retries: int) -> None:
        self._say(f"study of {len(planned.slots)} runs, {concurrency} at a time, {retries} retries")
        self._again(lambda: api.run_study(planned, concurrency, retries, tell=self._say))
        self._check_study(planned, retries)
        last = max(job.ended_at or 0.0 for job in self.world.jobs)
        if self.calm and self.world.now > last + HOUR_S:
            self._find("it waits long after the end", f"{self.world.now - last:.0f} s")

    def _launch(self, planned: ResolvedStudy) -> None:
        specs = [each.spec for each in planned.legal if each.spec]
        self._say(f"launch {len(specs)} runs")
        runs: list[RunDir] = []
        try:
            api.launch_all(specs, runs.append, self._say)
            if self.rng.random() < 0.6:
                api.wait_for(runs)
            elif all(run.job_id for run in runs):
                self._move()
        except Killed:
            self._say("the launcher is killed")
        except MachineError as error:
            self._say(f"the launcher ends: {error.message}")

    def _move(self) -> None:
        """The results folder is renamed while its jobs run."""
        self._say("the results folder is moved")
        moved = self.folder.with_name(f"{self.folder.name}.moved")
        self.folder.rename(moved)
        self.folder = moved
        os.environ["BENCHRUN_RESULTS"] = str(moved)
        for job in self.world.jobs:
            if job.folder:
                job.folder = moved / "runs" / job.name

    def _wait_for_all(self) -> None:
        """Somebody asks for the status until nothing goes on; the answers are good again."""
        for _ in range(60):
            if not self.world.going():
                break
            self.world.advance(5000.0)
        self._look()
        self.commands.trouble.error = self.commands.trouble.timeout = self.commands.trouble.accounting = 0.0
        for _ in range(2):
            self.world.advance(5000.0)
            self.commands.down_until = 0.0
            self._look()

    # -- what must hold

    def _find(self, what: str, where: str) -> None:
        self.course.findings.append(f"{what}: {where}")

    def _check(self) -> None:
        by_run: dict[str, list[Job]] = {}
        for job in self.world.jobs:
            if job.folder:
                by_run.setdefault(job.name, []).append(job)
        runs = {run.run_id: run for run in self._runs()}
        for name, jobs in by_run.items():
            self._check_run(runs[name], jobs[-1])
            if len(jobs) > 1:
                self._find("a run was submitted twice", name)
        for name in runs.keys() - by_run.keys():
            if (runs[name].path / ENDING).exists():
                self._find("an ending without a job", name)
        self.course.outcome = [self._outcome(runs[name], jobs[-1]) for name, jobs in by_run.items()]
        asked = {job.id for job in self.world.jobs if job.name in self.asked and job.folder}
        if extra := self.commands.stopped - asked:
            self._find("scancel of another's job", str(extra))

    @staticmethod
    def _outcome(run: RunDir, job: Job) -> tuple[Any, ...]:
        """What must not depend on who looked: the files, the ending, and the events but for the states seen."""
        end = recorded(run)
        # Two shells may note at the same moment which job is the run's.
        facts = {(event["event"], event.get("job")): None for event in run.events() if event["event"] != "state"}
        kinds = [event for event, _ in facts]
        files = sorted(file.name for file in run.path.iterdir())
        return (end and (end.ending, end.exit_code, end.last_step), kinds, files)

    def _check_run(self, run: RunDir, job: Job) -> None:
        end = recorded(run)
        ended = [event for event in run.events() if event["event"] == "ended"]
        if len(ended) != (end is not None):
            self._find("number of ended events", f"{len(ended)} of {run.run_id}")
        # After the controller lost its state, nothing knows a job whose id was never heard, without accounting.
        accounted = self.world.site.accounting and bool(job.rows)
        gone = job.forgotten and not accounted and not (run.path / "done.json").exists()
        if run.job_id != str(job.id) and not (gone and run.job_id is None):
            self._find("a job is lost", f"{job.id} of {run.run_id} is recorded as {run.job_id}")
        if job.ended_at is None:
            if end is not None:
                self._find("an ending of a job that runs", f"{end.ending.value} of {run.run_id}")
            return
        self._say(f"{run.run_id}: {'/'.join(sorted(job.truth))}, recorded {end.ending.value if end else None}")
        if end is not None and end.ending.value not in self._true(job):
            self._find(f"{end.ending.value} in place of {'/'.join(sorted(job.truth))}", str(list(end.evidence)))
        # Without accounting a hanging epilog is waited for.
        known = job.state != "COMPLETING" and run.last_event("cancel_asked")
        knows = accounted or known
        if end is None and knows:
            self._find("no ending", f"{job.truth} of {run.run_id}")

    def _true(self, job: Job) -> frozenset[str]:
        """The endings that may be recorded."""
        return job.truth | job.hidden

    def _jobs_of(self, run: RunDir) -> list[Job]:
        return [job for job in self.world.jobs if job.folder and job.name == run.run_id]

    def _check_study(self, planned: ResolvedStudy, retries: int) -> None:
        runs = planned.own(StudyDir(planned.expanded.name).runs())
        for slot in planned.slots:
            jobs = [job for run in runs.get(slot, ()) for job in self._jobs_of(run)]
            if not jobs:
                self._find("a point was never launched", str(slot))
            if any(job.ended_at is None for job in jobs):
                self._find("the study ends before its jobs", str(slot))
            if self.calm and len(jobs) > retries + 1:
                self._find("more tries than allowed", str(slot))
            well = [job for job in jobs if job.truth == {"completed"}]
            if len(well) > 1:
                self._find("launched again although it went well", str(slot))
