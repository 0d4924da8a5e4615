"""Checks that only a compute node can make: images, mounts, the container runtime,
GPUs, the shared runs folder, its clock.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchrun import hardware, paths
from benchrun.errors import BenchrunError
from benchrun.jobs.commands import call
from benchrun.render import check_script
from benchrun.rundir.artifacts import JOB
from benchrun.runspec.cluster import Cluster
from benchrun.vocabulary import Exit

from . import node_job
from .doctor import RUNTIMES
from .file_checks import Check, fault, ok

CLOCK_S = 5.0
"""Difference of two clocks from which endings and ages of runs become wrong."""
UNKNOWN_OPTION = ("unrecognized", "Invalid --", "requires an argument")
"""Words of srun if it cannot read an option."""


def test_only(site: Cluster) -> Iterator[Check]:
    """Ask Slurm whether it would take the job. What it refuses for a reason of its own
    is a fault.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / JOB
        script.write_text(check_script(site, ()), encoding="utf-8")
        result = call(["sbatch", "--test-only", str(script)])
    text = " ".join((result.stderr or result.stdout).split())
    if result.returncode == 0:
        yield ok("sbatch --test-only", text.removeprefix("sbatch: "))
        yield from _step_options(site)
    else:
        detail = text.removeprefix("sbatch: error: ").removeprefix("allocation failure: ")
        yield fault("gres" if "(gres)" in detail else "sbatch --test-only", detail)


def _step_options(site: Cluster) -> Iterator[Check]:
    """Options of a step that srun does not know: sbatch does not see them, and the job
    would end at its first step.
    """
    bind = [f"--cpu-bind={site.binding.cpu_bind}"] if site.binding.cpu_bind else []
    for key, words in (("srun_options", [*site.srun_options]), ("binding.cpu_bind", bind)):
        if words:
            result = call(["srun", "--test-only", "--nodes=1", "--ntasks=1", *words, "true"])
            text = " ".join(result.stderr.split())
            if result.returncode and any(word in text for word in UNKNOWN_OPTION):
                yield fault(key, text.removeprefix("srun: ").removeprefix("error: "))


def node_checks(site: Cluster, wait_s: int) -> Iterator[Check]:
    """Run a script of a few seconds on a node (here for the local scheduler), and
    compare.

    What cannot be asked because no node is free is no fault; what hangs, or breaks the
    job, is one.
    """
    asked = [
        *(f"path={path}" for path in files(site)),
        *(f"program={name}" for name in programs(site)),
        *(f"image={name}" for name in registry_images(site)),
    ]
    words = (site.python, "\n".join(site.setup), *asked)
    try:
        facts = node_job.facts(site, words, wait_s)
    except node_job.NoNode as error:
        yield Check(
            "a node",
            "not_checked",
            error.message,
            "again when a node is free, or with --wait SECONDS",
        )
    except node_job.Unseen as error:
        yield fault(
            "runs folder", error.message, "set BENCHRUN_RESULTS to a folder that the nodes share"
        )
    except BenchrunError as error:
        yield Check("a node", "fault", error.message, error.hint or "", Exit.MACHINE)
    else:
        yield ok("a node", facts["host"][0])
        yield from _hung(site, facts)
        yield from _environment(facts)
        yield from _files(site, facts)
        yield from _programs(site, facts)


def _hung(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    """The part of the check that gave no answer."""
    if "end" not in facts:
        part = facts["begun"][-1]
        detail = f"{part} gives no answer on {facts['host'][0]}: a job would hang there"
        key = {**files(site), **registry_images(site)}.get(part, part)
        yield Check(key, "fault", detail, exit_code=Exit.MACHINE)


def _environment(facts: dict[str, list[str]]) -> Iterator[Check]:
    """Check what a site's defaults take away from a job or its steps."""
    for name in filter(os.environ.get, facts.get("lost", ())):
        detail = f"{name} is set here, and not in a job"
        yield fault(
            "secrets", detail, "the site's default is sbatch --export=NONE: ask its administrator"
        )
    if "environment" not in facts:
        detail = "a step of a job does not get the job's environment"
        yield fault("a node", detail, "srun gets --export=ALL, and a plugin of the site removes it")


def files(site: Cluster) -> dict[str, str]:
    """Path that must exist on a node -> key of the site file."""
    named = {image: key for image, key in _images(site).items() if image.startswith("/")}
    named |= {mount.split(":")[0]: "container.mounts" for mount in site.container.mounts}
    if site.container.runtime == "none":
        for name, installed in site.frameworks.items():
            named |= {
                path: f"frameworks.{name}.path"
                for path in (installed.path or "").split(":")
                if path
            }
            if installed.python and installed.python.startswith("/"):
                named[installed.python] = f"frameworks.{name}.python"
    return named


def _images(site: Cluster) -> dict[str, str]:
    """Image -> key of the site file."""
    named = {}
    for name, image in site.container.images.items():
        named[image] = f"container.images.{name}"
    if site.container.image:
        named[site.container.image] = "container.image"
    return named


def registry_images(site: Cluster) -> dict[str, str]:
    """Name of an image that a daemon of the node has, or takes from a registry -> key of
    the site file.
    """
    if site.container.runtime not in ("docker", "podman"):
        return {}
    return {image: key for image, key in _images(site).items() if not image.startswith("/")}


def programs(site: Cluster) -> list[str]:
    """Programs that a node must have for the container runtime."""
    runtime = site.container.runtime
    if runtime in ("none", "pyxis"):
        return []
    return [RUNTIMES[runtime][0]]


def _files(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    begun = facts["begun"]
    for path, key in files(site).items():
        if path not in begun or ("end" not in facts and path == begun[-1]):
            continue  # an earlier part hangs, or this one
        if path in facts.get("empty", ()) and key.startswith("container.image"):
            yield fault(
                key,
                f"{path} is empty on {facts['host'][0]}",
                "an image file, or the folder of an unpacked image",
            )
        elif path in facts.get("path", ()):
            yield ok(key, path)
        else:
            yield fault(
                key, f"{path} does not exist on {facts['host'][0]}", "a path that every node has"
            )
    difference = abs(float(facts["clock"][0]) - float(facts["clock here"][0]))
    if difference > CLOCK_S:
        detail = f"the clock of {facts['host'][0]} differs by {difference:.0f} s"
        yield Check("clock", "fault", detail, "synchronise both", Exit.MACHINE)


def _programs(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    """The site's setup, and what is there after it."""
    if "left" in facts:
        yield fault(
            "setup", f"it ends the job with exit code {facts['left'][0]} on {facts['host'][0]}"
        )
        return
    if facts.get("setup", ["0"]) != ["0"]:
        yield fault("setup", f"it ends with exit code {facts['setup'][0]} on {facts['host'][0]}")
        return
    if "end" not in facts:
        return
    for name in programs(site):
        if "silent" in facts:
            answer = f"{name} info fails on {facts['host'][0]}: {facts['silent'][0]}"
            yield fault("container.runtime", answer, "start it there, or another container.runtime")
        elif name in facts.get("program", ()):
            yield ok("container.runtime", f"{name} is on the node")
        else:
            hint = "another container.runtime, or its module in setup"
            yield fault("container.runtime", f"{facts['host'][0]} has no {name}", hint)
    for image in facts.get("no image", ()):
        detail = f"{facts['host'][0]} has no image {image}, and its registry does not give it"
        hint = f"{site.container.runtime} pull {image} there says why"
        yield fault(registry_images(site)[image], detail, hint)
    if site.container.runtime == "none":
        version = facts.get("python", [None])[0]
        if version is None:
            yield fault(
                "python",
                f"{facts['host'][0]} cannot run {site.python}",
                "the interpreter that has PyTorch",
            )
        else:
            yield ok("python", f"{site.python}, {version}")
    yield from _devices(site, facts)
    yield from _gpus(site, facts)


def _devices(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    """The adapters of a fabric that has some: without them NCCL sends over TCP."""
    if site.fabric in (None, "ethernet"):
        return
    if "device" in facts:
        yield ok("fabric", ", ".join(facts["device"]))
    else:
        detail = f"{facts['host'][0]} has no adapter of {site.fabric} in /sys/class/infiniband"
        yield fault("fabric", detail, "load its driver there, or another fabric")


def _gpus(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    devices = facts.get("gpu", [])
    if site.gpu == "CPU" and (site.gres is None or not devices):
        return
    if not devices:
        detail = f"nvidia-smi shows no GPU to a job on {facts['host'][0]}, the file has {site.gpu}"
        yield fault("gpu", detail, "its driver, gres or another partition; gpu: CPU without any")
        return
    name = hardware.name_of(devices[0])
    if name and hardware.chip(name) != hardware.chip(site.gpu):
        yield fault(
            "gpu", f"{facts['host'][0]} has {devices[0]}, the file has {site.gpu}", f"gpu: {name}"
        )
    elif len(devices) < site.gpus_per_node:
        yield fault("gpus_per_node", f"a job sees {len(devices)} GPUs, not {site.gpus_per_node}")
    else:
        yield ok("gpu", f"{len(devices)} x {devices[0]}")


def login_checks(site: Cluster, environment: Mapping[str, str], pyxis: bool) -> Iterator[Check]:
    """Check what this machine shows: secrets of the shell, pyxis in srun, the runs
    folder.
    """
    for name in site.secrets:
        if not environment.get(name):
            yield fault("secrets", f"{name} is not set in this shell", f"export {name}=...")
    if site.container.runtime == "pyxis":
        if pyxis:
            yield ok("container.runtime", "srun has --container-image")
        else:
            hint = "pyxis is not installed here; another container.runtime"
            yield fault("container.runtime", "srun has no --container-image", hint)
    root = paths.given(paths.runs_dir())
    parent = next(folder for folder in (root, *root.parents) if folder.exists())
    yield ok("runs folder", f"{root}, on {parent}")
