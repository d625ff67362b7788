"""One network, or many, on a Dask cluster."""
