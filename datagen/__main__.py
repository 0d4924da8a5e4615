"""Run ``python -m datagen``."""

from datagen.cli import main

main()
