"""The package draws networks and sensors for notebooks, with matplotlib; it needs the extra `plot`."""

from sensormend.plot.notebook import beside, course, health

__all__ = ["beside", "course", "health"]
