"""Mechanisms: frozen dataclasses of validated parameters, independent of any bound.

Neighbouring datasets differ by one added or removed record. Training losses are sums over records, never means.
"""

from dataclasses import dataclass
from math import sqrt

from explorer.validation import natural, positive, real


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """The Gaussian mechanism: a query of bounded l2 sensitivity plus N(0, noise_std^2 I).

    Parameters
    ----------
    noise_std : float > 0, absolute standard deviation of the noise
    sensitivity : float > 0, l2 sensitivity of the query

    Raises
    ------
    ValueError if a parameter is not a finite number > 0.
    """

    noise_std: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        _positive_fields(self, "noise_std", "sensitivity")

    @property
    def sensitivity_ratio(self) -> float:
        """s = sensitivity / noise_std, the only quantity on which the privacy of the mechanism depends."""
        return self.sensitivity / self.noise_std


@dataclass(frozen=True, kw_only=True)
class _PerturbedObjective:
    noise_std: float
    l2_reg: float
    lipschitz: float
    smoothness: float
    monotone_loss: bool = False

    def __post_init__(self) -> None:
        _positive_fields(self, "noise_std", "l2_reg", "lipschitz", "smoothness")
        if not isinstance(self.monotone_loss, bool):
            raise ValueError(f"monotone_loss must be True or False: got monotone_loss={self.monotone_loss!r}")

    @property
    def sensitivity_ratio(self) -> float:
        """s = L / sigma."""
        return self.lipschitz / self.noise_std

    @property
    def curvature_ratio(self) -> float:
        """kappa = beta / lambda."""
        return self.smoothness / self.l2_reg


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(_PerturbedObjective):
    """Objective perturbation: the exact minimiser of sum_z loss(theta; z) + (l2_reg / 2) |theta|^2 + b.theta.

    The linear term b is drawn from N(0, noise_std^2 I). The loss is a convex generalised linear model,
    loss(theta; (x, y)) = f(x.theta; y). Its privacy depends on the parameters only through
    s = lipschitz / noise_std and kappa = smoothness / l2_reg.

    Parameters
    ----------
    noise_std : float > 0, sigma, standard deviation of each coordinate of b
    l2_reg : float > 0, lambda, weight of the regulariser for the *sum* of losses
    lipschitz : float > 0, L, bound on the norm of a single loss's gradient in theta
    smoothness : float > 0, beta, bound on the largest eigenvalue of a single loss's Hessian in theta
    monotone_loss : bool, whether f' never changes sign (logistic, smoothed hinge); only some bounds use it

    Raises
    ------
    ValueError if a parameter is out of range. Any l2_reg > 0 is a valid mechanism; a bound whose theorem needs
    l2_reg > smoothness raises `BoundNotApplicable` at its own construction.

    References: Chaudhuri, Monteleoni & Sarwate 2011; Kifer, Smith & Thakurta 2012; Redberg, Koskela & Wang 2023.
    """


@dataclass(frozen=True, kw_only=True)
class ApproximateMinimaPerturbation(_PerturbedObjective):
    """Algorithm 1: objective perturbation solved to |gradient| <= gradient_tol, then output noise.

    A verified gradient norm tau puts the returned point within tau / lambda of the exact minimiser, so the
    output step is a Gaussian mechanism of sensitivity 2 tau / lambda and noise N(0, output_noise_std^2 I).
    `lipschitz` is the clipping norm C when gradients are clipped.

    Parameters
    ----------
    noise_std, l2_reg, lipschitz, smoothness, monotone_loss : as in `ObjectivePerturbation`
    gradient_tol : float > 0, tau, in units of the gradient of the summed loss
    output_noise_std : float > 0, sigma_out, in units of theta

    References: Iyengar et al. 2019; Redberg, Koskela & Wang 2023, Algorithm 1.
    """

    gradient_tol: float
    output_noise_std: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive_fields(self, "gradient_tol", "output_noise_std")

    @property
    def objective(self) -> ObjectivePerturbation:
        """The objective perturbation with its exact minimiser, as an `ObjectivePerturbation`."""
        return ObjectivePerturbation(
            noise_std=self.noise_std,
            l2_reg=self.l2_reg,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            monotone_loss=self.monotone_loss,
        )

    @property
    def output_step(self) -> Gaussian:
        """The output noise as a `Gaussian` mechanism of sensitivity 2 tau / lambda."""
        return Gaussian(noise_std=self.output_noise_std, sensitivity=2 * self.gradient_tol / self.l2_reg)


@dataclass(frozen=True, kw_only=True)
class PoissonSubsampledGaussian:
    """DP-SGD: `steps` Gaussian mechanisms, each on a Poisson sample of the records.

    Every record enters a sample independently with probability sampling_rate. Batches from a shuffled pass over the
    data are *not* Poisson samples, and bounds on this mechanism do not hold for them.

    Parameters
    ----------
    noise_multiplier : float > 0, noise standard deviation divided by the clipping norm (the l2 sensitivity)
    sampling_rate : float in (0, 1]
    steps : int >= 1

    Raises
    ------
    ValueError if a parameter is out of range.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int = 1

    def __post_init__(self) -> None:
        _positive_fields(self, "noise_multiplier")
        rate = real("sampling_rate", self.sampling_rate, rule="inside (0, 1]", valid=lambda x: (x > 0) & (x <= 1))
        object.__setattr__(self, "sampling_rate", rate)
        object.__setattr__(self, "steps", natural("steps", self.steps))


@dataclass(frozen=True, kw_only=True)
class GammaNoise:
    """A query of bounded l2 sensitivity plus noise of density proportional to e^(-|noise| / noise_scale) in R^d.

    The direction of the noise is uniform on the sphere, its norm follows Gamma(d, noise_scale).

    Parameters
    ----------
    noise_scale : float > 0
    sensitivity : float > 0, l2 sensitivity of the query

    Raises
    ------
    ValueError if a parameter is not a finite number > 0.

    References: Chaudhuri, Monteleoni & Sarwate 2011.
    """

    noise_scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        _positive_fields(self, "noise_scale", "sensitivity")


@dataclass(frozen=True, kw_only=True)
class _OutputPerturbation:
    l2_reg: float
    lipschitz: float
    gradient_tol: float

    def __post_init__(self) -> None:
        _positive_fields(self, "l2_reg", "lipschitz", "gradient_tol")

    @property
    def sensitivity(self) -> float:
        """(L + 2 tau) / lambda, the largest distance of the points returned for two neighbouring datasets."""
        return (self.lipschitz + 2 * self.gradient_tol) / self.l2_reg


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(_OutputPerturbation):
    """Gaussian noise on a point where |gradient| <= gradient_tol of sum_z loss(theta; z) + (l2_reg / 2) |theta|^2.

    For the objectives F of Z and F' = F + loss(.; z) of Z and z, and verified points t, t', strong convexity gives
    lambda |t - t'| <= |grad F'(t) - grad F'(t')| <= |grad F(t)| + |grad loss(t; z)| + |grad F'(t')| <= L + 2 tau.

    Parameters
    ----------
    noise_std : float > 0, standard deviation of each coordinate of the noise
    l2_reg : float > 0, lambda, weight of the regulariser for the *sum* of convex losses
    lipschitz : float > 0, L, bound on the norm of a single loss's gradient in theta
    gradient_tol : float > 0, tau, in units of the gradient of the summed loss

    Raises
    ------
    ValueError if a parameter is not a finite number > 0.

    References: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1 (for means, replacement and exact minimisers, hence
    with 2 L / (n Lambda)).
    """

    noise_std: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive_fields(self, "noise_std")

    @property
    def output_step(self) -> Gaussian:
        """The same mechanism as a `Gaussian`."""
        return Gaussian(noise_std=self.noise_std, sensitivity=self.sensitivity)


@dataclass(frozen=True, kw_only=True)
class PureOutputPerturbation(_OutputPerturbation):
    """`OutputPerturbation` with `GammaNoise` of the given noise_scale > 0, for pure epsilon."""

    noise_scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive_fields(self, "noise_scale")

    @property
    def output_step(self) -> GammaNoise:
        """The same mechanism as a `GammaNoise`."""
        return GammaNoise(noise_scale=self.noise_scale, sensitivity=self.sensitivity)


@dataclass(frozen=True, kw_only=True)
class PureObjectivePerturbation:
    """Objective perturbation with Gamma-norm noise, solved to |gradient| <= gradient_tol, then Gamma-norm output noise.

    The objective is sum_z loss(theta; z) + (l2_reg / 2) |theta|^2 + b.theta, b of density proportional to
    e^(-|b| / noise_scale); the loss is a convex generalised linear model. The bound on the objective holds for the
    exact minimiser: releasing a point within tau / lambda of it is one more query, of sensitivity 2 tau / lambda,
    with noise of its own.

    Parameters
    ----------
    noise_scale : float > 0, 1 / zeta
    l2_reg, lipschitz, smoothness, gradient_tol : as in `ApproximateMinimaPerturbation`
    output_noise_scale : float > 0, in units of theta

    Raises
    ------
    ValueError if a parameter is not a finite number > 0.

    References: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2.
    """

    noise_scale: float
    l2_reg: float
    lipschitz: float
    smoothness: float
    gradient_tol: float
    output_noise_scale: float

    def __post_init__(self) -> None:
        _positive_fields(self, "noise_scale", "l2_reg", "lipschitz", "smoothness", "gradient_tol", "output_noise_scale")

    @property
    def curvature_ratio(self) -> float:
        """kappa = beta / lambda."""
        return self.smoothness / self.l2_reg

    @property
    def output_step(self) -> GammaNoise:
        """The output noise as a `GammaNoise` mechanism of sensitivity 2 tau / lambda."""
        return GammaNoise(noise_scale=self.output_noise_scale, sensitivity=2 * self.gradient_tol / self.l2_reg)


@dataclass(frozen=True, kw_only=True)
class TreeAggregation:
    """DP-FTRL: prefix sums of clipped gradients from noisy sums over the nodes of a binary tree, restarted each epoch.

    Step t contributes the sum of one batch's gradients. Each record belongs to one batch, chosen independently of the
    other records, hence to one leaf. A node over 2^k leaves is complete after its last leaf, and N(0, noise_std^2 I) is
    added to the sum in every complete node; a leaf lies in `height` of them at most, so that an epoch is one Gaussian
    mechanism of sensitivity C sqrt(height) (its queries may depend on earlier answers), and all of them of
    C sqrt(epochs height). No amplification by the unknown batch is claimed.

    Parameters
    ----------
    noise_std : float > 0, of each coordinate of a node's noise
    lipschitz : float > 0, bound on one record's gradient; C when gradients are clipped
    steps : int >= 1, batches in an epoch, the leaves of the tree
    epochs : int >= 1

    Raises
    ------
    ValueError if a parameter is out of range.

    References: Kairouz et al. 2021 (DP-FTRL with tree restarts); Dwork et al. 2010.
    """

    noise_std: float
    lipschitz: float
    steps: int
    epochs: int = 1

    def __post_init__(self) -> None:
        _positive_fields(self, "noise_std", "lipschitz")
        object.__setattr__(self, "steps", natural("steps", self.steps))
        object.__setattr__(self, "epochs", natural("epochs", self.epochs))

    @property
    def height(self) -> int:
        """floor(log2 steps) + 1, the largest number of complete nodes that contain one leaf; the first attains it."""
        return self.steps.bit_length()

    @property
    def gaussian(self) -> Gaussian:
        """All epochs together as one `Gaussian` mechanism."""
        return Gaussian(noise_std=self.noise_std, sensitivity=self.lipschitz * sqrt(self.epochs * self.height))


def _positive_fields(mechanism: object, *names: str) -> None:
    """Check that the named fields of a frozen dataclass are finite and > 0, and store them as floats."""
    for name in names:
        object.__setattr__(mechanism, name, positive(name, getattr(mechanism, name)))
