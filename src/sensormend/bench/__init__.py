"""Experiments: one file each, and the scores they share."""
