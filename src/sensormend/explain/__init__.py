"""The package explains the flag of a reading in one paragraph, with numbers and correlated sensors."""
