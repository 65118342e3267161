"""The parameters that several pages have, declared once with their bounds, labels and docs.

A page takes one as `l2_reg = parameters.l2_reg(1.0)`, and changes what its own subject needs by keywords of
param.Number, such as `bounds` or a `doc` that names its loss.
"""

import param


def epsilon(default=1.0, **changes):
    """Privacy parameter, nats."""
    return _number(
        default,
        changes,
        bounds=(0.01, 20),
        label="ε  privacy budget",
        doc="How much one record may change the odds of any outcome. Smaller is more private and less accurate.",
    )


def delta(default=1e-5, **changes):
    """Failure probability."""
    return _number(
        default,
        changes,
        bounds=(1e-12, 0.5),
        label="δ  failure probability",
        doc="How often the ε guarantee may fail. Smaller is more private.",
    )


def noise_std(default=5.0, **changes):
    """Standard deviation of the random linear term."""
    return _number(
        default,
        changes,
        bounds=(0.05, 1000),
        label="σ  noise",
        doc="Standard deviation of the random linear term. Larger is more private and less accurate.",
    )


def l2_reg(default=20.0, **changes):
    """Weight of the ridge penalty on the sum of losses."""
    return _number(
        default,
        changes,
        bounds=(0.01, 10_000),
        label="λ  regularisation",
        doc="Weight of the ridge penalty on the sum of losses. Larger is more private; the fit shrinks towards zero.",
    )


def smoothness(default=1.0, **changes):
    """Largest curvature of one record's loss."""
    return _number(
        default,
        changes,
        bounds=(0.01, 100),
        label="β  smoothness",
        doc="Largest curvature one record can add. Smaller is more private. Logistic loss on unit rows has 1/4.",
    )


def lipschitz(default=1.0, **changes):
    """Largest gradient norm of one record's loss."""
    return _number(
        default,
        changes,
        bounds=(0.01, 100),
        label="L  gradient norm",
        doc="Largest gradient one record can have. Smaller is more private. Logistic loss on unit rows has 1.",
    )


def gradient_tol(default=0.01, **changes):
    """Gradient norm at which a solver stops."""
    return _number(
        default,
        changes,
        bounds=(1e-12, 10),
        label="τ  gradient tolerance",
        doc="The solver must bring the gradient norm below this or nothing is released. Smaller costs more work and "
        "needs less output noise.",
    )


def seed(default=0, **changes):
    """Seed of everything random on a page."""
    declared = {
        "bounds": (0, 2**31 - 1),
        "label": "Seed",
        "doc": "Repeats a demonstration exactly. A seed that others know voids privacy: real releases use none.",
    }
    return param.Integer(default, **declared | changes)


def _number(default, changes, **declared):
    return param.Number(default, **declared | changes)
