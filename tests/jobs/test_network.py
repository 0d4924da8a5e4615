"""The links of a job by NCCL's own lines, in the forms of its releases and plugins, and a run of two network namespaces
over gloo.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import DEADLINE_S

from benchrun import api
from benchrun.jobs.create import create
from benchrun.jobs.launcher import Observation, write_env
from benchrun.jobs.scheduler import Job, Phase
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.folder import RunDir
from benchrun.rundir.network import Network, network_of, slow_network
from benchrun.usecases.judgement import verdict_together
from benchrun.usecases.measurement import measure_run

START = "n1:814:902 [3] NCCL INFO "
INFINIBAND = (
    "NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_3:1/IB/SHARP [RO]; OOB eth0:10.0.0.7<0>",
    "Using network IBext_v8",
    "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    "NVLS multicast support is available on dev 3",
    "Channel 00/0 : 3[3] -> 11[3] [send] via NET/IBext_v8/0(1)/GDRDMA",
    "Channel 01/0 : 11[3] -> 3[3] [receive] via NET/IBext_v8/1(1)/GDRDMA/Shared",
    "Channel 00/0 : 3[3] -> 2[2] via P2P/CUMEM/read",
    "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer",
    "2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
)
ROCE = (
    "NET/IB : Using [0]mlx5_10:1/RoCE [1]mlx5_11:1/RoCE [RO]; OOB bond0:10.0.0.7<0>",
    "Using non-device net plugin version 0",
    "Using network IB",
    "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_10'",
    "NVLS multicast support is not available on dev 3",
    "Channel 00/0 : 3[3] -> 11[3] [send] via NET/IB/0",
    "Channel 00/0 : 3[3] -> 4[4] via SHM/direct/direct",
)
EFA = (
    "NET/OFI Initializing aws-ofi-nccl 1.13.2-aws",
    "NET/OFI Selected Provider is efa (found 16 nics)",
    "Using network Libfabric",
    "Channel 00/0 : 3[3] -> 11[3] [send] via NET/Libfabric/0/GDRDMA(PCI)",
    "Channel 00/0 : 3[3] -> 4[4] via P2P/IPC",
)
OLD_EFA = (
    "NET/OFI Selected Provider is efa",
    "Using network AWS Libfabric",
    "Ring 00 : 15 -> 16 [send] via NET/AWS Libfabric/0",
)
OFI_TCP = (
    "NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)",
    "Using network Libfabric",
    "Channel 00/0 : 3[3] -> 11[3] [send] via NET/Libfabric/0",
)
SOCKETS = (
    "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
    "NET/IB : No device found.",
    "NET/Socket : Using [0]ens5:10.0.0.7<0> [1]docker0:172.17.0.1<0>",
    "Using network Socket",
    "Channel 00/0 : 3[3] -> 11[3] [send] via NET/Socket/1",
    "Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM",
)
FORMS = {
    "InfiniBand": (INFINIBAND, ("IBext_v8",), None, ("mlx5_0 (IB)", "mlx5_3 (IB)"), True, ("P2P/CUMEM",), True),
    "RoCE": (ROCE, ("IB",), None, ("mlx5_10 (RoCE)", "mlx5_11 (RoCE)"), False, ("SHM/direct",), False),
    "EFA": (EFA, ("Libfabric",), "efa", (), True, ("P2P/IPC",), None),
    "old EFA": (OLD_EFA, ("AWS Libfabric",), "efa", (), False, (), None),
    "Libfabric over TCP": (OFI_TCP, ("Libfabric",), "tcp;ofi_rxm", (), False, (), None),
    "sockets": (SOCKETS, ("Socket",), None, ("ens5", "docker0"), False, ("P2P/CUMEM",), None),
}


RANKS: list["subprocess.Popen[bytes]"] = []


def read(lines: tuple[str, ...], nodes: int = 2) -> Network | None:
    return network_of(["".join(f"{START}{line}\n" for line in lines).encode()], nodes)


@pytest.mark.parametrize("form", FORMS)
def test_the_lines_name_the_links(form: str) -> None:
    lines, *wanted = FORMS[form]
    found = read(lines)
    assert found
    assert [found.networks, found.provider, found.adapters, found.gpudirect, found.within, found.nvls] == wanted


@pytest.mark.parametrize(
    ("form", "fabric", "named"),
    [
        ("sockets", "infiniband", "NET/Socket"),
        ("sockets", "efa", "NET/Socket"),
        ("Libfabric over TCP", "efa", "tcp;ofi_rxm"),
        ("sockets", "ethernet", None),
        ("sockets", None, None),
        ("InfiniBand", "infiniband", None),
        ("RoCE", "roce", None),
        ("EFA", "efa", None),
        ("old EFA", "efa", None),
    ],
)
def test_tcp_beside_a_fabric_is_named(form: str, fabric: str | None, named: str | None) -> None:
    sentence = slow_network(read(FORMS[form][0]), fabric)
    assert named in sentence if named and sentence else sentence is named


def test_a_chosen_network_counts_where_something_crosses_it() -> None:
    chosen = SOCKETS[:4]
    (several, one) = (read(chosen, nodes) for nodes in (2, 1))
    assert several and several.tcp == "NET/Socket"
    assert one and one.tcp is None
    assert read(("Setting affinity for GPU 3 to ffff", "Bootstrap : Using eth0:10.0.0.7<0>")) is None


@pytest.fixture
def namespaces() -> Iterator[list[str]]:
    """Two network namespaces that are joined by a wire, as two nodes are."""
    names = [f"benchrun{os.getpid()}{side}" for side in "ab"]
    wire = [name.replace("benchrun", "br") for name in names]
    commands = [
        f"ip link add {wire[0]} type veth peer name {wire[1]}",
        *(f"ip netns add {name}" for name in names),
        *(f"ip link set {end} netns {name}" for end, name in zip(wire, names, strict=True)),
    ]
    for number, (end, name) in enumerate(zip(wire, names, strict=True), 1):
        commands.append(f"ip -n {name} address add 10.213.7.{number}/24 dev {end}")
        commands += [f"ip -n {name} link set {device} up" for device in (end, "lo")]
    try:
        for command in commands:
            if subprocess.run(command.split(), capture_output=True).returncode:
                pytest.skip(f"no network namespaces here: {command}")
        yield names
    finally:
        for rank in RANKS:
            rank.kill()
            rank.wait()
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.mark.train
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root")
def test_a_run_over_sockets_is_named_while_it_trains_and_in_its_verdict(namespaces: list[str], tmp_path: Path) -> None:
    sets = ("cluster.fabric=infiniband", "cluster.gpus_per_node=1", "training.steps=12")
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 2, "megatron-core", "slurm-cpu", sets))
    run = create(tmp_path, spec, render(spec))
    for rank, name in enumerate(namespaces):
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "PYTHONPATH": "worker"}
        own |= {
            "MASTER_ADDR": "10.213.7.1",
            "MASTER_PORT": "21877",
            "GLOO_SOCKET_IFNAME": name.replace("benchrun", "br"),
        }
        words = [*["ip", "netns", "exec"], name, sys.executable, "-u", "-m", "benchrun.worker", "--spec", "spec.json"]
        with (run.path / ("stderr.log" if rank else "stdout.log")).open("w") as log:
            RANKS.append(subprocess.Popen(words, cwd=run.path, env={**os.environ, **own}, stdout=log, stderr=log))
    job = Job("7", Phase.RUNNING, "RUNNING")
    until = time.monotonic() + DEADLINE_S
    said = ""
    while any(rank.poll() is None for rank in RANKS):
        assert time.monotonic() < until and not any(rank.poll() for rank in RANKS)
        said = said or api.status_of(Observation(run, job, over=False))["note"]
        time.sleep(0.2)
    assert [rank.returncode for rank in RANKS] == [0, 0], (run.path / "stdout.log").read_text()[-2000:]
    assert said.startswith("gloo between nodes")
    write_env(run)
    measured = measure_run(RunDir(run.path))
    assert measured
    verdict = verdict_together(run.spec, [measured], "completed")
    assert "gloo between nodes" in verdict.headline
