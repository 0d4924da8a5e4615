"""What the numbers of a step line mean, found out by asking the dialect itself.

A line is read again and again with other digits. Which field follows which number, by what rule, and how many digits a
number may have, shows in what the dialect makes of that. Lines that differ from it in their digits only are then read
by arithmetic alone; a value that no step usually has is left to the dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, product
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.parse.dialect import FEW, LARGEST, LARGEST_BATCH, Caught, Dialect, asked_of
from benchrun.parse.digits import LONGEST_RUN, Floats, Ints, Lines, Token
from benchrun.parse.records import Step

LONGEST, MOST_RUNS = 2048, 64
"""Of a line that is worth learning: bytes, and runs of digits."""
_LENGTHS = (LONGEST_RUN, 15, 9, 6, 3)
"""Digits that a run may have at most, the first with which the line is still read; else as many as it had."""
_TRIES = 4
_NUMBER = re.compile(rb"(\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.(\d+))?(?:[eE]([-+]?)(\d+))?")
_RUN = re.compile(rb"\d+")
_FACTORS = {b"K": 1e3, b"M": 1e6, b"B": 1e9, b"G": 1e9, b"T": 1e12}
_USUAL = 1e12
"""Times and rates between 1 / this and this; others are looked at line by line."""
_COUNTS = {"step": (0, LARGEST), "global_batch_size": (1, LARGEST_BATCH), "skipped": (0, FEW), "nan": (0, FEW)}
_RATES = ("step_time_s", "tflops_per_gpu", "tokens_per_s_per_gpu", "mfu")

Flags = NDArray[np.bool_]
Read = Callable[[Lines, Ints], Floats]
Way = Callable[[Any, Step], Any]
Numbered = tuple[Token, bytes]
Tries = tuple[Lines, list[Step]]
"""Lines, and what the dialect makes of each."""
_WAYS: tuple[Way, ...] = (
    lambda value, row: value,
    lambda value, row: -value,
    lambda value, row: value / 1000,  # milliseconds
    lambda value, row: value / 100,  # percent
    lambda value, row: 1 / value,  # steps a second
    lambda value, row: (row.global_batch_size or 0) / value,  # samples a second
)
"""What a dialect makes of one number."""


class Layout:
    """How the lines of one skeleton are read."""

    def __init__(self, caught: Caught, runs: int) -> None:
        """Use ``learn``."""
        self.sink, self.averages, self.row = caught
        self._fewest, self._most = np.ones(runs, np.int64), np.full(runs, LONGEST_RUN, np.int64)
        self._fields: dict[str, Read] = {}

    def read(self, lines: Lines, chosen: Ints) -> tuple[dict[str, Any], Flags]:
        """Column -> values of these lines, and which lines are as usual; the others' values may be wrong."""
        lengths = lines.lengths(chosen, len(self._most))
        usual: Flags = np.all((lengths >= self._fewest) & (lengths <= self._most), axis=1)
        constants = {name: value for name, value in self.row._asdict().items() if value is not None}
        found: dict[str, Any] = {**constants, "line": chosen}
        with np.errstate(all="ignore"):
            for name, read in self._fields.items():
                values = read(lines, chosen)
                if name in _COUNTS:
                    low, high = _COUNTS[name]
                    usual &= (values >= low) & (values <= high) & (values == np.floor(values))
                    values = np.where(usual, values, low).astype(np.int64)
                elif name in _RATES:
                    usual &= (values > 1 / _USUAL) & (values < _USUAL)
                found[name] = values
        return found, usual

    @classmethod
    def learn(cls, dialect: Dialect, text: bytes) -> Layout | None:
        """From one line, without its end; None if it does not hold exactly one step, whose number is on it."""
        runs = [match.span() for match in _RUN.finditer(text)]
        if len(runs) > MOST_RUNS or len(text) > LONGEST or b"\r" in text[:-1]:
            return None
        caught = _ask(dialect, text)
        if caught is None:
            return None
        layout = cls(caught, len(runs))
        if not layout._find_fields(dialect, text):
            return None
        chance = Random(0)
        layout._find_lengths(dialect, text, chance, np.array([end - start for start, end in runs]))
        tries = [_changed(text, chance, layout._most)]
        tries += [_changed(text, chance, lengths) for lengths in (layout._fewest, None) for _ in range(_TRIES)]
        return layout if layout._foretold(dialect, tries).all() else None

    def _find_fields(self, dialect: Dialect, text: bytes) -> bool:
        """Which field follows which numbers; False where that cannot be told."""
        chance, tokens = Random(0), _tokens(text)
        texts = [_changed(text, chance, only=token.whole) for token, _ in tokens]
        texts += [text, *(_changed(text, chance) for _ in range(_TRIES))]
        caught = [_ask(dialect, each) for each in texts]
        rows = [each.row for each in caught if each and each[:2] == (self.sink, self.averages)]
        if len(rows) < len(texts):
            return False
        tries = Lines(b"\n".join(texts)), rows
        for name in Step._fields:
            usual = getattr(self.row, name)
            numbers = [token for token, row in zip(tokens, rows, strict=False) if getattr(row, name) != usual]
            read = self._rule(name, numbers, tries) if numbers else None
            if read is not None:
                self._fields[name] = read
            elif any(getattr(row, name) != usual for row in rows):
                return False
        return "step" in self._fields or self.sink in dialect.counted

    def _rule(self, name: str, tokens: list[Numbered], tries: Tries) -> Read | None:
        """How a field follows from these numbers; None where it is neither of the known ways."""
        lines, rows = tries
        told, each = [getattr(row, name) for row in rows], np.arange(len(rows))
        if len(tokens) > 1:
            return _sum(tokens, lines, told)
        ((token, after),) = tokens
        for factor, way in product({_FACTORS.get(after, 1.0): 0, 1.0: 0}, _WAYS):

            def read(lines: Lines, chosen: Ints, way: Way = way, factor: float = factor) -> Floats:
                value: Floats = way(lines.numbers(chosen, token) * factor, self.row)
                return value

            with np.errstate(all="ignore"):
                if read(lines, each).tolist() == told:
                    return read
        return None

    def _find_lengths(self, dialect: Dialect, text: bytes, chance: Random, usual: Ints) -> None:
        """How long each run of digits may be, where all others are as usual."""
        most, fewest = usual.copy(), usual.copy()

        def foretold(runs: Ints, length: int) -> Ints:
            of_each = [np.where(np.arange(len(usual)) == run, length, usual) for run in runs]
            return runs[self._foretold(dialect, [_changed(text, chance, lengths) for lengths in of_each])]

        for length in _LENGTHS:
            shorter = np.flatnonzero((most == usual) & (usual < length))
            most[foretold(shorter, length)] = length
        fewest[foretold(np.arange(len(usual)), 1)] = 1
        self._most, self._fewest = most, fewest

    def _foretold(self, dialect: Dialect, texts: Sequence[bytes]) -> Flags:
        """Which of these lines it reads as the dialect does."""
        found, same = self.read(Lines(b"\n".join(texts)), np.arange(len(texts)))
        for number, text in enumerate(texts):
            caught = _ask(dialect, text)
            row = self.row._replace(**{name: found[name][number] for name in self._fields})
            same[number] &= caught == (self.sink, self.averages, row)
        return same


def _sum(tokens: Sequence[Numbered], lines: Lines, told: Sequence[Any]) -> Read | None:
    """For hours, minutes and seconds: a sum of whole numbers with whole factors."""
    if any(token[1:] != (1, None, None, False) for token, _ in tokens) or None in told:
        return None
    runs = [token.whole for token, _ in tokens]
    each = np.arange(len(told))
    known = np.stack([lines.integers(each, run) for run in runs], axis=1)
    if not np.isfinite(np.array(told, float)).all():
        return None
    factors = np.rint(np.linalg.lstsq(known.astype(float), np.array(told, float), rcond=None)[0]).astype(np.int64)

    def read(lines: Lines, chosen: Ints) -> Floats:
        parts = [factor * lines.integers(chosen, run) for factor, run in zip(factors, runs, strict=True)]
        total: Floats = np.sum(parts, axis=0).astype(np.float64)
        return total

    return read if read(lines, each).tolist() == list(told) else None


def _ask(dialect: Dialect, text: bytes) -> Caught | None:
    """The one step that the dialect sees on a line, which leaves nothing else behind."""
    caught = asked_of(dialect, replace(dialect.facts), text)[1]
    return caught[0] if len(caught) == 1 else None


def _tokens(text: bytes) -> list[Numbered]:
    """The numbers of a line, and the byte after each."""
    found, run = [], 0
    for match in _NUMBER.finditer(text):
        groups = 1 + match[1].count(b",")
        fraction = run + groups if match[2] else None
        exponent = run + groups + bool(match[2]) if match[4] else None
        found.append((Token(run, groups, fraction, exponent, match[3] == b"-"), text[match.end() : match.end() + 1]))
        run += groups + bool(match[2]) + bool(match[4])
    return found


def _changed(text: bytes, chance: Random, lengths: Ints | None = None, only: int | None = None) -> bytes:
    """Other digits everywhere, or in one run: as many as before, or so many. Exponents stay, unless in length."""
    kept = {token.exponent for token, _ in _tokens(text)}
    numbers = count()

    def other(run: re.Match[bytes]) -> bytes:
        number = next(numbers)
        if lengths is not None and lengths[number] > len(run[0]):
            return b"8" * int(lengths[number])
        if only not in (None, number) or (number in kept and (lengths is None or lengths[number] == len(run[0]))):
            return run[0]
        # Never the digit that was there, and never 0.
        digits = run[0] if lengths is None else run[0][: lengths[number]]
        return bytes(49 + (digit - 48 + int(8 * chance.random())) % 9 for digit in digits)

    return _RUN.sub(other, text)
