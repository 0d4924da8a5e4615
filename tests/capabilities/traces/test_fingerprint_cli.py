"""`benchrun fingerprint`: the contract's keys, exit codes, and tables of at most 100 columns."""

import json
from pathlib import Path

import kept_runs
import pytest
from click.testing import CliRunner
from made import kernel, message, write

from benchrun.cli import group
from benchrun.rundir.artifacts import FINGERPRINT, PROFILE

TRACES = Path(__file__).parent / "traces"
H200 = TRACES / "h200_llama_tp2_pp2_bf16"


def call(*args: Path | str) -> tuple[int, str, str]:
    from benchrun.console import run

    runner = CliRunner()
    with runner.isolation() as (out, err, _):
        try:
            code = run(group, "benchrun", ["fingerprint", *map(str, args)])
        except SystemExit as end:
            code = end.code
        return code or 0, out.getvalue().decode(), err.getvalue().decode()


def test_json_has_the_keys_of_the_contract() -> None:
    code, out, _ = call(H200, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema_version"] == 1
    assert {"window_s", "steps", "ranks", "collectives", "stragglers", "unknown_kernels"} <= set(document)
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1, 2, 3]
    rank = document["ranks"][0]
    assert {"rank", "device", "compute", "exposed_comm", "hidden_comm", "copy", "idle"} <= set(rank)
    assert set(rank["idle_by_cause"]) == {"host", "launch_gap", "data", "sync"}
    assert set(rank["classes"]) == {"matmul", "attention", "memory_bound", "communication"}
    keys = {"name", "group", "count", "bytes", "transfer_s", "waiting_s", "busbw_gb_s"}
    assert all(keys <= set(each) for each in document["collectives"])
    assert all(each["bytes"] is None for each in document["collectives"])  # the CPU was not profiled


@pytest.mark.parametrize("file", [H200, *TRACES.glob("*.xz")], ids=lambda file: file.name)
def test_tables_fit_a_terminal(file: Path) -> None:
    code, out, _ = call(file)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100


def test_tables_of_many_ranks_with_long_names_fit_too(tmp_path: Path) -> None:
    args = message("allreduce", 10**12, list(range(64)), description="a_very_long_description_of_some_process_group")
    for rank in range(64):
        events = [
            kernel(0, 10**8, "x" * 300, host="h" * 80),
            kernel(10**8, 123456.789, "ncclDevKernel_AllReduce", **args),
        ]
        write(tmp_path / f"rank{rank}.json", events)
    code, out, _ = call(tmp_path)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.json"], "nowhere.json"),
        ([H200, "--window", "steps"], "--window device"),
        ([H200, "--window", "week"], "week"),
        ([TRACES / "README.md"], "README.md"),
        ([TRACES / "README.md", "--json"], "README.md"),
        ([], "TRACE"),
    ],
)
def test_wrong_input_is_one_error_with_exit_code_2(args: list[str], words: str) -> None:
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_damaged_files_are_named_on_stderr(tmp_path: Path) -> None:
    write(tmp_path / "good.json", [kernel(0, 5)])
    (tmp_path / "bad.json").write_text('{"traceEvents": [{"ph": "X"')
    code, _, err = call(tmp_path)
    assert code == 2
    assert "bad.json" in err


@pytest.mark.parametrize(
    ("other", "kinds"),
    [("nsys_2gpu_training.sqlite.xz", "kineto and nsys"), ("hta_a100_8rank_control.json.xz", "A100-PG509-200 and")],
)
def test_traces_that_cannot_be_of_one_run_are_noted(other: str, kinds: str) -> None:
    code, out, _ = call(H200 / "trace-rank0.json.xz", TRACES / other)
    assert code == 0
    assert kinds in out
    assert "are they of one run?" in out
    assert "are they of one run?" not in call(H200)[1]


def test_gpus_are_counted_by_what_is_known_of_them() -> None:
    code, out, _ = call(TRACES / "nsys_2gpu_training.sqlite.xz", H200 / "trace-rank0.json.xz")
    assert code == 0
    assert out.startswith("2 x GPU, 1 x NVIDIA H200,")


def test_a_gpu_without_a_name_beside_one_with_a_name_is_noted(tmp_path: Path) -> None:
    gpus = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
    files = [write(tmp_path / "0.json", [kernel(0, 5)]), write(tmp_path / "1.json", [kernel(0, 5)], **gpus)]
    assert "are they of one run?" in call(*files)[1]


@pytest.mark.parametrize(("apart_s", "noted"), [(1, False), (3600, True)])
def test_traces_of_different_times_are_noted(tmp_path: Path, apart_s: int, noted: bool) -> None:
    """Both count from a base that the file states."""
    first, second = (
        write(tmp_path / f"{number}.json", [kernel(0, 5)], baseTimeNanoseconds=10**18) for number in (0, 1)
    )
    write(second, [kernel(apart_s * 1e6, 5)], baseTimeNanoseconds=10**18)
    assert ("are they of one run?" in call(first, second)[1]) is noted
    write(second, [kernel(0, 5)], baseTimeNanoseconds=10**18 + apart_s * 10**9)
    assert ("are they of one run?" in call(first, second)[1]) is noted


def test_a_run_is_named_by_its_directory_or_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / "a-run"
    (run / "profile").mkdir(parents=True)
    write(run / "profile" / "rank0.json", [kernel(0, 5), kernel(5, 5)])
    (run / "spec.json").write_text("{}")
    (run / "metrics.json").write_text("{}")
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    answers = [call(name, "--json") for name in (run, run.name, run / "profile")]
    assert [(code, err) for code, _, err in answers] == [(0, "")] * 3
    assert len({out for _, out, _ in answers}) == 1


def test_a_kept_run_without_its_traces_gives_what_was_kept_and_says_so() -> None:
    alone = (run for run in map(kept_runs.folder, kept_runs.named(file=FINGERPRINT)) if not (run / PROFILE).exists())
    kept = next(path for path in alone if json.loads((path / FINGERPRINT).read_text())["window"] == "steps")
    code, out, err = call(kept, "--window", "device", "--json")
    assert (code, json.loads(out)["window"]) == (0, "steps")
    assert "--window steps" in err
    assert call(kept, "--window", "steps")[2] == ""


def test_a_run_without_a_profile_says_so(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text("{}")
    write(tmp_path / "rank0.json", [kernel(0, 5)])
    code, out, err = call(tmp_path)
    assert (code, out) == (2, "")
    assert "was not profiled" in err and "benchrun profile" in err
