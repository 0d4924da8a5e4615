"""What NCCL says of its links in the first minute of a job: networks between nodes,
network adapters, GPUDirect RDMA, links within a node.

gloo, which joins the processes of a job without GPUs, sends over TCP alone.
"""

import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchrun.model import Frozen

CHANNEL = re.compile(
    rb"(?:Channel|Ring|Tree) \d+[^\n]{0,80}? via (NET|P2P|SHM)/([\w -]+)([^\s\[]*)"
)
"""A connection of two ranks; older releases say Ring and Tree."""
NETWORK = re.compile(rb"Using (?:internal )?[Nn]etwork ([\w -]+)")
ADAPTERS = re.compile(rb"NET/(?:IB|Socket) ?: Using ([^;\n]+)")
ADAPTER = re.compile(rb"\[\d+\]\s*([^\s:/\[\]]+):[^\s\[]*")
LINK_LAYER = re.compile(rb"/(IB|RoCE)")
PROVIDER = re.compile(rb"NET/OFI Selected (?i:provider) is ([\w;.-]+)")
NVLS = re.compile(rb"NVLS multicast support is (not )?available")
NVLS_CHANNELS = re.compile(rb"\b(\d+) nvls channels")
GLOO = re.compile(rb'\[Gloo\] Rank \d+ is connected to [1-9]|"backend": "gloo"')
SOCKETS = ("Socket", "gloo")
TCP_PROVIDERS = ("tcp", "sockets", "udp")
FABRICS = {"infiniband": "InfiniBand", "roce": "RoCE", "efa": "EFA"}
"""Fabrics beside which TCP is a fault -> their names."""
TOGETHER, LEAST = 512 << 10, 64 << 10
"""Bytes that are read of all files together, and of each at least: connections stand at
the beginning.
"""


class Network(Frozen):
    """Links of a job."""

    networks: tuple[str, ...] = ()
    """Networks between ranks as NCCL calls them: IB, Socket, Libfabric; gloo."""
    provider: str | None = None
    """Provider of Libfabric, e.g. efa."""
    adapters: tuple[str, ...] = ()
    """Network adapters or interfaces, with the link layer where NCCL says it."""
    gpudirect: bool | None = None
    """Whether every connection over a network uses GPUDirect RDMA; null without one."""
    within: tuple[str, ...] = ()
    """Links between ranks of a node, e.g. P2P/CUMEM, SHM/direct."""
    nvls: bool | None = None
    """Whether NCCL uses NVLink SHARP; null if it does not say."""

    @property
    def tcp(self) -> str | None:
        """Network that sends over TCP; None if none does."""
        for name in self.networks:
            if name in SOCKETS:
                return f"NET/{name}" if name != "gloo" else name
            if self.provider and self.provider.startswith(TCP_PROVIDERS):
                return f"NET/{name} with the provider {self.provider}"
        return None

    @property
    def words(self) -> str:
        """One line for a reader."""
        parts = []
        if self.networks:
            over = "/".join(filter(None, (*self.networks, self.provider)))
            parts.append(f"network {over}")
        if self.adapters:
            parts.append(f"adapters {', '.join(self.adapters)}")
        if self.gpudirect is not None:
            parts.append(f"GPUDirect RDMA {'on' if self.gpudirect else 'off'}")
        if self.within:
            parts.append(f"within a node {', '.join(self.within)}")
        if self.nvls is not None:
            parts.append(f"NVLS {'on' if self.nvls else 'off'}")
        return "; ".join(parts)


def network_of(texts: Iterable[bytes], nodes: int = 1) -> Network | None:
    """What the ranks' ``texts`` say of their links; None if they say nothing.

    NCCL chooses a network also where nothing crosses it: without a list of connections
    that counts for several ``nodes`` alone.
    """
    joined = b"\n".join(texts)
    networks: dict[str, None] = {}
    within: dict[str, None] = {}
    direct = []
    for kind, name, rest in CHANNEL.findall(joined):
        if kind == b"NET":
            networks[_text(name)] = None
            direct.append(b"GDRDMA" in rest)
        else:
            within[f"{_text(kind)}/{_text(name)}"] = None
    if nodes > 1 and not networks and not within:
        for name in NETWORK.findall(joined):
            networks[_text(name)] = None
        if not networks and GLOO.search(joined):
            networks["gloo"] = None
    provider = PROVIDER.search(joined)
    found = Network(
        networks=tuple(networks),
        provider=_text(provider[1]) if provider else None,
        adapters=tuple(_adapters(joined)),
        gpudirect=all(direct) if direct else None,
        within=tuple(within),
        nvls=_nvls(joined),
    )
    return found if found != Network() else None


def _adapters(text: bytes) -> dict[str, None]:
    found: dict[str, None] = {}
    for listed in ADAPTERS.findall(text):
        for each in ADAPTER.finditer(listed):
            layer = LINK_LAYER.search(each[0])
            found[_text(each[1]) + (f" ({_text(layer[1])})" if layer else "")] = None
    return found


def _nvls(text: bytes) -> bool | None:
    """Whether a group of ranks has channels for it: small groups have none."""
    channels = NVLS_CHANNELS.findall(text)
    if channels:
        return any(map(int, channels))
    lacking = NVLS.findall(text)
    return not any(lacking) if lacking else None


def _text(name: bytes) -> str:
    return name.decode(errors="replace").strip()


def slow_network(network: Network | None, fabric: str | None) -> str | None:
    """Sentence on a job that sends over TCP though its site has a ``fabric``; None if
    it does not.
    """
    if network is None or fabric not in FABRICS or network.tcp is None:
        return None
    return f"{network.tcp} between nodes: TCP, though the site has {FABRICS[fabric]}"


def read_network(files: Sequence[Path], nodes: int) -> Network | None:
    """What a job's ``files`` say of its links; None if they say nothing."""
    texts = []
    for file in files:
        with contextlib.suppress(OSError), file.open("rb") as stream:
            texts.append(stream.read(max(TOGETHER // len(files), LEAST)))
    return network_of(texts, nodes)
