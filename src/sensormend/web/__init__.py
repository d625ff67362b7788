"""The package serves the dashboard: the HTTP API over the views, access control, and the page."""

__all__: list[str] = []
