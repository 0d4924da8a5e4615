"""References and comparisons in one line each."""

from __future__ import annotations

from benchrun.compare.checks import Check
from benchrun.compare.references import Reference


def reference_line(entry: Reference) -> str:
    """A reference with its source."""
    flags = f" [{', '.join(entry.flags)}]" if entry.flags else ""
    version = "".join(f", {v}" for v in (entry.key.framework_version or entry.key.image, entry.key.variant) if v)
    return (
        f"{entry.value:g} {entry.unit} ({entry.source.who} {entry.source.date}{version}; {entry.source.where}){flags}"
    )


def check_line(check: Check) -> str:
    """One number beside the reference it was compared with."""
    if check.reference.better == "equal":
        return f"final loss {check.value:.4f}, reference {reference_line(check.reference)}"
    digits = 4 if check.value < 1 else 3
    value = f"{check.value:.0f}" if check.value >= 100 else f"{check.value:.{digits}g}"
    line = f"{value} {check.reference.unit}, reference {reference_line(check.reference)}"
    if check.differs:
        line += "; differs: " + ", ".join(f"{d.key} {d.theirs} -> {d.ours}" for d in check.differs)
    return line
