"""A page to mail: what an OUT has to say, as one HTML file that refers to nothing outside of itself."""

__all__: list[str] = []
