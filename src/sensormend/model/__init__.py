"""NetworkModel and its engine, which is one for networks of any size."""
