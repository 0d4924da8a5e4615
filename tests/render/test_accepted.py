"""Each framework's command and file use only what its release accepts: the lists in ``tests/accepted.txt``."""

import ast
import itertools
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from accepted import facts
from kinds import OF_TODAY, SPREAD, spec

from benchrun.errors import UserError
from benchrun.frameworks.registry import framework as registered
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.render import render

MOE = ("layout.ep=8", "layout.etp=4")
WIDE = {
    "llama": (*SPREAD, "layout.vp=5", "layout.cp=2", "training.tp_comm_overlap=true"),
    "nemotron": (*SPREAD, "training.recompute.granularity=selective"),
    "gpt3": (*SPREAD, "layout.vp=6"),
    "grok": (*SPREAD, *MOE, "layout.cp=2", "layout.vp=8"),
    "mixtral": (*SPREAD, *MOE),
}
LATEST, BRIDGE_LATEST = "megatron-bridge_26.08", "image=nvcr.io/nvidia/nemo:26.08"
FULL = "training.recompute={granularity: full, method: block, num_layers: 2}"


def leaves(tree: dict, prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def command(job: str) -> list[str]:
    """The words of the framework's command, as bash would split them."""
    return shlex.split(job.split("command=(\n")[1].split("\n)\n")[0], comments=True)


@pytest.mark.parametrize("release", ["24.05", "24.09", "24.12"])
@pytest.mark.parametrize("kind", ["llama", "nemotron", "gpt3", "grok"])
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_nemo1_reads_every_key(tmp_path: Path, release: str, kind: str, precision: str) -> None:
    image = f"image=nvcr.io/nvidia/nemo:{release}"
    wide = [text for text in WIDE[kind] if release != "24.05" or "cp=" not in text]
    if (release, kind) == ("24.05", "grok"):
        wide.append("training.fp8.param_gather=false")
    text = render(spec(tmp_path, kind, "nemo1", image, *wide, precision=precision))["nemo1.yaml"]
    keys = set(leaves(yaml.safe_load(text)))
    assert {"trainer.max_steps", "model.num_layers", "model.optim.lr"} <= keys
    assert keys <= set(facts(f"nemo1_{release}"))


def test_nemo1_states_the_spec(tmp_path: Path) -> None:
    run = spec(tmp_path, "grok", "nemo1", *WIDE["grok"], "training.lr=1e-5")
    model = yaml.safe_load(render(run)["nemo1.yaml"])["model"]
    assert (model["tensor_model_parallel_size"], model["pipeline_model_parallel_size"]) == (4, 8)
    assert (model["virtual_pipeline_model_parallel_size"], model["context_parallel_size"]) == (8, 2)
    assert (model["activation"], model["normalization"], model["num_query_groups"]) == ("fast-geglu", "rmsnorm", 8)
    assert (model["num_moe_experts"], model["moe_expert_capacity_factor"]) == (8, 1.0)
    assert (model["fp8"], model["fp8_hybrid"], model["fp8_e4m3"]) == (True, True, False)
    assert model["override_vocab_size"] == 131072
    # 1e-05 would be text to YAML 1.1.
    assert model["optim"]["lr"] == 1e-5


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nemotron", ("squared-relu", "layernorm1p", 0.5, "rope", False)),
        ("gpt3", ("gelu", "layernorm", 1.0, "learned_absolute", True)),
    ],
)
def test_nemo1_tells_the_kinds_apart(tmp_path: Path, kind: str, words: tuple[bool | float | str, ...]) -> None:
    model = yaml.safe_load(render(spec(tmp_path, kind, "nemo1", *WIDE[kind]))["nemo1.yaml"])["model"]
    found = [
        model[key] for key in ("activation", "normalization", "rotary_percentage", "position_embedding_type", "bias")
    ]
    assert tuple(found) == words


def calls(text: str) -> Iterator[tuple[str, set[str]]]:
    """Every call by the last part of its name, with its keywords."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield name, {keyword.arg for keyword in node.keywords}


def imports(text: str) -> set[str]:
    """Every imported name; of a module under another name, the names that are taken from it."""
    tree = list(ast.walk(ast.parse(text)))
    found = [(n.module, alias) for n in tree if isinstance(n, ast.ImportFrom) for alias in n.names]
    modules = {alias.asname: f"{module}.{alias.name}" for module, alias in found if alias.asname == "bridge"}
    names = {f"from {module} import {alias.name}" for module, alias in found if alias.asname not in modules}
    members = ((n.value.id, n.attr) for n in tree if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
    return names | {f"from {modules[name]} import {member}" for name, member in members if name in modules}


@pytest.mark.parametrize(
    ("framework", "file", "release"),
    [
        ("nemo2", "train_nemo2.py", "nemo2_25.07"),
        ("megatron-bridge", "train_megatron_bridge.py", "megatron-bridge_25.11"),
        ("megatron-bridge", "train_megatron_bridge.py", "megatron-bridge_26.04"),
        ("megatron-bridge", "train_megatron_bridge.py", "megatron-bridge_26.08"),
    ],
)
@pytest.mark.parametrize(("kind", "task", "more"), [
    ("llama", "pretrain", WIDE["llama"]), ("llama", "pretrain", ("layout.fsdp=512", FULL)), ("llama", "sft", SPREAD),
    ("llama", "lora", (*SPREAD, "training.distributed_optimizer=false", "training.overlap_param_gather=false")),
    ("nemotron", "pretrain", WIDE["nemotron"]), ("gpt3", "pretrain", WIDE["gpt3"]), ("grok", "pretrain", WIDE["grok"]),
    ("mixtral", "pretrain", WIDE["mixtral"]), ("mixtral", "pretrain", (*WIDE["mixtral"], "data.kind=synthetic")),
    ("llama", "sft", (*SPREAD, "data.kind=synthetic")), ("llama", "lora", (*SPREAD, "data.kind=synthetic")),
])  # fmt: skip
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_python_drivers_call_what_there_is(
    tmp_path: Path, framework: str, file: str, release: str, kind: str, task: str, more: tuple[Any, ...], precision: str
) -> None:
    if release == LATEST:
        more = (*more, BRIDGE_LATEST)
    if release == LATEST and task != "pretrain" and "data.kind=synthetic" in more:
        with pytest.raises(UserError, match=r"packed conversations before NeMo 26\.08"):
            spec(tmp_path, kind, framework, *more, task=task, precision=precision)
        return
    text = render(spec(tmp_path, kind, framework, *more, task=task, precision=precision))[file]
    known = facts(release)
    signatures = {name: set(words.split()) for name, _, words in (line.partition(": ") for line in known)}
    assert {line for line in imports(text) if "torch" not in line} <= set(known)
    seen = set()
    for name, keywords in calls(text):
        if name in signatures:
            seen.add(name)
            assert keywords <= signatures[name], name
    assert {"OptimizerConfig", "DistributedDataParallelConfig"} <= seen
    assert ("LoRA" in seen) == (task == "lora")
    assert ("PackedSequenceSpecs" in seen) == (task != "pretrain" and "data.kind=synthetic" in more)


BRIDGE_TODAY, NEMO2_TODAY = "image=nvcr.io/nvidia/nemo:26.04.01", ("deepseek", "qwen")


@pytest.mark.parametrize("kind", OF_TODAY)
@pytest.mark.parametrize("precision", ["bf16", "fp8", "nvfp4"])
def test_models_of_today_are_written_in_names_that_there_are(tmp_path: Path, kind: str, precision: str) -> None:
    cases = [
        ("megatron-bridge", "train_megatron_bridge.py", "megatron-bridge_26.04", (BRIDGE_TODAY,)),
        ("megatron-bridge", "train_megatron_bridge.py", LATEST, (BRIDGE_LATEST,)),
    ]
    if kind in NEMO2_TODAY and precision != "nvfp4":
        even = ("layout.stages=null", "model.num_layers=64") if kind == "deepseek" else ()
        cases.append(("nemo2", "train_nemo2.py", "nemo2_25.07", even))
    gpu = "B200" if precision == "nvfp4" else "H200"
    for framework, file, release, more in cases:
        run = spec(tmp_path, kind, framework, *OF_TODAY[kind], *more, precision=precision, gpu=gpu)
        text, known = render(run)[file], facts(release)
        signatures = {name: set(words.split()) for name, _, words in (line.partition(": ") for line in known)}
        assert {line for line in imports(text) if "torch" not in line} <= {*known, "from functools import partial"}
        of_model = ("Provider", "Config")
        checked = {name for name, keywords in calls(text) if name in signatures and keywords <= signatures[name]}
        assert {name for name, _ in calls(text) if name in signatures} == checked
        assert any(name.endswith(of_model) and name not in ("OptimizerConfig",) for name in checked)
        assert ('fp4="e2m1"' in text.replace("'", '"')) == (precision == "nvfp4")


def test_megatron_lm_has_a_flag_for_each_of_deepseeks_parts(tmp_path: Path) -> None:
    words = command(render(spec(tmp_path, "deepseek", "megatron-lm", *OF_TODAY["deepseek"]))["job.sh"])
    flags = [word for word in words if word.startswith("--")]
    assert {*flags} <= {*facts("megatron-lm_core_v0.13.0")} and len(flags) == len({*flags})
    stated = dict(itertools.pairwise(words))
    assert (stated["--q-lora-rank"], stated["--qk-pos-emb-head-dim"], stated["--mtp-num-layers"]) == ("1536", "64", "1")
    assert stated["--moe-layer-freq"] == str([0] * 3 + [1] * 58)
    assert stated["--pipeline-model-parallel-layout"] == "Et|(tt|)*30mL"
    assert "--num-virtual-stages-per-pipeline-rank" not in words


@pytest.mark.parametrize(
    ("kind", "framework", "says"),
    [
        ("deepseek", "nemo1", "multi-head latent attention"),
        ("hybrid", "megatron-lm", "Mamba-2"),
        ("hybrid", "megatron-core", "Mamba-2"),
        ("llama4", "nemo2", "layers without rotary positions"),
        ("qwen", "maxtext", "norms of queries and keys"),
    ],
)
def test_what_a_framework_cannot_express_is_refused(tmp_path: Path, kind: str, framework: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        spec(tmp_path, kind, framework, *OF_TODAY[kind], precision="bf16")
    assert "megatron-bridge" in str(error.value)


GARBAGE = {
    "megatron-lm": ("job.sh", "--manual-gc --manual-gc-interval 7\n", "--manual-gc"),
    "nemo1": ("nemo1.yaml", " gc_interval: 7,", " gc_interval: 7"),
    "nemo2": ("train_nemo2.py", "GarbageCollectionCallback(gc_interval_train=7, gc_interval_val=7),", "Callback(gc_"),
    "megatron-bridge": ("train_megatron_bridge.py", "manual_gc=True, manual_gc_interval=7,", "gc=True"),
}


@pytest.mark.parametrize("framework", GARBAGE)
def test_garbage_is_collected_when_the_spec_says(tmp_path: Path, framework: str) -> None:
    file, collected, any_of_it = GARBAGE[framework]
    every, never = (
        render(spec(tmp_path, "llama", framework, *SPREAD, f"training.manual_gc_interval={steps}"))[file]
        for steps in (7, 0)
    )
    assert collected in every
    assert any_of_it not in never


@pytest.mark.parametrize("bias", [True, False])
def test_megatron_lm_fuses_no_bias_with_an_activation_that_it_cannot(tmp_path: Path, bias: bool) -> None:
    """Without biases it turns the fusion off by itself."""
    run = spec(tmp_path, "nemotron", "megatron-lm", *SPREAD, f"model.bias={bias}".lower())
    words = command(render(run)["job.sh"])
    assert ("--no-bias-gelu-fusion" in words) == bias


def test_megatron_lm_has_the_virtual_stages_of_the_spec(tmp_path: Path) -> None:
    """Its layers a virtual stage say nothing where embedding and output layer count as layers too."""
    counted = ("model.num_layers=78", "layout.vp=5", "layout.account_for_embedding_and_loss=true")
    words = command(render(spec(tmp_path, "llama", "megatron-lm", *SPREAD, *counted))["job.sh"])
    assert words[words.index("--num-virtual-stages-per-pipeline-rank") + 1] == "5"
    assert "--num-layers-per-virtual-pipeline-stage" not in words


@pytest.mark.parametrize(
    ("framework", "file"), [("nemo2", "train_nemo2.py"), ("megatron-bridge", "train_megatron_bridge.py")]
)
def test_switches_reach_the_driver_and_the_ranks(tmp_path: Path, framework: str, file: str) -> None:
    given = "{model.bias_dropout_fusion: false, env.NVTE_NORM_FWD_USE_CUDNN: 1, env.TORCH_NCCL_HIGH_PRIORITY: null, "
    given += "comm_overlap.tp_comm_overlap_cfg: 'userbuffers_{precision}_h100_h8192_tp4_mbs1_seqlen8192'}"
    rendered = render(spec(tmp_path, "llama", framework, *SPREAD, f"training.switches={given}", precision="fp8"))
    assert "bias_dropout_fusion=False," in rendered[file]
    assert "tp_comm_overlap_cfg=userbuffers_fp8_h100_h8192_tp4_mbs1_seqlen8192," in rendered[file]
    assert "NVTE_NORM_FWD_USE_CUDNN=1" in rendered["job.sh"]
    assert "TORCH_NCCL_HIGH_PRIORITY" not in rendered["job.sh"]


def test_a_part_can_be_left_out_and_layers_can_have_another_precision(tmp_path: Path) -> None:
    given = "training.switches={comm_overlap: null, model.quant_recipe: ['mtp.* bf16'], optimizer.muon_nesterov: true}"
    rendered = render(spec(tmp_path, "llama", "megatron-bridge", *SPREAD, given, BRIDGE_LATEST))
    driver = rendered["train_megatron_bridge.py"]
    assert "comm_overlap=None," in driver
    assert "GlobMatcher('mtp.*', 'bf16')," in driver
    assert "muon_nesterov=True," in driver
    older = render(spec(tmp_path, "llama", "megatron-bridge", *SPREAD, given, BRIDGE_TODAY))
    assert "muon_use_nesterov=True," in older["train_megatron_bridge.py"]


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ("{train.seed: 1}", "must be an argument of"),
        ("{ddp: null}", "must be an argument of"),
        ("{comm_overlap.tp_comm_overlap_cfg: x}", "userbuffers_..."),
    ],
)
def test_a_switch_that_no_driver_takes_is_refused(tmp_path: Path, switches: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        spec(tmp_path, "llama", "nemo2", *SPREAD, f"training.switches={switches}")


@pytest.mark.parametrize(
    ("framework", "file"), [("nemo2", "train_nemo2.py"), ("megatron-bridge", "train_megatron_bridge.py")]
)
@pytest.mark.parametrize("task", ["lora", "sft"])
def test_adapters_are_trained_without_the_fused_loss(tmp_path: Path, framework: str, file: str, task: str) -> None:
    text = render(spec(tmp_path, "llama", framework, *SPREAD, task=task))[file]
    assert f"cross_entropy_loss_fusion={task != 'lora'}," in text


@pytest.mark.parametrize(
    ("framework", "file"), [("nemo2", "train_nemo2.py"), ("megatron-bridge", "train_megatron_bridge.py")]
)
@pytest.mark.parametrize("held", [True, False])
def test_the_weights_beside_adapters_are_in_fp8_where_the_spec_says_so(
    tmp_path: Path, framework: str, file: str, held: bool
) -> None:
    whole = ("training.distributed_optimizer=false", "training.overlap_param_gather=false")
    run = spec(tmp_path, "llama", framework, *SPREAD, *whole, f"training.fp8.param_gather={held}".lower(), task="lora")
    assert render(run)[file].count(f"fp8_param_gather={held},") == 2


def of_type(kind: str, value: str) -> bool:
    """As MaxText's pyconfig reads a value: the type of the default decides."""
    if kind == "bool":
        return value.lower() in ("true", "false")
    try:
        {"int": int, "float": float, "str": str}[kind](value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("release", ["2024-12-09", "2025-01-24"])
@pytest.mark.parametrize("fsdp", [1, 8, 128, 512])
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_maxtext_knows_every_key_and_its_type(tmp_path: Path, release: str, fsdp: int, precision: str) -> None:
    types = dict(line.split(": ") for line in facts(f"maxtext_{release}"))
    small = () if fsdp >= 64 else ("model.num_layers=2",)
    run = spec(tmp_path, "llama", "maxtext", f"layout.fsdp={fsdp}", *small, precision=precision)
    words = command(render(run)["job.sh"])[4:]
    values = dict(word.split("=", 1) for word in words)
    assert len(values) == len(words), "a key is given twice"
    assert all(key in types and of_type(types[key], value) for key, value in values.items()), values
    meshes = [int(value) for key, value in values.items() if key.endswith("_parallelism")]
    assert math.prod(meshes) == run.num_gpus
    ranks = run.num_gpus * int(values["gradient_accumulation_steps"])
    assert float(values["per_device_batch_size"]) * ranks == run.gbs
    assert values["quantization"] == ("fp8" if precision == "fp8" else "")


@pytest.mark.parametrize("warmup", [0, 3, 29, 47, 50])
def test_every_step_of_a_warmup_is_one_and_none_outlasts_the_schedule(tmp_path: Path, warmup: int) -> None:
    """As each release reads it: MaxText cuts the fraction's steps, Megatron wants a step of decay."""
    more = ("model.num_layers=2", f"training.lr_warmup_steps={warmup}", "training.steps=47")
    words = command(render(spec(tmp_path, "llama", "maxtext", *more))["job.sh"])
    told = dict(word.split("=", 1) for word in words[4:])
    steps = int(told["learning_rate_schedule_steps"])
    assert int(steps * float(told["warmup_steps_fraction"])) == warmup < steps
    words = command(render(spec(tmp_path, "llama", "megatron-lm", *SPREAD[:1], SPREAD[2], *more))["job.sh"])
    assert int(words[words.index("--lr-warmup-iters") + 1]) == warmup
    assert int(words[words.index("--lr-decay-iters") + 1]) == max(47, warmup + 1)
    text = render(spec(tmp_path, "llama", "megatron-bridge", *SPREAD[:1], SPREAD[2], *more))["train_megatron_bridge.py"]
    assert f"lr_decay_iters={max(47, warmup + 1)}," in text


def test_paxml_is_told_the_seed(tmp_path: Path) -> None:
    run = spec(tmp_path, "gpt3", "paxml", "layout.fsdp=128", "training.seed=77")
    assert "task.train.random_seed = 77" in render(run)["paxml_point.py"]


@pytest.mark.parametrize(("kind", "framework"), [("llama", "maxtext"), ("gpt3", "paxml")])
def test_images_for_jax_bind_a_rank_without_numactl(tmp_path: Path, kind: str, framework: str) -> None:
    inside = render(spec(tmp_path, kind, framework, "layout.fsdp=128"))["job.sh"]
    assert "exec numactl" not in inside
    assert 'exec taskset --cpu-list "$(cat /sys/devices/system/node/node$node/cpulist)" "$@"' in inside
    host = ("cluster.container.runtime=apptainer", "cluster.container.options=[]")
    assert "exec numactl" in render(spec(tmp_path, kind, framework, "layout.fsdp=128", *host))["job.sh"]


def test_maxtext_spreads_weights_over_nodes_where_told(tmp_path: Path) -> None:
    words = command(render(spec(tmp_path, "llama", "maxtext", "layout.fsdp=128"))["job.sh"])
    assert {"ici_fsdp_parallelism=8", "dcn_fsdp_parallelism=16", "dcn_data_parallelism=4"} <= set(words)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_paxml_has_every_constant_and_flag(tmp_path: Path, precision: str) -> None:
    run = spec(
        tmp_path, "gpt3", "paxml", "layout.fsdp=128", "training.recompute.policy=SAVE_QKV_OUT_PROJ", precision=precision
    )
    files, known = render(run), set(facts("paxml_2024-03-04"))
    (point,) = (node for node in ast.parse(files["paxml_point.py"]).body if isinstance(node, ast.ClassDef))
    constants = {node.targets[0].id: node.value for node in point.body if isinstance(node, ast.Assign)}
    assert set(constants) <= known
    assert ast.literal_eval(constants["ICI_MESH_SHAPE"]) == [1, 8, 1]
    assert ast.literal_eval(constants["DCN_MESH_SHAPE"]) == [4, 16, 1]
    flags = {word.partition("=")[0] for word in command(files["job.sh"]) if word.startswith("--")}
    assert "--fdl_config" in flags
    assert flags <= known
    assert run.env["ENABLE_FP8"] == ("1" if precision == "fp8" else "0")
    # What it prints of its steps goes to stderr, and the log is stdout.
    assert "\nexec 2>&1" in files["job.sh"]


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_paxml_reads_no_vocabulary_and_says_where_fp8_is_missing(tmp_path: Path, precision: str) -> None:
    """Its data sets read VOCAB_PATH as they are imported; without transformer-engine it would train in BF16."""
    policy = "training.recompute.policy=SAVE_QKV_OUT_PROJ"
    text = render(spec(tmp_path, "gpt3", "paxml", "layout.fsdp=128", policy, precision=precision))["paxml_point.py"]
    assert text.index("SentencePieceVocabulary.encode = ") < text.index("from paxml.contrib.gpu")
    assert ("\nimport transformer_engine.jax" in text) is (precision == "fp8")


@pytest.mark.parametrize("framework", ["maxtext", "paxml"])
def test_policies_are_offered_that_the_memory_estimate_may_not_know(framework: str) -> None:
    policies = registered(framework).memory.policies
    assert all(re.fullmatch(r"\w+", name) for name in policies)
    assert list(policies) == sorted(policies)
    assert None in policies.values()


@pytest.mark.parametrize(
    ("framework", "file"), [("nemo2", "train_nemo2.py"), ("megatron-bridge", "train_megatron_bridge.py")]
)
def test_synthetic_data_reach_the_driver(tmp_path: Path, framework: str, file: str) -> None:
    files = render(spec(tmp_path, "llama", framework, *SPREAD, "data.kind=synthetic"))
    assert re.search(rf'{file} "\$BENCHRUN_DATA"/vocab[^/]*/tokens$', files["job.sh"], re.MULTILINE)
    assert "sys.argv[1]" in files[file]


def test_synthetic_data_reach_nemo1(tmp_path: Path) -> None:
    job = render(spec(tmp_path, "llama", "nemo1", *SPREAD, "data.kind=synthetic"))["job.sh"]
    assert "'model.data.data_prefix=[1.0,'\"$BENCHRUN_DATA\"/vocab" in job


@pytest.mark.parametrize("runtime", ["pyxis", "podman"])
def test_an_image_keeps_the_path_by_which_it_finds_its_framework(tmp_path: Path, runtime: str) -> None:
    """The submitting shell's PYTHONPATH does not take its place."""
    options = (f"cluster.container.runtime={runtime}", "cluster.container.options=[]")
    job = render(spec(tmp_path, "llama", "nemo2", *SPREAD, *options))["job.sh"]
    assert "WORLD_SIZE" in job
    assert "PYTHONPATH" not in job


def test_a_hostile_name_stays_a_value(tmp_path: Path) -> None:
    """Nothing from a recipe is code: a name of a layer with quotes in it comes out as a string."""
    nasty = """x"); import os  # """
    run = spec(tmp_path, "llama", "nemo2", *SPREAD, f"training.lora.target_modules=['{nasty}']", task="lora")
    text = render(run)["train_nemo2.py"]
    constants = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    assert nasty in constants
    assert "import os" not in {line.strip() for line in text.splitlines()}


ON_MEGATRON_LM = [
    name for name in catalogue.trainings() if "megatron-lm" in catalogue.recipe_file(name).recipe.frameworks
]


@pytest.mark.parametrize("name", ON_MEGATRON_LM)
def test_megatron_lm_has_every_flag_of_every_point(name: str) -> None:
    file, known = catalogue.recipe_file(name), set(facts("megatron-lm_core_v0.13.0"))
    points = [point for point in catalogue.points(file.recipe) if point.framework == "megatron-lm"]
    for text in {render(resolve_point(file, point))["job.sh"] for point in points}:
        used = {word for word in command(text) if re.fullmatch("--[a-z0-9-]+", word)}
        assert "--num-layers" in used
        assert used <= known, used - known
