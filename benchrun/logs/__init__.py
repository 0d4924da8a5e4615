"""Bytes of a log -> step records. Knows no framework: the dialects are an argument
(frameworks/logs.py binds them).
"""

from .reader import Reader
from .records import Facts, Log, Problem
from .rows import Rows, Step

__all__ = ["Facts", "Log", "Problem", "Reader", "Rows", "Step"]
