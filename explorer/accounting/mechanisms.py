"""What is accounted for: mechanisms as frozen dataclasses that validate themselves and know no bound.

Neighbouring datasets differ by one added or removed record. Losses are sums over records, never means.
"""

from dataclasses import dataclass

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

    def __post_init__(self):
        _positive_fields(self, "noise_std", "sensitivity")

    @property
    def sensitivity_ratio(self):
        """s = sensitivity / noise_std, all that the privacy of the mechanism depends on."""
        return self.sensitivity / self.noise_std


@dataclass(frozen=True, kw_only=True)
class _PerturbedObjective:
    noise_std: float
    l2_reg: float
    lipschitz: float
    smoothness: float
    monotone_loss: bool = False

    def __post_init__(self):
        _positive_fields(self, "noise_std", "l2_reg", "lipschitz", "smoothness")
        if not isinstance(self.monotone_loss, bool):
            raise ValueError(f"monotone_loss must be True or False: got monotone_loss={self.monotone_loss!r}")

    @property
    def sensitivity_ratio(self):
        """s = L / sigma."""
        return self.lipschitz / self.noise_std

    @property
    def curvature_ratio(self):
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
    monotone_loss : bool, whether f' never changes sign (logistic, smoothed hinge); only some bounds profit

    Raises
    ------
    ValueError if a parameter is out of range. Any l2_reg > 0 is a valid mechanism; a bound whose theorem asks
    for more raises `BoundNotApplicable` at its own construction.

    References: Chaudhuri, Monteleoni, Sarwate 2011; Kifer, Smith, Thakurta 2012; Redberg, Koskela, Wang 2023.
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

    References: Iyengar et al. 2019; Redberg, Koskela, Wang 2023, Algorithm 1.
    """

    gradient_tol: float
    output_noise_std: float

    def __post_init__(self):
        super().__post_init__()
        _positive_fields(self, "gradient_tol", "output_noise_std")

    @property
    def objective(self):
        """The exact objective perturbation inside, as an `ObjectivePerturbation`."""
        return ObjectivePerturbation(
            noise_std=self.noise_std,
            l2_reg=self.l2_reg,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            monotone_loss=self.monotone_loss,
        )

    @property
    def output_step(self):
        """The output noise as a `Gaussian` mechanism of sensitivity 2 tau / lambda."""
        return Gaussian(noise_std=self.output_noise_std, sensitivity=2 * self.gradient_tol / self.l2_reg)


@dataclass(frozen=True, kw_only=True)
class PoissonSubsampledGaussian:
    """DP-SGD: `steps` Gaussian mechanisms, each on a Poisson sample of the records.

    Every record enters a sample independently with probability sampling_rate. Batches from a shuffled pass over the
    data are *not* Poisson samples: no number computed for this mechanism holds for them.

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

    def __post_init__(self):
        _positive_fields(self, "noise_multiplier")
        rate = real("sampling_rate", self.sampling_rate, rule="inside (0, 1]", valid=lambda x: (x > 0) & (x <= 1))
        object.__setattr__(self, "sampling_rate", rate)
        object.__setattr__(self, "steps", natural("steps", self.steps))


def _positive_fields(mechanism, *names):
    """Check the named fields of a frozen dataclass and keep them as plain floats."""
    for name in names:
        object.__setattr__(mechanism, name, positive(name, getattr(mechanism, name)))
