"""``python -m benchrun``."""

from benchrun.cli import main

main()
