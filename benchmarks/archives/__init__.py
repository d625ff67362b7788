"""The package judges what `clean` makes of archives, real and simulated; real.py and sound_networks.py use it."""

__all__: list[str] = []
