"""Packed sequences: none is too long, no token is lost, and NeMo's reader returns the samples and their answers."""

import json
import pickletools
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy import ndarray

from benchrun.errors import UserError
from datagen.packing import first_fit_decreasing, packed, save
from datagen.sft import BLOCK, Parameters, make_sft, tokens
from datagen.tokenizer import Tokenizer, TokenizerParameters, load_tokenizer, make_tokenizer

PARAMETERS = Parameters(format="packed", samples=1000, seq_length=256, vocab_size=500, mean_length=60)


def make(
    path: Path, parameters: Parameters = PARAMETERS, tokenizer: Path | None = None
) -> tuple[dict[str, float], ndarray]:
    manifest, _ = make_sft(path, parameters, tokenizer, 1, lambda done, total: None)
    return manifest.facts, numpy.load(path.with_suffix(".npy"), allow_pickle=True)


def read(sequence: dict[str, list[int]]) -> Iterator[Any]:
    """Inputs, labels and mask of each sample of a sequence, computed like GPTSFTPackedDataset of NeMo 2.2 and later."""
    ids, mask = sequence["input_ids"], sequence["loss_mask"]
    assert type(sequence["seq_start_id"]) is list  # NeMo appends a list with +, which would add numbers to an array
    for start, end in pairwise([*sequence["seq_start_id"], len(ids)]):
        yield ids[start : end - 1], ids[start + 1 : end], mask[start : end - 1]


def samples(parameters: Parameters = PARAMETERS, tokenizer: Tokenizer = None) -> Iterator[Any]:
    """Every sample as (tokens, tokens of its answer)."""
    for number in range(-(-parameters.samples // BLOCK)):
        for sample, prompt, _ in tokens(parameters, number, tokenizer):
            yield tuple(sample.tolist()), tuple(sample[prompt:].tolist())


def unpacked(sequences: ndarray) -> Iterator[Any]:
    """Every packed sample as (tokens, tokens of its answer)."""
    for sequence in sequences:
        for inputs, labels, mask in read(sequence):
            answer = tuple(label for label, counts in zip(labels, mask, strict=True) if counts)
            yield (inputs[0], *labels), answer


def test_no_sequence_is_too_long_and_no_token_is_lost(tmp_path: Path) -> None:
    facts, sequences = make(tmp_path / "x")
    assert sequences.shape == (facts["sequences"],)
    filled = [sum(len(inputs) for inputs, _, _ in read(sequence)) for sequence in sequences]
    assert max(filled) <= 256
    assert sorted(unpacked(sequences)) == sorted(samples())
    assert facts["tokens"] == sum(len(sequence["input_ids"]) for sequence in sequences)
    assert facts["answer_tokens"] == sum(len(answer) for _, answer in unpacked(sequences))


def test_only_the_last_token_of_a_sample_ends_it(tmp_path: Path) -> None:
    for sample, answer in unpacked(make(tmp_path / "x")[1]):
        assert sample.index(499) == len(sample) - 1
        assert max(sample) == 499
        assert 2 <= len(answer) < len(sample)


def test_the_metadata_have_the_keys_of_nemo(tmp_path: Path) -> None:
    facts, sequences = make(tmp_path / "x")
    (metadata,) = json.loads((tmp_path / "x.metadata.json").read_text())
    filled = [len(sequence["input_ids"]) - len(sequence["seq_start_id"]) for sequence in sequences]
    assert metadata == {
        "dataset_max_seqlen": max(len(inputs) for sequence in sequences for inputs, _, _ in read(sequence)),
        "max_samples_per_bin": max(len(sequence["seq_start_id"]) for sequence in sequences),
        "packing_factor": round(1000 / len(sequences), 2),
        "packing_efficiency": round(sum(filled) / len(filled) / 256 * 100, 2),
        "pack_size": 256,
        "min_packed_seqlen": min(filled),
    }
    assert metadata.items() <= facts.items()


def test_the_pickle_uses_only_names_that_all_readers_accept(tmp_path: Path) -> None:
    make(tmp_path / "x")
    with (tmp_path / "x.npy").open("rb") as file:
        numpy.lib.format.read_magic(file)
        numpy.lib.format.read_array_header_1_0(file)
        names = [argument for opcode, argument, _ in pickletools.genops(file) if "GLOBAL" in opcode.name]
    assert names == ["numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"]


def test_sequences_of_long_samples_do_not_come_first(tmp_path: Path) -> None:
    _, sequences = make(tmp_path / "x")
    counts = numpy.array([len(sequence["seq_start_id"]) for sequence in sequences])
    half = len(counts) // 2
    assert counts[:half].mean() == pytest.approx(counts[half:].mean(), rel=0.5)


def slow_first_fit_decreasing(sizes: list[int], capacity: int) -> list[int]:
    packs, room = [0] * len(sizes), []
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        packs[i] = next((pack for pack, left in enumerate(room) if left >= sizes[i]), len(room))
        if packs[i] == len(room):
            room.append(capacity)
        room[packs[i]] -= sizes[i]
    return packs


@given(st.lists(st.integers(1, 20), min_size=1, max_size=60), st.integers(20, 50))
def test_packing_is_first_fit_decreasing(sizes: Any, capacity: Any) -> None:
    assert first_fit_decreasing(numpy.array(sizes), capacity).tolist() == slow_first_fit_decreasing(sizes, capacity)


def test_writing_holds_one_sequence_at_a_time(tmp_path: Path) -> None:
    def peak(count: Any) -> Any:
        tracemalloc.start()
        with (tmp_path / "x.npy").open("wb") as file:
            save(file, count, (packed([(list(range(1000, 3000)), 10)]) for _ in range(count)))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    few, many = peak(20), peak(400)
    assert many < 1.5 * few


def test_text_goes_through_a_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path / "tokenizer"
    make_tokenizer(folder, TokenizerParameters(vocab_size=3000))
    parameters = Parameters(
        format="packed", samples=300, seq_length=128, mean_length=60, tokenizer=load_tokenizer(folder).checksum
    )
    facts, sequences = make(tmp_path / "x", parameters, folder)
    pairs = sorted(unpacked(sequences))
    assert pairs == sorted(samples(parameters, load_tokenizer(folder)))
    assert facts["cut_samples"] == sum(len(sample) == 128 for sample, _ in pairs) > 0
    opened = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for sample, answer in pairs:
        assert sample[-1] == facts["eod"] == 2999
        if len(sample) < 128:
            text = opened.decode(list(sample[:-1]))
            assert text.endswith("." + opened.decode(list(answer[:-1])))
            assert text.replace(".", "").replace(" ", "").replace("\n", "").isalpha()


@pytest.mark.parametrize("whole", [True, False])
def test_another_end_of_text_is_another_data_set(tmp_path: Path, whole: bool) -> None:
    """The same tokenizer.json with another eos_token, like a model and its chat model."""
    pytest.importorskip("tokenizers")
    make_tokenizer(tmp_path / "t", TokenizerParameters(vocab_size=3000))
    parameters = Parameters(
        format="packed", samples=300, seq_length=128, tokenizer=load_tokenizer(tmp_path / "t").checksum
    )

    def interrupt(done: Any, total: Any) -> None:
        if not whole:
            raise KeyboardInterrupt

    with nullcontext() if whole else pytest.raises(KeyboardInterrupt):
        make_sft(tmp_path / "x", parameters, tmp_path / "t", 1, interrupt)
    before = {path: path.read_bytes() for path in tmp_path.glob("x.*")}
    (tmp_path / "t" / "tokenizer_config.json").write_text('{"eos_token": "<pad>"}')
    load_tokenizer.cache_clear()
    with pytest.raises(UserError) as error:
        make(tmp_path / "x", parameters, tmp_path / "t")
    assert error.value.where == str(tmp_path / ("x.json" if whole else "x.journal"))
    assert {path: path.read_bytes() for path in tmp_path.glob("x.*")} == before


@pytest.mark.parametrize("setting", ["truncation", "padding"])
def test_a_tokenizer_with_truncation_or_padding_is_refused(tmp_path: Path, setting: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    make_tokenizer(tmp_path / "t", TokenizerParameters(vocab_size=300))
    path = str(tmp_path / "t" / "tokenizer.json")
    opened = tokenizers.Tokenizer.from_file(path)
    if setting == "truncation":
        opened.enable_truncation(16)
    else:
        opened.enable_padding(pad_id=294, pad_token="<pad>")
    opened.save(path)
    load_tokenizer.cache_clear()
    with pytest.raises(UserError) as error:
        load_tokenizer(tmp_path / "t")
    assert error.value.where == path


@pytest.mark.parametrize("config", ["[]", "{}", '{"eos_token": null}', '{"eos_token": {"content": 5}}', "\x00"])
def test_a_tokenizer_without_an_end_of_text_is_one_clear_error(tmp_path: Path, config: str) -> None:
    pytest.importorskip("tokenizers")
    make_tokenizer(tmp_path / "t", TokenizerParameters(vocab_size=300))
    (tmp_path / "t" / "tokenizer_config.json").write_text(config)
    load_tokenizer.cache_clear()
    with pytest.raises(UserError) as error:
        load_tokenizer(tmp_path / "t")
    assert error.value.where == str(tmp_path / "t" / "tokenizer_config.json")


def test_a_missing_library_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tokenizer(tmp_path / "t", TokenizerParameters(vocab_size=300))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    load_tokenizer.cache_clear()
    with pytest.raises(UserError, match=r"\[data\]"):
        load_tokenizer(tmp_path / "t")
