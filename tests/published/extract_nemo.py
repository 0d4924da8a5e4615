"""Writes nemo.csv: ``python tests/published/extract_nemo.py NEMO BENCHMARKING``, clones of NeMo and dgxc-benchmarking.

It has the tables of NeMo 2, with what its helpers make of them, and the options with which dgxc-benchmarking's own
scripts start it, by the names of Megatron-Bridge. Run by hand.
"""

import csv
import functools
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from extract import git, write

NEMO = ("6489229cbb", "ca0af5eaa6")
"""Commits of NeMo 2 with a table for each GPU; the helpers of the first are read."""
OF_NEMO = {
    **{"gpt3-175b": "gpt3-175b", "grok1-314b": "grok1-314b", "llama3-8b": "llama3-8b", "llama3-70b": "llama3-70b"},
    **{"llama31-405b": "llama3.1-405b", "mixtral-8x7b": "mixtral-8x7b", "mixtral-8x22b": "mixtral-8x22b"},
    **{"nemotron3-8b": "nemotron3-8b", "nemotron3-22b": "nemotron3-22b", "nemotron4-15b": "nemotron4-15b"},
    "nemotron4-340b": "nemotron4-340b",
}
SCRIPTS = {
    **{"grok1": ("grok1-314b", "314b"), "nemotron4-15b": ("nemotron4-15b", "15b")},
    **{"nemotron4-340b": ("nemotron4-340b", "340b"), "llama3.1": ("llama3.1-405b", "405b")},
    **{"nemotron": ("nemotron4-340b", "340b"), "nemotron 15b": ("nemotron4-15b", "15b")},
}
"""Folder of dgxc-benchmarking, and another size of it -> recipe, size."""
OPTIONS = {
    **{"-tp": "model.tensor_model_parallel_size", "-pp": "model.pipeline_model_parallel_size"},
    **{"-cp": "model.context_parallel_size", "-vp": "model.virtual_pipeline_model_parallel_size"},
    **{"-ep": "model.expert_model_parallel_size", "-et": "model.expert_tensor_parallel_size"},
    **{"-mb": "train.micro_batch_size", "-gb": "train.global_batch_size", "--cuda_graphs": "graphs", "-fsdp": "fsdp"},
    **{"-fr": "fp8_recipe", "-ol": "offloaded"},
}
COLUMNS = {
    **{f"{each}_size": f"model.{name}_parallel_size" for each, name in (("tp", "tensor_model"), ("cp", "context"))},
    **{f"{each}_size": f"model.{name}_model_parallel_size" for each, name in (("pp", "pipeline"), ("ep", "expert"))},
    **{"vp_size": "model.virtual_pipeline_model_parallel_size", "etp_size": "model.expert_tensor_parallel_size"},
    **{"mbs": "train.micro_batch_size", "gbs": "train.global_batch_size", "seq_len": "model.seq_length"},
    **{"cuda_graphs": "graphs", "use_mcore_fsdp": "fsdp", "activation_offload_layers": "offloaded"},
    **{"recompute_layers": "model.recompute_num_layers", "use_user_buffer_registration": "ddp.nccl_ub"},
}


def helped(row: dict[str, str], helpers: bool) -> dict[str, str]:
    """A row with what NeMo's helpers set: graphs only without FSDP, an optimizer that knows its precision for BF16."""
    fsdp = row.pop("fsdp", "0") == "1"
    graphs = row.pop("graphs", "0") in ("1", "true") and not fsdp
    tensor = row["model.tensor_model_parallel_size"] != "1"
    if row.get("fp8_recipe"):
        row["mixed_precision.fp8_recipe"] = row["fp8_recipe"]
    row |= {"model.cuda_graph_impl": "local" if graphs else "none", "model.use_te_rng_tracker": str(graphs)}
    row |= {"ddp.use_megatron_fsdp": str(fsdp), "model.sequence_parallel": str(tensor)}
    offloaded = row.pop("offloaded", "0")
    row |= {"model.cpu_offloading": str(offloaded != "0"), "model.cpu_offloading_num_layers": offloaded}
    layers = row.pop("model.recompute_num_layers", "0")
    row["model.recompute_granularity"] = "None"
    if layers != "0":
        row |= {"model.recompute_granularity": "full", "model.recompute_method": "block"}
        row["model.recompute_num_layers"] = layers
    if helpers:
        row["optimizer.use_precision_aware_optimizer"] = str(row["precision"] == "bf16")
    return row


def of_nemo(clone: str) -> Iterator[dict[str, str]]:
    """The tables of NeMo 2."""
    for commit in NEMO:
        for gpu in ("h100", "b200", "gb200"):
            path = f"scripts/performance/recommended_model_configs/model_configs_{gpu}.csv"
            for line in csv.DictReader(git(clone, "show", f"{commit}:{path}").splitlines()):
                recipe = OF_NEMO.get(f"{line['model']}-{line['size']}")
                if recipe is None:
                    continue
                task = {"pre_train": "pretrain"}.get(line["task"], line["task"])
                row = {"commit": commit, "path": path, "recipe": recipe, "task": task, "gpu": gpu.upper()}
                row |= {"precision": line["dtype"], "num_gpus": line["num_gpus"].removesuffix(".0")}
                for name, key in COLUMNS.items():
                    if line.get(name):
                        row[key] = line[name].removesuffix(".0")
                row = helped(row, commit == NEMO[0])
                if commit == NEMO[0]:
                    row |= variables(row)
                if commit == NEMO[0] and task == "pretrain":
                    row |= overlaps(clone, f"{line['model']}_{line['size']}", row)
                yield row


def variables(row: dict[str, str]) -> dict[str, str]:
    """The variables of the ranks by executors.py and by PerfEnvPlugin of the first commit."""
    gpu, buffers = row["gpu"], row.get("ddp.nccl_ub") == "1"
    found = {"TORCH_NCCL_AVOID_RECORD_STREAMS": "1", "NVTE_FUSED_ATTN": "1", "TORCH_NCCL_HIGH_PRIORITY": "1"}
    found |= {f"NVTE_{each}_LAYERNORM_SM_MARGIN": "16" for each in ("FWD", "BWD")}
    found["NCCL_NVLS_ENABLE"] = str(int(buffers))
    if gpu != "B200" and not buffers:
        found["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if buffers:
        found["NCCL_CTA_POLICY"] = "1"
    if gpu == "GB200":
        found |= {"NCCL_NET_GDR_LEVEL": "PHB", "NCCL_NET_GDR_C2C": "1"}
    if {row["model.tensor_model_parallel_size"], row["model.context_parallel_size"]} != {"1"}:
        found["CUDA_DEVICE_MAX_CONNECTIONS"] = "1" if gpu == "H100" else "32"
    if row["model.pipeline_model_parallel_size"] != "1":
        found["NCCL_P2P_NET_CHUNKSIZE"] = "2097152"
    return {f"env.{name}": value for name, value in found.items()}


def overlaps(clone: str, model: str, row: dict[str, str]) -> dict[str, str]:
    """What a model's own recipe overlaps at its fastest, and the helpers' rule for pipelines."""
    text = git(clone, "show", f"{NEMO[0]}:nemo/collections/llm/recipes/{model}.py")
    fast = text.partition("def pretrain_performance_optimizations")[2].partition("\ndef ")[0]
    found = {}
    for name in ("tp_comm_overlap", "defer_embedding_wgrad_compute", "wgrad_deferral_limit"):
        if value := re.search(rf"\b{name}=(\w+)", fast):
            found[f"comm_overlap.{name}"] = value[1]
    degrees = [int(row[f"model.{name}_parallel_size"]) for name in ("tensor_model", "pipeline_model", "context")]
    stages, chunks = degrees[1], int(row["model.virtual_pipeline_model_parallel_size"])
    if row["ddp.use_megatron_fsdp"] == "True":
        found["comm_overlap.defer_embedding_wgrad_compute"] = "False"
    whole = stages > 1 and chunks > 1 and int(row["num_gpus"]) > math.prod(degrees)
    return found | {"comm_overlap.overlap_param_gather_with_optimizer_step": str(whole)}


def of_scripts(clone: str) -> Iterator[dict[str, str]]:
    """The options with which dgxc-benchmarking's scripts start NeMo 2 on 256 GPUs, and where they differ on others."""
    seen: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for tag in git(clone, "tag").split():
        for path in git(clone, "ls-tree", "-r", "--name-only", tag).split():
            folder = path.split("/")[0]
            if not path.endswith("launch.sh") or folder not in SCRIPTS:
                continue
            script = git(clone, "show", f"{tag}:{path}")
            for recipe, size in {SCRIPTS[folder], SCRIPTS.get(f"{folder} 15b", SCRIPTS[folder])}:
                for gpu, precision in itertools.product(("h100", "b200", "gb200", "gb300"), ("bf16", "fp8")):
                    for gpus in (256, *(2**power for power in range(4, 12))):
                        row = started(script, gpu, precision, gpus, size)
                        if row is None:
                            continue
                        row |= {"recipe": recipe, "gpu": gpu.upper(), "precision": precision, "task": "pretrain"}
                        row |= {"path": path, "num_gpus": str(gpus)}
                        gbs = int(row["train.global_batch_size"])
                        known = row | {"num_gpus": "", "train.global_batch_size": f"{gbs / gpus}"}
                        first = seen.setdefault(tuple(sorted(known.items())), row | {"release": tag})
                        first["commit"] = git(clone, "rev-parse", "--short=10", f"{tag}^{{commit}}").strip()
                        first["release"] = f"{first['release'].split()[0]} to {tag}"
    yield from seen.values()


@functools.cache
def started(script: str, gpu: str, precision: str, gpus: int, size: str) -> dict[str, str] | None:
    """The options that a script gives to NeMo's, which is a stand-in here; nothing else can be started."""
    asked = {"GPU_TYPE": gpu, "DTYPE": precision, "JOB_TOTAL_GPUS": str(gpus), "MODEL_SIZE": size, "HF_TOKEN": "-"}
    asked |= {"LLMB_INSTALL": "-", "SBATCH_ACCOUNT": "-", "SBATCH_PARTITION": "-", "PATH": "/nowhere"}
    for name in ("python", "python3"):
        asked[f"BASH_FUNC_{name}%%"] = '() { echo "NEMO $*"; }'
    asked |= {f"BASH_FUNC_{name}%%": "() { :; }" for name in ("pushd", "popd")}
    found = subprocess.run(["/bin/bash", "-c", script], env=asked, capture_output=True, text=True)
    words = next(
        (line.split() for line in found.stdout.splitlines() if line.startswith("NEMO -m scripts.performance.llm")), []
    )
    if not {"-tp", "-gb", precision} <= {*words}:
        return None
    row = {OPTIONS[word]: value for word, value in itertools.pairwise(words) if word in OPTIONS}
    kind = {"cs": "tensorwise"}.get(row.get("fp8_recipe", ""), "delayed")
    row |= {"precision": precision, "fp8_recipe": kind if precision == "fp8" else ""}
    return helped(row, helpers=False)


if __name__ == "__main__":
    write("nemo.csv", [*of_nemo(sys.argv[1]), *of_scripts(sys.argv[2])])
