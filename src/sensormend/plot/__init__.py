"""The package draws networks, sensors and methods with matplotlib; it needs the extra `plot`."""

from sensormend.plot.notebook import beside, course, health

__all__ = ["beside", "course", "health"]
