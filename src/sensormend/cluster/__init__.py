"""One network, or many, on a Dask cluster."""

from sensormend.cluster.many_networks import NetworksReport, clean_networks
from sensormend.cluster.one_network import ClusterOLRTR

__all__ = ["ClusterOLRTR", "NetworksReport", "clean_networks"]
