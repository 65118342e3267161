"""The Calibrate page's parameters: a privacy budget, the chosen noise and bound, and the problem to be learned."""

from typing import ClassVar

import numpy as np
import param

from explorer.pages import parameters
from explorer.pages.calibrate.computation import (
    F_RANGE,
    LABELS,
    LEAST,
    PARTS,
    POINT,
    Settings,
    compute_part,
    find_noise_limit,
    frontier_curve,
    frontiers,
    nearest_point,
    readouts,
)
from explorer.pages.state import BOUND_KEYS, Code, PageState, call, imports, round_up

DIGITS = 4  # of an f that is read off the figure: its field shows them all; rounded up, the point stays feasible

# Section 5 of the paper: logistic loss on rows of norm 1 and a constant column.
_PAPER = {
    "delta": 1e-5,
    "f": 1.3,
    "accountant": "renyi",
    "lipschitz": float(np.sqrt(2)),
    "smoothness": 0.5,
    "monotone_loss": True,
    "gradient_tol": 0.01,
    "output_noise_std": 0.15,
}


class CalibrateState(PageState):
    """A privacy budget, a loss, the chosen noise and bound, and the problem whose excess risk is bounded.

    The frontiers are those of Algorithm 1 with its output step, so that a point of one is what the Fit page runs.
    """

    presets: ClassVar = {f"Paper, ε = {epsilon:g}": {"epsilon": epsilon, **_PAPER} for epsilon in (0.1, 1.0, 8.0)}
    table_names: ClassVar = ("calibrate", "calibrate_readouts")

    epsilon = parameters.epsilon()
    delta = parameters.delta(bounds=(1e-12, 0.1))
    f = param.Number(
        1.3,
        bounds=F_RANGE,
        label="f  noise σ = f σ_G",
        doc="Noise in units of σ_G, what the Gaussian mechanism needs; the paper uses 1.3. All points of a frontier "
        "are equally private: more noise needs less λ.",
    )
    accountant = param.Selector(
        default="exact",
        objects=BOUND_KEYS,
        label="Bound",
        doc="The bound on whose frontier the chosen point lies. All give the same guarantee; a tighter one needs less "
        "noise or λ for it.",
    )
    lipschitz = parameters.lipschitz(
        float(np.sqrt(2)),
        bounds=(0.01, 10),
        doc="Largest gradient one record can have, or the clipping norm. Larger needs more noise for the same privacy. "
        "Logistic loss on unit rows with a constant column has √2.",
    )
    smoothness = parameters.smoothness(
        0.5,
        doc="Largest curvature one record can add. Larger needs more λ for the same privacy. "
        "Logistic loss on unit rows with a constant column has 1/2.",
    )
    monotone_loss = param.Boolean(
        True,
        label="Monotone loss",
        doc="Whether the loss's derivative never changes sign, as for logistic loss. The refined and the exact "
        "bound then need less λ for the same privacy.",
    )
    gradient_tol = parameters.gradient_tol(
        bounds=(1e-16, 10),
        doc="Nothing is released until the solver brings the gradient norm below τ. Smaller takes more work and needs "
        "less λ for the same privacy.",
    )
    output_noise_std = param.Number(
        0.15,
        bounds=(0.001, 10),
        label="σ_out  output noise",
        doc="Noise added to the coefficients, because the minimum is only approximate. Larger needs less λ for the "
        "same privacy, but adds to the risk.",
    )
    n_records = param.Integer(
        455,
        bounds=(10, 10_000_000),
        label="n  records",
        doc="Number of training records. Privacy does not depend on it; it multiplies the risk that τ and σ_out add.",
    )
    dimension = param.Integer(
        31,
        bounds=(1, 100_000),
        label="d  coefficients",
        doc="Number of coefficients, the intercept included. Privacy does not depend on it; more raise the risk that "
        "noise adds.",
    )
    optimum_norm = param.Number(
        10.0,
        bounds=(0.01, 1000),
        label="R  norm of θ*",
        doc="Norm of the best coefficients without privacy: an assumption, or from public data. Computed from the "
        "private data it would not be private.",
    )

    @property
    def settings(self):
        """The parameters that numbers depend on, Settings."""
        return Settings(**self._settings())

    @property
    def gaussian(self):
        """sigma_G, the noise that the Gaussian mechanism needs for (epsilon, delta) and sensitivity L."""
        return self.settings.gaussian

    def names(self):
        """Labels of the bounds, in the order of the legend."""
        return list(BOUND_KEYS)

    @property
    def chosen(self):
        """The label of the bound whose frontier the chosen point is on."""
        return LABELS[self.accountant]

    def question(self, name, part):
        """Everything that a part of this bound's (a label's) numbers depends on, a Question."""
        return self.settings.question(BOUND_KEYS[name], part)

    def part(self, name, part):
        """A part of this bound's (a label's) numbers, as `compute_part` returns it."""
        return compute_part(*self.question(name, part))

    def parts(self, names=None):
        """All parts of these bounds, or of all, dict by Question."""
        questions = [self.question(name, part) for name in names or self.names() for part in PARTS]
        return {question: compute_part(*question) for question in questions}

    def curve(self, name, parts=None):
        """This bound's (a label's) `frontier_curve` of the parts that are known, dict by Question; None for all."""
        parts = self.parts([name]) if parts is None else parts
        return frontier_curve(self.settings, bound=BOUND_KEYS[name], parts=parts)

    def summary(self, parts=None):
        """The `readouts` of the bounds from the parts that are known, by Question; None for all."""
        return readouts(self.settings, bounds=[BOUND_KEYS[name] for name in self.names()], parts=parts)

    def pick(self, column, noise_std, value, curves):
        """Choose the bound and the noise of the point that is nearest, in the figure, to (noise_std, value).

        Parameters
        ----------
        column : "l2_reg" or "risk", what is on the y-axis of the figure
        noise_std, value : float, where the figure was clicked; nothing happens if one is not positive
        curves : dict of DataFrame by label, what `curve` gave for each bound that is drawn
        """
        if not (noise_std > 0 and value > 0):
            return
        place = {"column": column, "noise_std": noise_std, "value": value}
        nearest = {
            name: nearest_point(curve, **place, noise_limit=find_noise_limit(self.question(name, POINT).target))
            for name, curve in curves.items()
            if len(curve) > 1
        }
        name = min(nearest, key=nearest.get)
        _, noise = nearest[name]
        self.param.update(accountant=BOUND_KEYS[name], f=self._selectable(noise))

    def go_to_least(self):
        """Move f to where the chosen bound's risk is least, as far as the slider's range allows."""
        self.f = self._selectable(self.part(self.chosen, LEAST).noise_std)

    def fit_parameters(self):
        """The chosen point as parameters of the Fit page, dict by name; it then runs with this lambda.

        Raises ValueError where the chosen bound has no point at this noise.
        """
        question = self.question(self.chosen, POINT)
        point = readouts(self.settings, bounds=[self.accountant], parts={question: compute_part(*question)})
        if reason := point.loc[self.chosen, "refusal"]:
            raise ValueError(reason)
        names = ("epsilon", "delta", "accountant", "gradient_tol", "output_noise_std")
        values = {name: getattr(self, name) for name in names}
        return {**values, "clip_norm": self.lipschitz, "l2_reg": float(point.loc[self.chosen, "l2_reg"])}

    def tables(self):
        """The frontiers with their risk, tidy, and the readouts."""
        bounds = [BOUND_KEYS[name] for name in self.names()]
        curves = frontiers(self.settings, bounds=bounds)
        points = readouts(self.settings, bounds=bounds).rename_axis("bound").reset_index()
        return dict(zip(self.table_names, (curves, points), strict=True))

    def script(self):
        """Python that leaves the DataFrames `curves` and `points` of `frontiers` and `readouts`, and prints points."""
        arguments = {
            "settings": Code("settings"),
            "bounds": [BOUND_KEYS[name] for name in self.names()],
        }
        return "".join(
            (
                imports(Settings, frontiers, readouts),
                "\n",
                call(Settings, self._settings(), result="settings"),
                call(frontiers, arguments, result="curves"),
                call(readouts, arguments, result="points"),
                _PRINT,
            )
        )

    def _settings(self):
        names = Settings.__dataclass_fields__
        return {name: getattr(self, name) for name in names}

    def _selectable(self, noise_std):
        """The value of f that this noise has, rounded up and inside the slider's range."""
        return float(np.clip(round_up(noise_std / self.gaussian, digits=DIGITS), *F_RANGE))


_PRINT = """\
for name, point in points.iterrows():
    least = point.least_f * settings.gaussian
    chosen = point.refusal or f"lambda = {point.l2_reg:.6g} at sigma = {settings.noise_std:.6g}"
    print(f"{name}: {chosen}; sigma must exceed {least:.6g}")
    print(
        f"{name}: least risk {point.best_risk:.4g} "
        f"at sigma = {point.best_noise_std:.4g}, lambda = {point.best_l2_reg:.4g}"
    )
"""
