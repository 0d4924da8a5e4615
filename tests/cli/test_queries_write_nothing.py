"""A question changes no file: every verb that answers one, with every option, over copies of runs and logs.

The verbs and options come from the command line itself, so that a new one is tried, or fails here until it has a value.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import kept_runs
import pytest

from benchrun.cli import group, main

ROOT = Path(__file__).parents[2]
KEPT = ("llama3.1-8b-a2638520-20261122T173416Z-0a93", "llama3.1-8b-b974eae2-20261124T204201Z-ddf2")
LOG = "07-megatron-core-2026-15it-seq8192.log.xz"
TRACE = ROOT / "tests/capabilities/traces/traces/h200_llama_tp2_pp2_bf16"
WRITERS = {"cancel", "doctor", "site init"}
"""Verbs that end jobs, start one to look at a node, or write a file."""
ASKING = {
    "launch": ("--dry-run",),
    "profile": ("--dry-run",),
    "study": ("--dry-run", "--report"),
    "plan": ("--dry-run", "--report"),
    "nodes": ("--dry-run",),
}
"""Verbs that start jobs -> the flags with which they only answer."""
OUTPUTS = {"--output", "--plot", "--html", "--keep", "--pack", "--register"}
"""Options that name a new file or folder."""
STORES = {"compare", "--keep"}
"""These store the verdict of a run in the user's own results, as their help says, and of no other run."""
POINT = ["--gpu", "H100", "--precision", "bf16", "--num-gpus", "8"]
HUGGING_FACE = {
    "model_type": "qwen2", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 8, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
"""A configuration."""
ARGUMENTS: dict[str, list[str]] = {
    "list": [],
    "show": ["llama3.1-8b", *POINT],
    "render": ["llama3.1-8b", *POINT],
    "predict": ["llama3.1-8b", *POINT],
    "verify": ["RUNS"],
    "status": [],
    "parse": ["LOG"],
    "compare": ["RUN"],
    "report": ["RUN"],
    "fingerprint": ["TRACE"],
    "explain": ["RUN"],
    "diff": ["RUN", "OTHER"],
    "images": [],
    "completion": ["bash"],
    "launch": ["tiny-llama", "--precision", "fp32", "--num-gpus", "2"],
    "profile": ["llama3.1-8b", *POINT],
    "study": ["tiny", "--cluster", "slurm-cpu"],
    "plan": ["tiny", "--cluster", "slurm-cpu"],
    "nodes": ["slurm-cpu", "--num-nodes", "2"],
    "recipe from-hf": ["CONFIG"],
    "audit": ["RUNS"],
}
"""Verb -> what it is called with, besides one option."""
VALUES: dict[str, list[str]] = {
    "--kernels": ["matmul"],
    "--gpu": ["H100"],
    "--precision": ["bf16"],
    "--num-gpus": ["8"],
    "--framework": ["megatron-lm"],
    "--cluster": ["local"],
    "--set": ["training.steps=20"],
    "--recipe": ["llama3.1-8b"],
    "--seq-length": ["8192"],
    "--gbs": ["128"],
    "--peak-tflops": ["989"],
    "--warmup": ["0", "3"],
    "--steps": ["csv", "NEW.csv", "LOG"],
    "--tool": ["kineto"],
    "--repeats": ["2"],
    "--retries": ["1"],
    "--concurrency": ["2"],
    "--price-per-gpu-hour": ["3"],
    "--vary": ["mbs=1,2"],
    "--name": ["another"],
    "--pack": ["NEW"],
    "--num-nodes": ["3"],
    "--run": ["RUN"],
    "--profile": ["kineto"],
    "--metric": ["step_time_s"],
    "--num-layers": ["4"],
    "--baseline": ["OTHER", "RUNS"],
    "--format": ["json", "html", "junit", "csv", "markdown", "prometheus"],
    "--by": ["framework"],
    "--output": ["NEW.json", "NEW", "LOG"],
    "--plot": ["NEW.svg", "LOG"],
    "--html": ["NEW.html", "LOG"],
    "--keep": ["NEW"],
    "--trace": ["RUN"],
    "--dumps": ["RUN"],
    "--window": ["device", "steps"],
    "--scaling": ["weak"],
    "--tokens": ["15T"],
    "--sacct": ["LOG"],
    "--since": ["2020-01-01"],
    "--until": ["2099-01-01"],
    "--verdict": ["pass"],
    "--serve": ["/models/mine"],
    "--price": ["3"],
    "--power": ["700"],
    "--calibrate": ["RUN"],
    "--csv": ["LOG"],
    "--register": ["NEW", "LOG"],
    "--check": ["LOG"],
    "--plan": ["LOG"],
    "--last": ["2"],
    "--state": ["completed"],
    "--exclude": ["node1"],
    "--max-gpus": ["8"],
}
"""Option -> values that are tried; a flag needs none."""
TOGETHER = {"--published": ["--max-gpus", "1", "--gpu", "CPU"]}
"""Flag -> the options that it needs."""
SLOW = {"--follow", "--watch"}
"""Flags that wait for more to come."""


def verbs(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from verbs(found, (*path, name))


def calls() -> Iterator[list[str]]:
    """Each verb that answers, alone and with each of its options."""
    for verb, command in verbs(group):
        if verb in WRITERS:
            continue
        for flag in ASKING.get(verb, ("",)):
            words = [*verb.split(), *ARGUMENTS[verb], *([flag] if flag else [])]
            yield words
            yield from ([*words, *option] for option in options(command) if option != [flag])


def options(command: click.Command) -> Iterator[list[str]]:
    """Each option of a verb, with each value that is tried."""
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        name = next(each for each in option.opts if each.startswith("--"))
        if name not in SLOW and not (option.is_flag or option.count):
            yield from ([name, value] for value in VALUES[name])
        elif name not in SLOW:
            yield [name, *TOGETHER.get(name, [])]


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Each file and folder: when it was changed, and what it holds."""
    found = {}
    for path in folder.rglob("*"):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (path.stat().st_mtime_ns, content)
    return found


def exit_code(words: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two judged runs and a log."""
    folder = tmp_path_factory.mktemp("queries")
    for name in KEPT:
        shutil.copytree(kept_runs.folder(name), folder / "runs" / name)
    shutil.copy(ROOT / "tests/logs" / LOG, folder / "runs" / LOG)
    (folder / "runs" / "config.json").write_text(json.dumps(HUGGING_FACE))
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)  # root may write all the same: the trees are compared
    return folder


CALLS = list(calls())
PLAIN = [[*verb.split(), *words] for verb, words in ARGUMENTS.items() if verb not in ASKING]
PLAIN += [[verb, *ARGUMENTS[verb], flag] for verb, flags in ASKING.items() for flag in flags]


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_no_file_changes(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    runs = here / "runs"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path / "none" if STORES & {*words} else here))
    names = {"RUN": runs / KEPT[0], "OTHER": runs / KEPT[1], "RUNS": runs, "LOG": runs / LOG}
    names |= {"TRACE": TRACE, "CONFIG": runs / "config.json"}
    filled = [str(names.get(word, word.replace("NEW", str(tmp_path / "new")))) for word in words]
    before = tree(here)
    code = exit_code(filled)
    assert tree(here) == before
    if words in PLAIN:
        assert code != 2
    if not {*OUTPUTS, "--steps"} & {*words}:
        assert not list(tmp_path.iterdir())
    elif words[-1] == "LOG":
        assert code == 2


def test_a_what_if_leaves_the_stored_verdict(here: Path, tmp_path: Path) -> None:
    run = tmp_path / KEPT[0]
    shutil.copytree(here / "runs" / KEPT[0], run)
    exit_code(["compare", str(run)])
    before = tree(run)
    for what_if in (["--warmup", "0"], ["--baseline", str(here / "runs" / KEPT[1])]):
        exit_code(["compare", str(run), *what_if])
        assert tree(run) == before
