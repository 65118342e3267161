"""The privacy statement of a fit, its standard assumptions, and the error and the warning that go with it."""

from dataclasses import dataclass
from typing import Any

NEIGHBOURS = "neighbouring datasets differ by one added or removed record"
RANDOMNESS = (
    "the random numbers are secret: with a known random_state there is no privacy",
    "the noise is computed from uniform random bits: those of the operating system's generator for random_state=None",
    "only coef_ and intercept_ are released; n_gradient_evaluations_, a verified gradient norm and the arguments of "
    "callback and watch depend on the data and stay with the data curator",
)


ARITHMETIC = (
    "doubles follow IEEE 754, slopes are within the loss's stated errors, and the records do not change during the fit",
    "neither the running time nor the memory of the fit is observed",
)


class NoReleaseError(RuntimeError):
    """The gradient norm that the guarantee requires was not reached in floating point: nothing is released.

    The noise is not redrawn, since retrying until a solver succeeds would void the guarantee. Whether a solver
    succeeds depends on the data, so a refusal that others can observe is itself outside the guarantee.
    """


class PrivacyWarning(UserWarning):
    """Something was computed from the data that the stated (epsilon, delta) does not cover; the message says what."""


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """The complete guarantee of one fit; `print` shows it.

    Attributes
    ----------
    epsilon, delta : float, nats and probability; for adding or removing one record, for the whole fit
    bound : str, name of the accounting
    mechanism : the mechanism accounted for, with every parameter
    uses : int, how often it ran on the same records (once for each class of a multi-class fit); epsilon and delta are
        those of the composition of all uses
    gradient_norm : float or None, the largest of the uses' proven bounds on |gradient|, rounding errors included, at
        most mechanism.gradient_tol; None where the guarantee does not require an approximate minimum
    n_max : int or None, the number of records up to which no fit refuses to release, whatever the records are, except
        with a probability that delta includes (1e-40 where delta is 0); more records may be refused. None where nothing
        is refused
    assumptions : tuple of str, the assumptions of the guarantee
    leaked : tuple of str, what was computed from the data at the user's request and is not covered
    """

    epsilon: float
    delta: float
    bound: str
    mechanism: Any  # of accounting, without a common base class
    uses: int = 1
    gradient_norm: float | None = None
    n_max: int | None = None
    assumptions: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()

    def __str__(self) -> str:
        together = f", {self.uses} uses together" if self.uses > 1 else ""
        lines = [f"({self.epsilon:g}, {self.delta:.3g})-differentially private by {self.bound}{together}"]
        lines.append(f"  mechanism: {self.mechanism}")
        if self.gradient_norm is not None:
            lines.append(f"  certificate: gradient norm at most {self.gradient_norm:.3g}, proved before the release")
        if self.n_max is not None:
            lines.append(f"  no refusal for any records up to n_max = {self.n_max:.3g} of them")
        lines += [f"  assumed: {text}" for text in self.assumptions]
        lines += [f"  NOT covered: {text}" for text in self.leaked]
        return "\n".join(lines)
