"""Bytes of a log -> step records. Knows nothing of recipes."""

from benchrun.parse.reader import DIALECTS, Reader, Tail, parse_log
from benchrun.parse.records import Facts, Log, Problem, Rows, Step

__all__ = ["DIALECTS", "Facts", "Log", "Problem", "Reader", "Rows", "Step", "Tail", "parse_log"]
