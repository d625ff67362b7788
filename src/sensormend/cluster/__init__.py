"""The package cleans many networks, in this process or on a Dask cluster."""

from sensormend.cluster.networks import NetworksReport, clean_networks

__all__ = ["NetworksReport", "clean_networks"]
