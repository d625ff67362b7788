"""The package provides the published methods, one per file."""
