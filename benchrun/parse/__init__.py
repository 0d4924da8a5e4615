"""Bytes of a log -> step records. Knows nothing of recipes."""

from benchrun.parse.reader import DIALECTS, Reader, parse_log, parse_logs
from benchrun.parse.records import Facts, Log, Problem, Rows, Step
from benchrun.parse.tail import Tail
from benchrun.parse.worker import ended_at

__all__ = [
    "DIALECTS",
    "Facts",
    "Log",
    "Problem",
    "Reader",
    "Rows",
    "Step",
    "Tail",
    "ended_at",
    "parse_log",
    "parse_logs",
]
