"""A local tokenizer: exact size, loaded offline, and every text is decoded unchanged."""

import json
from collections.abc import Iterator
from functools import _lru_cache_wrapper, lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datagen.cli import main
from datagen.text import words
from datagen.tokenizer import LEAST, SPECIAL, TokenizerParameters, files, make_tokenizer

SIZES = [LEAST, 300, 32_000, 128_256, 256_000]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_lru_cache_wrapper]:
    """A function that loads the tokenizer of a size like a training script, without a network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        transformers = pytest.importorskip("transformers")

        @lru_cache
        def of_size(size: Any) -> Any:
            folder = tmp_path_factory.mktemp("tokenizer")
            make_tokenizer(folder, TokenizerParameters(vocab_size=size))
            return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)

        yield of_size


@pytest.mark.parametrize("size", SIZES)
def test_the_vocabulary_has_exactly_the_requested_size(size: int) -> None:
    vocab = files(TokenizerParameters(vocab_size=size))["tokenizer.json"]["model"]["vocab"]
    assert sorted(vocab.values()) == list(range(size))
    assert [*vocab][-len(SPECIAL) :] == list(SPECIAL)
    assert vocab["</s>"] == size - 1


@pytest.mark.parametrize("size", SIZES)
def test_hugging_face_opens_it_offline(opened: _lru_cache_wrapper, size: int) -> None:
    tokenizer = opened(size)
    assert len(tokenizer) == tokenizer.vocab_size == size
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (size - 2, size - 1)
    assert tokenizer.pad_token == "<pad>"
    assert tokenizer.unk_token == "<unk>"
    # NeMo's AutoTokenizer sets the two missing special tokens; the vocabulary must not grow.
    assert tokenizer.add_special_tokens({"sep_token": tokenizer.eos_token, "cls_token": tokenizer.bos_token}) == 0
    assert len(tokenizer) == size


@pytest.mark.parametrize("size", [32_000, 128_256])
def test_a_frequent_word_is_one_token(opened: _lru_cache_wrapper, size: int) -> None:
    tokenizer = opened(size)
    frequent = words(1, size - LEAST - 400)  # 400 tokens are syllables
    assert all(len(tokenizer.tokenize(" " + word)) == 1 for word in frequent[:: len(frequent) // 300])
    assert len(tokenizer.tokenize(" " + words(1, size)[-1])) > 1


@given(text=st.text())
@pytest.mark.parametrize("size", [LEAST, 300, 32_000])
def test_every_text_is_decoded_unchanged(opened: _lru_cache_wrapper, size: int, text: Any) -> None:
    tokenizer = opened(size)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    "text", ["", "  a .  b , n't ", "\x00\r\n\t", "</s> <s>x<|user|>\n", "gul mai\u0301 \U0001f600\u200d\ufeff"]
)
def test_unusual_texts_are_decoded_unchanged(opened: _lru_cache_wrapper, text: str) -> None:
    tokenizer = opened(300)
    assert tokenizer.decode(tokenizer.encode(text)) == text


CHAT = [
    {"role": "system", "content": "sol"},
    {"role": "user", "content": "gu mol"},
    {"role": "assistant", "content": "sin zes."},
    {"role": "user", "content": "lun"},
    {"role": "assistant", "content": "fen."},
]


def test_a_conversation_is_rendered(opened: _lru_cache_wrapper) -> None:
    tokenizer = opened(300)
    rendered = "<s><|system|>\nsol\n<|user|>\ngu mol\n<|assistant|>\nsin zes.</s><|user|>\nlun\n<|assistant|>\nfen.</s>"
    assert tokenizer.apply_chat_template(CHAT, tokenize=False) == rendered
    prompt = tokenizer.apply_chat_template(CHAT[:2], tokenize=False, add_generation_prompt=True)
    assert prompt == "<s><|system|>\nsol\n<|user|>\ngu mol\n<|assistant|>\n"


def test_the_loss_mask_covers_the_assistant_and_its_end(opened: _lru_cache_wrapper) -> None:
    tokenizer = opened(300)
    made = tokenizer.apply_chat_template(CHAT, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    counted = [token for token, mask in zip(made["input_ids"], made["assistant_masks"], strict=True) if mask]
    assert tokenizer.decode(counted) == "sin zes.</s>fen.</s>"


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        make_tokenizer(tmp_path / name, TokenizerParameters(vocab_size=2000, seed=seed))
    one, again, other = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("one", "again", "other"))
    assert one == again != other


@pytest.mark.parametrize(
    ("size", "message"),
    [("262", "--vocab-size: Input should be greater than or equal to 263"), ("2e6", "less than or equal to 1048576")],
)
def test_an_impossible_size_is_refused_with_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: str, message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tokenizer", "--output", str(tmp_path / "t"), "--vocab-size", size])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_folder_with_another_tokenizer_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(["tokenizer", "--output", str(tmp_path), "--vocab-size", "300"])
    assert ended.value.code == 2
    assert "tokenizer.json: " in capsys.readouterr().err
    assert json.loads((tmp_path / "tokenizer.json").read_text()) == {}


def test_a_file_as_output_folder_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["tokenizer", "--output", str(tmp_path / "file"), "--vocab-size", "300"])
    assert ended.value.code == 2
    assert "file: cannot write: File exists" in capsys.readouterr().err
