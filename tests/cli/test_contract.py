"""The commands print what other programs rely on: keys, exit codes, and nothing else on stdout."""

import json
import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import calling
import pytest

from benchrun import paths

LOGS = Path(__file__).parent.parent / "logs"
POINT = ["llama3.1-8b", "--gpu", "H100", "--precision", "fp8", "--num-gpus", "64", "--cluster", "dgx-h100"]


def call(*args: Path | str, cwd: Path | None = None, **env: str) -> CompletedProcess:
    """Run the command line in this process, or as a process of its own where it starts jobs."""
    if args[0] not in ("launch", "profile"):
        return calling.call(*args, cwd=cwd, **env)
    command = [sys.executable, "-m", "benchrun", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **env}, check=False)


def document(*args: Path | str, code: int = 0, **kwargs: Path | str) -> dict[str, Any] | list[Any]:
    result = call(*args, **kwargs)
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)


def test_list_has_a_row_a_point_with_exactly_these_keys() -> None:
    rows = document("list", "--json")
    keys = "recipe task framework gpu precision num_gpus proxy seq_length mbs gbs tp pp cp vp ep dp image reference"
    assert all(list(row) == [*keys.split(), "derived"] for row in rows)
    whole = {"llama3.1-405b", "mixtral-8x22b", "llama2-70b-sft", "tiny-llama", "tiny-llama-lora"}
    assert whole <= {row["recipe"] for row in rows}
    published = [r for r in rows if (r["recipe"], r["gpu"], r["proxy"]) == ("llama3.1-8b", "H100", False)]
    assert {row["num_gpus"] for row in published} == {8, 16, 32, 64, 128}
    assert {row["precision"] for row in published} == {"bf16", "fp8"}
    assert all(row["reference"] > 0 for row in published)


@pytest.mark.parametrize(("verb", "meant"), [("launch", "--num-gpus"), ("nodes", "--num-nodes")])
def test_the_number_of_nodes_is_understood(verb: str, meant: str) -> None:
    result = call(verb, "local", "--nodes", "2")
    assert (result.returncode, meant in result.stderr) == (2, True)


def test_show_is_the_run_spec_with_what_follows_from_it() -> None:
    shown = document("show", *POINT, "--json")
    assert shown["num_nodes"] == 8
    assert shown["dp"] == 32
    assert shown["model"]["params_total"] == 8_030_261_248
    assert shown["flops_per_token"]["causal"] == pytest.approx(51.47e9, rel=0.001)
    assert shown["flops_per_token"]["full"] == pytest.approx(57.91e9, rel=0.001)
    parts = shown["memory_gib"]
    assert parts["total"] == pytest.approx(sum(v for k, v in parts.items() if k != "total"), abs=0.05)
    assert 40 < parts["total"] < 80
    assert shown["references"][0]["source"]["where"]


def test_show_all_is_yaml_of_the_same() -> None:
    import yaml

    assert yaml.safe_load(call("show", *POINT, "--all").stdout) == document("show", *POINT, "--json")


def test_render_prints_the_script_and_writes_all_files(tmp_path: Path) -> None:
    printed = call("render", *POINT).stdout
    assert printed.startswith("#!/bin/bash\n")
    assert "'--container-image=nvcr.io#nvidia/nemo:25.07.01'" in printed
    result = call("render", *POINT, "--output", tmp_path / "new")
    assert result.returncode == 0
    assert (tmp_path / "new" / "job.sh").read_text() == printed
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"job.sh", "probe.sh", "telemetry.sh", "spec.json"}
    again = call("render", *POINT, "--output", tmp_path / "new")
    assert (again.returncode, "exists" in again.stderr) == (2, True)


def test_parse_begins_with_these_keys() -> None:
    summary = document(
        "parse", LOGS / "09-megatron-core-2026-multinode-154it.log.xz", "--warmup", "2", "--json", code=4
    )
    assert list(summary)[:17] == [
        "schema_version",
        "file",
        "framework",
        "segments",
        "first_step",
        "last_step",
        "planned_steps",
        "num_steps",
        "complete",
        "warmup_rows_dropped",
        "step_time_s",
        "tokens_per_s_per_gpu",
        "tflops_per_gpu_reported",
        "seq_length",
        "global_batch_size",
        "num_gpus",
        "problems",
    ]
    assert list(summary["step_time_s"]) == ["mean", "median", "stdev", "p5", "p95"]
    assert list(summary["tokens_per_s_per_gpu"]) == ["mean", "median"]
    assert summary["warmup_rows_dropped"] == 2
    assert summary["num_steps"] == 96
    assert all(list(problem) == ["kind", "line", "detail", "host", "rank"] for problem in summary["problems"])


def test_a_log_without_a_step_is_exit_code_4_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("hello\n")
    result = call("parse", tmp_path / "x.log", "--json")
    assert result.returncode == 4
    assert json.loads(result.stdout)["step_time_s"] is None
    assert "no step" in result.stderr


def test_compare_a_bare_log_uses_what_the_log_says(tmp_path: Path) -> None:
    line = (
        " [2026-01-01 00:00:00.000000] iteration {i:8d}/      50 | consumed samples: 1 | "
        "elapsed time per iteration (ms): {ms} | global batch size: {gbs:5d} | lm loss: 2.0E+00 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
    point = ["--recipe", "llama3.1-8b", "--gpu", "H100", "--precision", "fp8", "--num-gpus", "64", "--json"]

    def judged(ms: Any, gbs: Any, code: Any) -> Any:
        log = tmp_path / f"{ms}-{gbs}.log"
        log.write_text("".join(line.format(i=i, ms=ms, gbs=gbs) for i in range(1, 51)))
        return document("compare", log, *point, code=code)

    assert judged(9800.0, 1024, 0)["verdict"] == "pass"
    assert judged(11000.0, 1024, 1)["verdict"] == "slow"
    other = judged(9800.0, 512, 4)
    assert other["verdict"] == "not_comparable"
    assert [(d["key"], d["theirs"], d["ours"]) for d in other["differs"]] == [("gbs", 1024, 512)]
    assert list(other)[:9] == [
        "schema_version",
        "verdict",
        "reason",
        "ending",
        "runs",
        "checks",
        "differs",
        "nearest",
        "conditions",
    ]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["render", "nothing"], "no recipe is called 'nothing'"),
        (["parse", "x.log", "--recipe", "smoke"], "there is a suite: benchrun launch smoke"),
        (["launch", "smok"], "there is a suite: benchrun launch smoke"),
        (["render", "llama3.1-8b", "--gpu", "H100"], "add --precision"),
        (["render", *POINT, "--output", "/dev/null"], "/dev/null: cannot be written"),
        (["list", "llama3.1-8b", "--gpu", "H1000"], "there are points for B200, B300, GB200, GB300, GH200, H100, H200"),
        (["render", *POINT, "--set", "layout.tp=3"], "must be a multiple of tp (3)"),
        (["render", *POINT[:-1], "nowhere"], "no cluster is called 'nowhere'"),
        (["parse", "/no/such.log"], "cannot be read"),
        (["parse", str(LOGS / "README.md"), "--metric", "mfu_percent"], "add --plot FILE"),
        (["parse", str(paths.MEASURED)], "results/measured: holds "),
        (["compare", str(paths.MEASURED), "--recipe", "llama2-7b"], "results/measured: holds "),
        (["parse", str(LOGS / "README.md"), "--framework", "nemo9"], "no dialect for framework 'nemo9'"),
        (["compare", str(LOGS / "README.md")], "add --recipe"),
        (["compare", str(LOGS / "README.md"), "--recipe", "llama2-7b"], "the log has no step of any known framework"),
        (
            ["compare", "nothing", "--gpu", "H100", "--num-layers", "2"],
            "--gpu and --num-layers: a run states its own conditions",
        ),
        (["status", "nothing"], "no run is called 'nothing'"),
        (["cancel", ""], "the name of a run is empty"),
        (["render"], "Missing argument"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_input_is_exit_code_2_with_one_clear_message(args: list[str], says: str, tmp_path: Path) -> None:
    result = call(*args, cwd=tmp_path)
    assert result.returncode == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_run_is_not_compared_as_a_log(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "spec.json").write_text("{}")
    result = call("compare", "run", "--recipe", "llama3.1-8b", cwd=tmp_path)
    assert (result.returncode, "run is a run and states its own recipe" in result.stderr) == (2, True)


def test_where_slurm_is_missing_the_error_says_so_with_exit_code_3(tmp_path: Path) -> None:
    path = str(Path(sys.executable).parent)
    result = call("launch", *POINT, cwd=tmp_path, PATH=path)
    assert result.returncode == 3
    assert "sbatch is not on this machine" in result.stderr
    assert not (tmp_path / "results").exists()


def test_a_machine_that_cannot_write_is_exit_code_3_with_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "benchrun", "list", "tiny-llama"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (3, "error: No space left on device\n")


@pytest.mark.parametrize("verb", [["list"], ["parse", str(LOGS / "18-torchtitan-ansi-1gpu-2500it.log.xz")]])
def test_a_reader_that_goes_away_is_no_verdict(verb: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "benchrun", *verb]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


def test_a_refused_job_is_one_line_of_status(tmp_path: Path) -> None:
    path = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: Batch job submission failed: Invalid account' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    assert call("launch", *POINT, cwd=tmp_path, PATH=path).returncode == 3
    for _ in range(2):  # the first look writes down how it ended
        heading, *lines = call("status", cwd=tmp_path, PATH=path).stdout.splitlines()
        assert heading.split()[:4] == ["RUN", "STATE", "JOB", "NODES"]
        assert len(lines) == 1
        assert lines[0].count("Invalid account") == 1


def test_doctor_tells_a_slurm_that_fails_from_none(tmp_path: Path) -> None:
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\nexit 1\n")
    sinfo.chmod(0o755)
    slurm = document("doctor", "--json", PATH=str(tmp_path))[0]
    assert (slurm["found"], slurm["hint"]) == (None, "sinfo is installed but fails: is SLURM_CONF set?")


def test_a_dry_run_launches_nothing(tmp_path: Path) -> None:
    result = call("launch", "smoke", "--dry-run", cwd=tmp_path)
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 1 + 5, "a suite is a table, a point its script"
    assert call("launch", *POINT, "--dry-run", cwd=tmp_path).stdout.startswith("#!/bin/bash")
    assert not list(tmp_path.iterdir())


def test_doctor_answers_everywhere(tmp_path: Path) -> None:
    found = {finding["what"] for finding in document("doctor", "--json", cwd=tmp_path)}
    assert {"Slurm", "GPUs here", "torch", "free disk here"} <= found
