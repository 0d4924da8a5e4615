"""Every rule of the layout refuses what breaks it, with the numbers and a legal value."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchrun import api, paths
from benchrun.errors import UserError
from benchrun.recipes import catalogue
from benchrun.recipes.arithmetic import arithmetic
from benchrun.recipes.layout import slow_links
from benchrun.recipes.resolve import resolve, resolve_point
from benchrun.recipes.select import Request, select
from benchrun.show.terminal import spec_rows

LLAMA = ("llama3.1-8b", "H100", "bf16", 64)
LLAMA_405B = ("llama3.1-405b", "H100", "bf16", 1024)
MIXTRAL = ("mixtral-8x7b", "H100", "bf16", 64)
SINKHORN = ("gpt-moe-53b", "H100", "bf16", 64)
LLAMA_4 = ("llama4-scout", "H100", "bf16", 1)
MAXTEXT = ("llama3-70b", "H100", "bf16", 512)


@pytest.mark.parametrize(
    ("point", "overrides", "says"),
    [
        (LLAMA, ["layout.tp=3"], ["num_attention_heads (32) must be a multiple of tp (3)", "2 or 4"]),
        (LLAMA, ["layout.tp=16"], ["num_query_groups (8) must be a multiple of tp (16)", "could be 8"]),
        (LLAMA, ["layout.pp=5"], ["num_layers (32) must be a multiple of pp * vp (5 * 1 = 5)", "30 or 35"]),
        (LLAMA, ["layout.pp=48"], ["number of GPUs (64) must be a multiple of tp * pp * cp (1 * 48 * 2 = 96)"]),
        (LLAMA, ["gbs=1000"], ["gbs (1000) must be a multiple of mbs * dp (1 * 32 = 32)", "992 or 1024"]),
        (LLAMA, ["seq_length=8190"], ["seq_length (8190) must be a multiple of 4", "8188 or 8192"]),
        (LLAMA, ["seq_length=262144"], ["at most max_position_embeddings (131072)"]),
        (LLAMA, ["layout.vp=2"], ["needs a pipeline"]),
        (LLAMA, ["layout.sequence_parallel=true"], ["tp is 1"]),
        (LLAMA, ["layout.ep=2"], ["this model is dense"]),
        (LLAMA, ["training.distributed_optimizer=false"], ["overlap_param_gather needs distributed_optimizer"]),
        (LLAMA, ["training.lr=1e-7"], ["min_lr (3e-07) must be at most lr (1e-07)"]),
        (LLAMA, ["training.recompute.granularity=full"], ["needs recompute.method"]),
        (LLAMA, ["training.recompute.num_layers=2"], ["belong to granularity full"]),
        (LLAMA, ["cluster.container.runtime=docker"], ["cluster.binding.gpus_per_numa_node must be null"]),
        (
            LLAMA,
            ["cluster.container.runtime=apptainer"],
            ["--no-container-mount-home is an option of pyxis", "set cluster.container.options"],
        ),
        (LLAMA, ["cluster.binding.cpu_bind=cores"], ["each rank gets one CPU", "divided by its 8 ranks"]),
        (LLAMA, ["cluster.gpus_per_node=6"], ["must be a multiple of 6", "60 or 66"]),
        (MIXTRAL, ["layout.ep=3"], ["num_experts (8) must be a multiple of ep (3)", "2 or 4"]),
        (MIXTRAL, ["layout.tp=2"], ["need sequence_parallel"]),
        (MIXTRAL, ["layout.tp=2", "layout.sequence_parallel=true", "layout.ep=1"], ["etp must be 2"]),
        (MIXTRAL, ["model.moe.topk=9"], ["topk (9) must be at most num_experts (8)"]),
        (MIXTRAL, ["gbs=288"], ["gbs (288) must be a multiple of mbs * dp * pp (1 * 16 * 4 = 64)", "256 or 320"]),
        (MIXTRAL, ["layout.pp=16", "layout.vp=1"], ["ep * etp * pp", "ep could be 4"]),
        (SINKHORN, ["model.moe.aux_loss_coeff=0.01"], ["has no loss", "aux_loss_coeff (0.01) must be 0"]),
        (SINKHORN, ["model.moe.topk=2"], ["one expert, as in BASE layers", "topk (2) must be 1"]),
        (SINKHORN, ["model.moe.force_balance=true"], ["force_balance must be false"]),
        (SINKHORN, ["model.moe.capacity_factor=1"], ["moe.capacity_factor (1.0): it must be null"]),
        (SINKHORN, ["model.moe.sigmoid=true"], ["moe.sigmoid (true): it must be false"]),
        (SINKHORN, ["model.moe.balance=none"], ["topk (1) must be 2 or more"]),
        (LLAMA_4, ["model.num_layers=6"], ["num_layers (6) must be a multiple of 4"]),
        (MAXTEXT, ["layout.fsdp=96"], ["must be a multiple of fsdp (96)", "64 or 128"]),
        (MAXTEXT, ["layout.pp=4"], ["fsdp (128) excludes a pipeline"]),
        (LLAMA, ["layout.account_for_embedding_and_loss=true"], ["pp is 1, so it must be false"]),
        (
            LLAMA_405B,
            ["layout.account_for_embedding_and_loss=false"],
            ["num_layers (126) must be a multiple of pp * vp"],
        ),
        (LLAMA_405B, ["model.num_layers=128"], ["with 2 more for embedding and output", "126 or 190"]),
        (LLAMA_405B, ["cluster.gpus_per_node=4"], ["tp (8) exceeds the 4 GPUs per node"]),
        (MAXTEXT, ["training.recompute.granularity=selective"], ["recompute.policy"]),
        (
            ("llama3.1-70b", "H100", "bf16", 64),
            ["training.recompute={granularity: full, method: block, num_layers: 5}"],
            ["training.recompute.num_layers (5) must be at most the layers of a (virtual) stage (4)"],
        ),
    ],
)
def test_a_layout_that_cannot_work_is_refused(
    point: tuple[str, str, str, int], overrides: list[str], says: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request(*point, overrides=tuple(overrides)))
    for text in says:
        assert text in str(error.value)
    assert error.value.where.startswith("--set ") or error.value.where.split(":")[-1].isdigit()


# What was published and cannot run: misprints, columns swapped, rows that were never tried.
IMPOSSIBLE = [
    # NeMo r2.3.0 and r2.4.0 model_configs_h100.csv: 405B LoRA, tp 8 and pp 6 on 32 GPUs.
    (
        ("llama3.1-405b", "H100", "bf16", 1024, "nemo2"),
        32,
        ["layout.pp=6", "layout.cp=1", "layout.vp=1"],
        "(8 * 6 * 1 = 48)",
    ),
    # dgxc-benchmarking llama3/finetuning/README_8b.md @ v25.02: a pipeline of 41.
    (("llama3-8b-sft", "H100", "bf16", 8), 8, ["layout.pp=41"], "num_layers (32) must be a multiple of pp * vp (41"),
    # dgxc-benchmarking nemo_megatron/README_175b.md @ v25.04: 1204 sequences on 512 GPUs.
    (("gpt3-175b", "H100", "bf16", 512), 512, ["gbs=1204"], "gbs could be 1152 or 1280"),
    # NeMo user guide, performance summary @ 25.02: Mixtral 8x22B with one sequence a step, 64 at a time.
    (
        ("mixtral-8x22b", "H100", "fp8", 256),
        256,
        ["gbs=1", "mbs=64"],
        "gbs (1) must be a multiple of mbs * dp * pp (64 * 2",
    ),
    # dgxc-benchmarking llama3.1/README.md @ v25.12: 70B on 8 GPUs in the layout of 32, and 405B on 128.
    (("llama3.1-70b", "H100", "bf16", 64), 8, [], "tp * pp * cp (4 * 4 * 2 = 32)"),
    (("llama3.1-405b", "H100", "fp8", 1024, "nemo2"), 128, ["layout.tp=4"], "optimizer states alone take"),
    # dgxc-benchmarking llama3.1/README_70b.md @ v24.11.1: a sequence of 8129 tokens.
    (("llama3.1-8b", "H100", "bf16", 64), 64, ["seq_length=8129"], "seq_length could be 8128 or 8132"),
]


@pytest.mark.parametrize(("point", "num_gpus", "overrides", "says"), IMPOSSIBLE)
def test_what_was_published_by_mistake_is_refused(
    point: tuple[Any, ...], num_gpus: int, overrides: list[Any], says: str
) -> None:
    recipe, gpu, precision, listed, *framework = point
    file = catalogue.recipe_file(recipe)
    right = select(file, Request(recipe, gpu, precision, listed, *framework))
    resolve_point(file, right)
    with pytest.raises(UserError) as error:
        resolve_point(file, replace(right, num_gpus=num_gpus), overrides=tuple(overrides))
    assert says in str(error.value)


class TestFp8:
    """FP8 only where it really is FP8."""

    def refused(self, recipe: Any, gpu: Any, *overrides: Any) -> Any:
        with pytest.raises(UserError) as error:
            resolve(Request(recipe, gpu, "fp8", 8, overrides=overrides))
        return str(error.value)

    def test_a_cpu_has_none(self, tmp_path: Path) -> None:

        path = tmp_path / "mine.yaml"
        text = (paths.RECIPES / "tiny-llama.yaml").read_text()
        path.write_text(text.replace("precision: [fp32, bf16]", "precision: [fp8]").replace("[1, 2]", "[1, 2, 8]"))
        assert "CPU has none; use bf16" in self.refused(str(path), "CPU")

    def test_mxfp8_needs_blackwell(self) -> None:
        assert "needs Blackwell" in self.refused("llama3.1-8b", "H100", "training.fp8.recipe=mxfp8")

    def test_mxfp8_weights_are_refused(self) -> None:
        over = ("training.fp8.recipe=mxfp8", "training.fp8.param_gather=true")
        with pytest.raises(UserError, match=r"fp8\.param_gather must be false"):
            resolve(Request("llama3.1-8b", "B200", "fp8", 8, "nemo2", overrides=over))

    def test_megatron_bridge_gathers_weights_in_mxfp8(self) -> None:
        spec = resolve(Request("llama3.1-8b", "B200", "fp8", 8, "megatron-bridge"))
        assert spec.training.fp8.recipe == "mxfp8"  # type: ignore[attr-defined]
        assert spec.training.fp8.param_gather  # type: ignore[attr-defined]

    def test_sizes_must_suit_the_units(self) -> None:
        assert "multiple of 16 in fp8" in self.refused("llama3.1-8b", "H100", "model.ffn_hidden_size=14340")


class TestSlowLinks:
    """Tensor parallelism over the network runs, and is warned of."""

    def test_is_said_with_the_nodes_it_is_for(self) -> None:
        point = ("nemotron4-15b", "H100", "bf16", 16, "nemo1")
        off = ("training.tp_comm_overlap=false", "cluster.gpus_per_node=2")
        assert "tp 4 spans nodes of 2" in slow_links(resolve(Request(*point, overrides=off)))
        assert slow_links(resolve(Request(*point))) is None

    @pytest.mark.parametrize("name", catalogue.trainings())
    def test_no_shipped_point_has_it(self, name: str) -> None:
        joined = {"A100": 8, "H100": 8, "H200": 8, "GH200": 1, "B200": 8, "B300": 8, "GB200": 72, "GB300": 72, "CPU": 8}
        wide = [row for row in api.list_points((name,)) if row["tp"] > joined[row["gpu"]]]
        assert wide == []


@pytest.mark.parametrize("degree", ["tp", "pp", "cp", "vp", "ep", "etp", "fsdp"])
def test_a_degree_is_a_number(degree: str) -> None:
    name, gpu, precision, num_gpus = LLAMA
    with pytest.raises(UserError, match="must be a number"):
        resolve(Request(name, gpu=gpu, precision=precision, num_gpus=num_gpus, overrides=(f"layout.{degree}=true",)))


def test_only_frameworks_of_the_same_workload_are_advised() -> None:
    name, gpu, precision, num_gpus = LLAMA
    request = Request(
        name, gpu=gpu, precision=precision, num_gpus=num_gpus, framework="megatron-lm", overrides=("layout.fsdp=8",)
    )
    with pytest.raises(UserError) as raised:
        resolve(request)
    assert "megatron-core" in str(raised.value)
    assert not any(other in str(raised.value) for other in ("vllm", "nemo-rl", "trtllm"))


def test_sharded_weights_are_in_the_head_of_the_script_and_on_the_page_of_the_run() -> None:
    point = "llama3.1-8b", "H100", "bf16", 8, "nemo2"
    sharded = resolve(Request(*point, overrides=("layout.fsdp=8",)))
    for text in (sharded.summary[1], dict(spec_rows(sharded))["layout"]):
        assert ", fsdp 8, dp 4" in text
    for text in (resolve(Request(*point)).summary[1], dict(spec_rows(resolve(Request(*point))))["layout"]):
        assert "fsdp" not in text


# ``show`` prints the arithmetic of a layout, and every line of it is true.


@pytest.mark.parametrize(
    ("point", "lines"),
    [
        (
            ("llama3.1-70b", "H100", "bf16", 64, "nemo1"),
            [
                "64 GPUs on 8 nodes of 8 = tp 4 * pp 4 * cp 2 * dp 2",
                "128 sequences per step = mbs 1 * dp 2 * 64 micro-batches; 1,048,576 tokens",
                "80 layers = pp 4 * vp 5 * 4 per virtual stage",
                "pipeline idle 0.9 % of a step: 3 of 3 + 64 * 5",
                "a tp rank has 16 of 64 heads and 2 of 8 groups",
                "8192 tokens = cp 2 * tp 4 (sequence parallel) * 1024",
            ],
        ),
        (
            ("llama3.1-405b", "H100", "bf16", 512, "nemo2"),
            ["126 layers + embedding + output layer = pp 8 * vp 8 * 2 per virtual stage"],
        ),
        (
            ("grok1-314b", "H100", "bf16", 512, "nemo1"),
            [
                "512 GPUs = ep 8 * etp 4 * pp 8 * 2 replicas of the experts",
                "8 experts = ep 8 * 1 per rank",
            ],
        ),
        (("llama2-70b", "H100", "bf16", 512, "maxtext"), ["512 data-parallel ranks = fsdp 128 * 4 replicas"]),
        (("llama3.1-8b", "H200", "fp8", 1), ["1 GPU on 1 node of 1 = tp 1 * pp 1 * cp 1 * dp 1"]),
    ],
)
def test_the_lines_are_right(point: tuple[Any, ...], lines: list[str]) -> None:
    found = arithmetic(resolve(Request(*point)))
    assert [line for line in lines if line not in found] == []
