"""How is it fitted? Losses, the perturbed objective, solvers and private learners as scikit-learn estimators."""

from explorer.learning.amp import AMPClassifier, AMPRegressor
from explorer.learning.clipping import ClippedLoss
from explorer.learning.losses import Logistic
from explorer.learning.objective import PerturbedObjective
from explorer.learning.privacy import NoReleaseError, PrivacyStatement, PrivacyWarning
from explorer.learning.records import Records
from explorer.learning.risk import (
    ExcessRisk,
    OutputStep,
    RiskOptimum,
    best_l2_reg,
    best_private_parameters,
    excess_risk_bound,
    glm_trace_bound,
    local_trace_bound,
    minimum_curvature,
    output_step,
)

__all__ = [
    "AMPClassifier",
    "AMPRegressor",
    "ClippedLoss",
    "ExcessRisk",
    "Logistic",
    "NoReleaseError",
    "OutputStep",
    "PerturbedObjective",
    "PrivacyStatement",
    "PrivacyWarning",
    "Records",
    "RiskOptimum",
    "best_l2_reg",
    "best_private_parameters",
    "excess_risk_bound",
    "glm_trace_bound",
    "local_trace_bound",
    "minimum_curvature",
    "output_step",
]
