"""The package turns readings into rows: it puts them on a grid, runs the model, and derives verdicts and summaries."""
