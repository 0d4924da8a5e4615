"""Pickles of plain values, read so that no code of theirs can run."""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

from benchrun.errors import UserError

DAMAGE = (
    *(pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError),
    *(AttributeError, MemoryError, OverflowError),
)
"""Exceptions of reading a truncated or a damaged pickle."""
CODE = {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"}
CODE |= {"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
"""Operations that name an object outside the pickle, or call one."""


class _Plain(pickle.Unpickler):
    """Reads numbers, texts, lists and dicts alone."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(str(pid))


def plain(data: bytes, path: Path) -> Any:
    """The value of a pickle; None if ``data`` is none, or is damaged.

    UserError if it would name or call anything outside itself.
    """
    operations = []
    try:
        for operation, argument, _ in pickletools.genops(data):
            operations.append((operation.name, argument))
    except DAMAGE:
        if not data.startswith(b"\x80"):  # a text, of which some letters are operations too
            return None
    for name, argument in operations:
        if name in CODE:
            what = f"{name} {argument}" if argument else name
            hint = "a Flight Recorder's dump holds plain values alone: remove this file"
            raise UserError(f"the pickle asks to run code ({what})", where=str(path), hint=hint)
    try:
        return _Plain(io.BytesIO(data)).load()
    except DAMAGE:
        return None
