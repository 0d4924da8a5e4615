"""`benchrun explain` and `benchrun diff`: the contract's keys, exit codes, tables of at most 100 columns."""

import json
import lzma
import shutil
import sqlite3
from pathlib import Path
from typing import Any, get_args

import kept_runs
import pytest
from click.testing import CliRunner
from known import DENSE, TENSOR

from benchrun import api, paths
from benchrun.capabilities.explain import advice
from benchrun.capabilities.explain.model import Name
from benchrun.capabilities.explain.usecase import WORK
from benchrun.cli import group
from benchrun.judge.conditions import conditions
from benchrun.judge.measured import load_measured
from benchrun.judge.references import Reference, load_references
from benchrun.runspec.spec import TrainingSpec

SAME = [str(paths.MEASURED / f"llama3.1-8b-2c0cb897-20261122T{end}") for end in ("034618Z-c54f", "034618Z-dc5d")]
FP8, BF16 = SAME[0], str(paths.MEASURED / "llama3.1-8b-8436ee68-20261122T035500Z-0cc4")

TRACES = Path(__file__).parents[1] / "traces/traces"


def call(*args: Any) -> tuple[int, str, str]:
    from benchrun.console import run

    runner = CliRunner()
    with runner.isolation() as (out, err, _):
        try:
            code = run(group, "benchrun", [*map(str, args)])
        except SystemExit as end:
            code = end.code
        return code or 0, out.getvalue().decode(), err.getvalue().decode()


def document(*args: Any) -> dict[str, Any]:
    code, out, err = call(*args, "--json")
    found = json.loads(out)
    if args[0] == "explain":
        assert (code, err) == (int(has_fault(found)), "")
    return found


def has_fault(found: dict[str, Any]) -> bool:
    """Whether a fault costs 3 % of the step or more."""
    least = 0.03 * found["step_time_s"]
    return any(cause["kind"] == "fault" and cause["seconds"] >= least for cause in found["causes"])


def test_a_server_has_no_steps_to_explain() -> None:
    code, out, err = call("explain", paths.MEASURED / "deepseek-r1-inference-1167e5bf-20261124T165114Z-3d77")
    assert (code, out) == (2, "")
    assert "has no steps to explain" in err and "benchrun report" in err


def test_json_has_the_keys_of_the_contract() -> None:
    found = document("explain", paths.MEASURED / TENSOR)
    assert list(found)[:5] == ["schema_version", "run", "step_time_s", "waterfall", "causes"]
    assert sum(part["seconds"] for part in found["waterfall"]) == pytest.approx(found["step_time_s"], rel=1e-4)
    assert {"part", "seconds"} <= set(found["waterfall"][0])
    keys = {"cause", "kind", "seconds", "saving_s", "rank", "host", "since_step", "evidence", "advice", "cures"}
    assert all(set(cause) == keys for cause in found["causes"])
    assert found["causes"][0]["cause"] == "exposed_tp"


def test_every_cause_has_advice() -> None:
    assert {row["cause"] for row in paths.table(advice.__file__) if not row["set"]} == set(get_args(Name))


@pytest.mark.parametrize("run", [DENSE, TENSOR])
def test_tables_fit_a_terminal(run: str) -> None:
    code, out, _ = call("explain", paths.MEASURED / run)
    (table,) = (section for section in out.split("\n\n") if section.startswith("part"))
    assert code == 0
    assert max(map(len, table.splitlines())) <= 100


def test_a_page_is_markdown() -> None:
    code, out, _ = call("explain", paths.MEASURED / TENSOR, "--format", "markdown")
    assert (code, out[:2]) == (0, "# ")
    assert "| --- |" in out


def test_another_run_of_the_same_work_shows_what_is_slower() -> None:
    names = ("llama3.1-8b-94223d62-20261121T183753Z-99bb", "llama3.1-8b-a80da28f-20261122T062928Z-54a1")
    before, after = (paths.MEASURED / name for name in names)
    found = document("explain", after, "--against", before)
    assert found["against"]["ratio"] == document("diff", before, after)["ratio"]
    assert [cause for cause in found["causes"] if cause["kind"] == "fault"]


def test_a_slow_run_says_what_takes_longer_than_in_its_reference_and_ends_with_1() -> None:
    """Its largest part is a choice, of which only a part is longer than in the reference."""
    name, reference = "nemotron4-15b-994f1438-20261122T062928Z-67ff", "nemotron4-15b-45f862d1-20261121T185519Z-777a"
    code, text, _ = call("explain", paths.MEASURED / name)
    head = text.splitlines()[0]
    assert (code, "no fault" in head) == (1, False)
    assert head.endswith(f"exposed_dp, 0.133 s of a step, 0.0854 s in {reference}")
    found = json.loads(call("explain", paths.MEASURED / name, "--json")[1])
    costs = {cause["kind"]: cause for cause in found["causes"][:2]}
    assert {cause["cause"] for cause in costs.values()} == {"exposed_dp"}
    assert sum(cause["seconds"] for cause in costs.values()) == pytest.approx(0.1333, abs=1e-4)
    assert reference in costs["fault"]["advice"]


@pytest.mark.parametrize("metric", ["tokens_per_s_per_gpu", "step_time_s"])
def test_a_published_number_is_a_step_of_this_run(metric: str) -> None:
    """Also where it was published for another batch."""
    run, entry = next(
        (run, entry)
        for run in load_measured()
        for entry in load_references()
        if entry.metric == metric and entry.tokens_per_s_per_gpu and same_work(run.spec, entry)
    )
    against = document("explain", str(run.folder), "--against", entry.id)["against"]
    own = api.measure_run(api.open_run(str(run.folder))).metrics.step_time_s.median
    rate = run.spec.tokens_per_step / run.spec.num_gpus / own
    assert against["name"] == entry.id
    assert against["ratio"] == pytest.approx(entry.tokens_per_s_per_gpu / rate)


def same_work(spec: TrainingSpec, entry: Reference) -> bool:
    return all(getattr(entry.key, name) == getattr(conditions(spec), name) for name in WORK)


def test_a_published_number_of_other_work_is_refused() -> None:
    entry = next(each for each in load_references() if each.key.recipe == "nemotron4-15b")
    code, _, stderr = call("explain", FP8, "--against", entry.id)
    assert code == 2
    assert "is of other work" in stderr


def test_repeats_are_as_fast_and_differ_in_nothing() -> None:
    code, out, _ = call("diff", *SAME, "--json")
    found = json.loads(out)
    assert code in (0, 1)
    assert found["ratio"] == pytest.approx(1, abs=0.01)
    assert not [each for each in found["differs"] if each["name"] != "clock (MHz)"]


def test_a_slower_run_is_slower_beyond_the_interval() -> None:
    code, out, _ = call("diff", FP8, BF16, "--json")
    found = json.loads(out)
    assert code == 1
    assert 1 < found["interval"]["low"] <= found["ratio"] <= found["interval"]["high"]
    assert {"name": "precision", "a": "fp8", "b": "bf16"} in found["differs"]
    seconds = [abs(part["b"] - part["a"]) for part in found["parts"]]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(part["b"] - part["a"] for part in found["parts"]) == pytest.approx(11.9 - 8.3, abs=0.1)
    assert call("diff", BF16, FP8)[0] == 0
    assert max(map(len, call("diff", BF16, FP8)[1].splitlines()[1:])) <= 120


def test_logs_are_compared_by_what_they_state() -> None:
    logs = [Path(run) / "stdout.log.xz" for run in (FP8, BF16)]
    for pair in (logs, [FP8, logs[1]]):
        code, out, _ = call("diff", *pair, "--json")
        found = json.loads(out)
        assert code == 1
        assert found["ratio"] == pytest.approx(11.9 / 8.3, rel=0.01)
        assert {"name": "precision", "a": "fp8", "b": "bf16"} in found["differs"]
        assert found["parts"] == []


def test_several_are_compared_with_the_first() -> None:
    code, out, _ = call("diff", FP8, BF16, SAME[1], "--json")
    assert [each["b"] for each in json.loads(out)] == [Path(BF16).name, Path(SAME[1]).name]
    assert code == 1
    assert call("diff", FP8)[0] == 2


def test_damaged_traces_of_a_run_are_named_and_hide_nothing(tmp_path: Path) -> None:
    run = tmp_path / Path(FP8).name
    shutil.copytree(kept_runs.folder(FP8), run)
    (run / "profile").mkdir()
    (run / "profile/rank0.json").write_text('{"traceEvents": [')
    found = document("explain", run)
    assert found["waterfall"] == document("explain", FP8)["waterfall"]
    assert [words for words in found["missing"] if "profile" in words]


def test_a_trace_in_the_runs_folder_is_read(tmp_path: Path) -> None:
    """A trace of another program on this GPU, stretched to the step of the run."""
    source = kept_runs.folder("llama3.1-8b-3d2e1113-20261123T032821Z-6cac")
    run, trace = tmp_path / source.name, tmp_path / "rank0.json"
    shutil.copytree(source, run, ignore=shutil.ignore_patterns("breakdown.json", "fingerprint.json", "profile"))
    events = json.loads(lzma.decompress((TRACES / "tracelens_h100_qwen.json.xz").read_bytes()))
    for event in events["traceEvents"]:
        event |= {key: 35 * float(event[key]) for key in ("ts", "dur") if key in event}
    trace.write_text(json.dumps(events))
    given = document("explain", run, "--trace", trace)
    (run / "profile").mkdir()
    shutil.copy(trace, run / "profile")
    parts = {part["part"] for part in document("explain", run)["waterfall"]}
    assert "launches too late" in parts
    assert not [part for part in parts if part.startswith("not separated")]
    assert given["waterfall"] == document("explain", run)["waterfall"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["explain", "nothing-here"], "no run is called"),
        (["explain", FP8, "--against", "nothing-here"], "no run is called"),
        (["explain", FP8, "--trace", "/nowhere/x.json"], "No such file"),
        (["diff", FP8, "nothing-here"], "no run is called"),
    ],
)
def test_wrong_input_is_one_error_with_exit_code_2(args: list[str], words: str) -> None:
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert err.count("error:") == 1
    assert words in err


def test_a_run_without_steps_says_so(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "spec.json").write_bytes((kept_runs.folder(FP8) / "spec.json").read_bytes())
    code, _, err = call("explain", run)
    assert code == 4
    assert "no measured step" in err
    code, out, err = call("explain", run, "--json")
    assert (code, "no measured step" in err) == (4, True)
    found = json.loads(out)
    assert (found["step_time_s"], found["causes"], found["hang"]) == (None, [], None)
    assert "no measured step" in found["missing"][0]


def test_a_workload_of_a_wrong_kind_is_named(tmp_path: Path) -> None:
    spec = json.loads((kept_runs.folder(FP8) / "spec.json").read_text())
    (tmp_path / "spec.json").write_text(json.dumps({**spec, "workload": ["training"]}))
    code, _, err = call("explain", tmp_path)
    assert (code, "no workload is called" in err) == (2, True)


ALONE = kept_runs.named("llama2-7b-lora-hf-ee656bf0-*")[0]
"""A run on one GPU, which copies activations to the host."""


def test_one_gpu_has_no_communication() -> None:
    parts = [part["part"] for part in json.loads(call("explain", str(ALONE), "--json")[1])["waterfall"]]
    assert parts
    assert not [part for part in parts if "communication" in part and not part.startswith("not separated")]


def test_runs_of_two_models_say_that_their_ratio_is_none_of_speed() -> None:
    proxy = kept_runs.named("llama2-7b-05418cd5-*")[0]
    whole = kept_runs.named("llama2-7b-b5326f70-*")[0]
    assert "models      differ (model.num_layers 32 and 8)" in call("diff", str(whole), str(proxy))[1]
    assert "models " not in call("diff", FP8, BF16)[1]


@pytest.mark.parametrize("verb", ["explain", "diff", "parse"])
@pytest.mark.parametrize("kind", ["kineto", "nsight"])
def test_a_trace_in_place_of_a_log_names_what_reads_it(tmp_path: Path, verb: str, kind: str) -> None:
    trace, log = tmp_path / "x", tmp_path / "y.log"
    if kind == "nsight":
        sqlite3.connect(trace).execute("create table t (x)").connection.close()
    else:
        trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1}]}))
    log.write_text('{"name": "no trace"}\n')
    code, _, stderr = call(verb, *([trace, FP8] if verb == "diff" else [trace]))
    assert code == 4
    assert f"benchrun fingerprint {trace}" in stderr
    code, _, stderr = call(verb, *([log, FP8] if verb == "diff" else [log]))
    assert code == 4
    assert "fingerprint" not in stderr


@pytest.mark.parametrize("verb", ["explain", "diff"])
def test_a_folder_of_traces_is_no_run(tmp_path: Path, verb: str) -> None:
    code, _, stderr = call(verb, *([tmp_path, FP8] if verb == "diff" else [tmp_path]))
    assert code == 2
    assert "fingerprint" in stderr
