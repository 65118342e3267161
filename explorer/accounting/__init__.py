"""What does it cost? Mechanisms, privacy bounds and calibration, vectorised and in the log domain."""

from explorer.accounting.approximate_minima import AMPBound, amp_accountant
from explorer.accounting.attained import AttainedLowerBound
from explorer.accounting.attaining_loss import OneRecordLoss, attaining_loss, linear_loss
from explorer.accounting.bound import BoundNotApplicable, PrivacyBound, ProfileBound
from explorer.accounting.calibration import (
    Calibration,
    InfeasibleTarget,
    calibrate,
    calibrate_amp,
    calibrate_gaussian,
    frontier,
)
from explorer.accounting.composition import (
    CompositionBound,
    DirectedLosses,
    hockey_stick_losses,
    poisson_subsampled_losses,
    profile_losses,
    refined_losses,
)
from explorer.accounting.conversion import CanonneKamathSteinke, Mironov, Optimum
from explorer.accounting.distribution import Interval, PrivacyLossDistribution
from explorer.accounting.gaussian import GaussianLowerBound
from explorer.accounting.hockey_stick import HockeyStickBound
from explorer.accounting.kifer import KiferBound
from explorer.accounting.mechanisms import (
    ApproximateMinimaPerturbation,
    GammaNoise,
    Gaussian,
    ObjectivePerturbation,
    OutputPerturbation,
    PoissonSubsampledGaussian,
    PureObjectivePerturbation,
    PureOutputPerturbation,
    TreeAggregation,
)
from explorer.accounting.privacy_loss import HalfNormalLoss, NormalLoss, dominating_loss
from explorer.accounting.pure import PureBound
from explorer.accounting.refined import RefinedBound
from explorer.accounting.renyi import RenyiBound
from explorer.accounting.selection import (
    BestOfRuns,
    Poisson,
    ScoredRun,
    SelectionCorollaryBound,
    SelectionProfileBound,
    SelectionRenyiBound,
    TruncatedNegativeBinomial,
)
from explorer.accounting.subsampling import poisson_subsampled_gaussian_rdp, steepest_order
from explorer.accounting.tight import TightBound

bounds = (
    KiferBound,
    RenyiBound,
    HockeyStickBound,
    RefinedBound,
    TightBound,
    GaussianLowerBound,
    AttainedLowerBound,
)

__all__ = [
    "AMPBound",
    "ApproximateMinimaPerturbation",
    "AttainedLowerBound",
    "BestOfRuns",
    "BoundNotApplicable",
    "Calibration",
    "CanonneKamathSteinke",
    "CompositionBound",
    "DirectedLosses",
    "GammaNoise",
    "Gaussian",
    "GaussianLowerBound",
    "HalfNormalLoss",
    "HockeyStickBound",
    "InfeasibleTarget",
    "Interval",
    "KiferBound",
    "Mironov",
    "NormalLoss",
    "ObjectivePerturbation",
    "OneRecordLoss",
    "Optimum",
    "OutputPerturbation",
    "Poisson",
    "PoissonSubsampledGaussian",
    "PrivacyBound",
    "PrivacyLossDistribution",
    "ProfileBound",
    "PureBound",
    "PureObjectivePerturbation",
    "PureOutputPerturbation",
    "RefinedBound",
    "RenyiBound",
    "ScoredRun",
    "SelectionCorollaryBound",
    "SelectionProfileBound",
    "SelectionRenyiBound",
    "TightBound",
    "TreeAggregation",
    "TruncatedNegativeBinomial",
    "amp_accountant",
    "attaining_loss",
    "bounds",
    "calibrate",
    "calibrate_amp",
    "calibrate_gaussian",
    "dominating_loss",
    "frontier",
    "hockey_stick_losses",
    "linear_loss",
    "poisson_subsampled_gaussian_rdp",
    "poisson_subsampled_losses",
    "profile_losses",
    "refined_losses",
    "steepest_order",
]
