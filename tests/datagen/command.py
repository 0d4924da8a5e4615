"""Run ``datagen``, as a process of its own where the test does something to it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

from calling import call

from datagen.cli import main

ROOT = Path(__file__).parents[2]


def datagen(*arguments: int | Path | str, wait: Any = True, **options: Any) -> Any:
    if wait and not options:
        return call(*arguments, program=main)
    command = [sys.executable, "-m", "datagen", *map(str, arguments)]
    options = {"cwd": ROOT, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, check=False, **options) if wait else subprocess.Popen(command, **options)


def tokens(
    prefix: Path, *more: int | str, tokens: str = "3e6", vocab_size: int = 1000, **options: Callable[..., Any] | bool
) -> CompletedProcess | Popen:
    return datagen("tokens", "--output", prefix, "--tokens", tokens, "--vocab-size", vocab_size, *more, **options)
