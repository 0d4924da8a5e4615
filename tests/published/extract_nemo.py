"""Writes nemo.csv: ``python tests/published/extract_nemo.py NEMO CORE BENCHMARKING``, clones of NeMo, Megatron-LM and
dgxc-benchmarking.

NeMo 2's own scripts run here on a CPU, in a process for each commit: with each line of their tables, and with the words
with which dgxc-benchmarking starts them. What they hand to NeMo-Run is taken, and put through NeMo's own classes as at
the start of a training; NeMo-Run, Lightning and kernels are stand-ins. The names are those of Megatron-Bridge where it
has one. Run by hand, with torch and pandas.
"""

import csv
import dataclasses
import fnmatch
import functools
import importlib.util
import inspect
import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parent))

from extract import FACTS, git, text, write

TABLES = {"6489229cbb": "ac198fc0d6", "ca0af5eaa6": "64cb6bd7a1"}
"""Commits of NeMo 2 with a table for each GPU, and the Megatron-LM of their releases, 2.4 and 2.3."""
RECIPES = {
    **{"gpt3-175b": "gpt3-175b", "llama3-8b": "llama3-8b", "llama3-70b": "llama3-70b"},
    **{"llama31-405b": "llama3.1-405b", "mixtral-8x7b": "mixtral-8x7b", "mixtral-8x22b": "mixtral-8x22b"},
    **{"nemotron3-8b": "nemotron3-8b", "nemotron3-22b": "nemotron3-22b", "nemotron4-15b": "nemotron4-15b"},
    "nemotron4-340b": "nemotron4-340b",
}
SCRIPTS = {
    "grok1": {"314b": "grok1-314b"},
    "nemotron4-15b": {"15b": "nemotron4-15b"},
    "nemotron4-340b": {"340b": "nemotron4-340b"},
    "nemotron": {"340b": "nemotron4-340b", "15b": "nemotron4-15b"},
    "llama3.1": {size: f"llama3.1-{size}" for size in ("405b", "70b", "8b")},
}
"""Folder of dgxc-benchmarking -> size -> recipe."""
PATCHED = "25.04"
"""The release that patches NeMo, and brings a script of its own."""
STARTED = {
    **{(PATCHED, folder): ("d2b21556f2", "ee6737da82") for folder in ("llama3.1", "nemotron")},
    **{("25.05", folder): ("6f2c6fdaff", "64cb6bd7a1") for folder in ("llama3.1", "grok1")},
    ("25.05", "nemotron"): ("b4148d2169", "64cb6bd7a1"),
    **{("25.07", folder): ("00b778eb5e", "64cb6bd7a1") for folder in ("llama3.1", "grok1", "nemotron")},
    ("25.08", "grok1"): ("6f2c6fdaff", "64cb6bd7a1"),
    ("25.08", "llama3.1"): ("830b06a720", "ac198fc0d6"),
    ("25.08", "nemotron"): ("1f422a19d9", "ac198fc0d6"),
}
"""Release and folder -> the NeMo and the Megatron-LM that its setup names."""
NEWEST, OLDER = ("e990789ed7", "20d73fe76e"), ("763ffa8b00", "ac198fc0d6")
"""From 25.10 on the scripts name commits of NeMo that its clone has not: the newest of the branch llmb-nemo-r2.5.0, and
of llmb-nemo-r2.4.0, which they take for Nemotron-4 340B on B200 and GB200, stand for them.
"""
OPTIONS = FACTS["nemo"]["arguments"]
GPUS = ("h100", "b200", "gb200", "gb300")
FP8 = {"ds": "delayed", "cs": "tensorwise"}
HOME = "/nowhere"
Row = dict[str, str]
Job = tuple[Row, list[str]]
"""Facts known of a configuration before, and the words of the command."""


def of_tables(clone: str, commit: str) -> Iterator[Job]:
    """Each line of the tables; FP8 with each recipe that the command takes."""
    for gpu in ("h100", "b200", "gb200"):
        path = f"scripts/performance/recommended_model_configs/model_configs_{gpu}.csv"
        for line in csv.DictReader(git(clone, "show", f"{commit}:{path}").splitlines()):
            recipe, task, precision = RECIPES.get(f"{line['model']}-{line['size']}"), line["task"], line["dtype"]
            if recipe is None:
                continue
            kind = "pretrain" if task == "pre_train" else "finetune"
            num_gpus = line["num_gpus"].removesuffix(".0")
            words = [f"scripts.performance.llm.{kind}_{line['model']}_{line['size']}", "-a", "-", "-p", "-", "-l", HOME]
            words += ["-g", gpu, "-c", precision, "-ng", num_gpus, "-gn", "4" if gpu == "gb200" else "8"]
            if kind == "finetune":
                words += ["-f", task, "-hf", "-"]
            row = {"commit": commit, "path": path, "recipe": recipe, "task": "pretrain" if kind == "pretrain" else task}
            row |= {"gpu": gpu.upper(), "precision": precision, "num_gpus": num_gpus, "release": ""}
            for fp8 in FP8 if precision == "fp8" else ("",):
                yield row | {"fp8_recipe": FP8.get(fp8, "")}, words + (["-fr", fp8] if fp8 else [])


def of_scripts(clone: str) -> Iterator[tuple[tuple[str, str], Job]]:
    """The words with which dgxc-benchmarking's scripts start NeMo 2, and which NeMo that is."""
    for tag in git(clone, "tag").split():
        for path in git(clone, "ls-tree", "-r", "--name-only", tag).split():
            folder, _, name = path.partition("/")
            script = git(clone, "show", f"{tag}:{path}") if folder in SCRIPTS and name == "launch.sh" else ""
            if "scripts.performance.llm" not in script:
                continue
            for size, gpu, precision in itertools.product(SCRIPTS[folder], GPUS, ("bf16", "fp8")):
                for gpus in (256, *(2**power for power in range(3, 12))):
                    words = started(script, gpu, precision, gpus, size)
                    if not words or (tag[1:6] == PATCHED and gpu != "h100"):
                        continue
                    row = {"recipe": SCRIPTS[folder][size], "gpu": gpu.upper(), "precision": precision}
                    row |= {"task": "pretrain", "path": path, "release": tag, "num_gpus": str(gpus)}
                    fp8 = words[words.index("-fr") + 1] if "-fr" in words else "ds"
                    row["fp8_recipe"] = FP8[fp8] if precision == "fp8" else ""
                    row["image"] = next(word for word in words if word.endswith(".sqsh")).split("+")[-1][:-5]
                    row["commit"] = git(clone, "rev-parse", "--short=10", f"{tag}^{{commit}}").strip()
                    older = folder == "nemotron4-340b" and gpu in ("b200", "gb200")
                    yield STARTED.get((tag[1:6], folder), OLDER if older else NEWEST), (row, words)


@functools.cache
def started(script: str, gpu: str, precision: str, gpus: int, size: str) -> list[str]:
    """The words that a script gives to Python, which is a stand-in here; nothing else can be started."""
    asked = {"GPU_TYPE": gpu, "DTYPE": precision, "JOB_TOTAL_GPUS": str(gpus), "MODEL_SIZE": size, "HF_TOKEN": "-"}
    asked |= {"LLMB_INSTALL": HOME, "SBATCH_ACCOUNT": "-", "SBATCH_PARTITION": "-", "PATH": HOME}
    if "STAGE_PATH is deprecated" not in script:
        asked["STAGE_PATH"] = HOME
    for name in ("python", "python3"):
        asked[f"BASH_FUNC_{name}%%"] = '() { echo "NEMO $*"; }'
    asked |= {f"BASH_FUNC_{name}%%": "() { :; }" for name in ("pushd", "popd")}
    found = subprocess.run(["/bin/bash", "-c", script], env=asked, capture_output=True, text=True)
    words = (line.split()[2:] for line in found.stdout.splitlines() if line.startswith("NEMO -m scripts"))
    return next(words, [])


def executed(clones: tuple[str, str], commits: tuple[str, str], jobs: list[Job], patch: str = "") -> Iterator[Row]:
    """The configurations of ``jobs``, by the NeMo and Megatron-LM of ``commits``."""
    with tempfile.TemporaryDirectory() as folder:
        for clone, commit, parts in zip(clones, commits, (("nemo", "scripts/performance"), ("megatron",)), strict=True):
            unpack(clone, commit, parts, folder)
        if patch:
            show = functools.partial(git, patch, "show")
            change = show(f"v{PATCHED}:nemotron/gsw_nemo.patch")
            subprocess.run(["patch", "-s", "-p1", "-d", folder], check=True, input=change, text=True)
            for name in ("pretrain_llama31.py", "llama31_utils.py"):
                (Path(folder) / "scripts/performance/llm" / name).write_text(show(f"v{PATCHED}:llama3.1/{name}"))
        asked = json.dumps([[{"gb300": "gb200"}.get(word, word) for word in words] for _, words in jobs])
        command = [sys.executable, "-W", "ignore", __file__, "--execute", folder]
        result = subprocess.run(command, check=True, capture_output=True, text=True, input=asked)
    for (row, words), found in zip(jobs, json.loads(result.stdout.splitlines()[-1]), strict=True):
        if "error" in found:
            raise RuntimeError(f"{commits} {words}: {found['error']}")
        yield row | {"variant": f"NeMo {commits[0]}"} | reduced(found, row)


def unpack(clone: str, commit: str, parts: tuple[str, ...], folder: str) -> None:
    """These folders of a commit. Not by ``git archive``, which stops at the first file that a partial clone has not."""
    for line in git(clone, "ls-tree", "-r", commit, *parts).splitlines():
        meta, _, path = line.partition("\t")
        if path.endswith((".py", ".csv")):
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(git(clone, "cat-file", "blob", meta.split()[2]), encoding="utf-8")


def reduced(found: dict[str, Any], row: Row) -> Row:
    """The compared arguments. KeyError for any other that the publisher sets, and that has no reason."""
    kept: Row = {}
    reasons = " ".join(FACTS["nemo"]["not_compared"].values()).split()
    experts = found["model.num_moe_experts"] is not None
    for key, value in found.items():
        part, _, name = key.partition(".")
        if part in ("default", "data"):
            continue
        if part == "env" or name in OPTIONS.get(part, ()):
            if experts or not name.startswith("moe_"):
                kept[key] = text(value)
        elif value != found.get(f"default.{key}", value) and not any(fnmatch.fnmatch(key, each) for each in reasons):
            raise KeyError(f"{key} = {value!r}: compare it, or give the reason in dimensions.json")
    kept = {key: value for key, value in kept.items() if key not in FACTS["left_out"]}
    if kept["model.recompute_granularity"] != "selective":
        kept.pop("model.recompute_modules", None)
    if row["precision"] == "fp8":
        kept["mixed_precision.fp8_recipe"] = row["fp8_recipe"]
    if row["gpu"] == "GB300":  # which that commit does not know: as GB200, of which only the options are certain
        kept = {key: value for key, value in kept.items() if not key.startswith("env.")}
    return kept


def merged(rows: list[Row]) -> list[Row]:
    """One row for configurations that differ in the number of GPUs alone, with the batch that grows with it, over
    releases, whose images the variant names. Without those of one data-parallel rank, which overlap nothing.
    """
    seen: dict[tuple[tuple[str, str], ...], Row] = {}
    for row in rows:
        degrees = [int(row[f"model.{name}_parallel_size"]) for name in ("tensor_model", "pipeline_model", "context")]
        if int(row["num_gpus"]) < 2 * math.prod(degrees):
            continue
        known = {key: value for key, value in row.items() if key not in ("num_gpus", "release", "commit", "variant")}
        image = known.pop("image")
        known["train.global_batch_size"] = f"{int(row['train.global_batch_size']) / int(row['num_gpus'])}"
        first = seen.setdefault(tuple(sorted(known.items())), row)
        images = dict.fromkeys([*first["image"].split(), image])
        tags = (first["release"].split()[0], row["release"])
        first |= {"commit": row["commit"], "image": " ".join(images), "release": " to ".join(tags)}
        first["variant"] = f"{row['variant'].partition(',')[0]}, image {first['image']}"
    return [{key: value for key, value in row.items() if key != "image"} for row in seen.values()]


def main(nemo: str, core: str, benchmarking: str) -> None:
    rows = []
    for commit, of_core in TABLES.items():
        rows += executed((nemo, core), (commit, of_core), [*of_tables(nemo, commit)])
    jobs: dict[tuple[str, str], list[Job]] = {}
    for commits, job in of_scripts(benchmarking):
        jobs.setdefault(commits, []).append(job)
    found = []
    for commits, asked in jobs.items():
        patched = benchmarking if commits == STARTED[PATCHED, "nemotron"] else ""
        found += executed((nemo, core), commits, asked, patched)
    found.sort(key=lambda row: [int(each) for each in re.findall(r"\d+", row["release"])])
    write("nemo.csv", [*rows, *merged(found)])


class Config:
    """NeMo-Run's: a class, and the arguments with which it will be called."""

    def __init__(self, target: Any, *_: Any, **values: Any) -> None:
        vars(self).update(target=target, values=values)

    def __class_getitem__(cls, key: Any) -> Any:
        return cls

    @property
    def __fn_or_cls__(self) -> Any:
        return self.target

    def __setattr__(self, name: str, value: Any) -> None:
        self.values[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.values:
            found = inspect.signature(self.target).parameters.get(name)
            if found is None or found.default is inspect.Parameter.empty:
                raise AttributeError(name)
            return found.default
        return self.values[name]


class Kept:
    """Keeps its arguments."""

    setup_lines = job_dir = ""

    def __init__(self, *_: Any, **values: Any) -> None:
        vars(self).update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Experiment:
    """NeMo-Run's, which starts nothing and keeps what was to be started, after its plugins."""

    taken: ClassVar[list[tuple[Any, Any]]] = []

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> "Experiment":
        return self

    def __exit__(self, *_: Any) -> None: ...

    def add(self, recipe: Any, executor: Any, name: str, plugins: Any = (), **_: Any) -> None:
        for plugin in plugins or ():
            plugin.setup(recipe, executor)
        self.taken.append((recipe, executor))

    def run(self, **_: Any) -> None: ...

    dryrun = run


def nothing(*given: Any, **_: Any) -> Any:
    """Decorates nothing, and logs nothing."""
    return given[0] if given and callable(given[0]) else nothing


def prepare(folder: str) -> None:
    """Python finds NeMo's sources, and stand-ins for what no configuration enters."""
    import torch

    sys.path[:0] = [folder, str(Path(__file__).parents[1] / "frameworks")]
    import standins

    torch.compile = nothing
    torch.cuda.get_device_capability = lambda *args: (9, 0)
    standins.stand_in_for(
        *("torchmetrics", "datasets", "einops", "sentencepiece", "transformers", "wget", "omegaconf", "libcst"),
        *("cloudpickle", "wrapt", "hydra", "lightning", "lightning_fabric", "lightning_utilities", "fiddle"),
        *("pytorch_lightning", "nvidia_resiliency_ext", "megatron.energon", "triton", "nemo_run", "nemo.core"),
        *("nemo.collections.nlp", "nemo.collections.common", "nemo.utils.exp_manager", "nemo.export"),
        *("nemo.collections.llm.modelopt", "nemo.collections.llm.api", "fused_weight_gradient_mlp_cuda"),
    )
    llm, lightning = "nemo.collections.llm", "nemo.lightning"
    standins.bare(
        folder,
        *("nemo", "nemo.utils", "nemo.collections", llm, f"{llm}.fn", f"{llm}.gpt", f"{llm}.gpt.model", lightning),
        *(f"{llm}.gpt.data", f"{llm}.peft", f"{llm}.t5", f"{llm}.recipes", f"{lightning}.io", f"{lightning}.pytorch"),
        *(f"{lightning}.pytorch.{name}" for name in ("plugins", "strategies", "callbacks", "optim")),
    )
    other = standins.Module.__getattr__

    def submodule(self: Any, name: str) -> Any:
        if self.__path__ and self.__name__.startswith("nemo.") and (Path(self.__path__[0]) / f"{name}.py").exists():
            return importlib.import_module(f"{self.__name__}.{name}")
        return other(self, name)

    standins.Module.__getattr__ = submodule
    standins.transformer_engine("2.5.0")
    importlib.import_module("triton").__version__ = "3.3.0"
    run, fiddle = importlib.import_module("nemo_run"), importlib.import_module("fiddle")
    run.Config, run.Partial, run.Experiment = Config, Config, Experiment
    run.Plugin, run.SlurmExecutor, run.LocalTunnel = Kept, Kept, Kept
    run.cli, run.autoconvert = types.SimpleNamespace(factory=nothing, entrypoint=nothing), nothing
    importlib.import_module("nemo_run.config").get_nemorun_home = lambda: next(
        value for word, value in itertools.pairwise(sys.argv) if word in ("-l", "--log_dir")
    )
    fiddle.cast = lambda kind, value: value
    classes = importlib.import_module("fiddle._src.experimental.dataclasses")
    classes.convert_dataclasses_to_configs = lambda value, **_: value
    logger = dict.fromkeys(("debug", "info", "warning", "error"), nothing)
    importlib.import_module("nemo.utils").logging = types.SimpleNamespace(**logger)
    for module, pattern in (
        (f"{lightning}.pytorch.strategies.megatron_strategy", "MegatronStrategy"),
        (f"{lightning}.pytorch.plugins.mixed_precision", "MegatronMixedPrecision"),
        (f"{llm}.peft.lora", "LoRA"),
        *((f"{llm}.gpt.model.{name}", "*Config*") for name in ("base", "llama", "mixtral", "nemotron")),
        (f"{llm}.gpt.model.base", "GPTModel"),
    ):
        for name in fnmatch.filter(vars(importlib.import_module(module)), pattern):
            for above in (lightning, llm, module.rpartition(".")[0]):
                setattr(sys.modules[above], name, getattr(sys.modules[module], name))
    sys.modules[lightning].Trainer = Kept
    sys.modules[f"{llm}.peft"].PEFT_STR2CLS = {"lora": sys.modules[f"{llm}.peft"].LoRA}


def answers(asked: list[list[str]]) -> Iterator[dict[str, Any]]:
    """Things that each command hands to NeMo-Run, as arguments by part."""
    for words in asked:
        Experiment.taken.clear()
        sys.argv = words
        package, _, _ = words[0].rpartition(".")
        path = importlib.util.find_spec(words[0]).origin
        names = {"__name__": "__main__", "__package__": package, "__file__": path}
        try:
            exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), names)
            yield arguments(*Experiment.taken[-1])
        except (Exception, SystemExit) as error:
            yield {"error": f"{type(error).__name__}: {error}"}


def built(value: Any) -> Any:
    if isinstance(value, Config):
        return value.target(**{name: built(each) for name, each in value.values.items()})
    return [built(each) for each in value] if isinstance(value, list) else value


def arguments(recipe: Any, executor: Any) -> dict[str, Any]:
    """The arguments after the parts have set each other's, as MegatronStrategy and its callbacks do."""
    from nemo.lightning.pytorch.plugins.mixed_precision import update_config_with_dtype_overrides as cast

    trainer = recipe.trainer
    strategy, precision = built(trainer.strategy), built(trainer.plugins).dtype_config
    degrees, model = strategy.parallelism, built(recipe.model.config)
    for field in dataclasses.fields(degrees):
        if hasattr(model, field.name):
            setattr(model, field.name, getattr(degrees, field.name))
    optimizer = cast(precision, built(recipe.optim.config))
    strategy.ddp_config = cast(precision, strategy.ddp_config)
    strategy.ddp_config.use_distributed_optimizer = optimizer.use_distributed_optimizer
    parts = {"model": cast(precision, model), "optimizer": optimizer, "ddp": strategy.ddp_config}
    parts["mixed_precision"] = precision
    found = called_back(trainer, strategy, parts)
    for part, values in parts.items():
        fields = dataclasses.fields(values)
        for field in fields:
            found[f"{part}.{field.name}"] = named(getattr(values, field.name))
        of_class = model_defaults() if part == "model" else {field.name: field.default for field in fields}
        found |= {f"default.{part}.{name}": named(value) for name, value in of_class.items()}
    found |= renamed(model, strategy, optimizer)
    found["model.seq_length"] = recipe.data.seq_length
    for name in ("micro_batch_size", "global_batch_size"):
        found[f"train.{name}"] = getattr(recipe.data, name)
    if "peft" in recipe.values:
        found |= {f"peft.{name}": named(value) for name, value in recipe.peft.values.items()}
        found["peft.alpha"] = float(found["peft.alpha"])
    ours = ("NEMO_HOME", "NEMORUN_HOME", "NEMO_LOG_MEMORY_USAGE", "HF_TOKEN")
    return found | {f"env.{name}": value for name, value in executor.env_vars.items() if name not in ours}


def called_back(trainer: Any, strategy: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Settings that the callbacks make."""
    from nemo.collections.llm.recipes.tp_overlap_configs import userbuffers
    from nemo.lightning.pytorch.callbacks import megatron_comm_overlap as overlap

    model, kinds = parts["model"], ("tensor_model", "pipeline_model", "context")
    app = Kept(**{f"{kind}_parallel_size": getattr(strategy.parallelism, f"{kind}_parallel_size") for kind in kinds})
    ranks = int(trainer.num_nodes) * int(trainer.devices)
    app.data_parallel_size = ranks // math.prod(vars(app).values())
    sys.modules["nemo.utils"].AppState = lambda: app
    found: dict[str, Any] = {"comm_overlap.tp_comm_overlap_cfg": None, "train.gc_interval_train": None}
    for callback in trainer.callbacks or []:
        name = callback.target.__name__
        if name == "GarbageCollectionCallback":
            found["train.gc_interval_train"] = callback.values.get("gc_interval_train", 100)
        if name == "MegatronTokenDropCallback":
            model.moe_expert_capacity_factor, model.moe_pad_expert_input_to_capacity = 1.0, True
        if callback.target is overlap.MegatronCommOverlapCallback:
            module = types.SimpleNamespace(config=model, optim=types.SimpleNamespace(config=parts["optimizer"]))
            callback = built(callback)
            callback.setup(types.SimpleNamespace(strategy=strategy, model=module), None, "fit")
            buffers = {id(each): key for key, each in vars(userbuffers).items() if key.startswith("userbuffers")}
            found["comm_overlap.tp_comm_overlap_cfg"] = buffers.get(id(callback.tp_comm_overlap_cfg))
    return found


def renamed(model: Any, strategy: Any, optimizer: Any) -> dict[str, Any]:
    """Arguments by the names of Megatron-Bridge, and overlaps as they came out."""
    ddp, whole, cache = strategy.ddp_config, "overlap_param_gather_with_optimizer_step", "keep_fp8_transpose_cache"
    found = {f"comm_overlap.{whole}": getattr(optimizer, whole)}
    for name in ("tp_comm_overlap", "overlap_p2p_comm", "batch_p2p_comm", "defer_embedding_wgrad_compute"):
        found[f"comm_overlap.{name}"] = named(getattr(model, name))
    found["comm_overlap.wgrad_deferral_limit"] = model.wgrad_deferral_limit
    for name in ("overlap_grad_reduce", "overlap_param_gather", "align_param_gather", "bucket_size"):
        found[f"comm_overlap.{name}"] = named(getattr(ddp, name))
    found["model.cuda_graph_impl"] = "local" if model.enable_cuda_graph else "none"
    found["model.use_te_rng_tracker"] = strategy.use_te_rng_tracker
    found["ddp.use_megatron_fsdp"] = getattr(ddp, "use_custom_fsdp", getattr(ddp, "use_megatron_fsdp", False))
    if model.num_moe_experts and model.expert_tensor_parallel_size is None:
        found["model.expert_tensor_parallel_size"] = model.tensor_model_parallel_size  # as parallel_state has it
    found["model.tp_comm_bulk_dgrad"] = None if model.tp_comm_bulk_dgrad else "off"
    found[f"ddp.{cache}"] = getattr(ddp, f"{cache}_when_using_custom_fsdp", getattr(ddp, cache, False))
    return found


def model_defaults() -> dict[str, Any]:
    """What megatron.core's own class has, and what NeMo's adds to it."""
    from megatron.core.transformer.transformer_config import TransformerConfig
    from nemo.collections.llm.gpt.model.base import GPTConfig

    classes = (GPTConfig, TransformerConfig)
    return {field.name: field.default for kind in classes for field in dataclasses.fields(kind)}


def named(value: Any) -> Any:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [named(each) for each in value]
    return getattr(value, "name", getattr(value, "__name__", str(value).removeprefix("torch.")))


if __name__ == "__main__":
    if sys.argv[1] == "--execute":
        prepare(sys.argv[2])
        found = [*answers(json.load(sys.stdin))]
        sys.stdout.write("\n" + json.dumps(found, default=str))
    else:
        main(*sys.argv[1:])
