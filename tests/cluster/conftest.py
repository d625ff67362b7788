"""The clusters that these tests share."""

from clusters import cluster, fresh_cluster

__all__ = ["cluster", "fresh_cluster"]
