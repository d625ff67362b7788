"""Where readings come from: one source per file."""
