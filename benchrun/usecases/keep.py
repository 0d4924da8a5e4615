"""A run's files as they are kept and published: compressed, without the names and paths
of the machine.

public.yaml lists the published fields, so that a new field is left out until someone
adds it there.
"""

import hashlib
import json
import lzma
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchrun.frameworks import registry
from benchrun.render import render
from benchrun.rundir import artifacts
from benchrun.rundir.artifacts import ENV, NODES, SPEC, TELEMETRY, XZ, objects, trained_with
from benchrun.rundir.folder import RunDir, unpacked
from benchrun.runspec.cluster import UNNAMED, Binding, Cluster, Container, OwnGpu
from benchrun.runspec.identity import OF_THE_SITE, workload_env, workload_image
from benchrun.runspec.image_names import image_name, is_path
from benchrun.runspec.spec import RunSpec
from benchrun.vocabulary import STAMP, in_words

DOCUMENTS = (
    artifacts.DATA,
    artifacts.CEILINGS,
    artifacts.BREAKDOWN,
    artifacts.TELEMETRY_SUMMARY,
    artifacts.RANKS,
    artifacts.HOST,
    artifacts.METRICS,
    artifacts.VERDICT,
    artifacts.ENDING,
)
"""Documents that can name the site only inside a text."""
PUBLIC = yaml.safe_load(Path(__file__).with_name("public.yaml").read_text(encoding="utf-8"))
PATH = re.compile(
    rf"(?<![\w./])/(?!(?:{'|'.join(PUBLIC['folders'])})\b)[A-Za-z_.][\w.+@-]*(?:/[\w.+@=-]+)*/?"
)
"""An absolute path outside the folders that every machine has."""
ADDRESS = re.compile(
    r"\b(?:10(?:\.\d{1,3}){3}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}|192\.168(?:\.\d{1,3}){2}"
    r"|(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]{27})\b"
)
"""A private IP address, or the UUID of a GPU."""
MAIL = re.compile(r"[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}\b")
HIDDEN = "SITE"
"""Replaces text that identifies the site."""


def kept_files(run: RunDir) -> dict[str, bytes]:
    """The published files of ``run`` by name, except its profile: its documents, its
    logs, its telemetry.
    """
    hosts = _hosts(run)
    clean = cleaner(run)
    documents = {}
    for name in DOCUMENTS:
        if (document := run.read_json(name)) is not None:
            documents[name] = document
    documents[SPEC] = public_spec(run.spec).document()
    documents[ENV] = public_env(run.read_json(ENV) or {})
    conditions = documents.get(artifacts.VERDICT, {}).get("conditions") or {}
    if "software" in conditions:
        versions = sorted(trained_with(documents[ENV]).items())
        conditions["software"] = in_words(versions) or None
    for name in _of_ranks(run):
        documents[scrubbed(name, hosts)] = run.read_json(name) or {}
    files = {}
    for name, document in documents.items():
        files[name] = f"{json.dumps(_each_text(document, clean), indent=2)}\n".encode()
    packed = {}
    for log in run.logs:
        packed[log.name.removesuffix(XZ)] = unpacked(log).decode(errors="surrogateescape")
    for host, text in run.telemetry().items():
        packed[f"{TELEMETRY}/{_alias(hosts, host)}.csv"] = text
    for name, text in packed.items():
        files[name + XZ] = lzma.compress(clean(text).encode(errors="surrogateescape"))
    return files


def cleaned(run: RunDir, document: Any) -> Any:
    """A document of ``run`` without the names and paths of the site."""
    return _each_text(document, cleaner(run))


def cleaner(run: RunDir) -> Callable[[str], str]:
    """A function that returns a text of ``run`` without the names and paths of the
    site.
    """
    hosts = _hosts(run)
    words = site_words(run.spec)
    image = run.spec.image

    def clean(text: str) -> str:
        return scrubbed(text.replace(image, public_image(image)) if image else text, hosts, words)

    return clean


def scripts(run: RunDir) -> dict[str, bytes]:
    """The scripts of ``run`` by name, rendered again without what identifies the site."""
    found = {}
    for name, text in render(public_spec(run.spec)).items():
        if name != SPEC:
            found[name] = text.encode()
    return found


def verbatim_files(run: RunDir) -> dict[str, bytes]:
    """The files of `kept_files` as they are, with the scripts, events and done.json of
    ``run``; logs are compressed.
    """
    names = (
        *DOCUMENTS,
        SPEC,
        ENV,
        artifacts.FINGERPRINT,
        artifacts.EVENTS,
        artifacts.DONE,
        *render(run.spec),
        *_of_ranks(run),
    )
    plain = {}
    for name in names:
        if (run.path / name).is_file():
            plain[name] = (run.path / name).read_bytes()
    for log in run.logs:
        plain[log.name.removesuffix(XZ) + XZ] = lzma.compress(unpacked(log))
    for host, text in run.telemetry().items():
        plain[f"{TELEMETRY}/{host}.csv{XZ}"] = lzma.compress(text.encode())
    return plain


def kept_name(run: RunDir) -> str:
    """RECIPE-IDENTITY-STAMP-XXXX; for a name of an older version, XXXX is a hash of
    that name.
    """
    stamp = re.search(rf"({STAMP})(-[0-9a-f]{{4}}$)?", run.run_id)
    if stamp is None:
        return run.run_id
    end = stamp[2] or f"-{hashlib.sha256(run.run_id.encode()).hexdigest()[:4]}"
    return f"{run.spec.recipe}-{run.spec.identity()}-{stamp[1]}{end}"


def scrubbed(text: str, hosts: Sequence[str], words: Sequence[str] = ()) -> str:
    """``text`` with ``hosts`` as node1, node2 ..., ``words`` of the site as SITE,
    addresses as ADDRESS.

    An absolute path becomes ``PATH/`` and its last part; a home becomes ``PATH``.
    """
    text = MAIL.sub("ADDRESS", PATH.sub(lambda match: _without_folder(match[0].rstrip("/")), text))
    for host in sorted(hosts, key=len, reverse=True):
        text = re.sub(
            rf"(?<![\w.-]){re.escape(host)}(?![\w-])(?:\.[A-Za-z][\w-]*)*",
            _alias(hosts, host),
            text,
        )
    if words:
        any_word = "|".join(map(re.escape, words))
        text = re.sub(rf"(?<![A-Za-z0-9])(?:{any_word})[0-9]*(?![A-Za-z0-9])", HIDDEN, text)
    return ADDRESS.sub("ADDRESS", text)


def _without_folder(path: str) -> str:
    """``PATH/`` and the last part of a path, unless that is the name of a person."""
    if re.fullmatch(r"/(?:home|Users)/[^/]+", path):
        return "PATH"
    return f"PATH/{path.rpartition('/')[2]}"


def _alias(hosts: Sequence[str], host: str) -> str:
    """The published name of a host: node1 for the first of ``hosts``."""
    return f"node{hosts.index(host) + 1}"


def _hosts(run: RunDir) -> list[str]:
    """The hosts in the run's files, compute nodes first."""
    env = run.read_json(ENV) or {}
    done = run.done()
    hosts: list[Any] = [Path(name).name.rsplit(".", 2)[0] for name in _of_ranks(run)]
    hosts += [node.get("host") for node in objects(env.get("nodes"))]
    for name in (artifacts.RANKS, artifacts.FINGERPRINT):
        ranks = (run.read_json(name) or {}).get("ranks")
        hosts += [rank.get("host") for rank in objects(ranks)]
    named = [*hosts, *run.telemetry(), done.host if done else None, env.get("submit_host")]
    known: dict[str, None] = {}
    for host in named:
        if isinstance(host, str) and host not in ("", "localhost"):
            known[host] = None
    return list(known)


def _of_ranks(run: RunDir) -> list[str]:
    """The files of a check of nodes, ``nodes/HOST.RANK.json``."""
    return [f"{NODES}/{file.name}" for file in sorted((run.path / NODES).glob("*.json"))]


def _each_text(document: Any, clean: Callable[[str], str | None]) -> Any:
    """``document`` with what ``clean`` returns for every string; keys and numbers stay."""
    if isinstance(document, dict):
        return {key: _each_text(value, clean) for key, value in document.items()}
    if isinstance(document, list):
        return [_each_text(value, clean) for value in document]
    if not isinstance(document, str):
        return document
    return clean(document)


def public_spec(spec: RunSpec) -> RunSpec:
    """``spec`` with the same identity, and only the fields of its cluster that do not
    identify the site.
    """
    own = {}
    for name, value in workload_env(spec).items():
        if not OF_THE_SITE.search(name):
            own[name] = value
    replaced = _only(spec.replaced_env, own)
    numbers = {}
    for name, value in spec.cluster.env.items():
        if name in PUBLIC["cluster_env"] and re.fullmatch(r"\d+", value):
            numbers[name] = value
    sites = {**dict.fromkeys(replaced, HIDDEN), **numbers}
    gpu = spec.cluster.hardware
    peaks = gpu and OwnGpu(**gpu.model_dump(exclude={"arch", "source"}))
    cluster = Cluster(
        hardware=peaks,
        name=UNNAMED,
        container=Container(runtime=spec.cluster.container.runtime),
        binding=Binding(gpus_per_numa_node=spec.cluster.binding.gpus_per_numa_node),
        env=sites,
        **{name: getattr(spec.cluster, name) for name in PUBLIC["cluster"]},
    )
    image = spec.image and (
        workload_image(spec) if is_path(spec.image) else public_image(spec.image)
    )
    env = {"env": {**own, **sites}, "replaced_env": replaced}
    return spec.model_copy(
        update={"image": image, "replaced_image": None, **env, "cluster": cluster}
    )


def public_image(image: str) -> str:
    """The image if its registry is public, else its name and tag."""
    if image.startswith(tuple(PUBLIC["images"])):
        return image
    return image_name(image)


def public_env(document: dict[str, Any]) -> dict[str, Any]:
    """Versions and hardware of env.json. Host names stay: ``scrubbed`` replaces them."""
    image = document.get("image")
    return {
        **_only(document, PUBLIC["env"]),
        "image": public_image(image) if isinstance(image, str) else None,
        "worker": _versions(document.get("worker")),
        "nodes": list(map(_node, objects(document.get("nodes")))),
    }


def site_words(spec: RunSpec) -> list[str]:
    """Words in ``spec`` that identify the site and are absent from ``public_spec``, the
    longest first.
    """
    texts = []
    for name in spec.cluster.env:
        if not name.startswith(tuple(PUBLIC["libraries"])):
            texts.append(name)
    _each_text(spec.cluster.model_dump(mode="json", exclude={"description"}), texts.append)
    if spec.image and spec.image != public_image(spec.image):
        texts.append(spec.image.removesuffix(image_name(spec.image)))
    plain = " ".join(
        (PUBLIC["words"], *registry.names(), public_spec(spec).model_dump_json().lower())
    )
    public = set(re.findall(r"[a-z0-9]+", plain))
    words = {spec.cluster.description}
    for text in texts:
        words.update((text, *re.split(r"[^\w.-]+", text)))
    return sorted((word for word in words if _is_private(word, public)), key=len, reverse=True)


def _is_private(word: str, public: Collection[str]) -> bool:
    """Whether a word can identify a site: long enough, and made of more than numbers
    and public words.
    """
    parts = re.findall(r"[a-z0-9]+", word.lower())
    short = len(word) < (3 if re.search(r"\d", word) else 4)
    return not short and any(not p.isdigit() and p not in public for p in parts)


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    """The published fields of a node in env.json; of its kernel the version alone."""
    kernel = re.match(r"\d+(\.\d+)*", str(node.get("kernel", "")))
    gpus = [_only(gpu, PUBLIC["gpu"]) for gpu in objects(node.get("gpus"))]
    versions = {"versions": _versions(node["versions"])} if "versions" in node else {}
    return {
        **_only(node, PUBLIC["node"]),
        **versions,
        "kernel": kernel[0] if kernel else None,
        "gpus": gpus,
    }


def _versions(packages: Any) -> dict[str, str] | None:
    """Versions by package, those alone that look like one."""
    looks = re.compile(r"\d[\w.+-]*")
    if not isinstance(packages, dict):
        return None
    return {n: v for n, v in packages.items() if looks.fullmatch(str(v))}


def _only(document: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: document[name] for name in names if name in document}
