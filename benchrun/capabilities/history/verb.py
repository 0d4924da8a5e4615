"""``report --history``: the histories of points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from benchrun import api
from benchrun.cli.options import each, json_text, run_id, say, write_text
from benchrun.rundir.folder import RunDir
from benchrun.vocabulary import Exit, worst

from .series import history_of
from .text import history_page


def show_history(runs: Sequence[RunDir], by: str, form: str, output: Path | None) -> Exit:
    """Print the history of ``runs`` in the format ``form``; returns the exit code."""
    results, code = each(runs, api.result_of, run_id)
    # A point has one framework.
    history = history_of(results, cast(Any, "point" if by == "framework" else by))
    if history.left_out:
        say(
            f"left out, without numbers or profiled: {len(history.left_out)} of {len(results)} runs"
        )
    is_json = form == "json"
    write_text(
        json_text(history.document()) if is_json else history_page(history, form),
        output,
    )
    return worst((code, Exit.SLOW if history.slower else Exit.OK))
