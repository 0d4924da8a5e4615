"""Every shipped point: legal, within its GPU's memory, and of the model it is named after."""

import functools
import re
from typing import Any

import pytest

from benchrun import api, hardware, paths
from benchrun.memory import estimate
from benchrun.model import ModelShape
from benchrun.model.flops import flops_per_token
from benchrun.recipes import catalogue
from benchrun.recipes.catalogue import checked
from benchrun.recipes.resolve import resolve_point
from benchrun.recipes.yamlfile import load

ASKED = ("framework", "gpu", "precision", "num_gpus", "seq_length", "gbs")
RECIPES = catalogue.trainings()
LARGE = [name for name in RECIPES if not name.startswith("tiny-")]
# Parameters of the models, as NeMo's configurations and the published model cards have them.
PARAMETERS = {
    "gpt3-175b": 174_615_846_912,
    "gpt3-20b": 20_262_014_976,
    "gpt3-5b": 5_051_228_160,
    "grok1-314b": 316_454_737_920,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama2-7b": 6_738_415_616,
    "llama3-70b": 70_553_706_496,
    "llama3.1-70b": 70_553_706_496,
    "llama3-8b": 8_030_261_248,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x22b": 140_620_634_112,
    "mixtral-8x7b": 46_702_792_704,
    "nemotron4-15b": 15_628_775_424,
    "nemotron4-340b": 341_029_195_776,
    # Held to what their makers published in tests/model/test_published_models.py.
    "deepseek-v3": 682_636_472_320,
    "gpt-moe-53b": 53_370_298_368,
    "gpt-oss-120b": 116_829_152_064,
    "gpt-oss-20b": 20_914_756_416,
    "kimi-k2": 1_026_408_209_408,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "llama4-maverick": 400_711_848_960,
    "llama4-scout": 107_769_861_120,
    "mixtral-8x3b": 18_305_026_560,
    "nemotron-3-nano": 31_577_937_344,
    "nemotron-3-super": 126_553_336_832,
    "nemotron-3-ultra": 571_740_188_672,
    "nemotron-3.5-lightning": 34_248_588_992,
    "nemotron-h-56b": 56_324_350_464,
    "nemotron3-22b": 21_266_116_608,
    "nemotron3-8b": 8_540_135_424,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-32b": 32_762_123_264,
    "qwen3-8b": 8_190_735_360,
}


@functools.cache
def resolved(name: Any) -> Any:
    """Every point of a recipe and its RunSpec, once for each set of conditions that decides the arithmetic."""
    file = catalogue.recipe_file(name)
    specs = {}
    for point in catalogue.points(file.recipe):
        if (point.index, point.gpu, point.precision, point.num_gpus) not in specs:
            specs[point.index, point.gpu, point.precision, point.num_gpus] = (point, resolve_point(file, point))
    return file, list(specs.values())


@pytest.mark.parametrize("name", RECIPES)
def test_every_point_resolves_and_its_numbers_fit_together(name: str) -> None:
    file, points = resolved(name)
    for point, spec in points:
        layout = spec.layout
        assert layout.tp * layout.pp * layout.cp * spec.dp == spec.num_gpus
        assert spec.mbs * spec.dp * spec.num_microbatches == spec.gbs
        assert (spec.num_nodes - 1) * spec.cluster.gpus_per_node < spec.num_gpus
        whole = file.recipe.model
        assert spec.proxy == (spec.model.params_total < whole.params_total)
        counts = [each for each in spec.reduced if each.name.endswith(("num_layers", "num_experts", "vocab_size"))]
        assert all(each.size <= each.whole for each in counts), "a proxy with more than the model has"
        assert (spec.model.hidden_size, spec.model.ffn_hidden_size) == (whole.hidden_size, whole.ffn_hidden_size)
        assert (spec.source is None) != (spec.derived is None) or point.gpu == "CPU"


@pytest.mark.parametrize("name", LARGE)
def test_every_point_fits_its_gpu(name: str) -> None:
    for point, spec in resolved(name)[1]:
        memory = estimate(spec)
        # What was published ran; the estimate may be some percent too high.
        room = hardware.gpu(spec.gpu).memory_gib * (1.03 if point.group.source else 1)
        assert memory.total < room, (spec.gpu, spec.precision, spec.num_gpus, memory)


FULL = {
    ("llama2-70b", "H200", 8),  # its speed is published: states alone fill nine tenths
    ("llama3.1-405b", "H100", 1),  # one layer of the width; both were measured, at 75 and 76 GiB
    ("llama3.1-70b", "B200", 64),  # published speeds have this layout, on up to 592 GPUs
    ("nemotron4-340b", "H100", 1),
    ("nemotron-3-ultra", "GB200", 256),  # in low precision FSDP leaves copies of all weights on each GPU
    ("nemotron-3-ultra", "H100", 128),  # its two key heads allow no more tensor parallelism
    ("nemotron4-340b", "GH200", 512),  # the last stage has a vocabulary of 256,000 to itself
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_derived_has_room_to_spare(name: str) -> None:
    """A published layout ran, however full its GPUs; one that is derived keeps clear of the warning."""
    for point, spec in resolved(name)[1]:
        if not point.group.source and (name, point.gpu, point.num_gpus) not in FULL:
            assert estimate(spec).total <= 0.9 * hardware.gpu(spec.gpu).memory_gib, (spec.gpu, spec.num_gpus)


@pytest.mark.parametrize("name", RECIPES)
def test_no_two_points_share_all_that_a_user_can_ask_for(name: str) -> None:
    rows = api.list_points((name,))
    assert len({tuple(row[key] for key in ASKED) for row in rows}) == len(rows)


@pytest.mark.parametrize("name", [name for name in LARGE if not name.endswith("-hf")])
def test_every_workload_can_be_tried_on_one_node(name: str) -> None:
    rows = api.list_points((name,))
    for gpu in ("H100", "H200", "GH200"):
        small = {row["num_gpus"] for row in rows if row["gpu"] == gpu and row["num_gpus"] <= 8}
        assert small >= {1, 2, 4, 8}, gpu


def test_every_model_has_the_parameters_it_is_known_for() -> None:
    assert paths.shipped(paths.MODELS) == sorted(PARAMETERS)
    for name, parameters in PARAMETERS.items():
        assert checked(ModelShape, load(paths.MODELS / f"{name}.yaml")).params_total == parameters, name


# GFLOPs a token that published TFLOPS divided by published tokens/s give: model, sequence length, full, causal.
PUBLISHED_FLOPS = [
    ("llama3-8b", 8192, 57.91, 51.47),
    ("llama3-70b", 8192, 481.4, 449.2),
    ("llama3.1-405b", 8192, 2625, 2524),
    ("llama2-7b", 4096, 46.08, 42.86),
    ("nemotron4-15b", 4096, 94.0, None),
    ("nemotron4-340b", 4096, 2105, None),
    ("mixtral-8x7b", 4096, 82.93, None),
    ("mixtral-8x22b", 65536, 504.3, 369.2),
]


@pytest.mark.parametrize(("name", "seq_length", "full", "causal"), PUBLISHED_FLOPS)
def test_every_model_costs_the_flops_that_published_rates_imply(
    name: str, seq_length: int, full: float, causal: float | int | None
) -> None:
    flops = flops_per_token(checked(ModelShape, load(paths.MODELS / f"{name}.yaml")), seq_length)
    assert flops.full / 1e9 == pytest.approx(full, rel=0.001)
    assert causal is None or flops.causal / 1e9 == pytest.approx(causal, rel=0.001)


def test_every_recipe_stands_in_the_list_of_recipes() -> None:
    text = (paths.RECIPES / "README.md").read_text()
    assert [name for name in RECIPES if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("recipe", "positions"),
    [
        *(("llama3-8b", 8192), ("llama3-70b", 8192), ("mixtral-8x7b", 32768), ("mixtral-8x22b", 65536)),
        *(("llama3.1-8b", 131072), ("llama3.1-70b", 131072), ("llama3.1-405b", 131072)),
    ],
)
def test_a_model_takes_as_many_positions_as_it_was_released_with(recipe: str, positions: int) -> None:
    assert catalogue.recipe_file(recipe).recipe.model.max_position_embeddings == positions


@pytest.mark.parametrize("name", ["llama3.1-8b", "llama3.1-70b", "llama3.1-405b"])
def test_a_model_says_what_of_it_is_left_out(name: str) -> None:
    assert re.search(r"# The rotary scaling of 3\.1 ", (paths.MODELS / f"{name}.yaml").read_text())
