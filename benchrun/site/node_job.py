"""The job of the doctor: what a node says of itself, asked in the way in which every
job of the site runs.
"""

import contextlib
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchrun import hardware, paths
from benchrun.errors import MachineError, SchedulerUnavailable
from benchrun.jobs.commands import call, output
from benchrun.jobs.scheduler import Job, Phase
from benchrun.jobs.slurm import Slurm
from benchrun.render import check_script
from benchrun.rundir.artifacts import JOB, STDERR, STDOUT
from benchrun.rundir.folder import RunDir, read_text
from benchrun.runspec.cluster import Cluster

START_S = 120
"""Seconds that the check may take once its node is there."""
LIMIT = "00:05:00"
"""Time limit of the job: a short one starts sooner."""
SETTLE_S = 60
"""Seconds until a node's file is seen here (NFS: acdirmax)."""
SCRIPT = "node_check.sh"
NO_LOG = 53
"""Signal by which Slurm says that the node could not open the job's log."""


class NoNode(MachineError):
    """Error: no node was free in time."""


class Unseen(MachineError):
    """The node does not see the runs folder by the name that a job gets."""


def facts(site: Cluster, words: Sequence[str], wait_s: int) -> dict[str, list[str]]:
    """Key -> values that the script printed on a node, and ``clock here``. MachineError
    if it did not run.

    ``words``: arguments of node_check.sh. Without the key ``end`` the part that began
    last hangs.
    """
    with _folder() as folder:
        (folder / SCRIPT).write_text(
            (paths.TEMPLATES / SCRIPT).read_text(encoding="utf-8"), encoding="utf-8"
        )
        run = RunDir(folder)
        if site.scheduler == "slurm":
            _submitted(run, site, words, wait_s)
        else:
            line = 'exec >"$1"; shift; BENCHRUN_DOCTOR=1 exec bash "$@"'
            with contextlib.suppress(SchedulerUnavailable):  # a part that hangs
                call(
                    ["bash", "-c", line, "bash", STDOUT, SCRIPT, *words], folder, timeout_s=START_S
                )
        (folder / "clock here").touch()
        offset = time.time() - (folder / "clock here").stat().st_mtime
        return answers(_output(run), read_text(folder / STDERR) or "") | {
            "clock here": [str(offset)]
        }


def node_gpu(partition: str) -> str | None:
    """The hardware table's name of the GPU of a free node; None if none answers, or the
    table lacks it.
    """
    where = [
        f"--partition={partition}",
        "--gres=gpu:1",
        "--ntasks=1",
        "--time=00:01:00",
        "--immediate=10",
    ]
    names = output(
        "srun", *where, "nvidia-smi", "--query-gpu=name", "--format=csv,noheader", timeout_s=30
    )
    if not names:
        return None
    return hardware.name_of(names.splitlines()[0])


def answers(text: str, errors: str = "") -> dict[str, list[str]]:
    """Lines that the script printed; MachineError if it printed nothing."""
    answered: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, tab, value = line.partition("\t")
        if tab:
            answered.setdefault(key, []).append(value)
    if "host" not in answered:
        raise MachineError(
            f"no step ran on a node: {' '.join(errors.split())[:300] or 'it gave no output'}"
        )
    return answered


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A new folder beside the runs, by the name that a job gets; removed afterwards,
    with the parents made for it.
    """
    root = paths.given(paths.runs_dir())
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    folder = root / f".doctor-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another one may use it by now
            for parent in made:
                parent.rmdir()


def _submitted(run: RunDir, site: Cluster, words: Sequence[str], wait_s: int) -> None:
    """Run the job, until it has ended or its answer is there. MachineError if it
    cannot.
    """
    short = {"time_limit": LIMIT} if site.time_limit_s > 300 else {}
    script = check_script(site.model_copy(update=short), (SCRIPT, *words))
    (run.path / JOB).write_text(script, encoding="utf-8")
    slurm = Slurm()
    run.append_event("submitted", job=slurm.submit(run))
    try:
        last = _followed(run, slurm, wait_s)
    finally:
        with contextlib.suppress(MachineError):
            slurm.cancel(run.job_id or "")
    if last is None or last.phase is not Phase.ENDED or _has_ended(run):
        return
    if last.signal == NO_LOG or (last.state == "FAILED" and not (run.path / STDOUT).exists()):
        raise Unseen(f"the node cannot write to {run.path.parent}")
    until = time.monotonic() + (SETTLE_S if last.state == "COMPLETED" else 2)
    while not _has_ended(run) and time.monotonic() < until:
        time.sleep(1)


def _followed(run: RunDir, slurm: Slurm, wait_s: int) -> Job | None:
    """The job's last state. NoNode if it does not start in ``wait_s`` seconds; a job
    that hangs is left.
    """
    begun = time.monotonic()
    started = None
    while True:
        job = slurm.poll([run]).get(run)
        now = time.monotonic()
        if job is None or job.phase in (Phase.ENDED, Phase.GONE):
            return job
        if job.phase is Phase.PENDING:
            if now - begun > wait_s:
                raise NoNode(f"no node was free in {wait_s} s: {job.reason}")
        else:
            started = started or now
            if _has_ended(run) or now - started > START_S:
                return job
        time.sleep(0.5)


def _output(run: RunDir) -> str:
    return read_text(run.path / STDOUT) or ""


def _has_ended(run: RunDir) -> bool:
    return "end\tyes" in _output(run).splitlines()
