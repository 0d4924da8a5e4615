"""The tokenizer of random weights: a prompt of n words has n tokens, and servers take it for no longer one."""

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers")

from benchrun.worker.serving.checkpoint import word, write_tokenizer

VOCAB_SIZE = 129_280


def test_prompts_pass_the_length_checks_of_servers(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    write_tokenizer(tmp_path, VOCAB_SIZE)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    longest = max(map(len, tokenizer.get_vocab()))
    for first in (0, 9_900, VOCAB_SIZE - 512):
        tokens = list(range(first, first + 512))
        text = " ".join(map(word, tokens))
        assert tokenizer(text)["input_ids"] == tokens
        assert len(tokenizer.decode(tokens)) <= len(tokens) * longest  # vLLM's check of characters
