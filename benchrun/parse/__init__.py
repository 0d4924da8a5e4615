"""Bytes of a log -> step records. Knows no framework: the dialects are an argument (frameworks/logs.py binds them)."""

from benchrun.parse.reader import Reader
from benchrun.parse.records import Facts, Log, Problem
from benchrun.parse.rows import Rows, Step

__all__ = ["Facts", "Log", "Problem", "Reader", "Rows", "Step"]
