"""Reports that several test files read."""

from report_models import few, report, scaling_study, study_page, two  # noqa: F401  # fixtures
