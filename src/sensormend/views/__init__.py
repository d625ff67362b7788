"""What there is to see in an OUT, as plain results: what the dashboard and the report show."""

__all__: list[str] = []
