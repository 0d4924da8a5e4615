"""Configurations of public models become recipes: parameters as in the card, layouts that fit, or one clear error."""

import json
from pathlib import Path
from typing import Any

import pytest
from calling import call
from models import MODELS
from selection import some

from benchrun import api, paths
from benchrun.capabilities.from_hf.families import shape_of
from benchrun.errors import UserError
from benchrun.model import ModelShape
from benchrun.recipes.catalogue import checked, points, recipe_file
from benchrun.recipes.yamlfile import load, parse

SMALL = "google/gemma-3-1b-pt"
HAND_WRITTEN = {
    "meta-llama/Llama-3.1-8B": "llama3.1-8b",
    "Qwen/Qwen2.5-7B": "qwen2.5-7b",
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "openai/gpt-oss-20b": "gpt-oss-20b",
}
"""Model -> its file in recipes/models, which says the same apart from the length of a sequence."""


def shape(config: dict[str, Any]) -> ModelShape:
    return shape_of(parse(json.dumps(config, indent=2), "config.json"))[0]


@pytest.mark.parametrize("name", MODELS)
def test_the_parameters_are_those_of_the_card(name: str) -> None:
    card, config = MODELS[name]
    without_predictions = shape(config).model_copy(update={"mtp_layers": 0})
    assert without_predictions.params_total == pytest.approx(card, rel=0.005)


@pytest.mark.parametrize(("name", "ours"), HAND_WRITTEN.items())
def test_a_model_is_the_one_that_was_written_by_hand(name: str, ours: str) -> None:
    written = checked(ModelShape, load(paths.MODELS / f"{ours}.yaml"))
    differs = {"max_position_embeddings", "rope_scaling"} | ({"kv_channels"} if written.mla else set())
    assert shape(MODELS[name][1]).model_dump(exclude=differs) == written.model_dump(exclude=differs)


def test_of_a_model_that_sees_the_language_model_is_taken() -> None:
    """Gemma 3 4B: 3.88 billion parameters without its encoder; its file is silent on what the class has."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34}
    outer = {"model_type": "gemma3", "mm_tokens_per_image": 256, "text_config": text, "vision_config": {"x": 1}}
    found, notes = shape_of(parse(json.dumps(outer), "config.json"))
    assert found.params_total == pytest.approx(3.88e9, rel=0.005)
    assert notes[0].startswith("vision_config")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of a small model."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(MODELS[SMALL][1], indent=2))
    return file


@pytest.mark.parametrize("name", some([*MODELS], 2))
def test_a_written_recipe_is_shown_predicted_and_rendered(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODELS[name][1]))
    file = tmp_path / "mine.yaml"
    result = call("recipe", "from-hf", tmp_path, "--output", file)
    assert result.returncode == 0, result.stderr
    listed = points(recipe_file(str(file)).recipe)
    assert {point.gpu for point in listed} >= {"H100", "H200", "B200"}
    enough = min(point.num_gpus for point in listed if point.gpu == "H100" and point.num_gpus >= 64)
    point = ("--gpu", "H100", "--precision", "bf16", "--num-gpus", enough)
    for verb in ("show", "predict", "render"):
        result = call(verb, file, *point)
        assert result.returncode == 0, result.stderr
    memory = api.describe(api.resolve_shown(api.Request(str(file), "H100", "bf16", enough)))["memory_gib"]
    assert memory["total"] < 80


def test_a_recipe_goes_to_stdout_and_never_over_a_file(config: Path) -> None:
    result = call("recipe", "from-hf", config)
    assert (result.returncode, parse(result.stdout, "out")["task"]) == (0, "pretrain")
    assert "norms after attention" in result.stderr
    assert call("recipe", "from-hf", config, "--output", config).returncode == 2
    assert json.loads(config.read_text()) == MODELS[SMALL][1]


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("lora_ranks", [1, 2], "lora_ranks"),
        ("model_type", "gemma4", "gemma3_text"),
        ("hidden_activation", "relu", "hidden_activation"),
        ("hidden_size", "wide", "hidden_size"),
        ("hidden_size", -1, "hidden_size"),
        ("num_key_value_heads", 0, "num_key_value_heads"),
        ("attention_bias", True, "attention_bias"),
        ("is_encoder_decoder", True, "is_encoder_decoder"),
        ("vision_config", {"hidden_size": 1152}, "vision_config"),
        ("layer_types", ["sliding_attention"] * 25 + ["linear_attention"], "layer_types"),
    ],
)
def test_what_a_recipe_cannot_represent_is_refused_by_key_and_line(
    config: Path, key: str, value: object, named: str
) -> None:
    lines = json.dumps(MODELS[SMALL][1] | {key: value}, indent=2).splitlines()
    config.write_text("\n".join(lines))
    (number,) = [number for number, line in enumerate(lines, 1) if f'"{key}":' in line]
    result = call("recipe", "from-hf", config)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"config.json:{number}:" in result.stderr
    assert named in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("text", ["", "[1]", '{"model_type": "llama"', "{}", "\x00"])
def test_what_is_no_configuration_is_refused(config: Path, text: str) -> None:
    config.write_text(text)
    result = call("recipe", "from-hf", config)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


def test_a_window_in_the_upper_layers_alone_is_refused() -> None:
    own = {"use_sliding_window": True, "sliding_window": 4096}
    with pytest.raises(UserError, match="max_window_layers"):
        shape(MODELS["Qwen/Qwen2.5-7B"][1] | own)


def test_each_window_layer_counts() -> None:
    model = shape(MODELS["google/gemma-2-9b"][1])
    assert model.window
    assert (model.window.size, model.window.full_every) == (4096, 2)
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    listed = shape(MODELS[SMALL][1] | {"layer_types": kinds * 4 + kinds[:2], "sliding_window_pattern": None})
    assert listed == shape(MODELS[SMALL][1])


def test_names_of_hugging_face_are_understood_in_a_recipe() -> None:
    point = ("llama3.1-8b", "--gpu", "H100", "--precision", "bf16", "--num-gpus", "64")
    for key in ("model.num_hidden_layers", "num_hidden_layers"):
        result = call("show", *point, "--set", f"{key}=4")
        assert result.returncode == 2
        assert "did you mean 'model.num_layers'" in result.stderr


@pytest.mark.parametrize("framework", ["vllm", "sglang"])
def test_a_server_of_any_weights_is_shown_and_rendered(config: Path, tmp_path: Path, framework: str) -> None:
    file = tmp_path / "server.yaml"
    result = call("recipe", "from-hf", config, "--serve", "/models/mine", "--output", file)
    assert result.returncode == 0, result.stderr
    point = ("--gpu", "H100", "--num-gpus", "1", "--framework", framework)
    assert call("show", file, *point).returncode == 0
    assert "/models/mine" in call("render", file, *point).stdout


def test_weights_of_a_precision_without_points_are_not_served(config: Path) -> None:
    config.write_text(json.dumps(MODELS["openai/gpt-oss-20b"][1], indent=2))
    result = call("recipe", "from-hf", config, "--serve", "openai/gpt-oss-20b")
    assert (result.returncode, result.stdout) == (2, "")
    assert "quantization_config" in result.stderr
