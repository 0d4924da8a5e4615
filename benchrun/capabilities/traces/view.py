"""A fingerprint as tables of at most 100 columns."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from textwrap import fill

from benchrun.rundir.fingerprint import Classes, CollectiveTime, Fingerprint, ProductRow, RankShares
from benchrun.show.table import Table, plain

SHOWN = 8
"""Rows of a table; of more ranks the minimum, the median and the maximum are shown too.
"""
LONGEST = 3
"""Kernels of a class that are shown; --kernels shows all."""
WIDTH = 100
WIDEST_NAME, WIDEST_GROUP = 60, 16
Column = tuple[str, Callable[[RankShares], float | None]]

_TIME: tuple[Column, ...] = (
    ("compute", lambda rank: rank.compute),
    ("exposed comm", lambda rank: rank.exposed_comm),
    ("copy", lambda rank: rank.copies),
    ("idle", lambda rank: rank.idle),
    ("(host", lambda rank: getattr(rank.idle_by_cause, "host", None)),
    ("launch", lambda rank: getattr(rank.idle_by_cause, "launch_gap", None)),
    ("data", lambda rank: getattr(rank.idle_by_cause, "data", None)),
    ("sync)", lambda rank: getattr(rank.idle_by_cause, "sync", None)),
)
_CLASSES: tuple[Column, ...] = (
    ("matmul", lambda rank: rank.classes.matmul),
    ("attention", lambda rank: rank.classes.attention),
    ("memory bound", lambda rank: rank.classes.memory_bound),
    ("communication", lambda rank: rank.classes.communication),
    ("hidden of it", lambda rank: rank.hidden_comm),
)


def fingerprint_text(result: Fingerprint) -> str:
    """All tables, then what the trace cannot show."""
    return "\n".join(filter(None, _parts(result)))


def _parts(result: Fingerprint) -> Iterable[str]:
    counts = Counter(rank.gpu or "GPU" for rank in result.ranks)
    gpus = ", ".join(f"{count} x {name}" for name, count in counts.items())
    steps = ""
    if result.steps:
        steps = f", {result.steps} step" + "s" * (result.steps > 1)
    yield f"{gpus}, window {result.window}: {result.window_s:.4g} s{steps}\n"
    yield _ranks("% of the window", result.ranks, _TIME)
    yield _ranks("kernels, % of the window", result.ranks, _CLASSES)
    yield _collectives(result.collectives)
    kernels = []
    for name in Classes.model_fields:
        own = [kernel for kernel in result.kernels if kernel.kernel_class == name]
        for kernel in own[:LONGEST]:
            kernels.append((name, _short(kernel.name), kernel.count, _percent(kernel.share)))
    yield _named(("class", "longest kernels", "count", "%"), kernels, len(kernels))
    rows = []
    for marked in result.ranges:
        times = _ms(marked.host_s), _ms(marked.device_s)
        rows.append((_short(marked.name), marked.count, *times))
    yield _named(("marked range", "count", "host ms", "device ms"), rows)
    titles = ("product (batch x m x n x k)", "type", "count", "ms", "TFLOPS", "% of peak")
    yield _named(titles, [_product(row) for row in result.products])
    strange = []
    for each in result.unknown_kernels:
        strange.append((_short(each.name), _percent(each.share)))
    yield _named(("kernel of no known class", "% of the window"), strange)
    for slow in result.stragglers:
        place = f"rank {slow.rank}"
        if slow.host:
            place += f" on {slow.host}"
        yield f"slow: {place}: all others waited {_ms(slow.behind_s)} ms for it\n"
    notes = []
    for note in result.notes:
        notes.append(fill(f"note: {note}", WIDTH, subsequent_indent=" " * 6))
    yield "".join(f"{note}\n" for note in notes)
    if result.sentence:
        yield f"{fill(result.sentence, WIDTH)}\n"


def kernels_text(result: Fingerprint, kernel_class: str) -> str:
    """Every kernel of one class."""
    rows = []
    for kernel in result.kernels:
        if kernel.kernel_class == kernel_class:
            rows.append((_short(kernel.name), kernel.count, _percent(kernel.share)))
    if not rows:
        return f"no {kernel_class} kernels\n"
    return plain(Table((f"{kernel_class} kernel", "count", "% of the window"), rows))


def _product(row: ProductRow) -> Sequence[object]:
    shape = f"{row.batch} x {row.m} x {row.n} x {row.k}"
    dtype = row.dtype.removeprefix("c10::")
    return shape, dtype, row.count, _ms(row.seconds), f"{row.tflops:.0f}", _percent(row.of_peak)


def _ranks(title: str, ranks: Sequence[RankShares], columns: Sequence[Column]) -> str:
    """A row for each of the first ranks, and the least, the median and the most of all."""
    titles = [title]
    rows = [[f"rank {rank.rank}"] for rank in ranks[:SHOWN]]
    over: dict[str, Callable[[list[float]], float]] = {}
    if len(ranks) > 1:
        over = {"least": min, "median": median, "most": max}
    for name in over:
        rows.append([name])
    for name, share in columns:
        titles.append(name)
        shares = [share(rank) for rank in ranks]
        known = [each for each in shares if each is not None]
        shown = shares[:SHOWN] + [take(known) if known else None for take in over.values()]
        for row, value in zip(rows, shown, strict=True):
            row.append(_percent(value))
    return plain(Table(titles, rows))


def _collectives(listed: Sequence[CollectiveTime]) -> str:
    titles = (
        "collective",
        "group",
        "ranks",
        "count",
        "GB",
        "ms",
        "transfer ms",
        "waiting ms",
        "bus GB/s",
    )
    rows = []
    for each in listed:
        gigabytes = None
        if each.bytes is not None:
            gigabytes = each.bytes / 1e9
        times = map(_ms, (each.duration_s, each.transfer_s, each.waiting_s))
        group = _short(each.group or "-", WIDEST_GROUP)
        ranks = _ranks_text(each.ranks)
        rows.append(
            (
                each.name,
                group,
                ranks,
                each.count,
                _rounded(gigabytes),
                *times,
                _rounded(each.busbw_gb_s),
            )
        )
    return _named(titles, rows)


def _rounded(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}"


def _ranks_text(ranks: Sequence[int]) -> str:
    text = ",".join(map(str, ranks))
    if len(text) <= 12:
        return text
    return f"{ranks[0]}..{ranks[-1]}"


def _named(titles: Sequence[str], rows: Sequence[Sequence[object]], shown: int = SHOWN) -> str:
    """The first rows of a table; nothing if there are none."""
    if not rows:
        return ""
    text = plain(Table(titles, rows[:shown]))
    if len(rows) > shown:
        text += f"and {len(rows) - shown} more\n"
    return text


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:.2f}"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1000 * seconds:.4g}"


def _short(name: str, width: int = WIDEST_NAME) -> str:
    if len(name) <= width:
        return name
    return f"{name[: width - 3]}..."
