"""A curve over numbers of GPUs as a table, a picture and a document: measured beside predicted, or predicted alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrun.predict.prediction import Prediction
from benchrun.predict.scaling import Break, CurvePoint, Scaling, breaks, efficiencies
from benchrun.report.picture import picture, save
from benchrun.report.table import Table, plain


@dataclass(frozen=True)
class CurveView:
    """One curve: measured, predicted, or both; then for the same numbers of GPUs."""

    title: str
    kind: Scaling
    measured: tuple[CurvePoint, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    """Empty where nothing can be predicted."""

    @property
    def expected(self) -> list[CurvePoint]:
        """The predicted points."""
        return [CurvePoint(one.load.num_gpus, one.load.gbs, one.median, one.parts) for one in self.predicted]

    @property
    def points(self) -> Sequence[CurvePoint]:
        """The measured points, or the predicted ones where nothing was measured."""
        return self.measured or self.expected

    @property
    def measured_rates(self) -> list[float]:
        """Speed per GPU of the measured points: tokens/s, or sequences/s where no prediction has their length."""
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
        """Where the curve breaks; the parts are those of breakdowns, or of predictions where runs have none."""
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
        """For a terminal: a title, the table, and where the curve breaks."""
        loss = self.broken
        end = loss.sentence if loss else "no doubling of the GPUs costs more than 5 % of the speed"
        return f"{self.title}, {self.kind} scaling\n{plain(self.table())}{end}\n"

    def document(self) -> dict[str, Any]:
        """For JSON: seconds, tokens/s/GPU, efficiency as a share of the first point's speed."""
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


def plot(views: Sequence[CurveView], path: Path) -> None:
    """Draw tokens/s/GPU over the number of GPUs, in the format that the name of ``path`` ends in.

    UserError where it cannot be drawn.
    """
    axes = (figure := picture(8, 5)).add_subplot()
    for number, view in enumerate(views):
        colour, name = f"C{number}", f"{view.title}, {view.kind}"
        if view.predicted:
            sizes = [one.load.num_gpus for one in view.predicted]
            rates, low, high = view.predicted_rates
            axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(sizes, rates, "--", color=colour, label=f"{name}: predicted")
        if view.measured:
            sizes = [point.num_gpus for point in view.measured]
            axes.plot(sizes, view.measured_rates, "o-", color=colour, label=f"{name}: measured")
    sizes = sorted({point.num_gpus for view in views for point in view.points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("GPUs")
    axes.set_ylabel("tokens/s/GPU" if all(view.predicted for view in views) else "sequences/s/GPU")
    axes.legend(fontsize=8)
    save(figure, path)


def _percent(points: Sequence[CurvePoint]) -> list[float]:
    return [round(100 * share, 1) for share in efficiencies(points)]
