"""Files that a user asks for: written whole or not at all, and never over one that
exists.
"""

import contextlib
import os
import secrets
from pathlib import Path

from benchrun.errors import UserError, writing


def check_new(path: Path) -> None:
    """UserError if ``path`` exists."""
    with writing(path):
        taken = os.path.lexists(path)
    if taken:
        raise UserError(f"{path} exists", hint="nothing is overwritten: name a new file")


def write_new(path: Path, content: str | bytes) -> None:
    """Write a new file. On a full disk nothing is left of it. UserError if it exists or
    cannot be written.
    """
    check_new(path)
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
    with writing(path), contextlib.ExitStack() as undo:
        with temporary.open("xb") as file:
            undo.callback(temporary.unlink, missing_ok=True)
            file.write(data)
        temporary.rename(path)
