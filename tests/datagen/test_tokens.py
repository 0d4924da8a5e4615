"""Megatron data sets: megatron-core reads every token, the bytes are reproducible, the distributions are right."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import float64, ndarray

from datagen import direct
from datagen import output as output_module
from datagen import tokens as tokens_module
from datagen.indexed import Index, read_index
from datagen.output import Manifest, damage
from datagen.sampling import TokenTable, draw_lengths, draw_tokens, length_table, row_pairs, stream, token_table
from datagen.tokens import Parameters, documents, fill, floor_loss, make_tokens, plan

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def quiet(done: int, total: int) -> None:
    assert done <= total


def make(prefix: Path, workers: int = 1, **parameters: bool | int | str) -> Manifest:
    return make_tokens(prefix, Parameters(**parameters), workers, quiet)[0]


def read(prefix: Path) -> tuple[Index, ndarray]:
    index = read_index(prefix)
    data = numpy.fromfile(prefix.with_name(prefix.name + ".bin"), index.dtype)
    return index, data


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts and blocks of a few KB, so that small data sets have many of them."""
    for module in (output_module, tokens_module):
        monkeypatch.setattr(module, "PART_BYTES", 1 << 14)
    monkeypatch.setattr(direct, "PIECE", 1 << 13)
    monkeypatch.setattr(tokens_module, "CHUNK", 1 << 9)
    monkeypatch.setattr(tokens_module, "ROWS", 2)
    monkeypatch.setattr(tokens_module, "LENGTHS", 1 << 4)
    tokens_module._ends.cache_clear()
    yield
    tokens_module._ends.cache_clear()


@pytest.mark.train
@pytest.mark.parametrize("vocab_size", [300, 65499, 65500, 128256])
@pytest.mark.parametrize("documents", ["fixed", "lognormal", "zipf"])
def test_megatron_core_reads_every_token_and_its_builder_writes_the_same_index(
    tmp_path: Path, vocab_size: int, documents: str
) -> None:
    torch = pytest.importorskip("torch")
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    make(tmp_path / "own", tokens=30_011, vocab_size=vocab_size, documents=documents, mean_length=97)
    index, data = read(tmp_path / "own")

    dataset = indexed.IndexedDataset(str(tmp_path / "own"))
    assert numpy.array_equal(numpy.concatenate([dataset[i] for i in range(len(dataset))]), data)
    assert len(dataset) == index.documents == len(dataset.document_indices) - 1
    assert all(dataset[i][-1] == vocab_size - 1 for i in range(len(dataset)))

    dtype = indexed.DType.optimal_dtype(vocab_size)
    builder = indexed.IndexedDatasetBuilder(str(tmp_path / "built.bin"), dtype=dtype)
    for i in range(len(dataset)):
        builder.add_document(torch.tensor(dataset[i].astype("int64")), [len(dataset[i])])
    builder.finalize(str(tmp_path / "built.idx"))
    assert (tmp_path / "built.idx").read_bytes() == (tmp_path / "own.idx").read_bytes()
    assert (tmp_path / "built.bin").read_bytes() == (tmp_path / "own.bin").read_bytes()


@pytest.mark.usefixtures("small_parts")
@settings(max_examples=40, deadline=None)
@given(
    tokens=st.integers(1, 40_000),
    vocab_size=st.sampled_from([3, 4, 17, 1000, 65499, 65500, 70_000]),
    documents=st.sampled_from(["fixed", "lognormal", "zipf"]),
    mean_length=st.integers(1, 3000),
    distribution=st.sampled_from(["uniform", "zipf"]),
    learnable=st.booleans(),
    shards=st.integers(1, 5),
    seed=st.integers(0, 2**63 - 1),
)
def test_counts_and_ranges_hold_for_any_parameters(
    tmp_path_factory: pytest.TempPathFactory, tokens: Any, shards: Any, **parameters: Any
) -> None:
    folder = tmp_path_factory.mktemp("any")
    shards = min(shards, tokens)
    manifest = make(folder / "x", tokens=tokens, shards=shards, **parameters)
    assert damage(manifest, folder) is None
    prefixes = [folder / "x"] if shards == 1 else [folder / f"x_{i:05d}" for i in range(shards)]
    shards_read = [read(prefix) for prefix in prefixes]
    assert sum(len(data) for _, data in shards_read) == tokens == sum(index.tokens for index, _ in shards_read)
    assert max(len(data) for _, data in shards_read) - min(len(data) for _, data in shards_read) <= 1
    assert sum(index.documents for index, _ in shards_read) == manifest.facts["documents"]
    eod = parameters["vocab_size"] - 1
    for index, data in shards_read:
        assert data.max() <= eod
        ends = numpy.flatnonzero(data == eod)
        assert numpy.array_equal(ends, index.lengths.cumsum() - 1)
        assert numpy.array_equal(index.offsets, (ends - index.lengths + 1) * index.dtype.itemsize)
        assert index.lengths.min() >= 1


@pytest.mark.parametrize("shards", [1, 3])
def test_the_bytes_do_not_depend_on_the_workers(tmp_path: Path, shards: int) -> None:
    parameters = {
        "tokens": 20_000_000,
        "vocab_size": 1000,
        "seed": 5,
        "shards": shards,
    }  # three parts if it is one file
    for workers in (1, 2, 4):
        (tmp_path / str(workers)).mkdir()
        make(tmp_path / str(workers) / "x", workers, **parameters)
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert len(names) == 2 * shards + 2
    for name in names:
        assert len({(tmp_path / str(workers) / name).read_bytes() for workers in (1, 2, 4)}) == 1


def test_a_block_does_not_depend_on_earlier_blocks() -> None:
    parameters = Parameters(tokens=3 << 20, vocab_size=500, learnable=True)
    shard = next(plan(parameters))
    whole, part = numpy.empty(3 << 20, dtype=numpy.uint16), numpy.empty(1 << 20, dtype=numpy.uint16)
    fill(parameters, shard, 0, whole)
    for number in (2, 0, 1):
        fill(parameters, shard, number << 20, part)
        assert numpy.array_equal(part, whole[number << 20 : (number + 1) << 20])


def test_the_bytes_are_those_of_this_version(tmp_path: Path) -> None:
    """Changed bytes need a new ``datagen.__version__``: existing manifests contain the old checksums."""
    manifest = make(tmp_path / "x", tokens=200_000, vocab_size=128256)
    learnable = make(tmp_path / "y", tokens=200_000, vocab_size=500, learnable=True, documents="zipf")
    assert manifest.version == "3"
    sums = [file.crc32 for file in (*manifest.files, *learnable.files)]
    assert sums == [("eaa34128",), ("ae6038b8",), ("eaaaaf79",), ("c05bb7d2",)]


@pytest.mark.parametrize(("seed", "other"), [({"seed": 1}, {"seed": 2}), ({"shards": 1}, {"shards": 2})])
def test_another_seed_or_shard_has_other_tokens(tmp_path: Path, seed: dict[str, int], other: dict[str, int]) -> None:
    make(tmp_path / "a", tokens=10_000, vocab_size=1000, **seed)
    make(tmp_path / "b", tokens=10_000, vocab_size=1000, **other)
    first = read(tmp_path / "a")[1]
    second = read(tmp_path / ("b" if "seed" in other else "b_00001"))[1]
    same = (first[: len(second)] == second).mean()
    assert same < 0.1


def chi_squared(observed: ndarray, expected: ndarray) -> float64:
    """The statistic in standard deviations from its expectation, nearly normal for many cells."""
    cells = len(observed)
    return (((observed - expected) ** 2 / expected).sum() - (cells - 1)) / (2 * (cells - 1)) ** 0.5


def rows_of_tokens(table: TokenTable) -> ndarray:
    """[8, 8, 65536]: tokens drawn like a block of a data set, with fewer rows."""
    first, second = row_pairs(11, 0, 0, 0, rows=8, words=1 << 15)
    bits = (first[:, None] ^ second).reshape(-1).view(numpy.uint32)
    drawn = numpy.empty(1 << 22, dtype=numpy.int32)
    draw_tokens(table, bits, drawn)
    return drawn.reshape(8, 8, -1)


@pytest.mark.parametrize("kind", ["uniform", "zipf"])
@pytest.mark.parametrize("count", [2, 100, 31_999, 128_255])
def test_tokens_follow_the_distribution(kind: str, count: int) -> None:
    table = token_table(kind, 1.1, count)
    drawn = rows_of_tokens(table).ravel()
    weights = numpy.ones(count) if kind == "uniform" else numpy.arange(1, count + 1) ** -1.1
    expected = weights / weights.sum() * len(drawn)
    assert abs(table.probabilities - weights / weights.sum()).max() <= 2**-32
    observed = numpy.bincount(drawn, minlength=count)
    # Rare tokens share a cell: a cell needs at least about five draws.
    edges = numpy.flatnonzero(numpy.diff(numpy.floor(expected.cumsum() / 20), prepend=-1))
    cells = numpy.add.reduceat(observed, edges), numpy.add.reduceat(expected, edges)
    assert abs(chi_squared(*cells)) < 4 if len(edges) > 1 else observed.sum() == len(drawn)


@pytest.mark.parametrize("kind", ["uniform", "zipf"])
@pytest.mark.parametrize("apart", [1, 2, 3, 64, 4096, 65535, 65536, 65537])
def test_pairs_are_those_of_independent_tokens(kind: str, apart: int) -> None:
    """At several distances, within a row and between rows that share a row of a table."""
    table = token_table(kind, 1.1, 40)
    rows = rows_of_tokens(table)
    first, second = rows.ravel()[:-apart], rows.ravel()[apart:]
    if apart == 65536:  # use each row of a table once, else the pairs are not independent
        first, second = rows[range(4), range(0, 8, 2)].ravel(), rows[range(4), range(1, 8, 2)].ravel()
    pairs = numpy.bincount(40 * first + second, minlength=1600)
    expected = numpy.outer(table.probabilities, table.probabilities).ravel() * len(first)
    assert abs(chi_squared(pairs, expected)) < 4


def test_three_rows_are_independent_and_a_fourth_is_not() -> None:
    """The property in the docstring of ``row_pairs``: the XOR of four words at one place is 0."""
    first, second = row_pairs(11, 0, 0, 0, rows=2, words=1 << 15)
    rows = (first[:, None] ^ second).reshape(4, -1)
    assert not numpy.bitwise_xor.reduce(rows).any()
    bits = rows.view(numpy.uint32)
    triples = ((bits[0] >> 28 << 8) | (bits[1] >> 28 << 4) | bits[2] >> 28).astype(numpy.int64)
    assert abs(chi_squared(numpy.bincount(triples, minlength=4096), numpy.full(4096, len(triples) / 4096))) < 4


def test_no_two_rows_of_a_block_look_alike() -> None:
    """Equal tokens at equal places are as frequent as in independent rows."""
    table = token_table("zipf", 1.1, 31_999)
    rows = rows_of_tokens(table).reshape(64, -1)
    chance = float((table.probabilities**2).sum())
    same = [(rows[i] == rows[j]).mean() for i in range(64) for j in range(i)]
    assert numpy.mean(same) == pytest.approx(chance, rel=0.01)
    assert max(same) < chance + 5 * (chance / 65536) ** 0.5


@pytest.mark.parametrize("kind", ["fixed", "lognormal", "zipf"])
@pytest.mark.parametrize("mean", [1, 7, 1024, 100_000])
def test_lengths_follow_the_distribution_of_documents(kind: str, mean: int) -> None:
    table = length_table(kind, mean)
    assert table.min() >= 1
    assert table.mean() == pytest.approx(mean, rel=0.01)
    drawn = draw_lengths(table, stream(3, 0, 2, 0), 1 << 16)
    values, often = numpy.unique(table, return_counts=True)
    edges = numpy.flatnonzero(numpy.diff(often.cumsum() // 64, prepend=-1))
    observed = numpy.histogram(drawn, bins=[*values[edges], values[-1] + 1])[0]
    expected = numpy.add.reduceat(often, edges) * len(drawn) / len(table)
    assert len(edges) == 1 or abs(chi_squared(observed, expected)) < 4


def test_the_median_of_lognormal_lengths_is_right() -> None:
    table = length_table("lognormal", 1000)
    assert numpy.median(table) == pytest.approx(1000 * numpy.exp(-0.5), rel=0.01)


def test_power_law_lengths_fall_with_their_exponent() -> None:
    table = length_table("zipf", 1000)
    x = numpy.median(table)
    assert (table > 8 * x).mean() / (table > x).mean() == pytest.approx(8**-1.5, rel=0.05)


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_the_floor_is_the_loss_of_the_rule(distribution: str) -> None:
    """The mean loss of the rule's own predictions on its data equals the floor."""
    parameters = Parameters(
        tokens=1 << 20, vocab_size=200, learnable=True, distribution=distribution, documents="zipf", mean_length=300
    )
    shard = next(plan(parameters))
    data = numpy.empty(1 << 20, dtype=numpy.int32)
    fill(parameters, shard, 0, data)
    p = parameters.token_table().probabilities
    eod, end = 199, 1 / 300
    before, after = data[:-1], data[1:]
    chance = 0.25 * p[numpy.minimum(after, eod - 1)] + 0.75 * ((before + 1) % eod == after)
    chance = numpy.where(before == eod, p[numpy.minimum(after, eod - 1)], chance)
    chance = numpy.where(after == eod, end, (1 - end) * chance)
    assert -numpy.log(chance).mean() == pytest.approx(parameters.floor_loss(), rel=0.01)
    assert parameters.floor_loss() < 0.6 * floor_loss(p, 300, learnable=False)


def test_lengths_of_a_shard_sum_to_its_tokens() -> None:
    parameters = Parameters(tokens=10**8 + 7, vocab_size=100, shards=3, documents="zipf", mean_length=50)
    for shard in plan(parameters):
        starts, lengths = map(numpy.concatenate, zip(*documents(parameters, shard), strict=True))
        assert lengths.sum() == shard.tokens
        assert len(lengths) == len(starts) == shard.documents
        assert (starts == lengths.cumsum() - lengths).all()


def test_the_manifest_contains_parameters_facts_and_files(tmp_path: Path) -> None:
    manifest = make(tmp_path / "x", tokens=1000, vocab_size=128256, seed=3)
    written = json.loads((tmp_path / "x.json").read_text())
    assert written == manifest.model_dump(mode="json")
    assert written["parameters"] == {
        "tokens": 1000,
        "vocab_size": 128256,
        "seed": 3,
        "documents": "lognormal",
        "mean_length": 1024,
        "distribution": "zipf",
        "exponent": 1.1,
        "learnable": False,
        "shards": 1,
    }
    assert written["facts"]["dtype"] == "int32"
    assert written["facts"]["eod"] == 128255
    assert [file["name"] for file in written["files"]] == ["x.bin", "x.idx"]
    assert not list(tmp_path.glob("*.partial")) and not (tmp_path / "x.journal").exists()
