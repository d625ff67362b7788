"""The package writes the report on an output folder as one self-contained HTML file."""

from sensormend.report.document import write_report

__all__ = ["write_report"]
