"""QEScalor: what an instance of each size does, which sizes to run when, and what that costs."""

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.provisioning.exact import plan_exact
    from streamtune.provisioning.methods import plan_by
    from streamtune.provisioning.plans import Costs, ProvisionPlan, costs_of
    from streamtune.provisioning.problem import Problem, ProvisioningError, Size, load_problem
    from streamtune.provisioning.settings import SolverSettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "exact": ["plan_exact"],
            "methods": ["plan_by"],
            "plans": ["Costs", "ProvisionPlan", "costs_of"],
            "problem": ["Problem", "ProvisioningError", "Size", "load_problem"],
            "settings": ["SolverSettings"],
        },
    )

__all__ = [
    "Costs",
    "Problem",
    "ProvisionPlan",
    "ProvisioningError",
    "Size",
    "SolverSettings",
    "costs_of",
    "load_problem",
    "plan_by",
    "plan_exact",
]
