"""What does it cost? Mechanisms, privacy bounds and calibration, vectorised and in the log domain."""

from explorer.accounting.bound import BoundNotApplicable, PrivacyBound, ProfileBound
from explorer.accounting.calibration import (
    Calibration,
    InfeasibleTarget,
    calibrate,
    calibrate_amp,
    calibrate_gaussian,
)
from explorer.accounting.composition import (
    CompositionBound,
    DirectedLosses,
    hockey_stick_losses,
    poisson_subsampled_losses,
    refined_losses,
)
from explorer.accounting.conversion import CanonneKamathSteinke, Mironov, Optimum
from explorer.accounting.distribution import Interval, PrivacyLossDistribution
from explorer.accounting.gaussian import GaussianLowerBound
from explorer.accounting.hockey_stick import HockeyStickBound
from explorer.accounting.kifer import KiferBound
from explorer.accounting.mechanisms import (
    ApproximateMinimaPerturbation,
    Gaussian,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
)
from explorer.accounting.renyi import RenyiBound

__all__ = [
    "ApproximateMinimaPerturbation",
    "BoundNotApplicable",
    "Calibration",
    "CanonneKamathSteinke",
    "CompositionBound",
    "DirectedLosses",
    "Gaussian",
    "GaussianLowerBound",
    "HockeyStickBound",
    "InfeasibleTarget",
    "Interval",
    "KiferBound",
    "Mironov",
    "ObjectivePerturbation",
    "Optimum",
    "PoissonSubsampledGaussian",
    "PrivacyBound",
    "PrivacyLossDistribution",
    "ProfileBound",
    "RenyiBound",
    "calibrate",
    "calibrate_amp",
    "calibrate_gaussian",
    "hockey_stick_losses",
    "poisson_subsampled_losses",
    "refined_losses",
]
