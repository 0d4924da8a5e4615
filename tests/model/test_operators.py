"""The operator list of one GPU and micro-batch, counted by hand."""

import pytest

from benchrun.model import ModelShape, Moe
from benchrun.model.layout import Layout
from benchrun.model.operators import PASSES, Operators, Sizes, operators

LLAMA = ModelShape(
    num_layers=32,
    hidden_size=4096,
    ffn_hidden_size=14336,
    num_attention_heads=32,
    num_query_groups=8,
    kv_channels=128,
    vocab_size=128256,
    max_position_embeddings=8192,
)
MIXTRAL = LLAMA.model_copy(
    update={"vocab_size": 32000, "moe": Moe(num_experts=8, topk=2, ffn_hidden_size=14336)},
)
TENSOR_BYTES = 8192 * 4096 * 2
"""Of one sequence's activations in BF16."""


def counted(listed: Operators, group: str) -> dict[str, tuple[float, float, float, float]]:
    """Bytes, and times forward, backward and a step, of the collectives of a group but the loss's."""
    return {
        each.name: (each.bytes, each.forward, each.backward, each.step)
        for each in listed.collectives
        if each.group == group and each.bytes != 4 * 8192
    }


def test_the_products_of_a_layer_split_over_four_gpus() -> None:
    listed = operators(LLAMA, 8192, 8192, Layout(tp=4))
    sizes = {product.name: product.sizes["forward"] for product in listed.products}
    assert sizes == {
        "qkv": (8192, (4096 + 2 * 1024) // 4, 4096),
        "proj": (8192, 4096, 1024),
        "fc1": (8192, 2 * 14336 // 4, 4096),
        "fc2": (8192, 4096, 3584),
        "logits": (8192, 32064, 4096),
    }
    assert [product.count for product in listed.products] == [32, 32, 32, 32, 1]
    assert {product.passes for product in listed.products} == {PASSES}


def test_frozen_weights_have_no_gradient() -> None:
    assert {len(product.passes) for product in operators(LLAMA, task="lora").products} == {2}
    assert not [each for each in operators(LLAMA, task="lora", dp=8).collectives if each.group == "dp"]


def test_experts_share_the_routed_tokens() -> None:
    fc1 = operators(MIXTRAL, 8192, 8192, Layout(ep=4)).product("fc1")
    assert (fc1.m, fc1.matrices, fc1.count) == (8192 * 2 / 2, 2, 64)
    assert fc1.flops == 2 * 32 * (2 * 8192) * (2 * 14336) * 4096


def test_the_gpus_of_a_layout_hold_all_parameters_between_them() -> None:
    whole = operators(LLAMA).params
    norms = 65 * 4096
    split = operators(LLAMA, layout=Layout(tp=4, pp=2)).params
    assert 8 * split == pytest.approx(whole + 3 * norms)


def test_tensor_parallelism_costs_four_reductions_a_layer_or_the_same_in_two_halves() -> None:
    plain = counted(operators(LLAMA, 8192, 8192, Layout(tp=4)), "tp")
    assert plain == {"all_reduce": (TENSOR_BYTES, 2 * 32 + 1, 2 * 32 + 1, 0)}
    split = counted(operators(LLAMA, 8192, 8192, Layout(tp=4, sequence_parallel=True)), "tp")
    assert split["reduce_scatter"] == (TENSOR_BYTES, 65, 65, 0)
    assert split["all_gather"] == (TENSOR_BYTES, 65, 130, 0)


@pytest.mark.parametrize(
    ("how", "name", "size", "forward"),
    [
        ("p2p", "send", 2 * 1024 * 4096 * 2, 32 * 3),
        ("a2a", "all_to_all", (2 * 1024 + 2 * 4096) * 4096 * 2, 32),
        ("all_gather", "all_gather", 4 * 2 * 1024 * 4096 * 2, 32),
    ],
)
def test_context_parallelism_moves_keys_and_values(how: str, name: str, size: int, forward: int) -> None:
    listed = operators(LLAMA, 4096, 16384, Layout(cp=4), cp_comm=how)
    assert counted(listed, "cp")[name][:2] == (size, forward)


def test_tokens_travel_to_their_experts_and_back() -> None:
    listed = operators(MIXTRAL, 8192, 8192, Layout(ep=8))
    assert counted(listed, "ep") == {"all_to_all": (2 * TENSOR_BYTES, 64, 64, 0)}


def test_a_pipeline_sends_at_each_border() -> None:
    size, forward, backward, step = counted(operators(LLAMA, 8192, 8192, Layout(pp=4, vp=2)), "pp")["send"]
    assert (size, forward, backward, step) == (TENSOR_BYTES, 7 / 4, 7 / 4, 0)


def test_data_parallel_ranks_share_gradients_and_weights_once_a_step() -> None:
    params = operators(LLAMA).params
    shared = counted(operators(LLAMA, 8192, 8192, dp=8, sizes=Sizes(weight=1, gradient=4)), "dp")
    assert shared == {"reduce_scatter": (4 * params, 0, 0, 1), "all_gather": (params, 0, 0, 1)}
    whole = counted(operators(LLAMA, 8192, 8192, dp=8, distributed_optimizer=False), "dp")
    assert whole == {"all_reduce": (2 * params, 0, 0, 1)}


def test_fsdp_gathers_and_scatters_in_every_micro_batch() -> None:
    listed = operators(LLAMA, 8192, 8192, Layout(fsdp=8), dp=16)
    params = operators(LLAMA).params
    assert counted(listed, "fsdp") == {
        "all_gather": (2 * params, 1, 1, 0),
        "reduce_scatter": (2 * params, 0, 1, 0),
    }
    assert counted(listed, "dp") == {"all_reduce": (2 * params / 8, 0, 0, 1)}


def test_one_gpu_communicates_nothing() -> None:
    assert operators(MIXTRAL, 8192, 8192).collectives == ()


def test_memory_bound_bytes_follow_the_sequence_split() -> None:
    whole = {each.name: each for each in operators(LLAMA, 8192, 8192, Layout(tp=4)).memory_bound}
    split = {
        each.name: each for each in operators(LLAMA, 8192, 8192, Layout(tp=4, sequence_parallel=True)).memory_bound
    }
    assert whole["norm"].forward_bytes == 65 * 2 * TENSOR_BYTES == 4 * split["norm"].forward_bytes
    assert whole["activation"] == split["activation"]
    assert whole["activation"].forward_bytes == 32 * 8192 * 3 * 14336 / 4 * 2


def test_adam_reads_and_writes_the_states_of_its_share() -> None:
    adam = {each.name: each for each in operators(LLAMA, dp=8).memory_bound}["adam"]
    assert adam.step_bytes == pytest.approx(operators(LLAMA).params / 8 * (2 + 2 * 12 + 2))
