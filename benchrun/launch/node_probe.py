"""What only a compute node shows: images, mounts, the container runtime, GPUs, the shared runs folder, its clock."""

import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchrun import hardware, paths
from benchrun.errors import BenchrunError, MachineError
from benchrun.launch.commands import call
from benchrun.launch.doctor import RUNTIMES
from benchrun.launch.site_checks import Check, fault, ok
from benchrun.spec.cluster import Cluster
from benchrun.vocabulary import Exit

CLOCK_S = 5.0
"""Difference of two clocks from which endings and ages of runs become wrong."""
UNKNOWN_OPTION = ("unrecognized", "Invalid --", "requires an argument")
"""Words of srun where it cannot read an option."""
START_S = 120
"""Seconds that the step may take once its node is there."""
SCRIPT = r"""
say() { printf '%s\t%s\n' "$1" "$2"; }
say host "$(hostname)"
say clock "$(date +%s)"
marker=$1 python=$2 setup=$3
shift 3
if [ -e "$marker" ]; then say runs yes; else say runs no; fi
for item; do
  name=${item#path=}
  if [ "$name" = "$item" ] || ! [ -e "$name" ]; then continue; fi
  say path "$name"
  if [ -f "$name" ] && ! [ -s "$name" ]; then say empty "$name"; fi
  if [ -d "$name" ] && [ -r "$name" ] && [ -z "$(ls -A "$name")" ]; then say empty "$name"; fi
done
if [ -n "$setup" ]; then
  set +e
  exec 3>&1
  trap 'code=$?; exec >&3; say left "$code"' EXIT
  eval "$setup" >/dev/null 2>&1
  say setup "$?"
  trap - EXIT
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) && say python "$version"
nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | while read -r name; do say gpu "$name"; done
for item; do
  name=${item#program=}
  if [ "$name" != "$item" ] && command -v "$name" >/dev/null 2>&1; then say program "$name"; fi
done
"""


def options(site: Cluster) -> list[str]:
    """sbatch's and srun's options of a job on one node of the site, as the job's script has them."""
    gres = f"{site.gres}:{site.gpus_per_node}" if site.gres else None
    values = {
        **{name: getattr(site, name) for name in ("partition", "account", "qos", "reservation", "constraint")},
        **{"nodelist": site.nodelist, "exclude": site.exclude, "gres": gres, "mem": site.mem, "time": site.time_limit},
    }
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def test_only(site: Cluster) -> Iterator[Check]:
    """Ask Slurm whether it would take the job. What it refuses for a reason of its own is a fault."""
    own = ["--nodes=1", f"--ntasks-per-node={site.gpus_per_node}", *(["--exclusive"] if site.exclusive else [])]
    more = [f"--cpus-per-task={site.cpus_per_task}"] if site.cpus_per_task else []
    result = call(["sbatch", "--test-only", *own, *more, *options(site), *site.sbatch_options, "--wrap=true"])
    text = " ".join((result.stderr or result.stdout).split())
    if result.returncode == 0:
        yield ok("sbatch --test-only", text.removeprefix("sbatch: "))
        yield from _step_options(site)
    else:
        detail = text.removeprefix("sbatch: error: ").removeprefix("allocation failure: ")
        yield fault("gres" if "(gres)" in detail else "sbatch --test-only", detail)


def _step_options(site: Cluster) -> Iterator[Check]:
    """Options of a step that srun does not know: sbatch does not see them, and the job would end at its first step."""
    bind = [f"--cpu-bind={site.binding.cpu_bind}"] if site.binding.cpu_bind else []
    for key, words in (("srun_options", [*site.srun_options]), ("binding.cpu_bind", bind)):
        if words:
            result = call(["srun", "--test-only", "--nodes=1", "--ntasks=1", *options(site), *words, "true"])
            text = " ".join(result.stderr.split())
            if result.returncode and any(word in text for word in UNKNOWN_OPTION):
                yield fault(key, text.removeprefix("srun: ").removeprefix("error: "))


def node_checks(site: Cluster, wait_s: int) -> Iterator[Check]:
    """Run a script of a few seconds on a node (here for the local scheduler), and compare."""
    try:
        facts = _probe(site, wait_s)
    except BenchrunError as error:
        yield Check("a node", "not_checked", error.message, "again when a node is free, or with --wait SECONDS")
        return
    yield ok("a node", facts["host"][0])
    yield from _files(site, facts)
    yield from _programs(site, facts)
    yield from _gpus(site, facts)


def _probe(site: Cluster, wait_s: int) -> dict[str, list[str]]:
    """Key -> values that the script printed, with the clock here before and after. MachineError if it did not run."""
    root = paths.runs_dir().absolute()
    marker = root / f".doctor-{secrets.token_hex(4)}"
    asked = [*(f"path={path}" for path in files(site)), *(f"program={name}" for name in programs(site))]
    script = ["bash", "-c", SCRIPT, "probe", str(marker), site.python, "\n".join(site.setup), *asked]
    where = []
    if site.scheduler == "slurm":
        one = [option for option in options(site) if not option.startswith("--time=")]
        step = ["--nodes=1", "--ntasks=1", "--time=00:05:00", f"--immediate={wait_s}", "--job-name=doctor"]
        where = ["srun", *step, *one]
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    try:
        marker.touch()
        before = time.time()
        result = call([*where, *script], timeout_s=wait_s + START_S)
        after = time.time()
    finally:
        marker.unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
    return answers(result.stdout, result.stderr) | {"before": [str(before)], "after": [str(after)]}


def answers(text: str, errors: str = "") -> dict[str, list[str]]:
    """What the script printed; MachineError where it printed nothing."""
    facts: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, tab, value = line.partition("\t")
        if tab:
            facts.setdefault(key, []).append(value)
    if "host" not in facts:
        raise MachineError(f"no step ran on a node: {' '.join(errors.split())[:200] or 'srun gave no output'}")
    return facts


def files(site: Cluster) -> dict[str, str]:
    """Path that must exist on a node -> key of the site file."""
    images = {f"container.images.{name}": image for name, image in site.container.images.items()}
    images |= {"container.image": site.container.image} if site.container.image else {}
    named = {image: key for key, image in images.items() if image.startswith("/")}
    named |= {mount.split(":")[0]: "container.mounts" for mount in site.container.mounts}
    if site.container.runtime == "none":
        for name, installed in site.frameworks.items():
            named |= {path: f"frameworks.{name}.path" for path in (installed.path or "").split(":") if path}
            if installed.python and installed.python.startswith("/"):
                named[installed.python] = f"frameworks.{name}.python"
    return named


def programs(site: Cluster) -> list[str]:
    """Programs that a node must have for the container runtime."""
    runtime = site.container.runtime
    return [] if runtime in ("none", "pyxis") else [RUNTIMES[runtime][0]]


def _files(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    if facts["runs"] != ["yes"]:
        hint = "set BENCHRUN_RESULTS to a folder that the nodes share"
        yield fault("runs folder", f"{facts['host'][0]} does not see {paths.runs_dir().absolute()}", hint)
    for path, key in files(site).items():
        if path in facts.get("empty", ()) and key.startswith("container.image"):
            yield fault(
                key, f"{path} is empty on {facts['host'][0]}", "an image file, or the folder of an unpacked image"
            )
        elif path in facts.get("path", ()):
            yield ok(key, path)
        else:
            yield fault(key, f"{path} does not exist on {facts['host'][0]}", "a path that every node has")
    low, high, clock = (float(facts[key][0]) for key in ("before", "after", "clock"))
    difference = max(low - 1 - clock, clock - high, 0.0)
    if difference > CLOCK_S:
        detail = f"the clock of {facts['host'][0]} differs by {difference:.0f} s"
        yield Check("clock", "fault", detail, "synchronise both", Exit.MACHINE)


def _programs(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    """The site's setup, and what is there after it."""
    if "left" in facts:
        yield fault("setup", f"it ends the job with exit code {facts['left'][0]} on {facts['host'][0]}")
        return
    if facts.get("setup", ["0"]) != ["0"]:
        yield fault("setup", f"it ends with exit code {facts['setup'][0]} on {facts['host'][0]}")
        return
    for name in programs(site):
        if name in facts.get("program", ()):
            yield ok("container.runtime", f"{name} is on the node")
        else:
            hint = "another container.runtime, or its module in setup"
            yield fault("container.runtime", f"{facts['host'][0]} has no {name}", hint)
    if site.container.runtime == "none":
        version = facts.get("python", [None])[0]
        if version is None:
            yield fault("python", f"{facts['host'][0]} cannot run {site.python}", "the interpreter that has PyTorch")
        else:
            yield ok("python", f"{site.python}, {version}")


def _gpus(site: Cluster, facts: dict[str, list[str]]) -> Iterator[Check]:
    devices = facts.get("gpu", [])
    if site.gpu == "CPU" or not devices:
        return
    name = hardware.name_of(devices[0])
    if name and hardware.chip(name) != hardware.chip(site.gpu):
        yield fault("gpu", f"{facts['host'][0]} has {devices[0]}, the file has {site.gpu}", f"gpu: {name}")
    elif len(devices) < site.gpus_per_node:
        yield fault("gpus_per_node", f"a job sees {len(devices)} GPUs, not {site.gpus_per_node}")
    else:
        yield ok("gpu", f"{len(devices)} x {devices[0]}")


def login_checks(site: Cluster, environment: Mapping[str, str], pyxis: bool) -> Iterator[Check]:
    """What this machine shows: secrets of the shell, pyxis in srun, the runs folder."""
    for name in site.secrets:
        if not environment.get(name):
            yield fault("secrets", f"{name} is not set in this shell", f"export {name}=...")
    if site.container.runtime == "pyxis":
        if pyxis:
            yield ok("container.runtime", "srun has --container-image")
        else:
            hint = "pyxis is not installed here; another container.runtime"
            yield fault("container.runtime", "srun has no --container-image", hint)
    root = paths.runs_dir().absolute()
    parent: Path = next(folder for folder in (root, *root.parents) if folder.exists())
    yield ok("runs folder", f"{root}, on {parent}")
