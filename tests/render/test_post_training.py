"""Jobs of post-training: keys that the releases accept, steps on the right nodes, refusals."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from accepted import facts
from test_accepted import leaves

from benchrun import api, paths
from benchrun.errors import UserError
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references, matching
from benchrun.recipes import catalogue
from benchrun.recipes.catalogue import points
from benchrun.recipes.resolve import resolve, resolve_point
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.post_training import PostTrainingSpec
from benchrun.runspec.spec import RunSpec

RECIPES = [
    name for name in paths.shipped(paths.RECIPES) if catalogue.recipe_file(name).recipe.workload == "post-training"
]
EVERY = [
    pytest.param(name, index, id=f"{name}-{index}")
    for name in RECIPES
    for index in range(len(points(catalogue.recipe_file(name).recipe)))
]


def spec_of(name: str, index: int) -> PostTrainingSpec:
    file = catalogue.recipe_file(name)
    spec = resolve_point(file, points(file.recipe)[index])
    assert isinstance(spec, PostTrainingSpec)
    return spec


def words_of(job: str, array: str) -> dict[str, str]:
    """Hydra's overrides in an array of a job."""
    found = shlex.split(job.split(f"{array}=(\n")[1].split("\n)\n")[0], comments=True)
    return dict(word[2:].split("=", 1) for word in found if word.startswith("++"))


@pytest.mark.parametrize(("name", "index"), EVERY)
def test_every_point_reads_back_and_renders(tmp_path: Path, name: str, index: int) -> None:
    spec, path = spec_of(name, index), tmp_path / "spec.json"
    files = render(spec)
    path.write_text(files["spec.json"])
    assert RunSpec.read(path) == spec
    assert spec.policy_gpus + (spec.generation.num_gpus or 0) + (spec.critic.num_gpus if spec.critic else 0) == (
        spec.num_gpus
    )


@pytest.mark.parametrize("release", ["0.6.0", "0.7.0"])
@pytest.mark.parametrize("name", [name for name in RECIPES if spec_of(name, 0).framework == "nemo-rl"])
def test_nemo_rl_accepts_every_key(release: str, name: str) -> None:
    """0.6.0 is in the recipes' image."""
    accepted = set(facts(f"nemo-rl_{release}"))
    for index in range(len(points(catalogue.recipe_file(name).recipe))):
        document = yaml.safe_load(render(spec_of(name, index))["nemo_rl.yaml"])
        assert document.pop("defaults") == "/opt/nemo-rl/examples/configs/grpo_math_1B.yaml"
        keys = set(leaves(document))
        assert {"grpo.max_num_steps", "policy.megatron_cfg.optimizer.lr", "cluster.num_nodes"} <= keys
        assert keys <= accepted, keys - accepted


@pytest.mark.parametrize("release", ["0.4.0", "0.7.0"])
@pytest.mark.parametrize("name", [name for name in RECIPES if spec_of(name, 0).framework == "nemo-aligner"])
def test_nemo_aligner_accepts_every_key(release: str, name: str) -> None:
    """0.4.0 is in the recipes' image. The sizes of a model come from its checkpoint: the guide adds some of them."""
    for index in range(len(points(catalogue.recipe_file(name).recipe))):
        job = render(spec_of(name, index))["job.sh"]
        for array, part in (("command", "policy"), ("critic", "critic")):
            keys = words_of(job, array)
            assert keys["model.global_batch_size"] and keys["trainer.num_nodes"]
            unknown = set(keys) - set(facts(f"nemo-aligner_{release}_{part}"))
            assert unknown <= {"model.sequence_parallel", "model.mcore_gpt", *_OF_THE_CHECKPOINT}, unknown


_OF_THE_CHECKPOINT = ("model.tensor_model_parallel_size", "model.pipeline_model_parallel_size")


def test_nemo_rl_states_what_a_point_says() -> None:
    spec = resolve(Request("qwen3-30b-a3b-grpo", num_gpus=192))
    document = yaml.safe_load(render(spec)["nemo_rl.yaml"])
    grpo, policy, cluster = (document[key] for key in ("grpo", "policy", "cluster"))
    assert (grpo["num_prompts_per_step"], grpo["num_generations_per_prompt"]) == (64, 32)
    assert grpo["async_grpo"] == {
        "enabled": True,
        "max_trajectory_age_steps": 8,
        "in_flight_weight_updates": True,
    }
    assert policy["megatron_cfg"]["expert_model_parallel_size"] == 8
    assert policy["megatron_cfg"]["optimizer"]["lr"] == 3e-7
    generation = policy["generation"]
    assert generation["colocated"] == {"enabled": False, "resources": {"num_nodes": 8, "gpus_per_node": 8}}
    assert generation["vllm_cfg"]["tensor_parallel_size"] == 2
    assert cluster == {"gpus_per_node": 8, "num_nodes": 24}


def test_set_adds_and_replaces_keys_of_the_framework() -> None:
    name = "policy.megatron_cfg"
    spec = resolve(
        Request(
            "llama3.1-8b-grpo",
            gpu="H200",
            overrides=(f"options.{name}.defer_fp32_logits=false", f"options.{name}.moe_permute_fusion=true"),
        )
    )
    megatron = yaml.safe_load(render(spec)["nemo_rl.yaml"])["policy"]["megatron_cfg"]
    assert (megatron["defer_fp32_logits"], megatron["moe_permute_fusion"]) == (False, True)
    assert megatron["activation_checkpointing"] is True


def test_the_halves_of_a_ppo_job_are_on_their_own_nodes() -> None:
    job = render(resolve(Request("llama3-70b-ppo", num_gpus=96)))["job.sh"]
    steps = [line for line in job.splitlines() if "srun --nodes=" in line and "--relative" in line]
    assert len(steps) == 2
    assert "--nodes=4 --ntasks=32 --ntasks-per-node=8 --relative=0" in steps[0]
    assert "--nodes=8 --ntasks=64 --ntasks-per-node=8 --relative=4" in steps[1]
    # Slurm ends the critic with the script; in a log of the job that would look like a cancelled run.
    assert '"${critic[@]}" >critic.log 2>&1 &' in job
    policy, critic = words_of(job, "command"), words_of(job, "critic")
    assert (policy["trainer.num_nodes"], critic["trainer.num_nodes"]) == ("8", "4")
    assert policy["remote_critic_rm.critic.port"] == critic["trainer.ppo.port"]
    assert (policy["trainer.ppo.trt_llm.enable"], policy["trainer.ppo.trt_llm.reshard"]) == ("True", "True")
    assert (policy["trainer.ppo.val_check_interval"], policy["trainer.ppo.save_interval"]) == ("0", "0")
    assert "--mpi=pmix" in job


def test_a_job_has_hours_unless_the_site_limits_it() -> None:
    assert resolve(Request("llama3-70b-ppo", num_gpus=96)).cluster.time_limit == "04:00:00"
    shorter = Request("llama3-70b-ppo", num_gpus=96, overrides=("cluster.time_limit=01:00:00",))
    assert resolve(shorter).cluster.time_limit == "01:00:00"
    assert resolve(Request("tiny-grpo")).cluster.time_limit == "00:10:00"  # its profile says so
    assert resolve(Request("llama3-8b", gpu="H100", precision="bf16", num_gpus=8)).cluster.time_limit == "00:30:00"


def test_one_task_a_node_starts_ray() -> None:
    files = render(resolve(Request("llama3.1-8b-grpo", "H100", "bf16", 16)))
    assert 'step "${once_per_node[@]}" --cpus-per-task="$SLURM_CPUS_ON_NODE"' in files["job.sh"]
    assert "numactl" not in files["job.sh"]
    assert "all_gpus=16" in files["ray.sh"]


@pytest.mark.parametrize(("engine", "pp"), [("tensorrt-llm", 1), ("nemo", 4)])
def test_set_chooses_the_point_of_an_engine(engine: str, pp: int) -> None:
    spec: Any = resolve(Request("llama2-70b-ppo", overrides=(f"generation.engine={engine}",)))
    assert (spec.generation.engine, spec.generation.pp) == (engine, pp)


@pytest.mark.parametrize(("activation", "kind"), [("swiglu", "llama"), ("squared-relu", "gptnext"), ("geglu", "gemma")])
def test_nemo_aligner_names_the_kind_of_model_to_tensorrt_llm(activation: str, kind: str) -> None:
    job = render(resolve(Request("llama2-7b-ppo", overrides=(f"model.activation={activation}",))))["job.sh"]
    assert words_of(job, "command")["trainer.ppo.trt_llm.model_type"] == kind


@pytest.mark.parametrize(
    ("recipe", "overrides", "words"),
    [
        ("llama2-7b-ppo", ("generation.engine=vllm",), "generation.engine must not be vllm"),
        ("llama2-7b-ppo", ("critic=null",), "critic must be stated"),
        ("llama2-7b-ppo", ("model.activation=clamped-swiglu",), "nemo-aligner has no models with clamped-swiglu"),
        ("llama2-7b-ppo", ("reward_model=null",), "nemo-aligner needs reward_model"),
        ("llama2-7b-ppo", ("critic.micro_batch=8",), "critic.micro_batch (8) * its dp (4) must be at most 16"),
        ("llama2-7b-ppo", ("cluster.mpi=null",), "TensorRT-LLM starts over MPI"),
        ("llama2-7b-ppo", ("critic.num_gpus=16",), "no GPU of 16 is left"),
        ("llama2-7b-ppo", ("layout.tp=3",), "must be a multiple of tp * pp * cp (3)"),
        ("llama2-7b-ppo", ("gbs=96",), "must be a multiple of gbs (96)"),
        ("llama2-7b-ppo", ("max_response_length=4096",), "must be at most max_sequence_length"),
        ("qwen3-30b-a3b-grpo", ("critic={num_gpus: 8}",), "critic must be null"),
        ("tiny-grpo", ("generations_per_prompt=16",), "must be its 256 responses"),
        ("tiny-grpo", ("policy=gpt2",), "policy must be left out"),
        ("tiny-grpo", ("generation.max_age_steps=1",), "max_age_steps 0"),
    ],
)
def test_what_cannot_run_is_refused(recipe: str, overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request(recipe, *(("H100", None, 32) if recipe.startswith("qwen3") else ()), overrides=overrides))
    assert words in f"{error.value.message} {error.value.hint}"


@pytest.mark.parametrize(("name", "index"), EVERY)
def test_every_published_number_belongs_to_a_point(name: str, index: int) -> None:
    spec = spec_of(name, index)
    found = matching(conditions(spec), load_references())
    if "NVIDIA-NeMo/RL" in (spec.source or ""):
        assert {entry.metric for entry in found} == {"tokens_per_s_per_gpu", "step_time_s"}


def test_no_published_number_of_post_training_is_without_a_point() -> None:
    reached = {
        entry.id
        for name in RECIPES
        for index in range(len(points(catalogue.recipe_file(name).recipe)))
        for entry in matching(conditions(spec_of(name, index)), load_references())
    }
    assert {entry.id for entry in load_references() if entry.key.recipe in RECIPES} == reached


def test_weights_and_prompts_are_no_part_of_the_identity() -> None:
    first = resolve(Request("llama2-7b-ppo"))
    moved = resolve(Request("llama2-7b-ppo", overrides=("policy=/elsewhere/sft.nemo", "prompts=/elsewhere/p.jsonl")))
    longer = resolve(Request("llama2-7b-ppo", overrides=("max_response_length=512",)))
    assert first.identity() == moved.identity() != longer.identity()


@pytest.mark.parametrize("name", RECIPES)
def test_the_list_has_the_values_of_the_resolved_points(name: str) -> None:
    keys = ("gpu", "precision", "num_gpus", "framework", "mbs", "gbs", "dp", "tp", "pp", "cp", "ep")
    count = len(points(catalogue.recipe_file(name).recipe))
    specs = [spec_of(name, index) for index in range(count)]
    rows = api.list_points((name,))
    assert [[row[key] for key in keys] for row in rows] == [[getattr(spec, key) for key in keys] for spec in specs]
    references = [len(matching(conditions(spec), load_references())) for spec in specs]
    assert [row["reference"] for row in rows] == references
