"""The lines of a block as skeletons, in which every run of digits is one 0; and the numbers that stood there.

Lines of one skeleton differ in their digits only. All of it is arithmetic on whole blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LONGEST_RUN = 18
"""Digits that fit in 64 bits."""
_ZEROS = bytes(48 if 48 <= byte < 58 else byte for byte in range(256))
_EXACT = 1 << 53
_POWERS = 10.0 ** np.arange(23)
"""These and whole numbers below _EXACT are exact; so a product or quotient of two is rounded once, as by float()."""


class Token(NamedTuple):
    """A number on a line, by the runs of digits that it is made of, counted from the start of the line."""

    whole: int
    groups: int = 1
    """1,234,567 has three, the first of which is ``whole``."""
    fraction: int | None = None
    exponent: int | None = None
    small: bool = False
    """The exponent is negative."""


class Lines:
    """Lines of a block of bytes."""

    def __init__(self, block: bytes) -> None:
        self.block = block
        self._bytes = np.frombuffer(block, np.uint8)
        plain = np.frombuffer(b"\n" + block.translate(_ZEROS) + b"\n", np.uint8)
        digit = plain == 48
        bounds = np.flatnonzero(digit[1:] != digit[:-1])
        self._start, self._end = bounds[::2], bounds[1::2]
        """Of each run of digits."""
        self.skeletons = plain[1:-1][~(digit[1:-1] & digit[:-2])].tobytes().split(b"\n")
        """Of each line, without its end; the last one is what follows the last line end."""
        breaks = np.flatnonzero(self._bytes == 10) + 1
        self.edges = np.concatenate([[0], breaks, [len(block)]])
        """Line n is what lies between edges n and n + 1."""
        self._first = np.searchsorted(self._start, self.edges[:-1])
        """The first run of each line."""

    def text(self, line: int) -> bytes:
        """One line without its LF."""
        return self.block[self.edges[line] : self.edges[line + 1]].removesuffix(b"\n")

    def lengths(self, lines: Ints, runs: int) -> Ints:
        """Digits of each run of these lines, which have ``runs`` each."""
        at = self._first[lines, None] + np.arange(runs)
        found: Ints = self._end[at] - self._start[at]
        return found

    def integers(self, lines: Ints, run: int) -> Ints:
        """The value of one run of each of these lines; LONGEST_RUN digits at most."""
        at = self._first[lines] + run
        start, end = self._start[at], self._end[at]
        value = np.zeros(len(lines), np.int64)
        for back in range(int((end - start).max(initial=0)), 0, -1):
            place = end - back
            value *= 10
            value += np.where(place >= start, self._bytes.take(place, mode="clip") - np.uint8(48), 0)
        return value

    def numbers(self, lines: Ints, token: Token) -> Floats:
        """The value of one number of each of these lines, to the last bit as float() has it."""
        at = self._first[lines]
        first = last = at + token.whole
        mantissa, power = self.integers(lines, token.whole), np.zeros(len(lines), np.int64)
        long = self._end[first] - self._start[first]
        more = range(token.whole + 1, token.whole + token.groups + (token.fraction is not None))
        for run in more:
            last = at + run
            digits = self._end[last] - self._start[last]
            long = long + digits
            mantissa = mantissa * 10 ** np.minimum(digits, LONGEST_RUN) + self.integers(lines, run)
            power -= digits if run == token.fraction else 0
        if token.exponent is not None:
            last = at + token.exponent
            exponent = np.minimum(self.integers(lines, token.exponent), 1000)
            power += -exponent if token.small else exponent
        odd = (long > LONGEST_RUN) | (mantissa >= _EXACT) | (np.abs(power) >= len(_POWERS))
        scale = _POWERS[np.minimum(np.abs(power), len(_POWERS) - 1)]
        value: Floats = np.where(power < 0, mantissa / scale, mantissa * scale)
        for index in np.flatnonzero(odd):
            value[index] = float(self.block[self._start[first[index]] : self._end[last[index]]].replace(b",", b""))
        return value
