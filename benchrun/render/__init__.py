"""RunSpec -> the text of every file a job needs. Pure: no clock, no environment, no
path of this machine.
"""

import functools
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from benchrun import __version__, paths
from benchrun.frameworks.registry import framework
from benchrun.rundir.artifacts import (
    CONTAINER_SCRIPT,
    HANG_SCRIPT,
    JOB,
    PROBE_SCRIPT,
    PROFILE,
    PROFILE_SCRIPT,
    SPEC,
    TELEMETRY_SCRIPT,
)
from benchrun.runspec.cluster import Cluster
from benchrun.runspec.image_names import is_path
from benchrun.runspec.profile import PROFILES
from benchrun.runspec.spec import RunSpec

from . import filters

_RANK = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE")


def render(spec: RunSpec) -> dict[str, str]:
    """Text of each file by name: job script, ``spec.json``, probe, and what GPUs,
    runtime and framework need.
    """
    scripts = [PROBE_SCRIPT]
    if spec.cluster.container.runtime in ("podman", "docker"):
        scripts.append(CONTAINER_SCRIPT)
    if spec.gpu != "CPU":
        scripts.append(TELEMETRY_SCRIPT)
    if spec.cluster.step_deadline_s:
        scripts.append(HANG_SCRIPT)
    return {
        JOB: _text(f"job-{spec.cluster.scheduler}.sh.j2", spec),
        SPEC: spec.model_dump_json(indent=2) + "\n",
        **{name: (paths.TEMPLATES / name).read_text(encoding="utf-8") for name in scripts},
        **(
            {PROFILE_SCRIPT: _text(f"{PROFILE_SCRIPT}.j2", spec)} if spec.profiler == "nsys" else {}
        ),
        **{name: _text(f"frameworks/{name}.j2", spec) for name in framework(spec.framework).files},
    }


def check_script(cluster: Cluster, words: Sequence[str]) -> str:
    """The job by which the doctor asks a node of ``cluster``; ``words``: a script in
    its folder, with arguments.
    """
    template = _environment("sh", paths.TEMPLATES).get_template("doctor.sh.j2")
    script, *arguments = words or ("true",)
    return template.render(cluster=cluster, script=script, words=arguments)


def _text(template: str, spec: RunSpec) -> str:
    launched = framework(spec.framework)
    values = {
        **launched.configuration(spec),
        "spec": spec,
        "cluster": spec.cluster,
        "container": spec.cluster.container,
        "image": image_for(spec),
        "mounts": list(map(mount_of, spec.cluster.container.mounts)),
        "inside_env": inside_env(spec),
        "framework": launched,
        "source": launched.source(spec.cluster),
        "python": launched.installed(spec.cluster).python or spec.cluster.python,
        "all_steps": launched.all_steps(spec),
        "profiler": spec.profiler,
        "launched": launched.statement(spec),
        "step_words": launched.step_words(spec),
        "profiles": PROFILES.format(spec.planned_steps),
        "profile_folder": PROFILE,
        "why": {
            name: var.why
            for name, var in launched.environment(spec).items()
            if name not in spec.cluster.env
        },
        "version": __version__,
        "reaper": (paths.TEMPLATES / "parts" / "reap.py").read_text(encoding="utf-8"),
    }
    language = template.removesuffix(".j2").rpartition(".")[2]
    return _environment(language, launched.folder).get_template(template).render(values)


def image_for(spec: RunSpec) -> str | None:
    """The image as the cluster's runtime expects it.

    enroot separates registry and name by ``#`` (``nvcr.io#nvidia/nemo:25.07``);
    apptainer and singularity take a ``docker://`` address; charliecloud, podman and
    docker take the name as it is; paths stay as they are.
    """
    image = spec.image
    runtime = spec.cluster.container.runtime
    if image is None or is_path(image):
        return image
    if runtime == "pyxis":
        registry, slash, rest = image.partition("/")
        if slash and "." in registry:
            return f"{registry}#{rest}"
        return image
    if runtime not in ("apptainer", "singularity"):
        return image
    return f"docker://{image}"


def mount_of(text: str) -> dict[str, str | bool]:
    """The parts of ``source:target`` or ``source:target:ro``."""
    source, target, *flags = text.split(":")
    return {"source": source, "target": target, "readonly": flags == ["ro"]}


def unmountable(runtime: str) -> str:
    """Characters at which the runtime's own syntax for mounts would split a path."""
    both = dict.fromkeys(("pyxis", "apptainer", "singularity"), ":,") | dict.fromkeys(
        ("podman", "docker"), ',"'
    )
    return {**both, "charliecloud": ":"}.get(runtime, "")


def inside_env(spec: RunSpec) -> tuple[str, ...]:
    """Names of the variables that a rank needs inside the container."""
    launched = framework(spec.framework)
    data = ("BENCHRUN_DATA",) if spec.reads_files else ()
    # Only if the ranks import this package: the image may set a PYTHONPATH for its
    # framework (NeMo's Dockerfile.ci does), and the submitting shell's would replace
    # it.
    path = (
        ("PYTHONPATH",)
        if spec.cluster.container.runtime != "pyxis" and (launched.ships(spec) or data)
        else ()
    )
    slurm = launched.rank_variables if spec.cluster.scheduler == "slurm" else ()
    pipe = ("BENCHRUN_PIPE",) if spec.cluster.container.runtime in ("podman", "docker") else ()
    return (*_RANK, *pipe, *path, *slurm, *data, *sorted(spec.env), *spec.cluster.secrets)


@functools.cache
def _environment(language: str, folder: Path) -> jinja2.Environment:
    """Jinja that writes every ``{{ value }}`` as a literal of the file's language.

    Autoescape marks the results of macros and includes as Markup; ``finalize`` quotes
    every value that is not Markup, so no value of a recipe reaches a file unquoted.
    """
    literal = _LITERAL[language]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([paths.TEMPLATES, folder]),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=lambda value: (
            value if isinstance(value, (Markup, jinja2.Undefined)) else Markup(literal(value))
        ),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"comment": _comment, "flag": _flag, "header": _header, "shell": Markup}
    environment.filters |= {"flags": filters.flags, "kwargs": filters.kwargs, "yaml": filters.yaml}
    return environment


_LITERAL: dict[str, Callable[[Any], str]] = {
    "sh": lambda value: shlex.quote(str(value)),
    "yaml": filters.yaml_literal,
    "yml": filters.yaml_literal,
    "py": repr,
}


def _comment(value: Any) -> Markup:
    """Text of one line, for a comment."""
    return Markup(" ".join(str(value).split()))


def _header(value: Any, name: str = "") -> Markup:
    """An option of an #SBATCH line, if a backslash escapes inside any quotes."""
    option = f"--{name}={value}" if name else str(value)
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return Markup(option if shlex.quote(option) == option else f'"{escaped}"')


def _flag(value: Any, name: str) -> Markup:
    """``--name=value``, quoted as one word."""
    return Markup(shlex.quote(f"--{name}={value}"))
