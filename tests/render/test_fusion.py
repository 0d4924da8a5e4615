"""What a framework is told of fused activations, held to megatron-core's own code: it raises where it has no kernel.

Each kind of model goes through the forward pass of megatron-core's MLP, or of its grouped experts, under the
TransformerConfig that the framework's driver, flags or worker ask for. The linear layers alone are stand-ins.
"""

import ast
import dataclasses
import shlex
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kinds import SPREAD, spec

torch = pytest.importorskip("torch", reason="megatron-core needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="megatron-core needs pip install '.[train]'")

from megatron.core.activations import squared_relu  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.transformer.mlp import MLP  # noqa: E402
from megatron.core.transformer.moe.experts import TEGroupedMLP  # noqa: E402

from benchrun.errors import UserError  # noqa: E402
from benchrun.render import render  # noqa: E402
from benchrun.worker import build as worker  # noqa: E402

DRIVERS = {
    "nemo2": ("train_nemo2.py", "GPTConfig"),
    "megatron-bridge": ("train_megatron_bridge.py", "GPTModelProvider"),
}
EXPERTS = ("grok", "mixtral")
MORE = {
    "gpt3": (*SPREAD, "layout.vp=6"),
    "grok": (*SPREAD, "layout.ep=8", "layout.etp=4"),
    "mixtral": (*SPREAD, "layout.ep=8", "layout.etp=4", "model.moe.force_balance=false"),
}
OF_TRANSFORMER_ENGINE = {
    "apply_rope_fusion",
    "moe_permute_fusion",
    "gradient_accumulation_fusion",
    "transformer_impl",
    "tp_comm_overlap",
}
"""What megatron-core refuses without transformer-engine; the kernels of activations are its own."""
FIELDS = {field.name for field in dataclasses.fields(TransformerConfig)} - OF_TRANSFORMER_ENGINE
SILU, GELU = torch.nn.functional.silu, torch.nn.functional.gelu
KINDS = ("llama", "nemotron", "gpt3", "grok", "mixtral")
FRAMEWORKS = ("megatron-core", "megatron-lm", "nemo1", "nemo2", "megatron-bridge")


def in_driver(text: str, name: str) -> dict[str, object]:
    """The keywords of the call of ``name`` in a driver."""
    called = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    (call,) = (c for c in called if name in (getattr(c.func, "attr", ""), getattr(c.func, "id", "")))
    names = {"torch": torch, "squared_relu": squared_relu}
    return {word.arg: eval(compile(ast.Expression(word.value), name, "eval"), names) for word in call.keywords}


def in_flags(job: str) -> dict[str, object]:
    """As megatron.training.arguments reads them: core_transformer_config_from_args @ core_v0.13.0."""
    words = shlex.split(job.split("command=(\n")[1].split("\n)\n")[0], comments=True)
    bias, gated, squared = ("--disable-bias-linear" not in words), "--swiglu" in words, "--squared-relu" in words
    fused = "--no-bias-swiglu-fusion" not in words if gated else bias and "--no-bias-gelu-fusion" not in words
    function = SILU if gated else squared_relu if squared else GELU
    return {"gated_linear_unit": gated, "add_bias_linear": bias, "activation_func": function} | {
        "bias_activation_fusion": fused,
        **{name.replace("-", "_"): int(words[words.index(f"--{name}") + 1]) for name in ("num-layers", "hidden-size")},
        "num_attention_heads": int(words[words.index("--num-attention-heads") + 1]),
    }


def in_yaml(text: str) -> dict[str, object]:
    """As MegatronGPTModel.build_transformer_config reads them, @ NeMo v2.0.0."""
    model = yaml.safe_load(text)["model"]
    functions = {"fast-swiglu": SILU, "squared-relu": squared_relu}
    return {
        **{name: model[name] for name in ("num_layers", "hidden_size", "num_attention_heads")},
        "gated_linear_unit": model["activation"].startswith("fast-"),
        "activation_func": functions.get(model["activation"], GELU),
        "add_bias_linear": model["bias"],
        "bias_activation_fusion": model["bias_activation_fusion"],
    }


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """megatron-core's kernels run as they are written; compiling them takes half a second each."""
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """kind, framework -> the keywords of TransformerConfig that a run of it asks for."""

    def values(kind: Any, framework: Any, *more: Any) -> Any:
        run = spec(tmp_path, kind, framework, *MORE.get(kind, SPREAD), *more, precision="bf16")
        if framework == "megatron-core":
            fields = {"__dataclass_fields__": worker.TransformerConfig.__dataclass_fields__}
            stand_in = type("Keywords", (dict,), fields)  # as on a GPU: here its kernels are missing
            monkeypatch.setattr(worker, "TransformerConfig", stand_in)
            return worker.transformer_config(run)
        files = render(run)
        if framework == "megatron-lm":
            return in_flags(files["job.sh"])
        if framework == "nemo1":
            return in_yaml(files["nemo1.yaml"])
        file, name = DRIVERS[framework]
        return in_driver(files[file], name)

    return values


def forward(config: TransformerConfig, grouped: bool) -> Any:
    """megatron-core's MLP, or its grouped experts, between two linear layers that only have the right widths."""
    inner, tokens = 8, torch.ones(4, 1, 8)
    wide = torch.ones(*(tokens.shape[:1] if grouped else tokens.shape[:2]), inner * (1 + config.gated_linear_unit))
    bias = torch.zeros(wide.shape[-1]) if config.add_bias_linear else None
    layer = types.SimpleNamespace(
        config=config,
        activation_func=config.activation_func,
        linear_fc1=lambda *_: (wide, bias),
        linear_fc2=lambda x, *_: (x, None),
        offload_expert_fc1=False,
        offload_moe_act=False,
        activation_recompute=False,
        _apply_bias=TEGroupedMLP._apply_bias,
    )
    if grouped:
        return TEGroupedMLP.forward(layer, tokens[:, 0], torch.tensor([2, 2]), torch.ones(4))[0]
    return MLP.forward(layer, tokens)[0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_activation_is_fused_where_megatron_core_has_a_kernel_and_only_there(
    asked: Callable[..., Any], kind: str, framework: str
) -> None:
    if (kind, framework) == ("grok", "megatron-lm"):
        with pytest.raises(UserError, match="geglu"):
            asked(kind, framework)
        return
    values = {name: value for name, value in asked(kind, framework).items() if name in FIELDS}
    grouped = kind in EXPERTS and framework != "nemo1"  # whose cores, 0.7 to 0.10, compute an expert as an MLP
    assert forward(TransformerConfig(**values), grouped).shape[0] == 4
    if not values["bias_activation_fusion"]:
        with pytest.raises(ValueError, match=r"fusion"):
            forward(TransformerConfig(**{**values, "bias_activation_fusion": True}), grouped)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_biases_give_a_squared_relu_no_kernel(asked: Callable[..., Any], framework: str) -> None:
    values = asked("nemotron", framework, "model.bias=true")
    assert (values["add_bias_linear"], values["bias_activation_fusion"]) == (True, False)
