"""Pictures of networks, sensors and methods, drawn with matplotlib; needs the extra `plot`."""

from sensormend.plot.notebook import beside, course, health

__all__ = ["beside", "course", "health"]
