"""Many networks on a Dask cluster."""

from sensormend.cluster.many_networks import NetworksReport, clean_networks

__all__ = ["NetworksReport", "clean_networks"]
