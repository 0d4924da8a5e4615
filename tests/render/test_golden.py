"""A few scripts that a person reads in full: tests/golden. Every other point is rendered by test_every_point.py.

``pytest tests/render --update-golden`` writes them anew; the change is then reviewed as a diff.
"""

import difflib
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from benchrun import __version__, paths
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

REAPER = shlex.quote((paths.TEMPLATES / "parts" / "reap.py").read_text())
"""The text of the reaper as the script has it; the goldens name it."""
GOLDEN = Path(__file__).parent.parent / "golden"
RUNTIMES = ("pyxis", "apptainer", "singularity", "charliecloud", "podman", "docker", "none")


class Case(NamedTuple):
    """One point and the files of it that are kept."""

    recipe: str
    num_gpus: int
    framework: str
    files: tuple[str, ...] = ("job.sh",)
    gpu: str = "H100"
    precision: str = "fp8"
    cluster: str = "dgx-h100"


NEMO2, BRIDGE = "train_nemo2.py", "train_megatron_bridge.py"
CASES = {
    # Each framework, each task and each kind of MLP on one cluster; a job.sh that only repeats another is left out.
    "megatron-core": Case("llama3.1-8b", 128, "megatron-core"),
    "megatron-lm_dense": Case("llama3.1-8b", 128, "megatron-lm"),
    "megatron-lm_experts": Case("mixtral-8x7b", 256, "megatron-lm"),
    "nemo1_dense": Case("llama3.1-8b", 128, "nemo1", ("job.sh", "nemo1.yaml")),
    "nemo1_experts": Case("mixtral-8x7b", 256, "nemo1", ("nemo1.yaml",)),
    "nemo2_dense": Case("llama3.1-8b", 128, "nemo2", ("job.sh", NEMO2)),
    "nemo2_experts": Case("mixtral-8x7b", 256, "nemo2", (NEMO2,)),
    "nemo2_squared-relu": Case("nemotron4-15b", 2048, "nemo2", (NEMO2,)),
    "nemo2_sft": Case("llama3-8b-sft", 32, "nemo2", (NEMO2,)),
    "nemo2_lora": Case("llama3-8b-lora", 32, "nemo2", (NEMO2,)),
    "megatron-bridge_dense": Case("llama3.1-8b", 128, "megatron-bridge", ("job.sh", BRIDGE)),
    "megatron-bridge_experts": Case("mixtral-8x7b", 256, "megatron-bridge", (BRIDGE,)),
    "megatron-bridge_sft": Case("llama3-8b-sft", 32, "megatron-bridge", (BRIDGE,)),
    "megatron-bridge_lora": Case("llama3-8b-lora", 32, "megatron-bridge", (BRIDGE,)),
    # Latent attention, uneven stages, MXFP8; Mamba-2 and NVFP4.
    "megatron-bridge_deepseek": Case(
        "deepseek-v3", 256, "megatron-bridge", (BRIDGE,), gpu="GB200", cluster="gb200-nvl72"
    ),
    "megatron-bridge_hybrid": Case(
        *("nemotron-3-super", 64, "megatron-bridge", (BRIDGE,)), gpu="GB300", precision="nvfp4", cluster="gb300-nvl72"
    ),
    "hf_lora": Case("llama2-70b-lora-hf", 512, "hf", precision="bf16"),
    "maxtext": Case("llama2-70b", 2048, "maxtext"),
    "paxml": Case("gpt3-5b", 256, "paxml", ("job.sh", "paxml_point.py")),
    # Other places.
    "gh200": Case("llama3.1-8b", 128, "megatron-core", gpu="GH200", precision="bf16", cluster="gh200"),
    "local": Case("tiny-llama", 4, "megatron-core", gpu="CPU", precision="fp32", cluster="local"),
    "local_synthetic": Case("tiny-llama-learnable", 2, "megatron-core", gpu="CPU", precision="fp32", cluster="local"),
    "local_conversations": Case("tiny-llama-sft", 2, "hf", gpu="CPU", precision="fp32", cluster="local"),
    "slurm-cpu": Case("tiny-llama", 4, "megatron-core", gpu="CPU", precision="fp32", cluster="slurm-cpu"),
}


def same_or_update(request: pytest.FixtureRequest, name: str, text: str) -> None:
    path = GOLDEN / name
    text = text.replace(f"benchrun {__version__}", "benchrun VERSION").replace(REAPER, "REAPER")
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.exists(), f"no {path.name}: run pytest tests/render --update-golden and review it"
    assert text == path.read_text()


@pytest.mark.parametrize("name", CASES)
def test_the_script_is_the_reviewed_one(request: pytest.FixtureRequest, name: str) -> None:
    case = CASES[name]
    point = Request(case.recipe, case.gpu, case.precision, case.num_gpus, case.framework, case.cluster)
    files = render(resolve(point))
    for file in case.files:
        same_or_update(request, f"{name}.{file.rpartition('.')[2]}", files[file])


def in_container(runtime: str) -> str:
    overrides = (
        f"cluster.container.runtime={runtime}",
        "cluster.container.options=[]",
        "cluster.container.mounts=[/scratch:/scratch]",
        "cluster.secrets=[HF_TOKEN]",
        *(["cluster.binding.gpus_per_numa_node=null"] if runtime == "docker" else []),
    )
    point = Request("llama3.1-8b", "H100", "bf16", 8, "megatron-core", "dgx-h100", overrides)
    return render(resolve(point))["job.sh"]


def test_each_container_runtime(request: pytest.FixtureRequest) -> None:
    """Pyxis in full, of the others what differs from it."""
    pyxis = in_container("pyxis")
    same_or_update(request, "container_pyxis.sh", pyxis)
    changes: list[str] = []
    for runtime in RUNTIMES[1:]:
        text = in_container(runtime).splitlines(keepends=True)
        changes += difflib.unified_diff(pyxis.splitlines(keepends=True), text, "pyxis", runtime, n=1)
    same_or_update(request, "container_others.diff", "".join(changes))


def test_a_run_that_nsys_profiles(request: pytest.FixtureRequest) -> None:
    """The case of the source presentation: LoRA of Llama 2 7B on one Grace Hopper, in NeMo, under Singularity."""
    trace = "profile.trace=[cuda, cudnn, cublas, osrt, nvtx]"
    overrides = ("cluster.container.runtime=singularity", "profile.tool=nsys", trace)
    files = render(resolve(Request("llama2-7b-lora", "GH200", "bf16", 1, "nemo2", "gh200", overrides)))
    same_or_update(request, "gh200_nsys.sh", files["job.sh"])
    same_or_update(request, "nsys.sh", files["nsys.sh"])


def test_no_golden_file_is_left_over() -> None:
    stems = {*CASES, "container_pyxis", "container_others", "gh200_nsys", "nsys"}
    files = sorted(path.name for path in GOLDEN.iterdir())
    assert [name for name in files if name.rpartition(".")[0] not in stems] == []
    assert len(files) <= 40


def test_every_script_is_sound_shell(tmp_path: Path) -> None:
    engine = ("cluster.container.runtime=podman", "cluster.container.options=[]")
    for name, text in render(resolve(Request("llama3.1-8b", "H100", "fp8", 64, overrides=engine))).items():
        if name.endswith(".sh"):
            (tmp_path / name).write_text(text)
    assert {script.name for script in tmp_path.iterdir()} == {"job.sh", "probe.sh", "telemetry.sh", "contained.sh"}
    for runtime in RUNTIMES:
        (tmp_path / f"{runtime}.sh").write_text(in_container(runtime))
    scripts = sorted([*GOLDEN.glob("*.sh"), *tmp_path.glob("*.sh")])
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    result = subprocess.run(["shellcheck", *map(str, scripts)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
