"""A fingerprint as tables of at most 100 columns."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from textwrap import fill

from benchrun.rundir.fingerprint import CollectiveTime, Fingerprint, RankShares
from benchrun.show.table import Table, plain

SHOWN = 8
"""Rows of a table; of more ranks the minimum, the median and the maximum are shown too."""
WIDTH = 100
WIDEST_NAME, WIDEST_GROUP = 60, 16
Column = tuple[str, Callable[[RankShares], float | None]]

_TIME: tuple[Column, ...] = (
    ("compute", lambda rank: rank.compute),
    ("exposed comm", lambda rank: rank.exposed_comm),
    ("copy", lambda rank: rank.copies),
    ("idle", lambda rank: rank.idle),
    ("(host", lambda rank: rank.idle_by_cause.host if rank.idle_by_cause else None),
    ("launch", lambda rank: rank.idle_by_cause.launch_gap if rank.idle_by_cause else None),
    ("data", lambda rank: rank.idle_by_cause.data if rank.idle_by_cause else None),
    ("sync)", lambda rank: rank.idle_by_cause.sync if rank.idle_by_cause else None),
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
    return "\n".join(part for part in _parts(result) if part)


def _parts(result: Fingerprint) -> Iterable[str]:
    gpus = ", ".join(f"{count} x {name}" for name, count in Counter(rank.gpu or "GPU" for rank in result.ranks).items())
    steps = f", {result.steps} step{'s' if result.steps > 1 else ''}" if result.steps else ""
    yield f"{gpus}, window {result.window}: {result.window_s:.4g} s{steps}\n"
    yield _ranks("% of the window", result.ranks, _TIME)
    yield _ranks("kernels, % of the window", result.ranks, _CLASSES)
    yield _collectives(result.collectives)
    yield _named(
        ("marked range", "count", "host ms", "device ms"),
        ((_short(each.name), each.count, _ms(each.host_s), _ms(each.device_s)) for each in result.ranges),
    )
    yield _named(
        ("product (batch x m x n x k)", "type", "count", "ms", "TFLOPS", "% of peak"),
        (
            (
                f"{each.batch} x {each.m} x {each.n} x {each.k}",
                each.dtype.removeprefix("c10::"),
                each.count,
                _ms(each.seconds),
                f"{each.tflops:.0f}",
                _percent(each.of_peak),
            )
            for each in result.products
        ),
    )
    yield _named(
        ("kernel of no known class", "% of the window"),
        ((_short(each.name), _percent(each.share)) for each in result.unknown_kernels),
    )
    for slow in result.stragglers:
        place = f"rank {slow.rank} on {slow.host}" if slow.host else f"rank {slow.rank}"
        yield f"slow: {place}: all others waited {_ms(slow.behind_s)} ms for it\n"
    yield "".join(fill(f"note: {note}", WIDTH, subsequent_indent=" " * 6) + "\n" for note in result.notes)


def _ranks(title: str, ranks: Sequence[RankShares], columns: Sequence[Column]) -> str:
    rows = [(f"rank {rank.rank}", *(_percent(value(rank)) for _, value in columns)) for rank in ranks[:SHOWN]]
    if len(ranks) > 1:
        rows += [(name, *(_over(take, ranks, value) for _, value in columns)) for name, take in _OVER_RANKS]
    return plain(Table((title, *(name for name, _ in columns)), rows))


_OVER_RANKS: tuple[tuple[str, Callable[[list[float]], float]], ...] = (
    ("least", min),
    ("median", median),
    ("most", max),
)


def _over(
    take: Callable[[list[float]], float], ranks: Sequence[RankShares], value: Callable[[RankShares], float | None]
) -> str:
    values = [each for rank in ranks if (each := value(rank)) is not None]
    return _percent(take(values) if values else None)


def _collectives(listed: Sequence[CollectiveTime]) -> str:
    titles = ("collective", "group", "ranks", "count", "GB", "ms", "transfer ms", "waiting ms", "bus GB/s")
    return _named(
        titles,
        (
            (
                each.name,
                _short(each.group or "-", WIDEST_GROUP),
                _ranks_text(each.ranks),
                each.count,
                "-" if each.bytes is None else f"{each.bytes / 1e9:.3g}",
                _ms(each.duration_s),
                _ms(each.transfer_s),
                _ms(each.waiting_s),
                "-" if each.busbw_gb_s is None else f"{each.busbw_gb_s:.3g}",
            )
            for each in listed
        ),
    )


def _ranks_text(ranks: Sequence[int]) -> str:
    text = ",".join(map(str, ranks))
    return text if len(text) <= 12 else f"{ranks[0]}..{ranks[-1]}"


def _named(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The first rows of a table; nothing if there are none."""
    listed = list(rows)
    more = f"and {len(listed) - SHOWN} more\n" if len(listed) > SHOWN else ""
    return plain(Table(titles, listed[:SHOWN])) + more if listed else ""


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.4g}"


def _short(name: str, width: int = WIDEST_NAME) -> str:
    return name if len(name) <= width else f"{name[: width - 3]}..."
