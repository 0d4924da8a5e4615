"""What stands beside every data set: how it was made, how much it holds, and checksums to see that it is still so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchrun.errors import UserError
from datagen.checksum import crc32

PART_BYTES = 1 << 26
"""A checksum covers so many bytes: 10 GB are 150 of them, and two cores check them side by side."""


class File(BaseModel):
    """One file of a data set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Relative to the manifest."""
    bytes: int
    crc32: tuple[str, ...]
    """Of each part of ``part_bytes``, eight hex digits each."""


class Manifest(BaseModel):
    """``PREFIX.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    kind: Literal["tokens", "sft", "tokenizer"]
    version: str
    """Of the generator: the same version and parameters give the same bytes."""
    parameters: dict[str, Any]
    facts: dict[str, Any]
    """What came of them: documents, tokens, dtype and so on."""
    part_bytes: int = Field(default_factory=lambda: PART_BYTES)
    files: tuple[File, ...]


def load(path: Path) -> Manifest:
    """The manifest in ``path``. UserError if there is none, or if it is something else."""
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"no manifest: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        hint = "the manifest of a data set has this name: give another PREFIX, or move away what is there"
        raise UserError(f"not a manifest of datagen: {place}: {first['msg']}", where=str(path), hint=hint) from error


def describe(path: Path) -> File:
    """Size and checksums of a file, read from its start to its end."""
    sums = []
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            sums.append(f"{crc32(part):08x}")
    return File(name=path.name, bytes=path.stat().st_size, crc32=tuple(sums))


def damaged(manifest: Manifest, folder: Path) -> str | None:
    """What is wrong with the files of ``manifest``, all of whose bytes are read; None if nothing is."""
    for file in manifest.files:
        path = folder / file.name
        if (fault := _size(path, file)) or (fault := _sums(path, file, manifest.part_bytes)):
            return fault
    return None


def missing(manifest: Manifest, folder: Path) -> str | None:
    """As :func:`damaged`, by the sizes only: quick, however large the files are."""
    return next((fault for file in manifest.files if (fault := _size(folder / file.name, file))), None)


def _size(path: Path, file: File) -> str | None:
    if not path.is_file():
        return f"{path} is missing"
    size = path.stat().st_size
    return None if size == file.bytes else f"{path} has {size} bytes, its manifest says {file.bytes}"


def _sums(path: Path, file: File, part_bytes: int) -> str | None:
    with path.open("rb") as stream:
        for number, expected in enumerate(file.crc32):
            if f"{crc32(stream.read(part_bytes)):08x}" != expected:
                return f"{path}: bytes from {number * part_bytes} on are not what they were when it was made"
    return None
