"""A real Slurm for the tests in this folder, and the command line as a user calls it."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .processes import of_run

HERE = Path(__file__).parent
CLUSTER = HERE / "cluster.sh"
POINT = ("tiny-llama", "--precision=fp32", "--num-gpus=1", "--cluster=slurm-cpu")
# Each process of pytest -n has a cluster of its own, so that none takes a daemon down under another's tests. A test may
# start one more, of the next number.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
NUMBER = int(os.environ.get("BENCHRUN_SLURM_NUMBER", "0")) + 2 * WORKER
BASE = os.environ.get("BENCHRUN_SLURM_DIR", "/var/lib/benchrun-slurm")
DIR = Path(f"{BASE}-{WORKER}" if WORKER else BASE)
os.environ |= {"BENCHRUN_SLURM_NUMBER": str(NUMBER), "BENCHRUN_SLURM_DIR": str(DIR)}


def pytest_collection_modifyitems(items: Any) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Any]:
    """SLURM_CONF of the running test cluster. CI starts it; elsewhere the tests run only if somebody has."""
    if os.environ.get("CI") != "true" and not is_up(Path(BASE)):
        pytest.skip("no test cluster is up: sudo tests/slurm/cluster.sh start")
    if not is_up(DIR):
        subprocess.run([CLUSTER, "start"], check=True)
    yield str(DIR / "etc" / "slurm.conf")
    if WORKER:
        subprocess.run([CLUSTER, "stop"], check=True)


def is_up(folder: Path) -> bool:
    """Whether the controller of the cluster in this folder answers."""
    conf = folder / "etc" / "slurm.conf"
    if not conf.exists():
        return False
    env = {**os.environ, "SLURM_CONF": str(conf), "PATH": path_of(folder)}
    return "UP" in subprocess.run(["scontrol", "ping"], env=env, capture_output=True, text=True, check=False).stdout


def path_of(folder: Path) -> str:
    """PATH of a user of the cluster in this folder: its own Slurm first, where it runs another than this machine's."""
    return os.pathsep.join((str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))


class User:
    """A person at a shell with its own results folder."""

    def __init__(self, conf: str, results: Path) -> None:
        self.cluster = Path(conf).parents[1]
        path = path_of(self.cluster)
        self.env = {**os.environ, "SLURM_CONF": conf, "BENCHRUN_RESULTS": str(results), "PATH": path}
        self.runs = results / "runs"
        self.launchers: list[subprocess.Popen[str]] = []

    def call(self, *args: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Run ``benchrun ARGS``."""
        command = [sys.executable, "-m", "benchrun", *args]
        result = subprocess.run(command, env={**self.env, **env}, capture_output=True, text=True, check=False)
        assert not check or result.returncode == 0, result.stderr + result.stdout
        return result

    def launch(self, recipe: str, num_gpus: int, *sets: str, cluster: str = "slurm-cpu", **env: str) -> str:
        """Launch one point without waiting; the run id."""
        point = [recipe, "--precision", "fp32", "--num-gpus", str(num_gpus), "--cluster", cluster]
        return self.call("launch", *point, *(f"--set={s}" for s in sets), **env).stdout.strip()

    def script(self, text: str) -> Path:
        """A few lines of shell as a program that the nodes see."""
        path = Path(tempfile.mkdtemp(prefix="program", dir=self.runs.parent)) / "program.sh"
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return path

    def program(self, recipe: str, num_gpus: int, text: str, *sets: str, **env: str) -> str:
        """Launch a point whose ranks run a few lines of shell in Python's place."""
        return self.launch(recipe, num_gpus, f"cluster.python={self.script(text)}", *sets, **env)

    def follow(self, text: str, **env: str) -> tuple[subprocess.Popen[str], str]:
        """Begin ``launch --wait`` of such a program; the launcher and the run id."""
        pipe, setting = subprocess.PIPE, f"--set=cluster.python={self.script(text)}"
        command = [sys.executable, "-m", "benchrun", "launch", *POINT, setting, "--wait"]
        # A shell starts background jobs with SIGINT ignored, and so would this be.
        heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        launcher = subprocess.Popen(
            command, env={**self.env, **env}, stdout=pipe, stderr=pipe, text=True, preexec_fn=heard
        )
        self.launchers.append(launcher)
        return launcher, launcher.stdout.readline().strip()

    def shims(self, **programs: str) -> dict[str, str]:
        """An environment in which commands of Slurm are a few lines of shell, with the true one as ``$real``."""
        folder = Path(tempfile.mkdtemp(prefix="shims", dir=self.runs.parent))
        for name, text in programs.items():
            real = shutil.which(name, path=self.env["PATH"])
            (folder / name).write_text(f"#!/bin/bash\nreal={real}\n{text}\n")
            (folder / name).chmod(0o755)
        return {"PATH": f"{folder}{os.pathsep}{self.env['PATH']}"}

    def status(self, run: str, **env: str) -> dict:
        """What ``benchrun status --json`` says of one run."""
        return self.rows(run, **env)[0]

    def rows(self, *runs: str, **env: str) -> list[dict]:
        """What ``benchrun status --json`` says of several, or of the newest."""
        return json.loads(self.call("status", *runs, "--json", **env).stdout)

    def jobs(self, run: str) -> list[str]:
        """The ids of all jobs of a run that Slurm has or remembers."""
        past = self.slurm("sacct", "-X", "--noheader", "--parsable2", "--format=JobID", f"--name={run}")
        queued = self.slurm("squeue", "--noheader", "--states=all", "--format=%i", f"--name={run}")
        return sorted({*past.split(), *queued.split()})

    def wait(self, run: str, deadline_s: float, *states: str) -> dict:
        """Poll until the run has ended (or is in one of ``states``), at most until the deadline."""
        end = time.monotonic() + deadline_s
        while True:
            row = self.status(run)
            if row["state"] in states or (row["ended"] and not states):
                return row
            assert time.monotonic() < end, f"still {row} after {deadline_s} s"
            time.sleep(1)

    def log(self, run: str) -> str:
        """What a run has printed so far."""
        path = self.runs / run / "stdout.log"
        return path.read_text() if path.exists() else ""

    def until(self, holds: Callable[[], bool], deadline_s: float = 60) -> None:
        """Wait until something holds, at most until the deadline."""
        end = time.monotonic() + deadline_s
        while not holds():
            assert time.monotonic() < end, f"not so after {deadline_s} s"
            time.sleep(0.2)

    def left(self, run: str, grace_s: float = 20) -> list[str]:
        """Processes of a run on any node, as ``NODE: COMMAND``, that live on after the grace that its end may take."""
        end = time.monotonic() + grace_s
        while (found := of_run(run, self.cluster)) and time.monotonic() < end:
            time.sleep(0.5)
        return found

    def leave(self) -> None:
        """End what a failed test left behind: launchers, and jobs that would hold the nodes."""
        for launcher in self.launchers:
            if launcher.poll() is None:
                launcher.kill()
            launcher.communicate()
        jobs = (line.split() for line in self.slurm("squeue", "--noheader", "--format=%i %j").splitlines())
        if mine := [job for job, name in jobs if (self.runs / name).exists()]:
            self.slurm("scancel", *mine)

    def slurm(self, *command: str) -> str:
        """One of Slurm's own commands."""
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session")
def user(slurm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = User(slurm, tmp_path_factory.mktemp("results"))
    yield found
    found.leave()


@pytest.fixture
def cluster(slurm: Any) -> Any:
    """The cluster's own switch: ``cluster("down", "slurmctld")``."""

    def call(*args: str) -> None:
        subprocess.run([CLUSTER, *args], check=True, capture_output=True)

    return call
