"""Draws docs/images/measured.svg: measured tokens/s/GPU beside the published number, as horizontal bars."""

from collections.abc import Sequence

from benchrun.capabilities.html.picture import svg_file
from benchrun.show.plot import Plot, Series
from benchrun.show.published import Pair
from benchrun.show.table import Table

TITLE = "Tokens per second and GPU, measured and published"
NOTE = "Same model, precision, sequence length and batch per GPU. GPUs and framework as labelled."


def sides(pair: Pair) -> tuple[str, str]:
    """GPUs and framework of the measured and of the published number."""
    return f"{pair.spec.num_gpus} x {pair.spec.gpu}, {pair.spec.framework}", pair.published_on


def sentence(pair: Pair) -> str:
    """Both numbers in words."""
    here, there = sides(pair)
    ours, published = f"{pair.measured:,.0f} on {here}", f"{pair.near.published:,.0f} on {there}"
    workload = f"{pair.spec.recipe}, {pair.spec.precision}"
    return f"{workload}: measured {ours}, published {published}, ratio {pair.ratio:.2f}."


def label(pair: Pair) -> str:
    """The workload with its ratio, and where both numbers are from."""
    here, there = sides(pair)
    workload = f"{pair.spec.recipe}, {pair.spec.precision}: {pair.ratio:.2f} of the published speed"
    return f"{workload}; measured on {here}; published on {there}, {pair.source}"


def chart(rows: Sequence[Pair]) -> str:
    """The picture as SVG, with a title and a description for readers who do not see it."""
    measured = Series("measured", tuple(pair.measured for pair in rows))
    published = Series("published", tuple(pair.near.published for pair in rows))
    halves = []
    middle = (len(rows) + 1) // 2
    highest = max(*measured.y, *published.y)
    for part in (slice(0, middle), slice(middle, None)):
        halves.append(
            Plot(
                "bars",
                TITLE,
                (Series("measured", measured.y[part]), Series("published", published.y[part])),
                Table((), []),
                labels=tuple(map(label, rows[part])),
                y_title="tokens/s/GPU",
                limits=(0.0, highest),
                note=NOTE,
            )
        )
    return svg_file(TITLE, halves, columns=2, description=" ".join(map(sentence, rows)))
