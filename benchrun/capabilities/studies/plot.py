"""The plots of a study: ratio, speed and memory of each point, or the loads of a
server.
"""

from collections.abc import Iterator
from pathlib import Path

from benchrun.errors import UserError
from benchrun.show.plot import Plot, Series, ratio_bars, save
from benchrun.show.table import Table

from .pareto import pareto_plots
from .result import StudyResult
from .view import NAMES, point_text


def plot_study(study: StudyResult, path: Path) -> None:
    """Write the plots to ``path``, in the format that its name ends in.

    UserError if no point was measured or the file cannot be written.
    """
    plots = list(study_plots(study))
    if not plots:
        raise UserError(
            f"no point of {study.study} was measured", hint=f"benchrun study {study.study}"
        )
    save(plots, path)


def study_plots(study: StudyResult) -> Iterator[Plot]:
    """Bars of the ratio, the speed and the memory of each measured point, or the Pareto
    front of the loads.
    """
    yield from pareto_plots(study)
    points = [point for point in study.points if point.measured]
    names = []
    ratios = []
    rows = []
    for point in points:
        ratio = point.ratio
        if ratio:
            names.append(point_text(study, point))
            ratios.append(ratio.value)
            cells = []
            for each in (ratio.value, ratio.low, ratio.high):
                cells.append(None if each is None else f"{each:.3f}")
            rows.append((names[-1], *cells))
    table = Table(("point", "ratio", "low", "high"), rows, "-")
    bars = ratio_bars("Speed relative to the baseline", names, ratios, table)
    if bars:
        yield bars
    for key, title in (
        ("tokens_per_s_per_gpu", "Tokens/s/GPU"),
        ("peak_memory_gib", "Peak memory (GiB)"),
    ):
        names = []
        values = []
        for point in points:
            value = point.metrics[key]
            if value is not None:
                names.append(point_text(study, point))
                values.append(value)
        if values:
            texts = map(NAMES[key].text, values)
            yield Plot(
                "bars",
                title,
                (Series("", tuple(values)),),
                Table(("point", title), list(zip(names, texts, strict=True))),
                labels=tuple(names),
            )
