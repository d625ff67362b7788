"""What may be in a message: JSON in its shapes, SenML, a number; names in topics, and times."""
