"""The verb audit."""

from pathlib import Path

import click

from benchrun import api
from benchrun.cli.options import FILE, json_option, json_text, write_text
from benchrun.errors import UserError
from benchrun.files import check_new
from benchrun.vocabulary import Exit

FORMATS = ("terminal", "html", "json", "junit")
ENDINGS = {".html": "html", ".json": "json", ".xml": "junit", ".txt": "terminal"}


@click.command("audit")
@click.argument("folders", nargs=-1, required=True, type=FILE, metavar="FOLDER...")
@click.option(
    "--sacct",
    type=FILE,
    metavar="FILE",
    help="What sacct -P -o JobID,JobName,State,ExitCode,Start,End,NodeList,AllocTRES printed.",
)
@click.option("--price", type=click.FloatRange(min=0), help="Price of a GPU-hour.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="By default terminal.")
@click.option(
    "--output",
    type=FILE,
    metavar="FILE",
    help="Write into FILE; its ending is the format (.html .json .xml .txt).",
)
@json_option
def audit(
    folders: tuple[Path, ...],
    sacct: Path | None,
    price: float | None,
    form: str | None,
    output: Path | None,
    as_json: bool,
) -> int:
    """Audit jobs that already ran, by their logs in any depth of each FOLDER: what each
    should have delivered, what was lost to slow nodes, slow days, failures and choices,
    and which node is slow since when.

    A job is compared with others of the same model, precision, batch, layout, number of
    GPUs and version, and with no others. Without --sacct the logs alone say where and when
    a job ran. Nothing is launched. Exit code 1: a node is accused. Exit code 4: no log
    could be read.
    """
    from .view import audit_junit, audit_page, audit_text

    form = _form(form, output, as_json)
    found = api.audit_folders(folders, sacct, price)
    if form == "json":
        text = json_text(found.model_dump(mode="json"))
    elif form == "html":
        text = audit_page(found)
    elif form == "junit":
        text = audit_junit(found)
    else:
        text = audit_text(found)
    write_text(text, output)
    if found.accused:
        return Exit.SLOW
    if not any(job.log for job in found.jobs):
        return Exit.INCONCLUSIVE
    return Exit.OK


def _form(form: str | None, output: Path | None, as_json: bool) -> str:
    """The format: what is asked for, else that of the file's ending. UserError if they
    contradict each other.
    """
    named = {form or "", "json" if as_json else ""}
    if output is not None:
        check_new(output)
        named.add(ENDINGS.get(output.suffix, ""))
    named.discard("")
    if len(named) > 1:
        raise UserError(
            f"{' and '.join(sorted(named))} contradict each other",
            hint="leave one of --json, --format and --output out",
        )
    return named.pop() if named else "terminal"
