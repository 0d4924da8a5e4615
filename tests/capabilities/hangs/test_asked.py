"""Real ranks on gloo that hang, asked as the job's watchdog asks them."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import DEADLINE_S

from benchrun import paths
from benchrun.capabilities.hangs.find import hang_of
from benchrun.capabilities.hangs.states import FLOW, MESSAGES

RANK = """
import ctypes, os, signal, sys, threading, time
from types import SimpleNamespace
import torch, torch.distributed as distributed
from benchrun.worker import hang
hang.answer(SimpleNamespace(gpu="CPU", cluster=SimpleNamespace(step_deadline_s=9)))
rank = int(os.environ["RANK"])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=3)
data = torch.ones(4)
for step in range(7):
    if step == 5:
        open("ready" + os.environ["RANK"], "w").close()
        if os.environ["RANK"] == "1":
            {fault}
    distributed.all_reduce(data)
    if rank == 1:
        distributed.send(data, 2)
    elif rank == 2:
        distributed.recv(data, 1)
"""
FAULTS = {
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "Python's lock": "ctypes.PyDLL(None).sleep(1000)",
    "loop": "[None for _ in iter(int, 1)]",
    "left out": "distributed.broadcast(data, 0)",
    "no send": "distributed.send = lambda *_: None",
}
"""Fault -> the code of rank 1."""


@pytest.fixture
def hung(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of three ranks, of which one has done what ``request.param`` says."""
    code = RANK.format(fault=FAULTS[request.param])
    ranks = []
    for rank in range(3):
        own = {
            "RANK": str(rank),
            "WORLD_SIZE": "3",
            "RUN_OF_TEST": str(tmp_path),
            "PYTHONPATH": str(paths.TEMPLATES.parent),
        }
        words = [sys.executable, "-c", code, str(tmp_path / "store")]
        output = (tmp_path / f"out{rank}").open("w")
        ranks.append(subprocess.Popen(words, cwd=tmp_path, env={**os.environ, **own}, stdout=output, stderr=output))
    until = time.monotonic() + DEADLINE_S
    while len(list(tmp_path.glob("ready*"))) < 3:
        failed = any(rank.poll() is not None for rank in ranks)
        assert time.monotonic() < until and not failed, [path.read_text() for path in tmp_path.glob("out*")]
        time.sleep(0.1)
    time.sleep(1)  # they come to their calls
    yield tmp_path
    for rank in ranks:
        rank.send_signal(signal.SIGKILL)
        rank.wait()


@pytest.mark.train
@pytest.mark.parametrize(
    "hung",
    ["Python's lock", *(pytest.param(name, marks=pytest.mark.thorough) for name in FAULTS if name != "Python's lock")],
    indirect=True,
)
def test_the_rank_that_the_others_wait_for(hung: Path, request: pytest.FixtureRequest) -> None:
    script = paths.TEMPLATES / "hang.py"
    command = [sys.executable, "-I", "-S", str(script), f"RUN_OF_TEST={hung}"]
    subprocess.run(command, cwd=hung, check=True, timeout=DEADLINE_S)
    files = [path for path in (hung / "hangs").iterdir() if path.is_file()]
    hang = hang_of(files, deadline_s=1)
    assert (hang.ranks, hang.where) == ([1], "host"), hang
    call = "recv" if "no send" in request.node.name else "all_reduce"
    assert (hang.group, hang.collective, hang.sequence) == ("default", call, 6)
    assert hang.evidence


UPLOAD = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as far:
    while True:
        far.sendall(bytes(65536))
        time.sleep(0.02)
"""


def test_what_a_socket_carries_counts_as_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [sys.executable, "-c", UPLOAD, str(server.getsockname()[1])]
        own = {**os.environ, "RANK": "0", "RUN_OF_TEST": str(tmp_path)}
        rank = subprocess.Popen(words, env=own)
        far, _ = server.accept()
        drain = threading.Thread(target=lambda: all(iter(lambda: far.recv(1 << 20), b"")))
        drain.start()
        script = [sys.executable, "-I", "-S", str(paths.TEMPLATES / "hang.py"), f"RUN_OF_TEST={tmp_path}"]
        subprocess.run(script, cwd=tmp_path, check=True, timeout=DEADLINE_S)
        rank.kill()
        rank.wait()
        drain.join()
        far.close()
    assert json.loads((tmp_path / "hangs" / "rank_0.json").read_text())["io_bytes"] >= 2 * FLOW


def test_what_nccl_knows_of_all_ranks_is_kept(tmp_path: Path) -> None:
    """Beside it, for people: NCCL answers one line on a socket of rank 0's host."""
    with socket.create_server(("127.0.0.1", 0)) as nccl:

        def tell() -> None:
            asked, _ = nccl.accept()
            with asked, asked.makefile("rb") as lines:
                asked.sendall(b"answer to " + lines.readline())

        teller = threading.Thread(target=tell)
        teller.start()
        own = {"RANK": "0", "RUN_OF_TEST": str(tmp_path), "NCCL_RAS_ADDR": f"localhost:{nccl.getsockname()[1]}"}
        rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], env={**os.environ, **own})
        script = [sys.executable, "-I", "-S", str(paths.TEMPLATES / "hang.py"), f"RUN_OF_TEST={tmp_path}"]
        subprocess.run(script, cwd=tmp_path, check=True, timeout=DEADLINE_S)
        rank.kill()
        rank.wait()
        teller.join(DEADLINE_S)
    assert (tmp_path / "hangs" / "ras.txt").read_text() == "answer to verbose status\n"


RECEIVER = """
import os, socket, time
here, there = socket.socketpair()
if not os.fork():
    while {sends}:
        there.sendall(bytes(25000))
        time.sleep(0.1)
    time.sleep(1000)
print(flush=True)
while True:
    here.recv(1 << 16)
"""


@pytest.mark.parametrize("sends", [True, False])
def test_a_slow_peer_wakes_a_reader_of_a_local_socket_and_a_dead_one_does_not(tmp_path: Path, sends: bool) -> None:
    own = {**os.environ, "RANK": "0", "RUN_OF_TEST": str(tmp_path)}
    words = [sys.executable, "-c", RECEIVER.format(sends=sends)]
    rank = subprocess.Popen(words, env=own, stdout=subprocess.PIPE, start_new_session=True)
    assert rank.stdout is not None
    rank.stdout.readline()
    script = [sys.executable, "-I", "-S", str(paths.TEMPLATES / "hang.py"), f"RUN_OF_TEST={tmp_path}"]
    subprocess.run(script, cwd=tmp_path, check=True, timeout=DEADLINE_S)
    os.killpg(rank.pid, signal.SIGKILL)
    rank.wait()
    facts = json.loads((tmp_path / "hangs" / "rank_0.json").read_text())
    if not facts["place"]:
        pytest.skip("this kernel does not tell where a thread waits")
    assert (facts["received"] >= MESSAGES) is sends


STARTER = """
import subprocess, sys
nap = sys.executable + " -c 'import time; print(flush=True); time.sleep(1000)'; true"
subprocess.run(["sh", "-c", nap])
"""


def test_what_a_rank_starts_is_not_the_rank(tmp_path: Path) -> None:
    """A compiler that it starts through a shell has its variables, and is Python too."""
    own = {**os.environ, "RANK": "0", "RUN_OF_TEST": str(tmp_path)}
    words = [sys.executable, "-c", STARTER]
    rank = subprocess.Popen(words, env=own, stdout=subprocess.PIPE, start_new_session=True)
    assert rank.stdout is not None
    rank.stdout.readline()  # the compiler runs
    script = [sys.executable, "-I", "-S", str(paths.TEMPLATES / "hang.py"), f"RUN_OF_TEST={tmp_path}"]
    subprocess.run(script, cwd=tmp_path, check=True, timeout=DEADLINE_S)
    os.killpg(rank.pid, signal.SIGKILL)
    rank.wait()
    facts = json.loads((tmp_path / "hangs" / "rank_0.json").read_text())
    assert len(facts["children"]) == 2
    assert facts["place"] in ("do_wait", "")  # not every kernel tells


def test_a_run_without_a_deadline_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from benchrun.worker import hang

    monkeypatch.chdir(tmp_path)
    hang.answer(SimpleNamespace(gpu="CPU", cluster=SimpleNamespace(step_deadline_s=None)))
    assert list(tmp_path.iterdir()) == []
