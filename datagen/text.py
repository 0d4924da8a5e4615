"""A language that nobody speaks: pronounceable words, common ones short, and each with a word that likes to follow it.

A word has a rank; how often it occurs falls as 1 / rank (Zipf). Half of the words of a text are drawn so, the other
half are the successor of the word before them. A model that learns only frequencies gets to the first level of loss,
one that learns successors to a lower one.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from datagen.draws import LANGUAGE, Floats, pick, stream, uniforms
from datagen.lengths import cumulative

Ids = NDArray[np.int64]

ONSETS, VOWELS, CODAS = "bdfgjklmnprstvwz", "aeiou", ("", "n", "r", "l", "s")
SYLLABLES = tuple(onset + vowel + coda for coda in CODAS for onset in ONSETS for vowel in VOWELS)
LEXICON = 65_536
"""Words that texts are made of; the language has more."""
SENTENCE = 12
"""Words to a full stop."""


def words(language: int, count: int) -> list[str]:
    """The ``count`` most frequent words: all of one syllable, then all of two, then of three, shuffled within each."""
    bits = stream(language, LANGUAGE)
    found: list[str] = []
    size = 1
    for _ in range(3):
        size *= len(SYLLABLES)
        step, start = (int(raw) % size for raw in bits.random_raw(2))
        while gcd(step, size) > 1:
            step += 1
        # step and size have no common factor, so this meets each word once without keeping a list of all.
        found.extend(_spell((start + rank * step) % size, size) for rank in range(min(size, count - len(found))))
    return found


def _spell(number: int, size: int) -> str:
    """Word ``number`` of the ``size`` that have its count of syllables."""
    text = ""
    while size > 1:
        number, last = divmod(number, len(SYLLABLES))
        size //= len(SYLLABLES)
        text = SYLLABLES[last] + text
    return text


@lru_cache(maxsize=4)
def frequencies(count: int) -> Floats:
    """Cumulative frequencies of ``count`` ranks, for ``draws.pick``."""
    return cumulative(1 / np.arange(1, count + 1))


@lru_cache(maxsize=4)
def successors(language: int, count: int) -> Ids:
    """[count]: the rank that likes to follow each rank. Each rank follows one, of about the same frequency."""
    follow = np.empty(count, dtype=np.int64)
    low, bits = 0, stream(language, LANGUAGE, 1)
    while low < count:
        high = min(count, max(2 * low, 16))
        # Rotated within an octave of ranks, never by nothing.
        shift = 1 + int(bits.random_raw()) % max(high - low - 1, 1)
        follow[low:high] = low + (np.arange(high - low) + shift) % (high - low)
        low = high
    return follow


def speak(bits: np.random.Philox, sizes: Ids, language: int, count: int) -> Ids:
    """[sum of sizes]: the ranks, of ``count`` ones, of texts with so many words each."""
    total = int(sizes.sum())
    fresh = uniforms(bits, total) < 0.5
    fresh[np.cumsum(sizes)[:-1]] = True
    fresh[:1] = True
    ranks = pick(frequencies(count), uniforms(bits, total))
    follow = successors(language, count)
    places = np.arange(total)
    distance = places - np.maximum.accumulate(np.where(fresh, places, 0))
    for step in range(1, int(distance.max(initial=0)) + 1):
        here = np.flatnonzero(distance == step)
        ranks[here] = follow[ranks[here - 1]]
    return ranks


@lru_cache(maxsize=2)
def _lexicon(language: int) -> list[str]:
    """Every word, then every word with a full stop."""
    plain = words(language, LEXICON)
    return plain + [word + "." for word in plain]


def write(ranks: Ids, sizes: Ids, language: int) -> list[str]:
    """Ranks below LEXICON as texts of so many words each (no word: an empty text). A text ends with a full stop."""
    ends = np.cumsum(sizes)
    place = np.arange(len(ranks)) - np.repeat(ends - sizes, sizes)
    stop = (place % SENTENCE == SENTENCE - 1) | (place == np.repeat(sizes, sizes) - 1)
    lexicon = _lexicon(language)
    spelled = [lexicon[i] for i in (ranks + LEXICON * stop).tolist()]
    return [" ".join(spelled[end - size : end]) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
