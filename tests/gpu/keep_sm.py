"""A copy of a wheel whose CUDA libraries hold machine code for one kind of GPU alone.

    keep_sm.py 90 IN.whl OUT.whl [PATTERN...]

The code for the others is zeroed in place: headers and sizes stay, so the CUDA runtime finds its way as before, and
zeros compress to nothing. On any other kind of GPU the result does not run. Files whose path matches a PATTERN are left
out; PATTERN=WORD zeroes in such a file the code that names a kernel with WORD, PATTERN=WORD!OTHER only where it names
none with OTHER.
"""

import base64
import fnmatch
import hashlib
import struct
import sys
import zipfile
from collections.abc import Sequence

# A fat binary: a header (magic, version 1, its own size 16, bytes that follow), then entries, each with a header
# (kind, version, its own size, bytes of code) that names the GPU at byte 28. As nvcc 12 and 13 write it.
CONTAINER = struct.pack("<IHH", 0xBA55ED50, 1, 16)
MACHINE_CODE = 2


def keep(library: bytearray, sm: int, without: Sequence[tuple[bytes, bytes]] = ()) -> int:
    """Zero the code that is not machine code for ``sm``, or has the first word of a pair of ``without`` but not the
    second (an empty one is nowhere); return the bytes kept."""
    kept, at = 0, library.find(CONTAINER)
    while at >= 0:
        (size,) = struct.unpack_from("<Q", library, at + 8)
        at, end = at + 16, at + 16 + size
        while at < end:
            kind, _, header, code = struct.unpack_from("<HHIQ", library, at)
            (gpu,) = struct.unpack_from("<I", library, at + 28)
            if header < 32 or at + header + code > end:
                raise SystemExit(f"keep_sm: no fat binary as known at byte {at}")
            body = library[at + header : at + header + code]
            named = any(word in body and not (other and other in body) for word, other in without)
            if kind == MACHINE_CODE and gpu == sm and not named:
                kept += code
            else:
                library[at + header : at + header + code] = bytes(code)
            at += header + code
        at = library.find(CONTAINER, end)
    return kept


def main(sm: int, source: str, target: str, *patterns: str) -> None:
    words = [each.split("=") for each in patterns if "=" in each]
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        digests = {}
        for entry in old.infolist():
            if any(fnmatch.fnmatch(entry.filename, pattern) for pattern in patterns):
                continue
            content = bytearray(old.read(entry))
            if entry.filename.endswith(".so") and CONTAINER in content:
                chosen = [word.encode() for pattern, word in words if fnmatch.fnmatch(entry.filename, pattern)]
                without = [(word, other) for word, _, other in (each.partition(b"!") for each in chosen)]
                if not keep(content, sm, without):
                    raise SystemExit(f"keep_sm: {entry.filename} holds no code for sm_{sm}")
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                digests[entry.filename] = f"{entry.filename},sha256={digest},{len(content)}"
            elif entry.filename.endswith(".dist-info/RECORD"):
                rows = content.decode().splitlines()
                content = bytearray("".join(f"{digests.get(row.split(',')[0], row)}\n" for row in rows).encode())
            new.writestr(entry, bytes(content), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
