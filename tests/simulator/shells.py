"""The real launcher on the simulated Slurm: its clock and its programs are replaced, and it may be killed anywhere."""

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from commands import Commands
from world import BEGIN, World

from benchrun import clock, paths
from benchrun.frameworks import logs
from benchrun.jobs import commands as programs
from benchrun.jobs import create, launcher
from benchrun.render import render
from benchrun.rundir import folder as rundir
from benchrun.runspec.spec import RunSpec

MONTH_S = 30 * 86400.0


class Killed(BaseException):
    """Stands for SIGKILL: nothing may handle it."""


class Stuck(AssertionError):
    """The launcher waits although nothing can happen any more."""


class Shells:
    """A launcher in front, whose waiting moves the clock, and other shells, whose commands take no time."""

    def __init__(self, world: World, commands: Commands) -> None:
        self.world, self.commands = world, commands
        self.kill = False
        """End the launcher in front at its next step."""
        self.other_writes: Callable[[], object] = lambda: None
        """What another shell does just before the launcher in front writes a file."""
        self._aside = False
        self._idle = 0

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Another shell is at work: the time stands, and nothing is killed."""
        if self._aside:
            yield
            return
        front, self.commands.rng, self._aside = self.commands.rng, self.commands.aside, True
        try:
            yield
        finally:
            self.commands.rng, self._aside = front, False

    def sleep(self, seconds: float) -> None:
        """Let the time pass for the launcher in front."""
        self._die()
        # Where nothing happens, looks become rarer: the launcher would see the same again and again.
        self._idle = 0 if self.world.happened else self._idle + 1
        self.world.happened = False
        long_s = 5.0**self._idle
        self.world.advance(max(seconds, min(long_s, self.world.quiet_s)))
        if self.world.now > BEGIN + MONTH_S:
            raise Stuck("it waits for ever")

    def run(self, command: Sequence[str], **how: Any) -> "subprocess.CompletedProcess[str]":
        """Run a program; the launcher may be killed before it and after it."""
        self._die()
        try:
            answer = self.commands.run(command, how["timeout"])
        except subprocess.TimeoutExpired:
            self._pass(how["timeout"])
            raise
        self._pass(0.05)
        self._die()
        return answer

    def wrote(self) -> None:
        """The launcher in front is about to write."""
        if not self._aside:
            with self.aside():
                self.other_writes()

    def _pass(self, seconds: float) -> None:
        if not self._aside:
            self.world.advance(seconds)

    def _die(self) -> None:
        if self.kill and not self._aside:
            self.kill = False
            raise Killed


@contextlib.contextmanager
def replaced(shells: Shells, results: Path, rng: random.Random) -> Iterator[None]:
    """The launcher's clock, programs and random names are the simulation's; its files lie in ``results``."""
    world = shells.world
    write, append = rundir.RunDir.write_text, rundir.RunDir.append_event

    def touched(file: int) -> float:
        os.utime(file, (world.now, world.now))
        return world.now

    def write_text(self: Any, *facts: Any, **more: Any) -> None:
        shells.wrote()
        write(self, *facts, **more)

    known: dict[str, list[dict[str, Any]]] = {}

    def append_event(self: Any, *facts: Any, **more: Any) -> None:
        shells.wrote()
        known.pop(str(self.path), None)
        append(self, *facts, **more)

    with contextlib.ExitStack() as stack:

        def put(place: Any, name: str, value: Any) -> None:
            stack.callback(setattr, place, name, vars(place)[name])
            setattr(place, name, value)

        put(clock, "now", lambda: world.now)
        put(clock, "monotonic", lambda: world.now)
        put(clock, "sleep", shells.sleep)
        put(clock, "touched", touched)
        put(programs, "RUN", shells.run)
        put(programs, "os", SimpleNamespace(environ={}))
        put(paths, "given", _given)
        put(launcher, "require", lambda _: None)
        drawn = SimpleNamespace(token_hex=lambda count: f"{rng.getrandbits(8 * count):0{2 * count}x}")
        put(rundir, "secrets", drawn)
        put(create, "secrets", drawn)
        put(create, "shutil", SimpleNamespace(**{**vars(shutil), "copytree": lambda *_, **__: None}))
        put(rundir.RunDir, "write_text", write_text)
        put(rundir.RunDir, "append_event", append_event)
        put(launcher, "render", _render)
        put(RunSpec, "read", staticmethod(_specs({})))
        put(RunSpec, "identity", _identity)
        put(rundir.RunDir, "events", _events(known))
        put(logs, "parse_log", _by_text(_LOGS, logs.parse_log))
        put(logs, "last_rows", _last_rows)
        before = os.environ.get("BENCHRUN_RESULTS")
        os.environ["BENCHRUN_RESULTS"] = str(results)
        try:
            yield
        finally:
            if before is None:
                del os.environ["BENCHRUN_RESULTS"]
            else:
                os.environ["BENCHRUN_RESULTS"] = before


def _by_text(known: dict[Any, Any], read: Callable[..., Any]) -> Callable[..., Any]:
    """What ``read`` makes of files, once for each text: parsing takes longer than all else in a history."""

    def read_once(*paths: Path) -> Any:
        text = tuple(path.read_bytes() for path in paths)
        if text not in known:
            known[text] = read(*paths)
        return known[text]

    return read_once


_SPECS: dict[Any, RunSpec] = {}
_LOGS: dict[Any, Any] = {}
_ROWS: dict[Any, Any] = {}
_read_rows, _digest = logs.last_rows, RunSpec.identity


_given = cache(paths.given)


def _last_rows(path: Path, near: int = 0) -> Any:
    return _by_text(_ROWS, lambda path: _read_rows(path, near))(path)


def _events(
    known: dict[str, list[dict[str, Any]]],
) -> Callable[[rundir.RunDir], list[dict[str, Any]]]:
    """The events of a run, read once for each that is added."""
    read = rundir.RunDir.events

    def events(run: rundir.RunDir) -> list[dict[str, Any]]:
        place = str(run.path)
        if place not in known and run.path.is_dir():
            known[place] = read(run)
        return known.get(place, [])

    return events


def _specs(known: dict[Path, RunSpec]) -> Callable[[Path], RunSpec]:
    """The specification of a run, read once: its file never changes."""
    read = _by_text(_SPECS, RunSpec.read)

    def spec(path: Path) -> RunSpec:
        if path not in known:
            known[path] = read(path)
        return known[path]

    return spec


_RENDERED: dict[int, tuple[RunSpec, dict[str, str]]] = {}


def _render(spec: RunSpec) -> dict[str, str]:
    """The files of a run, made once for each specification."""
    if id(spec) not in _RENDERED:
        _RENDERED[id(spec)] = (spec, render(spec))
    return _RENDERED[id(spec)][1]


_IDENTITIES: dict[int, tuple[RunSpec, str]] = {}


def _identity(spec: RunSpec) -> str:
    if id(spec) not in _IDENTITIES:
        _IDENTITIES[id(spec)] = (spec, _digest(spec))
    return _IDENTITIES[id(spec)][1]
