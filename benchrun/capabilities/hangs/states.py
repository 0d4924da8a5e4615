"""State of each rank on its host when the job's watchdog asked: rank_N.json, stack_N.txt and
device_N.txt.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from benchrun.paths import table

FRAME = re.compile(r'^\s+(?:File "(.+?)", line (\d+) in (\S+)|(\S.*?) \((.+?):(\d+)\))\s*$', re.M)
"""A line of a stack as faulthandler writes it, or py-spy."""
FRAMES = 3
"""Frames of a stack that are shown."""
ACTIVITIES = {
    "checkpoint": "saves a checkpoint",
    "waits": "waits for other ranks",
    "import": "imports modules",
    "data": "loads data",
    "compile": "compiles",
    "device": "waits for its device",
    "garbage": "collects garbage",
}
LONG = ("checkpoint", "compile", "import")
"""Activities that end by themselves, however quiet they are, unless its file system hangs (state D)."""
BUSY = 0.05
"""Least share of a core by which a process moves on."""
LOCKS = "futex", "do_wait"
"""Beginnings of the kernel's functions that wait for a lock or a child."""
WAITS = "/threading.py", "/queue.py", "/subprocess.py"
"""Files of Python that do."""
FLOW = 2 * 10**4
"""Least bytes per second by which it does: polls and heartbeats are fewer."""
TRICKLE = 10**3
"""Least bytes per second of a process that it started, which answers no heartbeats."""
MESSAGES = 0.4
"""Least messages per second of a local socket, whose bytes nothing counts: one while it is looked at."""


class Process(BaseModel, frozen=True):
    """A process of a rank, looked at twice."""

    state: str
    """As in /proc/PID/stat: R, S, D; T is stopped, Z has ended."""
    cpu_s: float = 0.0
    io_bytes: int = 0
    received: int = 0
    """Times that data woke its main thread, which reads a local socket."""
    place: str = ""
    """The kernel's function in which that thread waits, where it is known."""


class State(Process, frozen=True):
    """rank_N.json, which templates/hang.py writes."""

    rank: int
    host: str = ""
    window_s: float = 1.0
    """Time between the two looks, in which ``cpu_s`` and ``io_bytes`` were used."""
    children: list[Process] = []

    def carries(self, *processes: Process) -> bool:
        """Whether one of ``processes`` reads or writes."""
        for each in processes:
            flow = FLOW if each is self else TRICKLE
            if max(each.io_bytes / flow, each.received / MESSAGES) >= self.window_s:
                return True
        return False

    @property
    def is_helped(self) -> bool:
        """Whether processes of its own compute."""
        return sum(child.cpu_s for child in self.children) >= BUSY * self.window_s


@dataclass(frozen=True)
class Frame:
    """A place in the main thread's stack."""

    file: str
    line: str
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({'/'.join(Path(self.file).parts[-3:])}:{self.line})"


@dataclass(frozen=True)
class Host:
    """One rank on its host."""

    state: State | None = None
    stack: tuple[Frame, ...] = ()
    """Frames of the main thread, the innermost first."""
    device: str | None = None
    """``waits`` if its GPU is in a collective, ``computes`` if it is before one."""
    collects: bool = False
    """Whether Python collects garbage: slow, and no loop."""
    locked: bool = False
    """Whether its main thread keeps Python's lock, so that no other one could answer."""

    @property
    def doing(self) -> str | None:
        """Activity that the stack shows by stacks.csv, e.g. ``waits`` or ``checkpoint``."""
        rows = table(__file__, "stacks.csv")
        for frame in self.stack:
            for row in rows:
                if row["file"] in frame.file and row["function"] in frame.function:
                    return row["doing"]
        return "garbage" if self.collects else None

    @property
    def stopped(self) -> str | None:
        """Why it cannot go on by itself: it, or a process that it waits for, is stopped."""
        if self.state is None:
            return None
        if self.state.state in "Tt":
            return "its process is stopped (state T)"
        if self.doing == "data" and any(child.state in "TtZ" for child in self.state.children):
            return "it waits for data, and a process that loads them is stopped or has ended"
        return None

    @property
    def computes(self) -> bool:
        """Whether its own process does, which an endless loop does too."""
        return self.state is not None and self.state.cpu_s >= BUSY * self.state.window_s

    @property
    def moves_on(self) -> bool:
        """Whether it is slow and does not hang: it reads, writes, or a thing known to be slow or
        a process of its own computes.
        """
        if self.state is None or self.stopped or self.doing == "waits":
            return False
        if self.doing in LONG and self.state.state != "D" and "pipe" not in self.state.place:
            return True
        if self.state.is_helped or self.state.carries(self.state, *self.state.children):
            return True
        return self.computes and self.doing not in (None, "device")

    @property
    def toils(self) -> bool:
        """Whether its host computes, which may be slow work: its GPU does not, and Python's lock is
        not kept all the time.
        """
        on_device = self.doing == "device" or self.device == "computes"
        return self.computes and not (self.stopped or on_device or self.locked)

    @property
    def file(self) -> str:
        """The file in which its main thread is; empty where that is not known."""
        return self.stack[0].file if self.stack else ""

    @property
    def frames(self) -> str:
        """Place of its main thread in the code; empty where that is not known."""
        return ", called by ".join(map(str, self.stack[:FRAMES]))

    @property
    def activity(self) -> str:
        """Activity of its main thread, in words."""
        words = "waits"
        if self.doing:
            words = ACTIVITIES[self.doing]
        elif self.file.endswith("/subprocess.py"):
            words = "waits for a process of its own"
        elif self.state and self.state.carries(self.state):
            words = "reads or writes"
        elif self.computes:
            words = "computes (slow work, or an endless loop)"
        elif self.moves_on:
            words = "waits for a process of its own"
        return f"{words} in {self.frames}" if self.stack else words

    @property
    def idles(self) -> bool:
        """Whether nothing of it moves on."""
        busy = self.computes or self.moves_on or self.device == "computes"
        return self.state is not None and not busy

    @property
    def sits(self) -> bool:
        """Whether it idles, and its main thread waits for a lock, another thread or a child."""
        waits = self.state and self.state.place.startswith(LOCKS)
        return self.idles and bool(waits or self.file.endswith(WAITS))


BY_SIGNAL, ANSWERED = "(most recent call first)", re.compile(r"^Current thread.*\n.*_listen$", re.M)
"""Stacks of faulthandler, and those that a thread of the rank wrote itself."""
COLLECTS = "Garbage-collecting"
"""Line of Python's faulthandler above the stack of a thread that collects garbage."""


def read(files: Iterable[Path]) -> dict[int, Host]:
    """State of each rank, from the files."""
    states: dict[int, State] = {}
    stacks: dict[int, tuple[Frame, ...]] = {}
    devices: dict[int, str] = {}
    collecting, locked = set(), set()
    for path in files:
        if re.fullmatch(r"rank_\d+\.json", path.name):
            try:
                state = State.model_validate(json.loads(path.read_bytes()))
            except (ValueError, ValidationError):
                continue
            states[state.rank] = state
        elif match := re.fullmatch(r"(stack|device)_(\d+)\.txt", path.name):
            text = path.read_text(errors="replace", encoding="utf-8")
            if match[1] == "device":
                devices[int(match[2])] = text
            else:
                stacks[int(match[2])] = main_stack(text)
                if BY_SIGNAL in text and not ANSWERED.search(text):
                    locked.add(int(match[2]))
                if COLLECTS in text:
                    collecting.add(int(match[2]))
    found = {}
    for rank in states.keys() | stacks.keys():
        stack = stacks.get(rank, ())
        device = devices.get(rank)
        found[rank] = Host(states.get(rank), stack, device, rank in collecting, rank in locked)
    return found


def main_stack(text: str) -> tuple[Frame, ...]:
    """The frames of the main thread: the one that no other thread started."""
    for block in re.split(r"^(?=(?:Current t|T)hread )", text, flags=re.M):
        frames = []
        for match in FRAME.finditer(block):
            file, line, function = match[1] or match[5], match[2] or match[6], match[3] or match[4]
            frames.append(Frame(file, line, function))
        if frames and not frames[-1].function.endswith("_bootstrap"):
            return tuple(frames)
    return ()
