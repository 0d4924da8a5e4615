"""Ranks of the worker as forks of one process that has imported torch and its frameworks.

A rank of its own spends three seconds on imports and less than one on a few steps.
"""

import atexit
import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NoReturn

import telling

from benchrun.worker import entry

LIMIT_S = 120
"""Of one rank."""
LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class Rank:
    """A rank that has started."""

    def __init__(self, module: str, spec: Path, name: str = "rank", first: str = "", **env: str) -> None:
        """Run ``module`` on a specification, in its folder, which gets the output; before it the code ``first``."""
        self.files = [spec.with_name(f"{name}.{stream}") for stream in ("out", "err")]
        clean = {key: value for key, value in os.environ.items() if key not in LAUNCHED}
        clean = {key: value for key, value in clean.items() if not key.startswith("SLURM_")}
        files = [str(file) for file in self.files]
        request = {"module": module, "spec": str(spec), "files": files, "first": first, "env": {**clean, **env}}
        self.pid = _ask(request)

    def finish(self) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        code = _ask({"wait": self.pid})
        out, err = (file.read_text() for file in self.files)
        return code, out, err


def run(module: str, spec: Path, ranks: int, **env: str) -> CompletedProcess[str]:
    """Run all ranks, as torchrun starts them, to their end: the highest exit code and what they all printed."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    started = []
    for number in range(ranks):
        places = {"RANK": str(number), "LOCAL_RANK": str(number)}
        started.append(Rank(module, spec, f"rank{number}", **meet, **places, **env))
    codes, outs, errs = zip(*(rank.finish() for rank in started), strict=True)
    return CompletedProcess(module, max(map(abs, codes)), "".join(outs), "".join(errs))


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_server: list[Any] = []


def _ask(request: dict[str, Any]) -> int:
    if not _server:
        pipe = subprocess.PIPE
        _server.append(subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, text=True))
        atexit.register(_server[0].communicate)
    _server[0].stdin.write(json.dumps(request) + "\n")
    _server[0].stdin.flush()
    return int(_server[0].stdout.readline())


# -- in the process that forks ------------------------------------------------------------------------------------


def serve() -> None:
    """Start ranks and wait for them, as the lines of stdin say, until it closes."""
    entry.prepare_cpu()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for module in ("benchrun.worker.train", "benchrun.worker.hf.train", "peft"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork() or become(**request)
        print(answer, flush=True)  # noqa: T201


def become(module: str, spec: str, files: list[str], first: str, env: dict[str, str]) -> NoReturn:
    """Be the rank."""
    signal.alarm(LIMIT_S)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update(env)
    os.chdir(Path(spec).parent)
    sys.argv = [module, "--spec", spec]
    try:
        telling.install()
        exec(first)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        os._exit(1)  # a rank ends itself


if __name__ == "__main__":
    serve()
