"""RunSpec -> the text of every file a job needs. Pure: no clock, no environment, no path of this machine."""

from __future__ import annotations

import functools
import shlex
from typing import Any

import jinja2
from markupsafe import Markup

from benchrun import __version__, paths
from benchrun.errors import UserError
from benchrun.recipe.environment import WHY
from benchrun.recipe.spec import RunSpec
from benchrun.render.containers import image_for, inside_env


def render(spec: RunSpec) -> dict[str, str]:
    """Files by name: ``job.sh`` (submit it, or run it where the scheduler is local), ``probe.sh``, ``spec.json``."""
    template = f"job-{spec.cluster.scheduler}.sh.j2"
    return {
        "job.sh": _text(template, spec),
        "probe.sh": _text("probe.sh.j2", spec),
        "spec.json": spec.model_dump_json(indent=2) + "\n",
    }


def _text(template: str, spec: RunSpec) -> str:
    values = {
        "spec": spec,
        "cluster": spec.cluster,
        "container": spec.cluster.container,
        "image": image_for(spec),
        "inside_env": inside_env(spec),
        "why": WHY,
        "version": __version__,
    }
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> jinja2.Environment:
    """Jinja with every ``{{ value }}`` quoted for the shell, unless a template built it itself.

    Autoescape marks what macros and includes give back as Markup; ``finalize`` sees each value before that
    and quotes what is not Markup. So nothing from a recipe reaches a script unquoted by oversight.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["comment"] = _comment
    environment.filters["flag"] = _flag
    environment.filters["shell"] = Markup
    environment.globals["refuse"] = _refuse
    return environment


def _quoted(value: Any) -> Any:
    return value if isinstance(value, (Markup, jinja2.Undefined)) else Markup(shlex.quote(str(value)))


def _comment(value: Any) -> Markup:
    """Text for a comment: it stays in its line."""
    return Markup(" ".join(str(value).split()))


def _refuse(reason: str) -> str:
    """For a template that cannot express what the recipe says."""
    raise UserError(reason)


def _flag(value: Any, name: str) -> Markup:
    """``--name=value``, quoted as one word."""
    return Markup(shlex.quote(f"--{name}={value}"))
