"""How is it fitted? Losses, the perturbed objective, solvers and private learners as scikit-learn estimators."""

from explorer.learning.amp import AMPClassifier, AMPRegressor
from explorer.learning.clipping import ClippedLoss
from explorer.learning.dp_ftrl import DPFTRLClassifier, DPFTRLRegressor, tree_noise_covariance
from explorer.learning.losses import Logistic
from explorer.learning.objective import PerturbedObjective
from explorer.learning.output_perturbation import OutputPerturbationClassifier, OutputPerturbationRegressor
from explorer.learning.privacy import NoReleaseError, PrivacyStatement, PrivacyWarning
from explorer.learning.pure_objective_perturbation import (
    PureObjectivePerturbationClassifier,
    PureObjectivePerturbationRegressor,
)
from explorer.learning.records import Records

__all__ = [
    "AMPClassifier",
    "AMPRegressor",
    "ClippedLoss",
    "DPFTRLClassifier",
    "DPFTRLRegressor",
    "Logistic",
    "NoReleaseError",
    "OutputPerturbationClassifier",
    "OutputPerturbationRegressor",
    "PerturbedObjective",
    "PrivacyStatement",
    "PrivacyWarning",
    "PureObjectivePerturbationClassifier",
    "PureObjectivePerturbationRegressor",
    "Records",
    "tree_noise_covariance",
]
