"""``site init`` and ``doctor --cluster``: every planted fault of a cluster is named, and no other."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from selection import some

from benchrun.runspec.cluster import Cluster
from benchrun.site import node_job
from benchrun.site.node_probe import node_checks

from .conftest import CLUSTER, User

EXTRA = """
AccountingStorageEnforce=associations,limits,qos
PartitionName=broken Nodes=n1 State=DOWN
PartitionName=closed Nodes=n1 AllowAccounts=physics
PartitionName=short Nodes=n1 MaxTime=00:10:00
PartitionName=slow Nodes=n1 AllowQos=forbidden
"""
GOOD = {
    "scheduler": "slurm",
    "gpu": "H100",
    "gpus_per_node": 2,
    "gres": "gpu",
    "partition": "batch",
    "account": "ai",
    "qos": "fast",
    "time_limit": "00:10:00",
    "exclusive": False,
    "setup": ["nvidia-smi() { printf 'NVIDIA H100 80GB HBM3\\n%.0s' 1 2; }"],  # the GPUs here are names
}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"partition": "nowhere"}, "partition"),
    ({"partition": "broken"}, "partition"),
    ({"partition": "closed"}, "account"),
    ({"partition": "short", "time_limit": "00:20:00"}, "time_limit"),
    ({"partition": "slow"}, "qos"),
    ({"account": "physics"}, "account"),
    ({"account": "ia"}, "account"),
    ({"qos": "fats"}, "qos"),
    ({"qos": "forbidden"}, "qos"),
    ({"reservation": "none"}, "reservation"),
    ({"reservation": "later"}, "reservation"),
    ({"reservation": "theirs"}, "reservation"),
    ({"gpus_per_node": 3}, "gpus_per_node"),
    ({"gres": "gpu:h100"}, "gres"),
    ({"gres": "gpus"}, "gres"),
    ({"constraint": "infiniband"}, "constraint"),
    ({"nodelist": "n[1-9]"}, "nodelist"),
    ({"exclude": "n[1-3]"}, "exclude"),
    ({"mem": "9T"}, "mem"),
    ({"cpus_per_task": 9}, "cpus_per_task"),
    ({"mpi": "pmi9"}, "mpi"),
    ({"sbatch_options": ["--licenses=matlab:1"]}, "sbatch --test-only"),
    ({"srun_options": ["--no-such-option"]}, "srun_options"),
    ({"srun_options": ["--distribution=anyhow"]}, "srun_options"),
    ({"binding": {"cpu_bind": "anyhow"}}, "binding.cpu_bind"),
    ({"secrets": ["NOT_SET_ANYWHERE"]}, "secrets"),
    ({"container": {"runtime": "pyxis"}}, "container.runtime"),
    ({"container": {"runtime": "apptainer"}}, "container.runtime"),
    ({"container": {"runtime": "charliecloud", "image": "/no/image"}}, "container.image"),
    ({"container": {"runtime": "charliecloud", "mounts": ["/no/folder:/data"]}}, "container.mounts"),
    ({"setup": ["no-such-module load x"]}, "setup"),
    ({"setup": ["exit 3"]}, "setup"),
    ({"setup": ["exit 0"]}, "setup"),
    ({"gpu": "H1000"}, "gpu"),
    ({"reservation": "mine,none"}, "reservation"),
    ({"nodelist": "n[1"}, "nodelist"),
    ({"exclude": "n1]"}, "exclude"),
    ({"python": "/no/python"}, "python"),
    ({"account": "small"}, "account"),
    ({"account": "below"}, "account"),
    ({"qos": "brief"}, "time_limit"),
    ({"frameworks": {"megatron-lm": {"path": "/tmp:/no/core"}}}, "frameworks.megatron-lm.path"),
    ({"frameworks": {"nemo2": {"python": "/no/venv/bin/python"}}}, "frameworks.nemo2.python"),
]


RIGHTS = [
    ("qos", "fast"),
    ("qos", "forbidden"),
    ("qos", "brief", "set", "maxwall=00:01:00"),
    ("account", "ai"),
    ("account", "physics"),
    ("account", "small", "grptres=cpu=1"),
    ("account", "below", "parent=small"),
    *(("user", "root", f"account={name}", "qos=fast,brief", "defaultqos=fast") for name in ("ai", "small", "below")),
]
"""Arguments of ``sacctmgr add``."""


def sacctmgr(*words: str) -> None:
    subprocess.run(["sacctmgr", "-i", "-Q", *words], check=False, capture_output=True)


@pytest.fixture(scope="module", autouse=True)
def without_pyxis(slurm: str) -> Iterator[None]:
    """Another test may have put the plugin there that stands in for pyxis."""
    plugins, aside = Path(slurm).with_name("plugstack.conf"), Path(slurm).with_name("plugstack.aside")
    if plugins.exists():
        plugins.rename(aside)
    yield
    if aside.exists():
        aside.rename(plugins)


@pytest.fixture(scope="module")
def user(slurm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A user of a cluster that limits accounts and QOS, with a broken one of each kind."""
    conf = Path(slurm)
    before = conf.read_text()
    person = User(slurm, tmp_path_factory.mktemp("site") / "results")
    restart = [[CLUSTER, "down", "slurmctld"], [CLUSTER, "up", "slurmctld"]]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in person.env.items():
            patch.setenv(name, value)
        for words in RIGHTS:
            sacctmgr("add", *words)
        conf.write_text(before + EXTRA)
        try:
            for words in restart:
                subprocess.run(words, check=True)
            person.until(lambda: set(person.slurm("sinfo", "-h", "-N", "-p", "batch", "-o", "%T").split()) == {"idle"})
            reservation = ["scontrol", "create", "reservation", "duration=60"]
            begins = {
                "mine": ["starttime=now", "users=root"],
                "later": ["starttime=tomorrow", "users=root"],
                "theirs": ["starttime=now", "accounts=physics"],
            }
            for name, words in begins.items():
                create = [*reservation, f"reservationname={name}", "nodes=n3", "flags=ignore_jobs,overlap", *words]
                subprocess.run(create, check=True, capture_output=True)
            yield person
        finally:
            for name in ("mine", "later", "theirs"):
                subprocess.run(["scontrol", "delete", f"reservation={name}"], check=False)
            conf.write_text(before)
            for words in restart:
                subprocess.run(words, check=True)
            for kind, name, *words in reversed(RIGHTS):
                sacctmgr("delete", kind, name, *words[:1] if kind == "user" else ())


def doctor(
    user: User, folder: Path, site: dict[str, Any], *options: str, **env: str
) -> tuple[int, list[dict[str, str]]]:
    """Exit code and checks of ``doctor --cluster``."""
    file = folder / "site.yaml"
    file.write_text(yaml.safe_dump(site))
    result = user.call("doctor", "--cluster", str(file), "--json", *options, check=False, **env)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def named(checks: list[dict[str, str]]) -> list[str]:
    return [check["what"] for check in checks if check["status"] == "fault"]


def test_a_site_without_fault_has_none(user: User, tmp_path: Path) -> None:
    code, checks = doctor(user, tmp_path, GOOD)
    assert (code, [check for check in checks if check["status"] != "ok"]) == (0, [])
    assert {"partition", "account", "qos", "nodes", "time_limit", "runs folder", "a node", "python"} <= {
        check["what"] for check in checks
    }


@pytest.mark.parametrize(("change", "key"), some(FAULTS, 4), ids=lambda value: str(value)[:60])
def test_a_fault_is_named_and_no_other(user: User, tmp_path: Path, change: dict[str, Any], key: str) -> None:
    code, checks = doctor(user, tmp_path, GOOD | change)
    assert (code, {*named(checks)}) == (2, {key})


def test_a_plugin_that_srun_lists_and_cannot_load_is_a_fault(user: User, tmp_path: Path) -> None:
    listed = subprocess.run(["srun", "--mpi=list"], env=user.env, capture_output=True, text=True)
    plugins = {*re.findall(r"\b(?:pmix|pmi2|none)\b", listed.stdout + listed.stderr)}
    assert "none" in plugins
    for plugin in plugins:
        step = ["srun", f"--mpi={plugin}", "--account=ai", "--qos=fast", "--ntasks=1", "true"]
        starts = subprocess.run(step, env=user.env, capture_output=True).returncode == 0
        code, checks = doctor(user, tmp_path, GOOD | {"mpi": plugin}, "--no-node")
        assert (code, named(checks)) == ((0, []) if starts else (2, ["mpi"])), plugin


def test_what_slurm_itself_refuses_is_among_the_faults(user: User, tmp_path: Path) -> None:
    """The check of a user's rights agrees with Slurm's own."""
    for change, _ in FAULTS[:9]:
        site = GOOD | change
        words = [f"--{key}={site[key]}" for key in ("partition", "account", "qos")]
        words += [f"--time={site['time_limit']}", "--immediate", "--wrap=true", "--parsable"]
        result = subprocess.run(["sbatch", *words], env=user.env, capture_output=True, text=True, cwd=tmp_path)
        state = ""
        if result.returncode == 0:
            job = result.stdout.strip()
            state = user.slurm("squeue", "--noheader", "--states=all", "--format=%T %r", f"--jobs={job}")
            subprocess.run(["scancel", job], env=user.env, check=False)
        assert result.returncode or state.startswith("PENDING"), (change, state)


def test_a_runs_folder_that_the_nodes_do_not_share_is_named(user: User, tmp_path: Path) -> None:
    here = tmp_path / "only-here"
    here.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(here)], check=True)
    try:
        code, checks = doctor(user, tmp_path, GOOD, BENCHRUN_RESULTS=str(here / "results"))
        assert not (here / "results").exists()  # the doctor leaves nothing behind
    finally:
        subprocess.run(["umount", str(here)], check=True)
    assert (code, named(checks)) == (2, ["runs folder"])


def test_a_results_folder_behind_a_link_that_no_node_has_is_named(user: User, tmp_path: Path) -> None:
    """The nodes see the folder by the name of the link, and not by that of its target."""
    here = tmp_path / "here"
    here.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(here)], check=True)
    (tmp_path / "link").symlink_to(here)
    try:
        code, checks = doctor(user, tmp_path, GOOD, BENCHRUN_RESULTS=str(tmp_path / "link" / "results"))
    finally:
        subprocess.run(["umount", str(here)], check=True)
    assert (code, named(checks)) == (2, ["runs folder"])


def test_a_site_that_passes_nothing_on_by_default(user: User, tmp_path: Path) -> None:
    """As a plugin of the site would do it, sbatch says --export=NONE after all."""
    user.runs.parent.mkdir(exist_ok=True)
    shims = user.shims(sbatch='exec "$real" --export=NONE "$@"')
    code, checks = doctor(user, tmp_path, GOOD, **shims)
    assert (code, named(checks)) == (0, [])
    code, checks = doctor(user, tmp_path, GOOD | {"secrets": ["TOKEN"]}, TOKEN="x", **shims)
    assert (code, named(checks)) == (2, ["secrets"])


def test_a_check_that_hangs_is_a_fault(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_job, "START_S", 3)
    for name, value in user.env.items():
        monkeypatch.setenv(name, value)
    site = Cluster.model_validate(GOOD | {"name": "x", "setup": ["sleep 600"]})
    faults = [check for check in node_checks(site, 60) if check.status == "fault"]
    assert [(check.what, check.exit_code) for check in faults] == [("setup", 3)]
    user.until(lambda: "benchrun-doctor" not in user.slurm("squeue", "--noheader", "--format=%j"))


def test_without_a_free_node_the_rest_is_checked(user: User, tmp_path: Path) -> None:
    code, checks = doctor(user, tmp_path, GOOD, "--no-node")
    assert (code, "a node" in {check["what"] for check in checks}) == (0, False)


@pytest.mark.thorough
def test_a_shell_without_slurm_s_answer_is_the_machine(user: User, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(GOOD))
    result = user.call("doctor", "--cluster", str(tmp_path / "site.yaml"), check=False, SLURM_CONF="/no/such.conf")
    assert (result.returncode, "Traceback" in result.stderr) == (3, False)


def test_init_writes_a_file_that_the_doctor_accepts(user: User, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    user.call("site", "init", "--output", str(file))
    text = file.read_text()
    assert yaml.safe_load(text)["gpu"] == "CPU"  # neither Slurm nor a node names the GPUs here
    for line in ("partition: batch", "gres: gpu", "gpus_per_node: 2"):
        assert f"\n{line}\n" in text
    assert "# Yours: " in text
    written = yaml.safe_load(text) | {"gpu": "H100", "account": "ai", "setup": GOOD["setup"]}
    code, checks = doctor(user, tmp_path, written)
    assert (code, named(checks)) == (0, [])
    again = user.call("site", "init", "--output", str(file), check=False)
    assert (again.returncode, file.read_text()) == (2, text)


def test_init_takes_the_partition_that_is_named(user: User, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    user.call("site", "init", "--partition", "short", "--output", str(file))
    written = yaml.safe_load(file.read_text())
    assert (written["partition"], written["time_limit"]) == ("short", "00:10:00")
    wrong = user.call("site", "init", "--partition", "shrot", "--output", str(tmp_path / "x.yaml"), check=False)
    assert (wrong.returncode, "did you mean 'short'" in wrong.stderr) == (2, True)
