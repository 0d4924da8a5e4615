"""Predictions of recipes, of curves, of tables of rows, and on a site's own runs."""

import csv
import io
import json
import lzma
import re
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace

import kept_runs
import numpy as np
import pytest
from click.testing import CliRunner

from benchrun import api, paths
from benchrun.capabilities.predict.fit import published_points
from benchrun.capabilities.predict.kinship import Kinship, covariance, scales, shared
from benchrun.capabilities.predict.physics import PARTS
from benchrun.capabilities.predict.prediction import predict, predicted_rows, usual
from benchrun.capabilities.predict.residuals import solved, stored_rows
from benchrun.capabilities.predict.rows import PUBLISHED, published, workload_of_row
from benchrun.capabilities.predict.runs import profiled_parts, read, workload_of_run
from benchrun.cli import group
from benchrun.errors import UserError
from benchrun.judge.references import load_references
from benchrun.memory import ESTIMATE_ERROR, estimate
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec, TrainingSpec

POINT = ("llama3.1-8b", "--gpu", "H100", "--precision", "fp8")


def ran(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(group, ["predict", *arguments], standalone_mode=False, catch_exceptions=False)
    assert (result.return_value or 0) == code
    return result.stdout


def test_a_page_has_a_column_for_each_number_of_gpus_and_no_part_without_time() -> None:
    rows = {
        line.split()[0]: line.split()[1:] for line in ran(*POINT, "--num-gpus", "8,64").split("\n\n")[0].splitlines()
    }
    assert rows["GPUs"] == ["8", "64"]
    assert [float(value) for value in rows["low"]] < [float(value) for value in rows["high"]]
    assert "cp" in rows and "bubble" not in rows


def test_a_point_in_parts() -> None:
    document = json.loads(ran(*POINT, "--num-gpus", "8", "--json"))
    assert tuple(document["parts_s"]) == PARTS
    assert sum(document["parts_s"].values()) == pytest.approx(document["step_time_s"]["median"])
    assert document["step_time_s"]["low"] < 9.5 < document["step_time_s"]["high"] * 1.05  # published: 9.33 to 9.67 s
    assert set(document["mfu"]) == {"full", "causal"}
    assert document["memory_gib"] > 0


@pytest.mark.parametrize(("scaling", "expected"), [("weak", 2048), ("strong", 128)])
def test_a_curve(scaling: str, expected: int) -> None:
    document = json.loads(ran(*POINT, "--num-gpus", "8,64,128", "--scaling", scaling, "--json"))
    assert document["scaling"] == scaling
    assert [point["num_gpus"] for point in document["points"]] == [8, 64, 128]
    assert document["points"][-1]["gbs"] == expected


def test_a_curve_begins_with_the_fewest_gpus_whose_layout_and_memory_it_has() -> None:
    point = ("mixtral-8x7b", "--gpu", "H100", "--precision", "bf16", "--framework", "megatron-core")
    assert ran(*point, "--num-gpus", "128,64,128", "--json") == ran(*point, "--num-gpus", "64,128", "--json")
    curve = json.loads(ran(*point, "--num-gpus", "8,64", "--json"))
    assert [each["num_gpus"] for each in curve["points"]] == [64]  # on 8 GPUs the recipe has a proxy alone
    assert [each["num_gpus"] for each in curve["left_out"]] == [8]


def test_a_curve_has_no_batch_that_interleaved_stages_cannot_divide() -> None:
    point = ("gpt-20b", "--gpu", "GH200", "--precision", "bf16")  # 8 GPUs: pp 4, vp 11, a batch of 32
    assert json.loads(ran(*point, "--num-gpus", "8,32", "--scaling", "strong", "--json"))["points"]
    (left_out,) = json.loads(ran(*point, "--num-gpus", "8,64", "--scaling", "strong", "--json"))["left_out"]
    assert (left_out["num_gpus"], "32 is no multiple of mbs * dp * pp = 64" in left_out["reason"]) == (64, True)


def test_fsdp_over_all_ranks_is_over_all_ranks_of_more_gpus_too() -> None:
    point = (*POINT[:3], "--precision", "bf16", "--framework", "megatron-core")
    curve = json.loads(ran(*point, "--num-gpus", "8,64", "--set", "layout.fsdp=8", "--json"))["points"]
    more = json.loads(ran(*point, "--num-gpus", "64", "--set", "layout.fsdp=64", "--json"))
    for name in ("step_time_s", "memory_gib"):
        assert curve[1][name] == more[name]


def test_a_curve_is_headed_by_what_holds_on_every_number_of_gpus() -> None:
    sharded = ("--framework", "megatron-core", "--set", "layout.fsdp=8", "--set", "training.fp8.param_gather=false")
    assert ": cp 2, fsdp over all ranks, micro-batch 1" in ran(*POINT, *sharded, "--num-gpus", "8,64")


def test_a_table_keeps_its_rows_and_explains_those_it_cannot_predict() -> None:
    table = "model,gpu,num_gpus,gbs,seq_len,precision,note\nllama3-8b,H100,8,128,8192,FP8,a\nnobody,H100,8,1,1,FP8,b\n"
    out, reasons = io.StringIO(), []
    assert predicted_rows(io.StringIO(table), out, reasons.append) == 1
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [row["note"] for row in rows] == ["a", "b"]
    assert 5 < float(rows[0]["low_s"]) < float(rows[0]["predicted_s"]) < float(rows[0]["high_s"]) < 20
    assert rows[1]["predicted_s"] == ""
    assert len(reasons) == 1


def test_published_rows_lie_in_their_intervals() -> None:
    out = io.StringIO()
    table = io.StringIO()
    writer = csv.DictWriter(table, list(published()[0]))
    writer.writeheader()
    writer.writerows(published()[::12])
    table.seek(0)
    predicted_rows(table, out, lambda text: None)
    rows = [row for row in csv.DictReader(io.StringIO(out.getvalue())) if row["predicted_s"]]
    inside = [float(row["low_s"]) <= float(row["step_time_s"]) <= float(row["high_s"]) for row in rows]
    assert len(rows) > 50
    assert sum(inside) / len(inside) > 0.85


def test_published_pipelines_of_mlperf_state_their_virtual_stages() -> None:
    """All of them interleave: their configurations say so, and without it the bubble is several times too long."""
    rows = [row for row in published() if row["source_id"] == "mlperf" and int(row["pp"]) > 1]
    assert len(rows) >= 8
    assert all(int(row["vp"] or 1) > 1 for row in rows)


def test_a_published_row_names_the_reference_number_of_its_own_conditions() -> None:
    references = {entry.id: entry for entry in load_references()}
    named = [row for row in published() if row["reference"]]
    assert len(named) > 400
    for row in named:
        entry = references[row["reference"]]
        assert (entry.key.num_gpus, entry.key.gbs) == (int(row["num_gpus"]), int(row["gbs"])), row
        assert entry.key.gpu in (row["gpu"], {"A100-80": "A100", "H100": "H100-96GB"}.get(row["gpu"])), row
        assert entry.metric in ("step_time_s", "tokens_per_s_per_gpu"), row


def test_no_fit_reads_a_number_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = [entry for entry in load_references() if not entry.fit]
    assert len(closed) > 700
    assert not {entry.id for entry in closed} & {row["reference"] for row in published()}
    row = {**published()[0], "reference": closed[0].id}
    shipped = paths.table
    monkeypatch.setattr(paths, "table", lambda module, name: (row,) if name == PUBLISHED else shipped(module, name))
    with pytest.raises(ValueError, match=closed[0].id):
        published.__wrapped__()


def test_what_was_published_for_a_point_is_named_and_inside() -> None:
    point = ("deepseek-v3", "--gpu", "H100", "--precision", "fp8", "--num-gpus", "1024")
    found = json.loads(ran(*point, "--json"))
    step, published = found["step_time_s"], found["published"]
    assert (published["id"], published["tokens_per_s_per_gpu"]) == ("deepseek-v3:6", 1297)
    assert step["low"] <= published["step_time_s"] <= step["high"]
    assert step["median"] == pytest.approx(published["step_time_s"], rel=0.05)
    assert "published 1,297 tokens/s/GPU" in ran(*point)
    table = ran("deepseek-v3", "--gpu", "H100", "--precision", "bf16,fp8", "--num-gpus", "1024")
    others = re.findall(r"\n  published .* with (\w+), outside the interval: NVIDIA (\S+),", table)
    assert [name for name, _ in others] == ["automodel", "nemo2"]
    assert others[0][1] > others[1][1]
    assert "H100 bf16, 1024 GPUs: predicted for megatron-bridge; published with other" in table
    assert len(re.findall(r"  ~\d", table)) == table.count("\n~ marks an interval") == 1
    shown = api.describe(api.resolve_point(api.Request("deepseek-v3", "H100", "fp8", 1024)))
    assert shown["expected_step_time_s"] == step


def test_a_number_that_contradicts_the_others_widens_the_interval() -> None:
    spec = api.resolve_point(api.Request("llama2-70b-lora-hf", "H100", "bf16", 8))
    one = api.predicted(spec)
    assert one.document()["published"]["step_time_s"] == one.prediction.high > predict(one.prediction.load).high


def test_a_row_and_its_point_have_one_answer() -> None:
    rows = {row["reference"]: row for row in published()}
    points = [
        ("deepseek-v3:30", api.Request("deepseek-v3", "B200", "fp8", 256)),
        ("llama3.1-70b:20", api.Request("llama3-70b", "H100", "fp8", 64, framework="nemo1")),
        ("grok1-314b:17", api.Request("grok1-314b", "H100", "bf16", 512, framework="nemo2")),
    ]
    for name, request in points:
        one = api.predicted(api.resolve_point(request)).prediction
        row = predict(workload_of_row(rows[name]))
        assert row.median == pytest.approx(one.median, rel=0.08), name
        assert row.low < one.high and one.low < row.high, name


def test_published_points_are_predicted_as_published() -> None:
    found = [(predict(load), step_s) for load, step_s in islice(published_points(), 0, None, 4)]
    assert len(found) > 80
    assert np.median([abs(one.median / step_s - 1) for one, step_s in found]) < 0.02
    assert np.mean([one.low <= step_s <= one.high for one, step_s in found]) > 0.75


def test_a_sites_slow_runs_raise_its_predictions(tmp_path: Path) -> None:
    kept = kept_runs.first("llama3.1-8b-2c0cb897-*")
    slow = tmp_path / kept.name
    slow.mkdir()
    (slow / "spec.json").write_bytes((kept / "spec.json").read_bytes())
    metrics = json.loads((kept / "metrics.json").read_text())
    metrics["step_time_s"]["median"] *= 1.3
    (slow / "metrics.json").write_text(json.dumps(metrics))
    spec = api.resolve_point(api.Request("llama3.1-8b", "H200", "fp8", 2))
    calibration, changes = api.calibrated([str(slow)])
    before, after = api.predicted(spec).prediction, api.predicted(spec, calibration).prediction
    assert changes
    assert after.median > 1.1 * before.median
    assert after.calibration != before.calibration


def test_show_states_the_expected_step() -> None:
    document = api.describe(api.resolve_point(api.Request("llama3.1-8b", "H100", "fp8", 8)))
    assert document["expected_step_time_s"]["low"] < document["expected_step_time_s"]["high"]


def test_a_sites_profiled_parts_change_its_constants(tmp_path: Path) -> None:
    kept = kept_runs.folder(kept_runs.named("llama3.1-8b-*", "breakdown.json")[0])
    slow = tmp_path / kept.name
    slow.mkdir()
    (slow / "spec.json").write_bytes((kept / "spec.json").read_bytes())
    metrics, parts = (json.loads((kept / f"{name}.json").read_text()) for name in ("metrics", "breakdown"))
    extra = parts["attention_s"]
    parts["attention_s"] += extra
    parts["step_s"] += extra
    metrics["step_time_s"]["median"] *= parts["step_s"] / (parts["step_s"] - extra)
    (slow / "metrics.json").write_text(json.dumps(metrics))
    (slow / "breakdown.json").write_text(json.dumps(parts))
    calibration, changes = api.calibrated([str(slow)])
    assert any(line.startswith("attention.hopper") for line in changes)
    before, after = usual().values["attention.hopper"], calibration.values["attention.hopper"]
    assert after / before == pytest.approx(0.55, rel=0.15)


def test_the_parts_of_kept_runs_are_those_of_their_breakdowns() -> None:
    """Of parts above a twentieth of the step 85 of 100 are within 15 %, runs younger than the fit included."""
    misses = []
    for name in kept_runs.named(file="breakdown.json"):
        run = read(kept_runs.folder(name))
        expected = predict(run.load).parts
        for part, seconds in profiled_parts(run).items():
            if seconds > 0.05 * run.step_s:
                misses.append(abs(sum(expected[each] for each in part.split("+")) / seconds - 1))
    assert len(misses) > 100
    assert np.quantile(misses, 0.85) < 0.15


def test_kept_runs_of_frameworks_that_no_fit_reads_lie_in_their_intervals() -> None:
    misses, inside = [], []
    for name in kept_runs.named():
        run = RunDir(kept_runs.folder(name), read_only=True)
        if run.spec.framework in ("megatron-lm", "nemo2", "megatron-bridge"):
            found = predict(workload_of_run(run.spec))
            step_s = run.read_json("metrics.json")["step_time_s"]["median"]
            misses.append(abs(found.median / step_s - 1))
            inside.append(found.low <= step_s <= found.high)
    assert len(misses) > 100
    assert np.mean(inside) > 0.9
    assert np.quantile(misses, 0.9) < 0.15


SERVER = api.Request("llama3.3-70b-inference", "H200", "fp8", 4, framework="vllm")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Questions to a stand-in for AIConfigurator; it answers 100 ms and 10 ms."""
    asked = {}

    def cli_estimate(folder: str, system: str, **options: object) -> SimpleNamespace:
        asked.update(json.loads((Path(folder) / "config.json").read_text()), system=system, **options)
        return SimpleNamespace(ttft=100.0, tpot=10.0, raw={"tokens/s/gpu": 400.0}, backend_version="1")

    monkeypatch.setitem(sys.modules, "aiconfigurator", ModuleType("aiconfigurator"))
    answering = SimpleNamespace(api=SimpleNamespace(cli_estimate=cli_estimate))
    monkeypatch.setitem(sys.modules, "aiconfigurator.cli", answering)
    return asked


def test_a_server_is_predicted_as_its_point_states_it(asked: dict) -> None:
    stated = ("tp=2", "dp=2", "shortest=0.8", "model.num_layers=4")
    found = api.served(api.resolve_point(replace(SERVER, overrides=stated)))
    assert (found["mean_ttft_ms"], found["mean_tpot_ms"], found["output_tokens_per_s_per_gpu"]) == (100, 10, 400)
    assert (asked["system"], asked["backend_name"], asked["num_hidden_layers"]) == ("h200_sxm", "vllm", 4)
    assert (asked["batch_size"], asked["tp_size"], asked["attention_dp_size"]) == (32, 2, 1)  # two replicas
    assert (asked["isl"], asked["osl"]) == (922, 922)
    assert (asked["gemm_quant_mode"], asked["kvcache_quant_mode"]) == ("fp8", "fp8")


def test_grpo_is_generation_and_training(asked: dict) -> None:
    point = api.Request("llama3.1-8b-grpo", "H100", "bf16", 16, overrides=("max_response_length=1001",))
    found = api.served(api.resolve_point(point))
    assert found["generation_s"] == pytest.approx(10.1)
    assert found["training_s"] > 0
    assert (asked["batch_size"], asked["isl"]) == (128, 3095)


def test_a_server_needs_aiconfigurator_and_takes_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiconfigurator.cli", None)
    point = ("llama3.3-70b-inference", "--gpu", "H200", "--precision", "fp8", "--num-gpus", "1", "--framework", "vllm")
    with pytest.raises(UserError, match="is not installed") as missing:
        ran(*point)
    assert ".[predict]" in missing.value.hint
    assert re.search(r"published: [\d,]+ output tokens/s/GPU, \d x H200 fp8", missing.value.hint)
    on_two = ("llama3.3-70b-inference", "--gpu", "H100", "--precision", "fp8", "--num-gpus", "2")
    for length, nearest in ((1024, "trtllm, input_tokens 1000"), (5000, "NIM 1.8.0, input_tokens 5000")):
        with pytest.raises(UserError) as missing:
            ran(*on_two, "--set", f"input_tokens={length}")
        assert nearest in missing.value.hint.splitlines()[1]
    with pytest.raises(UserError, match="no fp8 on 1 x B200 in llama3"):
        ran("llama3.3-70b-offline", "--gpu", "B200", "--precision", "fp8", "--num-gpus", "1")
    with pytest.raises(UserError, match="leave out --tokens"):
        ran(*point, "--tokens", "1T")


def test_a_published_server_is_predicted_within_a_fifth() -> None:
    pytest.importorskip("aiconfigurator")
    point = api.Request("deepseek-r1-inference", "H200", "fp8", 8, framework="sglang", overrides=("concurrency=64",))
    assert api.served(api.resolve_point(point))["output_tokens_per_s_per_gpu"] == pytest.approx(223.6, rel=0.2)


def test_memory_comes_with_its_interval() -> None:
    document = json.loads(ran(*POINT, "--num-gpus", "8", "--json"))
    ends = document["memory_interval_gib"]
    assert ends["low"] < document["memory_gib"] < ends["high"]


def test_measured_peaks_lie_in_the_memory_interval() -> None:
    ratios = []
    for folder in map(kept_runs.folder, kept_runs.named()):
        text = lzma.decompress(folder.joinpath("stdout.log.xz").read_bytes())
        found = re.findall(rb'"peak_memory_gib": ([\d.]+)', text)
        spec = RunSpec.model_validate_json((folder / "spec.json").read_bytes()) if found else None
        if isinstance(spec, TrainingSpec):
            ratios.append(estimate(spec).total / float(found[-1]))
    assert len(ratios) > 100
    assert min(ratios) > 1 / (1 + ESTIMATE_ERROR)
    assert max(ratios) < 1 + ESTIMATE_ERROR


def test_a_slower_link_to_the_host_is_seen_where_activations_leave_the_gpu() -> None:
    kept = read(kept_runs.first("llama2-7b-37190d88-*"))
    assert kept.load.offloaded_bytes > 1e10
    whole = replace(kept.load, offloaded_bytes=0)
    assert predict(kept.load).median == pytest.approx(kept.step_s, rel=0.1)
    assert predict(whole).median < 0.8 * kept.step_s


def test_rows_are_alike_in_a_prediction_as_in_the_fit() -> None:
    spread = usual().spread
    some = stored_rows().part(np.arange(0, len(stored_rows().codes), 37))
    whole = sum(spread[name] ** 2 * matrix for name, matrix in shared(some).items())
    scale = scales(spread, some)
    np.testing.assert_allclose(covariance(spread, some, some), whole * scale[:, None] * scale[None, :])


def test_the_stored_weights_are_those_of_all_stored_rows() -> None:
    rows, spread = stored_rows(), usual().spread
    alike = covariance(spread, rows.part(np.arange(0, len(rows.codes), 37)), rows)
    np.testing.assert_allclose(alike @ rows.weights, alike @ solved(rows, spread).weights, atol=5e-4)


def test_a_known_row_is_stored_where_it_is() -> None:
    kept = read(kept_runs.first("llama2-7b-37190d88-*"))
    own, rows = Kinship.of([kept.load]), stored_rows()
    same = rows.places[(rows.traits == own.traits[0]).all(axis=1)]
    assert len(same)
    np.testing.assert_allclose(same[0], own.places[0], atol=1e-3)
