from sensormend.errors import SensormendError

__version__ = "0.1.0"
