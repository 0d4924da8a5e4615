"""The command line in this process: as the program of its own that a user starts, without the start of Python."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from click.testing import CliRunner

from benchrun.cli import main as benchrun

DEADLINE_S = 300.0
"""The longest that a test waits for a process; only a test that fails waits so long."""


def call(
    *words: object, program: Callable[[list[str]], Any] = benchrun, cwd: Path | None = None, **env: str
) -> CompletedProcess[str]:
    """Exit code, stdout and stderr of ``program``."""
    before = Path.cwd()
    texts = [str(word) for word in words]
    os.chdir(cwd or before)
    try:
        with CliRunner().isolation(env=env) as (out, err, _):
            with pytest.raises(SystemExit) as ended:
                program(texts)
            sys.stderr.flush()
        return CompletedProcess(texts, ended.value.code or 0, out.getvalue().decode(), err.getvalue().decode())
    finally:
        os.chdir(before)
