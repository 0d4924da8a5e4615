"""Predictions of one recipe on several GPU types and precisions, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchrun.errors import UserError
from benchrun.measure.scaling import Scaling
from benchrun.recipes.select import Request
from benchrun.show.plot import Plot, Series
from benchrun.show.readable import brief
from benchrun.show.runs import short_layout
from benchrun.show.table import Table
from benchrun.usecases.points import curve_point

from .budget import SHOWN, Budget, short
from .prediction import Calibration
from .usecase import Predicted, predicted_curve

TITLES = (
    "GPU",
    "precision",
    "GPUs",
    "layout",
    "step s",
    "tokens/s/GPU",
    "MFU % full (causal)",
    "GiB",
)


@dataclass(frozen=True)
class Several:
    """Predictions, and why a wanted one is missing."""

    scaling: Scaling
    predictions: tuple[Predicted, ...]
    left_out: tuple[Mapping[str, Any], ...]

    def document(self) -> dict[str, Any]:
        """Document of ``predict --json`` for several GPU types or precisions."""
        predictions = []
        for each in self.predictions:
            predictions.append(each.document())
        return {
            "schema_version": 1,
            "scaling": self.scaling,
            "predictions": predictions,
            "left_out": list(self.left_out),
        }

    def table(self) -> Table:
        """One row per GPU type, precision and number of GPUs."""
        documents = self.document()["predictions"]
        costs = []
        for key in SHOWN:
            if self.predictions[0].budget.stated and key in documents[0]:
                costs.append(key)
        rows = []
        for each, found in zip(self.predictions, documents, strict=True):
            shares = [f"{100 * share:.1f}" for share in found["mfu"].values()]
            row = [found["gpu"], found["precision"], found["num_gpus"]]
            ends = map(short, found["step_time_s"].values())
            row += [brief(short_layout(each.spec)), "~" * each.wide + "{} ({} to {})".format(*ends)]
            row += [f"{found['tokens_per_s_per_gpu']:,.0f}", shares and "{} ({})".format(*shares)]
            rows.append(
                [
                    *row,
                    f"{found['memory_gib']:.0f}",
                    *(short(found[key]["median"]) for key in costs),
                ]
            )
        return Table([*TITLES, *map(SHOWN.__getitem__, costs)], rows, missing="-")

    def plots(self) -> Iterator[Plot]:
        """Days over cost if both are known, else tokens/s/GPU over the number of GPUs."""
        documents = self.document()["predictions"]
        priced = {"cost", "time_to_train_days"} <= set(documents[0])
        series = []
        for name in dict.fromkeys(map(_kind, documents)):
            same = [each for each in documents if _kind(each) == name]
            series.append((_priced if priced else _speed)(name, same))
        x_title, y_title = ("GPUs", "tokens/s/GPU")
        if priced:
            x_title, y_title = ("cost in millions", "days")
        yield Plot(
            "line",
            f"{self.predictions[0].spec.recipe}: {y_title} over {x_title}",
            tuple(series),
            self.table(),
            x_title=x_title,
            y_title=y_title,
            log_x=not priced,
            from_zero=True,
            whole_row=True,
        )


def predicted_several(
    request: Request,
    gpus: Sequence[str | None],
    precisions: Sequence[str | None],
    num_gpus: Sequence[int],
    scaling: Scaling,
    budgets: Sequence[Budget],
    calibration: Calibration | None = None,
) -> Several:
    """Predictions of ``request`` for each of ``gpus``, which has a budget each, in each
    precision and on each number of GPUs. UserError if there is none."""
    predictions: list[Predicted] = []
    left_out: list[dict[str, Any]] = []
    errors = []
    for gpu, budget in zip(gpus, budgets, strict=True):
        for precision in precisions:
            place: dict[str, Any] = {"gpu": gpu, "precision": precision}
            try:
                spec = curve_point(replace(request, **place), num_gpus)
                numbers = num_gpus or (spec.num_gpus,)
                curve = predicted_curve(spec, numbers, scaling, calibration, budget)
            except UserError as error:
                errors.append(error)
                left_out.append({**place, "num_gpus": None, "reason": error.message})
                continue
            predictions += curve.points
            for number, reason in curve.left_out.items():
                left_out.append({**place, "num_gpus": number, "reason": reason})
    if not predictions:
        raise errors[0]
    return Several(scaling, tuple(predictions), tuple(left_out))


def _kind(document: Mapping[str, Any]) -> str:
    return f"{document['gpu']} {document['precision']}"


def _priced(name: str, documents: Sequence[Mapping[str, Any]]) -> Series:
    """Days over cost."""
    days = tuple(each["time_to_train_days"]["median"] for each in documents)
    costs = tuple(each["cost"]["median"] / 1e6 for each in documents)
    return Series(name, days, costs, style="dots")


def _speed(name: str, documents: Sequence[Mapping[str, Any]]) -> Series:
    """Tokens/s/GPU over the number of GPUs."""
    rates = tuple(each["tokens_per_s_per_gpu"] for each in documents)
    return Series(name, rates, tuple(float(each["num_gpus"]) for each in documents), style="dots")
