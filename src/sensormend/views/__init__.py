"""Views read an OUT and return plain results, which the dashboard and the report show."""

__all__: list[str] = []
