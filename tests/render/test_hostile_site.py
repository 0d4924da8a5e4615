"""Nothing that a site file holds as text is ever run: the job script hands it on, whole, as one word."""

import json
import os
import subprocess
import typing
from pathlib import Path

import pytest

from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.cluster import Runtime
from benchrun.runspec.spec import RunSpec

NASTY = """'"; touch pwned; $(touch pwned) `touch pwned` ${IFS} #x %j \\ \\' ! * ü & | > pwned"""
PATH = NASTY.replace(":", "").replace(",", "")
FIELDS = ("partition", "account", "qos", "reservation", "constraint", "nodelist", "exclude", "mem", "mpi", "python")
RUNTIMES = typing.get_args(Runtime)


def nasty(runtime: str, gpu: str) -> RunSpec:
    """A site file whose every free text is hostile; the setup lines are shell by design, and stay out of it."""
    values = {
        **dict.fromkeys(FIELDS, NASTY),
        "gres": f"{NASTY}x",
        "description": NASTY,
        "env.NASTY": f"{NASTY}\n{NASTY}",
        "sbatch_options": [f"--comment={NASTY}"],
        "srun_options": [f"--network={NASTY}"],
        "binding.cpu_bind": None if runtime == "docker" else NASTY,
        "binding.gpus_per_numa_node": None,
        "container.runtime": runtime,
        "container.image": NASTY,
        "container.mounts": [f"/{PATH}:/{PATH}"],
        "container.options": [f"--nasty={NASTY}"],
        "frameworks": {"megatron-lm": {"path": f"/{NASTY}", "python": NASTY}},
    }
    overrides = tuple(f"cluster.{key}={json.dumps(value)}" for key, value in values.items())
    request = {"CPU": ("tiny-llama", "CPU", "fp32", 1), "H100": ("llama3.1-8b", "H100", "fp8", 8)}[gpu]
    return resolve(Request(*request, None, {"CPU": "slurm-cpu", "H100": "dgx-h100"}[gpu], overrides))


@pytest.mark.parametrize("gpu", ["CPU", "H100"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_hostile_text_reaches_srun_as_words(tmp_path: Path, runtime: str, gpu: str) -> None:
    spec = nasty(runtime, gpu)
    for name, text in render(spec).items():
        (tmp_path / name).write_text(text)
    assert subprocess.run(["bash", "-n", "job.sh"], cwd=tmp_path, check=False).returncode == 0
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for command, text in {"srun": 'printf "%s\\0" "$@" >>"$WORDS"', "scontrol": "echo n1"}.items():
        (stubs / command).write_text(f"#!/bin/bash\n{text}\n")
        (stubs / command).chmod(0o755)
    env = {
        "PATH": f"{stubs}{os.pathsep}{os.environ['PATH']}",
        "WORDS": str(tmp_path / "words"),
        "SLURM_JOB_ID": "12001",
    }
    ran = subprocess.run(
        ["bash", "job.sh"], cwd=tmp_path, env={**env, "SLURM_JOB_NODELIST": "n1"}, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert not (tmp_path / "pwned").exists()
    words = set((tmp_path / "words").read_text().split("\0"))
    expected = {f"--mpi={NASTY}", f"--network={NASTY}"}
    if runtime != "none":
        expected.add(f"--nasty={NASTY}")
        assert any(NASTY in word for word in words - expected)  # the image
        assert any(PATH in word and "type=bind" in word for word in words) == (runtime in ("podman", "docker"))
    assert expected <= words


@pytest.mark.parametrize(
    ("job", "port"), [("1", "20001"), ("11999", "31999"), ("12000", "20000"), ("67043328", "31328")]
)
def test_the_port_is_below_those_that_linux_gives_out(job: str, port: str) -> None:
    text = render(resolve(Request("tiny-llama", "CPU", "fp32", 1, None, "slurm-cpu", ())))["job.sh"]
    line = next(line for line in text.splitlines() if line.startswith("MASTER_PORT="))
    command = ["bash", "-c", f'SLURM_JOB_ID={job}\n{line}\necho "$MASTER_PORT"']
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{port}\n"
