"""benchrun, called as its users call it: the command line, inside this process."""

import contextlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .truth import Given

FLAGS = {
    "recipe": "--recipe",
    "gpu": "--gpu",
    "precision": "--precision",
    "num_gpus": "--num-gpus",
    "seq_length": "--seq-length",
    "gbs": "--gbs",
}


@dataclass(frozen=True)
class Answer:
    """What benchrun said: exit code, the JSON documents, stderr."""

    code: int
    documents: tuple[dict[str, Any], ...]
    stderr: str


def options(given: Given) -> list[str]:
    """The options of the command line."""
    found: list[str] = []
    for name, value in asdict(given).items():
        if value is not None:
            found += [FLAGS[name], str(value)]
    return found


def parse(path: Path, given: Given) -> Answer:
    """`benchrun parse PATH --json` with the options of ``given``."""
    return _run("parse", path, given)


def compare(path: Path, given: Given) -> Answer:
    """`benchrun compare PATH --json` with the options of ``given``, a recipe among them."""
    return _run("compare", path, given)


def _run(verb: str, path: Path, given: Given) -> Answer:
    from benchrun.cli import main

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([verb, str(path), "--json", *options(given)])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return Answer(int(code or 0), _documents(out.getvalue()), err.getvalue())


def _documents(text: str) -> tuple[dict[str, Any], ...]:
    """The runs on stdout: one object, an array, or nothing."""
    if not text.strip():
        return ()
    found = json.loads(text)
    return tuple(found) if isinstance(found, list) else (found,)
