"""What an operator can serve at each parallelism: beliefs about a running operator, and their prior from history."""

from streamtune.capacity.belief import CapacityBelief
from streamtune.capacity.prior import CapacityPrior, TypePrior
from streamtune.capacity.readings import Readings, read_capacity

__all__ = ["CapacityBelief", "CapacityPrior", "Readings", "TypePrior", "read_capacity"]
