"""The methods, one per file."""
