"""The calls of a recording: every verb, on every recipe and on every input."""

from collections.abc import Iterator
from pathlib import Path

from .calls_on_points import Words, point_calls
from .calls_on_runs import run_calls
from .inputs import said
from .recording import Argv, verb_of

VERBS = (
    *(
        "list",
        "show",
        "render",
        "predict",
        "launch",
        "study",
        "plan",
        "verify",
        "profile",
        "status",
    ),
    *("cancel", "parse", "compare", "report", "fingerprint", "explain", "diff", "nodes", "doctor"),
    *("site", "images", "completion"),
)
BENCHRUN = "benchrun"


def all_calls(inputs: Path) -> list[Argv]:
    """Every call once, those of a verb together."""
    rows = said(inputs, "list", "--json")
    words = [*_helps(), *point_calls(rows), *run_calls(inputs), *_wrong()]
    calls = [(BENCHRUN, *each) for each in words] + [("datagen", *each) for each in _datagen()]
    return sorted(dict.fromkeys(calls), key=verb_of)


def _helps() -> Iterator[Words]:
    yield from (["--help"], ["--version"])
    yield from ([verb, "--help"] for verb in VERBS)


def _datagen() -> Iterator[Words]:
    yield from (
        ["--help"],
        ["tokens", "--help"],
        ["sft", "--help"],
        ["tokenizer", "--help"],
        ["inspect", "--help"],
    )
    small = ["--tokens", "20000", "--vocab-size", "1000", "--workers", "1"]
    for lengths in ("fixed", "lognormal", "zipf"):
        yield [
            "tokens",
            "--output",
            "new",
            *small,
            "--documents",
            lengths,
            "--mean-length",
            "64",
            "--json",
        ]
    yield ["tokens", "--output", "new", *small, "--distribution", "uniform", "--shards", "2"]
    yield ["tokens", "--output", "new", *small, "--learnable", "--json"]
    for form in ("dolly", "chat", "packed"):
        yield [
            "sft",
            "--output",
            "new",
            "--samples",
            "50",
            "--format",
            form,
            "--workers",
            "1",
            "--json",
        ]
    yield ["tokenizer", "--output", "words", "--vocab-size", "2000", "--json"]
    yield from (
        ["inspect", "runs"],
        ["inspect", "data/tokens"],
        ["inspect", "data/tokens", "--json"],
    )
    sized = ["--samples=20", "--seq-length=64", "--vocab-size=300", "--seed=2"]
    yield ["tokens", "--output=new", *sized]
    lengths = ["--lengths=zipf", "--mean-length=40", "--seed=3", "--language=2"]
    yield ["sft", "--output=new", "--samples=30", *lengths, "--json"]
    packed = ["--format=packed", "--seq-length=256", "--vocab-size=500"]
    yield ["sft", "--output=new", "--samples=10", *packed, "--json"]
    yield from (["inspect", "data/chat", "--document", "3"], ["inspect", "data/words", "--json"])


def _wrong() -> Iterator[Words]:
    """Wrong input: the message and the exit code."""
    yield from (
        [],
        ["lst"],
        ["show", "llama3"],
        ["show", "llama3.1-8b"],
        ["show", "llama3.1-8b", "--gpu", "H1000"],
    )
    point = ["llama3.1-8b", "--gpu=H100", "--precision=bf16", "--num-gpus=8"]
    for setting in (
        "layout.tp=3",
        "mbs=3",
        "no.such=1",
        "training.steps=-1",
        "cluster.container.runtime=lxc",
    ):
        yield ["show", *point, "--set", setting]
    yield from (
        ["parse", "no-such.log"],
        ["parse", "site.yaml"],
        ["compare", "site.yaml"],
        ["compare", "no-run"],
    )
    yield from (
        ["explain", "no-run"],
        ["diff", "site.yaml"],
        ["fingerprint", "site.yaml"],
        ["verify", "no-pack"],
    )
    yield from (
        ["predict"],
        ["predict", *point, "--num-gpus", "0"],
        ["study", "no-study"],
        ["plan", "no-plan"],
    )
    yield from (
        ["nodes"],
        ["report", "no-run"],
        ["report", "runs", "--output", "x.zip"],
        ["status", "no-run"],
    )
