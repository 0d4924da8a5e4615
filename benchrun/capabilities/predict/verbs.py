"""The verb predict."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import api
from benchrun.cli.complete import run_names
from benchrun.cli.options import FILE, json_option, point_options, print_json, say
from benchrun.errors import UserError
from benchrun.vocabulary import MOST_GPUS, Exit

if TYPE_CHECKING:
    from benchrun.api import Calibration, Predicted, RunSpec


def _numbers(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    """``8,64`` as numbers, the smallest first: its layout holds for more GPUs. click
    calls this for --num-gpus."""
    if not value:
        return ()
    try:
        numbers = sorted({*map(int, value.split(","))})
    except ValueError:
        numbers = [0]
    if numbers[0] < 1 or numbers[-1] > MOST_GPUS:
        raise click.BadParameter(f"numbers of GPUs up to {MOST_GPUS}, divided by commas: 8,64,512")
    return tuple(numbers)


@click.command("predict")
@point_options
@click.option(
    "--scaling",
    type=click.Choice(["weak", "strong"]),
    help="Keep the batch per GPU (weak), or the whole batch (strong).",
)
@click.option(
    "--plot",
    type=FILE,
    metavar="FILE",
    help="Draw the curve over numbers of GPUs.",
)
@click.option(
    "--calibrate",
    "runs",
    multiple=True,
    metavar="RUN",
    shell_complete=run_names,
    help="Fit the prediction to this run of yours; may be repeated.",
)
@click.option(
    "--csv",
    "table",
    type=FILE,
    metavar="FILE",
    help="Predict the rows of a table.",
)
@json_option
def predict(
    scaling: str | None,
    plot: Path | None,
    runs: tuple[str, ...],
    table: Path | None,
    as_json: bool,
    num_gpus: Any,
    **point: Any,
) -> int:
    """Predict how long a step of RECIPE should take, in parts, with an interval for 90
    of 100 measurements.

    --num-gpus 8,64,512 predicts a curve, and says where it breaks and which part of the
    step grew. --csv FILE reads rows like those of published.csv instead of a
    recipe, and prints them with predicted_s, low_s and high_s. Exit code 4 if it can
    predict none of them.
    """
    if table is not None:
        return _predict_table(table, scaling, plot, runs, {**point, "num_gpus": num_gpus})
    if point["recipe"] is None:
        raise UserError(
            "name a recipe, or a table with --csv", hint="benchrun list names the recipes"
        )
    calibration = None
    if runs:
        calibration, changes = api.calibrated(runs)
        for change in changes:
            say(change)
    request = api.Request(**point)
    if scaling is not None or len(num_gpus) > 1:
        spec = api.curve_point(request, num_gpus)
        return _predict_curve(
            spec, num_gpus or (spec.num_gpus,), scaling or "weak", calibration, plot, as_json
        )
    spec = api.resolve_point(replace(request, num_gpus=next(iter(num_gpus), None)))
    if plot:
        raise UserError(
            "--plot draws a curve", hint="name several numbers of GPUs: --num-gpus 8,64,512"
        )
    one = api.predicted(spec, calibration)
    if as_json:
        print_json(one.document())
    else:
        _print([one])
    return Exit.OK


def _predict_table(
    table: Path,
    scaling: str | None,
    plot: Path | None,
    runs: tuple[str, ...],
    point: dict[str, Any],
) -> Exit:
    """Print the rows of ``table`` with their predictions. UserError for an option that
    a table ignores."""
    given = {
        "a recipe": point["recipe"],
        "--num-gpus": point["num_gpus"],
        "--scaling": scaling,
        "--plot": plot,
    }
    given |= {"--calibrate": runs, "--gpu": point.get("gpu"), "--precision": point.get("precision")}
    ignored = [name for name, value in given.items() if value]
    if ignored:
        raise UserError(
            f"--csv predicts the rows of a table alone: leave out {' and '.join(ignored)}"
        )
    if api.predicted_table(table, sys.stdout, say):
        return Exit.OK
    return Exit.INCONCLUSIVE


def _predict_curve(
    spec: "RunSpec",
    num_gpus: tuple[int, ...],
    scaling: Any,
    calibration: "Calibration | None",
    plot: Path | None,
    as_json: bool,
) -> Exit:
    """Print, and draw into ``plot``, the step on each number of GPUs and where the
    curve breaks."""
    curve = api.predicted_curve(spec, num_gpus, scaling, calibration)
    view = curve.view
    if as_json:
        print_json(curve.document())
    else:
        _print(curve.points)
        click.echo("\n" + view.text(), nl=False)
    for reason in curve.left_out.values():
        say(f"left out: {reason}")
    if plot:
        from benchrun.show.curve import scaling_plots
        from benchrun.show.plot import save

        save(list(scaling_plots([view])), plot)
    return Exit.OK


def _print(curve: "Sequence[Predicted]") -> None:
    """Print a table with a column per number of GPUs, without parts that take no time,
    and warnings on stderr."""
    from benchrun.show.table import aligned

    first = curve[0].document()
    parts = []
    for name in first["parts_s"]:
        if any(each.prediction.parts[name] for each in curve):
            parts.append(name)
    titles = ["GPUs", "step s", "  low", "  high", *map("  {}".format, parts)]
    columns = [[*titles, "tokens/s/GPU", "memory GiB"]]
    for each in curve:
        columns.append(_column(each.document(), parts))
    click.echo(curve[0].title)
    for row in aligned([*zip(*columns, strict=True)]):
        click.echo("  ".join(row))
    share = f"{10 * first['interval']:.0f} of 10 measurements lie between low and high"
    click.echo(f"{share}; calibrated by {first['calibration']}")
    warnings: list[str] = []
    for each in curve:
        warnings += each.warnings
    for warning in dict.fromkeys(warnings):
        say(f"warning: {warning}")


def _column(document: dict[str, Any], parts: list[str]) -> list[str]:
    step = document["step_time_s"]
    return [
        str(document["num_gpus"]),
        f"{step['median']:.4g}",
        f"{step['low']:.4g}",
        f"{step['high']:.4g}",
        *(f"{document['parts_s'][name]:.3g}" for name in parts),
        f"{document['tokens_per_s_per_gpu']:,.0f}",
        f"{document['memory_gib']:.4g}",
    ]


# The recipe may be missing (--csv), and there may be several numbers of GPUs.
for _parameter in predict.params:
    if _parameter.name == "recipe":
        _parameter.required = False
    if _parameter.name == "num_gpus":
        _parameter.type, _parameter.callback = click.STRING, _numbers
        _parameter.metavar = "N[,N...]"
