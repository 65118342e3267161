"""What a private fit says about itself, and what it does when it may not release."""

from dataclasses import dataclass


class NoReleaseError(RuntimeError):
    """The solver did not reach the gradient norm that the guarantee rests on: nothing is released.

    The noise is not redrawn, since retrying until a solver succeeds would void the guarantee. Whether a solver gets
    there depends on the data, so a refusal that others can see is itself outside the guarantee.
    """


@dataclass(frozen=True)
class PrivacyStatement:
    """The guarantee of one fit, in full.

    Attributes
    ----------
    epsilon, delta : float, nats and probability; granted for adding or removing one record
    bound : str, name of the accounting
    mechanism : the mechanism accounted for, with every parameter
    gradient_norm : float, the verified |gradient| <= mechanism.gradient_tol
    assumptions : tuple of str, what the guarantee takes for granted
    """

    epsilon: float
    delta: float
    bound: str
    mechanism: object
    gradient_norm: float
    assumptions: tuple[str, ...]
