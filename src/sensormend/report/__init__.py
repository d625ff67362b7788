"""One HTML file about an OUT, to send by mail: it refers to nothing outside of itself."""

from sensormend.report.page import write_report

__all__ = ["write_report"]
