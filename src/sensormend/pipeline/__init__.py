"""From readings to rows: the grid, the model over its periods, verdicts, and what is written of them."""
