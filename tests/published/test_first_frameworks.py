"""Points of NeMo 1, MaxText and PaXML set what their publishers' scripts and configurations set.

``first_frameworks.csv`` has those values: a row for each key, with the points that have it and the file it was read in.
``python tests/published/test_first_frameworks.py FOLDER`` reads them anew in the clones below FOLDER.
"""

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from benchrun.frameworks.registry import framework
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.render import render
from benchrun.runspec.spec import TrainingSpec

LISTED = Path(__file__).with_name("first_frameworks.csv")
Values = dict[str, str]
DGXC, LAUNCHER = "NVIDIA/dgxc-benchmarking", "NVIDIA/NeMo-Framework-Launcher"
CONF = "launcher_scripts/conf/training"
TABLE = """
nemo1   grok1-314b     v25.02.02 grok1/configure.sh         grok1/grok1_314b.yaml
nemo1   llama3.1-8b    v25.02.02 llama3.1/configure.sh      llama3.1/llama3.1_8b.yaml
nemo1   llama3.1-70b   v25.02.02 llama3.1/configure.sh      llama3.1/llama3.1_70b.yaml
nemo1   llama3.1-405b  v25.02.02 llama3.1/configure.sh      llama3.1/llama3.1_405b.yaml
nemo1   nemotron4-15b  v25.02.02 nemotron/configure.sh      nemotron/nemotron4-15b-synth.yaml
nemo1   nemotron4-340b v25.02.02 nemotron/configure.sh      nemotron/nemotron4-340b-synth.yaml
nemo1   gpt3-175b      v25.02.02 nemo_megatron/configure.sh nemo_megatron/gpt3_175b_hydra.yaml
nemo1   gpt3-5b        24.09     EXAMPLES/gpt/h100/5b_{precision}_{nodes}node.sh  CONF/gpt3/5b.yaml
nemo1   gpt-20b        24.09     EXAMPLES/gpt/h100/20b_{precision}_{nodes}node.sh CONF/gpt3/20b.yaml
nemo1   llama2-7b      24.09     EXAMPLES/llama/h100/llama2_7b_{precision}.sh     CONF/llama/llama2_7b.yaml
nemo1   llama2-13b     24.09     EXAMPLES/llama/h100/llama2_13b_{precision}.sh    CONF/llama/llama2_13b.yaml
nemo1   llama2-70b     24.07     EXAMPLES/llama/h100/llama2_70b_{precision}.sh    CONF/llama/llama2_70b.yaml
nemo1   llama3-8b      24.09     EXAMPLES/llama/h100/llama3_8b_{precision}.sh     CONF/llama/llama3_8b.yaml
nemo1   llama3-70b     24.09     EXAMPLES/llama/h100/llama3_70b_{precision}.sh    CONF/llama/llama3_70b.yaml
maxtext llama2-70b     v25.01.1  maxtext/configure.sh       -
maxtext llama3-70b     v25.02.02 maxtext/configure.sh       -
paxml   gpt3-5b        v25.01.1  paxml/configure.sh         paxml/paxml_mod_configs.py
paxml   gpt3-175b      v25.01.1  paxml/configure.sh         paxml/paxml_mod_configs.py
"""
"""Framework, recipe, release, script and configuration; releases with a v are those of dgxc-benchmarking."""
ROWS = [
    line.replace("EXAMPLES", "examples/training").replace("CONF", CONF).split() for line in TABLE.split("\n") if line
]
NOT_SPEED = re.compile(
    r"(run|hydra|exp_manager|trainer\.(?!gradient|num_nodes|devices|accumulate)\w+|model\.(data|tokenizer|nsys_profile)|name|data_dir)\b"
    r"|model\.(optim\.(lr|betas|sched|dtype)|kv_channels|apex_|mcore_cust|make_vocab|use_emha|init_method_std|native_amp|hysteresis|seed|fp8_hybrid|scale_pos|fsdp_|masked_softmax)"
    r"|arg\.(model_name|base_output|tokenizer_path|profiler|skip_first|run_name|\w+_proj$|mlpwo)|fdl\.MAX_STEPS"
    r"|flag\.xla_(dump|gpu_pgle)|env\.(NCCL_DEBUG|NCCL_IB_SL|PROFILE|GSW|MAX_STEPS|\w+_ENABLED|COMMAND|CONFIG|INFO|PRE_CMD|"
    r"ENV_VARS|TF_CPP|JAX_|PYTHON|HUGGING|TORCHX|SLURM_|CUDA_VISIBLE|NEMO_LOG|DEFAULT_|XLA_FLAGS)"
)
"""Keys that change no speed, by docs/explanation/conventions.md."""
READ_WITH_FP8 = re.compile(r"env\.NVTE_(DP_AMAX|ASYNC_AMAX)|model\.fp8_\w+")
READ_IN_A_PIPELINE = re.compile(r"model\.(batch_p2p|overlap_p2p|wgrad_deferral|defer_embedding)\w+")
DECLARED = {
    ("*", "model.apply_query_key_layer_scaling"),
    ("*", "env.NVTE_APPLY_QK_LAYER_SCALING"),
    ("*", "model.max_position_embeddings"),
    ("*", "model.layernorm_zero_centered_gamma"),  # layernorm1p says it
    ("*", "model.optim.average_in_collective"),  # NeMo 24.12's default
    ("llama3.1-405b", "model.num_query_groups"),
    ("nemotron4-340b", "model.context_parallel_size"),
    ("gpt-20b", "model.global_batch_size"),
    ("gpt3-5b", "trainer.num_nodes"),  # the script of 8 nodes says 1
    ("llama2-13b", "trainer.num_nodes"),  # the page's number is of 2 nodes
    ("llama2-70b", "arg.remat_policy"),
}
"""Recipe and key that differ for a reason: docs/explanation/conventions.md, or the point's source."""
UNUSED = (
    "FRAMEWORK",
    "IMAGE",
    "FW_VERSION",
    "INDEX_MAPPING_DIR",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "OPTIMIZATION_NAME",
    "OPTIMIZATION_CODE",
)
"""Variables of a script that change none of its values."""
NOTHING = ("none", "false", "null", "", "[]", "0")


def flat(tree: dict[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", plain(value)


def plain(value: object) -> str:
    """One spelling per value."""
    text = str(value).strip("'\"").lower()
    if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text):
        text = f"{float(text):.12g}"
    return "-" if text in NOTHING else text


def repository_of(release: str) -> str:
    return DGXC if release.startswith("v") else LAUNCHER


def points(name: str, recipe: str, repository: str) -> Iterator[TrainingSpec]:
    file = catalogue.recipe_file(recipe)
    for point in catalogue.points(file.recipe):
        source = point.group.source or ""
        of_pages = repository == LAUNCHER and "user guide" in source and "MLPerf" not in source
        if point.framework == name and not point.derived and point.gpu == "H100" and (repository in source or of_pages):
            spec = resolve_point(file, point)
            assert isinstance(spec, TrainingSpec)
            yield spec


def ours(spec: TrainingSpec) -> Values:
    """What the files and the ranks of a point set."""
    files, driver = render(spec), framework(spec.framework)
    variables = {name: variable.value for name, variable in driver.environment(spec).items()} | dict(spec.env)
    found = {f"env.{name}": value for name, value in variables.items()}
    for name, value in re.findall(r"--(xla_\w+)(?:=(\S*))?", variables.get("XLA_FLAGS", "")):
        found[f"flag.{name}"] = value
    if spec.framework == "nemo1":
        found |= flat(yaml.safe_load(files["nemo1.yaml"]))
        for name, value in spec.training.switches.items():
            text = re.sub(r":(?! )", ": ", value) if isinstance(value, str) else value
            found |= flat({name: yaml.safe_load(text) if isinstance(text, str) else text})
    for name, value in re.findall(r"\s(\w+)=(\S*)", files["job.sh"].partition("base.yml")[2]):
        found.setdefault(f"arg.{name}", value)
    for name, value in re.findall(r"^    (\w+) = (.*)$", files.get("paxml_point.py", ""), re.M):
        found[f"fdl.{name}"] = value.replace(" ", "")
    return {key: plain(value) for key, value in found.items()}


def listed() -> list[Values]:
    with LISTED.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def read(row: Values, spec: TrainingSpec) -> bool:
    """Whether the framework reads a key at this point."""
    if spec.precision != "fp8" and READ_WITH_FP8.match(row["key"]) and row["key"] != "model.fp8_params":
        return False
    if row["key"] == "model.num_query_groups":
        return row["value"] != "-"  # as many as heads
    if row["key"] == "model.activations_checkpoint_method":
        return spec.training.recompute.granularity == "full"
    if row["key"].startswith("model.ub_tp_comm_overlap_cfg"):
        return spec.layout.tp > 1
    return spec.layout.pp > 1 or not READ_IN_A_PIPELINE.match(row["key"])


@pytest.mark.parametrize(("name", "recipe", "release"), [row[:3] for row in ROWS])
def test_a_point_sets_what_its_publisher_sets(name: str, recipe: str, release: str) -> None:
    rows = [row for row in listed() if (row["framework"], row["recipe"]) == (name, recipe)]
    rows = [row for row in rows if not {("*", row["key"]), (recipe, row["key"])} & DECLARED]
    found, wrong = 0, []
    for spec in points(name, recipe, repository_of(release)):
        made = ours(spec)
        for row in rows:
            if not row["points"] or f"{spec.precision}:{spec.num_gpus}" in row["points"].split():
                found += 1
                if made.get(row["key"], "-") != row["value"] and read(row, spec):
                    wrong.append((spec.precision, spec.num_gpus, row["key"], made.get(row["key"]), row["value"]))
    assert found >= 20
    assert wrong == []


def written(show: "Shown", file: str, recipe: str) -> Values:
    """What a configuration says of every point."""
    if file.endswith(".py"):
        size = recipe.rpartition("-")[2].upper()
        policy = re.search(rf"class Synthetic{size}Ckpt.*?CHECKPOINT_POLICY = (\S+)", show[file], re.S)
        return {"fdl.CHECKPOINT_POLICY": plain(policy[1] if policy else "")}
    return dict(flat(yaml.safe_load(show[file]))) if file else {}


def theirs(show: "Shown", script: str, file: str, recipe: str, spec: TrainingSpec) -> Values:
    """What a publisher's script and configuration set for a point."""
    found, text = written(show, file, recipe), show[script]
    if "/examples/" in f"/{script}":
        buffers = re.search(r"tp_comm_overlap_cfg'?: (\w+)", show[file])
        chosen = re.search(r"tp_overlap@\S+=(\w+)", text)
        name = (chosen or buffers or [""] * 2)[1]
        found = {key: value for key, value in found.items() if key not in ("defaults", "model.ub_tp_comm_overlap_cfg")}
        if name and name != "null":
            found |= flat({"model": {"ub_tp_comm_overlap_cfg": yaml.safe_load(show[f"{CONF}/tp_overlap/{name}.yaml"])}})
        return found | {key: plain(value) for key, value in re.findall(r"^\s*\+*training\.([\w.]+)=(\S+)", text, re.M)}
    model, _, size = recipe.rpartition("-")
    given = {
        "MODEL": model,
        "MODEL_SIZE": size,
        "DTYPE": spec.precision,
        "RESULT_DIR": "/tmp/none",
        "STAGE_PATH": "/none",
    }
    given |= {"FP8_ENABLED": str(spec.precision == "fp8").lower(), "JOB_TOTAL_GPUS": str(spec.num_gpus)}
    given |= {"SLURM_JOB_NUM_NODES": str(spec.num_nodes), "SLURM_NTASKS_PER_NODE": "8", "SLURM_LOCALID": "0"}
    given |= {"NCCL_TRACE_ENABLED": "false", "SYNTHETIC_DATA_ENABLED": "true", "PATH": os.environ["PATH"]}
    given |= dict.fromkeys(UNUSED, "") | {"GSW_VERSION": show.commit}
    end = "mkdir() { :; }\nset +eu\n[ -z $(type -t set_performance_environment) ] || set_performance_environment\n"
    end += 'for name in $(compgen -v); do declare -g -x "$name" 2>/dev/null; done\nenv -0'
    made = subprocess.run(["bash", "-c", f"{text}\n{end}"], capture_output=True, text=True, env=given, check=True)
    values = dict(pair.split("=", 1) for pair in made.stdout.split("\0") if "=" in pair)
    exported = set(re.findall(r"^\s*export (\w+)\b", text, re.M)) & {*values} - {*given}
    found |= {f"env.{name}": values[name] for name in exported}
    for key, value in re.findall(r"(?:^|\s)\+*([\w.]+)=(\S*)", values.get("CONFIG_OVERRIDES", "")):
        if "." in key:
            found[key] = value
    for key, value in re.findall(
        r"\s(\w+)=(\S*)", f" {values.get('BASE_CONFIG', '')}" if spec.framework == "maxtext" else ""
    ):
        found[f"arg.{key}"] = value
    for key, value in re.findall(r"--(xla_\w+)(?:=(\S*))?", values.get("XLA_FLAGS", "")):
        found[f"flag.{key}"] = value
    for key, value in re.findall(r"--fdl\.(\w+)=(\S+)", values.get("COMMAND_LINE", "")):
        found[f"fdl.{key}"] = value
    return {key: plain(value) for key, value in found.items() if not key.startswith("arg.xla")}


class Shown(dict[str, str]):
    """The files of a commit, by path."""

    def __init__(self, clone: Path, commit: str) -> None:
        self.git = ["git", "-C", str(clone), "show"]
        self.commit = commit

    def __missing__(self, path: str) -> str:
        self[path] = subprocess.run(
            [*self.git, f"{self.commit}:{path}"], capture_output=True, text=True, check=True
        ).stdout
        return self[path]


def main(folder: Path) -> None:
    rows = []
    for name, recipe, release, script, named in ROWS:
        repository, file = repository_of(release), named.strip("-")
        show = Shown(folder / repository.replace("/", "+") / "repo", f"refs/tags/{release}")
        stated = written(show, file, recipe)
        found: dict[tuple[str, str], list[str]] = {}
        specs = [*points(name, recipe, repository)]
        for spec in specs:
            path = script.format(precision=spec.precision, nodes=spec.num_nodes)
            for key, value in sorted(theirs(show, path, file, recipe, spec).items()):
                if not NOT_SPEED.match(key) and "$" not in value:
                    found.setdefault((key, value), []).append(f"{spec.precision}:{spec.num_gpus}")
        for (key, value), names in found.items():
            path = file if stated.get(key) == value else script
            of_points = "" if len(names) == len(specs) else " ".join(names)
            rows.append((name, recipe, key, value, of_points, f"{repository} {path}", release))
    with LISTED.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("framework", "recipe", "key", "value", "points", "path", "release"))
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
