"""The commands."""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from benchrun.errors import UserError

from . import inspection
from . import sft as instructions
from . import tokens as megatron
from .output import Frozen, Manifest, Progress
from .tokenizer import TokenizerParameters, load_tokenizer, make_tokenizer

BAR = 40
"""Characters of the longest bar of the histogram."""

Command = Callable[..., Any]
Model = TypeVar("Model", bound=Frozen)


def count(text: Any) -> int:
    """A whole number, also written as 1e9; the models of the parameters have the
    limits."""
    if str(text).isdecimal():
        return int(text)
    with suppress(ValueError):
        if float(text) % 1 == 0:
            return int(float(text))
    raise click.BadParameter(f"{text!r} is not a whole number, such as 1000000 or 1e9")


def parameter_options(model: type[Frozen], *skipped: str) -> Callable[[Command], Command]:
    """An option for each field of ``model`` except ``skipped``, with its description,
    choices and default."""

    def add(command: Command) -> Command:
        for name, field in reversed(model.model_fields.items()):
            if name not in skipped:
                command = _option(name, field)(command)
        return command

    return add


def _option(name: str, field: FieldInfo) -> Callable[[Command], Command]:
    kind: Any = count
    if get_origin(field.annotation) is Literal:
        kind = click.Choice(get_args(field.annotation))
    elif field.annotation in (bool, float):
        kind = field.annotation
    default = None
    if not field.is_required():
        default = field.default
    return click.option(
        _flag(name),
        type=kind,
        is_flag=kind is bool,
        required=field.is_required(),
        default=default,
        show_default=default is not False,
        help=field.description,
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _prefix(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    """``path``, if its last part is a name to which suffixes can be appended, in UTF-8
    as a manifest must be."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"{str(path)!r} is not UTF-8; choose another name") from error
    if path.name in ("", ".."):
        raise click.BadParameter(
            f"{str(path)!r} has no name; give a folder and a name, such as data/llama"
        )
    return path


def _cores() -> int:
    """The number of cores that this process may use, at most eight: more would wait for
    the disk."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), 8)
    return min(os.cpu_count() or 1, 8)


PATH = click.Path(path_type=Path)
output_option = click.option(
    "--output",
    type=PATH,
    callback=_prefix,
    required=True,
    metavar="PREFIX",
    help="Path of the files without ending.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=_cores,
    help="Number of processes; the bytes do not depend on it.  [default: the cores, at most 8]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the manifest.")


@click.command("tokens")
@output_option
@click.option("--tokens", type=count, help=megatron.Parameters.model_fields["tokens"].description)
@click.option("--samples", type=count, help="Number of training samples, with --seq-length.")
@click.option("--seq-length", type=count, help="Tokens per training sample.")
@parameter_options(megatron.Parameters, "tokens")
@workers_option
@json_option
def tokens(output: Path, workers: int, as_json: bool, **parameters: Any) -> None:
    """Make a data set for Megatron: PREFIX.bin, PREFIX.idx and the manifest
    PREFIX.json.

    \b datagen tokens --output data/llama --tokens 1e9 --vocab-size 128256
    """
    samples = parameters.pop("samples")
    seq_length = parameters.pop("seq_length")
    if parameters["tokens"] is None and samples and seq_length:
        shards = max(parameters["shards"], 1)
        # The last sample of a shard needs one more token as its label, and no sample
        # lies in two shards.
        parameters["tokens"] = shards * (-(-samples // shards) * seq_length + 1)
    elif parameters["tokens"] is None or (samples, seq_length) != (None, None):
        raise UserError(
            "the size is missing or ambiguous", hint="give --tokens, or --samples and --seq-length"
        )
    chosen = _parse(megatron.Parameters, **parameters)
    _make_and_print(output, partial(megatron.make_tokens, output, chosen, workers), as_json=as_json)


@click.command("sft")
@output_option
@parameter_options(instructions.Parameters, "tokenizer")
@click.option(
    "--tokenizer",
    type=PATH,
    metavar="DIR",
    help="packed: encode the text of dolly by it, in place of --vocab-size.",
)
@workers_option
@json_option
def sft(
    output: Path, tokenizer: Path | None, workers: int, as_json: bool, **parameters: Any
) -> None:
    """Make instruction data: PREFIX.jsonl, or PREFIX.npy and PREFIX.metadata.json, and
    the manifest PREFIX.json.

    \b datagen sft --output data/training --samples 10000 --format chat datagen sft
    --output data/packed --format packed --seq-length 4096 --vocab-size 128256
    """
    if parameters["format"] == "packed":
        if parameters["seq_length"] is None:
            parameters["seq_length"] = 4096
        if parameters["vocab_size"] is None and not tokenizer:
            parameters["vocab_size"] = 32000
    checksum = None
    if tokenizer:
        checksum = load_tokenizer(tokenizer).checksum
    chosen = _parse(instructions.Parameters, tokenizer=checksum, **parameters)
    _make_and_print(
        output, partial(instructions.make_sft, output, chosen, tokenizer, workers), as_json=as_json
    )


@click.command("tokenizer")
@click.option("--output", type=PATH, required=True, metavar="DIR")
@parameter_options(TokenizerParameters)
@json_option
def tokenizer(output: Path, as_json: bool, **parameters: Any) -> None:
    """Make a tokenizer of exactly this size in DIR, for
    AutoTokenizer.from_pretrained(DIR), and its manifest.

    It has tokens for the words of `datagen sft --language SEED`, and encodes any other
    text byte by byte.

    \b datagen tokenizer --output data/tokenizer --vocab-size 128256
    """
    chosen = _parse(TokenizerParameters, **parameters)
    _make_and_print(output, lambda progress: make_tokenizer(output, chosen), as_json=as_json)


def _parse(model: type[Model], **values: Any) -> Model:
    """The parameters from the values of the options. UserError names the option of an
    invalid value."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        if first["loc"]:
            message = f"{_flag(str(first['loc'][0]))}: {message} (it is {first['input']})"
        raise UserError(message) from error


def _make_and_print(
    prefix: Path, make: Callable[[Progress], tuple[Manifest, bool]], *, as_json: bool
) -> None:
    """Call ``make`` with a progress bar on a terminal, then print the manifest, or a
    summary of two lines."""
    start = time.perf_counter()
    terminal = sys.stderr if sys.stderr.isatty() else io.StringIO()
    with click.progressbar(length=1, label=prefix.name, file=terminal) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        manifest, new = make(progress)
    seconds = time.perf_counter() - start
    if as_json:
        click.echo(json.dumps(manifest.model_dump(mode="json"), indent=1))
        return
    megabytes = sum(file.bytes for file in manifest.files) / 1e6
    state = "was there already"
    if new:
        state = f"made in {seconds:.1f} s, {megabytes / seconds:,.0f} MB/s"
    facts = ", ".join(f"{name} {fact}" for name, fact in manifest.facts.items())
    click.echo(f"{prefix}: {megabytes:,.2f} MB in {len(manifest.files)} files, {state}\n  {facts}")


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), metavar="PREFIX")
@click.option(
    "--document", type=click.IntRange(min=0), default=0, help="Number of the document to show."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def inspect(path: Path, document: int, as_json: bool) -> int:
    """Show the content of a data set and check it against its manifest.

    PREFIX is a Megatron data set or JSON lines (from any source), packed data or a
    tokenizer directory. Reads every byte. The exit code is 4 if the data changed since
    they were made.
    """
    report = inspection.inspect(path, document)
    if as_json:
        click.echo(json.dumps(report, indent=1))
    else:
        click.echo("\n".join(_lines(report)))
    if report["intact"] is False:
        return 4
    return 0


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """A line for each number and name of the report, or of the manifest if that is all;
    then the tables."""
    facts = report
    if not report["unit"]:
        manifest = report["manifest"]
        facts = {"kind": manifest["kind"], **manifest["parameters"], **manifest["facts"]}
    for name, value in facts.items():
        if isinstance(value, int) and name not in ("schema_version", "intact"):
            yield f"{name:20} {value:,}"
        elif isinstance(value, str | float) and name != "fault":
            yield f"{name:20} {value}"
    for name, value in (report.get("length") or {}).items():
        yield f"{'length, ' + name:20} {round(value, 2):,}"
    rows = report.get("histogram") or []
    most = max((row["documents"] for row in rows), default=0)
    for row in rows:
        bar = "#" * round(BAR * row["documents"] / most)
        yield f"  {row['from']:>9,} to {row['to']:>9,}  {row['documents']:>12,}  {bar}"
    document = report.get("document")
    if document:
        head = " ".join(map(str, document["head"]))
        yield f"document {document['number']}: {document['length']:,} {report['unit']}: {head} ..."
    for file in report["files"]:
        yield f"{'sha256':20} {file['sha256']}  {file['file']}"
    result = {True: "all checksums agree", False: report["fault"], None: "none"}[report["intact"]]
    yield f"{'manifest':20} {result}"
