"""A curve over numbers of GPUs as a table, a picture and a document: measured beside
predicted, or predicted alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun.measure.scaling import Break, CurvePoint, Scaling, breaks, efficiencies

from .plot import Plot, Series
from .table import Table, plain


@dataclass(frozen=True)
class CurveView:
    """One curve: measured, predicted, or both; then for the same numbers of GPUs."""

    title: str
    kind: Scaling
    seq_length: int
    measured: tuple[CurvePoint, ...] = ()
    predicted: tuple[CurvePoint, ...] = ()
    """Empty if nothing can be predicted."""
    ahead: tuple[CurvePoint, ...] = ()
    """Larger sizes that nobody measured: predicted in proportion to the largest measured one."""

    @property
    def points(self) -> Sequence[CurvePoint]:
        """The measured points, or the predicted ones if nothing was measured."""
        return self.measured or self.predicted

    def rates(self, points: Sequence[CurvePoint], end: str = "step_s") -> tuple[float, ...]:
        """Tokens/s/GPU of ``points``; ``end``: at which end of the interval of their
        steps.
        """
        tokens = [point.gbs * self.seq_length / point.num_gpus for point in points]
        return tuple(each / getattr(point, end) for each, point in zip(tokens, points, strict=True))

    @property
    def broken(self) -> Break | None:
        """The place where the curve breaks; its parts come from predictions if the runs
        have no breakdown.
        """
        loss = breaks(self.points)
        if loss is None or loss.grew or not self.predicted:
            return loss
        points = []
        for point, one in zip(self.points, self.predicted, strict=True):
            points.append(CurvePoint(point.num_gpus, point.gbs, point.step_s, one.parts))
        return breaks(points)

    def table(self) -> Table:
        """One row per number of GPUs."""
        titles = ["GPUs", "batch"]
        columns: list[list[Any]] = [
            [point.num_gpus for point in self.points],
            [int(each.gbs) for each in self.points],
        ]
        if self.measured:
            titles += ["step s", "efficiency %"]
            columns += [[point.step_s for point in self.measured], _percent(self.measured)]
        if self.predicted:
            titles += ["predicted s", "low", "high", "efficiency predicted %"]
            steps = [(one.step_s, one.low_s, one.high_s) for one in self.predicted]
            columns += [*map(list, zip(*steps, strict=True)), _percent(self.predicted)]
        rows: list[Sequence[Any]] = list(zip(*columns, strict=True))
        shares = _percent([*self.points[:1], *self.ahead])[1:]
        for point, share in zip(self.ahead, shares, strict=True):
            expected = (point.step_s, point.low_s, point.high_s)
            rows.append((point.num_gpus, int(point.gbs), None, None, *expected, share))
        return Table(titles, rows)

    def text(self) -> str:
        """Text for a terminal: a title, the table, and where the curve breaks."""
        loss = self.broken
        end = "no doubling of the GPUs costs more than 5 % of the speed\n"
        if loss:
            end = f"{loss.sentence}\n"
        elif len(self.points) == 1:
            end = ""
        return f"{self.title}, {self.kind} scaling\n{plain(self.table())}{end}"

    def document(self) -> dict[str, Any]:
        """Document for JSON: seconds, tokens/s/GPU, efficiency as a share of the first
        point's speed.
        """
        loss = self.broken
        shares = efficiencies(self.points)
        rows = []
        for index, (point, share) in enumerate(zip(self.points, shares, strict=True)):
            row: dict[str, Any] = {
                "num_gpus": point.num_gpus,
                "gbs": int(point.gbs),
                "efficiency": share,
            }
            if self.measured:
                row["step_time_s"] = point.step_s
            if self.predicted:
                one = self.predicted[index]
                row["predicted_s"] = {"median": one.step_s, "low": one.low_s, "high": one.high_s}
                row["parts_s"] = dict(one.parts)
            rows.append(row)
        ahead = []
        for point in self.ahead:
            seconds = {"median": point.step_s, "low": point.low_s, "high": point.high_s}
            ahead.append(
                {"num_gpus": point.num_gpus, "gbs": int(point.gbs), "predicted_s": seconds}
            )
        return {
            "ahead": ahead,
            "title": self.title,
            "scaling": self.kind,
            "points": rows,
            "break": loss and loss.document(),
        }


def scaling_plots(views: Sequence[CurveView]) -> Iterator[Plot]:
    """Tokens/s/GPU over the number of GPUs, measured beside predicted, by workload,
    weak and strong.
    """
    for view in views:
        yield Plot(
            "line",
            f"{view.kind.capitalize()} scaling: {view.title}",
            tuple(_curves(view)),
            rounded_table(view.table()),
            x_title="GPUs",
            y_title="tokens/s/GPU",
            log_x=True,
            from_zero=True,
            whole_row=True,
            note=_same(view) + (f" It {view.broken.sentence}." if view.broken else ""),
        )


def _curves(view: CurveView) -> Iterator[Series]:
    """Speed per GPU, measured and predicted."""
    places = tuple(float(point.num_gpus) for point in view.points)
    if view.measured:
        yield Series("measured", view.rates(view.measured), places)
    if view.predicted:
        name = "predicted"
        if view.measured:
            name = "predicted, with its interval"
        yield _dashed(view, name, view.predicted)
    if view.ahead:
        yield _dashed(view, "expected, with its interval", view.ahead)


def _dashed(view: CurveView, name: str, points: Sequence[CurvePoint]) -> Series:
    """The speed of predicted ``points``, with its interval."""
    sizes = tuple(float(point.num_gpus) for point in points)
    low = view.rates(points, "high_s")
    high = view.rates(points, "low_s")
    return Series(name, view.rates(points), sizes, low, high, style="dashed")


def _same(view: CurveView) -> str:
    batch = "global batch"
    if view.kind == "weak":
        batch = "batch per GPU"
    return f"The same {batch} at every number of GPUs."


def rounded_table(table: Table) -> Table:
    """Numbers with four digits."""
    return Table(
        table.titles,
        [
            [f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row]
            for row in table.rows
        ],
    )


def _percent(points: Sequence[CurvePoint]) -> list[float]:
    return [round(100 * share, 1) for share in efficiencies(points)]
