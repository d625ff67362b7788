"""The package simulates networks and faults with known truth, and scores the results of methods on them."""

from sensormend.simulate.degrade import Case, Degraded, InjectedFault, degrade
from sensormend.simulate.network import Day, Network, city, paper_tensor, stream, write_example

__all__ = [
    "Case",
    "Day",
    "Degraded",
    "InjectedFault",
    "Network",
    "city",
    "degrade",
    "paper_tensor",
    "stream",
    "write_example",
]
