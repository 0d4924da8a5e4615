"""What ``--set`` and a suite change: mappings merge, null removes, and an error says which run and what would help."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.recipes.layout import CHANGE_LAYOUT
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

SITE = """
scheduler: slurm
gpu: H100
gpus_per_node: 8
partition: gpu
account: ai
cpus_per_task: 12
env: {NCCL_SOCKET_IFNAME: ib0, NCCL_IB_HCA: mlx5_0}
container: {runtime: apptainer, mounts: ["/data:/data"]}
"""


@pytest.fixture
def point(tmp_path: Path) -> Callable[..., Any]:
    site = tmp_path / "site.yaml"
    site.write_text(SITE)

    def resolved(*overrides: Any, recipe: Any = "llama3.1-8b", framework: str = "megatron-core") -> Any:
        return resolve(Request(recipe, "H100", "fp8", 8, framework, str(site), overrides))

    resolved.site = str(site)
    return resolved


@pytest.mark.parametrize(
    "override",
    ["cluster.env={NCCL_DEBUG: INFO, NCCL_IB_HCA: mlx5_9}", "cluster={env: {NCCL_DEBUG: INFO, NCCL_IB_HCA: mlx5_9}}"],
)
def test_a_mapping_adds_to_what_the_site_says(point: Callable[..., Any], override: str) -> None:
    spec = point(override)
    wanted = {"NCCL_SOCKET_IFNAME": "ib0", "NCCL_IB_HCA": "mlx5_9", "NCCL_DEBUG": "INFO"}
    assert spec.cluster.env == wanted
    assert wanted.items() <= spec.env.items()
    assert (spec.cluster.account, spec.cluster.container.runtime) == ("ai", "apptainer")


def test_mappings_merge_everywhere_and_lists_do_not(point: Callable[..., Any]) -> None:
    optimizer = "training.optimizer={exp_avg: bf16, precision_aware: true}"
    spec = point("cluster.container={image: /x.sif}", "training={fp8: {format: e4m3}}", optimizer)
    assert spec.cluster.container.mounts == ("/data:/data",)
    assert (spec.training.fp8.format, spec.training.fp8.param_gather) == ("e4m3", True)
    assert (spec.training.optimizer.exp_avg, spec.training.optimizer.exp_avg_sq) == ("bf16", "fp32")
    assert point("cluster.container={mounts: [/b:/b]}").cluster.container.mounts == ("/b:/b",)


@pytest.mark.parametrize(
    ("override", "left"),
    [
        ("cluster.env.NCCL_IB_HCA=null", {"NCCL_SOCKET_IFNAME": "ib0"}),
        ("cluster.env={NCCL_IB_HCA: null, A: b}", {"NCCL_SOCKET_IFNAME": "ib0", "A": "b"}),
        ("cluster.env=null", {}),
        ("cluster.env.NOT_THERE=null", {"NCCL_SOCKET_IFNAME": "ib0", "NCCL_IB_HCA": "mlx5_0"}),
    ],
)
def test_null_removes_a_key(point: Callable[..., Any], override: str, left: dict[str, Any]) -> None:
    assert point(override).cluster.env == left


def test_null_restores_the_default(point: Callable[..., Any]) -> None:
    spec = point("cluster.account=null", "training.steps=7", "training.steps=null", "cluster.container.mounts=null")
    assert (spec.cluster.account, spec.training.steps, spec.cluster.container.mounts) == (None, 50, ())


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("training.step=null", "unknown key 'training.step'"),
        ("cluster.contaner.image=null", "unknown key 'cluster.contaner'"),
        ("mbs=null", "key 'mbs' is missing"),
        ("cluster.env={}", "an empty mapping changes nothing"),
        ("training.steps={a: 1}", "'training.steps'"),
    ],
)
def test_what_cannot_be_removed_or_merged_is_refused(point: Callable[..., Any], override: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        point(override)
    assert says in error.value.message
    assert f"--set {override}" in str(error.value)


@pytest.mark.parametrize(
    ("override", "belongs"),
    [("tp=2", "layout.tp"), ("training.fsdp=8", "layout.fsdp"), ("partition=x", "cluster.partition")],
)
def test_a_key_in_the_wrong_group_is_named_with_its_own(point: Callable[..., Any], override: str, belongs: str) -> None:
    with pytest.raises(UserError) as error:
        point(override)
    assert f"'{belongs}'" in str(error.value.hint)


def test_what_chooses_the_point_is_an_option_and_no_value(point: Callable[..., Any]) -> None:
    with pytest.raises(UserError) as error:
        point("framework=nemo2")
    assert "--framework nemo2" in str(error.value.hint)


@pytest.mark.parametrize("override", ["training.recompute={granularity: none}", "training.recompute.granularity=none"])
def test_no_recompute_drops_what_the_recipe_says_beside_full(override: str) -> None:
    spec = resolve(Request("mistral-7b-hf", "H200", "bf16", 2, overrides=(override, "mbs=4")))
    assert (spec.training.recompute.method, spec.training.recompute.num_layers) == (None, None)


def test_what_was_set_beside_full_is_not_dropped() -> None:
    overrides = ("training.recompute.num_layers=1", "training.recompute.granularity=none")
    with pytest.raises(UserError, match="belong to granularity full"):
        resolve(Request("mistral-7b-hf", "H200", "bf16", 2, overrides=overrides))


def suite(folder: Path, *runs: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text("description: three runs\nruns:\n" + "\n".join(runs) + "\n")
    return path


GOOD = "  - {recipe: llama3.1-8b, gpu: H100, precision: fp8, num_gpus: 8}"


def test_a_suite_adds_to_the_environment_of_the_site(point: Callable[..., Any], tmp_path: Path) -> None:
    run = "  - recipe: llama3.1-8b\n    gpu: H100\n    precision: fp8\n    num_gpus: 8\n    framework: megatron-core\n"
    changes = "{cluster.env: {NCCL_ALGO: Ring, NCCL_IB_HCA: null}, cluster: {account: b}}"
    path = suite(tmp_path, f"{run}    set: {changes}")
    (spec,) = api.resolve(Request(str(path), cluster=point.site))
    assert spec.cluster.env == {"NCCL_SOCKET_IFNAME": "ib0", "NCCL_ALGO": "Ring"}
    assert (spec.cluster.account, spec.cluster.partition) == ("b", "gpu")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (
            "  - {recipe: llama3.1-8b, gpu: H100, precision: fp8, num_gpus: 8, set: {layout.tp: 3}}",
            "must be a multiple",
        ),
        ("  - {recipe: llama3.1-8b, gpu: H100, precision: fp8, num_gpus: 8, set: {training.step: 3}}", "unknown key"),
        ("  - {recipe: llama3.1-9b, gpu: H100, precision: fp8, num_gpus: 8}", "no recipe is called"),
        ("  - {recipe: llama3.1-8b, gpu: H100, num_gpus: 8}", "more than one precision"),
    ],
)
def test_an_error_in_a_suite_says_which_of_its_runs(tmp_path: Path, bad: str, says: str) -> None:
    path = suite(tmp_path, GOOD, GOOD, bad, GOOD)
    with pytest.raises(UserError) as error:
        api.resolve(Request(str(path)))
    assert error.value.where == f"{path}:5"
    assert error.value.message.startswith("run 3 of 4 (llama3.1-")
    assert says in error.value.message


def refused(*overrides: str, num_gpus: int = 8) -> UserError:
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8b", "H100", "fp8", num_gpus, "megatron-core", "dgx-h100", overrides))
    return error.value


def test_a_hint_fits_its_cause() -> None:
    assert refused("layout.tp=3").hint == CHANGE_LAYOUT
    longer = refused("seq_length=262144")
    assert "must be at most max_position_embeddings" in longer.message
    assert "model.max_position_embeddings=262144" in longer.hint
    assert "layout" not in longer.hint
    assert refused("training.lr=1e-9").hint is None
    both = refused("layout.tp=3", "seq_length=262144").hint
    assert CHANGE_LAYOUT in both and longer.hint in both


def test_a_hint_on_scaling_stands_only_where_the_layout_is_at_fault() -> None:
    assert "the layout on 24 GPUs is that of" in refused("layout.tp=3", num_gpus=24).hint
    assert "the layout on 24 GPUs" not in refused("seq_length=262144", num_gpus=24).hint


@pytest.mark.parametrize("section", ["env", "cluster.env"])
def test_what_benchrun_sets_itself_is_not_removed_without_a_word(point: Callable[..., Any], section: str) -> None:
    with pytest.raises(UserError) as error:
        point(f"{section}.NCCL_NVLS_ENABLE=null")
    assert error.value.exit_code == 2


def test_steps_that_take_longer_than_the_job_may_are_named() -> None:
    def warned(*overrides: str) -> list[str]:
        spec = resolve(Request("llama2-70b-sft", "H200", "bf16", 8, "nemo2", overrides=overrides))
        return [text for text in api.warnings(spec) if "cluster.time_limit" in text]

    assert len(warned()) == 1  # 50 steps of about 50 s, and half an hour
    assert not warned("training.steps=20")
    assert not warned("cluster.time_limit=02:00:00")
    assert not warned("gbs=32")


@pytest.mark.parametrize("override", ["layout.tp=2", "layout={tp: 2}", "mbs=2", "gbs=256"])
def test_another_layout_or_batch_is_no_longer_the_point_s_own(point: Callable[..., Any], override: str) -> None:
    own, changed = point(framework="nemo1"), point(override, "training.steps=20", framework="nemo1")
    assert own.source and own.derived is None
    assert changed.derived == f"--set {override}; otherwise as in: {own.source}"
    assert changed.source == own.source
    scaled = resolve(Request("llama3.1-8b", "H100", "fp8", 256, "nemo1", overrides=(override,))).derived
    assert scaled.startswith(f"--set {override}; otherwise as in: layout and batch per GPU of 128 GPUs")


@pytest.mark.parametrize("override", ["layout.tp=1", "layout.pp=null", "training.steps=20", "training.seed=7"])
def test_what_changes_no_layout_and_no_batch_keeps_its_origin(point: Callable[..., Any], override: str) -> None:
    own, changed = point(framework="nemo1"), point(override, framework="nemo1")
    assert (changed.source, changed.derived) == (own.source, None)


@pytest.mark.parametrize("key", ["mbs", "seed", "layout.tp", "generation.memory_share", "cluster.gpus_per_node"])
def test_a_truth_value_is_no_number(key: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("qwen3-30b-a3b-grpo", "H100", num_gpus=32, overrides=(f"{key}=true",)))
    assert "number" in error.value.message


def test_a_truth_value_is_taken_where_it_belongs() -> None:
    spec = resolve(Request("qwen3-30b-a3b-grpo", "H100", num_gpus=32, overrides=("layout.sequence_parallel=true",)))
    assert spec.layout.sequence_parallel
