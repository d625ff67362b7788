"""The package runs the paper's experiments, the fault bench and real archives; only `sensormend bench` imports it."""
