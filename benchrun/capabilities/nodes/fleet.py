"""The files of a check's ranks -> the fleet: every node beside the others, outliers,
slow pairs, nodes with no result.

What runs on one GPU is compared GPU by GPU, an all-reduce within a node node by node.
In exchanges the slower of two nodes counts, so a node is as fast as its best exchange;
a slow pair of two sound nodes is a fault between them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple, get_args

from benchrun.model import Frozen
from benchrun.rundir.nodes import UNITS, RankRates, Test

from .outliers import MIN_UNITS, Beside, beside_each_other, slower_group

FALSE_ALARMS = 0.01
"""The chance that a check of a healthy fleet names any node."""


class Finding(Frozen):
    """A GPU, node or pair of nodes that is slower than the fleet explains."""

    host: str
    """The node."""
    test: Test
    """The measurement that shows it."""
    local_rank: int | None = None
    """Number of the GPU on its node, if one GPU was measured."""
    device_id: str | None = None
    """UUID of that GPU."""
    peer: str | None = None
    """The other node of a slow pair."""
    value: float
    """Its rate, in the unit of the test."""
    others: float
    """Median of the others."""
    behind_percent: float
    """Percentage by which it is slower than the others' median."""
    limit_percent: float
    """Difference in percent from which it would be an outlier: by the spread of the
    others and the noise of the repeats.
    """

    @property
    def sentence(self) -> str:
        """One line for a person."""
        which = self.host
        if self.peer:
            which += f" and {self.peer}"
        if self.local_rank is not None:
            which += f", {_one_of_node(self.device_id)} {self.local_rank}"
        side = "below" if self.behind_percent > 0 else "above"
        return (
            f"{which}: {self.test} {self.value:.4g} {UNITS[self.test]}, {abs(self.behind_percent):.1f} % {side} the "
            f"others' {self.others:.4g}; {self.limit_percent:.1f} % would be within their spread"
        )


def _one_of_node(device_id: object) -> Literal["GPU", "rank"]:
    """Unit that is measured alone: a GPU, or a rank if no GPU is known."""
    if device_id:
        return "GPU"
    return "rank"


class TestRow(Frozen):
    """One measurement over the fleet."""

    test: Test
    """Test that was measured."""
    unit: str
    """Unit of its rates."""
    work: str
    """Work that was computed or sent."""
    of: Literal["GPU", "rank", "node"]
    """Units that are compared; a rank if there is no GPU."""
    count: int
    """Number of units."""
    median: float
    """Median of the rates."""
    lowest: float
    """The slowest."""
    limit_percent: float | None
    """Least percentage below the others' median that makes an outlier; None with fewer
    than three.
    """


class Model(Frozen):
    """The nodes with one model of GPU."""

    gpu: str
    """Name of the driver."""
    nodes: tuple[str, ...]


class Fleet(Frozen):
    """fleet.json."""

    schema_version: Literal[1] = 1
    nodes: tuple[str, ...]
    """Nodes that measured, in order."""
    tests: tuple[TestRow, ...]
    """Tests that were measured."""
    outliers: tuple[Finding, ...]
    """Nodes that are slower than their fleet."""
    slow_pairs: tuple[Finding, ...]
    """Pairs that are slow although neither node is an outlier."""
    faster: tuple[Finding, ...] = ()
    """Units that are faster than the fleet explains while nothing is slower: most of
    the others may be slow.
    """
    models: tuple[Model, ...] = ()
    """The models of GPU, the most frequent first: only its nodes are compared, and the
    others are excluded.
    """
    missing: tuple[str, ...]
    """Nodes of the job without a complete result, and ``rank N`` for each rank without
    a file on an unknown node.
    """
    exclude: tuple[str, ...]
    """Names of the outliers, and of nodes that measured nothing while at least half of
    the others did.
    """

    @property
    def other_models(self) -> tuple[Model, ...]:
        """The models of GPU beside the most frequent one."""
        return self.models[1:]

    @property
    def comparable(self) -> bool:
        """Whether there are enough units of any test to tell which one is slow."""
        return any(row.limit_percent is not None for row in self.tests)

    @property
    def verdicts(self) -> dict[str, tuple[bool | None, str]]:
        """Whether each node is sound (None: nobody can tell), and why not."""
        usual: tuple[bool | None, str] = (True, "")
        if not self.comparable:
            usual = (None, "too few to tell a slow one: three are needed")
        found = dict.fromkeys(self.nodes, usual)
        found |= dict.fromkeys(self.missing, (None, "no complete result"))
        for each in self.faster:
            found[each.host] = (None, each.sentence)
        for model in self.other_models:
            found |= dict.fromkeys(model.nodes, (False, f"another GPU: {model.gpu}"))
        for each in (*self.slow_pairs, *self.outliers):
            for host in filter(None, (each.host, each.peer)):
                found[host] = (False, each.sentence)
        return found


class Unit(NamedTuple):
    """Unit of a comparison: a GPU, a node or a pair of nodes."""

    names: dict[str, Any]
    """Fields of a `Finding`."""
    values: tuple[float, ...]
    """The repeats of its rate."""
    work: str
    pair: tuple[str, str] | None = None
    """The nodes whose exchange it is, which counts for both."""


def fleet(ranks: Sequence[RankRates], nodes: Iterable[str] = ()) -> Fleet:
    """The fleet of these ranks. ``nodes``: all nodes of the job, as far as they are
    known.
    """
    ranks = sorted(ranks, key=lambda each: each.rank)
    complete: dict[str, bool] = {}
    for each in ranks:
        complete[each.host] = complete.get(each.host, True) and each.complete
    hosts = list(complete)
    models = _models(ranks)
    alike = [each for each in ranks if each.device == models[0].gpu]
    units = {test: list(_units(test, alike)) for test in get_args(Test)}
    pairs = _pairs(alike)
    level = FALSE_ALARMS / max(1, sum(map(len, units.values())) + len(pairs))
    rows = []
    outliers = []
    faster = []
    for test, members in units.items():
        if not members:
            continue
        sources = [unit.pair or number for number, unit in enumerate(members)]
        compared = beside_each_other([unit.values for unit in members], level, sources)
        rows.append(_row(test, members, compared))
        slower = _findings(test, members, compared, level) or _of_two_groups(test, members, level)
        outliers += slower
        if not slower:
            faster += _findings(test, members, compared, level, faster=True)
    named = {finding.host for finding in outliers}
    sound = [unit for unit in pairs if named.isdisjoint(unit.pair or ())]
    beside = beside_each_other([unit.values for unit in sound], level)
    every = list(dict.fromkeys((*hosts, *nodes)))
    excluded = set(named)
    for model in models[1:]:
        excluded.update(model.nodes)
    # A fault of the whole job, such as a wrong image, is no fault of its nodes.
    if 2 * len(hosts) >= len(every):
        excluded.update(set(every) - set(hosts))
    missing = [host for host in every if not complete.get(host)]
    return Fleet(
        nodes=tuple(hosts),
        tests=tuple(rows),
        outliers=tuple(sorted(outliers, key=lambda finding: -finding.behind_percent)),
        slow_pairs=tuple(_findings("exchange", sound, beside, level)),
        faster=tuple(faster),
        models=models,
        missing=(*missing, *_missing_ranks(ranks, hosts, every)),
        exclude=tuple(host for host in every if host in excluded),
    )


def _models(ranks: Sequence[RankRates]) -> tuple[Model, ...]:
    """Return the models of GPU with their nodes, the most frequent first."""
    hosts: dict[str, dict[str, None]] = defaultdict(dict)
    for each in ranks:
        hosts[each.device][each.host] = None
    models = [Model(gpu=gpu, nodes=tuple(nodes)) for gpu, nodes in hosts.items()]
    return tuple(sorted(models, key=lambda model: -len(model.nodes)))


def _of_two_groups(test: Test, units: Sequence[Unit], level: float) -> list[Finding]:
    """Return the units of the slower of two groups, beside the faster one; none if most
    would be slow.
    """
    slower = slower_group([unit.values for unit in units])
    if 2 * len(slower) > len(units):
        return []
    fast = [unit.values for index, unit in enumerate(units) if index not in slower]
    findings = []
    for index in slower:
        beside = beside_each_other([units[index].values, *fast], level)[0]
        findings += _findings(test, [units[index]], [beside], 1.0)
    return findings


def _missing_ranks(
    ranks: Sequence[RankRates], hosts: Sequence[str], every: Sequence[str]
) -> list[str]:
    """The ranks without a file, as ``rank N``; none if the nodes without any file
    explain them all.
    """
    count = max((each.ranks for each in ranks), default=0)
    missing = sorted({*range(count)} - {each.rank for each in ranks})
    if len(missing) * len(every) == count * (len(every) - len(hosts)):
        return []
    return [f"rank {number}" for number in missing]


def _units(test: Test, ranks: Sequence[RankRates]) -> Iterable[Unit]:
    """The GPUs or nodes that measured ``test``."""
    if test == "exchange":
        return _best_exchanges(_pairs(ranks))
    units = []
    for each in ranks:
        names = {"host": each.host, "local_rank": each.local_rank, "device_id": each.device_id}
        for rate in each.rates:
            if rate.test == test:
                units.append(Unit(names, rate.values, rate.work))
    if test != "node_collective":
        return units
    return _whole_nodes(units)


def _whole_nodes(gpus: Iterable[Unit]) -> Iterable[Unit]:
    """Each node, by the slowest of its GPUs in every repeat."""
    by_host = defaultdict(list)
    for gpu in gpus:
        by_host[gpu.names["host"]].append(gpu)
    for host, units in by_host.items():
        yield Unit({"host": host}, _slowest(units), units[0].work)


def _best_exchanges(pairs: Iterable[Unit]) -> Iterable[Unit]:
    """Each node, by its fastest exchange: the partners of the others may be slow."""
    best: dict[str, Unit] = {}
    for unit in pairs:
        for host in unit.pair or ():
            if host not in best or median(unit.values) > median(best[host].values):
                best[host] = unit
    for host, unit in best.items():
        yield unit._replace(names={"host": host})


def _pairs(ranks: Sequence[RankRates]) -> list[Unit]:
    """Every pair of nodes that exchanged data: the sum over their GPUs, by the slower
    side of each.
    """
    sides = defaultdict(list)
    for each in ranks:
        for rate in each.rates:
            if rate.test == "exchange" and rate.peer is not None:
                first, second = sorted((each.host, rate.peer))
                sides[first, second].append((each, rate))
    units = []
    for (first, second), measured in sides.items():
        by_place = defaultdict(list)
        for each, rate in measured:
            by_place[each.local_rank].append(Unit({}, rate.values, rate.work))
        values = tuple(map(sum, zip(*map(_slowest, by_place.values()), strict=False)))
        units.append(
            Unit({"host": first, "peer": second}, values, measured[0][1].work, (first, second))
        )
    return units


def _slowest(units: Iterable[Unit]) -> tuple[float, ...]:
    """Repeat by repeat the lowest rate of those that measured together."""
    return tuple(map(min, zip(*(unit.values for unit in units), strict=False)))


def _row(test: Test, units: Sequence[Unit], compared: Sequence[Beside]) -> TestRow:
    values = [median(unit.values) for unit in units]
    names = units[0].names
    of: Literal["GPU", "rank", "node"] = "node"
    if "local_rank" in names:
        of = _one_of_node(names["device_id"])
    limit = None
    if len(units) >= MIN_UNITS:
        limit = 100 * min(each.limit for each in compared)
    return TestRow(
        test=test,
        unit=UNITS[test],
        work=units[0].work,
        of=of,
        count=len(units),
        median=median(values),
        lowest=min(values),
        limit_percent=limit,
    )


def _findings(
    test: Test,
    units: Sequence[Unit],
    compared: Sequence[Beside],
    level: float,
    *,
    faster: bool = False,
) -> list[Finding]:
    """The units that are slower, or ``faster``, than the others explain."""
    findings = []
    for unit, each in zip(units, compared, strict=False):
        chance = 1 - each.chance if faster else each.chance
        if chance >= level:
            continue
        finding = Finding(
            **unit.names,
            test=test,
            value=each.value,
            others=each.others,
            behind_percent=100 * each.behind,
            limit_percent=100 * each.limit,
        )
        findings.append(finding)
    return findings
