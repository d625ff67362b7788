"""The algorithms of `sensormend.model` once more, slow and plainly right."""
