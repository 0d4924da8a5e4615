"""What a framework cannot run is refused with the reason, before it waits in a queue."""

from pathlib import Path
from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.runspec.image_names import nemo_release
from benchrun.runspec.spec import RunSpec

DENSE = """{num_layers: 32, hidden_size: 4096, ffn_hidden_size: 14336, num_attention_heads: 32, num_query_groups: 8,
  kv_channels: 128, vocab_size: 32000, max_position_embeddings: 4096}"""
EXPERTS = DENSE[:-1] + ", moe: {num_experts: 8, topk: 2, ffn_hidden_size: 14336, capacity_factor: 1}}"
GPT = """{num_layers: 24, hidden_size: 4096, ffn_hidden_size: 16384, num_attention_heads: 32, num_query_groups: 32,
  kv_channels: 128, vocab_size: 50304, max_position_embeddings: 2048, activation: gelu, normalization: LayerNorm,
  position_embedding: learned, bias: true, tied_embeddings: true}"""


def resolved(
    folder: Path,
    framework: str,
    *overrides: str,
    model: str = DENSE,
    task: str = "pretrain",
    precision: str = "bf16",
    image: str = "nemo:24.09",
) -> RunSpec:
    """The spec of 64 H100, which the framework can run unless ``overrides`` say otherwise."""
    path = folder / "recipe.yaml"
    path.write_text(f"""
description: a test
task: {task}
model: {model}
seq_length: 2048
frameworks: {{{framework}: {{image: "{image}"}}}}
points: [{{gpu: H100, precision: {precision}, num_gpus: 64, mbs: 2, gbs: 128, layout: {{}}, derived: a test}}]
""")
    file = catalogue.recipe_file(str(path))
    return resolve_point(file, catalogue.points(file.recipe)[0], "dgx-h100", overrides)


FSDP = "layout.fsdp=64"
BLOCKS = "training.recompute={granularity: full, method: block, num_layers: 2}"
TP = ("layout.tp=2", "layout.sequence_parallel=true")
OVERLAP = "training.tp_comm_overlap=true"


@pytest.mark.parametrize(
    ("framework", "overrides", "model"),
    [
        ("megatron-lm", (), DENSE),
        ("megatron-lm", ("seq_length=1024",), GPT),
        ("megatron-core", (*TP, "training.tp_comm_overlap=true"), DENSE),
        ("nemo1", (), DENSE),
        ("nemo1", ("layout.ep=8",), EXPERTS),
        ("nemo1", (*TP, OVERLAP), DENSE),
        ("nemo1", (*TP, OVERLAP, "cluster.mpi=null", "image=nvcr.io/nvidia/nemo:24.12"), DENSE),
        ("nemo2", (FSDP,), DENSE),
        ("megatron-bridge", (*TP, "training.tp_comm_overlap=true"), DENSE),
        ("maxtext", (FSDP,), DENSE),
        ("maxtext", (FSDP, "training.recompute.policy=save_qkv_proj"), DENSE),
        ("paxml", ("layout.fsdp=8", BLOCKS.replace("block, num_layers: 2", "uniform, num_layers: 1")), GPT),
        ("paxml", ("layout.fsdp=8", "training.recompute.policy=SAVE_DOT_ONLY"), GPT),
    ],
)
def test_what_a_framework_can_run_is_not_refused(
    tmp_path: Path, framework: str, overrides: tuple[Any, ...], model: str
) -> None:
    assert resolved(tmp_path, framework, *overrides, model=model).framework == framework


@pytest.mark.parametrize(
    ("framework", "overrides", "model", "said"),
    [
        ("megatron-core", ("layout.fsdp=8",), DENSE, "fsdp (8) must be 1 or dp * cp (64)"),
        ("hf", (*TP, "training.tp_comm_overlap=true"), DENSE, "hf has no userbuffers"),
        ("megatron-lm", (FSDP,), DENSE, "benchrun supports megatron-lm without FSDP"),
        ("megatron-lm", ("training.tp_comm_overlap=true",), DENSE, "tp_comm_overlap needs tp (1) > 1"),
        ("nemo2", ("training.recompute.policy=full",), DENSE, "nemo2 has no recompute.policy 'full'"),
        ("nemo2", ("layout.fsdp=8",), DENSE, "fsdp (8) must be 1 or dp * cp (64)"),
        ("nemo2", ("layout={fsdp: 64, tp: 2}",), DENSE, "exceeds dp * cp (32): fsdp could be 32, or tp 1"),
        ("nemo1", ("model.moe.force_balance=true", "layout.ep=8"), EXPERTS, "cannot force equal load"),
        ("nemo1", (*TP, "layout.ep=8"), EXPERTS, "etp (1) must be tp (2)"),
        ("nemo2", ("model.moe.topk=1", "layout.ep=8"), EXPERTS, "topk (1) must be 2 or more"),
        ("nemo2", ("model.bias=true", "layout.ep=8"), EXPERTS, "without experts with biases"),
        ("megatron-lm", ("model.activation=geglu",), DENSE, "has no flag for geglu"),
        ("nemo1", (*TP, OVERLAP, "cluster.mpi=null"), DENSE, "NeMo 24.09 starts userbuffers over MPI: cluster.mpi"),
        ("nemo1", ("image=nvcr.io/nvidia/nemo:25.07.01",), DENSE, "one of 24.05, 24.09, 24.12"),
        ("nemo1", ("image=nemo:24.05", "layout.ep=8", "layout.cp=2"), EXPERTS, "NeMo 24.05 has no context parallelism"),
        ("maxtext", TP, DENSE, "benchrun supports maxtext without tp: tp (2) must be 1"),
        ("maxtext", ("layout.pp=4",), DENSE, "pp (4) must be 1"),
        ("maxtext", (FSDP, "model.activation=geglu"), DENSE, "activation must be swiglu, not geglu"),
        ("maxtext", (FSDP, "data.kind=synthetic"), DENSE, "data.kind must be mock"),
        ("maxtext", (FSDP,), EXPERTS, "benchrun supports maxtext for models without experts"),
        ("maxtext", (FSDP, "training.recompute.policy=save_all"), DENSE, "maxtext has no recompute.policy 'save_all'"),
        ("maxtext", (FSDP, "training.recompute.granularity=selective"), DENSE, "has no selective recompute"),
        ("maxtext", (FSDP, BLOCKS), DENSE, "recompute.method (block) must be uniform, num_layers (2) 1"),
        ("maxtext", ("layout.fsdp=24",), DENSE, "fsdp (24) must"),
        ("maxtext", ("training.grad_reduce_in_fp32=true",), DENSE, "training.grad_reduce_in_fp32 must be false"),
        ("paxml", ("training.overlap_param_gather=false",), GPT, "training.overlap_param_gather must be true"),
        ("paxml", ("training.steps=45",), GPT, "training.steps (45) must be a multiple"),
        ("nemo2", ("training.seed=7",), DENSE, "training.seed must be 1234"),
        ("maxtext", (FSDP, "data.num_workers=2"), DENSE, "data.num_workers must be 1, not 2"),
        ("paxml", ("data.num_workers=0",), GPT, "data.num_workers must be 1, not 0"),
        ("nemo2", ("seq_length=1024",), GPT, "max_position_embeddings (2048) must be seq_length (1024)"),
        ("nemo1", ("seq_length=1024",), GPT, "nemo1 has one learned position for each token"),
        ("megatron-bridge", ("seq_length=1024",), GPT, "megatron-bridge has one learned position"),
        ("paxml", ("seq_length=1024",), GPT, "paxml has one learned position"),
        ("paxml", (FSDP,), DENSE, "activation must be gelu, not swiglu"),
        ("paxml", (FSDP, "mbs=1"), GPT, "gbs (128) must be mbs * GPUs (1 * 64)"),
    ],
)
def test_what_it_cannot_run_is_refused_with_the_reason(
    tmp_path: Path, framework: str, overrides: tuple[Any, ...], model: str, said: str
) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, framework, *overrides, model=model)
    assert said in str(error.value)


def test_maxtext_takes_micro_batches_in_bf16_alone(tmp_path: Path) -> None:
    """Both of its releases assert one micro-batch in FP8."""
    assert resolved(tmp_path, "maxtext", FSDP, "mbs=1").num_microbatches == 2
    assert resolved(tmp_path, "maxtext", FSDP, precision="fp8").num_microbatches == 1
    with pytest.raises(UserError, match="accumulates no gradients in FP8"):
        resolved(tmp_path, "maxtext", FSDP, "mbs=1", precision="fp8")


@pytest.mark.parametrize(("framework", "task"), [("nemo1", "lora"), ("nemo1", "sft"), ("maxtext", "sft")])
def test_fine_tuning_is_refused_where_it_would_not_be_one(tmp_path: Path, framework: str, task: str) -> None:
    with pytest.raises(UserError, match=f"for {task}"):
        resolved(tmp_path, framework, FSDP if framework == "maxtext" else "layout.cp=2", task=task)


SYNTHETIC = ("data.kind=synthetic", "mbs=1")


@pytest.mark.parametrize(
    ("framework", "overrides", "said"),
    [
        ("megatron-lm", (), "megatron-lm cannot read conversations: use hf, megatron-bridge or nemo2 for sft"),
        ("megatron-core", (), "megatron-core cannot read conversations"),
        ("nemo2", ("mbs=2",), "nemo2 takes packed sequences one at a time: mbs (2) must be 1"),
        ("megatron-bridge", ("mbs=2",), "megatron-bridge takes packed sequences one at a time: mbs (2) must be 1"),
        ("nemo2", ("layout.cp=2",), "packed for one rank each: cp (2) must be 1"),
        ("nemo2", ("data.instructions.mean_length=1025",), "mean_length (1025) must be at most 1024, for lognormal"),
    ],
)
def test_a_fine_tune_on_conversations_gets_them_or_is_refused(
    tmp_path: Path, framework: str, overrides: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, framework, *SYNTHETIC, *overrides, task="sft")
    assert said in str(error.value)
    # The same is not refused where it is fed tokens.
    assert resolved(tmp_path, framework, *overrides, task="sft").data.kind == "mock"


@pytest.mark.parametrize("framework", ["nemo1", "nemo2", "megatron-bridge", "megatron-lm", "maxtext"])
def test_full_precision_is_for_the_worker(tmp_path: Path, framework: str) -> None:
    with pytest.raises(UserError, match=r"fp8( or nvfp4)?, not in fp32"):
        resolved(tmp_path, framework, precision="fp32")


UNCUT = ("model.num_layers=2", "training.distributed_optimizer=false", "training.overlap_param_gather=false")
IN_FP32 = (*UNCUT, "training.overlap_grad_reduce=false", "training.grad_reduce_in_fp32=true")


@pytest.mark.parametrize("framework", ["megatron-lm", "nemo1", "nemo2", "megatron-bridge"])
def test_weights_are_trained_in_fp8_only_by_the_distributed_optimizer(tmp_path: Path, framework: str) -> None:
    with pytest.raises(UserError, match=r"fp8\.param_gather needs distributed_optimizer"):
        resolved(tmp_path, framework, *IN_FP32, precision="fp8")
    assert resolved(tmp_path, framework, *IN_FP32, "training.fp8.param_gather=false", precision="fp8")


def test_nemo1_without_distributed_optimizer_reduces_gradients_in_its_own_way(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="grad_reduce_in_fp32 must be true, overlap_grad_reduce"):
        resolved(tmp_path, "nemo1", *UNCUT)
    assert resolved(tmp_path, "nemo1", *IN_FP32)


@pytest.mark.parametrize(("framework", "model"), [("maxtext", DENSE), ("paxml", GPT)])
def test_jax_cannot_be_told_where_weights_become_fp8(tmp_path: Path, framework: str, model: str) -> None:
    with pytest.raises(UserError, match=r"training\.fp8\.param_gather must be true"):
        resolved(tmp_path, framework, "training.fp8.param_gather=false", model=model, precision="fp8")


def test_the_experts_of_nemo_24_05_have_no_weights_in_fp8(tmp_path: Path) -> None:
    spread = ("layout.ep=8", "model.num_layers=2")
    with pytest.raises(UserError, match=r"keeps no experts in FP8: fp8\.param_gather must be false"):
        resolved(tmp_path, "nemo1", *spread, model=EXPERTS, precision="fp8", image="nemo:24.05")
    assert resolved(tmp_path, "nemo1", *spread, model=EXPERTS, precision="fp8")


@pytest.mark.parametrize("framework", ["nemo1", "maxtext"])
def test_frameworks_of_2024_know_only_delayed_scaling(tmp_path: Path, framework: str) -> None:
    with pytest.raises(UserError, match=r"fp8\.recipe must be delayed, not tensorwise"):
        resolved(tmp_path, framework, "training.fp8.recipe=tensorwise", precision="fp8")


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("nvcr.io/nvidia/nemo:24.05", "24.05"),
        ("/images/nvidia+nemo+24.09.sqsh", "24.09"),
        ("nemo_24.12-mine.sif", "24.12"),
        ("registry:2409/nemo:latest", None),
        ("/scratch/24.09/nemo.sqsh", None),
        (None, None),
    ],
)
def test_the_release_is_read_out_of_the_name_of_the_image(image: str | None, release: str | None) -> None:
    assert nemo_release(image) == release
