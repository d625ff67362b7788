"""The package runs the experiments of the paper and the fault bench; it is imported only by `sensormend bench`."""
