"""What the frameworks' own classes, in the releases that the images carry, make of the Megatron configuration.

Names alone are held by tests/render/test_accepted.py. Here each kind of model goes into the released classes, and what
comes out is compared with the configuration, value by value. transformer-engine is a stand-in (standins.py).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kinds import OF_TODAY, SPREAD, spec
from released import answers, fetched

from benchrun.render import render
from benchrun.runspec.megatron import Megatron
from benchrun.runspec.spec import RunSpec

pytestmark = pytest.mark.thorough
pytest.importorskip("torch", reason="megatron-core needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="megatron-core needs pip install '.[train]'")

MOE = (*SPREAD, "layout.ep=8", "layout.etp=4")
AWARE = "training.optimizer={precision_aware: true, exp_avg: bf16, exp_avg_sq: bf16}"
PROFILED = {"nsys": ("profile.tool=nsys", "profile.steps=2"), "kineto": ("profile.tool=kineto", "profile.steps=2")}
FULL = "training.recompute={granularity: full, method: block, num_layers: 2}"
EVERY_LAYER = "training.recompute={granularity: full, method: uniform, num_layers: 1}"
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "llama": ("llama", "pretrain", (*SPREAD, "layout.vp=5", "training.tp_comm_overlap=true")),
    "llama, context parallel": ("llama", "pretrain", (*SPREAD, "layout.cp=2", "training.lr_warmup_steps=77")),
    "llama, full recompute": ("llama", "pretrain", (*SPREAD, FULL)),
    "llama, all heads": ("llama", "pretrain", (*SPREAD, "model.num_query_groups=64")),
    "nemotron": ("nemotron", "pretrain", (*SPREAD, "training.recompute.granularity=selective")),
    "gpt3": ("gpt3", "pretrain", (*SPREAD, "layout.vp=6")),
    "grok": ("grok", "pretrain", MOE),
    "mixtral": ("mixtral", "pretrain", (*MOE, "model.moe.force_balance=false", "model.moe.capacity_factor=1.25")),
}
MORE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "llama, precision-aware": ("llama", "pretrain", (*SPREAD, AWARE)),
    "llama, FSDP": ("llama", "pretrain", ("layout.fsdp=512", FULL)),
    "gpt3, FSDP": ("gpt3", "pretrain", ("layout.fsdp=512", EVERY_LAYER)),
    "llama, sft": ("llama", "sft", SPREAD),
    "llama, lora": ("llama", "lora", SPREAD),
    "mixtral, forced": ("mixtral", "pretrain", MOE),
}
"""What NeMo 2 and Megatron-Bridge can run besides."""
PACKED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "llama, sft, packed": ("llama", "sft", (*SPREAD, "data.kind=synthetic")),
    "llama, lora, packed": ("llama", "lora", (*SPREAD, "data.kind=synthetic")),
}
"""Conversations, in the releases whose names the templates have."""
EVEN = ("layout.stages=null", "model.num_layers=64")


def of_today(*kinds: str, even: bool = False) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Cases of models of today; with as many layers in every stage where ``even``."""
    more = {"deepseek": EVEN} if even else {}
    return {kind: (kind, "pretrain", (*OF_TODAY[kind], *more.get(kind, ()))) for kind in kinds}


Expected = Iterator[tuple[str, dict[str, Any]]]
"""A class, by the name that the asking script gives its object, and values that the object must have."""


def of_core(core: Megatron) -> Expected:
    """megatron-core's own classes: TransformerConfig, OptimizerConfig, DistributedDataParallelConfig."""
    shared = (
        core.transformer,
        core.attention,
        core.experts,
        core.precision,
        core.fp8,
        core.fusion,
        core.recompute,
        core.worker,
    )
    # GPTModel's layers take the norm without weights, and no class has it.
    yield from (("transformer", {n: v for n, v in group.items() if n != "qk_l2_norm"}) for group in shared if group)
    yield "transformer", whole_parallel(core)
    yield "transformer", {name: core.communication[name] for name in ("tp_comm_overlap", *P2P)}
    yield "optimizer", core.optimizer
    yield from (("ddp", group) for group in (core.ddp, core.sharding))


P2P = ("overlap_p2p_comm", "batch_p2p_comm")
NOT_IN_NEMO1 = {
    *("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split", "expert_tensor_parallel_size"),
    *("fp8_recipe", "fp8_param", "tp_only_amax_red", "cross_entropy_fusion_impl", "cross_entropy_loss_fusion"),
    *("moe_ffn_hidden_size", "moe_permute_fusion", "moe_router_force_load_balancing"),
}
"""megatron-core 0.7 to 0.10 have none of these, or have them as the rest of the model."""


def of_nemo1(core: Megatron) -> Expected:
    """The TransformerConfig that NeMo 1 makes of its YAML file."""
    groups = (core.transformer, core.experts, core.parallel, core.precision, core.fp8, core.fusion, core.recompute)
    for group in groups:
        yield "transformer", {n: v for n, v in (group or {}).items() if n not in NOT_IN_NEMO1}
    if core.experts:
        yield "transformer", {"ffn_hidden_size": core.experts["moe_ffn_hidden_size"]}


def of_drivers(core: Megatron, model: str, precision: str, overlap: str, schedule: str) -> Expected:
    """The objects in a driver, of NeMo 2 or Megatron-Bridge, under that framework's names for them."""
    groups = (core.transformer, core.gpt, core.attention, core.experts, core.fusion, core.recompute)
    yield from ((model, group) for group in groups if group)
    yield precision, core.precision | {"grad_reduce_in_fp32": core.ddp["grad_reduce_in_fp32"]}
    if core.fp8:
        names = ("fp8", "fp8_recipe", "fp8_amax_history_len", "fp8_amax_compute_algo")
        yield precision, {name: core.fp8[name] for name in names} | {"fp8_param_gather": core.fp8["fp8_param"]}
    yield overlap, core.communication
    yield "optimizer", core.optimizer
    yield from (("ddp", group) for group in (core.ddp, core.sharding))
    yield schedule, {"min_lr": core.optimizer["min_lr"]}


def of_nemo2(core: Megatron) -> Expected:
    """NeMo 2's GPTConfig, MegatronStrategy, precision, overlap callback and scheduler."""
    yield from of_drivers(core, "transformer", "precision", "communication", "schedule")
    yield "parallel", core.parallel
    yield "schedule", {"warmup_steps": core.schedule["lr_warmup_iters"]}


def of_bridge(core: Megatron) -> Expected:
    """Megatron-Bridge's ConfigContainer."""
    yield from of_drivers(core, "model", "mixed_precision", "comm_overlap", "optimizer")
    yield "model", whole_parallel(core)
    yield "scheduler", core.schedule


def whole_parallel(core: Megatron) -> dict[str, Any]:
    """The layout, once megatron-core has filled in what follows from the rest."""
    # The text of uneven stages becomes an object, which then has the number of virtual ones.
    values = {name: value for name, value in core.parallel.items() if name != "pipeline_model_parallel_layout"}
    tensor = values["expert_tensor_parallel_size"] or values["tensor_model_parallel_size"]
    return values | {"expert_tensor_parallel_size": tensor}


class Release(NamedTuple):
    """A framework in one release: its packages, the script that asks it, what it is given and what it must answer."""

    framework: str
    packages: tuple[str, ...]
    script: str
    question: Callable[[RunSpec], Any]
    expected: Callable[[Megatron], Expected]
    cases: dict[str, tuple[str, str, tuple[str, ...]]] = CASES
    overrides: tuple[str, ...] = ()
    python: str | None = None
    today: dict[str, tuple[str, str, tuple[str, ...]]] = {}  # noqa: RUF012
    """Cases of models of today that it can train."""


def arguments(run: RunSpec) -> dict[str, dict[str, Any]]:
    """The arguments of each of megatron-core's classes."""
    found: dict[str, dict[str, Any]] = {}
    assert run.megatron
    for name, values in of_core(run.megatron):
        found[name] = found.get(name, {}) | values
    return found


def file(name: str) -> Callable[[RunSpec], str]:
    return lambda run: render(run)[name]


def nemo1(release: str, nemo: str, core: str, *overrides: str) -> Release:
    packages = (f"nemo-toolkit=={nemo}", f"megatron-core=={core}")
    image = f"image=nvcr.io/nvidia/nemo:{release}"
    return Release("nemo1", packages, "ask_nemo1.py", file("nemo1.yaml"), of_nemo1, CASES, (image, *overrides))


NEMO2, BRIDGE = file("train_nemo2.py"), file("train_megatron_bridge.py")
RELEASES = {
    "worker": Release(
        *("megatron-core", (), "ask_core.py", arguments, of_core), today=of_today("deepseek", "qwen", "llama4")
    ),
    "core 0.13.0": Release(
        *("megatron-lm", ("megatron-core==0.13.0",), "ask_core.py", arguments, of_core),
        today=of_today("deepseek", "qwen", "llama4"),
    ),
    "nemo1 24.05": nemo1("24.05", "2.0.0rc0", "0.7.0", "training.fp8.param_gather=false"),
    "nemo1 24.09": nemo1("24.09", "2.0.0", "0.9.0"),
    "nemo1 24.12": nemo1("24.12", "2.1.0", "0.10.0"),
    "nemo2 25.07": Release(
        *(
            "nemo2",
            ("nemo-toolkit==2.4.0", "megatron-core==0.13.0"),
            "ask_nemo2.py",
            NEMO2,
            of_nemo2,
            CASES | MORE | PACKED,
        ),
        today=of_today("deepseek", "qwen", even=True),
    ),
    # Its pin of megatron-core is a commit before 0.17.0; PyPI has no 0.2.2.
    "megatron-bridge 26.04": Release(
        *("megatron-bridge", ("megatron-bridge==0.4.1", "megatron-core==0.17.0"), "ask_bridge.py", BRIDGE, of_bridge),
        *(CASES | MORE | PACKED, ("image=nvcr.io/nvidia/nemo:26.04.01",), "3.12", of_today(*OF_TODAY)),
    ),
    # It has other names for packed conversations, and no image here.
    "megatron-bridge 0.6.2": Release(
        *("megatron-bridge", ("megatron-bridge==0.6.2", "megatron-core==0.19.2"), "ask_bridge.py", BRIDGE, of_bridge),
        *(CASES | MORE, ("image=nvcr.io/nvidia/nemo:26.04.01",), "3.12", of_today(*OF_TODAY)),
    ),
}


def runs(release: Release, folder: Path) -> Iterator[tuple[str, RunSpec]]:
    """Every case in both precisions."""
    for name, (kind, task, overrides) in (release.cases | release.today).items():
        if release.framework == "megatron-lm" and kind == "grok":
            continue  # it has no flag for geglu
        for precision in ("bf16", "fp8"):
            more = (*overrides, *release.overrides)
            yield f"{name}, {precision}", spec(folder, kind, release.framework, *more, task=task, precision=precision)


def kept_as(name: str, value: Any, run: RunSpec) -> Any:
    """A value as the classes keep it: a list of a tuple, and which layers have no rotary positions, one by one."""
    if name == "no_rope_freq":
        return [int((layer + 1) % value == 0) for layer in range(run.model.num_layers)]
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", RELEASES)
def test_released_classes_take_the_configuration_and_keep_its_values(tmp_path: Path, name: str) -> None:
    release = RELEASES[name]
    folders = [fetched(package, release.python) for package in release.packages]
    specs = dict(runs(release, tmp_path))
    made = answers(release.script, {case: release.question(run) for case, run in specs.items()}, *folders)
    assert {case: answer["error"] for case, answer in made.items() if "error" in answer} == {}
    for case, run in specs.items():
        assert run.megatron
        for cls, values in release.expected(run.megatron):
            kept = {name: made[case][cls].get(name, "absent") for name in values}
            assert kept == {n: kept_as(n, v, run) for n, v in values.items()}, (case, cls)


@pytest.mark.parametrize("name", ["nemo2 25.07", "megatron-bridge 26.04"])
def test_released_profilers_record_the_steps_that_the_run_states(tmp_path: Path, name: str) -> None:
    release = RELEASES[name]
    folders = [fetched(package, release.python) for package in release.packages]
    specs = {
        f"{tool}, ranks {ranks}": spec(tmp_path, "llama", release.framework, *SPREAD, *more, f"profile.ranks={ranks}")
        for tool, more in PROFILED.items()
        for ranks in ([0, 9], [9])
    }
    made = answers(release.script, {case: release.question(run) for case, run in specs.items()}, *folders)
    assert {case: answer["error"] for case, answer in made.items() if "error" in answer} == {}
    for case, run in specs.items():
        first, last = run.profiled_steps
        steps = list(range(first, last + 1)) if 0 in run.profile.ranks else []  # the asked process is rank 0
        where = {"kineto": "traces", "nsys": "range"}[run.profiler]
        nothing = {"traces": [], "range": []}
        assert made[case]["profiled"] in (nothing | {where: steps}, *([] if steps else [{}])), case
        assert first > run.planned_steps
