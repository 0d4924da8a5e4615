"""Files of another run, and damaged ones, are left out and named; what is left explains the run."""

import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import kept_runs
import pytest
from known import known
from selection import representative
from test_explain_cli import TRACES, call, document
from test_with_a_trace import rank, trace

from benchrun import api, paths
from benchrun.capabilities.explain.foreign import foreign_breakdown, foreign_trace
from benchrun.rundir.artifacts import BREAKDOWN, CEILINGS, FINGERPRINT, HOST, RANKS

ONE_GPU = "llama3.1-8b-3d2e1113-20261123T032821Z-6cac"
SLOW_LOADER = TRACES / "nsys_2025_h200_slow_loader.sqlite.xz"
STEP_S = 4.28
DIVIDED = kept_runs.named(file=BREAKDOWN)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of a kept run on one H100, with breakdown and fingerprint, without its trace."""
    without = shutil.ignore_patterns("profile")
    return Path(shutil.copytree(kept_runs.folder(ONE_GPU), tmp_path / ONE_GPU, ignore=without))


def notes(found: dict[str, Any], word: str) -> list[str]:
    return [line for line in found["missing"] if word in line]


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_given_trace_of_another_gpu_is_refused(run: Path) -> None:
    code, out, err = call("explain", run, "--trace", SLOW_LOADER)
    assert (code, out) == (2, "")
    assert err.count("error:") == 1
    assert "the trace is not of" in err
    assert "H200" in err


def test_a_trace_of_another_gpu_in_the_runs_folder_is_left_out(run: Path, tmp_path: Path) -> None:
    (run / BREAKDOWN).unlink()
    (run / FINGERPRINT).unlink()
    without = document("explain", run)
    (run / "profile").mkdir()
    (run / "profile/rank0.sqlite").write_bytes(lzma.decompress(SLOW_LOADER.read_bytes()))
    found = document("explain", run)
    assert found["waterfall"] == without["waterfall"]
    (line,) = notes(found, "the trace is left out")
    assert "it is of H200" in line
    assert line in call("explain", run)[1]


@pytest.mark.parametrize(
    ("ranks", "step_s", "gpu", "why"),
    [
        (4, STEP_S, "NVIDIA H200", None),
        (4, 0.6 * STEP_S, None, None),
        (4, 2.4 * STEP_S, "NVIDIA H200", None),
        (4, 0.4 * STEP_S, "NVIDIA H200", "its step takes"),
        (4, 2.6 * STEP_S, None, "its step takes"),
        (5, STEP_S, "NVIDIA H200", "it has 5 ranks, the run 4"),
        (1, STEP_S, "NVIDIA H100 80GB HBM3", "it is of H100"),
    ],
)
def test_a_trace_is_of_the_run_by_gpu_ranks_and_step(ranks: int, step_s: float, gpu: str | None, why: str) -> None:
    each = [rank(number).model_copy(update={"gpu": gpu}) for number in range(ranks)]
    found = foreign_trace(trace(*each, step_s=step_s), known(step_s=STEP_S))
    assert (found is None) is (why is None)
    assert not why or why in found


def test_a_trace_without_marked_steps_has_no_step_to_compare() -> None:
    unmarked = trace(rank(0), step_s=100.0).model_copy(update={"steps": None})
    assert foreign_trace(unmarked, known(step_s=STEP_S)) is None


@pytest.mark.parametrize(
    ("name", "factor", "why"),
    [
        ("step_s", 0.3, "its step takes"),
        ("step_s", 1e30, "its step takes"),
        ("matmul_s", 1e30, "its parts add up to"),
        ("matmul_s", float("inf"), "not finite"),
        ("hidden_s", float("inf"), "not finite"),
    ],
)
def test_an_absurd_breakdown_is_left_out_and_named(run: Path, name: str, factor: float, why: str) -> None:
    value = json.loads((run / BREAKDOWN).read_text())[name] or 1.0
    change(run / BREAKDOWN, **{name: value * factor})
    absurd = document("explain", run)
    assert why in notes(absurd, BREAKDOWN)[0]
    (run / BREAKDOWN).unlink()
    assert absurd["waterfall"] == document("explain", run)["waterfall"]


def test_one_gpu_does_not_communicate(run: Path) -> None:
    old = json.loads((run / BREAKDOWN).read_text())
    change(run / BREAKDOWN, matmul_s=old["matmul_s"] - 0.4, communication_s=0.4)
    assert "the run has 1 GPU" in notes(document("explain", run), BREAKDOWN)[0]


@pytest.mark.parametrize("path", representative(DIVIDED), ids=lambda path: path.name)
def test_no_kept_profile_is_left_out(path: Path) -> None:
    found = api.evidence(api.open_run(str(path)))
    assert found.breakdown is not None
    assert foreign_breakdown(found.breakdown, found) is None
    assert not found.notes


@pytest.mark.parametrize(
    ("file", "other", "why"),
    [
        (CEILINGS, "grok1-314b-82a07837-20261121T185519Z-af6c", "it is of H200"),
        (CEILINGS, "grok1-314b-dde72990-20261121T212504Z-0d8b", "its products have"),
        (RANKS, "llama3.1-8b-86062d5a-20261123T032820Z-3445", "it has 2 ranks"),
        (HOST, "llama3.1-8b-86062d5a-20261123T032820Z-3445", "it has 2 ranks"),
    ],
)
def test_a_document_of_another_run_is_left_out_and_named(run: Path, file: str, other: str, why: str) -> None:
    shutil.copy(kept_runs.folder(other) / file, run / file)
    foreign = document("explain", run)
    (line,) = notes(foreign, f"{file} is left out")
    assert why in line
    (run / file).unlink()
    assert foreign["waterfall"] == document("explain", run)["waterfall"]


def test_ranks_that_compute_longer_than_a_step_are_of_another_run(run: Path) -> None:
    ranks = json.loads((run / RANKS).read_text())
    for each in ranks["ranks"]:
        each["compute_time_s"] = [10 * seconds for seconds in each["compute_time_s"]]
    change(run / RANKS, **ranks)
    assert notes(document("explain", run), f"{RANKS} is left out: a rank computes")


@pytest.mark.parametrize(("file", "field"), [(RANKS, "compute_time_s"), (HOST, "garbage_s")])
def test_a_time_that_is_not_finite_is_damage(run: Path, file: str, field: str) -> None:
    found = json.loads((run / file).read_text())
    found["ranks"][0][field][5] = float("inf")
    change(run / file, **found)
    assert notes(document("explain", run), f"{file} is damaged and left out")


@pytest.mark.parametrize("text", ["", "null", "{}", '{"schema_version": 1, "ranks": ['])
@pytest.mark.parametrize("name", [BREAKDOWN, CEILINGS, HOST, RANKS, FINGERPRINT])
def test_a_damaged_file_is_left_out_and_named(run: Path, name: str, text: str) -> None:
    (run / name).write_text(text)
    damaged = document("explain", run)
    (line,) = notes(damaged, f"{name} is damaged and left out")
    assert line in call("explain", run)[1]
    (run / name).unlink()
    assert damaged["waterfall"] == document("explain", run)["waterfall"]


def test_a_missing_file_is_not_called_damaged(run: Path) -> None:
    for name in (BREAKDOWN, CEILINGS, HOST, RANKS, FINGERPRINT):
        (run / name).unlink()
    assert not notes(document("explain", run), "damaged")


def test_waits_that_are_longer_than_the_step_are_no_fault(run: Path) -> None:
    hosts = json.loads((run / HOST).read_text())
    waits = [each | {"data_s": [2 * STEP_S for _ in each["data_s"]]} for each in hosts["ranks"]]
    change(run / HOST, ranks=waits)
    change(run / BREAKDOWN, data_of_ranks_s=[2 * STEP_S])
    found = document("explain", run)
    assert notes(found, f"{HOST} is left out") and notes(found, f"{BREAKDOWN} is left out")
    assert not [cause for cause in found["causes"] if cause["cause"] == "data"]


def test_products_faster_than_the_peak_are_no_ceilings(run: Path) -> None:
    ceilings = json.loads((run / CEILINGS).read_text())
    for each in ceilings["gemms"]:
        each["tflops"] = {
            name: {step: 10 * rate for step, rate in rates.items()} for name, rates in each["tflops"].items()
        }
    change(run / CEILINGS, gemms=ceilings["gemms"])
    assert notes(document("explain", run), f"{CEILINGS} is left out")


@pytest.mark.parametrize(
    "damage", [{"compute": 57.0}, {"idle": -3.0}, {"compute": 0.01}, {"classes": {"attention": -0.15}}, None]
)
def test_shares_that_do_not_divide_the_window_are_no_fingerprint(run: Path, damage: dict[str, Any] | None) -> None:
    ranks = json.loads((run / FINGERPRINT).read_text())["ranks"]
    for rank_ in ranks:
        for name, value in (damage or {}).items():
            rank_[name] = rank_[name] | value if isinstance(value, dict) else value
    change(run / FINGERPRINT, ranks=ranks if damage else [])
    assert notes(document("explain", run), f"{FINGERPRINT} is damaged and left out")
    code, out, err = call("fingerprint", run)
    assert (code, out) == (2, "") and FINGERPRINT in err


def test_a_rank_that_reduces_with_itself_has_a_breakdown(run: Path) -> None:
    file = run / BREAKDOWN
    profiled = json.loads(file.read_text())
    change(file, communication_s=0.003 * profiled["step_s"], idle_s=profiled["idle_s"] - 0.003 * profiled["step_s"])
    assert not notes(document("explain", run), "is left out")
    change(file, communication_s=0.1 * profiled["step_s"], other_s=profiled["other_s"] - 0.1 * profiled["step_s"])
    assert notes(document("explain", run), f"{BREAKDOWN} is left out")


def test_a_run_that_is_not_slower_has_no_fault_beside_the_other(run: Path) -> None:
    (run / RANKS).unlink()
    found = document("explain", paths.MEASURED / ONE_GPU, "--against", run)
    assert not [cause for cause in found["causes"] if cause["kind"] == "fault"]
    assert notes(found, "not clearly slower")


def test_what_is_left_out_of_the_other_run_is_named_too(run: Path) -> None:
    (run / BREAKDOWN).write_text("{}")
    found = document("explain", paths.MEASURED / ONE_GPU, "--against", run)
    assert notes(found, f"{run.name}: {BREAKDOWN} is damaged")
