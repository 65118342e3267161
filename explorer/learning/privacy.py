"""What a private fit says about itself, and what it does when it may not release."""

from dataclasses import dataclass


class NoReleaseError(RuntimeError):
    """The gradient norm that the guarantee rests on cannot be reached in floating point: nothing is released.

    The noise is not redrawn, since retrying until a solver succeeds would void the guarantee. Whether a solver gets
    there depends on the data, so a refusal that others can see is itself outside the guarantee.
    """


class PrivacyWarning(UserWarning):
    """Something was taken from the data that the stated (epsilon, delta) does not pay for; the message says what."""


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """The guarantee of one fit, in full. `print` it.

    Attributes
    ----------
    epsilon, delta : float, nats and probability; granted for adding or removing one record, for the whole fit
    bound : str, name of the accounting
    mechanism : the mechanism accounted for, with every parameter
    uses : int, how often it ran on the same records (once for each class of a multi-class fit); epsilon and delta are
        those of all uses together
    gradient_norm : float or None, the largest verified |gradient| of the uses, at most mechanism.gradient_tol; None
        where the guarantee does not rest on a minimum
    assumptions : tuple of str, what the guarantee takes for granted
    leaked : tuple of str, what was taken from the data at the user's wish and is not covered
    """

    epsilon: float
    delta: float
    bound: str
    mechanism: object
    uses: int = 1
    gradient_norm: float | None = None
    assumptions: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()

    def __str__(self):
        together = f", {self.uses} uses together" if self.uses > 1 else ""
        lines = [f"({self.epsilon:g}, {self.delta:.3g})-differentially private by {self.bound}{together}"]
        lines.append(f"  mechanism: {self.mechanism}")
        if self.gradient_norm is not None:
            lines.append(f"  certificate: gradient norm {self.gradient_norm:.3g}, verified at what was released")
        lines += [f"  assumed: {text}" for text in self.assumptions]
        lines += [f"  NOT covered: {text}" for text in self.leaked]
        return "\n".join(lines)
