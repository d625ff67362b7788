"""The dashboard: HTTP over views, who may see it, and the page."""

__all__: list[str] = []
