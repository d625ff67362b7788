"""These modules read messages: JSON in its shapes, SenML, a number; names in topics, and times."""
