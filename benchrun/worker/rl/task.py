"""The task: repeat the last word of the prompt. A program checks each word, so no
reward model is needed.

A model with random weights is right once in vocab_size words; one that has learned the
task nearly always.
"""

import random
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from benchrun.runspec.post_training import PostTrainingSpec

END, PAD = "<end>", "<pad>"


def tokenizer(vocab_size: int) -> Any:
    """A tokenizer with a word for each token: ``w0 w1 ...``, the end and the padding."""
    words = [*map("w{}".format, range(vocab_size - 2)), END, PAD]
    vocabulary = {word: number for number, word in enumerate(words)}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token=END, pad_token=PAD, padding_side="left"
    )


def prompts(spec: PostTrainingSpec) -> Dataset:
    """Draw as many prompts as all steps need, with the seed; each fills what a response
    leaves of the sequence.
    """
    draw = random.Random(spec.seed)
    words = spec.model.vocab_size - 2
    length = max(1, spec.max_sequence_length - spec.max_response_length)
    drawn = []
    for _ in range(spec.steps * spec.prompts_per_step):
        text = " ".join(f"w{draw.randrange(words)}" for _ in range(length))
        drawn.append({"prompt": text})
    return Dataset.from_list(drawn)


def repeated(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """The reward of each response: the share of its words that are the prompt's last
    one; 0 for an empty one."""
    rewards = []
    for prompt, completion in zip(prompts, completions, strict=True):
        last = prompt.split()[-1]
        words = completion.split()
        rewards.append(words.count(last) / max(len(words), 1))
    return rewards
