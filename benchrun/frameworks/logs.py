"""The parser with all dialects registered: the way for all other rooms to read logs."""

from benchrun import extensions
from benchrun.logs.dialect import DIALECTS, register_dialect
from benchrun.logs.files import Tail, last_rows, parse_log, parse_logs
from benchrun.logs.reader import Reader

for _dialect in extensions.everything("dialects"):
    register_dialect(_dialect)

__all__ = [
    "DIALECTS",
    "Reader",
    "Tail",
    "last_rows",
    "parse_log",
    "parse_logs",
    "register_dialect",
]
