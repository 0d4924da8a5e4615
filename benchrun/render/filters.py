"""Jinja filters that write models, such as groups of the Megatron configuration, as
flags, Python keywords or YAML.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup
from pydantic import BaseModel

from benchrun.runspec.megatron import TUPLE, is_torch_type

Group = BaseModel | Mapping[str, Any]
Groups = Group | Iterable[Group | None]
OF_MEGATRON = ("squared_relu", "quick_gelu")
"""Activations of megatron.core; the others are torch's."""
LONGEST_LINE = 110
"""Columns of a line of flags."""


def flags(groups: Groups, *names: str, **renamed: str) -> Markup:
    """Command-line flags: ``--num-layers 32``. True is the flag alone, false and None
    are nothing.
    """
    chosen = _chosen(groups, names, renamed).items()
    stated = (
        (name.replace("_", "-"), value)
        for name, value in chosen
        if value is not None and value is not False
    )
    return _wrapped(
        f"--{name}" + ("" if value is True else f" {shlex.quote(str(value))}")
        for name, value in stated
    )


def kwargs(groups: Groups, *names: str, **renamed: str) -> Markup:
    """Python keyword arguments, one per line, each with its comma."""
    return Markup(
        "\n".join(
            f"{n}={_python(n, value)}," for n, value in _chosen(groups, names, renamed).items()
        )
    )


def yaml(groups: Groups, *names: str, **renamed: str) -> Markup:
    """Keys and values of a YAML flow mapping, each with its comma."""
    return _wrapped(
        f"{name}: {yaml_literal(value)}," for name, value in _chosen(groups, names, renamed).items()
    )


def _wrapped(words: Iterable[str]) -> Markup:
    """Lines of words, indented by two spaces from the second on."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > LONGEST_LINE:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return Markup("\n  ".join(lines))


def yaml_literal(value: Any) -> str:
    """JSON, which YAML reads too, except one thing: to YAML 1.1 a number like 1e-05 is
    text, and 1.0e-05 is not.
    """
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        if exponent and "." not in mantissa:
            return f"{mantissa}.0e{power}"
        return repr(value)
    return json.dumps(value)


def _chosen(groups: Groups, names: tuple[str, ...], renamed: dict[str, str]) -> dict[str, Any]:
    """The values that are named, ``new="old"`` under a new name; with ``*`` or no name
    at all, all others too.
    """
    values: dict[str, Any] = {}
    for group in [groups] if isinstance(groups, (BaseModel, Mapping)) else groups:
        values |= dict(group or {})
    new_names = {old: new for new, old in renamed.items()}
    everything = names == ("*",) or not (names or renamed)
    found = {}
    for old in values if everything else (*names, *new_names):
        found[new_names.get(old, old)] = values[old]
    return found


def _python(name: str, value: Any) -> str:
    if is_torch_type(name):
        return f"torch.{value}"
    if name == "activation_func":
        if value in OF_MEGATRON:
            return str(value)
        return f"torch.nn.functional.{value}"
    return repr(tuple(value) if name == TUPLE else value)
