"""Sources of logs: files, plain or compressed, directories, stdin; as chunks of bytes."""

import codecs
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from benchrun.errors import UserError, reading
from benchrun.rundir.artifacts import SPEC

CHUNK, FIRST_CHUNKS = 1 << 20, 1 << 16
SAMPLE = 1 << 8
"""Bytes of the beginning of a log that show its encoding."""
STDIN = Path("-")
SUFFIXES = frozenset({".log", ".out", ".err", ".txt", ".stdout", ".stderr"})
"""Suffixes of a log in a directory; one of COMPRESSED_SUFFIXES may follow."""


class _Zstd:
    """zstandard's reader, which ends silently if a file was cut, as a file that raises
    EOFError.
    """

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard

        self._file = file
        self._error = zstandard.ZstdError
        self._frame = zstandard.ZstdDecompressor().decompressobj
        self._unpack = self._frame()
        self._inside = False
        """Whether the position is between the first and the last byte of a frame."""

    def read(self, size: int) -> bytes:
        """About ``size`` bytes; EOFError if the data stop in the middle."""
        try:
            while chunk := self._file.read(
                size // 32
            ):  # a log packs so well that more would fill the memory
                if data := self._unpacked(chunk):
                    return data
        except self._error as error:
            raise EOFError(str(error)) from error
        if self._inside:
            raise EOFError("the data end in the middle")
        return b""

    def _unpacked(self, packed: bytes) -> bytes:
        """The contents of ``packed``, which may end a frame and begin others."""
        data = b""
        while packed:
            data += self._unpack.decompress(packed)
            packed, self._inside = self._unpack.unused_data, not self._unpack.eof
            if self._unpack.eof:
                self._unpack = self._frame()
        return data


COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\x28\xb5\x2f\xfd": _Zstd,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
"""First bytes of a file -> what unpacks it. The name does not matter."""
COMPRESSED_SUFFIXES = frozenset({".gz", ".zst", ".xz"})


class Truncated(UserError):
    """A compressed log that ends in the middle: what came before it was good."""


class LogFile(NamedTuple):
    """A file to read, and where its name comes from."""

    file: Path
    named: bool = True
    """Whether the caller named the file; otherwise it lies in a directory that the
    caller named.
    """
    run: Path | None = None
    """Its run directory, whose logs are all one run."""


def logs_in(paths: Sequence[Path]) -> list[LogFile]:
    """``paths`` with every directory replaced by the logs in it, in the order of their
    names; hidden ones are not read.

    UserError for a directory without logs.
    """
    logs: list[LogFile] = []
    for path in paths:
        with reading(path):
            if not path.is_dir():
                logs.append(LogFile(path))
                continue
            next(path.iterdir(), None)  # rglob finds nothing in a directory that may not be read
        inside = sorted(file for file in path.rglob("*") if _is_log(file, path))
        if not inside:
            hint = f"logs are files that end in {' '.join(sorted(SUFFIXES))}, compressed or not"
            raise UserError("no log in this directory", where=path, hint=hint)
        runs = {spec.parent for spec in path.rglob(SPEC)}
        for file in inside:
            logs.append(LogFile(file, False, next((up for up in file.parents if up in runs), None)))
    return logs


def unpacked_name(file: Path) -> str:
    """The name of a log without the suffix of a compression: its lines are the same."""
    if file.suffix in COMPRESSED_SUFFIXES:
        return file.stem
    return file.name


def _is_log(file: Path, folder: Path) -> bool:
    if any(part.startswith(".") for part in file.relative_to(folder).parts):
        return False
    suffixes = []
    for suffix in file.suffixes:
        if suffix not in COMPRESSED_SUFFIXES:
            suffixes.append(suffix)
    if not suffixes or suffixes[-1] not in SUFFIXES:
        return False
    with reading(file):
        return file.is_file()


def chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a log, unpacked, in UTF-8 if it is in UTF-16: PowerShell redirects
    that way.

    UserError for what cannot be read, Truncated after what could be unpacked.
    """
    head, stream = begun(_unpacked(path), SAMPLE)
    encoding = _utf_16(head[:SAMPLE])
    if encoding is None:
        yield head
        yield from stream
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chain((head,), stream):
        yield decoder.decode(chunk).encode("utf-8", "replace")


def begun(stream: Iterator[bytes], size: int, head: bytes = b"") -> tuple[bytes, Iterator[bytes]]:
    """``head`` and more than ``size`` bytes of a log, or all that a cut one has, and
    the rest.
    """
    try:
        for chunk in stream:
            head += chunk
            if len(head) > size:
                break
    except Truncated as error:
        return head, _cut(error)
    return head, stream


def _cut(error: Truncated) -> Iterator[bytes]:
    raise error
    yield b""


def _utf_16(head: bytes) -> str | None:
    """The name of the encoding that the first bytes of a log show, by its mark or by a
    zero beside every letter.
    """
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if marked and 4 * head.count(0) > len(head):  # a tool may put a mark before any text
        return "utf-16"
    even, odd = head[::2], head[1::2]
    for encoding, high, low in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if 2 * high.count(0) > len(high) and 10 * low.count(0) < len(low):
            return encoding
    return None


def _unpacked(path: Path) -> Iterator[bytes]:
    """The bytes of a log as they are, unpacked."""
    try:
        if path == STDIN:
            yield from _read(sys.stdin.buffer)
            return
        with path.open("rb") as file:
            magic = file.read(6) if path.is_file() else b""
            unpack = next(
                (opener for start, opener in COMPRESSED.items() if magic.startswith(start)), None
            )
            if unpack is not None:
                file.seek(0)
                yield from _read(unpack(file))
            else:
                yield magic
                yield from _read(file)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", where=path) from error
    except (EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise Truncated(f"cannot be unpacked to its end: {error}", where=path) from error


def _read(file: Any) -> Iterator[bytes]:
    # Until the framework is known, all dialects' needles are searched: small chunks end
    # that early.
    # What a cut file still holds comes before its error if each call reads once.
    read = getattr(file, "read1", file.read)
    for _ in range(CHUNK // FIRST_CHUNKS):
        yield read(FIRST_CHUNKS)
    while chunk := read(CHUNK):
        yield chunk
