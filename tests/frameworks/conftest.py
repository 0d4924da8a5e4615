"""The kinds of models that tests/render renders are those whose configurations are tried here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "render"))
