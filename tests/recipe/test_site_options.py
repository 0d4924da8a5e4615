"""A site file's options and mounts: what the suite sets itself, or what breaks a run, is refused at once."""

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchrun import paths
from benchrun.errors import UserError
from benchrun.frameworks import registry
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve, resolve_point
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.cluster import Cluster
from benchrun.runspec.spec import RunSpec


def resolved(tmp_path: Path, *lines: str) -> Cluster:
    """tiny-llama on a site of these lines."""
    site = tmp_path / "site.yaml"
    site.write_text("\n".join(["scheduler: slurm", "gpu: CPU", "gpus_per_node: 2", *lines]) + "\n")
    file = catalogue.recipe_file("tiny-llama")
    return resolve_point(file, catalogue.points(file.recipe)[0], str(site), ()).cluster


BOTH = (
    *("--nodes=3", "-N3", "--ntasks=9", "-n9", "--ntasks-per-node=4", "--ntasks-per-gpu=1", "--ntasks-per-socket=1"),
    *("--cpus-per-task=2", "-c2", "--partition=x", "-px", "--account=x", "-Ax", "--qos=x", "-qx", "--reservation=x"),
    *("--constraint=x", "-Cx", "--nodelist=n1", "-wn1", "--exclude=n1", "-xn1", "--time=1", "-t1", "--job-name=x"),
    *("-Jx", "--output=x", "--outp=x", "-o x", "--error=x", "-ex", "--open-mode=truncate", "--chdir=/", "-D/"),
    *("--export=NONE", "--export-file=x", "--clusters=x", "-Mx", "--test-only", "--help", "-h", "--usage"),
    *("--version", "-V", "--gpus=8", "-G8", "-G 8", "--gpus-per-task=1", "--gpus-per-socket=1", "--gpu-bind=closest"),
    *("--propagate=ALL", "--tres-per-task=gres/gpu:1", "--gres=gpu:1"),
)
SBATCH = (
    *("--array=1-3", "--arr=1-3", "-a1-3", "-a 1-3", "-Ha1-3", "--requeue", "--no-requeue", "--wrap=true"),
    *(
        "--gpus-per-node=8",
        "--gpus-per-node=h100:8",
        "--parsable",
        "--wait",
        "-W",
        "--mem=1",
        "--exclusive",
        "--oversubscribe",
        "-s",
        "--share",
    ),
)
SRUN = (
    *("--kill-on-bad-exit=0", "-K0", "--mpi=none", "--cpu-bind=none", "--input=x", "-ix", "--multi-prog", "--pty"),
    *("--jobid=7", "--container-image=x", "--container-mounts=/:/x", "--container-workdir=/", "--container-env=A"),
    *("--", "hostname", "--cpu_bind=none", "--mem=4G", "--mem-per-cpu=1G", "--mem-per-gpu=1G", "--cpus-per-gpu=4"),
    *("--gpus-per-node=2", "--exclusive=user", "--exclusive=mcs"),
)


@pytest.mark.parametrize("option", (*BOTH, *SBATCH))
def test_sbatch_options_that_are_not_a_sites_own(tmp_path: Path, option: str) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, "sbatch_options:", "  - --segment=8", f"  - '{option}'")
    assert error.value.where.endswith("site.yaml:6")


@pytest.mark.parametrize("option", (*BOTH, *SRUN))
def test_srun_options_that_are_not_a_sites_own(tmp_path: Path, option: str) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, "srun_options:", f"  - '{option}'")
    assert error.value.where.endswith("site.yaml:5")


def test_options_that_are(tmp_path: Path) -> None:
    sbatch = ["--segment=8", "--gpus-per-node=2", "--mem-per-cpu=3G", "-H", "--comment=array", "--threads-per-core=1"]
    srun = ["--label", "-l", "--distribution=block:block", "--network=sn_all", "--exclusive"]
    cluster = resolved(tmp_path, f"sbatch_options: {sbatch}", f"srun_options: {srun}")
    assert (list(cluster.sbatch_options), list(cluster.srun_options)) == (sbatch, srun)


@pytest.mark.parametrize(
    ("key", "option"),
    [
        *(("mem: 0", option) for option in ("--mem-per-cpu=3G", "--mem-per-gpu 80G")),
        *(("gres: gpu", option) for option in ("--gpus-per-node=2", "--gpus-per-node=h100:2")),
        ("cpus_per_task: 4", "--cpus-per-gpu=4"),
    ],
)
def test_an_option_that_says_otherwise_what_a_key_says(tmp_path: Path, key: str, option: str) -> None:
    lines = (f"sbatch_options: ['{option}']",)
    assert resolved(tmp_path, *lines).sbatch_options == (option,)
    with pytest.raises(UserError) as error:
        resolved(tmp_path, key, *lines)
    assert error.value.where.endswith("site.yaml:5")


@pytest.mark.parametrize("mode", ["user", "mcs", "topo"])
def test_whole_nodes_of_a_user_alone(tmp_path: Path, mode: str) -> None:
    for lines in ((f"exclusive: {mode}",), ("exclusive: false", f"sbatch_options: [--exclusive={mode}]")):
        cluster = resolved(tmp_path, *lines)
        request = Request("tiny-llama", "CPU", "fp32", 1, None, str(tmp_path / "site.yaml"), ())
        header = [line for line in render(resolve(request))["job.sh"].splitlines() if "--exclusive" in line]
        assert header == [f"#SBATCH --exclusive={mode}"]
        assert cluster.header_options == (f"--exclusive={mode}",)
    with pytest.raises(UserError):
        resolved(tmp_path, f"sbatch_options: [--exclusive={mode}]")


VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_CPU_BIND", "SRUN_DEBUG")


@pytest.mark.parametrize("name", [*VARIABLES, "SBATCH_ACCOUNT", "SLURM_EXPORT_ENV", "signal", "command"])
def test_a_variable_that_the_job_sets_or_slurm_reads(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, "env:", "  NCCL_DEBUG: INFO", f"  {name}: x")
    assert error.value.where.endswith("site.yaml:6")
    for line in (f"export A=1 {name}=x", f"module load a; {name}=$(hostname)", f"unset {name}"):
        with pytest.raises(UserError) as error:
            resolved(tmp_path, "setup:", "  - module load cuda", f"  - '{line}'")
        assert error.value.where.endswith("site.yaml:6")


def test_a_recipe_cannot_set_it_either() -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("tiny-llama", "CPU", "fp32", 1, None, "slurm-cpu", ("env.MASTER_PORT=29500",)))
    assert "env.MASTER_PORT" in error.value.where


def test_the_gpus_that_slurm_gives(tmp_path: Path) -> None:
    line = "env: {CUDA_VISIBLE_DEVICES: '0,1'}"
    resolved(tmp_path, line)
    with pytest.raises(UserError):
        resolved(tmp_path, "gres: gpu", line)


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --mem=0",
        "if true; then export MASTER_PORT=1; fi",
        "{ RANK=1; }",
        "A=1 RANK=2",
        "declare -x RANK=2",
        "RANK+=1",
    ],
)
def test_a_setup_line_that_changes_the_job(tmp_path: Path, line: str) -> None:
    with pytest.raises(UserError):
        resolved(tmp_path, "setup:", f'  - "{line}"')


@pytest.mark.parametrize(
    "line",
    [
        "export NCCL_SOCKET_IFNAME=ib0 PATH=/opt/bin:$PATH",
        "echo MASTER_ADDR=$MASTER_ADDR",
        "MASTER_PORT=1 /opt/site/check",
        "ulimit -n 65535 # RANK=1",
        "source /opt/site.sh && module load cuda/12",
        "export PYTHONPATH=/opt/lib LD_LIBRARY_PATH=/opt/lib",
        'if [ -z "$RANK" ]; then true; fi',
    ],
)
def test_a_setup_line_that_does_not(tmp_path: Path, line: str) -> None:
    assert resolved(tmp_path, "setup:", f"  - '{line}'").setup == (line,)


def test_a_run_that_was_launched_before_can_still_be_read(tmp_path: Path) -> None:
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, None, "slurm-cpu", ()))
    document = json.loads(spec.model_dump_json())
    document["cluster"] |= {"sbatch_options": ["--gpus=8"], "setup": ["RANK=1"], "env": {"SLURM_CPU_BIND": "none"}}
    (tmp_path / "spec.json").write_text(json.dumps(document), encoding="utf-8")
    assert RunSpec.read(tmp_path / "spec.json").cluster.setup == ("RANK=1",)


@pytest.mark.parametrize("name", [name for name in registry.names() if name != "command"])  # no recipe has that one
def test_every_variable_that_a_job_sets_is_the_jobs_own(name: str) -> None:
    """What the script assigns, except the stated environment and what adds to the user's own value."""
    files = [catalogue.recipe_file(recipe) for recipe in paths.shipped(paths.RECIPES)]
    points = ((file, point) for file in files for point in catalogue.points(file.recipe))
    spec = next(resolve_point(*each) for each in points if each[1].framework == name)
    script = re.sub(r"'[^']*'", "''", render(spec)["job.sh"])
    assigned = re.findall(r"^(?:export )?([A-Za-z_]\w*)=(.*)", script, re.MULTILINE)
    own = {name for name, value in assigned if not re.search(rf"{name}\b|direct", value)}
    for variable in own - {*spec.env, "NO_PROXY"}:
        with pytest.raises(ValidationError):
            Cluster.model_validate(spec.cluster.model_dump() | {"env": {variable: "x"}})


def test_a_variable_without_the_character_that_ends_it(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, "env:", '  A: "one\\ntwo"', '  B: "a\\u0000b"')
    assert error.value.where.endswith("site.yaml:6")


@pytest.mark.parametrize("mount", ["/a", "a:/b", "/a:b", "/a:/b:/c", "/a:/b,/c:/d", "/a:/b:rx", "~/a:/b", "vol:/b"])
def test_a_mount_that_the_runtime_would_split_elsewhere(tmp_path: Path, mount: str) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, f"container: {{runtime: docker, image: x, mounts: ['{mount}']}}")
    assert error.value.where.endswith("site.yaml:4")


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        *((runtime, "--mount=type=bind,source=/a,target=/b") for runtime in ("podman", "docker")),
        *((runtime, "--bind=/a:/b") for runtime in ("apptainer", "singularity")),
        ("pyxis", ",/a:/b"),
    ],
)
def test_a_mount_is_read_only_where_the_site_says_so(runtime: str, words: str) -> None:
    for flag, end in (("", ""), (":ro", ",readonly" if "type=bind" in words else ":ro")):
        container = f"cluster.container={{runtime: {runtime}, image: /x.sif, mounts: ['/a:/b{flag}']}}"
        job = render(resolve(Request("tiny-llama", "CPU", "fp32", 1, None, "slurm-cpu", (container,))))["job.sh"]
        assert f"{words}{end} " in job


@pytest.mark.parametrize(
    "container",
    [
        "{runtime: charliecloud, image: /x, mounts: ['/a:/b:ro']}",  # it knows no read-only mounts
        "{runtime: pyxis, image: x, options: [--container-mounts=/a:/b]}",
        "{runtime: pyxis, image: x, options: [--output=x]}",
    ],
)
def test_what_a_runtime_cannot_do(tmp_path: Path, container: str) -> None:
    with pytest.raises(UserError) as error:
        resolved(tmp_path, f"container: {container}")
    assert "site.yaml" in error.value.where


@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_an_engine_that_hands_out_every_gpu_needs_whole_nodes(tmp_path: Path, runtime: str) -> None:
    lines = ("gpus_per_node: 8", "exclusive: false", f"container: {{runtime: {runtime}, image: x}}")
    site = tmp_path / "gpus.yaml"
    site.write_text("\n".join(["scheduler: slurm", "gpu: H100", *lines]) + "\n")
    file = catalogue.recipe_file("llama3.1-8b")
    point = next(point for point in catalogue.points(file.recipe) if point.gpu == "H100")
    with pytest.raises(UserError):
        resolve_point(file, point, str(site), ())
    resolve_point(file, point, str(site), ("cluster.exclusive=true",))


def test_a_list_where_a_site_has_one_value_is_no_matter_of_studies(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        resolved(tmp_path, "exclude: [n1, n2]")
    assert refused.value.hint is not None
    assert "exclude: n1,n2" in refused.value.hint
    assert "matrix" not in refused.value.hint
