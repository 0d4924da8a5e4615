"""Writes bridge.csv: ``python tests/published/extract.py BRIDGE CORE``, clones of Megatron-Bridge and of Megatron-LM.

Every release's own configuration functions run here on a CPU, in a process of their own. What is not installed, and a
configuration never asks (kernels, tokenizers, models of transformers), is a stand-in; dimensions of models, which
transformers would download, are those that the functions read, from ``dimensions.json``. Run by hand, with torch.
"""

import csv
import dataclasses
import enum
import fnmatch
import importlib
import importlib.abc
import importlib.machinery
import json
import logging
import re
import subprocess
import sys
import tempfile
import types
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RELEASES = ("v0.2.2", "v0.3.1", "v0.4.2", "v0.5.1", "v0.6.0")
FIRST = "v0.2.2"
"""The release whose functions take every option of its command line."""
FLAT = "v0.6.0"
"""The first release with a function for each configuration."""
HEAD = ("release", "commit", "path", "recipe", "task", "gpu", "precision", "fp8_recipe", "num_gpus", "variant")
GPUS = ("h100", "b200", "b300", "gb200", "gb300")
PRECISIONS = {
    "bf16": ("bf16", ""),
    "fp8cs": ("fp8", "tensorwise"),
    "fp8mx": ("fp8", "mxfp8"),
    "fp8sc": ("fp8", "blockwise"),
    "nvfp4": ("nvfp4", ""),
}
FACTS = json.loads((HERE / "dimensions.json").read_text(encoding="utf-8"))
"""Names of recipes, the arguments to extract, and dimensions of models by a part of their name."""
ABSENT = (
    *("transformers", "transformer_engine", "triton", "nemo_run", "flash_attn", "apex", "modelopt", "einops", "six"),
    *("mamba_ssm", "causal_conv1d", "fla", "omegaconf", "hydra", "wandb", "mlflow", "comet_ml", "torchvision", "timm"),
    *("nvidia_resiliency_ext", "megatron.energon", "megatron.bridge.diffusion", "diffusers", "emerging_optimizers"),
    *("torch.utils.tensorboard", "tensorboard", "qwen_vl_utils", "flashinfer", "nvdlfw_inspect", "librosa", "cutlass"),
    *("multistorageclient", "soundfile", "open_clip", "ftfy", "decord", "webdataset", "nltk", "sentencepiece", "nvtx"),
    *(
        "tiktoken",
        "mistral_common",
        "pynvml",
        "tensorstore",
        "zarr",
        "deep_ep",
        "hybrid_ep",
        "torchao",
        "onnx",
        "quack",
    ),
    *(
        "fast_hadamard_transform",
        "fused_weight_gradient_mlp_cuda",
        "imageio",
        "cv2",
        "av",
        "vllm",
        "nemo",
        "cuda",
        "flask_restful",
        "bitstring",
    ),
)


class Anything:
    """Answers every question with itself; as a decorator it changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Anything()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, key: Any) -> Any:
        return Anything()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class Empty(type):
    """A class of which any attribute can be asked."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Module(types.ModuleType):
    """A module that is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value: Any = Anything()
        if name[0].isupper():
            value = Empty(name, (), {"__init__": lambda self, *args, **kwargs: None})
        setattr(self, name, value)
        return value


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the absent modules."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if any(name == each or name.startswith(f"{each}.") for each in ABSENT):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []
        module.__version__ = "5.9.0"  # type: ignore[attr-defined]


class AutoBridge:
    """Megatron-Bridge's own, with dimensions that are not downloaded."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def from_hf_pretrained(cls, name: str, *args: Any, **kwargs: Any) -> "AutoBridge":
        return cls(str(name))

    def to_megatron_provider(self, *args: Any, **kwargs: Any) -> Any:
        models = FACTS["models"]
        found = next(models[key] for key in sorted(models, key=len, reverse=True) if key in self.name)
        module = importlib.import_module(f"megatron.bridge.models.{found['module']}")
        values = FACTS["usual"] | found["config"]
        config = types.SimpleNamespace(**values)
        own = {"config": config, "model_name_or_path": self.name, "generation_config": None}
        pretrained = types.SimpleNamespace(**values | own)  # gpt-oss asked it for the dimensions in v0.2.2
        return getattr(module, found["class"])().provider_bridge(pretrained)


class Models(types.ModuleType):
    """megatron.bridge.models without the import of every model."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in FACTS["providers"]:
            try:
                return getattr(importlib.import_module(f"megatron.bridge.models.{FACTS['providers'][name]}"), name)
            except ImportError:
                pass
        return Empty(name, (), {})


def prepare(folder: Path) -> None:
    """Python finds the release's sources, and a GPU to ask for its generation."""
    import torch

    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    typing.override = lambda function: function  # type: ignore[attr-defined]  # new in Python 3.12
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder / "scripts/performance"))
    sys.meta_path.insert(0, StandIns())
    source = folder / "src/megatron/bridge"
    for name, paths in (
        ("megatron", [folder / "megatron", source.parent]),
        ("megatron.bridge", [source]),
        *((f"megatron.bridge.{each}", [source / each]) for each in ("models", "recipes", "perf_recipes")),
    ):
        module = types.ModuleType(name)
        module.__path__ = [str(path) for path in paths]
        sys.modules[name] = module
        if "." in name:
            above, own = name.rsplit(".", 1)
            setattr(sys.modules[above], own, module)
    sys.modules["megatron.bridge.models"].__class__ = Models
    sys.modules["megatron.bridge"].AutoBridge = AutoBridge  # type: ignore[attr-defined]
    automatic = types.ModuleType("megatron.bridge.models.conversion.auto_bridge")
    automatic.AutoBridge = AutoBridge  # type: ignore[attr-defined]
    sys.modules[automatic.__name__] = automatic
    torch.cuda.is_available = lambda: False
    torch.cuda.get_device_name = lambda *args: "NVIDIA"


def generation(gpu: str) -> None:
    """torch answers as this GPU would."""
    import torch

    major = 9 if gpu == "h100" else 10
    properties = types.SimpleNamespace(major=major, minor=0, name=f"NVIDIA {gpu.upper()}", total_memory=80 << 30)
    torch.cuda.get_device_capability = lambda *args: (major, 0)
    torch.cuda.get_device_properties = lambda *args: properties


def text(value: Any) -> str:
    """A value as it stands in the table: lists are words, stages are letters."""
    letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    if isinstance(value, list | tuple) and any(isinstance(each, list) for each in value):
        return "|".join("".join(letters[layer] for layer in stage) for stage in value)
    if isinstance(value, list | tuple):
        return " ".join(text(each) for each in value)
    if isinstance(value, enum.Enum):
        return value.name
    if hasattr(value, "matchers"):
        return " ".join(f"{each.pattern} {each.config_key}" for each in value.matchers)
    if value is None or isinstance(value, bool | int | float | str):
        return str(value)
    if type(value).__name__ == "dtype":
        return str(value).removeprefix("torch.")
    return type(value).__name__


def arguments(config: Any, num_gpus: int) -> dict[str, str]:
    """The arguments after the parts of a configuration have set each other's, as at the start of a training."""
    if isinstance(config.mixed_precision, str):
        module = importlib.import_module("megatron.bridge.training.mixed_precision")
        config.mixed_precision = module.get_mixed_precision_config(config.mixed_precision)
    model = config.model
    ranks = model.tensor_model_parallel_size * model.pipeline_model_parallel_size * model.context_parallel_size
    for part in filter(None, (config.mixed_precision, config.comm_overlap)):  # in the order of the training
        part.data_parallel_size = max(num_gpus // ranks, 1)
        getattr(part, "finalize", lambda: None)()
        part.setup(model, config.optimizer, config.ddp)
    found = {}
    for part_name, names in FACTS["arguments"].items():
        part = getattr(config, part_name, None)
        for name in names:
            if hasattr(part, name):
                found[f"{part_name}.{name}"] = text(getattr(part, name))
    found |= departures(config) | {"model.vocab_size": text(vocabulary(config))}
    found["model.use_te_rng_tracker"] = text(model.use_te_rng_tracker or config.rng.te_rng_tracker)  # one sets both
    if found.get("optimizer.muon_use_nesterov", "None") != "None":  # named otherwise from v0.5.1 on
        found["optimizer.muon_nesterov"] = found.pop("optimizer.muon_use_nesterov")
    if found["model.cuda_graph_scope"] == "None":  # named otherwise from v0.5.1 on
        found["model.cuda_graph_scope"] = text(getattr(model, "cuda_graph_modules", None))
    return found


def vocabulary(config: Any) -> int | None:
    """The entries before padding, as the start of a training sets them; None if a tokenizer's file has them."""
    own = getattr(config.tokenizer, "use_tokenizer_vocab_size", False)
    return config.tokenizer.vocab_size if own or config.model.vocab_size is None else config.model.vocab_size


def departures(config: Any) -> dict[str, str]:
    """The arguments of ``departures``: None where the publisher leaves what the class has. KeyError for any other that
    the publisher sets, and that has no reason in ``not_compared``.
    """
    found = {}
    reasons = " ".join(FACTS["not_compared"].values()).split()
    for part_name, part in vars(config).items():
        names = FACTS["departures"].get(part_name, [])
        known = FACTS["arguments"].get(part_name, [])
        for field in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
            value, key = getattr(part, field.name, None), f"{part_name}.{field.name}"
            as_class = value == field.default or field.default is field.default_factory is dataclasses.MISSING
            if field.default_factory is not dataclasses.MISSING:
                as_class = not value or value == field.default_factory()
            if field.name in names:
                found[key] = "None" if as_class else buffers(value)
            elif not as_class and field.name not in known and not any(fnmatch.fnmatch(key, each) for each in reasons):
                raise KeyError(f"{key} = {value!r}: compare it, or give the reason in dimensions.json")
    return found


def buffers(value: Any) -> str:
    """With the name of what stands in the library of buffers."""
    library = importlib.import_module("megatron.bridge.training.comm_overlap")
    return next(
        (name for name, each in vars(library).items() if each is value and name.startswith("user")), text(value)
    )


def flat(folder: Path) -> Iterator[dict[str, str]]:
    """The configurations of a release that has a function for each."""
    name = re.compile(r"(.+?)_(pretrain|sft|lora|peft)_(\d+)gpu_([a-z0-9]+)_(bf16|fp8cs|fp8mx|fp8sc|nvfp4)(.*)_config")
    for path in sorted(folder.glob("src/megatron/bridge/perf_recipes/*/*/*.py")):
        relative = str(path.relative_to(folder))
        if relative.split("/")[-2] not in GPUS or relative.split("/")[-3] in ("qwen_vl", "wan"):
            continue
        module = importlib.import_module(relative.removeprefix("src/")[:-3].replace("/", "."))
        for function in sorted(vars(module)):
            match = name.fullmatch(function)
            if match is None or getattr(module, function).__module__ != module.__name__:
                continue
            model, task, num_gpus, gpu, precision, variant = match.groups()
            task = "lora" if task == "peft" else task
            if model in FACTS["recipes"]:
                generation(gpu)
                config = getattr(module, function)()
                map_ranks(folder, config, task)
                env = (config.env_vars or {}) | of_executor(folder, gpu)
                yield row(relative, model, task, num_gpus, gpu, precision, variant, config, env)


def by_table(folder: Path) -> Iterator[dict[str, str]]:
    """The configurations of a release that has a table of them, and a function for each model and GPU."""
    overrides, plugins = importlib.import_module("utils.overrides"), importlib.import_module("perf_plugins")
    registers = "nccl_ub" in (folder / "scripts/performance/run_script.py").read_text(encoding="utf-8")
    usual = importlib.import_module("utils.executors").PERF_ENV_VARS
    name = re.compile(r"(.+?)_(PRETRAIN|SFT|LORA)_CONFIG_([A-Z]+\d+)_(BF16|FP8_CS|FP8_MX|FP8_SC|NVFP4)(?:_(\w+))?")
    for path in sorted(folder.glob("scripts/performance/configs/*/*_workload_base_configs.py")):
        relative, family = str(path.relative_to(folder)), path.parent.name
        if family in ("qwen_vl", "wan"):
            continue
        stem = path.name.removesuffix("_workload_base_configs.py")
        table = importlib.import_module(f"configs.{family}.{stem}_workload_base_configs")
        for entry in sorted(vars(table)):
            match = name.fullmatch(entry)
            if match is None:
                continue
            model, task, gpu, precision, variant = ((each or "v1").lower() for each in match.groups())
            if model not in FACTS["recipes"] or gpu not in GPUS:
                continue
            generation(gpu)
            kind = "pretrain" if task == "pretrain" else "finetune"
            try:
                functions = importlib.import_module(f"configs.{family}.{stem}_llm_{kind}")
                function = getattr(functions, f"{model}_{task}_config_{gpu}")
                config = function(precision=precision, config_variant=variant)
            except (ImportError, AttributeError, ValueError):  # a line without a function: nothing was published
                continue
            base = getattr(table, entry)
            chosen = (family, model, gpu, base.num_gpus, precision, task, None, variant)
            config = overrides.set_post_overrides(config, *chosen) or config
            map_ranks(folder, config, task)
            config.train.manual_gc, config.train.manual_gc_interval = True, 100  # as the plugin's flags
            plugin = plugins.PerfEnvPlugin.__new__(plugins.PerfEnvPlugin)
            settings = FACTS["plugin"] | {"model_family_name": family, "model_recipe_name": model, "gpu": gpu}
            settings |= {"compute_dtype": precision, "train_task": task, "config_variant": variant}
            settings |= {"num_gpus": base.num_gpus, "gpu_sm100_or_newer": gpu != "h100"}
            for key, value in settings.items():
                setattr(plugin, key, value)
            ranks = types.SimpleNamespace(env_vars=usual | of_executor(folder, gpu), nodes=1, setup_lines="")
            plugin.setup(None, ranks)
            if registers and config.ddp.nccl_ub:  # as run_script.py
                ranks.env_vars |= {"NCCL_NVLS_ENABLE": "1", "NCCL_CTA_POLICY": "1"}
            short = precision.replace("_", "")
            yield row(relative, model, task, base.num_gpus, gpu, short, variant, config, ranks.env_vars)


def by_command(folder: Path) -> Iterator[dict[str, str]]:
    """The configurations of the first release, as its command makes them without options."""
    helpers, plugins = importlib.import_module("utils.helpers"), importlib.import_module("perf_plugins")
    usual = importlib.import_module("utils.executors").PERF_ENV_VARS
    name = re.compile(r"(.+?)_([A-Z]+\d+)_(?:(SFT|LORA)_)?(BF16|FP8_CS|FP8_MX|FP8_SC|NVFP4)_BASE_CONFIG")
    for path in sorted(folder.glob("scripts/performance/configs/*/workload_base_configs.py")):
        family, relative = path.parent.name, str(path.relative_to(folder))
        table = importlib.import_module(f"configs.{family}.workload_base_configs")
        for entry in sorted(vars(table)):
            match = name.fullmatch(entry)
            if match is None:
                continue
            model, gpu, task, precision = ((each or "pretrain").lower() for each in match.groups())
            if model not in FACTS["recipes"] or gpu not in GPUS:
                continue
            generation(gpu)
            base, size = getattr(table, entry), model.removeprefix(f"{family}_")
            asked = {"model_name": family, "model_size": size, "gpu": gpu, "compute_dtype": precision}
            asked |= {"domain": "llm", "task": task}
            try:
                config = helpers.get_model_recipe_with_user_overrides(**asked, num_gpus=base.num_gpus)
            except (ValueError, AttributeError):  # a line without a function: nothing was published
                continue
            config.train.manual_gc, config.train.manual_gc_interval = True, 100
            plugin = plugins.PerfEnvPlugin.__new__(plugins.PerfEnvPlugin)
            for key, value in (FACTS["plugin"] | asked | {"use_tokendrop": None}).items():
                setattr(plugin, key, value)
            ranks = types.SimpleNamespace(env_vars=usual | of_executor(folder, gpu), nodes=1, setup_lines="")
            plugin.setup(None, ranks)
            short = precision.replace("_", "")
            yield row(relative, model, task, base.num_gpus, gpu, short, "", config, ranks.env_vars)


def map_ranks(folder: Path, config: Any, task: str) -> None:
    """The order of ranks, as set_user_overrides of the releases that have it."""
    text = (folder / "scripts/performance/utils/overrides.py").read_text(encoding="utf-8")
    stages = config.model.pipeline_model_parallel_size
    if "use_tp_pp_dp_mapping" in text and task == "lora" and stages > 1 and not config.ddp.use_megatron_fsdp:
        config.dist.use_tp_pp_dp_mapping = True


def of_executor(folder: Path, gpu: str) -> dict[str, str]:
    """What the executor sets for one GPU alone."""
    text = (folder / "scripts/performance/utils/executors.py").read_text(encoding="utf-8")
    lines = re.search(rf'if gpu.lower\(\) == "{gpu}":\n((?: +\w+\["NCCL\w+"\] = .*\n)+)', text)
    return dict(re.findall(r'\["(\w+)"\] = "(\w+)"', lines[1])) if lines else {}


def row(path: str, model: str, task: str, num_gpus: Any, gpu: str, precision: str, variant: str, *rest: Any) -> Any:
    config, env = rest
    precision, recipe = PRECISIONS[precision]
    facts = {"path": path, "recipe": FACTS["recipes"][model], "task": task, "gpu": gpu.upper(), "precision": precision}
    facts |= {"fp8_recipe": recipe, "num_gpus": str(num_gpus), "variant": variant.strip("_")}
    return facts | arguments(config, int(num_gpus)) | {f"env.{name}": str(value) for name, value in env.items()}


def unpack(bridge: str, core: str, release: str, folder: str) -> str:
    """The sources of a release and of the Megatron-LM that it pins; its commit."""

    pinned = git(bridge, "ls-tree", release, "3rdparty/Megatron-LM").split()[2]
    for clone, commit, parts in ((bridge, release, ("src", "scripts/performance")), (core, pinned, ("megatron",))):
        archive = subprocess.run(["git", "-C", clone, "archive", commit, *parts], check=True, capture_output=True)
        subprocess.run(["tar", "x", "-C", folder], check=True, input=archive.stdout)
    return git(bridge, "rev-parse", "--short=10", f"{release}^{{commit}}").strip()


def git(clone: str, *words: str) -> str:
    return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True, text=True).stdout


def write(name: str, rows: list[dict[str, str]]) -> None:
    keys = sorted({key for each in rows for key in each} - {*HEAD, *FACTS["left_out"]})
    with (HERE / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*HEAD, *keys], lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def main(bridge: str, core: str) -> None:
    rows = []
    for release in RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            commit = unpack(bridge, core, release, folder)
            command = [sys.executable, __file__, "--release", release, folder]
            result = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(result.stdout.splitlines()[-1])
            rows += [{"release": release, "commit": commit} | each for each in found]
    write("bridge.csv", rows)


if __name__ == "__main__":
    if sys.argv[1] == "--release":
        prepare(Path(sys.argv[3]))
        read = {FIRST: by_command, FLAT: flat}.get(sys.argv[2], by_table)
        sys.stdout.write("\n" + json.dumps([*read(Path(sys.argv[3]))]))
    else:
        main(*sys.argv[1:])
