"""The frameworks' released packages: fetched once, into a folder outside the repository, and asked in another process.

``BENCHRUN_TEST_CACHE`` names the folder; ``~/.cache/benchrun-tests`` if not given.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S

CACHE = Path(os.environ.get("BENCHRUN_TEST_CACHE", "~/.cache/benchrun-tests")).expanduser()
HERE = Path(__file__).parent


def fetched(requirement: str, python: str | None = None) -> Path:
    """The folder of an unpacked wheel, e.g. of ``megatron-core==0.13.0``; the test is skipped where it cannot be had.

    ``python`` names another Python's wheel, for a package that is not built for this one and whose Python code runs.
    """
    folder = CACHE / f"{requirement.replace('==', '-')}-py{python or '.'.join(map(str, sys.version_info[:2]))}"
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--retries=1",
        ]
        command += [f"--python-version={python}"] if python else []
        done = subprocess.run(
            [*command, "--dest", scratch, requirement], capture_output=True, text=True, timeout=DEADLINE_S
        )
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            pytest.skip(f"{requirement} cannot be fetched: {(done.stderr.strip() or 'no wheel').splitlines()[-1]}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(Path(scratch) / "unpacked")
        try:
            (Path(scratch) / "unpacked").rename(folder)
        except OSError:  # another process was faster
            assert folder.exists()
    return folder


def answers(script: str, questions: Any, *folders: Path) -> Any:
    """What ``script``, a file beside this one, answers to ``questions`` where Python finds packages in ``folders``."""
    path = os.pathsep.join(map(str, folders))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / script), *map(str, folders)],
        input=json.dumps(questions),
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
