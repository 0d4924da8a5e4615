"""A site file against what Slurm says, from the text of its commands."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchrun.errors import MachineError, SchedulerUnavailable, UserError
from benchrun.recipes.catalogue import checked
from benchrun.recipes.yamlfile import parse
from benchrun.runspec.cluster import Cluster, Container
from benchrun.runspec.documentation import field_docs
from benchrun.site import node_job, node_probe, sitefile, survey
from benchrun.site.file_checks import gpu_check, queue_checks
from benchrun.site.nodes import is_host_list, memory_mib, satisfies
from benchrun.site.survey import Association, Reservation, Survey, seconds
from benchrun.usecases import site
from benchrun.usecases.site import write_site
from benchrun.vocabulary import Exit

PARTITIONS = """\
PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO MaxTime=4-00:00:00 Nodes=g[1-2] State=UP
PartitionName=cpu AllowGroups=ALL AllowAccounts=ops,hr AllowQos=ALL Default=YES MaxTime=UNLIMITED Nodes=c1 State=UP
"""
NODE = (
    "NodeName={name} Arch=x86_64 CPUTot={cpus} AvailableFeatures={features} Gres={gres} OS=Linux 6.1.0 #1 SMP "
    "RealMemory=2000000 Sockets=2 State={state} Partitions={partition} Comment=a b=c\n"
)


BOOKED = (Reservation("course", "ACTIVE", ("bob",), ()), Reservation("later", "INACTIVE", ("bob",), ()))


def nodes(state: str = "IDLE", gres: str = "gpu:nvidia_h100_80gb_hbm3:8(S:0-1)") -> str:
    gpu = {"cpus": 224, "features": "ib,h100", "gres": gres, "partition": "gpu,all"}
    first = NODE.format(name="g1", state=state, **gpu)
    second = NODE.format(name="g2", state="DOWN*+DRAIN", **gpu)
    third = NODE.format(name="c1", cpus=64, features="(null)", gres="(null)", state="MIXED", partition="cpu")
    return first + second + third


def slurm(**changes: Any) -> Survey:
    """A cluster of two GPU nodes, one of them drained, and a CPU node."""
    text = nodes(**{key: changes.pop(key) for key in ("state", "gres") if key in changes})
    whole = Survey(
        user="ann",
        partitions=tuple(map(survey._partition, survey.rows(PARTITIONS))),
        nodes=tuple(map(survey._node, survey.rows(text))),
        associations=(Association("ml", "", ("normal", "long")), Association("ops", "cpu", ("normal",))),
        qos=("normal", "long", "urgent"),
        reservations=(Reservation("course", "ACTIVE", ("bob",), ()),),
        enforced=frozenset({"associations", "qos"}),
        mpi=("pmix", "none"),
        pyxis=True,
    )
    return replace(whole, **changes)


def faults(site: dict[str, Any], **changes: Any) -> list[tuple[str, str]]:
    """Key and status of every check that is not well."""
    good = {"name": "x", "scheduler": "slurm", "gpu": "H100", "gpus_per_node": 8, "partition": "gpu", "gres": "gpu"}
    cluster = Cluster.model_validate(good | {"account": "ml", "qos": "long"} | site)
    return [(check.what, check.status) for check in queue_checks(cluster, slurm(**changes)) if check.status != "ok"]


@pytest.mark.parametrize(
    ("site", "changes", "expected"),
    [
        ({}, {}, []),
        ({"mem": "0", "constraint": "ib&h100", "mpi": "pmix", "time_limit": "4-00:00:00"}, {}, []),
        ({"gres": "gpu:nvidia_h100_80gb_hbm3"}, {}, []),
        ({"gpu": "H200"}, {}, [("gpu", "warning")]),
        ({"gres": None}, {}, [("gres", "warning")]),
        ({"account": "ops"}, {}, [("account", "fault")]),
        ({"account": "ops"}, {"enforced": frozenset()}, [("account", "warning")]),
        ({"qos": "urgent"}, {}, [("qos", "fault")]),
        ({"qos": "urgent"}, {"enforced": frozenset()}, []),
        ({"account": None, "qos": None}, {}, []),
        ({"account": None, "qos": None}, {"associations": ()}, [("account", "fault")]),
        ({}, {"associations": None}, [("account", "not_checked")]),
        ({"reservation": "course"}, {}, [("reservation", "fault")]),
        ({"reservation": "course"}, {"user": "bob"}, []),
        ({"reservation": "course,later"}, {"user": "bob", "reservations": BOOKED}, [("reservation", "warning")]),
        ({"reservation": "later"}, {"user": "bob", "reservations": BOOKED}, [("reservation", "fault")]),
        ({"reservation": "course,none"}, {"user": "bob", "reservations": BOOKED}, [("reservation", "fault")]),
        ({"nodelist": "g[1"}, {}, [("nodelist", "fault")]),
        ({"exclude": "g1]"}, {}, [("exclude", "fault")]),
        ({}, {"state": "DOWN"}, [("nodes", "fault")]),
        ({}, {"state": "IDLE+POWERED_DOWN"}, []),
        ({}, {"gres": "gpu:a100:4"}, [("gpus_per_node", "fault")]),
        ({"gpu": "A100", "gpus_per_node": 4}, {"gres": "gpu:a100:4"}, []),
        ({"cpus_per_task": 29}, {}, [("cpus_per_task", "fault")]),
        ({"mem": "2T"}, {}, [("mem", "fault")]),
        ({"partition": None}, {}, [("gres", "fault")]),
    ],
)
def test_a_fault_is_named_and_no_other(site: dict[str, Any], changes: dict[str, Any], expected: Any) -> None:
    if site.get("partition", "") is None:
        site = site | {"account": "ops", "qos": "normal"}  # the default partition takes these
    assert faults(site, **changes) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("UNLIMITED", None),
        ("30", 1800),
        ("30:00", 1800),
        ("01:30:00", 5400),
        ("2-00:00:00", 172800),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("", None),
    ],
)
def test_a_time_of_slurm(text: str, value: int | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [("ib", True), ("ib&h100", True), ("ib&h200", False), ("h200|h100", True), ("[h200|h100]", True), ("ib*2", True)],
)
def test_a_constraint(constraint: str, holds: bool) -> None:
    assert satisfies(("ib", "h100"), constraint) is holds


@pytest.mark.parametrize(("text", "mib"), [("0", 0), ("512", 512), ("2G", 2048), ("1TB", 1048576), ("all", None)])
def test_memory(text: str, mib: float | None) -> None:
    assert memory_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "holds"),
    [("n1", True), ("n[1-3,7],m7", True), ("r[1-2]n[01-04]", True), ("n[1", False), ("n1]", False), ("n[]", False)],
)
def test_a_host_list(text: str, holds: bool) -> None:
    assert is_host_list(text) is holds


def test_a_gpu_that_no_table_has_is_a_fault() -> None:
    site = {"name": "x", "scheduler": "local", "gpus_per_node": 8}
    peaks = {"memory_gib": 80, "peak_bf16_tflops": 989}
    (check,) = gpu_check(Cluster.model_validate(site | {"gpu": "H1000"}))
    assert (check.what, check.status, "did you mean 'H100'" in check.hint) == ("gpu", "fault", True)
    for good in ({"gpu": "H100"}, {"gpu": "CPU"}, {"gpu": "H1000", "hardware": peaks}):
        assert list(gpu_check(Cluster.model_validate(site | good))) == []


def test_a_fault_of_several_keys_names_one() -> None:
    site = "name: x\nscheduler: slurm\ngpu: H100\ngpus_per_node: 8\nexclusive: false\ncontainer: {runtime: podman}\n"
    with pytest.raises(UserError) as error:
        checked(Cluster, parse(site, "mysite.yaml"))
    assert str(error.value).startswith("mysite.yaml:6: 'container': podman gives the job every GPU")


class TestScript:
    """The script of the doctor, on this machine."""

    def found(self, site: dict[str, Any], folder: Path, monkeypatch: Any) -> list[str]:
        monkeypatch.setenv("BENCHRUN_RESULTS", str(folder / "results"))
        here = {"name": "x", "scheduler": "local", "gpu": "CPU", "gpus_per_node": 1, "python": sys.executable}
        checks = node_probe.node_checks(Cluster.model_validate(here | site), 60)
        return [check.what for check in checks if check.status == "fault"]

    def test_a_setup_that_hangs_is_a_fault(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(node_job, "START_S", 2)
        assert self.found({"setup": ["sleep 60"]}, tmp_path, monkeypatch) == ["setup"]

    @pytest.mark.parametrize(
        ("setup", "keys"), [("exit 3", ["setup"]), ("exit 0", ["setup"]), ("false", ["setup"]), ("true", [])]
    )
    def test_a_setup_that_ends_the_job(self, setup: str, keys: list[str], tmp_path: Path, monkeypatch: Any) -> None:
        assert self.found({"setup": [setup]}, tmp_path, monkeypatch) == keys

    def test_an_image_that_is_empty(self, tmp_path: Path, monkeypatch: Any) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "image.sqsh").touch()
        for name in ("folder", "image.sqsh"):
            image = {"runtime": "pyxis", "image": str(tmp_path / name), "mounts": []}
            assert self.found({"container": image}, tmp_path, monkeypatch) == ["container.image"]
        (tmp_path / "folder/bin").mkdir()
        (tmp_path / "image.sqsh").write_text("hsqs")
        for name in ("folder", "image.sqsh"):
            image = {"runtime": "pyxis", "image": str(tmp_path / name), "mounts": []}
            assert self.found({"container": image}, tmp_path, monkeypatch) == []

    @pytest.mark.parametrize(("answer", "keys"), [("exit 0", []), ("echo no daemon; exit 1", ["container.runtime"])])
    def test_a_daemon_that_does_not_answer(
        self, answer: str, keys: list[str], tmp_path: Path, monkeypatch: Any
    ) -> None:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / "docker").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        assert self.found({"container": {"runtime": "docker"}}, tmp_path, monkeypatch) == keys

    @pytest.mark.parametrize(
        ("known", "keys"),
        [("image", []), ("manifest", []), ("nothing", ["container.image", "container.images.nemo2"])],
    )
    def test_an_image_that_neither_the_daemon_nor_the_registry_has(
        self, known: str, keys: list[str], tmp_path: Path, monkeypatch: Any
    ) -> None:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n[ $1 = info ] || [ $1 = {known} ]\n")
        (tmp_path / "docker").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        images = {"image": "registry.example/nemo:1", "images": {"nemo2": "registry.example/nemo:2"}}
        container = {"runtime": "docker", "mounts": [], **images}
        assert sorted(self.found({"container": container}, tmp_path, monkeypatch)) == keys


def written_text(of: Survey, runtime: str = "pyxis", partition: str | None = None, gpu: str | None = None) -> str:
    return sitefile.site_text(of, runtime, sitefile.chosen(of, partition), gpu)


class TestInit:
    def test_writes_every_key_with_its_explanation_and_what_slurm_answers(self) -> None:
        text = written_text(slurm())
        for name in set(Cluster.model_fields) - {"name"}:
            assert f"\n{name}:" in text or f"\n# {name}:" in text, name
            assert field_docs(Cluster)[name].replace("``", "").split()[0] in text
        site = checked(Cluster, parse(text + "name: x\n", "mysite.yaml"))
        assert (site.partition, site.gpu, site.gpus_per_node, site.account) == ("gpu", "H100", 8, "ml")
        assert (site.gres, site.mpi, site.container.runtime) == ("gpu:nvidia_h100_80gb_hbm3", "pmix", "pyxis")
        assert site.binding.gpus_per_numa_node == 4
        assert [check for check in queue_checks(site, slurm()) if check.status != "ok"] == []

    def test_of_a_partition_without_gpus(self) -> None:
        written = yaml.safe_load(written_text(slurm(pyxis=False), "apptainer", "cpu"))
        assert (written["gpu"], written["container"]["runtime"]) == ("CPU", "apptainer")
        assert "gres" not in written

    def test_what_slurm_does_not_name_is_left_to_the_user(self) -> None:
        text = written_text(slurm(gres="gpu:8"))
        assert "WRITE IT" in text
        site = checked(Cluster, parse(text + "name: x\n", "mysite.yaml"))
        assert (site.gpu, site.gres, site.gpus_per_node) == ("CPU", "gpu", 8)
        assert [check.what for check in queue_checks(site, slurm(gres="gpu:8")) if check.status != "ok"] == ["gpu"]

    def test_what_the_user_or_a_node_names_is_written(self) -> None:
        text = written_text(slurm(gres="gpu:8"), gpu="H200")
        assert (yaml.safe_load(text)["gpu"], "WRITE IT" in text) == ("H200", False)
        assert yaml.safe_load(written_text(slurm(), gpu="H200"))["gpu"] == "H100"

    def test_a_gpu_that_no_table_has_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UserError):
            write_site(tmp_path / "mysite.yaml", gpu="H1000")


class TestNode:
    SITE = Cluster(name="x", scheduler="slurm", gpu="H100", gpus_per_node=2)

    @pytest.fixture(autouse=True)
    def _node(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch

    def found(self, text: str, **site: Any) -> list[tuple[str, str]]:
        facts = node_job.answers(text) | {"clock here": ["0.5"]}
        self.patch.setattr(node_job, "facts", lambda *_: facts)
        checks = node_probe.node_checks(self.SITE.model_copy(update=site), 1)
        return [(each.what, each.status) for each in checks if each.status != "ok"]

    GOOD = (
        "begun\ta node\nhost\tg1\nenvironment\tyes\nclock\t0\nbegun\tpython\npython\t3.11\nbegun\tnvidia-smi\n"
        + 2 * "gpu\tNVIDIA H100 80GB HBM3\n"
        + "end\tyes\n"
    )

    def test_is_well(self) -> None:
        assert self.found("a banner of the site\n" + self.GOOD) == []

    @pytest.mark.parametrize(
        ("old", "new", "key"),
        [
            ("clock\t0", "clock\t100", "clock"),
            ("clock\t0", "clock\t-100", "clock"),
            ("python\t3.11\n", "", "python"),
            ("begun\tpython", "setup\t127\nbegun\tpython", "setup"),
            ("environment\tyes\n", "", "a node"),
            ("environment", "lost\tHF_TOKEN\nenvironment", "secrets"),
            (GOOD[GOOD.index("python\t3.11") :], "", "python"),
            (GOOD[GOOD.index("gpu\t") :], "", "nvidia-smi"),
            (GOOD[GOOD.index("begun\tpython") :], "begun\tsetup\n", "setup"),
            (2 * "gpu\tNVIDIA H100 80GB HBM3\n", "", "gpu"),
        ],
    )
    def test_has_a_fault(self, old: str, new: str, key: str) -> None:
        self.patch.setenv("HF_TOKEN", "x")
        assert self.found(self.GOOD.replace(old, new)) == [(key, "fault")]

    def test_has_other_gpus_or_fewer(self) -> None:
        assert self.found(self.GOOD.replace("H100", "A100")) == [("gpu", "fault")]
        assert self.found(self.GOOD.replace("gpu\tNVIDIA H100 80GB HBM3\n", "", 1)) == [("gpus_per_node", "fault")]

    def test_has_no_adapter_of_its_fabric(self) -> None:
        assert self.found(self.GOOD, fabric="infiniband") == [("fabric", "fault")]
        there = self.GOOD.replace("begun\tnvidia-smi", "device\tmlx5_0\nbegun\tnvidia-smi")
        assert self.found(there, fabric="infiniband") == self.found(self.GOOD, fabric="ethernet") == []

    def test_a_path_that_hangs_is_named_by_its_key(self) -> None:
        text = self.GOOD[: self.GOOD.index("begun\tpython")] + "begun\t/data\n"
        container = Container(mounts=("/data:/data", "/later:/later"))
        assert self.found(text, container=container) == [("container.mounts", "fault")]

    @pytest.mark.parametrize(
        ("error", "what", "status", "code"),
        [
            (node_job.NoNode("no node was free"), "a node", "not_checked", None),
            (node_job.Unseen("the node cannot write"), "runs folder", "fault", Exit.USER),
            (SchedulerUnavailable("it gave no answer in 1 s"), "a node", "fault", Exit.MACHINE),
            (MachineError("no step ran"), "a node", "fault", Exit.MACHINE),
        ],
    )
    def test_that_cannot_be_asked(self, error: MachineError, what: str, status: str, code: Exit | None) -> None:
        def facts(*_: object) -> None:
            raise error

        self.patch.setattr(node_job, "facts", facts)
        (check,) = node_probe.node_checks(self.SITE, 1)
        assert (check.what, check.status) == (what, status)
        assert code is None or check.exit_code is code

    def test_a_step_that_did_not_run_says_why(self) -> None:
        with pytest.raises(MachineError, match="Unable to allocate"):
            node_job.answers("", "srun: error: Unable to allocate resources")


@pytest.mark.parametrize(
    ("given", "pyxis", "written"),
    [(None, True, "pyxis"), (None, False, "podman"), ("apptainer", True, "apptainer")],
)
def test_init_asks_before_it_chooses_a_runtime(
    given: str | None, pyxis: bool, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "survey", lambda: slurm(pyxis=pyxis))
    monkeypatch.setattr(site, "installed", lambda name: name in ("podman", "docker"))
    asked = []

    def ask(names: list[str]) -> str:
        asked.append(names)
        return "podman"

    write_site(tmp_path / "mysite.yaml", runtime=given, ask=ask)
    assert yaml.safe_load((tmp_path / "mysite.yaml").read_text())["container"]["runtime"] == written
    assert asked == ([["podman", "docker"]] if written == "podman" else [])


def test_without_slurm_init_names_what_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError) as error:
        write_site(tmp_path / "mysite.yaml")
    assert "list --clusters" in str(error.value.hint)
    assert not (tmp_path / "mysite.yaml").exists()
