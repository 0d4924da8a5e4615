"""Instruction data: the same bytes for the same seed, the fields that readers need, lengths as requested."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy
import pytest
from numpy import ndarray

from benchrun.errors import UserError
from datagen.cli import main
from datagen.sft import BLOCK, CATEGORIES, Parameters, make_sft, tokens
from datagen.text import LEXICON, followers, speak, stream, words

PACKED = {"format": "packed", "seq_length": 512, "vocab_size": 1000, "mean_length": 64}
FORMATS = [{"format": "dolly"}, {"format": "chat"}, PACKED]


def make(
    folder: Path, *, workers: int = 1, progress: Callable[..., Any] = lambda done, total: None, **parameters: int | str
) -> dict[str, bytes]:
    make_sft(folder / "x", Parameters(**{"samples": 600, **parameters}), None, workers, progress)
    return {file.suffix: file.read_bytes() for file in folder.iterdir() if file.name != "x.metadata.json"}


def records(folder: Path, **parameters: int | str) -> list[Any]:
    return [json.loads(line) for line in make(folder, **parameters)[".jsonl"].splitlines()]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form["format"])
def test_the_bytes_depend_on_the_seed_and_not_on_the_workers(tmp_path: Path, form: dict[str, Any]) -> None:
    alone = make(tmp_path / "alone", **form)
    assert make(tmp_path / "three", workers=3, **form) == alone
    other = make(tmp_path / "other", seed=2, **form)
    assert all(other[suffix] != alone[suffix] for suffix in {".jsonl", ".npy"} & alone.keys())


@pytest.mark.parametrize("samples", [1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_a_smaller_set_is_the_beginning_of_a_larger_one(tmp_path: Path, samples: int) -> None:
    larger = make(tmp_path / "larger", samples=2 * BLOCK, format="chat")[".jsonl"].splitlines()
    assert make(tmp_path / "smaller", samples=samples, format="chat")[".jsonl"].splitlines() == larger[:samples]


def test_another_language_has_other_words_in_texts_of_equal_length(tmp_path: Path) -> None:
    one, two = (records(tmp_path / str(n), format="dolly", language=n) for n in (1, 2))
    lengths = [[len(record["response"].split()) for record in each] for each in (one, two)]
    assert lengths[0] == lengths[1]
    assert one[0]["response"] != two[0]["response"]


def test_dolly_has_the_fields_and_categories_of_dolly_15k(tmp_path: Path) -> None:
    made = records(tmp_path, format="dolly", lengths="fixed", mean_length=40)
    assert {record["category"] for record in made} == set(CATEGORIES)
    for record in made:
        assert list(record) == ["instruction", "context", "response", "category"]
        assert bool(record["context"]) == (record["category"] in CATEGORIES[-3:])
        assert sum(len(record[field].split()) for field in ("instruction", "context", "response")) == 40
        assert 10 <= len(record["response"].split()) <= 30


def test_chat_has_the_same_content_for_hugging_face_and_for_nemo(tmp_path: Path) -> None:
    made = records(tmp_path, format="chat", lengths="fixed", mean_length=41)
    assert {len(record["messages"]) for record in made} == {2, 4, 6}
    for record in made:
        roles = [message["role"] for message in record["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert sum(len(message["content"].split()) for message in record["messages"]) == 41
        turns = [{"from": m["role"].capitalize(), "value": m["content"]} for m in record["messages"]]
        assert {k: v for k, v in record.items() if k != "messages"} == {
            "system": "",
            "conversations": turns,
            "mask": "User",
        }


@pytest.mark.parametrize("form", ["dolly", "chat"])
def test_no_text_is_empty_in_short_samples(tmp_path: Path, form: str) -> None:
    for record in records(tmp_path, format=form, lengths="lognormal", mean_length=5):
        contents = [message["content"] for message in record.get("messages", [])]
        texts = contents or [record["instruction"], record["response"]]
        assert all(text.endswith(".") and len(text) > 2 for text in texts)


def drawn_sizes(kind: str, blocks: int = 80) -> ndarray:
    parameters = Parameters(
        format="packed", samples=blocks * BLOCK, lengths=kind, mean_length=1000, seq_length=1 << 20, vocab_size=50
    )
    return numpy.array([len(sample) for block in range(blocks) for sample, _, _ in tokens(parameters, block, None)])


def test_fixed_lengths_are_all_the_same() -> None:
    assert set(drawn_sizes("fixed", blocks=2).tolist()) == {1000}


@pytest.mark.parametrize("kind", ["lognormal", "zipf"])
def test_lengths_follow_the_distribution(kind: str) -> None:
    sizes = numpy.sort(drawn_sizes(kind)).astype(float)
    if kind == "lognormal":
        normal = NormalDist(math.log(1000) - 0.5, 1.0)
        expected = numpy.array([normal.cdf(math.log(size)) for size in sizes])
    else:
        expected = 1 - (sizes / sizes[0]) ** -1.5
    # Twice the Kolmogorov-Smirnov distance for a probability of 0.001, because lengths are rounded.
    distance = abs(expected - (numpy.arange(len(sizes)) + 0.5) / len(sizes)).max()
    assert distance < 2 * 1.95 / math.sqrt(len(sizes))
    if kind == "lognormal":  # the variance of zipf is too large to test its mean
        assert sizes.mean() == pytest.approx(1000, rel=5 * 1.31 / math.sqrt(len(sizes)))


def test_words_are_pronounceable_and_distinct() -> None:
    made = words(1, 200_000)
    assert len(set(made)) == 200_000
    assert all(word.isascii() and word.isalpha() and word.islower() for word in made)
    assert [len(made[place]) <= 3 for place in (0, 399, 400, 1000)] == [True, True, False, False]


def test_words_have_zipf_frequencies_and_preferred_successors() -> None:
    sizes = numpy.full(400, 1000)
    ranks = speak(stream(1, 0), sizes, 1, LEXICON)
    weights = 1 / numpy.arange(1, LEXICON + 1)
    for low in 2 ** numpy.arange(4, 16):
        # Successors stay within their octave of ranks, so its share is that of Zipf.
        share = weights[low : 2 * low].sum() / weights.sum()
        assert ((ranks >= low) & (ranks < 2 * low)).mean() == pytest.approx(share, rel=0.1)
    follow = followers(1, LEXICON)
    assert (follow[ranks[:-1]] == ranks[1:]).mean() == pytest.approx(0.5, abs=0.01)
    assert sorted(follow) == list(range(LEXICON))


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form["format"])
@pytest.mark.parametrize("damage", [0, 1, 5000])
def test_an_interrupted_command_resumes_and_keeps_only_intact_blocks(
    tmp_path: Path, form: dict[str, Any], damage: int
) -> None:
    def interrupt(done: Any, total: Any) -> None:
        if interrupt.left == 0:
            raise KeyboardInterrupt
        interrupt.left -= 1

    whole = make(tmp_path / "whole", samples=1500, **form)
    interrupt.left = 2
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "cut", samples=1500, progress=interrupt, **form)
    (rows,) = (tmp_path / "cut").glob("*.partial")
    with rows.open("r+b") as file:  # the state after a full disk or a lost node
        file.seek(-damage, 2)
        file.write(b"\0" * damage + b"more")
    assert make(tmp_path / "cut", samples=1500, **form) == whole


def test_the_intact_part_of_a_damaged_journal_is_used(tmp_path: Path) -> None:
    def interrupt(done: Any, total: Any) -> None:
        raise KeyboardInterrupt

    whole = make(tmp_path / "whole", format="dolly")
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "cut", format="dolly", progress=interrupt)
    with (tmp_path / "cut" / "x.journal").open("ab") as journal:
        journal.write(b"\0\xff 12\n\0\0 34\n")
    assert make(tmp_path / "cut", format="dolly") == whole


def test_a_complete_data_set_is_not_written_again(tmp_path: Path) -> None:
    make(tmp_path, format="dolly")
    before = (tmp_path / "x.jsonl").stat().st_mtime_ns
    make(tmp_path, format="dolly")
    assert (tmp_path / "x.jsonl").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="samples 600 instead of 601"):
        make(tmp_path, format="dolly", samples=601)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--format", "packed", "--mean-length", "3000"], "with seq_length 4096 at most 2048"),
        (["--format", "packed", "--mean-length", "5000", "--lengths", "fixed"], "at most 4096"),
        (["--format", "packed", "--vocab-size", "2"], "--vocab-size: Input should be greater than or equal to 3"),
        (["--format", "packed", "--tokenizer", "nowhere"], "nowhere/tokenizer.json: no tokenizer"),
        (["--format", "chat", "--seq-length", "512"], "chat is text"),
        (["--mean-length", "3"], "--mean-length: Input should be greater than or equal to 4"),
    ],
)
def test_wrong_options_are_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sft", "--output", str(tmp_path / "x"), *args])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_the_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(f"sft --output {tmp_path}/x --samples 10 --format packed --workers 1 --json".split())
    assert ended.value.code == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["parameters"]["seq_length"] == 4096
    assert manifest["parameters"]["vocab_size"] == 32000
    assert manifest["facts"]["eod"] == 31999
    assert [file["name"] for file in manifest["files"]] == ["x.npy", "x.metadata.json"]


@pytest.mark.parametrize(
    ("form", "sums"),
    [(FORMATS[0], ["6e7e479a"]), (FORMATS[1], ["776c4714"]), (PACKED, ["d606c10a", "cab5c1b3"])],
    ids=["dolly", "chat", "packed"],
)
def test_the_bytes_are_those_of_this_version(tmp_path: Path, form: dict[str, Any], sums: list[str]) -> None:
    """Changed bytes need a new ``datagen.__version__``: existing manifests contain the old checksums."""
    manifest = json.loads(make(tmp_path, **form)[".json"])
    assert manifest["version"] == "3"
    assert [sum for file in manifest["files"] for sum in file["crc32"]] == sums
