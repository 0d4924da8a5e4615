"""A site file's options and mounts: what the suite sets itself, or what breaks a run, is refused at once."""

from pathlib import Path

import pytest

from benchrun.errors import UserError
from benchrun.recipe import catalogue
from benchrun.recipe.resolve import resolve, resolve_point
from benchrun.recipe.select import Request
from benchrun.render import render
from benchrun.spec.cluster import Cluster


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
    *("--version", "-V"),
)
SBATCH = (
    *("--array=1-3", "--arr=1-3", "-a1-3", "-a 1-3", "-Ha1-3", "--requeue", "--no-requeue", "--wrap=true"),
    *("--parsable", "--wait", "-W", "--gres=gpu:1", "--mem=1", "--exclusive", "--oversubscribe", "-s", "--share"),
)
SRUN = (
    *("--kill-on-bad-exit=0", "-K0", "--mpi=none", "--cpu-bind=none", "--input=x", "-ix", "--multi-prog", "--pty"),
    *("--jobid=7", "--container-image=x", "--container-mounts=/:/x", "--container-workdir=/", "--container-env=A"),
    *("--", "hostname"),
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
    sbatch = ["--segment=8", "--gpus-per-node=8", "--mem-per-cpu=3G", "-H", "--comment=array", "--threads-per-core=1"]
    srun = ["--label", "-l", "--distribution=block:block", "--network=sn_all", "--exclusive"]
    cluster = resolved(tmp_path, f"sbatch_options: {sbatch}", f"srun_options: {srun}")
    assert (list(cluster.sbatch_options), list(cluster.srun_options)) == (sbatch, srun)


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
