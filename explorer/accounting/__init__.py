"""Privacy accounting: mechanisms, bounds on their privacy, and calibration; vectorised and in the log domain."""

from explorer.accounting.approximate_minima import AMPBound, amp_accountant
from explorer.accounting.bounds.attaining_loss import AttainingLoss, attaining_loss
from explorer.accounting.bounds.exact import ExactBound
from explorer.accounting.bounds.gaussian import GaussianLowerBound
from explorer.accounting.bounds.hockey_stick import HockeyStickBound
from explorer.accounting.bounds.kifer import KiferBound
from explorer.accounting.bounds.one_record_loss import OneRecordLoss, linear_loss
from explorer.accounting.bounds.pure import PureBound
from explorer.accounting.bounds.refined import RefinedBound
from explorer.accounting.bounds.renyi import RenyiBound
from explorer.accounting.calibration import (
    Calibration,
    InfeasibleTarget,
    calibrate,
    calibrate_amp,
    calibrate_gaussian,
    frontier,
)
from explorer.accounting.conversion import CanonneKamathSteinke, Mironov, Optimum
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
from explorer.accounting.pld.adaptive_composition import AdaptiveCompositionBound
from explorer.accounting.pld.composition import (
    CompositionBound,
    DirectedPLDs,
    hockey_stick_plds,
    poisson_subsampled_plds,
    profile_plds,
    refined_plds,
)
from explorer.accounting.pld.distribution import Interval, PrivacyLossDistribution
from explorer.accounting.pld.dominating_pair import HalfNormalPLD, NormalPLD, dominating_pld
from explorer.accounting.protocol import BoundNotApplicable, PrivacyBound, ProfileBound
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

# The bounds on objective perturbation, of which the last one is a lower bound. As an attribute of this package the name
# hides the subpackage; `from explorer.accounting.bounds.renyi import ...` is not affected.
bounds = (
    KiferBound,
    RenyiBound,
    HockeyStickBound,
    RefinedBound,
    ExactBound,
    GaussianLowerBound,
)

__all__ = [
    "AMPBound",
    "AdaptiveCompositionBound",
    "ApproximateMinimaPerturbation",
    "AttainingLoss",
    "BestOfRuns",
    "BoundNotApplicable",
    "Calibration",
    "CanonneKamathSteinke",
    "CompositionBound",
    "DirectedPLDs",
    "ExactBound",
    "GammaNoise",
    "Gaussian",
    "GaussianLowerBound",
    "HalfNormalPLD",
    "HockeyStickBound",
    "InfeasibleTarget",
    "Interval",
    "KiferBound",
    "Mironov",
    "NormalPLD",
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
    "TreeAggregation",
    "TruncatedNegativeBinomial",
    "amp_accountant",
    "attaining_loss",
    "bounds",
    "calibrate",
    "calibrate_amp",
    "calibrate_gaussian",
    "dominating_pld",
    "frontier",
    "hockey_stick_plds",
    "linear_loss",
    "poisson_subsampled_gaussian_rdp",
    "poisson_subsampled_plds",
    "profile_plds",
    "refined_plds",
    "steepest_order",
]


def __dir__() -> list[str]:
    """The public names alone: modules are imported by their paths."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
