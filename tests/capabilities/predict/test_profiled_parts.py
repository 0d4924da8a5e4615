"""What a profiled step says about the parts of the physics, and which counts follow from what a run computes."""

from dataclasses import replace

import pytest

from benchrun import hardware
from benchrun.capabilities.predict import constants
from benchrun.capabilities.predict.choice import chosen
from benchrun.capabilities.predict.counting import count
from benchrun.capabilities.predict.physics import seconds
from benchrun.capabilities.predict.runs import OTHER_KERNELS, Measured, profiled_parts
from benchrun.capabilities.predict.workload import Workload, architectures
from benchrun.model.layout import Layout
from benchrun.rundir.artifacts import Breakdown


def load(name: str = "llama3-8b", **changes: object) -> Workload:
    gpu = hardware.gpu("H200")
    assert gpu is not None
    one = Workload(architectures()[name], gpu, 1, Layout(), 1, 8, 4096, "fp8")
    return replace(one, **changes)  # type: ignore[arg-type]


def parts(one: Workload) -> dict[str, float]:
    return {name: float(value) for name, value in seconds(count(one), chosen(one, constants.fitted())).items()}


def breakdown(idle_s: float) -> Breakdown:
    kernels = {"matmul_s": 0.6, "attention_s": 0.1, "other_s": 0.2, "communication_s": 0.0, "hidden_s": 0.0}
    return Breakdown(step_s=0.9 + idle_s, idle_s=idle_s, **kernels)


@pytest.mark.parametrize(("step_s", "idle_s"), [(1.0, 0.1), (0.95, 0.05), (1.1, 0.2)])
def test_a_profiler_slows_the_host_and_no_kernel(step_s: float, idle_s: float) -> None:
    found = profiled_parts(Measured(load(), step_s, breakdown(0.3), None))
    assert found["matmul"] == pytest.approx(0.6)
    assert found["host"] == pytest.approx(idle_s)
    assert sum(found.values()) == pytest.approx(step_s)


def test_kernels_of_a_slower_profiled_step_are_scaled_to_the_step() -> None:
    found = profiled_parts(Measured(load(), 0.81, breakdown(0.01), None))
    assert found["matmul"] == pytest.approx(0.54)
    assert found["host"] == 0


def test_copies_to_the_host_are_not_told_from_other_kernels() -> None:
    found = profiled_parts(Measured(load(offloaded_bytes=1e9), 1.0, breakdown(0.1), None))
    assert found[f"{OTHER_KERNELS}+host"] == pytest.approx(0.3)
    assert "host" not in found and OTHER_KERNELS not in found


def test_frozen_weights_have_no_gradients_to_write() -> None:
    full, frozen = (count(load(task=task)) for task in ("pretrain", "lora"))
    assert (frozen.accumulated, frozen.gradients) == (0, 0)
    assert full.accumulated > 0
    assert frozen.casts == pytest.approx(full.casts * 3 / 4)


def test_an_added_gradient_costs_what_weights_cost_in_any_precision_of_the_sum() -> None:
    low, full = (count(load(gradient_bytes=size)) for size in (2, 4))
    assert low.accumulated == full.accumulated
    assert low.gradients < full.gradients


@pytest.mark.parametrize("name", ["H100", "GB200"])
def test_ranks_cast_their_part_of_a_sequence(name: str) -> None:
    """Three of four ranks' inputs and gradients arrive cast; Hopper transposes them again."""
    gpu = hardware.gpu(name)
    layouts = (Layout(tp=4, sequence_parallel=split) for split in (False, True))
    whole, split = (count(load(num_gpus=4, gpu=gpu, layout=layout)).casts for layout in layouts)
    shape = load().model.shape
    gathered = 4 * shape.hidden_size
    narrow = (shape.hidden_size + 1024 * 2 + shape.hidden_size + 3 * shape.ffn_hidden_size) / 4
    share = 1 / 4 if name == "GB200" else (3 / 4 + 2) / 4
    assert split / whole == pytest.approx((share * gathered + narrow) / (gathered + narrow))


def test_a_shared_table_has_two_gradients_on_one_stage() -> None:
    model = load("gpt3-175b").model
    assert model.shape.tied_embeddings
    own = replace(model, shape=model.shape.model_copy(update={"tied_embeddings": False}))
    for pp in (1, 2):
        layout = Layout(pp=pp)
        shared, apart = (count(load(model=each, num_gpus=pp, layout=layout)).memory_head for each in (model, own))
        assert (shared > apart) == (pp == 1)


def test_samples_attend_to_themselves_only_where_they_are_packed() -> None:
    packed, whole = (parts(load(task="sft", packed=packed))["attention"] for packed in (True, False))
    assert packed < whole == parts(load())["attention"]


def test_attention_in_fp8_is_faster_and_casts() -> None:
    usual, low = (parts(load(low_attention=low)) for low in (False, True))
    assert low["attention"] < usual["attention"]
    assert low["memory_bound"] > usual["memory_bound"]


def test_the_host_starts_the_products_of_each_expert() -> None:
    """On one GPU with all experts the host decides the step; fewer experts of the same work are faster."""
    model = architectures()["qwen3-30b-a3b"]
    moe = model.shape.moe
    assert moe is not None
    fewer = moe.model_copy(update={"num_experts": 16, "topk": 1, "ffn_hidden_size": 8 * moe.ffn_hidden_size})
    few = replace(model, shape=model.shape.model_copy(update={"moe": fewer}))
    many, some = parts(load("qwen3-30b-a3b")), parts(load(model=few))
    assert many["host"] > some["host"]
    assert many["host"] > many["matmul"]


def test_the_host_reads_the_error_of_each_round_of_sinkhorn() -> None:
    model = architectures()["mixtral-8x7b"]
    moe = model.shape.moe
    assert moe is not None
    update = {"moe": moe.model_copy(update={"balance": "sinkhorn"})}
    assigned = replace(model, shape=model.shape.model_copy(update=update))
    usual, rounds = (
        sum(seconds(count(one), chosen(one, constants.fitted())).values())
        for one in (load(model=model), load(model=assigned))
    )
    layers = model.shape.num_layers
    assert rounds - usual == pytest.approx(8 * layers * constants.fitted()["host.sinkhorn"], rel=0.01)


def test_kernels_of_every_layer_and_micro_batch_leave_gaps() -> None:
    once, twice = parts(load(gbs=8)), parts(load(gbs=16))
    more = 8 * load().model.shape.num_layers * constants.fitted()["host.gaps"]
    assert twice["host"] - once["host"] >= more * (1 - 1e-9)
    assert twice["host"] < 2 * once["host"]


def test_ranks_that_share_weights_share_their_gradients() -> None:
    whole = count(load(num_gpus=8, gbs=64))
    shared = count(load(num_gpus=8, gbs=64, layout=Layout(fsdp=8)))
    assert shared.gradients == pytest.approx(whole.gradients / 8)


def test_a_ring_over_nodes_takes_the_time_of_its_slower_link() -> None:
    """Ranks of 8 nodes reduce gradients; one of each node uses no NVLink, eight use it beside their adapters."""
    alone = count(load(num_gpus=64, gbs=64, layout=Layout(tp=8, sequence_parallel=True)))
    assert alone.dp_nvlink == 0 < alone.dp_nic
    together = load(num_gpus=64, gbs=512)
    of, counts = chosen(together, constants.fitted()), count(together)
    no_nvlink, no_adapters = (
        float(seconds(replace(counts, **{link: 0.0}), of)["dp"]) for link in ("dp_nvlink", "dp_nic")
    )
    assert parts(together)["dp"] == pytest.approx(max(no_nvlink, no_adapters))


def test_a_ring_of_context_parallel_ranks_costs_attention_more() -> None:
    one, ring = parts(load(num_gpus=2, gbs=16)), parts(load(num_gpus=2, gbs=8, layout=Layout(cp=2)))
    assert one["cp"] == 0 < ring["cp"]
    assert ring["cp"] >= constants.fitted()["cp.rounds"] * ring["attention"] * (1 - 1e-9)


def test_torchs_fsdp_copies_weights_and_the_gradients_of_trained_ones() -> None:
    shared = {"number": "bf16", "num_gpus": 8, "layout": Layout(fsdp=8)}
    whole, frozen = (count(load(stack="torchtitan", task=task, **shared)).copied for task in ("pretrain", "lora"))
    assert 0 < frozen < whole
    assert count(load(stack="megatron", **shared)).copied == 0


def test_positions_that_no_kernel_fuses_move_more() -> None:
    one = load("llama4-scout")
    shape = one.model.shape.model_copy(update={"no_rope_every": None})
    fused = replace(one, model=replace(one.model, shape=shape))
    assert one.model.shape.no_rope_every == 4
    assert count(one).memory > count(fused).memory


def test_biases_of_experts_are_added_by_kernels_of_their_own() -> None:
    one = load("gpt-oss-20b", number="bf16")
    shape = one.model.shape.model_copy(update={"bias": False})
    assert count(one).memory > 1.1 * count(replace(one, model=replace(one.model, shape=shape))).memory
