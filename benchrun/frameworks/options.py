"""Arguments of frameworks, and what each does to the work of a step: `options.csv`,
read from their sources.

``inert`` changes speed, placement or logging, but not the FLOPs of the model.
``understood`` is a fact that a dialect reads. ``part`` belongs to a part of the model
that `benchrun.measure.parts` counts. ``work`` changes the FLOPs and is not understood.
``usual`` lists values that leave the work as it is, beside the usual words for "off".
The rows of family ``word`` judge a name that no source has, as of a fork or a newer
release.
"""

import functools
import re
from typing import NamedTuple

from benchrun.logs.records import Facts
from benchrun.paths import table

OFF = frozenset({"", "none", "null", "false", "0", "0.0", "no", "-1", "off", "disabled"})
"""Words for "not used", in small letters."""
BELOW = "[...]"
"""The value of an argument that stands on the lines after its name, as YAML writes
lists and mappings: it is not read, and never means "not used", because empty ones stand
beside their name.
"""
_WORD = re.compile(r"[\w.+-]+")


class Option(NamedTuple):
    """One argument."""

    effect: str
    usual: frozenset[str]


UNLISTED = Option("work", frozenset())


@functools.cache
def options(family: str) -> dict[str, Option]:
    """The arguments of one family of frameworks, by name."""
    rows = (row for row in table(__file__) if row["family"] == family)
    found = {}
    for row in rows:
        found[row["option"]] = Option(row["effect"], frozenset(row["usual"].lower().split("|")))
    return found


def names(family: str, *effects: str) -> tuple[str, ...]:
    """The arguments of ``family`` that have one of these effects."""
    return tuple(name for name, option in options(family).items() if option.effect in effects)


def take_option(family: str, name: str, value: str, facts: Facts) -> None:
    """Add an argument to ``facts.options`` if it is a part of the model, or changes the
    work unknown to us.
    """
    option = options(family).get(name) or _unlisted(name)
    if option.effect not in ("part", "work"):
        return
    stated = facts.options or {}
    if value == BELOW and not is_off(stated.get(name, ""), option.usual):
        return  # another line has the value itself
    used = not is_off(value, option.usual)
    if used or (option.effect == "part" and name not in stated):
        facts.add_options({name: value})


def is_off(value: str, usual: frozenset[str] = frozenset()) -> bool:
    """Whether ``value`` means that an argument is not used; of a list, whether every
    word in it does.
    """
    text = value.strip().strip("'\"").lower()
    if text in OFF or text in usual:
        return True
    if text[:1] not in "[({":
        return False
    words = _WORD.findall(text)
    named = [word for word in words if not word.isdigit()]  # [['global'], 24]: of 24 layers
    return all(word in OFF or word in usual for word in named or words)


def _unlisted(name: str) -> Option:
    """The option of a name that no source has, by its words: inert if one says so and
    none is of a model.
    """
    effects = set()
    for word, option in options("word").items():
        if word in name.lower().split("_"):
            effects.add(option.effect)
    if effects == {"inert"}:
        return Option("inert", frozenset())
    return UNLISTED
