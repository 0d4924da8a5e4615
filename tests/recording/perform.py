"""One call of the command line, in this process and in a folder of its own."""

import contextlib
import hashlib
import io
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parents[2]
"""The checkout whose answers are recorded."""
TREE_NAME, WORK_NAME = "{tree}", "{work}"
"""In a recording, the checkout and the folder of a call."""
VARIABLES = {
    "BENCHRUN_RESULTS": "results",
    "COLUMNS": "120",
    "HOME": f"{WORK_NAME}/../home",
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",
    "MPLCONFIGDIR": f"{WORK_NAME}/../home",
    "PATH": f"{WORK_NAME}/no-programs",
    "SOURCE_DATE_EPOCH": "1500000000",
    "TERM": "dumb",
    "TZ": "UTC",
    "USER": "recorder",
}
"""The whole environment of a call: no Slurm, no container runtime and no GPU tool is found."""
VARYING = {
    "doctor": (r"(free disk here\W+(?:found\W+)?)\d+ GB", r"\1{disk} GB"),
    "status": (r"(\"age_s\": )[\d.]+|\b\d{4} d\b", r"\1{age}"),
    "datagen": (r"made in [\d.]+ s, [\d,]+ MB/s", "made in {seconds}"),
}
"""Program or verb -> what differs between two calls on the same inputs, and its name."""
COPY = "/worker/benchrun/"
"""Part of the names of files that a job has of this program itself: these are no answer."""
LONG_AGO = 1.5e9
"""Time of every input, in seconds since the epoch: ages in days stay equally wide."""
PLOTTER = "svg.hashsalt: recording\n"
"""The settings of matplotlib, whose names of shapes are random otherwise."""

State = dict[str, tuple[int, int, int]]


@dataclass(frozen=True)
class Answer:
    """What a call returned: exit code, both streams, and each file that it wrote."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    files: dict[str, str]
    """Path in the folder of the call -> its text, or the SHA-256 of what is no text."""
    cpu_s: float


class Workplace:
    """A folder with a copy of the inputs; whatever a call writes there is undone after it."""

    def __init__(self, inputs: Path, folder: Path) -> None:
        """``inputs`` stays as it is; ``folder`` is made and becomes the current directory."""
        self.inputs, self.folder = inputs, folder.resolve()
        shutil.copytree(inputs, self.folder, copy_function=_copy)
        home = self.folder.with_name("home")
        home.mkdir()
        (home / "matplotlibrc").write_text(PLOTTER)
        os.environ.clear()
        os.environ.update({k: v.replace(WORK_NAME, str(self.folder)) for k, v in VARIABLES.items()})
        os.chdir(self.folder)
        os.environ["PWD"] = str(self.folder)
        self._state = state(self.folder)

    def answer(self, argv: tuple[str, ...]) -> Answer:
        """Call the program that ``argv`` names first; put the folder back into its first state."""
        words = [word.replace(TREE_NAME, str(TREE)) for word in argv]
        start = time.process_time()
        with _streams() as (stdout, stderr):
            code = exit_code(_program(words[0]), words[1:])
        seconds = time.process_time() - start
        streams = [self._named(_text(stream)) for stream in (stdout, stderr)]
        for word in argv[:2]:
            if word in VARYING:
                streams = [re.sub(*VARYING[word], stream) for stream in streams]
        return Answer(argv, code, streams[0], streams[1], self._undo(), seconds)

    def _named(self, text: str) -> str:
        """``text`` without the places of the checkout and of this folder."""
        return text.replace(str(self.folder), WORK_NAME).replace(str(TREE), TREE_NAME)

    def _undo(self) -> dict[str, str]:
        """The files that were written; afterwards all files are as before."""
        now = state(self.folder)
        if now == self._state:
            return {}
        written = [name for name in now if now[name] != self._state.get(name)]
        contents = {name: self._content(self.folder / name) for name in written if COPY not in name}
        for name in written:
            (self.folder / name).unlink()
        lost = [name for name in self._state if name not in now or name in written]
        for name in lost:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            _copy(self.inputs / name, self.folder / name)
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_dir() and not (self.inputs / path.relative_to(self.folder)).is_dir():
                path.rmdir()
        self._state = state(self.folder)
        return dict(sorted(contents.items()))

    def _content(self, file: Path) -> str:
        data = file.read_bytes()
        try:
            return self._named(data.decode())
        except UnicodeDecodeError:
            return f"sha256 {hashlib.sha256(data).hexdigest()}"


def _copy(source: str | Path, target: str | Path) -> None:
    """Copy a file, with the time of every input."""
    shutil.copyfile(source, target)
    os.utime(target, (LONG_AGO, LONG_AGO))


def state(folder: Path) -> State:
    """Size, time and inode of every file in ``folder``."""
    found: State = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = f"{place}/{name}"
            facts = os.lstat(path)
            found[path[len(str(folder)) + 1 :]] = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
    return found


def exit_code(program: Callable[[list[str]], Any], words: list[str]) -> int:
    """The exit code of ``program`` on ``words``."""
    try:
        program(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _program(name: str) -> Callable[[list[str]], Any]:
    """The function behind a command."""
    if name == "datagen":
        from datagen.cli import main as datagen

        return datagen
    from benchrun.cli import main as benchrun

    return benchrun


@contextlib.contextmanager
def _streams() -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    """Both streams of this process, into memory; stdin is empty."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO())
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        sys.stdin = before


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "backslashreplace")
