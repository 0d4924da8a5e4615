"""Asks each rank of this run on this node what it does: python3 hang.py NAME=VALUE, a mark of the run's processes.

Into the folder hangs go the rank's process as /proc shows it, twice (rank_N.json), its stack (stack_N.txt: the rank
writes it, else py-spy does), and its record of collectives (dump_N: the rank or NCCL writes it); of the job what NCCL
knows of all ranks (ras.txt).
"""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

WAIT_S, LOOK_S = 7, 2
TICKS = os.sysconf("SC_CLK_TCK")
PROC, FOLDER = Path("/proc"), Path("hangs")
PIPES, DUMPS = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"


def _text(path):
    """A file of /proc; empty where it may not be read, and of a process that has ended."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


class Process:
    """A process at one time."""

    def __init__(self, path):
        self.path, self.pid = path, int(path.name)
        fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
        self.state, self.parent = fields[0], int(fields[1])
        self.ticks, self.started = int(fields[11]) + int(fields[12]), int(fields[19])
        self.io = sum(map(int, re.findall(r"char: (\d+)", _text(path / "io"))))
        self.place = _text(path / "wchan").strip("0")
        # Those of its main thread alone.
        self.wakes = int(*re.findall(r"^voluntary.*\t(\d+)$", _text(path / "status"), re.M))

    def carried(self, moved):
        """What its sockets have moved, by ``moved``."""
        total = 0
        for place in (self.path / "fd").glob("*"):
            with contextlib.suppress(OSError):  # it was closed
                total += moved.get(os.readlink(str(place)), 0)  # noqa: PTH115  # Path has it since Python 3.9
        return total

    def environment(self):
        """Its variables by name; none for a process of another user."""
        try:
            words = (self.path / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return {}
        return dict(word.split("=", 1) for word in words if "=" in word)

    def is_python(self):
        try:
            # Not resolved further: the path is of the rank's container.
            program = os.readlink(str(self.path / "exe"))  # noqa: PTH115  # Path has it since Python 3.9
            return program.rpartition("/")[2].startswith("python")
        except OSError:
            return False

    def catches(self, number):
        caught = re.search(r"^SigCgt:\s*(\w+)$", _text(self.path / "status"), re.M)
        return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def connections():
    """Name of each TCP socket -> the bytes that it has carried: /proc/PID/io lacks what send and recv move."""
    found = {}
    for family in socket.AF_INET, socket.AF_INET6:
        # All sockets (0xFFFFFFFF), with their struct tcp_info (2); linux/inet_diag.h has the form.
        asked = struct.pack(
            "=IHHIIBBBBI48x", 72, 20, 0x301, 0, 0, family, socket.IPPROTO_TCP, 2, 0, 0xFFFFFFFF
        )
        try:
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as kernel:
                kernel.settimeout(1)
                kernel.send(asked)
                while _add_connections(kernel.recv(1 << 20), found):
                    pass
        except (OSError, struct.error):
            pass  # this kernel does not tell
    return found


def _add_connections(data, found):
    """Add what an answer of the kernel lists; whether more is to come."""
    while data:
        size, kind = struct.unpack_from("=IH", data)
        if kind != 20:  # the end, or an error
            return False
        inode, place = struct.unpack_from("=I", data, 84)[0], 88
        while place < size:
            length, what = struct.unpack_from("=HH", data, place)
            if what == 2 and length >= 140:
                found[f"socket:[{inode}]"] = sum(struct.unpack_from("=QQ", data, place + 124))
            place += length + 3 & ~3
        data = data[size + 3 & ~3 :]
    return True


def processes():
    found = {}
    for path in PROC.glob("[0-9]*"):
        try:
            process = Process(path)
        except (OSError, ValueError, IndexError):
            continue  # it has ended
        found[process.pid] = process
    return found


def ranks(living, mark):
    """Rank -> its process and variables: the oldest of Python, because what a rank starts has its variables too."""
    name, _, value = mark.partition("=")
    own = {}
    for process in sorted(living.values(), key=lambda each: (each.started, each.pid)):
        environment = process.environment()
        is_rank = environment.get(name) == value and environment.get("RANK", "").isdigit()
        if is_rank and process.is_python():
            own.setdefault(int(environment["RANK"]), (process, environment))
    return own


def descendants(living, pid):
    found = [pid]
    for parent in found:  # which grows
        found += [child.pid for child in living.values() if child.parent == parent]
    return found[1:]


def ask(rank, process, environment):
    """Have it write its stack and its record; the files that will come."""
    stack = FOLDER / f"stack_{rank}.txt"
    prefix = environment.get(DUMPS, "hangs/dump_")
    if process.state in "TtZ":
        return []
    answers = _tell(FOLDER / f"stack_{rank}.pipe")
    recorded = _tell(process.path / "cwd" / f"{environment.get(PIPES)}{rank}.pipe")
    if not answers:
        try:
            with stack.open("w") as file:
                command = ["py-spy", "dump", "--pid", str(process.pid)]
                subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        except OSError:
            pass  # there is no py-spy
    record = FOLDER / f"{Path(prefix).name}{rank}"
    return ([stack] if answers else []) + ([record] if answers or recorded else [])


def _tell(pipe):
    """Write into a pipe until when an answer counts; whether somebody reads it."""
    try:
        writer = os.open(str(pipe), os.O_WRONLY | os.O_NONBLOCK)
        os.write(writer, f"{until}\n".encode())
        os.close(writer)
    except OSError:
        return False
    return True


def force(rank, process):
    """Have a rank whose threads all wait for Python's lock write its stack: a signal needs no lock. Only now, because
    it also ends a sleep. Not SIGUSR1, which LLVM takes when Triton compiles.
    """
    stack = FOLDER / f"stack_{rank}.txt"
    try:
        if stack.exists() and not stack.stat().st_size and process.catches(signal.SIGRTMAX):
            os.kill(process.pid, signal.SIGRTMAX)
    except OSError:
        pass  # it has ended


def report(rank, process, before, after, window_s, moved):
    """rank_N.json; its form is State in benchrun/capabilities/hangs/states.py."""

    def used(pid):
        old, new = before.get(pid), after.get(pid)
        if new is None:
            return {"state": "Z"}
        old = old or new
        waits = old.place == new.place and new.place.startswith("unix_")
        return {
            "state": new.state,
            "cpu_s": (new.ticks - old.ticks) / TICKS,
            "io_bytes": new.io - old.io + new.carried(moved),
            "place": new.place,
            "received": new.wakes - old.wakes if waits else 0,
        }

    children = [used(pid) for pid in descendants(before, process.pid)]
    facts = {"rank": rank, "host": os.uname().nodename, "window_s": window_s, "children": children}
    facts.update(used(process.pid))
    path = FOLDER / f"rank_{rank}.json"
    path.with_suffix(".tmp").write_text(json.dumps(facts))
    path.with_suffix(".tmp").replace(path)


def network(environment):
    """ras.txt: what NCCL's own threads know of all processes and communicators, since NCCL 2.24."""
    host, _, port = environment.get("NCCL_RAS_ADDR", "localhost:28028").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1) as nccl:
            nccl.sendall(b"verbose status\n")
            nccl.settimeout(WAIT_S)
            with (FOLDER / "ras.txt").open("wb") as file:
                while told := nccl.recv(1 << 16):
                    file.write(told)
    except (OSError, ValueError):
        pass  # it is older, or off


FOLDER.mkdir(exist_ok=True)
own = ranks(processes(), sys.argv[1])
expected, sizes, until = [], None, time.monotonic() + WAIT_S
for rank, (process, environment) in sorted(own.items()):
    expected += ask(rank, process, environment)
while time.monotonic() < until:
    time.sleep(0.3)
    now = [path.stat().st_size if path.exists() else 0 for path in expected]
    if all(now) and now == sizes:
        break
    sizes = now
before, carried, started = processes(), connections(), time.monotonic()
time.sleep(LOOK_S)
after, window_s = processes(), time.monotonic() - started
moved = {name: total - carried[name] for name, total in connections().items() if name in carried}
for rank, (process, _) in own.items():
    report(rank, process, before, after, window_s, moved)
for rank, (process, _) in own.items():
    if process.state not in "TtZ":
        force(rank, process)
time.sleep(0.3)
if 0 in own:
    network(own[0][1])
