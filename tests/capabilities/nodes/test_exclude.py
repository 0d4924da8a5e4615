"""Nodes left out of a job, the script of a check, and which ended runs are worth another launch."""

import json
import subprocess
from pathlib import Path

import pytest
from calling import call

from benchrun import api
from benchrun.errors import UserError
from benchrun.jobs.create import create
from benchrun.jobs.endings import Ending
from benchrun.recipes.resolve import resolve, resolve_nodes
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.artifacts import ENDING, JOB, STDERR, EndingRecord
from benchrun.rundir.folder import RunDir

SLURM = Request("tiny-llama", "CPU", "fp32", 2, cluster="slurm-cpu")


def excluded(exclude: str | None, site: str = "null") -> str | None:
    spec = resolve(
        Request(*("tiny-llama", "CPU", "fp32", 2), cluster="slurm-cpu", overrides=(f"cluster.exclude={site}",))
    )
    return api.without_nodes(spec, exclude).cluster.exclude


@pytest.mark.parametrize(
    ("exclude", "names"),
    [("n1", "n1"), ("n1,n[4-7],rack2-n[01,03-05]", "n1,n[4-7],rack2-n[01,03-05]"), ("n1 n2", "n1,n2"), (None, None)],
)
def test_a_list_is_written_as_slurm_reads_it(exclude: str | None, names: str | None) -> None:
    assert excluded(exclude) == names


def test_the_sites_own_nodes_stay_excluded() -> None:
    assert excluded("n1,n2", site="n9") == "n9,n1,n2"
    assert excluded(None, site="n9") == "n9"


def test_a_file_has_a_name_per_line(tmp_path: Path) -> None:
    file = tmp_path / "exclude"
    for text in ("n1\nn2\n", "\ufeffn1\r\nn2\r\n"):
        file.write_text(text)
        assert excluded(str(file)) == "n1,n2"
    file.write_text("")  # of a check without an outlier
    assert excluded(str(file)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        *("no/such/file", "nodes.txt", "n1;reboot", "n1,$(id)", "", ","),
        *("n[1-", "n[1-]", "n[7-4]", "n[,]", "-----", ".", "-x"),
    ],
)
def test_anything_else_is_refused(wrong: str) -> None:
    with pytest.raises(UserError, match="--exclude"):
        excluded(wrong)


def test_this_machine_has_no_nodes_to_exclude() -> None:
    with pytest.raises(UserError, match="nodes of Slurm"):
        api.without_nodes(resolve(Request("tiny-llama", "CPU", "fp32", 2)), "n1")


def test_nodes_do_not_change_what_is_measured() -> None:
    spec = resolve(SLURM)
    assert api.without_nodes(spec, "n1").identity() == spec.identity()
    assert api.without_nodes(spec, "n1").repeat_key() == spec.repeat_key()


@pytest.mark.parametrize("runtime", ["none", "pyxis", "apptainer", "singularity", "charliecloud", "podman", "docker"])
def test_a_check_runs_in_every_container_as_other_jobs_do(runtime: str, tmp_path: Path) -> None:
    sets = (f"cluster.container.runtime={runtime}", "cluster.container.options=null", "image=/images/torch.sqsh")
    spec = resolve_nodes("dgx-h100", 4, sets)
    assert (spec.num_gpus, spec.precision, spec.cluster.time_limit) == (32, "bf16", "00:10:00")
    script = render(spec)[JOB]
    assert "-m benchrun.worker.nodecheck --spec spec.json" in script
    assert "#SBATCH --nodes=4" in script
    assert ("/images/torch.sqsh" in script) == (runtime != "none")
    (tmp_path / "job.sh").write_text(script)
    subprocess.run(["bash", "-n", tmp_path / "job.sh"], check=True)


def test_a_check_takes_the_sites_image_of_a_framework_with_torch() -> None:
    images = ("cluster.container.images={nemo2: /images/nemo.sqsh}",)
    assert resolve_nodes("dgx-h100", 2, images).image == "/images/nemo.sqsh"
    assert "nemo" in resolve_nodes("dgx-h100", 2).image
    assert resolve_nodes("dgx-h100", 2, ("cluster.container.runtime=none",)).image is None
    with pytest.raises(UserError, match="maxtext"):
        resolve_nodes("dgx-h100", 2, ("cluster.container.images={maxtxt: /images/x.sqsh}",))


def test_the_table_of_all_runs_has_no_checks(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    specs = (resolve(SLURM), resolve_nodes("slurm-cpu", 3))
    runs = [create(tmp_path / "runs", spec, render(spec)).run_id for spec in specs]

    def rows(*names: str) -> list[str]:
        result = call("report", "--json", *names, BENCHRUN_RESULTS=str(tmp_path))
        return [row["recipe"] for row in json.loads(result.stdout)]

    assert rows() == ["tiny-llama"]
    assert rows(*runs) == ["nodes", "tiny-llama"]


@pytest.mark.parametrize(
    ("ending", "line", "retried"),
    [
        (Ending.NODE_FAILURE, "srun: error: Node failure on n2", True),
        (Ending.PREEMPTED, "", True),
        (Ending.SCHEDULER_FAILURE, "", True),
        (Ending.FAILED, "[11.2] NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", True),
        (Ending.FAILED, "RuntimeError: CUDA error: uncorrectable ECC error encountered", True),
        (Ending.FAILED, "KeyError: 'num_layers'", False),
        (Ending.OUT_OF_MEMORY_GPU, "torch.OutOfMemoryError: CUDA out of memory.", False),
        (Ending.OUT_OF_MEMORY_GPU, "[11.2] NVRM: Xid (PCI:0000:4e:00): 31, MMU fault", False),
        (Ending.TIMEOUT, "", False),
        (Ending.CANCELLED, "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", False),
        (Ending.COMPLETED, "", False),
        (Ending.LAUNCH_FAILED, "", False),
        (Ending.IMAGE_MISSING, "", False),
    ],
)
def test_only_what_a_node_caused_is_launched_again(ending: Ending, line: str, retried: bool, tmp_path: Path) -> None:
    spec = resolve(SLURM)
    run: RunDir = create(tmp_path, spec, render(spec))
    (run.path / STDERR).write_text(f"{line}\n")
    run.write_json(ENDING, EndingRecord(ending=ending, evidence=("a test",)).model_dump(mode="json"))
    assert (api.retry_cause(run) is not None) == retried
