"""The report is one HTML file about an OUT that refers to nothing outside of itself."""

from sensormend.report.document import write_report

__all__ = ["write_report"]
