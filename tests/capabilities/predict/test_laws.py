"""What holds of any predicted step, whatever the constants."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun import hardware
from benchrun.capabilities.predict import constants
from benchrun.capabilities.predict.choice import chosen
from benchrun.capabilities.predict.counting import count
from benchrun.capabilities.predict.fit import table
from benchrun.capabilities.predict.physics import seconds
from benchrun.capabilities.predict.prediction import predict, scaled
from benchrun.capabilities.predict.workload import Number, Workload, architectures
from benchrun.model.layout import Layout

DENSE = ("llama3-8b", "llama3-70b", "llama3.1-405b", "nemotron4-340b", "gpt3-175b", "nemotronh-56b")
EXPERTS = ("mixtral-8x7b", "grok1-314b", "qwen3-30b-a3b", "deepseek-v3-671b", "gpt-oss-120b", "nemotron-3-super")
SPEEDS = ("peak_bf16_tflops", "peak_fp8_tflops", "memory_gb_per_s", "nvlink_gb_per_s", "nic_gb_per_s")
NUMBERS: tuple[Number, ...] = ("bf16", "fp8", "fp8_current")
two, four, eight = (st.sampled_from([2**n for n in range(limit + 1)]) for limit in (1, 2, 3))


@st.composite
def loads(draw: st.DrawFn) -> Workload:
    """A random recipe: any layout on whole nodes, also one that nobody would choose."""
    name = draw(st.sampled_from(DENSE + EXPERTS))
    model, gpu = architectures()[name], hardware.gpu(draw(st.sampled_from(["H100", "H200", "B200", "GB200", "GB300"])))
    assert gpu is not None
    pp = draw(four)
    layout = Layout(
        tp=(tp := draw(eight)), pp=pp, cp=draw(two), vp=draw(two) if pp > 1 else 1, sequence_parallel=tp > 1,
        ep=draw(four) if name in EXPERTS else 1,
    )  # fmt: skip
    dp, mbs = 8 * draw(eight), draw(two)
    gbs = mbs * dp * draw(eight) * 2 * (pp if layout.vp > 1 else 1)  # interleaved stages take pp micro-batches
    length = draw(st.sampled_from([2048, 4096, 8192]))
    number = draw(st.sampled_from(NUMBERS))
    return Workload(model, gpu, dp * layout.tp * layout.pp * layout.cp, layout, mbs, gbs, length, number)


@settings(max_examples=40, deadline=None)
@given(loads())
def test_the_parts_add_up_inside_the_interval(load: Workload) -> None:
    found = predict(load)
    assert sum(found.parts.values()) == pytest.approx(found.median)
    assert found.low <= found.median <= found.high
    assert min(found.parts.values()) >= 0


@settings(max_examples=40, deadline=None)
@given(loads(), st.sampled_from(SPEEDS))
def test_a_faster_machine_never_slows_a_step(load: Workload, speed: str) -> None:
    faster = load.gpu.model_copy(update={speed: 1.5 * getattr(load.gpu, speed)})
    assert predict(replace(load, gpu=faster)).median <= predict(load).median * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(loads())
def test_weak_scaling_never_shortens_a_step_and_strong_scaling_is_not_superlinear(load: Workload) -> None:
    here = predict(load).median
    weak = scaled(load, 2 * load.num_gpus, "weak")
    strong = scaled(load, 2 * load.num_gpus, "strong")
    # But for the optimizer, whose states more ranks share.
    assert predict(weak).median >= here * (1 - 1e-9) - predict(load).parts["optimizer"]
    assert here / 2 * (1 - 1e-9) <= predict(strong).median


@settings(max_examples=40, deadline=None)
@given(loads())
def test_no_step_is_faster_than_its_flops_at_the_peak(load: Workload) -> None:
    counts = count(load)
    least = counts.microbatches * (counts.layers * counts.products + counts.logits / counts.stages)
    assert predict(load).low >= least * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(loads())
def test_more_work_never_shortens_a_step(load: Workload) -> None:
    here = predict(load).median
    shape = load.model.shape
    deeper = replace(load.model, shape=shape.model_copy(update={"num_layers": 2 * shape.num_layers}))
    assert predict(replace(load, gbs=2 * load.gbs)).median >= here * (1 - 1e-9)
    deep = replace(load, model=deeper)
    once, twice = (sum(seconds(count(each), chosen(each, constants.fitted())).values()) for each in (load, deep))
    assert twice >= once * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(loads())
def test_recomputing_and_offloading_never_shorten_the_physics_of_a_step(load: Workload) -> None:
    once = sum(seconds(count(load), chosen(load, constants.fitted())).values())
    for more in (replace(load, recompute="full"), replace(load, offloaded_bytes=1e9)):
        assert sum(seconds(count(more), chosen(more, constants.fitted())).values()) >= once * (1 - 1e-9)


@settings(max_examples=20, deadline=None)
@given(loads())
def test_hidden_communication_and_faster_hosts_never_slow_a_step(load: Workload) -> None:
    hosts = [replace(load, host=name) for name in ("", "megatron-core", "nemo2")]
    for ordered in ([load, replace(load, tp_overlap=False)], hosts):
        times = [sum(seconds(count(each), chosen(each, constants.fitted())).values()) for each in ordered]
        assert times == sorted(times)


def test_no_measured_step_is_near_its_flops_at_the_peak() -> None:
    rows = table()
    for load, step_s in zip(rows.loads, np.exp(rows.logs), strict=True):
        counts = count(load)
        least = counts.microbatches * (counts.layers * counts.products + counts.logits / counts.stages)
        assert step_s > 1.25 * least, f"{load.source}: {load.model.name} on {load.num_gpus} {load.gpu.name}"


@pytest.mark.parametrize(("stages", "virtual", "batches"), [(2, 1, 8), (4, 2, 16), (8, 4, 64)])
def test_the_bubble_of_an_ideal_pipeline(stages: int, virtual: int, batches: int) -> None:
    gpu = hardware.gpu("H100")
    assert gpu is not None
    model = architectures()["gpt3-175b"]
    load = Workload(model, gpu, stages, Layout(pp=stages, vp=virtual), 1, batches, 2048)
    counts = replace(count(load), logits=0.0, memory_head=0.0, pp_nvlink=0.0, pp_nic=0.0)
    of = chosen(load, {**constants.fitted(), "bubble.exposed": 1.0})
    parts = seconds(counts, of)
    steady = sum(parts[name] for name in ("matmul", "attention", "memory_bound"))
    assert parts["bubble"] / steady == pytest.approx((stages - 1) / (virtual * batches), rel=0.02)


@pytest.mark.parametrize(("stages", "batches", "head"), [(2, 8, 0.0), (4, 16, 0.5), (8, 32, 0.3)])
def test_the_pipelines_closed_form_is_the_simulated_schedule(stages: int, batches: int, head: float) -> None:
    forward, backward = np.ones(stages), 2 * np.ones(stages)
    forward[-1] += head / 3
    backward[-1] += 2 * head / 3
    mean = 3 + head / stages
    closed = batches * (3 + head) + (stages - 1) * mean
    assert one_forward_one_backward(forward, backward, batches) == pytest.approx(closed, rel=0.04)


def one_forward_one_backward(forward: np.ndarray, backward: np.ndarray, batches: int) -> float:
    """Seconds of a step whose stages make one forward and one backward pass in turn, event by event."""
    stages = len(forward)
    orders = []
    for stage in range(stages):
        warm = min(stages - stage - 1, batches)
        order = [("f", n) for n in range(warm)]
        for n in range(batches - warm):
            order += [("f", warm + n), ("b", n)]
        orders.append(order + [("b", n) for n in range(batches - warm, batches)])
    done: dict[tuple[str, int, int], float] = {}
    clocks, places = [0.0] * stages, [0] * stages
    while any(place < len(order) for place, order in zip(places, orders, strict=True)):
        for stage in range(stages):
            while places[stage] < len(orders[stage]):
                kind, n = orders[stage][places[stage]]
                before = ("f", n, stage - 1) if kind == "f" else ("b", n, stage + 1)
                if 0 <= before[2] < stages and before not in done:
                    break
                start = max(clocks[stage], done.get(before, 0.0))
                clocks[stage] = start + (forward if kind == "f" else backward)[stage]
                done[kind, n, stage] = clocks[stage]
                places[stage] += 1
    return max(clocks)


@pytest.mark.parametrize("stages", [18, 20, 24, 28, 30])
def test_a_stage_with_the_output_layer_counts_however_layers_are_spread(stages: int) -> None:
    """32 layers on 18 stages and more: the fullest has two, and the last one has one, not fewer than none."""
    model, gpu = architectures()["llama3-8b"], hardware.gpu("H100")
    assert gpu is not None
    counts = count(Workload(model, gpu, stages, Layout(tp=1, pp=stages, cp=1, vp=1), 1, 8.0 * stages, 8192))
    assert (counts.most_layers, counts.last_layers) == (2, 1)
