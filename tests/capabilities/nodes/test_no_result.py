"""A check on a site without what it needs: the first line says why there is no result."""

import json
import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

pytestmark = pytest.mark.train
SITE = """\
description: A Python without packages
scheduler: local
gpu: CPU
gpus_per_node: 2
python: {python}
time_limit: "00:05:00"
"""


@pytest.fixture
def bare_site(tmp_path: Path) -> Path:
    python, site = tmp_path / "bare-python", tmp_path / "site.yaml"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    site.write_text(SITE.format(python=python))
    return site


def nodes(site: Path, *words: str) -> CompletedProcess[str]:
    command = [sys.executable, "-m", "benchrun", "nodes", str(site), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=site.parent, env=os.environ, check=False)


def test_the_first_line_names_what_is_missing(bare_site: Path) -> None:
    result = nodes(bare_site)
    assert result.returncode == 4, result.stderr
    first = result.stdout.splitlines()[0]
    assert first.startswith("NO RESULT: the job failed: missing_module: ")
    assert "No module named" in first


def test_json_has_the_reason(bare_site: Path) -> None:
    result = nodes(bare_site, "--json")
    assert result.returncode == 4, result.stderr
    document = json.loads(result.stdout)
    assert document["nodes"] == []
    assert "No module named" in document["reason"]
