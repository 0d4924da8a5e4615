"""Draws docs/images/measured.svg: measured tokens/s/GPU beside the published number, as horizontal bars.

``docs/generate.py`` writes it with the other generated pages.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from xml.sax.saxutils import escape

from benchrun.comparison.measured import load_measured, repeats
from benchrun.comparison.references import load_references
from benchrun.metrics.registry import METRICS

from .measured import nearest

WIDTH, TOP, ROW, BAR = 820, 64, 48, 16
LEFT, LONGEST = 206, 310
"""Where the bars begin, and the length of the longest one."""
STYLE = """
text, tspan { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.strong { font-weight: 600 }
.small { font-size: 11px; fill: #59636e }
.page { fill: #ffffff } .ours { fill: #1f6feb } .published { fill: #a5afba }
@media (prefers-color-scheme: dark) {
text, tspan { fill: #e6edf3 }
.small { fill: #9da7b3 }
.page { fill: #0d1117 } .ours { fill: #4493f8 } .published { fill: #6e7781 }
}
"""
TITLE = "Tokens per second and GPU, measured and published"
SUBTITLE = "Same model, precision, sequence length and batch per GPU. GPUs and framework as labelled."


@dataclass(frozen=True)
class Pair:
    """A measured point and the published number beside it, both in tokens/s/GPU."""

    workload: str
    ours: float
    measured_side: str
    """GPUs and framework."""
    published: float
    published_side: str
    source: str

    @property
    def ratio(self) -> float:
        """Measured / published."""
        return self.ours / self.published

    @property
    def sentence(self) -> str:
        """Both numbers in words."""
        ours, published = f"{self.ours:,.0f} on {self.measured_side}", f"{self.published:,.0f} on {self.published_side}"
        return f"{self.workload}: measured {ours}, published {published}, ratio {self.ratio:.2f}."


def pairs() -> list[Pair]:
    """One pair per whole model and precision, fastest first: the row with most GPUs; ties go to the slowest."""
    chosen: dict[str, tuple[tuple[int, float], Pair]] = {}
    references = load_references()
    for group in repeats(load_measured()):
        spec, near = group[0].spec, nearest(group[0].spec, references)
        if near is None or spec.proxy:
            continue
        conditions = near.entry.key
        if (
            conditions.gbs is None
            or conditions.num_gpus is None
            or conditions.gbs * spec.num_gpus != spec.gbs * conditions.num_gpus
        ):
            continue
        rates = [run.metrics.metrics[METRICS["tokens_per_s_per_gpu"].key] for run in group]
        rate = median(value for value in rates if value is not None)
        pair = Pair(
            workload=f"{spec.recipe}, {spec.precision}",
            ours=rate,
            measured_side=f"{spec.num_gpus} x {spec.gpu}, {spec.framework}",
            published=near.entry.tokens_per_s_per_gpu,
            published_side=f"{conditions.num_gpus} x {conditions.gpu}, {conditions.framework}",
            source=f"{near.entry.source.who} {near.entry.source.date}",
        )
        rank = (spec.num_gpus, -rate)
        if pair.workload not in chosen or rank > chosen[pair.workload][0]:
            chosen[pair.workload] = (rank, pair)
    return sorted((pair for _, pair in chosen.values()), key=lambda pair: -pair.ours)


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text that begins, or with ``anchor="end"`` ends, at ``x``."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def bars(pair: Pair, y: float, scale: float) -> Iterable[str]:
    """The row of one pair: its name, two bars with their numbers, and the ratio."""
    yield text(LEFT - 10, y + 21, pair.workload, "strong", "end")
    published = ("published", pair.published, f"{pair.published_side}, {pair.source}")
    numbers = (("ours", pair.ours, pair.measured_side), published)
    for number, (kind, value, note) in enumerate(numbers):
        top, length = y + number * (BAR + 1), value * scale
        yield f'<rect x="{LEFT}" y="{top:.0f}" width="{length:.1f}" height="{BAR}" class="{kind}"/>'
        label = f'<tspan class="strong">{value:,.0f}</tspan><tspan dx="6" class="small">{escape(note)}</tspan>'
        yield f'<text x="{LEFT + length + 6:.1f}" y="{top + 13:.0f}">{label}</text>'
    yield text(WIDTH - 16, y + 21, f"{pair.ratio:.2f} x", "strong", "end")


def chart() -> str:
    """The picture as SVG, with a title and a description for readers who do not see it."""
    rows = pairs()
    height = TOP + ROW * len(rows) + 36
    scale = LONGEST / max(max(pair.ours, pair.published) for pair in rows)
    drawn = [line for number, pair in enumerate(rows) for line in bars(pair, TOP + ROW * number, scale)]
    below = height - 18
    legend = (
        f'<rect x="{LEFT}" y="{below - 10}" width="12" height="12" class="ours"/>',
        text(LEFT + 18, below, "measured by benchrun", "small"),
        f'<rect x="{LEFT + 170}" y="{below - 10}" width="12" height="12" class="published"/>',
        text(LEFT + 188, below, "published", "small"),
        text(WIDTH - 16, below, "measured / published", "small", "end"),
    )
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">',
        f'<title id="t">{TITLE}</title>',
        f'<desc id="d">{escape(" ".join(pair.sentence for pair in rows))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" class="page"/>',
        text(16, 28, TITLE, "title"),
        text(16, 47, SUBTITLE, "small"),
        *drawn,
        *legend,
        "</svg>",
    )
    return "\n".join(lines) + "\n"
