"""What a site adds to benchrun: two frameworks, their logs, a workload, metrics, a verb, an expectation, a format."""

from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"
