"""How a point is chosen: by what was asked, by the generation that published it, by scaling one that is listed."""

from pathlib import Path
from typing import Any

import pytest

from benchrun import paths
from benchrun.errors import UserError
from benchrun.judge.conditions import conditions
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.vocabulary import Reduced


def refused(*request: int | str, **more: str | tuple[str, ...]) -> UserError:
    with pytest.raises(UserError) as error:
        resolve(Request(*request, **more))
    return error.value


class TestScaling:
    """A number of GPUs that is not listed."""

    def test_takes_the_layout_and_the_batch_a_gpu_of_the_nearest_listed_one(self) -> None:
        spec, listed = (resolve(Request("llama3.1-8b", "H100", "fp8", n)) for n in (48, 64))
        assert spec.layout == listed.layout
        assert (spec.gbs, spec.dp, spec.num_nodes) == (16 * 48, 24, 6)
        assert spec.num_microbatches == listed.num_microbatches

    def test_is_said_to_be_derived_and_from_what(self) -> None:
        spec = resolve(Request("llama3.1-8b", "H100", "fp8", 256, "nemo1"))
        assert spec.source is None
        assert spec.derived.startswith("layout and batch per GPU of 128 GPUs, as in: NVIDIA/dgxc-benchmarking llama3")
        assert resolve(Request("llama3.1-8b", "H100", "fp8", 128, "nemo1")).derived is None

    def test_names_a_publisher_only_for_the_framework_that_it_ran(self) -> None:
        spec = resolve(Request("llama3.1-8b", "H100", "fp8", 128, "megatron-core"))
        assert spec.source is None
        assert spec.derived.startswith("as in nemo1, nemo2: NVIDIA/dgxc-benchmarking llama3.1")

    def test_is_refused_where_the_layout_does_not_fit_with_the_nearest_listed_ones(self) -> None:
        error = refused("llama3.1-8b", "H100", "fp8", 63, "nemo1")
        assert "number of GPUs (63) must be a multiple of tp * pp * cp (1 * 1 * 2 = 2)" in error.message
        assert "GPUs is that of 64; nearest: 32, 64" in error.hint

    def test_is_refused_where_the_experts_do_not_fit(self) -> None:
        error = refused("grok1-314b", "H100", "bf16", 192, "nemo1")
        assert "number of GPUs (192) must be a multiple of ep * etp * pp (8 * 4 * 8 = 256)" in error.message
        assert "nearest: 128, 256" in error.hint

    def test_is_refused_where_the_batch_would_not_be_whole(self) -> None:
        error = refused("llama3.1-405b", "H100", "bf16", 600, "nemo1")
        assert "no point with --num-gpus 600" in error.message
        assert "nearest: 192, 576" in error.hint

    def test_never_scales_a_proxy_nor_a_fixed_batch(self) -> None:
        assert "nearest: 2, 4" in refused("tiny-llama", "CPU", "fp32", 3).hint
        spec = resolve(Request("llama3.1-70b", "H100", "bf16", 32))
        assert (spec.model.num_layers, spec.layout.pp) == (80, 4)


class TestApart:
    """Points that share all but batch and sequence."""

    POINT = ("llama2-70b-lora", "H100", "fp8", 8)

    def test_the_first_is_meant_where_nothing_is_said(self) -> None:
        spec = resolve(Request(*self.POINT))
        assert (spec.gbs, spec.seq_length, spec.layout.pp) == (32, 4096, 4)

    @pytest.mark.parametrize("override", ["gbs=8", "seq_length=8192"])
    def test_set_chooses_the_one_that_has_it_and_its_layout(self, override: str) -> None:
        spec = resolve(Request(*self.POINT, overrides=(override,)))
        assert (spec.gbs, spec.seq_length, spec.layout.tp, spec.layout.pp) == (8, 8192, 4, 1)
        assert spec.derived.startswith("as in nemo1: MLPerf")
        assert spec.training.lora.target_modules == ("linear_qkv", "linear_proj")
        assert (spec.proxy, spec.reduced, spec.model.max_position_embeddings) == (False, (), 8192)

    def test_a_batch_that_none_has_is_set_on_the_first(self) -> None:
        spec = resolve(Request(*self.POINT, overrides=("gbs=64",)))
        assert (spec.gbs, spec.seq_length, spec.layout.pp) == (64, 4096, 4)

    def test_two_that_say_the_same_are_refused(self, tmp_path: Path) -> None:
        text = TestModels.RECIPE
        path = tmp_path / "mine.yaml"
        first = text.index("  - gpu: H100")
        path.write_text(text + "\n" + text[first : text.index("\n\n", first)] + "\n")
        assert "several points have H100, bf16, 8 GPUs" in refused(str(path), "H100", "bf16", 8).message


class TestProxies:
    """A model with something cut off is labelled with what it was, and never compared with the whole one."""

    def test_names_what_was_cut(self) -> None:
        spec = resolve(Request("llama3.1-405b", "H100", "bf16", 1))
        assert tuple(map(str, spec.reduced)) == ("num_layers 1 of 126", "vocab_size 16032 of 128256")
        grok = resolve(Request("grok1-314b", "GH200", "fp8", 1))
        assert tuple(map(str, grok.reduced)) == ("num_layers 1 of 64", "moe.num_experts 2 of 8")
        assert "PROXY: num_layers 1 of 64, moe.num_experts 2 of 8" in render(grok)["job.sh"]

    def test_any_dimension_makes_one_but_those_that_are_no_work(self) -> None:
        spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8, overrides=("model.hidden_size=2048",)))
        assert (spec.proxy, conditions(spec).dimensions) == (True, (Reduced("hidden_size", 2048, 4096),))
        more = resolve(Request("llama3.1-8b", "H100", "bf16", 8, overrides=("model.max_position_embeddings=16384",)))
        assert (more.proxy, conditions(more)) == (
            False,
            conditions(resolve(Request("llama3.1-8b", "H100", "bf16", 8))),
        )

    def test_a_mistake_in_what_a_point_cuts_has_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text(TestModels.RECIPE.replace("    mbs: 1\n", "    model: {vocabulary: 32}\n    mbs: 1\n", 1))
        line = path.read_text().splitlines().index("    model: {vocabulary: 32}") + 1
        error = refused(str(path), "H100", "bf16", 8)
        assert (error.where, "model.vocabulary" in error.message) == (f"{path}:{line}", True)


class TestGenerations:
    """Layouts of different releases are told apart by the framework that published them."""

    def test_each_framework_has_the_layout_of_its_release(self) -> None:
        first = resolve(Request("llama3.1-70b", "H100", "fp8", 512, "nemo1"))
        second = resolve(Request("llama3.1-70b", "H100", "fp8", 512, "nemo2"))
        third = resolve(Request("llama3.1-70b", "H100", "fp8", 512, "megatron-bridge"))
        assert [(s.layout.pp, s.layout.cp, s.gbs) for s in (first, second, third)] == [
            (4, 2, 1024),
            (8, 1, 1024),
            (8, 1, 2048),
        ]

    def test_the_proxies_of_two_generations_are_kept_apart(self) -> None:
        first = resolve(Request("llama3.1-405b", "H100", "bf16", 32, "nemo1"))
        second = resolve(Request("llama3.1-405b", "H100", "bf16", 32, "nemo2"))
        assert [(s.model.num_layers, s.gbs) for s in (first, second)] == [(7, 126), (8, 64)]

    def test_without_a_framework_the_first_that_has_the_point_is_taken(self) -> None:
        assert resolve(Request("llama3.1-405b", "H100", "bf16", 1024)).framework == "megatron-lm"
        assert resolve(Request("llama3.1-405b", "H100", "bf16", 576)).framework == "nemo1"

    def test_what_a_framework_trains_with_is_below_what_the_point_says(self) -> None:
        bridge = resolve(Request("llama3.1-8b", "H100", "fp8", 8, "megatron-bridge")).training
        assert (bridge.fp8.recipe, bridge.recompute.num_layers) == ("tensorwise", 5)
        assert resolve(Request("llama3.1-8b", "H100", "fp8", 8, "nemo1")).training.fp8.recipe == "delayed"
        assert resolve(Request("llama3.1-70b", "H100", "fp8", 64, "nemo1")).training.tp_comm_overlap is True
        assert resolve(Request("llama3.1-70b", "H100", "fp8", 64, "megatron-core")).training.tp_comm_overlap is False


class TestModels:
    """``model: NAME`` stands for a file of dimensions."""

    RECIPE = (paths.RECIPES / "llama2-7b.yaml").read_text()

    def mine(self, tmp_path: Path, model: Any) -> Any:
        path = tmp_path / "mine.yaml"
        path.write_text(self.RECIPE.replace("model: llama2-7b", f"model: {model}"))
        return path

    def test_a_name_that_is_none_has_the_recipes_line_and_the_closest_name(self, tmp_path: Path) -> None:
        path = self.mine(tmp_path, "llama2-7")
        error = refused(str(path), "H100", "bf16", 8)
        assert error.where == f"{path}:4"
        assert "did you mean 'llama2-7b'" in error.hint

    def test_a_mistake_in_the_models_file_has_that_files_line(self, tmp_path: Path) -> None:
        model = tmp_path / "model.yaml"
        text = (paths.MODELS / "llama2-7b.yaml").read_text()
        model.write_text(text.replace("num_layers: 32", "num_layer: 32"))
        error = refused(str(self.mine(tmp_path, model)), "H100", "bf16", 8)
        assert error.where == f"{model}:3"
        assert "did you mean 'num_layers'" in error.hint

    def test_set_changes_one_dimension(self) -> None:
        spec = resolve(Request("llama2-7b", "H100", "bf16", 8, overrides=("model.num_layers=30",)))
        assert (spec.model.num_layers, spec.model.hidden_size, spec.proxy) == (30, 4096, True)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("training.clip_grad=inf", "finite number"),  # spec.json could not hold it, and nobody read the run again
        ("training.recompute.modules=mlp", "expected a list: [...]"),
        ("cluster.env=3", "expected a mapping (key: value)"),
        ("cluster.env.A-B=x", "'cluster.env.A-B' is 'A-B': expected a name of letters"),
        ("cluster.gres=gpu:8", "expected a resource without its count, which is gpus_per_node"),
        ("cluster.gres=gpu:h100:8", "expected a resource without its count"),
        ("cluster.sbatch_options=[segment=8]", "expected an option that begins with -"),
        ("cluster.time_limit=999:00:00", "expected [days-]hours:minutes:seconds"),
    ],
)
def test_a_value_of_another_kind_is_refused_in_a_persons_words(override: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8b", "H100", "fp8", 8, overrides=(override,)))
    assert error.value.where == f"--set {override}"
    assert says in str(error.value)


def test_a_large_recipe_on_a_cpu_is_refused_with_the_recipes_that_run_there() -> None:
    error = refused("llama3.1-70b", "CPU", "bf16", 1)
    assert "no point with --gpu CPU" in error.message
    assert error.hint == "legal: H100, H200, GH200; the recipes called tiny-... train on a CPU"
    assert "has CPU, the point is for H100" in refused("llama3.1-70b", "H100", "bf16", 64, cluster="local").message


def test_a_cluster_whose_gpu_is_misspelt_is_told_the_name() -> None:
    error = refused("llama3.1-8b", "H100", "fp8", 8, overrides=("cluster.gpu=h100",))
    assert "did you mean 'H100'" in error.hint


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "gbs_per_gpu: 16\n    derived",
            "gbs_per_gpu: 0.3\n    derived",
            "gbs_per_gpu 0.3 gives no whole batch on 8 GPUs",
        ),
        ("framework: [megatron-lm", "framework: [hf, megatron-lm", "framework hf, which the recipe does not list"),
        ("    source:", "    derived: by me\n    source:", "either published (source) or chosen here (derived)"),
    ],
)
def test_a_group_of_points_that_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "mine.yaml"
    assert old in TestModels.RECIPE
    path.write_text(TestModels.RECIPE.replace(old, new, 1))
    message = refused(str(path), "H100", "bf16", 8).message
    assert says in message
    assert "'seq_length'" not in message and "'precision'" not in message  # the whole group is not printed
