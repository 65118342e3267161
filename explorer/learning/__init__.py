"""How is it fitted? Losses, the perturbed objective, solvers and private learners as scikit-learn estimators."""

from explorer.learning.amp import AMPClassifier
from explorer.learning.clipping import ClippedLoss
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
from explorer.learning.privacy import NoReleaseError, PrivacyStatement

__all__ = [
    "LOSSES",
    "AMPClassifier",
    "ClippedLoss",
    "Huber",
    "LogCosh",
    "Logistic",
    "Loss",
    "NoReleaseError",
    "PerturbedObjective",
    "PrivacyStatement",
    "Probit",
    "PseudoHuber",
    "SmoothedHinge",
    "Squared",
    "resolve_loss",
]
