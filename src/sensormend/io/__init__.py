"""Readings out of files and databases, rows into them."""

__all__: list[str] = []
