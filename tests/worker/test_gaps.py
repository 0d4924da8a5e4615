"""Small pieces around the GPU path that a CPU can check: gradient sums, the optimizer's groups, kernels, garbage."""

import gc
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

import facts  # noqa: E402

from benchrun.errors import UserError  # noqa: E402
from benchrun.recipes.resolve import resolve  # noqa: E402
from benchrun.recipes.select import Request  # noqa: E402
from benchrun.runspec.training import Optimizer  # noqa: E402
from benchrun.worker import build, log, ranks, te  # noqa: E402


def case(dtype: Any) -> tuple[Any, Any, Any, Any]:
    """Inputs, gradient of the outputs, gradient so far, and the sum in FP64."""
    generator = torch.Generator().manual_seed(1)
    inputs, grad = (torch.randn(32, width, generator=generator).to(dtype) for width in (8, 6))
    start = torch.randn(6, 8, generator=generator)
    return inputs, grad, start, start.double() + grad.double().t() @ inputs.double()


def test_weight_gradients_are_added_in_fp32() -> None:
    inputs, grad, total, expected = case(torch.bfloat16)
    te.add_weight_gradient(inputs, grad, total)
    torch.testing.assert_close(total.double(), expected, rtol=1e-5, atol=1e-5)


def test_weight_gradients_are_added_in_bf16() -> None:
    inputs, grad, start, expected = case(torch.bfloat16)
    total = start.bfloat16()
    te.add_weight_gradient(inputs, grad, total)
    torch.testing.assert_close(total.double(), expected, rtol=2e-2, atol=2e-1)
    assert total.dtype == torch.bfloat16
    assert not torch.equal(total, start.bfloat16())


def test_a_group_is_cut_into_pieces_that_keep_its_order_and_its_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FP32_AT_A_TIME", 10)
    weights = [torch.zeros(size) for size in (4, 4, 4, 30, 1)]
    pieces = build.split({"params": weights, "lr": 0.1, "wd_mult": 1.0})
    assert [[p.numel() for p in piece["params"]] for piece in pieces] == [[4, 4], [4], [30], [1]]
    assert all(piece["lr"] == 0.1 and piece["wd_mult"] == 1.0 for piece in pieces)


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Recipe -> arguments of TransformerConfig in BF16 on eight GPUs; without GPUs the class itself refuses some."""
    fields = {"__dataclass_fields__": build.TransformerConfig.__dataclass_fields__}
    monkeypatch.setattr(build, "TransformerConfig", type("Keywords", (dict,), fields))

    def arguments(recipe: str, *overrides: str) -> dict[str, Any]:
        values: dict[str, Any] = build.transformer_config(
            resolve(Request(recipe, "H200", "bf16", 8, "megatron-core", overrides=overrides))
        )
        return values

    return arguments


@pytest.mark.parametrize("fused", [True, False])
def test_kernels_are_fused_where_the_spec_asks(configured: Callable[..., dict[str, Any]], fused: bool) -> None:
    values = configured("gpt3-175b", f"training.fused_kernels={fused}".lower())
    assert (
        values["bias_activation_fusion"]
        == values["bias_dropout_fusion"]
        == values["cross_entropy_loss_fusion"]
        == fused
    )
    assert values["gradient_accumulation_fusion"]


@pytest.mark.parametrize("field", ["moe_grouped_gemm", "moe_permute_fusion"])
@pytest.mark.parametrize("value", [True, False])
def test_experts_follow_the_spec(configured: Callable[..., dict[str, Any]], field: str, value: bool) -> None:
    values = configured("mixtral-8x7b", f"training.{field}={value}".lower())
    assert values[field] == value
    assert values["bias_activation_fusion"]


def test_local_layers_use_nothing_of_transformer_engine(
    configured: Callable[..., dict[str, Any]],
) -> None:
    plain = "training.optimizer={precision_aware: false, exp_avg: fp32, exp_avg_sq: fp32}"
    values = configured("mixtral-8x7b", "model.num_layers=4", plain, "training.transformer_impl=local")
    assert values["transformer_impl"] == "local"
    fused = ("moe_grouped_gemm", "moe_permute_fusion", "bias_activation_fusion", "gradient_accumulation_fusion")
    assert not any(values[name] for name in fused)


def test_a_spec_of_an_older_version_is_refused_by_the_worker() -> None:
    spec = resolve(Request("llama2-7b", "H200", "bf16", 8, "megatron-core"))
    with pytest.raises(UserError):
        build.transformer_config(spec.model_copy(update={"megatron": None}))


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, has_transformer_engine: bool, **training: Any) -> None:
    """The worker's own check of a run that the recipe did not resolve."""
    monkeypatch.setattr(build, "HAVE_TE", has_transformer_engine)
    spec = resolve(Request("llama2-7b", "H200", "bf16", 8, "megatron-core"))
    build.refuse_impossible(spec.model_copy(update={"training": spec.training.model_copy(update=training)}))


def test_a_missing_transformer_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_gpu(monkeypatch, True)
    on_a_gpu(monkeypatch, False, transformer_impl="local")
    with pytest.raises(UserError, match="transformer_impl is transformer_engine, and this process cannot import it"):
        on_a_gpu(monkeypatch, False)


@pytest.mark.parametrize(
    ("training", "name"),
    [
        ({"optimizer": Optimizer(precision_aware=True)}, "optimizer.precision_aware"),
        ({"cuda_graphs": "layers"}, "cuda_graphs"),
        ({"tp_comm_overlap": True}, "tp_comm_overlap"),
        ({"cp_comm": "a2a"}, "cp_comm"),
    ],
)
def test_options_of_transformer_engine_are_refused_without_its_layers(
    monkeypatch: pytest.MonkeyPatch, training: dict[str, Any], name: str
) -> None:
    with pytest.raises(UserError, match=f"training.{name} needs transformer-engine on a GPU"):
        on_a_gpu(monkeypatch, True, transformer_impl="local", **training)


@pytest.mark.parametrize(("fused", "kernel"), [(True, "torch.addmm"), (False, "autograd")])
def test_the_log_names_a_kernel_only_where_a_layer_uses_it(
    monkeypatch: pytest.MonkeyPatch, fused: bool, kernel: str
) -> None:
    module = SimpleNamespace(wgrad_gemm_accum_fp32=te.add_weight_gradient)
    monkeypatch.setitem(sys.modules, te.WGRAD, module)
    layer = torch.nn.Linear(1, 1)
    layer.config = SimpleNamespace(gradient_accumulation_fusion=fused)
    inner = SimpleNamespace(optimizer=SimpleNamespace(state={}))
    assert facts.in_use([torch.nn.Sequential(layer)], inner)["output_layer_gradient"] == kernel


@pytest.mark.parametrize("module", [SimpleNamespace(__version__="2.11.0"), None])
def test_the_log_has_the_version_of_transformer_engine_only_where_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    monkeypatch.setitem(sys.modules, "transformer_engine", module)
    text = log.configuration(
        resolve(Request("tiny-llama", "CPU", "fp32", 1)), {"transformer-engine": "transformer_engine"}
    )
    config = json.loads(text.partition("benchrun config: ")[2].partition("\n")[0])
    assert config["versions"]["transformer-engine"] == (module and "2.11.0")


@pytest.mark.parametrize(("interval", "collected", "by_itself"), [(2, [2, 4], False), (0, [], True)])
def test_garbage_is_collected_at_the_steps_of_the_spec(
    monkeypatch: pytest.MonkeyPatch, interval: int, collected: list[int], by_itself: bool
) -> None:
    overrides = (f"training.manual_gc_interval={interval}",)
    wanted = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=overrides))
    seen = []
    try:
        ranks.collect_garbage(wanted, step=0)
        assert gc.isenabled() == by_itself
        for step in range(1, 6):
            monkeypatch.setattr(gc, "collect", lambda step=step: seen.append(step))
            ranks.collect_garbage(wanted, step)
    finally:
        gc.enable()
    assert seen == collected
