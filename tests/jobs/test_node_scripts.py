"""The sampler beside a GPU run, with a stand-in for nvidia-smi: it never changes how the job goes or ends."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S

from benchrun import api, paths
from benchrun.jobs.endings import Ending
from benchrun.measure.samples import COLUMNS, read
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

SAMPLES = """
for argument in "$@"; do case $argument in
  --query-gpu=*clocks_event_reasons*) [ -z "${OLD_DRIVER-}" ] || { echo "Field is not a valid field"; exit 2; } ;;
esac; done
case "$*" in *--loop=1*) ;; *) exit 0 ;; esac
echo $$ >"$SAMPLER_PID"
while :; do
  echo "$(date +%Y/%m/%d\\ %H:%M:%S).000, 0, 1755, 2619, 640.12, 700.00, 61, 99, 71234, 0x0000000000000004"
  sleep 0.1
done
"""
SAMPLED = 'until [ "$(cat telemetry/*.csv 2>/dev/null | wc -l)" -gt 4 ]; do sleep 0.05; done'


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a GPU job on this machine: a few lines of shell train, ``smi`` stands in for nvidia-smi."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SAMPLER_PID", str(tmp_path / "pid"))

    def run(training: Any, smi: Any = SAMPLES) -> Any:
        executable(tmp_path / "nvidia-smi", smi)
        program = executable(tmp_path / "train", f'[ "$*" != - ] || exit 0  # asked for its packages\n{training}')
        site = ("cluster.scheduler=local", "cluster.container.runtime=none", f"cluster.python={program}")
        site = (*site, "cluster.frameworks.megatron-lm.path=/opt/megatron-lm")
        spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8, cluster="dgx-h100", overrides=site))
        started = api.start(spec, tmp_path / "runs")
        observation = api.wait(started, lambda *_: None)
        return started, api.record_end(observation)

    return run


def test_it_samples_while_the_job_runs_and_ends_with_it(
    job: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "JST-9")
    run, end = job(f"{SAMPLED}; exit 7")
    assert (end.ending, end.exit_code) == (Ending.FAILED, 7)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    (text,) = run.telemetry().values()
    assert text.splitlines()[0].split(",") == ["time", "gpu", *COLUMNS, "reasons"]
    (trace,) = read(text).values()
    assert len(trace) > 2
    assert (trace["power_w"][0], trace["reasons"][0]) == (640.12, 4)
    ended = (run.path / "done.json").stat().st_mtime
    assert abs(trace["time"][-1] - ended) < 60, "its clock is not UTC"


def test_an_older_driver_is_asked_for_the_reasons_by_their_older_name(
    job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLD_DRIVER", "1")
    run, _ = job(SAMPLED)
    assert [len(read(text)) for text in run.telemetry().values()] == [1]


@pytest.mark.parametrize(
    ("visible", "refused", "asked"),
    [("", False, ""), ("2,3", False, "--id=2,3"), ("MIG-1/2/3", True, "")],
)
def test_of_a_shared_node_the_jobs_own_gpus_are_sampled(
    job: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, refused: bool, asked: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    refuse = f'case "$*" in *--id=*) {"exit 6" if refused else ":"} ;; esac\n'
    note = f'case "$*" in *--loop=1*) echo "$1" >{tmp_path}/asked ;; esac\n'
    job(SAMPLED, smi=refuse + note + SAMPLES)
    first = (tmp_path / "asked").read_text().strip()
    assert first == asked or (not asked and first.startswith("--query-gpu="))


def test_a_sampler_that_fails_changes_nothing(job: Callable[..., Any]) -> None:
    run, end = job(
        "until grep -qs NVML telemetry/errors; do sleep 0.05; done", smi="echo Failed to initialize NVML >&2; exit 9"
    )
    assert (end.ending, end.exit_code) == (Ending.INCOMPLETE, 0)
    assert (run.path / "stderr.log").read_text() == ""
    assert "NVML" in (run.path / "telemetry" / "errors").read_text()
    assert [read(text) for text in run.telemetry().values()] == [{}]


def test_a_node_without_nvidia_smi_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "telemetry.sh"
    script.write_text(render(resolve(Request("llama3.1-8b", "H100", "bf16", 8)))["telemetry.sh"])
    done = subprocess.run(["/bin/bash", script], cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == [script]


def test_nothing_is_sampled_on_cpus() -> None:
    files = render(resolve(Request("tiny-llama", "CPU", "fp32", 1)))
    assert "telemetry.sh" not in files
    assert "telemetry" not in files["job.sh"]


# The description of a node: what hangs is named, and the job goes on without it.

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
