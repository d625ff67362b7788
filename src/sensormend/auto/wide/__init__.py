"""The engine of AutoOLRTR for large networks: neighbourhoods as a few large arrays, of NumPy or of torch."""
