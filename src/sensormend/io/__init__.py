"""The package reads readings from files and databases, and writes rows to files."""

__all__: list[str] = []
