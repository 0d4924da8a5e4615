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

from .budget import SHOWN, Budget, amount, short

if TYPE_CHECKING:
    from benchrun.api import Calibration, Predicted, RunSpec, Several

OF_THE_STEP = "days, costs and energy are those of the predicted step, of no published one"
TOO_WIDE = "too wide to choose by"
AMOUNTS = {
    "tokens": "number of tokens: expected one like 15T, 300B or 2e9",
    "price": "price of a GPU-hour: expected a number like 2.5, without a currency",
    "power": "power: expected the watts of a GPU, a number like 700",
}
"""What an option expects, if its value is none."""


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


def _amounts(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[float, ...]:
    """``2.5,3`` as numbers. click calls this for --tokens, --price and --power."""
    if value is None:
        return ()
    name = str(parameter.name)
    found = []
    for text in value.split(","):
        number = amount(text) if name == "tokens" or not text[-1:].isalpha() else None
        if number is None or (name == "tokens" and "," in value):
            raise click.BadParameter(f"'{value}' is no {AMOUNTS[name]}")
        found.append(number)
    return tuple(found)


def _budgets(
    tokens: tuple[float, ...], price: tuple[float, ...], power: tuple[float, ...], count: int
) -> "list[Budget]":
    """A budget for each of ``count`` GPU types. UserError for another number of prices."""
    for name, values in (("--price", price), ("--power", power)):
        if len(values) not in (0, 1, count):
            raise UserError(
                f"{name} has {len(values)} values for {count} GPU type{'s' * (count > 1)}",
                hint="name one for all, or one for each of --gpu",
            )
    prices = price * count if len(price) == 1 else price or (None,) * count
    powers = power * count if len(power) == 1 else power or (None,) * count
    budgets = []
    for each, watts in zip(prices, powers, strict=True):
        budgets.append(Budget(next(iter(tokens), None), each, watts))
    return budgets


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
    "--tokens",
    metavar="N",
    callback=_amounts,
    help="Tokens to train, e.g. 15T or 300B: adds the days.",
)
@click.option(
    "--price",
    metavar="N[,N...]",
    callback=_amounts,
    help="Price of a GPU-hour, or one for each of several --gpu: adds the cost.",
)
@click.option(
    "--power",
    metavar="W[,W...]",
    callback=_amounts,
    help="Watts of a GPU with its share of the node: adds the energy.",
)
@click.option(
    "--csv",
    "table",
    type=FILE,
    metavar="FILE",
    help="Predict the rows of a table.",
)
@click.option(
    "--register",
    "registry",
    type=FILE,
    metavar="FILE",
    help="Append the prediction to a registry, before it is measured.",
)
@click.option(
    "--check",
    type=FILE,
    metavar="FILE",
    help="Hold a registry against the runs that began after it.",
)
@json_option
def predict(
    scaling: Any,
    plot: Path | None,
    runs: tuple[str, ...],
    table: Path | None,
    registry: Path | None,
    check: Path | None,
    as_json: bool,
    num_gpus: Any,
    tokens: Any,
    price: Any,
    power: Any,
    **point: Any,
) -> int:
    """Predict how long a step of RECIPE should take, in parts, with an interval for 90
    of 100 measurements.

    --num-gpus 8,64,512 predicts a curve, and says where it breaks and which part of the
    step grew. --gpu H100,B200 --precision bf16,fp8 predicts each of them, as a table.
    --tokens 15T --price 2.5 --power 700 says what the training costs; without --tokens
    it is the run's own steps that are counted. A server's latencies and throughput, and
    the parts of a step of GRPO, need AIConfigurator. --csv FILE reads rows like those of published.csv instead of a
    recipe, and prints them with predicted_s, low_s and high_s. Exit code 4 if it can
    predict none of them, or if nothing that --check FILE holds is measured yet.
    """
    if check is not None:
        return _check(check, point["recipe"] or table or registry, as_json)
    beside = {
        "--scaling": scaling,
        "--plot": plot,
        "--calibrate": runs,
        "--register": registry,
        "--tokens": tokens,
        "--price": price,
        "--power": power,
    }
    if table is not None:
        beside |= {"--num-gpus": num_gpus, "--gpu": point["gpu"], "--precision": point["precision"]}
        _alone("--csv predicts the rows of a table", {**beside, "a recipe": point["recipe"]})
        if api.predicted_table(table, sys.stdout, say):
            return Exit.OK
        return Exit.INCONCLUSIVE
    if point["recipe"] is None:
        raise UserError(
            "name a recipe, or a table with --csv", hint="benchrun list names the recipes"
        )
    calibration = None
    if runs:
        calibration, changes = api.calibrated(runs)
        for change in changes:
            say(change)
    gpus = _named(point.pop("gpu"))
    precisions = _named(point.pop("precision"))
    budgets = _budgets(tokens, price, power, len(gpus))
    request = api.Request(**point)
    if len(gpus) * len(precisions) > 1:
        several = api.predicted_several(
            request, gpus, precisions, num_gpus, scaling or "weak", budgets, calibration
        )
        _register(registry, several.predictions)
        return _print_several(several, plot, as_json)
    request = replace(request, gpu=gpus[0], precision=precisions[0])
    if scaling is not None or len(num_gpus) > 1:
        spec = api.curve_point(request, num_gpus)
        return _predict_curve(
            spec,
            num_gpus or (spec.num_gpus,),
            scaling or "weak",
            calibration,
            budgets[0],
            plot,
            registry,
            as_json,
        )
    spec = api.resolve_point(replace(request, num_gpus=next(iter(num_gpus), None)))
    return _predict_one(spec, calibration, budgets[0], beside, as_json)


def _predict_one(
    spec: "RunSpec",
    calibration: "Calibration | None",
    budget: "Budget",
    beside: dict[str, Any],
    as_json: bool,
) -> Exit:
    """Print one point. UserError for an option that it would ignore."""
    if spec.workload != "training":
        _alone(f"AIConfigurator predicts {spec.recipe}", beside)
        return _print_served(api.served(spec), as_json)
    if beside["--plot"]:
        raise UserError(
            "--plot draws a curve", hint="name several numbers of GPUs: --num-gpus 8,64,512"
        )
    one = api.predicted(spec, calibration, budget)
    _register(beside["--register"], [one])
    if as_json:
        print_json(one.document())
    else:
        _print([one])
    return Exit.OK


def _alone(what: str, given: dict[str, Any]) -> None:
    """UserError that names what is ``given`` and would be ignored."""
    ignored = [name for name, value in given.items() if value]
    if ignored:
        raise UserError(f"{what} alone: leave out {' and '.join(ignored)}")


def _print_served(document: dict[str, Any], as_json: bool) -> Exit:
    """Print what AIConfigurator says of a server or of a step of GRPO."""
    if as_json:
        print_json({"schema_version": 1, **document})
        return Exit.OK
    calibration = document.pop("calibration")
    for name, value in document.items():
        click.echo(f"{name.replace('_', ' '):30}{value:10,.4g}")
    click.echo(f"without an interval; calibrated by {calibration}")
    return Exit.OK


def _predict_curve(
    spec: "RunSpec",
    num_gpus: tuple[int, ...],
    scaling: Any,
    calibration: "Calibration | None",
    budget: "Budget",
    plot: Path | None,
    registry: Path | None,
    as_json: bool,
) -> Exit:
    """Print, and draw into ``plot``, the step on each number of GPUs and where the
    curve breaks."""
    curve = api.predicted_curve(spec, num_gpus, scaling, calibration, budget)
    _register(registry, curve.points)
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


def _register(registry: Path | None, predictions: "Sequence[Predicted]") -> None:
    """Append ``predictions`` to ``registry`` if one is named."""
    if registry is not None:
        last = api.register(registry, predictions)
        say(f"registered in {registry}, whose last hash is {last}")


def _check(path: Path, other: Any, as_json: bool) -> Exit:
    """Print each prediction of a registry beside what was measured afterwards."""
    if other:
        raise UserError("--check reads a registry alone: leave out what would be predicted")
    lines = api.registered(path)
    table = api.held(lines)
    records = table.records()
    found = [each for each in records if each["measured_s"]]
    if as_json:
        print_json({"schema_version": 1, "predictions": records})
    else:
        from benchrun.show.table import LINE, fitted

        click.echo(fitted(table, LINE), nl=False)
        inside = [each for each in found if each["inside"] == "yes"]
        click.echo(f"{len(lines)} registered, {len(found)} measurements, {len(inside)} inside")
    return Exit.OK if found else Exit.INCONCLUSIVE


def _named(text: str | None) -> tuple[str | None, ...]:
    """The names that commas divide; None alone if none was given."""
    if not text:
        return (None,)
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _print_several(several: "Several", plot: Path | None, as_json: bool) -> Exit:
    """Print, and draw into ``plot``, the predictions side by side."""
    if as_json:
        print_json(several.document())
    else:
        from benchrun.show.table import LINE, fitted

        first = several.predictions[0]
        click.echo(f"{first.spec.recipe}, {first.spec.task}")
        limits = {f"{one.spec.gpu}: {one.limit}": None for one in several.predictions if one.limit}
        for limit in limits:
            click.echo(f"TAKE CARE: {limit}")
        click.echo(fitted(several.table(), LINE), nl=False)
        if any(one.wide for one in several.predictions):
            click.echo(f"~ marks an interval that is {TOO_WIDE}")
        if first.budget.stated:
            click.echo(f"{OF_THE_STEP}, and as uncertain; --json has their ends")
        _say_numbers(several.predictions)
        _say_warnings(several.predictions)
    for each in several.left_out:
        words = [str(each[name]) for name in ("gpu", "precision") if each[name]]
        say(f"left out: {' '.join(words)}: {each['reason']}")
    if plot:
        from benchrun.show.plot import save

        save(list(several.plots()), plot)
    return Exit.OK


def _say_numbers(predictions: "Sequence[Predicted]") -> None:
    """Print what was published or measured of each point; in a table, which layout is
    another point's."""
    for each in predictions:
        place = f"{each.spec.gpu} {each.spec.precision}, {each.spec.num_gpus} GPUs"
        if each.own_number is not None:
            click.echo(f"{place}: {each.beside()[0]}")
        elif each.numbers:
            others = "published with other software or layouts, the newest first"
            click.echo(f"{place}: predicted for {each.spec.framework}; {others}:")
            click.echo("\n".join(map("  {}".format, each.beside())))
        elif len({one.spec.gpu for one in predictions}) > 1 and each.spec.derived:
            click.echo(f"{place}: {each.spec.derived.partition(', as in')[0]}")


def _say_warnings(predictions: "Sequence[Predicted]") -> None:
    """Print each warning once, on stderr."""
    warnings: list[str] = []
    for each in predictions:
        warnings += each.warnings
    for warning in dict.fromkeys(warnings):
        say(f"warning: {warning}")


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
    titles += ["tokens/s/GPU", *(f"MFU % {name}" for name in first["mfu"]), "memory GiB"]
    costs = []
    for key in SHOWN:
        if key in first and curve[0].budget.stated:
            costs.append(key)
            titles += [SHOWN[key], "  low", "  high"]
    columns = [titles]
    for each in curve:
        columns.append(_column(each.document(), parts, costs))
    click.echo(curve[0].title)
    if curve[0].limit:
        click.echo(f"TAKE CARE: {curve[0].limit}")
    for row in aligned([*zip(*columns, strict=True)]):
        click.echo("  ".join(row))
    step = first["step_time_s"]
    ends = [100 * (step[name] / step["median"] - 1) for name in ("low", "high")]
    tested = " where it was tested, here perhaps fewer" * bool(curve[0].limit)
    share = f"{10 * first['interval']:.0f} of 10 measurements lie between low and high{tested}"
    share += f" ({ends[0]:+.0f} to {ends[1]:+.0f} %)"
    if curve[0].wide:
        share += f": {TOO_WIDE}"
    click.echo(f"{share}; calibrated by {first['calibration']}")
    _say_numbers(curve)
    _say_warnings(curve)


def _column(document: dict[str, Any], parts: list[str], costs: list[str]) -> list[str]:
    step = document["step_time_s"]
    ends = []
    for key in costs:
        ends += [short(document[key][end]) for end in ("median", "low", "high")]
    return [
        str(document["num_gpus"]),
        f"{step['median']:.4g}",
        f"{step['low']:.4g}",
        f"{step['high']:.4g}",
        *(f"{document['parts_s'][name]:.3g}" for name in parts),
        f"{document['tokens_per_s_per_gpu']:,.0f}",
        *(f"{100 * share:.1f}" for share in document["mfu"].values()),
        f"{document['memory_gib']:.4g}",
        *ends,
    ]


# The recipe may be missing (--csv), and there may be several numbers of GPUs.
for _parameter in predict.params:
    if _parameter.name == "recipe":
        _parameter.required = False
    if _parameter.name == "num_gpus":
        _parameter.type, _parameter.callback = click.STRING, _numbers
        _parameter.metavar = "N[,N...]"
