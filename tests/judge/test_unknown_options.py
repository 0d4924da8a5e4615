"""Verdicts and differences of logs whose options, precision or length do not fit what they are compared with."""

import json
from pathlib import Path

import pytest

from benchrun.capabilities.explain.log_evidence import explain_log
from benchrun.capabilities.explain.usecase import differ
from benchrun.errors import UserError
from benchrun.judge.conditions import MACHINE, conditions, differences, with_machine
from benchrun.judge.measured import load_measured, measured_references
from benchrun.measure.setting import Setting, setting_of_log
from benchrun.rundir.artifacts import machine
from benchrun.usecases.judgement import judge_log
from benchrun.usecases.measurement import read_log, summarise_log
from benchrun.usecases.settings import check_options, completed_setting, setting_beside
from tests.parse.test_options import LATENT, STEP, megatron

GIVEN = Setting(gpu="H100")


def written(folder: Path, name: str, **stated: str) -> Path:
    file = folder / f"{name}.log"
    file.write_text("\n".join(megatron(stated)) + "\n")
    return file


def test_the_base_is_comparable(tmp_path: Path) -> None:
    verdict, _ = judge_log(read_log(written(tmp_path, "a")), "llama3.1-8b", GIVEN)
    assert verdict.verdict == "pass"


@pytest.mark.parametrize(
    "stated",
    [
        {"linear_attention_freq": "4"},
        {"freeze_LM": "True"},
        {"new_attention": "3"},
    ],
)
def test_an_unknown_option_is_not_comparable_and_named(tmp_path: Path, stated: dict[str, str]) -> None:
    verdict, metrics = judge_log(read_log(written(tmp_path, "a", **stated)), "llama3.1-8b", GIVEN)
    (name,) = stated
    assert verdict.verdict == "not_comparable"
    assert name in verdict.reason
    assert (metrics.mfu, metrics.tflops_per_gpu) == ((), None)


@pytest.mark.parametrize(
    "stated",
    [
        {"mtp_num_layers": "1"},
        {"window_size": "(127, 0)"},
        LATENT,
        {"multi_latent_attention": "True"},  # of unknown sizes
        {"hybrid_override_pattern": "M-M*-"},
    ],
)
def test_a_part_that_the_recipe_lacks_is_another_model(tmp_path: Path, stated: dict[str, str]) -> None:
    """The recipe is the user's error, as one of other dimensions is, for every verb that takes it."""
    file = written(tmp_path, "a", **stated)
    with pytest.raises(UserError, match=r"mtp_layers|window|mla|multi_latent|hybrid"):
        judge_log(read_log(file), "llama3.1-8b", GIVEN)
    with pytest.raises(UserError):
        setting_beside(read_log(file), completed_setting("llama3.1-8b", GIVEN))
    with pytest.raises(UserError):
        explain_log(file, GIVEN, "llama3.1-8b")


def test_an_explanation_names_what_is_not_understood(tmp_path: Path) -> None:
    file = written(tmp_path, "a", multi_latent_attention="True")
    explanation, _ = explain_log(file, GIVEN)
    assert any("multi_latent_attention" in note for note in explanation.missing)
    assert not any("--recipe the" in note for note in explanation.missing)


@pytest.mark.parametrize("recipe", ["mixtral-8x7b", "gpt3-175b"])
def test_a_recipe_of_another_model_is_the_users_error(tmp_path: Path, recipe: str) -> None:
    log, given = read_log(written(tmp_path, "a")), completed_setting(recipe, GIVEN)
    with pytest.raises(UserError):
        setting_beside(log, given)
    with pytest.raises(UserError):
        judge_log(log, recipe, GIVEN)


def test_the_dimensions_of_a_log_change_the_recipes_model(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, "a", num_layers="4", padded_vocab_size="None"))
    model = setting_beside(log, completed_setting("llama3.1-8b", GIVEN)).model
    assert model is not None
    assert model.num_layers == 4


def test_the_length_that_a_log_implies_counts_more_than_the_recipes(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, "a", seq_length="None"))
    log.facts.derive("seq_length", 1234, "a limit")
    assert setting_of_log(log, completed_setting("llama3.1-8b", GIVEN)).seq_length == 1234
    stated = completed_setting("llama3.1-8b", Setting(gpu="H100", seq_length=512))
    assert setting_of_log(log, stated).seq_length == 512


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ({"hybrid_override_pattern": "M-M*-"}, "unknown_options"),
        ({"multi_latent_attention": "True"}, "unknown_options"),
        ({"mtp_num_layers": "1"}, "model.mtp_layers"),
        ({"fp4": "e2m1"}, "precision"),
        ({"num_layers": "30"}, "model.num_layers"),
    ],
)
def test_diff_names_what_the_logs_state(tmp_path: Path, stated: dict[str, str], name: str) -> None:
    (result,) = differ([str(written(tmp_path, "a")), str(written(tmp_path, "b", **stated))])
    assert [each.name for each in result.differs] == [name]
    assert bool(result.other_work) == (name != "precision")


def test_a_precision_that_the_gpu_lacks_is_the_users_error() -> None:
    with pytest.raises(UserError):
        completed_setting(None, Setting(gpu="H100", precision="nvfp4"))
    with pytest.raises(UserError):
        completed_setting(None, Setting(gpu="A100", precision="fp8"))
    assert completed_setting(None, Setting(gpu="B200", precision="nvfp4")).precision == "nvfp4"
    with pytest.raises(UserError):  # a peak is for a GPU that is not listed
        completed_setting(None, Setting(gpu="H100", peak=2000.0))


def test_a_precision_that_the_logs_gpu_lacks_is_the_users_error(tmp_path: Path) -> None:
    titan = "[rank0]:[titan] 2026-04-18 21:13:34,872 - root - INFO - "
    capacity = "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.11GiB memory"
    step = "step:  2  loss: 17.6339  grad_norm: 65.6288  memory: 14.95GiB(7.79%)  tps: 8,465  tflops: 425.98  mfu: 32%"
    (tmp_path / "x.log").write_text("".join(f"{titan}{line}\n" for line in (capacity, step)))
    log = read_log(tmp_path / "x.log")
    assert [*check_options(log, {"precision": "fp8"})] == []
    with pytest.raises(UserError):
        [*check_options(log, {"precision": "nvfp4"})]


@pytest.mark.parametrize(
    ("stated", "gpu"),
    [
        ({"fp4": "e2m1"}, "H200"),
        ({"fp8": "e4m3", "fp8_recipe": "mxfp8"}, "h100"),
        ({"fp8": "hybrid", "fp8_recipe": "delayed"}, "A100"),
    ],
)
def test_a_stated_precision_that_the_given_gpu_lacks_is_the_users_error(
    tmp_path: Path, stated: dict[str, str], gpu: str
) -> None:
    log = read_log(written(tmp_path, "a", **stated))
    assert [*check_options(log, {"gpu": "B200"})] == []
    with pytest.raises(UserError):
        [*check_options(log, {"gpu": gpu})]


def test_fp32_is_bound_by_the_peak_of_bf16() -> None:
    assert Setting(gpu="H100", precision="fp32").fastest_precision == "bf16"
    assert Setting(gpu="H100").fastest_precision == "fp8"


def test_nvfp4_above_its_peak_is_impossible(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_text("\n".join(megatron({"fp4": "e2m1"})).replace("12200.0", "12.2") + "\n")
    summary = summarise_log(read_log(file), Setting(gpu="B200"))
    assert "impossible_rate" in [problem.kind for problem in summary.problems]


class TestLogInterval:
    def log(self, folder: Path, *end: str) -> Path:
        steps = [STEP.format(step, 100 + step).replace("/      20", "/     105") for step in range(10, 101, 10)]
        dump = [line for line in megatron({"train_iters": "105"}) if "iteration" not in line]
        file = folder / "x.log"
        file.write_text("\n".join([*dump, *steps, *end]) + "\n")
        return file

    def test_less_than_an_interval_is_missing(self, tmp_path: Path) -> None:
        summary = summarise_log(read_log(self.log(tmp_path)), GIVEN)
        assert (summary.complete, summary.fatal) == (True, None)

    def test_a_crash_in_it_counts(self, tmp_path: Path) -> None:
        crash = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "ValueError: no"]
        summary = summarise_log(read_log(self.log(tmp_path, *crash)), GIVEN)
        assert summary.fatal is not None

    def test_the_last_words_of_the_program_decide(self, tmp_path: Path) -> None:
        steps = self.log(tmp_path).read_text().splitlines()[:-3]
        (tmp_path / "y.log").write_text("\n".join([*steps, "[after training is done] datetime: 2026-11-01"]) + "\n")
        (tmp_path / "z.log").write_text("\n".join(steps) + "\n")
        done, cut = (summarise_log(read_log(tmp_path / name), GIVEN) for name in ("y.log", "z.log"))
        assert (done.complete, done.fatal) == (True, None)
        assert cut.complete is False


def test_a_curriculum_counts_the_tokens_of_its_last_length(tmp_path: Path) -> None:
    lines = megatron({})
    head, steps = lines[:-20], lines[-20:]
    lengths = [4096] * 12 + [6144] * 8
    steps = [f"{step} actual seqlen: {length:5d} |" for step, length in zip(steps, lengths, strict=True)]
    (tmp_path / "x.log").write_text("\n".join([*head, *steps]) + "\n")
    summary = summarise_log(read_log(tmp_path / "x.log"), GIVEN)
    assert summary.seq_length == 6144
    assert summary.window is not None and summary.window.first_step == 13
    assert summary.tokens_per_s_per_gpu.median == pytest.approx(128 * 6144 / 8 / 12.2)


def test_a_site_cannot_change_the_peak_of_a_listed_gpu(tmp_path: Path) -> None:
    from benchrun.recipes.files import cluster_document

    site = tmp_path / "site.yaml"
    text = "scheduler: slurm\ngpu: H100\ngpus_per_node: 8\nhardware: {memory_gib: 80, peak_bf16_tflops: %d}\n"
    site.write_text(text % 500)
    with pytest.raises(UserError):
        cluster_document(str(site))
    site.write_text(text % 989)
    assert cluster_document(str(site))["gpu"] == "H100"


def test_driver_limits_and_versions_of_a_run_are_conditions() -> None:
    gpu = {"name": "NVIDIA H100 80GB HBM3", "power_limit_w": "700.00"}
    nodes = [{"driver": "580.1", "gpus": [gpu], "versions": {"torch": "2.11"}}, {"driver": "570.2", "gpus": [gpu]}]
    stated = machine(json.loads(json.dumps({"nodes": nodes})))
    assert stated == {"driver": "570.2, 580.1", "power limit (W)": "700.00", "version of torch": "2.11"}


def test_compare_names_other_versions_driver_and_power_limit(tmp_path: Path) -> None:
    kept = next(run for run in load_measured() if run.spec.framework == "megatron-core" and machine(run.env))
    (reference,) = measured_references([kept])
    other = with_machine(conditions(kept.spec), {"nodes": [{"driver": "1.0", "gpus": [{"power_limit_w": "350.00"}]}]})
    differing = {each.key for each in differences(reference.key, other, MACHINE)}
    assert differing >= {"driver", "power_limit_w"}
    assert differences(reference.key, with_machine(conditions(kept.spec), kept.env), MACHINE) == ()
