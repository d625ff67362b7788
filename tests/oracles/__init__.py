"""Algorithms of `sensormend` once more, slow and plainly right."""
