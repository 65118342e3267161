"""How is it fitted? Losses, the perturbed objective, solvers and private learners as scikit-learn estimators."""

from explorer.learning.amp import AMPClassifier
from explorer.learning.clipping import ClippedLoss
from explorer.learning.losses import Logistic
from explorer.learning.objective import PerturbedObjective
from explorer.learning.privacy import NoReleaseError, PrivacyStatement

__all__ = ["AMPClassifier", "ClippedLoss", "Logistic", "NoReleaseError", "PerturbedObjective", "PrivacyStatement"]
