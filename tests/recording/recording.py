"""A recording on disk: inputs, one file of answers a verb, and how it was made."""

import contextlib
import gzip
import json
import multiprocessing
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast

from .perform import TREE, Answer, Workplace

INPUTS = "inputs"
ABOUT = "recording.json"
ENDING = ".jsonl.gz"
CHUNK = 20
"""Calls that a process takes at a time: neighbours share what the program caches."""

Argv = tuple[str, ...]
_places: list[Workplace] = []
"""The folder of this process, where it is one of several."""


def verb_of(argv: Argv) -> str:
    """The verb of a call: `benchrun site init` -> `site`, `datagen tokens` -> `datagen-tokens`."""
    word = argv[1].lstrip("-") if len(argv) > 1 else "help"
    return word if argv[0] == "benchrun" else f"{argv[0]}-{word}"


def commit() -> str:
    """The commit of the tree, with `+` where files differ from it."""

    def git(*words: str) -> str:
        return subprocess.check_output(["git", *words], cwd=TREE, text=True).strip()

    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")


def record(calls: Sequence[Argv], inputs: Path, processes: int = 1) -> Iterator[Answer]:
    """The answers to ``calls``, in their order."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="recording-") as name:
        arguments = (inputs.resolve(), Path(name).resolve())
        with ProcessPoolExecutor(processes, context, _begin, arguments) as pool:
            yield from pool.map(_answer, calls, chunksize=CHUNK)


def _begin(inputs: Path, folder: Path) -> None:
    """Make the folder of this process. All names are equally long: no table becomes wider."""
    _places.append(Workplace(inputs, Path(tempfile.mkdtemp(dir=folder)) / "work"))


def _answer(argv: Argv) -> Answer:
    return _places[0].answer(argv)


Costs = dict[str, Any]
"""Verb -> number of calls, CPU seconds and the longest one."""


def write(folder: Path, answers: Iterable[Answer], known: Costs | None = None) -> Costs:
    """Add the answers to a recording, whose costs so far are ``known``; returns all costs."""
    costs = {**(known or {})}
    with contextlib.ExitStack() as open_files:
        files: dict[str, IO[str]] = {}
        for answer in answers:
            verb = verb_of(answer.argv)
            if verb not in files:
                files[verb] = open_files.enter_context(_file(folder, verb))
                costs.setdefault(verb, {"calls": 0, "cpu_s": 0.0, "longest_s": 0.0, "longest": ""})
            document = asdict(answer)
            _add(costs[verb], answer.argv, document.pop("cpu_s"))
            files[verb].write(json.dumps(document) + "\n")
    return dict(sorted(costs.items()))


def _file(folder: Path, verb: str) -> IO[str]:
    path = folder / f"{verb}{ENDING}"
    return cast(IO[str], gzip.open(path, "at", encoding="utf-8", compresslevel=4))


def _add(cost: dict[str, Any], argv: Argv, seconds: float) -> None:
    """Count one more call."""
    cost["calls"] += 1
    cost["cpu_s"] = round(cost["cpu_s"] + seconds, 3)
    if seconds > cost["longest_s"]:
        cost |= {"longest_s": round(seconds, 3), "longest": " ".join(argv)}


def recorded_verbs(folder: Path) -> list[str]:
    """The verbs of a recording."""
    return sorted(path.name.removesuffix(ENDING) for path in folder.glob(f"*{ENDING}"))


def recorded_calls(folder: Path) -> list[Argv]:
    """Every call of a recording."""
    return [argv for verb in recorded_verbs(folder) for argv in read(folder, verb)]


def read(folder: Path, verb: str) -> dict[Argv, dict[str, Any]]:
    """The answers of one verb, by their call; none where the verb was not recorded."""
    path = folder / f"{verb}{ENDING}"
    if not path.exists():
        return {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    return {tuple(document.pop("argv")): document for document in documents}
