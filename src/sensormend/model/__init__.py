"""AutoOLRTR's engine: one for networks of any size."""
