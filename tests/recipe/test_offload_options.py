"""training.offload_activations: what refuses it, what it saves, and how it reaches the worker."""

import pytest

from benchrun.errors import UserError
from benchrun.judge.conditions import conditions
from benchrun.memory import estimate
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import TrainingSpec

OFFLOAD = "training.offload_activations=true"
FULL = "training.recompute={granularity: full, method: uniform, num_layers: 1}"


def spec(recipe: str, precision: str, framework: str, *overrides: str, num_gpus: int = 8) -> TrainingSpec:
    found = resolve(Request(recipe, "H200", precision, num_gpus, framework, overrides=overrides))
    assert isinstance(found, TrainingSpec)
    return found


@pytest.mark.parametrize(
    ("recipe", "precision", "framework", "overrides", "says"),
    [
        ("llama2-7b", "fp8", "megatron-core", (), "in bf16 and fp32, not in fp8"),
        ("llama2-7b", "bf16", "megatron-core", ("layout.pp=2",), "pp (2) must be 1"),
        ("llama2-7b", "bf16", "megatron-core", (FULL,), "replaces recompute"),
        ("llama2-7b", "bf16", "megatron-core", ("model.num_layers=2",), "num_layers (2) must be at least 3"),
        ("llama2-7b", "bf16", "megatron-core", ("training.cuda_graphs=layers",), "excludes cuda_graphs"),
        ("mixtral-8x7b", "bf16", "megatron-core", (), "for models without experts"),
        ("llama2-7b", "bf16", "nemo2", (), "does not support training.offload_activations"),
        ("llama2-70b", "bf16", "megatron-lm", (), "does not support training.offload_activations"),
    ],
)
def test_what_it_excludes_is_refused(
    recipe: str, precision: str, framework: str, overrides: tuple[str, ...], says: str
) -> None:
    with pytest.raises(UserError) as error:
        spec(recipe, precision, framework, OFFLOAD, *overrides)
    assert says in str(error.value)


@pytest.mark.parametrize(("recipe", "framework"), [("llama2-7b", "megatron-core"), ("llama2-7b-lora-hf", "hf")])
def test_the_activations_of_two_layers_stay(recipe: str, framework: str) -> None:
    plain, offloaded = (estimate(spec(recipe, "bf16", framework, *each)) for each in ((), (OFFLOAD,)))
    assert offloaded.activations == pytest.approx(plain.activations * 2 / 32)
    assert offloaded.states == plain.states


def test_transformer_engine_offloads_for_the_worker_on_a_gpu_alone() -> None:
    on_gpu = spec("llama2-7b", "bf16", "megatron-core", OFFLOAD)
    assert on_gpu.megatron and on_gpu.megatron.worker
    expected = {"cpu_offloading": True, "cpu_offloading_num_layers": 30, "cpu_offloading_weights": False}
    assert on_gpu.megatron.worker.items() >= expected.items()
    plain = spec("llama2-7b", "bf16", "megatron-core")
    assert plain.megatron and plain.megatron.worker and not set(expected) & set(plain.megatron.worker)
    on_cpu = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=(OFFLOAD,)))
    assert isinstance(on_cpu, TrainingSpec) and on_cpu.megatron and on_cpu.megatron.worker
    assert not set(expected) & set(on_cpu.megatron.worker)


def test_it_counts_in_the_identity_and_in_the_conditions() -> None:
    plain, offloaded = spec("llama2-7b", "bf16", "megatron-core"), spec("llama2-7b", "bf16", "megatron-core", OFFLOAD)
    assert plain.identity() != offloaded.identity()
    assert "offload_activations=true" in (conditions(offloaded).options or ())
    assert not any("offload" in option for option in conditions(plain).options or ())


@pytest.mark.parametrize("recipe", ["tiny-llama", "tiny-llama-lora"])
def test_loader_processes_need_data_to_load(recipe: str) -> None:
    with pytest.raises(UserError, match=r"data\.num_workers must be 1, or data\.kind synthetic"):
        resolve(Request(recipe, "CPU", "fp32", 1, overrides=("data.num_workers=0",)))
    assert resolve(Request(recipe, "CPU", "fp32", 1, overrides=("data.num_workers=0", "data.kind=synthetic")))
