"""Pictures with matplotlib (the ``plot`` extra): an empty one, and its file."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from benchrun.errors import UserError
from benchrun.files import check_new, write_new

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture(width: float, height: float) -> "Figure":
    """An empty picture of this size in inches. UserError where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("matplotlib is not installed", hint="pip install '.[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", path: Path) -> None:
    """Write ``figure`` to a new file ``path``, in the format that its name ends in. UserError where it cannot be."""
    check_new(path)
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, dpi=150, format=path.suffix[1:] or None)
    except ValueError as error:
        raise UserError(f"the plot cannot be written: {error}", where=str(path)) from error
    write_new(path, drawn.getvalue())
