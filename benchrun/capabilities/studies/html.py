"""A study as one HTML file: its points as plots and as a table, then the report on its
runs.
"""

from benchrun import extensions
from benchrun.show.model import ReportModel
from benchrun.show.section import Section

from .plot import study_plots
from .result import StudyResult
from .view import filled, planned_line, remarks, sentences, study_table


def study_html(study: StudyResult, report: ReportModel) -> str:
    """The whole file; ``report`` is on the runs of the study.

    They were made to differ, so that they are no history.
    """
    text = " ".join(
        (f"{study.description}.", planned_line(study), *sentences(study), *remarks(study))
    )
    table = filled(study_table(study))
    section = Section("study", "Study", text, tuple(study_plots(study)), (table,))
    page = extensions.capability("html.page", "page")
    text_of_page: str = page(report, f"Study {study.study}", added=(section,), history=False)
    return text_of_page
