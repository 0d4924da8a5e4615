"""Bytes of a log -> step records. Knows no framework: the dialects are an argument
(frameworks/logs.py binds them).
"""

from benchrun.logs.reader import Reader
from benchrun.logs.records import Facts, Log, Problem
from benchrun.logs.rows import Rows, Step

__all__ = ["Facts", "Log", "Problem", "Reader", "Rows", "Step"]
