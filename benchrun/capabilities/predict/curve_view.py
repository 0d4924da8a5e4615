"""A curve over numbers of GPUs as a table, a picture and a document: measured beside predicted, or predicted alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun.capabilities.predict.prediction import Prediction
from benchrun.capabilities.predict.scaling import Break, CurvePoint, Scaling, breaks, efficiencies
from benchrun.show.plot import Plot, Series
from benchrun.show.table import Table, plain


@dataclass(frozen=True)
class CurveView:
    """One curve: measured, predicted, or both; then for the same numbers of GPUs."""

    title: str
    kind: Scaling
    measured: tuple[CurvePoint, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    """Empty if nothing can be predicted."""

    @property
    def expected(self) -> list[CurvePoint]:
        """The predicted points."""
        return [CurvePoint(one.load.num_gpus, one.load.gbs, one.median, one.parts) for one in self.predicted]

    @property
    def points(self) -> Sequence[CurvePoint]:
        """The measured points, or the predicted ones if nothing was measured."""
        return self.measured or self.expected

    @property
    def measured_rates(self) -> list[float]:
        """Speed per GPU of the measured points: tokens/s, or sequences/s if no prediction has their length."""
        length = self.predicted[0].load.seq_length if self.predicted else 1
        return [point.gbs * length / point.num_gpus / point.step_s for point in self.measured]

    @property
    def predicted_rates(self) -> tuple[list[float], list[float], list[float]]:
        """Predicted tokens/s/GPU: the median, and the ends of its interval."""
        steps = [(one.load.tokens_per_s_per_gpu, one) for one in self.predicted]
        low, high = ([tokens / getattr(one, end) for tokens, one in steps] for end in ("high", "low"))
        return [one.tokens_per_s_per_gpu for one in self.predicted], low, high

    @property
    def broken(self) -> Break | None:
        """The place where the curve breaks; its parts come from predictions if the runs have no breakdown."""
        loss = breaks(self.points)
        if loss is None or loss.grew or not self.predicted:
            return loss
        points = [
            CurvePoint(point.num_gpus, point.gbs, point.step_s, one.parts)
            for point, one in zip(self.points, self.predicted, strict=True)
        ]
        return breaks(points)

    def table(self) -> Table:
        """One row per number of GPUs."""
        titles = ["GPUs", "batch"]
        columns: list[list[Any]] = [[point.num_gpus for point in self.points], [int(each.gbs) for each in self.points]]
        if self.measured:
            titles += ["step s", "efficiency %"]
            columns += [[point.step_s for point in self.measured], _percent(self.measured)]
        if self.predicted:
            titles += ["predicted s", "low", "high", "efficiency predicted %"]
            steps = [(one.median, one.low, one.high) for one in self.predicted]
            columns += [*map(list, zip(*steps, strict=True)), _percent(self.expected)]
        return Table(titles, list(zip(*columns, strict=True)))

    def text(self) -> str:
        """Text for a terminal: a title, the table, and where the curve breaks."""
        loss = self.broken
        end = loss.sentence if loss else "no doubling of the GPUs costs more than 5 % of the speed"
        return f"{self.title}, {self.kind} scaling\n{plain(self.table())}{end}\n"

    def document(self) -> dict[str, Any]:
        """Document for JSON: seconds, tokens/s/GPU, efficiency as a share of the first point's
        speed.
        """
        loss, shares = self.broken, efficiencies(self.points)
        rows: list[dict[str, Any]] = []
        for index, (point, share) in enumerate(zip(self.points, shares, strict=True)):
            row: dict[str, Any] = {"num_gpus": point.num_gpus, "gbs": int(point.gbs), "efficiency": share}
            if self.measured:
                row["step_time_s"] = point.step_s
            if self.predicted:
                one = self.predicted[index]
                row["predicted_s"] = {"median": one.median, "low": one.low, "high": one.high}
                row["parts_s"] = dict(one.parts)
            rows.append(row)
        return {"title": self.title, "scaling": self.kind, "points": rows, "break": loss and loss.document()}


def scaling_plots(views: Sequence[CurveView]) -> Iterator[Plot]:
    """Tokens/s/GPU over the number of GPUs, measured beside predicted, by workload, weak and strong."""
    for view in views:
        yield Plot(
            "line",
            f"{view.kind.capitalize()} scaling: {view.title}",
            tuple(_curves(view)),
            rounded_table(view.table()),
            x_title="GPUs",
            y_title="tokens/s/GPU" if view.predicted else "sequences/s/GPU",
            log_x=True,
            from_zero=True,
            whole_row=True,
            note=_same(view) + (f" It {view.broken.sentence}." if view.broken else ""),
        )


def _curves(view: CurveView) -> Iterator[Series]:
    """Speed per GPU, measured and predicted."""
    places = tuple(float(point.num_gpus) for point in view.points)
    if view.measured:
        yield Series("measured", tuple(view.measured_rates), places)
    if view.predicted:
        rates, low, high = map(tuple, view.predicted_rates)
        name = "predicted, with its interval" if view.measured else "predicted"
        yield Series(name, rates, places, low, high, style="dashed")


def _same(view: CurveView) -> str:
    batch = "batch per GPU" if view.kind == "weak" else "global batch"
    return f"The same {batch} at every number of GPUs."


def rounded_table(table: Table) -> Table:
    """Numbers with four digits."""
    return Table(
        table.titles, [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row] for row in table.rows]
    )


def _percent(points: Sequence[CurvePoint]) -> list[float]:
    return [round(100 * share, 1) for share in efficiencies(points)]
