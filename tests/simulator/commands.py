"""The commands of the simulated Slurm: what they print, and the answers that are late, wrong or lost."""

import random
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from world import Job, World, stamp

Answer = subprocess.CompletedProcess
SACCT_FIELDS = {"JobID", "JobName", "State", "ExitCode", "NodeList", "Reason", "Start", "End", "UID", "WorkDir"}
LIMIT = (
    "sbatch: error: {reason}\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy "
    "(job submit limit, user's size and/or time limits)\n"
)
REASONS = ("AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpSubmitJobsLimit")
DOWN = "{name}: error: Unable to contact slurm controller (connect failure)\n"
LOST = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"


@dataclass
class Trouble:
    """How often the answers go wrong; each is a probability of one call."""

    error: float
    timeout: float
    lost: float
    """sbatch and scancel: it is done, and the answer is lost."""
    refusal: float
    """sbatch: a wrong partition, which somebody mends later."""
    accounting: float
    """sacct alone fails."""


class Commands:
    """Runs what the launcher takes for Slurm's programs."""

    def __init__(self, world: World, trouble: Trouble, rng: random.Random, uid: int) -> None:
        self.world, self.trouble, self.rng, self.uid = world, trouble, rng, uid
        self.aside = random.Random(rng.random())
        """Draws the troubles of other shells, so that they change nothing for the launcher in front."""
        self.down_until = 0.0
        """Until then no command is answered."""
        self.stopped: set[int] = set()
        """Ids of the jobs that scancel was called for."""
        self.has_restarts = rng.random() < 0.7
        """Whether this release's sacct knows the field Restarts."""

    def run(self, command: Sequence[str], timeout_s: float) -> "Answer[str]":
        """What one command prints. TimeoutExpired where it hangs."""
        name = Path(command[0]).name
        answers: Mapping[str, Callable[[Sequence[str]], Answer[str]]] = {
            "sbatch": self._sbatch,
            "squeue": self._squeue,
            "sacct": self._sacct,
            "scancel": self._scancel,
            "scontrol": lambda words: self._said(words[-1].replace(",", "\n") + "\n"),
            "sinfo": self._sinfo,
        }
        if name not in answers:
            return self._failed("not in this simulation", 128)
        if self.world.now < self.down_until or self.rng.random() < self.trouble.error:
            return self._failed(DOWN.format(name=name))
        if self.rng.random() < self.trouble.timeout:
            raise subprocess.TimeoutExpired([*command], timeout_s)
        return answers[name](command[1:])

    @staticmethod
    def _said(text: str) -> "Answer[str]":
        return Answer([], 0, text, "")

    @staticmethod
    def _failed(text: str, code: int = 1) -> "Answer[str]":
        return Answer([], code, "", text)

    def _sbatch(self, words: Sequence[str]) -> "Answer[str]":
        options = _options(words)
        own = [job for job in self.world.going() if job.uid == self.uid]
        most = self.world.site.most_jobs
        if most is not None and (len(own) >= most or self.world.now < self.world.others_until):
            return self._failed(LIMIT.format(reason=self.rng.choice(REASONS)))
        if self.rng.random() < self.trouble.refusal:
            return self._failed("sbatch: error: Batch job submission failed: Invalid partition name specified\n")
        folder = Path(options["chdir"])
        job = self.world.submit(options["job-name"], str(folder), self.uid, folder)
        if self.rng.random() < self.trouble.lost:
            return self._failed(LOST)
        return self._said(self.rng.choice(["{}\n", "{};benchrun\n", "Welcome\n{}\n"]).format(job.id))

    def _squeue(self, words: Sequence[str]) -> "Answer[str]":
        options = _options(words)
        jobs = self.world.queued()
        if "jobs" in options:
            wanted = {int(each) for each in options["jobs"].split(",")}
            jobs = [job for job in jobs if job.id in wanted]
            if wanted - {job.id for job in jobs} and (len(wanted) == 1 or self.rng.random() < 0.5):
                return self._failed("slurm_load_jobs error: Invalid job id specified\n")
        return self._said("".join(f"{_row(options['format'], job)}\n" for job in jobs))

    def _sacct(self, words: Sequence[str]) -> "Answer[str]":
        options = _options(words)
        if not self.world.site.accounting:
            return self._failed("Slurm accounting storage is disabled\n")
        if self.rng.random() < self.trouble.accounting:
            return self._failed("sacct: error: slurm_persist_conn_open_without_init: failed to open connection\n")
        fields = options["format"].split(",")
        legal = SACCT_FIELDS | ({"Restarts"} if self.has_restarts else set())
        if unknown := [each for each in fields if each not in legal]:
            return self._failed(f'sacct: error: Invalid field requested: "{unknown[0]}"\n')
        key, wanted = ("JobID", options["jobs"]) if "jobs" in options else ("JobName", options["name"])
        rows = [row for job in self.world.jobs for row in self.world.known(job) if row[key] in wanted.split(",")]
        return self._said("".join("|".join(row[each] for each in fields) + "\n" for row in rows))

    def _scancel(self, words: Sequence[str]) -> "Answer[str]":
        number = int(words[-1])
        self.stopped.add(number)
        for job in self.world.queued():
            if job.id == number:
                self.world.cancel(job, self.uid)
                lost = self.rng.random() < self.trouble.lost
                return self._failed(DOWN.format(name="scancel")) if lost else self._said("")
        return self._failed("scancel: error: Kill job error on job id 1: Invalid job id specified\n")

    def _sinfo(self, words: Sequence[str]) -> "Answer[str]":
        return self._said("".join(f"{name} {state}\n" for name, state in self.world.node_states().items()))


def _options(words: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _, value in (word[2:].partition("=") for word in words if word.startswith("--"))}


def _row(form: str, job: Job) -> str:
    values = {"i": job.id, "T": job.state, "U": job.uid, "r": "None", "N": job.nodes, "S": stamp(job.started_at)}
    values |= {"Z": job.work_dir, "j": job.name}
    return re.sub("%(.)", lambda match: str(values[match[1]]), form)
