"""Bytes of a log -> step records. Knows nothing of recipes."""

from benchrun.parse.reader import DIALECTS, Tail, parse_log
from benchrun.parse.records import Facts, Log, Problem, Step

__all__ = ["DIALECTS", "Facts", "Log", "Problem", "Step", "Tail", "parse_log"]
