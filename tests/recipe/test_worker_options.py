"""What only the worker can be told: refused where it cannot be, and counted in the memory of a GPU."""

from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.memory import estimate
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec

AWARE = "training.optimizer.precision_aware=true"
BF16_MOMENTS = (AWARE, "training.optimizer.exp_avg=bf16", "training.optimizer.exp_avg_sq=bf16")
NORMS = "training.recompute={granularity: selective, modules: [layernorm]}"
GRAPHS = "training.cuda_graphs=layers"
WORKER = "megatron-core"


def spec(recipe: str, *overrides: str, precision: str = "fp8", framework: str = WORKER, num_gpus: Any = 8) -> RunSpec:
    return resolve(Request(recipe, "H200", precision, num_gpus, framework, overrides=overrides))


@pytest.mark.parametrize(
    ("recipe", "precision", "overrides", "said"),
    [
        ("llama2-7b", "fp8", ("training.optimizer.exp_avg=bf16",), "need optimizer.precision_aware"),
        (
            "llama2-7b",
            "bf16",
            (AWARE, "training.distributed_optimizer=false", "training.overlap_param_gather=false"),
            "optimizer.precision_aware needs distributed_optimizer",
        ),
        (
            "llama2-7b",
            "fp8",
            ("training.distributed_optimizer=false", "training.overlap_param_gather=false"),
            "fp8.param_gather needs distributed_optimizer",
        ),
        ("llama2-7b", "fp8", (AWARE, "training.fp8.tp_only_amax_reduction=true"), "ranks with different FP8 weights"),
        ("llama2-7b", "fp8", ("training.transformer_impl=local",), "precision fp8 needs transformer-engine"),
        (
            "mixtral-8x7b",
            "bf16",
            ("training.moe_grouped_gemm=false", "training.recompute={granularity: selective, modules: [moe_act]}"),
            "moe_act needs moe_grouped_gemm",
        ),
        ("llama2-7b", "bf16", ("training.moe_grouped_gemm=false",), "moe_grouped_gemm is for a model with experts"),
        ("llama2-7b", "bf16", ("training.moe_permute_fusion=false",), "moe_permute_fusion is for a model with experts"),
        (
            "llama2-7b",
            "bf16",
            ("training.transformer_impl=local", "layout.cp=2"),
            "layout.cp above 1 needs transformer",
        ),
        ("llama2-7b", "bf16", (NORMS,), "layernorm does nothing without experts"),
        ("mixtral-8x7b", "bf16", (NORMS, "training.transformer_impl=local"), "layernorm needs transformer-engine"),
        ("llama2-7b", "bf16", ("training.recompute.modules=[mlp]",), "belong to granularity selective"),
        (
            "mixtral-8x7b",
            "fp8",
            ("training.recompute={granularity: selective, modules: [moe_act]}",),
            "moe_act does not work with fp8.recipe delayed",
        ),
        ("llama2-7b", "bf16", ("training.recompute={granularity: selective, modules: [moe]}",), "has no experts"),
        ("llama2-7b", "bf16", ("training.cp_comm=a2a",), "cp 1 on H200 takes p2p"),
        (
            "llama2-7b",
            "bf16",
            ("training.cp_comm=a2a", "layout.cp=2", "model.num_query_groups=1"),
            "distributes query groups",
        ),
        (
            "llama2-7b",
            "bf16",
            (
                "training.cuda_graphs=layers",
                "training.recompute={granularity: full, method: uniform, num_layers: 1}",
            ),
            "cuda_graphs need a GPU, and no full recompute",
        ),
        (
            "llama3.1-8b",
            "bf16",
            ("layout={tp: 1, cp: 1, pp: 2, vp: 1}", "training.cuda_graphs=layers"),
            "cannot capture cuda_graphs in a pipeline",
        ),
        ("llama3.1-8b", "bf16", ("training.graph_scopes=[attn]",), "graph_scopes belong to cuda_graphs layers"),
        ("llama3.1-8b", "bf16", ("training.moe_dispatcher=deepep",), "this model has none"),
        ("qwen3-30b-a3b", "bf16", ("training.cuda_graphs=full_iteration",), "the tokens of an expert vary"),
        ("qwen3-30b-a3b", "bf16", (GRAPHS, "training.graph_scopes=[moe]"), "the tokens of an expert vary"),
        ("mixtral-8x7b", "bf16", (GRAPHS, "training.graph_scopes=[mlp]"), "every layer has experts"),
        ("llama3.1-8b", "bf16", (GRAPHS, "training.graph_scopes=[moe_router]"), "has no experts"),
        ("llama3.1-8b", "bf16", (GRAPHS, "training.graph_scopes=[mamba]"), "has no such layer"),
        ("mixtral-8x7b", "bf16", ("training.moe_overlap=true",), "does not support training.moe_overlap"),
        ("llama2-7b", "bf16", ("training.offload_modules=[core_attn]",), "does not support training.offload_modules"),
        (
            "llama2-7b",
            "bf16",
            ("training.switches={model.bias_dropout_fusion: false}",),
            "does not support training.switches",
        ),
        (
            "llama2-7b",
            "fp8",
            ("training.fp8={recipe: blockwise, dot_product_attention: true}",),
            "not blockwise",
        ),
        (
            "llama2-7b",
            "fp8",
            ("training.fp8.dot_product_attention=true", "model.kv_channels=64"),
            "heads of 128 channels alone: kv_channels is 64",
        ),
        ("nemotron4-15b", "fp8", ("training.fp8.store_activation_input=true",), "is for swiglu, not for squared-relu"),
        ("llama2-7b", "fp8", ("seq_length=72", "mbs=1"), "must be a multiple of 16 in fp8"),
    ],
)
def test_the_worker_refuses_with_the_reason(recipe: str, precision: str, overrides: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UserError) as error:
        spec(recipe, *overrides, precision=precision)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["layernorm", "moe_act"])
def test_what_a_cpu_cannot_compute_again_is_refused(name: str) -> None:
    again = f"training.recompute={{granularity: selective, modules: [{name}]}}"
    with pytest.raises(UserError, match=f"{name} needs transformer-engine"):
        resolve(Request("tiny-mixtral", "CPU", "bf16", 1, WORKER, overrides=(again,)))


def test_communication_of_a_cpu_has_no_userbuffers() -> None:
    layout = ("layout={tp: 2, sequence_parallel: true}", "training.tp_comm_overlap=true")
    with pytest.raises(UserError, match="tp_comm_overlap is between GPUs"):
        resolve(Request("tiny-llama", "CPU", "bf16", 2, WORKER, overrides=layout))


def test_graphs_are_of_the_parts_that_are_named() -> None:
    router = spec("mixtral-8x7b", GRAPHS, "training.graph_scopes=[attn, moe_router]", precision="bf16")
    assert router.megatron.worker["cuda_graph_modules"] == ["attn", "moe_router"]
    attention = spec("mixtral-8x7b", GRAPHS, precision="bf16")
    assert attention.megatron.worker["cuda_graph_modules"] == ["attn"]
    whole = spec("llama3.1-8b", "training.cuda_graphs=full_iteration", precision="bf16")
    assert whole.megatron.worker["cuda_graph_impl"] == "full_iteration"
    assert whole.megatron.worker["cuda_graph_modules"] == []


def test_norms_before_experts_can_be_computed_again() -> None:
    assert spec("mixtral-8x7b", NORMS, precision="bf16").training.recompute.modules == ("layernorm",)


def test_another_framework_is_not_asked_for_what_it_is_not_told() -> None:
    for override in (AWARE, "training.cuda_graphs=layers", "training.fp8.dot_product_attention=true"):
        assert spec("llama2-7b", override).framework == WORKER
        with pytest.raises(UserError, match="leave it out, or use"):
            spec("llama2-7b", override, framework="megatron-lm")


def test_states_in_bf16_take_a_third_less_memory() -> None:
    whole, half = estimate(spec("llama2-7b")), estimate(spec("llama2-7b", *BF16_MOMENTS))
    assert half.optimizer == pytest.approx(whole.optimizer * 8 / 12)


def test_a_bf16_weight_keeps_only_the_bits_that_it_lacks() -> None:
    whole, aware = (estimate(spec("llama2-7b", *more, precision="bf16")) for more in ((), (AWARE,)))
    assert aware.optimizer == pytest.approx(whole.optimizer * 10 / 12)


def test_an_mlp_that_is_computed_again_is_not_kept() -> None:
    plain = estimate(spec("llama2-7b")).activations
    again = estimate(spec("llama2-7b", "training.recompute={granularity: selective, modules: [mlp]}")).activations
    assert again < plain / 2


def test_userbuffers_use_no_multicast_and_no_memory_that_moves() -> None:
    env = spec("llama2-7b", "layout={tp: 2, sequence_parallel: true}", "training.tp_comm_overlap=true").env
    assert env["UB_SKIPMC"] == "1"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in env
    assert env["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
