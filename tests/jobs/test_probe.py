"""The description of a node: what hangs is named, and the job goes on without it."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from calling import DEADLINE_S

from benchrun import paths

GPU = "535.1, NVIDIA H100 80GB HBM3, GPU-1, 81559, 700.00, 1980, 1980, 2619, Enabled, P0"


IN_A_SECOND = 'exec /usr/bin/timeout -k 1 1 "${@:4}"'


def probed(folder: Path, nvidia_smi: str, *python: str, timeout: str = IN_A_SECOND) -> tuple[dict[str, object], str]:
    """The description, and what the probe said, where a minute takes a second."""
    programs = {"nvidia-smi": nvidia_smi, "sleep": 'exec /bin/sleep "${1/#[1-9]*/2}"'}
    programs["timeout"] = timeout
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin"}
    command = ["bash", str(paths.TEMPLATES / "probe.sh"), *python]
    result = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=DEADLINE_S, check=True
    )
    node: dict[str, object] = json.loads((folder / "probe" / f"{os.uname().nodename}.json").read_text("utf-8"))
    return node, result.stderr


def test_the_gpus_and_the_driver_are_described(tmp_path: Path) -> None:
    node, said = probed(tmp_path, f"echo '{GPU}'; echo '{GPU}'")
    assert (node["driver"], said) == ("535.1", "")
    assert isinstance(node["gpus"], list)
    assert [gpu["name"] for gpu in node["gpus"]] == ["NVIDIA H100 80GB HBM3"] * 2
    assert node["gpus"][0]["pstate"] == "P0"


@pytest.mark.parametrize("hangs", ["exec /bin/sleep 100000", "trap '' TERM; while :; do /bin/sleep 1; done"])
def test_a_driver_that_hangs_is_named(tmp_path: Path, hangs: str) -> None:
    node, said = probed(tmp_path, hangs)
    assert node["gpus"] == []
    assert "nvidia-smi gave no answer" in said


def test_a_python_that_hangs_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/bash\nexec /bin/sleep 100000\n", encoding="utf-8")
    python.chmod(0o755)
    node, said = probed(tmp_path, f"echo '{GPU}'", str(python))
    assert (node["versions"], node["driver"]) == ({}, "535.1")
    assert f"{python} gave no answer" in said


def test_what_the_kernel_holds_is_not_awaited(tmp_path: Path) -> None:
    """Not even timeout returns then."""
    node, said = probed(tmp_path, f"echo '{GPU}'", timeout="exec /bin/sleep 100000")
    assert node["gpus"] == []
    assert "nvidia-smi gave no answer" in said
