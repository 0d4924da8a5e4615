"""Runs that are kept give their numbers again, tell nothing of the machine, and are references for others."""

import csv
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import kept_runs
import pytest

from benchrun import api
from benchrun.cli.logs import compare
from benchrun.errors import UserError
from benchrun.jobs.create import create
from benchrun.judge.measured import load_measured, measured_references, repeats
from benchrun.judge.nearest import nearest
from benchrun.judge.references import load_references
from benchrun.judge.verdict import Verdict
from benchrun.measure.model import Metrics
from benchrun.measure.samples import COLUMNS
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.folder import RunDir, unpacked
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.show.scaling import curves
from benchrun.usecases import judgement
from benchrun.usecases.keep import scrubbed
from docs.pages.measured import page, points

ROOT = Path(__file__).parents[2]
KEPT = kept_runs.named()
END = datetime(2026, 3, 1, 12, 0, 0, tzinfo=timezone.utc)
HOST = "gpu-a7.rack3"


Kept = tuple[list[RunDir], list[RunDir], Verdict, Metrics]
"""Runs that were kept, their originals, verdict and numbers."""


def spec_of(gpus: Any = 4, precision: Any = "bf16") -> RunSpec:
    """A point that nobody published."""
    overrides = ("model.num_layers=32", "cluster.container.runtime=none")
    return resolve(Request("llama3.1-8b", "H200", precision, gpus, "megatron-core", "hgx-h200", overrides))


def finished(
    root: Path, spec: Any, step_time_s: float = 10.0, reasons: str = "0x0000000000000004", uneven: float = 0.001,
    growth: float = 0.0, **otherwise: int | str,
) -> RunDir:  # fmt: skip
    """A run as a job on a machine with names and paths of its own leaves it."""
    run = create(root, spec, render(spec))
    steps = spec.training.steps
    config = {
        "num_gpus": spec.num_gpus, "precision": spec.precision, "device": f"NVIDIA {spec.gpu}",
        "seq_length": spec.seq_length, "global_batch_size": spec.gbs, "planned_steps": steps,
        "num_layers": spec.model.num_layers,
        "model": spec.model.model_dump(exclude={"num_layers"}), "versions": {"megatron-core": "0.19.2"},
        **otherwise,
    }  # fmt: skip
    times = [step_time_s * (1 + uneven * (n % 7)) for n in range(1, steps + 1)]
    rows = [
        f" iteration {n:8d}/{steps:8d} | consumed samples: {n * spec.gbs:12d} |"
        f" elapsed time per iteration (ms): {1000 * time:.1f}"
        f" | global batch size: {spec.gbs:5d} | lm loss: {2 * (1 + growth * n / steps) + n % 3 / 1e4:.6E}"
        " | number of nan iterations:   0 |"
        for n, time in enumerate(times, start=1)
    ]
    head = f"{HOST}: loading /home/ann/lib/site-packages/x.py from 10.1.2.3\nbenchrun config: {json.dumps(config)}"
    tail = f'benchrun done: {{"steps": {steps}, "ended": "2026-03-01T12:00:00.000Z"}}'
    (run.path / "stdout.log").write_text("\n".join([head, *rows, tail, ""]))
    (run.path / "stderr.log").write_text(f"/scratch/me/job.sh: warning on {HOST}\n")
    (run.path / "telemetry").mkdir()
    seconds = range(-int(sum(times)) - 20, 5)
    samples = [
        f"{END + timedelta(seconds=s):%Y/%m/%d %H:%M:%S}.000, {gpu}, 1755, 3201, 650.0, 700.0, 62, 99, 90000, {reasons}"
        for s in seconds
        for gpu in range(spec.num_gpus)
    ]
    (run.path / "telemetry" / f"{HOST}.csv").write_text("\n".join([f"time,gpu,{','.join(COLUMNS)},reasons", *samples]))
    gpus = [{"name": f"NVIDIA {spec.gpu}", "uuid": f"GPU-{n}"} for n in range(spec.num_gpus)]
    nodes = [{"host": HOST, "driver": "570.1", "gpus": gpus}]
    env = {"schema_version": 1, "submit_host": "desk", "worker": {"megatron-core": "0.19.2"}, "nodes": nodes}
    run.write_json("env.json", env)
    run.write_json("ceilings.json", ceilings(spec))
    run.write_json("ending.json", {"schema_version": 1, "ending": "completed", "evidence": [], "exit_code": 0})
    return run


def ceilings(spec: TrainingSpec) -> dict[str, Any]:
    rates = {"bf16": {"forward": 700.0, "input_gradient": 650.0, "weight_gradient": 600.0}}
    names = ("qkv", "proj", "fc1", "fc2", "logits")
    gemms = [
        {"name": name, "m": 8192, "n": 4096, "k": 4096, "count": 32, "low_precision": name != "logits", "tflops": rates}
        for name in names
    ]
    return {
        "schema_version": 1,
        "device": "NVIDIA H200",
        "seconds": 8.0,
        "gemms": gemms,
        "copy_gb_per_s": 4000.0,
        "collectives": [],
    }


def judged(runs: list[RunDir]) -> api.Judgement:
    """Judge runs and store what came out, as the command does."""
    found = api.judge_runs(runs)
    api.store_judgement(found)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Two repeats, judged together before any other was kept, and kept."""
    root = tmp_path_factory.mktemp("here")
    runs = [finished(root / "runs", spec_of(), time) for time in (10.0, 10.2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgement, "load_measured", lambda: [])
        found = judged(runs)
    return [api.keep(run, root / "measured") for run in runs], runs, found.verdict, found.metrics


def text_of(path: Path) -> dict[str, str]:
    return {str(file.relative_to(path)): unpacked(file).decode() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_run_s_energy_and_bound_are_in_its_metrics(kept: Kept) -> None:
    _, (run, _), _, metrics = kept
    telemetry = metrics.telemetry
    per_gpu = spec_of().gbs * spec_of().seq_length / 4
    assert telemetry.tokens_per_joule == pytest.approx(per_gpu / metrics.step_time_s.mean / 650, rel=1e-5)
    assert (telemetry.ends, telemetry.gpus, telemetry.reasons) == ("log", 4, {"power_cap": 1.0})
    assert metrics.bound.matmul_s + metrics.bound.attention_s + metrics.bound.rest_s == pytest.approx(
        metrics.bound.step_s
    )
    assert json.loads((run.path / "telemetry.json").read_text())["over_all"] == telemetry.model_dump(mode="json")


def test_runs_of_one_point_are_repeats_however_many_steps_they_took(kept: Kept) -> None:
    run, again = load_measured(kept[0][0].path.parent)
    training = again.spec.training.model_copy(update={"steps": 7})
    shorter = replace(again, spec=again.spec.model_copy(update={"training": training}))
    slower = training.model_copy(update={"cuda_graphs": "layers"})
    other = replace(again, spec=again.spec.model_copy(update={"training": slower}))
    assert repeats([run, shorter, other]) == [[run, shorter], [other]]


def test_what_is_kept_gives_the_same_numbers(kept: Kept) -> None:
    for run, before in zip(*kept[:2], strict=True):
        again = api.measure_run(run).metrics
        assert again.model_dump(mode="json") == run.read_json("metrics.json") == before.read_json("metrics.json")
        assert run.spec.identity() == before.spec.identity()


def test_what_is_kept_does_not_tell_where_it_ran(kept: Kept) -> None:
    for name, text in text_of(kept[0][0].path).items():
        assert not re.search(r"gpu-a7|rack3|desk|/home|/scratch|\bann\b|10\.1\.2\.3|GPU-\d", text), name
    files = text_of(kept[0][0].path)
    assert files["stdout.log.xz"].startswith("node1: loading PATH/x.py from ADDRESS\n")
    assert files["stderr.log.xz"] == "PATH/job.sh: warning on node1\n"
    assert "telemetry/node1.csv.xz" in files


def test_speeds_and_fractions_are_no_paths() -> None:
    text = "3 tokens/s/GPU, iteration 3/ 20, https://example.org/a/b, nvcr.io/nvidia/nemo:25.07, /usr/lib/x.so, 1 / 2"
    assert scrubbed(text, []) == text
    assert scrubbed("A=/root/x:/mnt/y/ '/data/set' (/w/t.py:3)", []) == "A=PATH/x:PATH/y 'PATH/set' (PATH/t.py:3)"


def test_nothing_kept_is_overwritten_and_nothing_broken_is_kept(kept: Kept, tmp_path: Path) -> None:
    _, (run, _), _, _ = kept
    with pytest.raises(UserError, match="exists"):
        api.keep(run, kept[0][0].path.parent)
    unjudged = finished(tmp_path, spec_of())
    with pytest.raises(UserError, match="was not judged"):
        api.keep(unjudged, tmp_path / "measured")
    unjudged.write_json("ending.json", {"ending": "failed", "evidence": [], "exit_code": 1})
    judged([unjudged])
    with pytest.raises(UserError, match="measured nothing: the ending of the job is failed"):
        api.keep(unjudged, tmp_path / "measured")


def test_repeats_are_one_reference_and_a_run_is_never_its_own(kept: Kept) -> None:
    runs = load_measured(kept[0][0].path.parent)
    (both,) = measured_references(runs)
    times = sorted(run.metrics.step_time_s.median for run in runs)
    assert both.value == pytest.approx(sum(times) / 2)
    assert both.flags == ("measured",)
    assert both.key.framework == "megatron-core"
    assert "2 runs, NVIDIA H200, driver 570.1, megatron-core 0.19.2" in both.source.where
    (other,) = measured_references(runs, without=[runs[0].name])
    assert other.value == runs[1].metrics.step_time_s.median
    assert measured_references(runs, without=[run.name for run in runs]) == ()


def test_a_measured_run_judges_where_nothing_published_does(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = load_measured(kept[0][0].path.parent)
    monkeypatch.setattr(judgement, "load_measured", lambda: runs)
    assert kept[2].verdict == "faster_than_expected"
    slower = judged([finished(tmp_path, spec_of(), 11.0)]).verdict
    assert slower.verdict == "slow"
    assert slower.checks[0].reference.flags == ("measured",)
    published = judged([finished(tmp_path, resolve(Request("llama3.1-8b", "H100", "bf16", 8)), 13.0)]).verdict
    assert published.checks[0].reference.flags != ("measured",)


@pytest.mark.parametrize(
    ("otherwise", "says"),
    [
        ({"device": "NVIDIA H200"}, "the log states gpu H200, the specification of the run H100"),
        ({"device": "NVIDIA L4"}, "the log states gpu NVIDIA L4, the specification of the run H100"),
        ({"device": "NVIDIA H100 PCIe"}, "the log states gpu H100-PCIe, the specification of the run H100"),
        ({"num_gpus": 4}, "num_gpus 4, the specification of the run 8"),
        ({"precision": "fp8"}, "precision fp8, the specification of the run bf16"),
        ({"seq_length": 4096}, "seq_length 4096, the specification of the run 8192"),
    ],
)
def test_a_run_under_other_conditions_than_it_was_to_have_is_invalid(
    tmp_path: Path, otherwise: dict[str, Any], says: str
) -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8))
    verdict = judged([finished(tmp_path, spec, 13.0, **otherwise)]).verdict
    assert (verdict.verdict, says in verdict.reason) == ("invalid_run", True)


def test_of_repeats_the_one_that_failed_is_named(tmp_path: Path) -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8))
    good, bad = finished(tmp_path, spec, 13.0), finished(tmp_path, spec, 13.1)
    bad.write_json("ending.json", {"ending": "timeout", "evidence": [], "exit_code": None})
    assert judged([good, bad]).verdict.reason == f"the ending of the job is timeout ({bad.run_id})"


def test_a_card_with_more_memory_is_the_same_gpu(tmp_path: Path) -> None:
    spec = resolve(Request("llama3.1-8b", "GH200", "bf16", 8))
    verdict = judged([finished(tmp_path, spec, 20.0, device="NVIDIA GH200 144G HBM3e")]).verdict
    assert verdict.verdict != "invalid_run"


def test_a_run_of_uneven_steps_trained_no_more_tokens_a_joule(tmp_path: Path) -> None:
    spec = spec_of()
    run = finished(tmp_path, spec, uneven=0.1)
    metrics = api.measure_run(run).metrics
    joules = 650 * spec.num_gpus * metrics.step_time_s.mean
    assert metrics.telemetry.tokens_per_joule == pytest.approx(spec.gbs * spec.seq_length / joules, rel=1e-3)


def test_a_throttled_run_is_labelled_and_stays_comparable(tmp_path: Path) -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8))
    verdict = judged([finished(tmp_path, spec, 20.0, reasons="0x0000000000000040")]).verdict
    assert verdict.verdict == "slow"
    assert verdict.reason.endswith("; throttled: hw_thermal in 100 % of the samples")


def test_a_run_that_may_only_be_read_is_judged_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finished(tmp_path, resolve(Request("llama3.1-8b", "H100", "bf16", 8)), 10.0)
    before = text_of(run.path)
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda path, mode: False)
        assert compare([str(run.path)], standalone_mode=False) == 4
    printed = capsys.readouterr()
    assert f"warning: {run.path} cannot be written" in printed.err
    assert "step time" in printed.out
    assert set(text_of(run.path)) - set(before) <= {"ending.json", "events.jsonl"}
    found = judged([run])
    assert found.verdict.verdict in printed.out.lower()
    assert found.metrics
    assert (run.path / "verdict.json").exists()


@pytest.mark.parametrize(("growth", "says"), [(0.05, ""), (2.0, "; the loss rose from 2.08 to 6")])
def test_a_loss_that_rose_is_said_with_the_speed(tmp_path: Path, growth: float, says: str) -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8))
    verdict = judged([finished(tmp_path, spec, 20.0, growth=growth)]).verdict
    assert verdict.verdict == "slow"
    assert verdict.reason.endswith(says)
    assert ("the loss rose" in verdict.reason) == bool(says)


def test_the_page_shows_ours_beside_the_published_number_and_what_differs(kept: Kept) -> None:
    folder = kept[0][0].path.parent
    report = api.report_on([api.run_data(run) for run in api.find_runs(folder)])
    text = page(load_measured(folder), load_references(), report)
    (row,) = [line for line in text.splitlines() if line.startswith("| llama3.1-8b | bf16 |")]
    assert "| 4 x H200 | 64 (mbs 1, lr 3e-06) | 2 |" in row
    assert "## Speed\n" in text and "## The table\n" in text
    (point,) = points(load_measured(folder), load_references()).records()
    assert (point["first_loss"], point["final_loss"]) == pytest.approx((2, 2), abs=0.01)
    assert "gpu H100 -> H200, num_gpus 8 -> 4" in point["differs"]
    assert re.search(r"image nvcr\.io/nvidia/nemo:\S+ -> none", point["differs"])
    assert point["qkv_tflops"].startswith("bf16 647")  # the harmonic mean of 700, 650 and 600
    assert point["run_ids"] == " ".join(run.name for run in load_measured(folder))


def test_the_published_number_of_the_page_is_that_of_the_nearest_conditions() -> None:
    spec = resolve(Request("llama2-7b", "H100", "fp8", 8))
    found = nearest(spec, load_references())
    assert (found.entry.key.gpu, found.entry.key.num_gpus, found.whole_tflops) == ("H100", 8, None)
    assert found.measured(2 * found.entry.tokens_per_s_per_gpu, None) == 2 * found.published


def test_a_number_of_one_node_stands_beside_one_node_even_where_several_were_faster() -> None:
    found = nearest(resolve(Request("llama2-70b-lora-hf", "H200", "bf16", 2)), load_references())
    assert (found.entry.key.num_gpus, found.entry.value) == (8, 1.247)


def test_beside_a_proxy_stands_the_whole_model_and_its_flops() -> None:
    spec = resolve(Request("llama2-70b", "H200", "fp8", 4, "megatron-core"))
    found = nearest(spec, load_references())
    assert (found.entry.key.num_layers, found.entry.key.gpu, found.entry.value) == (80, "H200", 1880)
    # Six FLOPs for each of the 68.7e9 weights in products, and for the scores half of 12 x 80 layers x 8192 x 4096.
    assert found.whole_tflops == pytest.approx(1880 * (6 * 68.7e9 + 6 * 80 * 8192 * 4096) / 1e12, rel=0.01)
    assert found.measured(None, found.whole_tflops / 2) == found.published / 2


def test_a_number_of_another_generation_stands_beside_nothing() -> None:
    published = [entry for entry in load_references() if entry.key.gpu == "GB200"]
    assert published
    assert nearest(resolve(Request("nemotron4-15b", "H200", "fp8", 8, "megatron-core")), published) is None


def test_runs_that_differ_in_their_gpus_alone_are_a_curve(kept: Kept) -> None:
    run = load_measured(kept[0][0].path.parent)[0]

    def on(gpus: Any, gbs: Any, rate: Any, **otherwise: Any) -> Any:
        spec = run.spec.model_copy(update={"num_gpus": gpus, "gbs": gbs, **otherwise})
        speed = run.metrics.tokens_per_s_per_gpu.model_copy(update={"median": rate})
        return [replace(run, spec=spec, metrics=run.metrics.model_copy(update={"tokens_per_s_per_gpu": speed}))]

    found = curves([on(4, 64, 98.0), on(1, 16, 100.0), on(2, 64, 99.0), on(8, 32, 1.0)])
    said = [(curve.kind, curve.batches, curve.rates) for curve in found]
    assert said == [("weak", (16, 64), {1: 100.0, 4: 98.0}), ("strong", (64,), {2: 99.0, 4: 98.0})]
    ones = [on(1, 16, 100.0), on(2, 32, 99.0)]
    for otherwise in ({"image": "another"}, {"env": {"NCCL_ALGO": "Ring"}}, {"num_nodes": 2}):
        (found,) = curves([*ones, on(2, 32, 90.0, **otherwise)])
        assert found.rates == {1: 100.0, 2: 99.0}
    (over_nodes,) = curves([*ones, on(4, 64, 97.0, num_nodes=2)])
    assert over_nodes.rates == {1: 100.0, 2: 99.0, 4: 97.0}


def kept_points() -> list[dict[str, str]]:
    with (ROOT / "docs" / "measured.csv").open() as file:
        return list(csv.DictReader(file))


def test_what_the_readme_says_was_measured_stands_in_the_table() -> None:
    said = (ROOT / "README.md").read_text().partition("## What it measured")[2].partition("\n## ")[0]
    shown = [re.split(r" *\| *", line)[1:-1] for line in said.splitlines() if line.startswith("|")][2:]
    assert shown
    for *facts, tflops, ratio in shown:
        points = [row for row in kept_points() if [row["workload"], row["precision"], row["gpus"]] == facts]
        (row,) = [row for row in points if f"{float(row['tflops_per_gpu']):.0f}" == tflops]
        assert ratio.startswith(f"{float(row['ratio']):.2f}")


def test_the_readme_says_the_lowest_too() -> None:
    others = re.compile(", (megatron-lm|nemo1|nemo2|megatron-bridge)$")
    ours = [row for row in kept_points() if not others.search(row["workload"]) and row["ratio"]]
    lowest = min(float(row["ratio"]) for row in ours)
    assert f"The lowest is {lowest:.2f}:" in (ROOT / "README.md").read_text()


def test_a_kept_document_that_is_none_is_named(tmp_path: Path) -> None:
    run = tmp_path / "measured" / "x"
    run.mkdir(parents=True)
    (run / "spec.json").write_text("{}")
    with pytest.raises(UserError, match=r"x/spec\.json: not what benchrun writes"):
        load_measured(tmp_path / "measured")
