"""shellcheck finds nothing to warn of in the scripts that readers see."""

import shutil
import subprocess
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_goldens_have_no_warning() -> None:
    scripts = sorted(GOLDEN.rglob("*.sh"))
    assert len(scripts) > 20
    result = subprocess.run(
        ["shellcheck", "--shell=bash", "--severity=warning", "--format=gcc", *scripts],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == ""
