"""The views read an output folder and return frozen dataclasses, which the dashboard and the report show."""

__all__: list[str] = []
