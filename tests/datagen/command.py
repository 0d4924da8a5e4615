"""Run ``datagen`` as a process."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def datagen(*arguments, wait=True, **options):
    command = [sys.executable, "-m", "datagen", *map(str, arguments)]
    options = {"cwd": ROOT, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, check=False, **options) if wait else subprocess.Popen(command, **options)


def tokens(prefix, *more, tokens="3e6", vocab_size=1000, **options):
    return datagen("tokens", "--output", prefix, "--tokens", tokens, "--vocab-size", vocab_size, *more, **options)
