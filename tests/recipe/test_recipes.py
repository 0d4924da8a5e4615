"""What recipes may say, how a point is chosen, and what an error tells."""

import re
from pathlib import Path
from typing import Any

import pytest

from benchrun import paths
from benchrun.errors import UserError
from benchrun.memory import warning
from benchrun.recipes.files import cluster_document
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.recipes.study import expand
from benchrun.runspec.cluster import Cluster
from benchrun.usecases.expectations import expected_step

RECIPE = (paths.RECIPES / "tiny-llama.yaml").read_text()


def broken(tmp_path: Path, old: str, new: str) -> UserError:
    """The message for tiny-llama with one line changed."""
    assert old in RECIPE
    path = tmp_path / "mine.yaml"
    path.write_text(RECIPE.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        resolve(Request(str(path), "CPU", "fp32", 1))
    return error.value


def site_of(tmp_path: Path, *lines: str) -> Cluster:
    """The site of a file with these lines."""
    path = tmp_path / "site.yaml"
    path.write_text("\n".join(["scheduler: slurm", "gpu: CPU", "gpus_per_node: 2", *lines]) + "\n")
    return resolve(Request("tiny-llama", "CPU", "fp32", 2, cluster=str(path))).cluster


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(RECIPE.splitlines(), 1) if text in line)


def test_every_shipped_cluster_and_suite_is_legal() -> None:
    for name in paths.shipped(paths.CLUSTERS):
        assert cluster_document(name)["name"] == name
    for name in paths.shipped(paths.SUITES):
        for point in expand(Request(name)).points:
            spec = resolve(point.request)
            # Nemotron-4 340B was published on as few as 128 GPUs, which it fills; Mixtral fills 8 H200 on purpose, and
            # one layer of Llama 3.1 405B an H100.
            if spec.workload != "training":
                continue
            assert warning(spec) is None or spec.recipe in ("nemotron4-340b", "mixtral-8x7b", "llama3.1-405b")
            expected = expected_step(spec)
            steps_s = expected.high * spec.training.steps if expected else 0.0
            assert steps_s < spec.cluster.time_limit_s, f"{name}: {spec.recipe} on {spec.num_gpus} GPUs"


def test_an_unknown_key_is_named_with_file_line_and_the_key_that_was_meant(tmp_path: Path) -> None:
    error = broken(tmp_path, "  hidden_size: 64", "  hiden_size: 64")
    assert error.where.endswith(f"mine.yaml:{line_of('  hidden_size: 64')}")
    assert "model.hiden_size" in error.message
    assert "did you mean 'hidden_size'" in error.hint


def test_an_unknown_key_in_a_merged_section_has_its_line_too(tmp_path: Path) -> None:
    error = broken(tmp_path, "  lr: 1e-2", "  learning_rate: 1e-2")
    assert error.where.endswith(f"mine.yaml:{line_of('  lr: 1e-2')}")
    assert "training.learning_rate" in error.message


def test_a_wrong_value_is_named_with_its_line(tmp_path: Path) -> None:
    error = broken(tmp_path, "  num_layers: 4", "  num_layers: four")
    assert error.where.endswith(f"mine.yaml:{line_of('  num_layers: 4')}")
    assert "'four'" in error.message


def test_a_wrong_word_lists_the_legal_ones(tmp_path: Path) -> None:
    error = broken(tmp_path, "  lr: 1e-2", "  recompute: {granularity: some}\n  lr: 1e-2")
    assert "'some'" in error.message
    assert "selective" in error.hint


def test_every_error_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    wrong = {
        "  num_layers: 4": "  num_layers: four",
        "  hidden_size: 64": "  hiden_size: 64",
        "task: pretrain": "task: x",
    }
    path, text = tmp_path / "mine.yaml", RECIPE
    for old, new in wrong.items():
        text = text.replace(old, new, 1)
    path.write_text(text)
    with pytest.raises(UserError) as error:
        resolve(Request(str(path), "CPU", "fp32", 1))
    every = (error.value, *error.value.others)
    lines = {int(each.where.rpartition(":")[2]) for each in every}
    assert lines >= {line_of(old) for old in wrong}
    assert all(each.where in str(error.value) and each.message in str(error.value) for each in every)
    assert len({(each.where, each.message) for each in every}) == len(every)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    error = broken(tmp_path, "  num_layers: 4\n", "")
    assert "model.num_layers" in error.message
    assert "missing" in error.message


def test_an_unknown_recipe_names_the_closest() -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8"))
    assert "did you mean 'llama3.1-8b'" in error.value.hint


def test_the_name_of_a_run_is_shown_by_report() -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8b-5bb3ae96-20261126T012040Z-e716"))
    assert error.value.hint == "of a run: benchrun report llama3.1-8b-5bb3ae96-20261126T012040Z-e716"


def test_what_is_not_asked_for_is_chosen_only_without_a_choice() -> None:
    assert resolve(Request("tiny-llama", precision="fp32", num_gpus=1)).gpu == "CPU"
    with pytest.raises(UserError) as error:
        resolve(Request("tiny-llama", num_gpus=1))
    assert "--precision bf16, fp32" in error.value.hint


def test_every_missing_option_is_named_at_once_with_its_legal_values() -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8b"))
    assert [option in error.value.hint for option in ("--gpu GH200, H100, H200", "--precision bf16, fp8")] == [True] * 2
    assert "--num-gpus 1, 2, 4, 8" in error.value.hint
    example = re.search(r"add --gpu (\S+) --precision (\S+) --num-gpus (\d+), or", error.value.hint)
    assert resolve(Request("llama3.1-8b", example[1], example[2], int(example[3]))).gpu == example[1]


@pytest.mark.parametrize(
    ("line", "text"), [("account: 123", "123"), ("account: 007", "007"), ("mem: 0", "0"), ("qos: 1.10", "1.10")]
)
def test_a_number_where_text_is_meant_is_what_the_file_has(tmp_path: Path, line: str, text: str) -> None:
    cluster = site_of(tmp_path, line, "env: {HF_HUB_OFFLINE: 1, NCCL_ASYNC: true}")
    assert getattr(cluster, line.partition(":")[0]) == text
    assert cluster.env == {"HF_HUB_OFFLINE": "1", "NCCL_ASYNC": "true"}


def test_one_value_is_accepted_for_a_list(tmp_path: Path) -> None:
    cluster = site_of(tmp_path, "setup: module load cuda", "sbatch_options: --segment=8", "container: {mounts: /a:/b}")
    assert cluster.setup == ("module load cuda",)
    assert (cluster.sbatch_options, cluster.container.mounts) == (("--segment=8",), ("/a:/b",))


def test_a_cluster_with_another_gpu_is_refused() -> None:
    with pytest.raises(UserError, match="has H200, the point is for H100"):
        resolve(Request("llama3.1-8b", "H100", "fp8", 8, cluster="hgx-h200"))


class TestSet:
    """``--set`` is checked like the file."""

    def spec(self, *overrides: Any) -> Any:
        return resolve(Request("tiny-llama", "CPU", "fp32", 2, overrides=overrides))

    def test_changes_one_value(self) -> None:
        assert self.spec("training.steps=7").training.steps == 7
        assert self.spec("cluster.env.NCCL_DEBUG=INFO").env["NCCL_DEBUG"] == "INFO"
        assert self.spec("cluster.container.mounts=[/a:/b, /c:/d]").cluster.container.mounts == ("/a:/b", "/c:/d")

    def test_later_ones_win(self) -> None:
        assert self.spec("training.steps=7", "training.steps=8").training.steps == 8

    def test_text_stays_text(self) -> None:
        assert self.spec('cluster.env.X=$(touch x); "quote').env["X"] == '$(touch x); "quote'

    def test_fewer_layers_make_a_proxy(self) -> None:
        assert self.spec("model.num_layers=2").proxy is True
        assert self.spec().proxy is False

    @pytest.mark.parametrize(
        ("override", "says"),
        [
            ("training.step=7", "did you mean 'steps'"),
            ("trainig.steps=7", "did you mean 'training'"),
            ("training.steps=many", "'many'"),
            ("training.steps", "expected key=value"),
            ("training.steps=0", "greater than 0"),
            ("num_gpus=4", "unknown key"),
            ("layout.tensor_model_parallel_size=2", "did you mean 'layout.tp'"),
            ("micro_batch_size=2", "did you mean 'mbs'"),
            ("num_hidden_layers=2", "did you mean 'model.num_layers'"),
        ],
    )
    def test_a_mistake_is_named(self, override: str, says: str) -> None:
        with pytest.raises(UserError) as error:
            self.spec(override)
        assert says in str(error.value)
        assert f"--set {override}" in str(error.value)


@pytest.mark.parametrize(
    ("recipe", "framework", "overrides", "release"),
    [
        ("llama3.1-8b", "megatron-bridge", (), "26.08"),
        ("llama3.1-8b", "megatron-bridge", ("image=nvcr.io/nvidia/nemo:25.11",), "25.11"),
        ("llama3.1-8b", "nemo2", (), "25.07.01"),
        ("llama3-8b-sft", "megatron-bridge", ("data.kind=synthetic",), "26.04.01"),  # packs under other names in 26.08
    ],
)
def test_a_named_framework_runs_its_newest_release_that_fits(
    recipe: str, framework: str, overrides: tuple[str, ...], release: str
) -> None:
    spec = resolve(Request(recipe, "H100", "bf16", 8, framework, overrides=overrides))
    assert spec.image == f"nvcr.io/nvidia/nemo:{release}"
    assert resolve(Request(recipe, "H100", "bf16", 8, overrides=overrides)).image != "nvcr.io/nvidia/nemo:26.08"
