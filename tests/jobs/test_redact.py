"""What is kept of a run says nothing of the site: whatever stands in the profile, no byte of it is published."""

import json
from pathlib import Path
from typing import Any

import kept_runs
import pytest
import yaml

from benchrun import api
from benchrun.jobs.create import create
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.folder import RunDir, unpacked
from benchrun.runspec.cluster import Cluster
from benchrun.runspec.spec import RunSpec
from benchrun.usecases.keep import kept_files, kept_name, public_env, public_spec, scrubbed, site_words

HOST = "zqhost17"
SITE = {
    "description": "Zqdescription of Zqorg",
    "scheduler": "slurm",
    "gpu": "H100",
    "gpus_per_node": 8,
    "fabric": "infiniband",
    "hardware": {
        "memory_gib": 80,
        "peak_bf16_tflops": 989,
        "peak_fp8_tflops": 1979,
        "arch": "Hopper",
        "source": "zqbook",
    },
    "partition": "zqpartition",
    "account": "zqaccount",
    "qos": "zqqos",
    "reservation": "zqreservation",
    "constraint": "zqfeature&zqswitch",
    "nodelist": "zqhost[17-18],zqspare3",
    "exclude": "zqbroken5",
    "gres": "gpu:zqgres",
    "exclusive": True,
    "mem": "1337G",
    "cpus_per_task": 12,
    "time_limit": "03:33:33",
    "step_deadline_s": 1337,
    "mpi": "zqpmix",
    "sbatch_options": ["--mail-user=zqann@zqmail.example", "--comment=zqcomment of zqwords", "--switches=1@zqtime"],
    "srun_options": ["--zqoption=zqvalue"],
    "container": {
        "runtime": "pyxis",
        "image": "zqregistry.example:5050/zqteam/nemo:25.07",
        "images": {"hf": "/zqimages/zqhf.sqsh"},
        "mounts": ["/zqlustre/zqproject:/zqtarget:ro"],
        "options": ["--container-zqoption", "--container-name=zqname"],
    },
    "binding": {"cpu_bind": "map_cpu:0,1,zqbind", "gpus_per_numa_node": 4},
    "setup": ["module load zqmodule/1.2; export ZQ_SETUP=zqset"],
    "env": {
        "NCCL_SOCKET_IFNAME": "zqib0,zqib1",
        "NCCL_IB_HCA": "=zqmlx5_0:1",
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_ALGO": "zqalgo",
        "OMP_NUM_THREADS": "zqthreads",
        "ZQ_TOKEN_FILE": "/zqhome/zqsecret.txt",
    },
    "secrets": ["ZQ_API_KEY"],
    "python": "/zqopt/zqenv/bin/python",
    "frameworks": {"megatron-lm": {"path": "/zqsources/megatron"}},
}


def spec_at(folder: Path, recipe: Any = ("llama3.1-8b", "H100", "bf16", 8, "megatron-core")) -> RunSpec:
    (folder / "zqsite.yaml").write_text(yaml.safe_dump(SITE))
    return resolve(Request(*recipe, str(folder / "zqsite.yaml"), ("env.GLOO_SOCKET_IFNAME=zqeth9",)))


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)] + list(value)
    return [text for inner in value for text in strings(inner)] if isinstance(value, list) else [str(value)]


def finished(folder: Path) -> RunDir:
    """A run whose log repeats every text of the site, in lines of its own and amid others."""
    spec = spec_at(folder)
    run = create(folder / "runs", spec, render(spec))
    rows = [
        f" iteration {n:8d}/{spec.training.steps:8d} | consumed samples: {n * spec.gbs:12d} |"
        f" elapsed time per iteration (ms): {13000 + n % 7}.0 | global batch size: {spec.gbs:5d} | lm loss: 2.0E+00"
        " | number of nan iterations:   0 |"
        for n in range(1, spec.training.steps + 1)
    ]
    talk = [f"{HOST}: NCCL INFO using '{text}' ({text}:0), {text}." for text in strings(SITE)]
    config = json.dumps({"image": spec.image, "versions": {"megatron-core": "0.19.2"}})
    lines = [*talk, f"benchrun config: {config}", *rows, *talk, 'benchrun done: {"steps": 50}', ""]
    (run.path / "stdout.log").write_text("\n".join(lines))
    (run.path / "stderr.log").write_text("\n".join([*talk, "zqann@zqmail.example", "zqib0", f"on {HOST}.zqdomain.net"]))
    gpu = {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-zquuid", "serial": "zqserial", "memory_mib": "81559"}
    node = {"schema_version": 1, "host": HOST, "kernel": "5.15.0-zqkernel", "driver": "570.1", "gpus": [gpu] * 8}
    node |= {"zqnode": "zqrack", "cpu": "AMD EPYC", "cpus": 96}
    env = {"schema_version": 1, "benchrun": "0.1.0", "commit": "abc", "submit_host": "zqlogin", "zqkey": "zqenv"}
    env |= {"image": spec.image, "worker": {"torch": "2.11.0+cu130", "fork": "zqfork"}, "nodes": [node]}
    run.write_json("env.json", env)
    ending = {"ending": "completed", "evidence": ["zqpartition", "scheduler: COMPLETED"], "exit_code": 0}
    run.write_json("ending.json", {"schema_version": 1, **ending})
    return run


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDir, RunDir]:
    root = tmp_path_factory.mktemp("zqhere")
    run = finished(root)
    api.store_judgement(api.judge_runs([run]))
    return run, api.keep(run, root / "measured")


def test_every_field_of_a_profile_is_filled() -> None:
    assert set(SITE) == set(Cluster.model_fields) - {"name"}
    assert all(set(SITE[part]) == set(Cluster.model_fields[part].annotation.model_fields)
               for part in ("container", "binding"))  # fmt: skip


def test_no_byte_of_the_site_is_kept(kept: tuple[RunDir, RunDir]) -> None:
    for file in sorted(path for path in kept[1].path.rglob("*") if path.is_file()):
        text = unpacked(file).decode()
        at = text.lower().find("zq")
        assert at < 0, f"{file.name}: {text[max(0, at - 80) : at + 40]}"
        for secret in ("1337G", "03:33:33", "5050"):
            assert file.suffix != ".json" or secret not in text, (file.name, secret)
        assert "zq" not in file.name


def test_what_is_kept_is_the_same_measurement(kept: tuple[RunDir, RunDir]) -> None:
    before, after = kept
    assert after.spec.identity() == before.spec.identity()
    assert after.run_id == before.run_id
    again = api.measure_run(after).metrics
    assert again.model_dump(mode="json") == after.read_json("metrics.json") == before.read_json("metrics.json")
    verdict = (before.path / "verdict.json").read_text()
    assert before.spec.image in verdict
    judged, published = json.loads(verdict.replace(before.spec.image, "nemo:25.07")), after.read_json("verdict.json")
    assert published["conditions"].pop("software") == "torch 2.11.0+cu130"  # without the site's own package
    assert "torch 2.11.0+cu130" in judged["conditions"].pop("software")
    assert published == judged


def test_the_kept_spec_says_what_of_the_site_changes_the_speed(kept: tuple[RunDir, RunDir]) -> None:
    spec = kept[1].spec
    assert (spec.image, spec.cluster.container.runtime, spec.cluster.container.image) == ("nemo:25.07", "pyxis", None)
    assert spec.cluster.env == {"NCCL_NVLS_ENABLE": "1", "OMP_NUM_THREADS": "SITE"}
    assert spec.replaced_env == {"NCCL_NVLS_ENABLE": "0", "OMP_NUM_THREADS": "1"}
    assert (spec.cluster.gpus_per_node, spec.cluster.cpus_per_task, spec.cluster.exclusive) == (8, 12, True)
    assert kept[1].read_json("env.json") == {
        **{"schema_version": 1, "benchrun": "0.1.0", "commit": "abc", "image": "nemo:25.07"},
        "worker": {"torch": "2.11.0+cu130"},
        "nodes": [
            {
                **{"schema_version": 1, "host": "node1", "cpu": "AMD EPYC", "cpus": 96, "driver": "570.1"},
                "kernel": "5.15.0",
                "gpus": [{"name": "NVIDIA H100 80GB HBM3", "memory_mib": "81559"}] * 8,
            }
        ],
    }


def test_no_committed_run_says_more_of_its_site() -> None:
    for run in map(RunDir, map(kept_runs.folder, kept_runs.named())):
        assert public_spec(run.spec) == run.spec, run.run_id
        assert public_env(run.read_json("env.json")) == run.read_json("env.json"), run.run_id


def test_a_home_is_a_name_too() -> None:
    assert scrubbed("HOME=/home/ann, /home/ann/runs/x.py", []) == "HOME=PATH, PATH/x.py"


def test_a_mail_address_is_a_name_also_where_the_profile_does_not_say_it() -> None:
    assert scrubbed("mail to ann.b@cs.site.example, user@ and @x", []) == "mail to ADDRESS, user@ and @x"


def test_an_address_that_no_profile_names_is_hidden() -> None:
    text = scrubbed("ask ann.b@help.cluster.example; MASTER_ADDR=10.1.2.3 or 192.168.0.9, not 8.8.8.8", [])
    assert text == "ask ADDRESS; MASTER_ADDR=ADDRESS or ADDRESS, not 8.8.8.8"


def test_a_public_image_keeps_its_whole_name(tmp_path: Path) -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8, "nemo2", "dgx-h100"))
    run = create(tmp_path, spec, {})
    (run.path / "spec.json").write_text(spec.model_dump_json())
    assert json.loads(kept_files(run)["spec.json"])["image"] == spec.image


@pytest.mark.parametrize(
    "word", ["batch", "iteration", "loss", "gpu", "slurm", "H100", "default", "12", "ms", "core", "benchrun"]
)
def test_a_plain_word_of_logs_is_not_taken_for_the_name_of_a_site(word: str, tmp_path: Path) -> None:
    overrides = (f'cluster.partition="{word}"', f'cluster.account="{word}"')
    assert word not in site_words(resolve(Request("llama3.1-8b", "H100", "bf16", 8, overrides=overrides)))


def test_the_folder_of_a_framework_does_not_hide_the_frameworks_name(tmp_path: Path) -> None:
    overrides = ("cluster.container.runtime=none", "cluster.frameworks.nemo2.path=/mnt/teamspace/nemo2")
    words = site_words(resolve(Request("llama3.1-8b", "H100", "bf16", 8, "megatron-bridge", overrides=overrides)))
    assert "nemo2" not in words and "teamspace" in words


def test_a_run_that_an_older_version_named_is_kept_under_its_identity(tmp_path: Path) -> None:
    spec = spec_at(tmp_path)
    run = create(tmp_path / "runs", spec, {"spec.json": spec.model_dump_json()})
    old = run.path.rename(run.path.parent / "llama3.1-8b-01234567-20260101T000000Z-2")
    name = kept_name(RunDir(old))
    assert name.startswith(f"llama3.1-8b-{spec.identity()}-20260101T000000Z-")
    assert len(name.rpartition("-")[2]) == 4
    assert kept_name(RunDir(old)) == name
