"""The parser with all dialects registered: the way for all other rooms to read logs."""

from __future__ import annotations

import benchrun.frameworks.dialects  # noqa: F401 - registers the dialects
from benchrun.frameworks.dialects.worker import ended_at
from benchrun.parse.dialect import DIALECTS, register_dialect
from benchrun.parse.files import Tail, last_step, parse_log, parse_logs
from benchrun.parse.reader import Reader

reader = Reader

__all__ = ["DIALECTS", "Tail", "ended_at", "last_step", "parse_log", "parse_logs", "reader", "register_dialect"]
