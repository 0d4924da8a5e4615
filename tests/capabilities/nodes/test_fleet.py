"""Which nodes of a fleet are outliers: simulated fleets of 3 to 64 nodes, healthy ones and such with a slow node."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selection import some

from benchrun.capabilities.nodes.fleet import FALSE_ALARMS, Fleet, fleet
from benchrun.capabilities.nodes.outliers import beside_each_other, t_above, t_at
from benchrun.capabilities.nodes.view import fleet_view
from benchrun.rundir.nodes import FEW_NODES, RankRates, Rate, rounds

SPEEDS = {"products": 700.0, "memory": 2800.0, "node_collective": 400.0, "exchange": 45.0}


class Simulated:
    """A fleet whose GPUs differ by ``spread`` and whose repeats by ``noise`` (standard deviations, as shares)."""

    def __init__(self, nodes: int, seed: int, *, gpus: int = 1, spread: float = 0.005, noise: float = 0.003) -> None:
        self.nodes, self.gpus, self.spread, self.noise = nodes, gpus, spread, noise
        self.random = random.Random(seed)
        self.slowed: dict[tuple, float] = {}
        """Share that is left of the speed, by test and node, by test, node and GPU, or by test and pair."""

    def slow(self, *what: object, share: float) -> "Simulated":
        self.slowed[what] = share
        return self

    def rate(self, test: str, factor: float, peer: str | None = None) -> Rate:
        values = [SPEEDS[test] * factor * math.exp(self.random.gauss(0, self.noise)) for _ in range(5)]
        return Rate(test=test, work="simulated", peer=peer, values=tuple(values))

    def measured(self) -> Fleet:
        own = {
            (test, node, gpu): math.exp(self.random.gauss(0, self.spread))
            * self.slowed.get((test, node), 1)
            * self.slowed.get((test, node, gpu), 1)
            for test in SPEEDS
            for node in range(self.nodes)
            for gpu in range(self.gpus)
        }
        ranks = []
        for node, gpu in itertools.product(range(self.nodes), range(self.gpus)):
            rates = [self.rate(test, own[test, node, gpu]) for test in ("products", "memory")]
            if self.gpus > 1:
                rates.append(self.rate("node_collective", own["node_collective", node, gpu]))
            for pair in itertools.chain(*rounds(self.nodes)):
                if node in pair:
                    other = sum(pair) - node
                    both = min(own["exchange", node, gpu], own["exchange", other, gpu])
                    share = self.slowed.get(("exchange", "pair", *pair), 1)
                    rates.append(self.rate("exchange", both * share, f"n{other}"))
            where = {"host": f"n{node}", "rank": node * self.gpus + gpu, "local_rank": gpu}
            device = {"device": "simulated", "device_id": f"GPU-{node}-{gpu}", "ranks": self.nodes * self.gpus}
            ranks.append(RankRates(**where, **device, complete=True, rates=tuple(rates)))
        return fleet(ranks)


TESTS = ("products", "memory", "exchange")


def missed(nodes: int, share: float, trials: int) -> int:
    """Fleets of ``trials`` in which the slow node is not excluded for the test that is slow, or too many others are."""
    count = 0
    for seed in range(trials):
        test, node = TESTS[seed % len(TESTS)], seed % nodes
        found = Simulated(nodes, seed).slow(test, node, share=share).measured()
        named = (f"n{node}", test) in {(finding.host, finding.test) for finding in found.outliers}
        count += not (named and f"n{node}" in found.exclude and len(found.exclude) <= 2)
    return count


def test_of_64_nodes_the_one_that_is_5_percent_slow_is_named_and_hardly_another() -> None:
    assert missed(64, 0.95, 30) <= 1


def test_of_3_nodes_the_one_that_is_15_percent_slow_is_named_and_hardly_another() -> None:
    assert missed(3, 0.85, 60) <= 1


FLEETS = [(3, 1, 300), (3, 8, 60), (8, 1, 150), (64, 1, 60), (16, 4, 30)]
"""Nodes, GPUs of each, trials."""


@pytest.mark.parametrize(("nodes", "gpus", "trials"), some(FLEETS, 1))
@pytest.mark.parametrize("spread", [0.0, 0.005, 0.02])
def test_hardly_any_healthy_fleet_has_an_outlier(nodes: int, gpus: int, trials: int, spread: float) -> None:
    """At most as often as is promised; the seeds are fixed, and the count is allowed what chance allows."""
    alarms = sum(
        bool(found.exclude or found.slow_pairs or found.faster)
        for seed in range(trials)
        for found in [Simulated(nodes, seed, gpus=gpus, spread=spread).measured()]
    )
    assert alarms <= 3 + 2 * FALSE_ALARMS * trials


def test_a_fleet_that_differs_much_needs_a_larger_difference() -> None:
    """No fixed threshold: the same 6 % stand out of an even fleet and not out of an uneven one."""
    even = Simulated(64, seed=1, spread=0.003).slow("products", 9, share=0.94).measured()
    uneven = Simulated(64, seed=1, spread=0.04).slow("products", 9, share=0.94).measured()
    assert even.exclude == ("n9",)
    assert uneven.exclude == ()
    limits = {name: each.tests[0].limit_percent for name, each in (("even", even), ("uneven", uneven))}
    assert limits["even"] < 6 < limits["uneven"]


def test_several_slow_nodes_do_not_hide_each_other() -> None:
    simulated = Simulated(64, seed=2)
    for node in range(0, 64, 8):
        simulated.slow("memory", node, share=0.8)
    assert simulated.measured().exclude == tuple(f"n{node}" for node in range(0, 64, 8))


@pytest.mark.parametrize(("nodes", "slow"), [(3, 2), (8, 6)])
def test_where_most_nodes_are_slow_the_healthy_ones_are_shown_and_none_is_excluded(nodes: int, slow: int) -> None:
    simulated = Simulated(nodes, seed=11)
    for node in range(slow):
        simulated.slow("products", node, share=0.6)
    found = simulated.measured()
    assert (found.exclude, found.comparable) == ((), True)
    assert {finding.host for finding in found.faster} == {f"n{node}" for node in range(slow, nodes)}
    assert "above the others'" in found.faster[0].sentence
    assert "most of the nodes may be slow" in fleet_view(found)


@pytest.mark.parametrize("seed", range(5))
def test_of_8_nodes_with_8_gpus_the_one_that_is_5_percent_slow_is_named(seed: int) -> None:
    """64 GPUs show their spread better than 8 nodes of one GPU would, of which 5 % is not beyond chance."""
    assert Simulated(8, seed, gpus=8).slow("products", 3, share=0.95).measured().exclude == ("n3",)


def test_the_gpus_of_one_node_are_compared() -> None:
    """As on this machine: an answer, and no node too few."""
    found = Simulated(1, seed=7, gpus=8).measured()
    assert (found.comparable, found.outliers, found.missing) == (True, (), ())
    assert fleet_view(found).endswith("\nno outlier\n")
    assert "too few" in fleet_view(Simulated(1, seed=7, gpus=2).measured())


def test_one_slow_gpu_is_named_with_its_number() -> None:
    found = Simulated(4, seed=3, gpus=8).slow("products", 2, 5, share=0.9).measured()
    (finding,) = found.outliers
    assert (finding.host, finding.local_rank, finding.device_id) == ("n2", 5, "GPU-2-5")
    assert finding.behind_percent == pytest.approx(10, abs=2)
    assert "n2, GPU 5: products" in finding.sentence


def test_the_partners_of_a_slow_node_are_not_named() -> None:
    found = Simulated(8, seed=4).slow("exchange", 1, share=0.5).measured()
    assert (found.exclude, found.slow_pairs) == (("n1",), ())


def test_a_slow_pair_of_sound_nodes_is_shown_and_excludes_neither() -> None:
    found = Simulated(8, seed=5).slow("exchange", "pair", 2, 6, share=0.5).measured()
    assert found.exclude == ()
    assert [(pair.host, pair.peer) for pair in found.slow_pairs] == [("n2", "n6")]


def test_of_two_nodes_none_can_be_called_slow() -> None:
    found = Simulated(2, seed=6).slow("products", 1, share=0.5).measured()
    assert (found.exclude, found.comparable) == ((), False)


def ranks_of(host: str, rank: int, *, complete: bool = True) -> RankRates:
    rate = Rate(test="products", work="x", values=(1.0, 1.01, 0.99))
    return RankRates(host=host, rank=rank, local_rank=0, device="x", ranks=4, complete=complete, rates=(rate,))


def test_a_node_without_a_result_is_excluded_unless_hardly_any_has_one() -> None:
    ranks = [ranks_of(f"n{number}", number) for number in range(3)]
    found = fleet(ranks, nodes=["n0", "n1", "n2", "n3"])
    assert (found.missing, found.exclude) == (("n3",), ("n3",))
    broken = fleet(ranks[:1], nodes=["n0", "n1", "n2", "n3"])  # a fault of the job, as of its image
    assert (broken.missing, broken.exclude) == (("n1", "n2", "n3"), ())
    cut = fleet([ranks_of("n0", 0, complete=False), *ranks[1:], ranks_of("n3", 3)])
    assert (cut.missing, cut.exclude) == (("n0",), ())
    assert not fleet_view(cut).endswith("\nno outlier\n")
    assert fleet([]).exclude == ()


@given(st.integers(0, 300))
def test_rounds_pair_every_node_once_and_no_two_nodes_twice(count: int) -> None:
    played = rounds(count)
    pairs = list(itertools.chain(*played))
    assert len(pairs) == len(set(pairs))
    assert all(0 <= first < second < count for first, second in pairs)
    for each in played:
        members = list(itertools.chain(*each))
        assert len(members) == len(set(members)) >= count - count % 2
    if count <= FEW_NODES:
        assert len(pairs) == count * (count - 1) // 2
    elif count:
        assert len(played) == math.ceil(math.log2(count))


@pytest.mark.parametrize(
    ("value", "freedom", "chance"),
    # Tables of Student's distribution.
    [(2.015, 5, 0.05), (2.764, 10, 0.01), (3.646, 30, 0.0005), (7.173, 4, 0.001), (-2.015, 5, 0.95)],
)
def test_students_distribution(value: float, freedom: float, chance: float) -> None:
    assert t_above(value, freedom) == pytest.approx(chance, rel=2e-3)
    if chance < 0.5:
        assert t_at(chance, freedom) == pytest.approx(value, rel=1e-3)


def test_the_limit_is_where_the_chance_is_the_level() -> None:
    rates = [[1.0, 1.001, 0.999]] * 5 + [[0.9, 0.901, 0.899]]
    for each in beside_each_other(rates, level=1e-3):
        assert (each.chance < 1e-3) == (each.behind > each.limit)


@pytest.mark.parametrize(("nodes", "slow"), [(3, 1), (8, 2), (64, 1), (64, 5)])
def test_equal_rates_of_different_nodes_count_each(nodes: int, slow: int) -> None:
    ranks = []
    for node in range(nodes):
        rates = (Rate(test="products", work="simulated", values=(600.0 + node if node < slow else 700.0,) * 5),)
        where = {"host": f"n{node}", "rank": node, "local_rank": 0, "device": "simulated", "device_id": f"GPU-{node}"}
        ranks.append(RankRates(**where, ranks=nodes, complete=True, rates=rates))
    assert fleet(ranks).exclude == tuple(f"n{node}" for node in range(slow))


@pytest.mark.parametrize("values", [(), (math.inf,), (math.nan,), (0.0,)])
def test_a_rate_is_a_positive_number(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="values"):
        Rate(test="products", work="simulated", values=values)


@pytest.mark.parametrize("nodes", [4, 5, 8, 32])
@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("share", [0.9, 0.8])
def test_half_of_a_fleet_that_is_slow_is_named(nodes: int, gpus: int, share: float) -> None:
    simulated = Simulated(nodes, seed=nodes, gpus=gpus)
    slow = [f"n{node}" for node in range(nodes // 2)]
    for node in range(nodes // 2):
        simulated.slow("products", node, share=share)
    result = simulated.measured()
    assert {finding.host for finding in result.outliers} == set(slow)
    assert list(result.exclude) == slow
    assert all(finding.behind_percent == pytest.approx(100 * (1 - share), abs=3) for finding in result.outliers)


def test_a_healthy_fleet_is_not_split() -> None:
    named = 0
    for seed in range(60):
        named += bool(Simulated(4 + seed % 9, seed=seed, spread=0.015, noise=0.006).measured().outliers)
    assert named <= 2  # 60 * FALSE_ALARMS is 0.6


def test_another_gpu_among_the_nodes_is_named_and_not_compared() -> None:
    def rank(number: int, device: str, speed: float) -> RankRates:
        rates = (Rate(test="products", work="simulated", values=(speed, speed * 1.001, speed * 0.999)),)
        where = {"host": f"n{number}", "rank": number, "local_rank": 0, "ranks": 6}
        return RankRates(**where, device=device, device_id=f"GPU-{number}", complete=True, rates=rates)

    ranks = [rank(number, "NVIDIA H100 80GB HBM3", 700 + number) for number in range(5)]
    result = fleet([*ranks, rank(5, "NVIDIA H100 PCIe", 480)])
    assert [(model.gpu, model.nodes) for model in result.other_models] == [("NVIDIA H100 PCIe", ("n5",))]
    assert result.exclude == ("n5",)
    assert not result.outliers
    assert "OTHER GPU  n5: NVIDIA H100 PCIe" in fleet_view(result)
