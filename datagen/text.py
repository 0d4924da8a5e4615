"""An invented language: pronounceable words, frequent ones short, each with a preferred
successor.

The probability of a word is proportional to 1 / rank (Zipf). Half of the words of a
text are drawn from this distribution, the others are the preferred successor of the
word before. So a model that learns the frequencies lowers its loss, and a model that
learns the successors lowers it further.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from math import gcd

import numpy
from numpy.typing import NDArray

from .sampling import Ints, draw_tokens, stream, token_table

ONSETS, VOWELS, CODAS = "bdfgjklmnprstvwz", "aeiou", ("", "n", "r", "l", "s")
SYLLABLES = tuple(onset + vowel + coda for coda, onset, vowel in product(CODAS, ONSETS, VOWELS))
"""A syllable begins with its only onset, so a word has one division into syllables."""
LEXICON = 1 << 16
"""Number of words used in texts; the language has more."""
SENTENCE = 12
"""Words per sentence."""
WORDS, FOLLOWERS = 101, 102
"""Purposes of streams of bits."""


def words(language: int, count: int) -> list[str]:
    """The ``count`` most frequent words: those of one syllable, then two, then three;
    ``language`` is the seed."""
    raw = stream(language, WORDS)
    spelled: list[str] = []
    for syllables in (1, 2, 3):
        size = len(SYLLABLES) ** syllables
        start, step = (int(word) % size for word in raw(2))
        while gcd(step, size) > 1:
            step += 1
        # step and size have no common factor, so this visits every word once without a
        # list of all words.
        ranks = range(min(size, count - len(spelled)))
        spelled.extend(_spell((start + rank * step) % size, syllables) for rank in ranks)
    return spelled


def _spell(number: int, syllables: int) -> str:
    rest, last = divmod(number, len(SYLLABLES))
    if not syllables:
        return ""
    return _spell(rest, syllables - 1) + SYLLABLES[last]


@lru_cache(maxsize=4)
def followers(language: int, count: int) -> NDArray[numpy.int64]:
    """[count]: the preferred successor of each rank, a permutation within ranks of
    about the same frequency."""
    follow = numpy.zeros(count, dtype=numpy.int64)
    raw = stream(language, FOLLOWERS)
    low = 0
    high = min(count, 16)
    while low < count:
        # An octave of ranks, rotated by at least one place.
        shift = 1 + int(raw(1)[0]) % max(high - low - 1, 1)
        follow[low:high] = low + (numpy.arange(high - low) + shift) % (high - low)
        low = high
        high = min(count, 2 * high)
    return follow


def speak(raw: Callable[[int], Ints], sizes: Ints, language: int, count: int) -> Ints:
    """[sum of sizes]: the ranks of the words of consecutive texts, from the ``count``
    most frequent words."""
    total = int(sizes.sum())
    drawn = numpy.empty(total, dtype=numpy.int64)
    bits = raw(total // 2 + total % 2).view(numpy.uint32)[:total]
    draw_tokens(token_table("zipf", 1.0, count), bits, drawn)
    fresh = numpy.unpackbits(raw(total // 64 + 1).view(numpy.uint8))[:total].astype(bool)
    fresh[numpy.cumsum(sizes) - sizes] = True
    places = numpy.arange(total)
    distance = places - numpy.maximum.accumulate(numpy.where(fresh, places, 0))
    follow = followers(language, count)
    for step in range(1, int(distance.max()) + 1):
        here = numpy.flatnonzero(distance == step)
        drawn[here] = follow[drawn[here - 1]]
    return drawn


@lru_cache(maxsize=2)
def _lexicon(language: int) -> NDArray[numpy.uint64]:
    """[LEXICON]: each word in eight bytes: a space, up to six letters, and room for a
    full stop."""
    return numpy.array([f" {word}".encode() for word in words(language, LEXICON)], dtype="S8").view(
        numpy.uint64
    )


def write(ranks: Ints, sizes: Ints, language: int) -> list[str]:
    """Texts of ``sizes`` words from ranks below ``LEXICON``. A text ends with a full
    stop, unless it has no words."""
    ends = numpy.cumsum(sizes)
    place = numpy.arange(len(ranks)) - numpy.repeat(ends - sizes, sizes)
    stop = (place % SENTENCE == SENTENCE - 1) | (place == numpy.repeat(sizes, sizes) - 1)
    letters = _lexicon(language)[ranks].view(numpy.uint8).reshape(-1, 8)
    letters[stop, 7] = ord(".")
    used = letters != 0
    text = letters[used].tobytes().decode("ascii")
    places = numpy.concatenate([[0], numpy.cumsum(used.sum(axis=1))])
    cuts = zip(places[ends - sizes].tolist(), places[ends].tolist(), strict=True)
    return [text[start + 1 : end] for start, end in cuts]
