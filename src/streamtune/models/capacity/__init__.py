"""What an operator can serve at each parallelism: beliefs about a running operator, and their prior from history."""

from streamtune.models.capacity.belief import CapacityBelief
from streamtune.models.capacity.prior import CapacityPrior, TypePrior

__all__ = ["CapacityBelief", "CapacityPrior", "TypePrior"]
