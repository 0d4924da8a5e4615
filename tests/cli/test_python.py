"""The Python interface: the same numbers as the command line, as objects and pandas frames."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import kept_runs
import pytest
from test_contract import document

import benchrun
from benchrun import api, paths
from benchrun.errors import UserError
from benchrun.rundir.find import open_run

LOG = Path(__file__).parent.parent / "logs" / "09-megatron-core-2026-multinode-154it.log.xz"
RUNS = kept_runs.named()


@pytest.fixture(scope="module")
def kept() -> Path:
    return kept_runs.first("llama3.1-8b-2c0cb897-*")


def test_a_log_has_the_numbers_of_parse() -> None:
    run = benchrun.load(str(LOG))
    summary = document("parse", LOG, "--json", code=4)
    assert run.metrics == summary["metrics"]
    assert (run.spec, run.verdict, run.name) == (None, None, str(LOG))
    assert len(run.steps) == summary["num_steps"]
    counted = run.steps[~run.steps.warmup & ~run.steps.impossible]
    assert counted.step_time_s.median() == pytest.approx(summary["step_time_s"]["median"])
    assert int(run.steps.warmup.sum()) == summary["warmup_rows_dropped"]


def test_what_the_caller_states_completes_a_log() -> None:
    log = next(LOG.parent.glob("06-*"))
    assert benchrun.load(log).metrics["mfu_causal_pct"] is None
    assert benchrun.load(log, gpu="h100").metrics["mfu_causal_pct"] > 0
    assert benchrun.load(log, gpu="Mine", peak=1000.0).metrics["mfu_causal_pct"] == pytest.approx(33.66, abs=0.01)


def test_a_run_has_its_metrics_and_verdict(kept: Path) -> None:
    run = benchrun.load(kept)
    stored = json.loads((kept / "metrics.json").read_text())
    assert (run.metrics["step_time_s"], run.measurement.num_steps) == (
        stored["step_time_s"]["median"],
        stored["num_steps"],
    )
    assert run.verdict.verdict == json.loads((kept / "verdict.json").read_text())["verdict"]
    assert (run.name, run.recipe, run.spec.recipe) == (kept.name, "llama3.1-8b", "llama3.1-8b")


def test_a_frame_has_one_row_a_run_with_every_identifying_column() -> None:
    frame = benchrun.frame(paths.MEASURED)
    assert sorted(frame.name) == sorted(path.name for path in RUNS)
    training = next(path for path in RUNS if path.name.startswith("llama3.1-8b-"))
    run = benchrun.load(training)
    row = frame[frame.name == training.name].iloc[0]
    assert row.step_time_s == run.metrics["step_time_s"]
    for column in ("recipe", "framework", "gpu", "num_gpus", "precision", "gbs", "tp", "dp", "verdict", "ending"):
        assert row[column] == run.row()[column], column
    proxies = frame[frame.proxy != ""]
    assert 0 < len(proxies) < len(frame)
    assert all(" of " in proxy for proxy in proxies.proxy)


def test_runs_logs_and_folders_go_into_one_frame(kept: Path, tmp_path: Path) -> None:
    for index in (1, 2):
        (tmp_path / f"{index}.log.xz").write_bytes(LOG.read_bytes())
    frame = benchrun.frame(benchrun.load(kept), [LOG, str(kept)])
    assert list(frame.recipe.fillna("")) == ["llama3.1-8b", "", "llama3.1-8b"]
    assert set(benchrun.frame(kept / "stdout.log.xz", recipe="llama3.1-8b").recipe) == {"llama3.1-8b"}
    with pytest.raises(UserError, match="hidden_size"):  # the log is of another model
        benchrun.frame(LOG, recipe="llama3.1-8b")


def test_judging_reads_only_and_agrees_with_compare(kept: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    verdict = benchrun.compare(kept)
    assert verdict.model_dump(mode="json") == document("compare", kept, "--json", code=verdict.exit_code)
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == before


def test_repeats_are_compared_together_and_other_points_are_not(kept: Path) -> None:
    repeats = [path for path in RUNS if path.name.startswith("llama3.1-8b-2c0cb897-")]
    together = benchrun.compare(*repeats)
    assert together.runs == len(repeats) == 3
    with pytest.raises(UserError, match="2 points are judged together"):
        benchrun.compare(repeats[0], next(path for path in RUNS if path.name.startswith("llama2-7b-2385")))
    with pytest.raises(UserError, match="one by one"):
        benchrun.compare(kept / "stdout.log.xz", kept / "stdout.log.xz", recipe="llama3.1-8b")


def test_a_log_is_compared_as_by_the_command(kept: Path) -> None:
    log = kept / "stdout.log.xz"
    verdict = benchrun.compare(benchrun.load(log, recipe="llama3.1-8b"))
    words = ("compare", log, "--recipe", "llama3.1-8b", "--json")
    assert verdict.model_dump(mode="json") == document(*words, code=verdict.exit_code)
    assert benchrun.compare(log, recipe="llama3.1-8b") == verdict


def test_the_difference_of_two_runs_is_that_of_the_command() -> None:
    one, other = (path for path in RUNS if path.name[:22] in ("nemotron4-15b-45f862d1", "nemotron4-15b-994f1438"))
    difference = benchrun.diff(benchrun.load(one), other)
    assert difference.model_dump(mode="json") == document("diff", one, other, "--json", code=difference.exit_code)
    assert (
        benchrun.compare(other, reference=str(one)).checks[0].reference.value
        == benchrun.load(one).metrics["step_time_s"]
    )
    logs = benchrun.diff(benchrun.load(one / "stdout.log.xz"), benchrun.load(other / "stdout.log.xz"))
    assert logs.ratio == pytest.approx(difference.ratio)


def test_no_room_has_the_name_of_a_function() -> None:
    """Python would put the room in the function's place as soon as one of its modules is imported."""
    rooms = {path.stem for path in paths.PACKAGE.iterdir()}
    assert not rooms & {*benchrun.__all__}


def test_the_beginning_of_a_name_is_enough_where_it_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = "llama2-7b-lora-93f05e6c"
    whole = benchrun.load(kept).name
    assert whole.startswith(kept) and benchrun.load(str(paths.MEASURED / kept)).name == whole
    (tmp_path / whole).mkdir()
    shutil.copy(kept_runs.folder(whole) / "spec.json", tmp_path / whole)
    monkeypatch.chdir(tmp_path)  # "." begins the name of the only run here, and names none
    with pytest.raises(UserError, match="no run"):
        open_run(".")
    with pytest.raises(UserError, match="no run is called") as error:
        benchrun.load("llama2-7b-lora")
    assert "llama2-7b-lora-hf-" in str(error.value.hint)


def test_wrong_input_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run is called"):
        benchrun.load("nothing")
    with pytest.raises(UserError, match="does not name its recipe"):
        benchrun.compare(LOG)
    with pytest.raises(AttributeError):
        benchrun.nothing  # noqa: B018


def test_importing_it_is_cheap_and_it_is_typed() -> None:
    code = "import sys, benchrun; print(sorted({'pandas', 'pydantic', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    assert (paths.PACKAGE / "py.typed").exists()


def test_a_damaged_run_in_a_folder_is_left_out_with_a_warning(kept: Path, tmp_path: Path) -> None:
    for name in ("damaged", "whole"):
        shutil.copytree(kept, tmp_path / name)
    (tmp_path / "damaged" / "spec.json").write_text("{")
    with pytest.warns(UserWarning, match="damaged") as caught:
        frame = benchrun.frame(tmp_path)
    assert list(frame.name) == ["whole"]
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(UserError, match="damaged"):
        benchrun.load(tmp_path / "damaged")


def test_a_number_that_the_log_contradicts_is_refused() -> None:
    with pytest.raises(UserError, match=r"\.xz:\d+: --num-gpus 8 contradicts"):
        benchrun.load(LOG, num_gpus=8)
    with pytest.raises(UserError, match="contradicts"):
        benchrun.frame([LOG], num_gpus=8)


@pytest.mark.parametrize("wrong", [{"num_gpus": -3}, {"gbs": 0}, {"seq_length": "long"}, {"peak": float("nan")}])
def test_a_size_that_is_not_above_zero_is_refused(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(UserError, match=f"{name} is .* above zero"):
        benchrun.load(LOG, **wrong)


def test_repeats_are_compared_as_arguments_or_as_a_list(kept: Path) -> None:
    assert benchrun.compare([kept]) == benchrun.compare(kept)
    # A run named twice is one repeat.
    assert benchrun.compare([benchrun.load(kept), str(kept)]).runs == benchrun.compare(kept, kept).runs == 1
    with pytest.raises(UserError, match="no run was given"):
        benchrun.compare([])


def test_every_name_of_the_api_is_documented() -> None:
    assert [name for name in api.__all__ if not (getattr(api, name).__doc__ or "").strip()] == []


def test_the_api_imports_nothing_before_it_is_used() -> None:
    code = "import sys, benchrun.api\n"
    code += "print(sorted({'pydantic', 'yaml', 'numpy', 'click', 'benchrun.jobs'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_notebook_completes_the_names_of_the_api() -> None:
    assert dir(api) == sorted(api.__all__)
    assert {*benchrun.__all__} <= {*dir(benchrun)}


def test_a_name_that_it_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        api.no_such_use_case  # noqa: B018
