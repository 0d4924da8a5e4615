"""The manifest of a data set: its parameters, facts about its content, and the checksums of its files."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchrun.errors import UserError

PART_BYTES = 1 << 26
"""Bytes per checksum: 10 GB have 150 parts, which several processes can make side by side."""

Kind = Literal["tokens", "sft", "tokenizer"]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
Lengths = Literal["fixed", "lognormal", "zipf"]


class Frozen(BaseModel):
    """Base of all models: immutable, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class File(Frozen):
    """One file of a data set."""

    name: str
    """Path relative to the manifest."""
    bytes: int
    crc32: tuple[str, ...]
    """CRC-32 of each part of ``part_bytes``, as eight hex digits."""


class Manifest(Frozen):
    """Content of ``PREFIX.json``."""

    schema_version: Literal[1] = 1
    kind: Kind
    version: str
    """Version of the generator: the same version and parameters give the same bytes."""
    parameters: dict[str, Any]
    facts: dict[str, Any]
    """Properties of the result: documents, tokens, dtype and so on."""
    part_bytes: int = Field(default_factory=lambda: PART_BYTES)
    files: tuple[File, ...]


def load(path: Path) -> Manifest:
    """The manifest in ``path``. UserError if the file is missing or not a manifest."""
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"no manifest: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        hint = "datagen writes its manifest under this name: give another PREFIX, or move this file away"
        raise UserError(f"not a manifest of datagen: {place}: {first['msg']}", where=str(path), hint=hint) from error


def checksums(path: Path, part_bytes: int) -> tuple[str, ...]:
    """CRC-32 of each part of a file, as eight hex digits; reads the whole file."""
    with path.open("rb") as file:
        return tuple(f"{crc32(part):08x}" for part in iter(lambda: file.read(part_bytes), b""))


def damage(manifest: Manifest, folder: Path, *, read: bool = True) -> str | None:
    """The first difference between ``manifest`` and its files, None if there is none; without ``read``, of sizes."""
    for file in manifest.files:
        path = folder / file.name
        if not path.is_file():
            return f"{path} is missing"
        if (size := path.stat().st_size) != file.bytes:
            return f"{path} has {size} bytes, its manifest has {file.bytes}"
        sums = checksums(path, manifest.part_bytes) if read else file.crc32
        for number, (actual, expected) in enumerate(zip_longest(sums, file.crc32)):
            if actual != expected:
                return f"{path}: wrong checksum in the part that starts at byte {number * manifest.part_bytes}"
    return None
