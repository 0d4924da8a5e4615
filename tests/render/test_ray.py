"""The script that starts Ray on every node, run on this machine with a program that stands in for Ray."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S

from benchrun import paths
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

REAPER = paths.TEMPLATES / "parts" / "reap.py"
# A head listens as long as it lives. Nodes that joined are lines of a file.
RAY = f"""#!/bin/bash
case "$1 $2" in
  "start --head")
    "{sys.executable}" -c 'import os, socket, time
server = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
open("listens", "w").close()
time.sleep(600)' >/dev/null 2>&1 &
    until [ -e listens ]; do sleep 0.05; done
    echo 8 >>joined ;;
  "start --address"*)
    echo 8 >>joined
    case $* in *--block*) exec sleep "${{RAY_LIVES_S:-600}}" ;; esac ;;
  "status "*) echo " 0.0/$((8 * $(wc -l <joined))).0 GPU" ;;
esac
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Any]:
    """Starts the task of a node: ``node(number, *command, **environment)``."""
    source, programs = tmp_path / "nemo-rl", tmp_path / "bin"
    for folder in (source, programs):
        folder.mkdir()
    (programs / "ray").write_text(RAY)
    (programs / "ray").chmod(0o755)
    request = Request("llama3.1-8b-grpo", "H100", "bf16", 16)
    script = render(resolve(request))["ray.sh"]
    assert "sleep 2\n" in script and "cd /opt/nemo-rl\n" in script
    (tmp_path / "ray.sh").write_text(script.replace("sleep 2\n", "sleep 0.2\n").replace("/opt/nemo-rl", str(source)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    tasks: list[subprocess.Popen[str]] = []

    def start(number: int, *command: str, **more: str) -> subprocess.Popen[str]:
        env = {"PATH": f"{programs}:{os.environ['PATH']}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        tasks.append(
            subprocess.Popen(
                [sys.executable, REAPER, "bash", "ray.sh", *command],
                **{"env": {**env, "SLURM_NODEID": str(number), **more}, "cwd": tmp_path},
                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True},
            )
        )
        return tasks[-1]

    yield start
    for task in tasks:
        task.terminate()
        task.communicate()


@pytest.mark.parametrize("code", [0, 3])
def test_the_command_runs_once_every_node_is_there_and_ends_them_all(node: Any, tmp_path: Path, code: int) -> None:
    second = node(1)  # before the first: it waits for it
    first = node(0, "bash", "-c", f"pwd; wc -l < {tmp_path}/joined; exit {code}")
    output, _ = first.communicate(timeout=DEADLINE_S)
    assert output.split() == [f"{tmp_path}/nemo-rl", "2"]
    assert first.returncode == code
    assert second.wait(DEADLINE_S) == 0


def test_a_node_whose_ray_ends_ends_the_job(node: Any) -> None:
    first, second = node(0, "sleep", "600"), node(1, RAY_LIVES_S="1x")
    assert second.wait(DEADLINE_S) == 1
    assert first.poll() is None
