"""How is it fitted? Losses, the perturbed objective, solvers and private learners as scikit-learn estimators."""

from explorer.learning.clipping import ClippedLoss
from explorer.learning.learners.amp import AMPClassifier, AMPRegressor
from explorer.learning.learners.dp_ftrl import DPFTRLClassifier, DPFTRLRegressor, tree_noise_covariance
from explorer.learning.learners.dp_gd import DPGDClassifier, DPGDRegressor
from explorer.learning.learners.dp_sgd import DPSGDClassifier, DPSGDRegressor
from explorer.learning.learners.output_perturbation import OutputPerturbationClassifier, OutputPerturbationRegressor
from explorer.learning.learners.pure_objective_perturbation import (
    PureObjectivePerturbationClassifier,
    PureObjectivePerturbationRegressor,
)
from explorer.learning.losses import (
    LOSSES,
    Huber,
    LogCosh,
    Logistic,
    Loss,
    Probit,
    PseudoHuber,
    SmoothedHinge,
    Squared,
    resolve_loss,
)
from explorer.learning.objective import PerturbedObjective
from explorer.learning.privacy import NoReleaseError, PrivacyStatement, PrivacyWarning
from explorer.learning.records.blocks import Records
from explorer.learning.risk import (
    ExcessRisk,
    OutputStep,
    RiskOptimum,
    best_l2_reg,
    best_on_frontier,
    best_private_parameters,
    excess_risk_bound,
    glm_trace_bound,
    local_trace_bound,
    minimum_curvature,
    output_step,
)
from explorer.learning.tuning import DishonestSelection, HonestSelection

__all__ = [
    "LOSSES",
    "AMPClassifier",
    "AMPRegressor",
    "ClippedLoss",
    "DPFTRLClassifier",
    "DPFTRLRegressor",
    "DPGDClassifier",
    "DPGDRegressor",
    "DPSGDClassifier",
    "DPSGDRegressor",
    "DishonestSelection",
    "ExcessRisk",
    "HonestSelection",
    "Huber",
    "LogCosh",
    "Logistic",
    "Loss",
    "NoReleaseError",
    "OutputPerturbationClassifier",
    "OutputPerturbationRegressor",
    "OutputStep",
    "PerturbedObjective",
    "PrivacyStatement",
    "PrivacyWarning",
    "Probit",
    "PseudoHuber",
    "PureObjectivePerturbationClassifier",
    "PureObjectivePerturbationRegressor",
    "Records",
    "RiskOptimum",
    "SmoothedHinge",
    "Squared",
    "best_l2_reg",
    "best_on_frontier",
    "best_private_parameters",
    "excess_risk_bound",
    "glm_trace_bound",
    "local_trace_bound",
    "minimum_curvature",
    "output_step",
    "resolve_loss",
    "tree_noise_covariance",
]


def __dir__() -> list[str]:
    """The public names alone: modules are imported by their paths."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
