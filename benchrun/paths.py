"""Paths of the data files: at the top of a checkout, under ``benchrun/_data`` in a wheel."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
DATAGEN = PACKAGE.parent / "datagen"
DATA = PACKAGE / "_data" if (PACKAGE / "_data").is_dir() else PACKAGE.parent

RECIPES = DATA / "recipes"
MODELS = RECIPES / "models"
CLUSTERS = RECIPES / "clusters"
SUITES = RECIPES / "suites"
TEMPLATES = DATA / "templates"
REFERENCE = DATA / "results" / "reference"
MEASURED = DATA / "results" / "measured"


def runs_dir() -> Path:
    """The folder of the runs: ``$BENCHRUN_RESULTS/runs``, or ``results/runs`` in the current directory."""
    return Path(os.environ.get("BENCHRUN_RESULTS", "results")) / "runs"
