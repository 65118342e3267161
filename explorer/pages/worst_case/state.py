"""The Worst case page: the loss that leaks most, the noise it moves, and how near the bounds are to what it leaks."""

from functools import lru_cache
from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer.accounting import (
    AttainedLowerBound,
    GaussianLowerBound,
    HockeyStickBound,
    RefinedBound,
    TightBound,
    attaining_loss,
    linear_loss,
)
from explorer.accounting.bounds.attaining_loss import DIRECTIONS
from explorer.accounting.protocol import smallest_epsilon
from explorer.pages.bounds.state import PRESETS
from explorer.pages.state import ObjectivePerturbationState, refusal

ADD, REMOVE = DIRECTIONS
HOCKEY_STICK, REFINED, TIGHT, ATTAINED, GAUSSIAN = NAMES = (
    "Hockey-stick",
    "Refined",
    "Tight",
    "Attained lower bound",
    "Gaussian lower bound",
)
LOWER = (ATTAINED, GAUSSIAN)
CLOSED = (HOCKEY_STICK, REFINED, GAUSSIAN)  # the others take milliseconds a number
NO_RECORD, LINEAR, WORST = LOSSES = ("No record", "Linear loss", "Worst case")
POINTS = 401  # even steps of the noise's axis
WIDTH = 4.0  # standard deviations of the noise on it, at least
TAIL = 7.0  # beyond the onset of a linear loss's leak, in widths of it: all but a percent


class WorstCaseState(ObjectivePerturbationState):
    """Parameters of one objective perturbation, a direction, and the epsilon at which a loss is to leak most."""

    # Figure 1 of the paper, and cases in which the worst loss has another shape.
    presets: ClassVar = {
        "Figure 1, left": {**PRESETS["Figure 1, left"], "direction": REMOVE, "epsilon": 0.5, "delta": 1e-5},
        "Figure 1, right": {**PRESETS["Figure 1, right"], "direction": REMOVE, "epsilon": 0.3, "delta": 1e-5},
        "Huber’s loss": {**PRESETS["Figure 1, right"], "direction": ADD, "epsilon": 0.3, "delta": 1e-5},
        "λ below β": {
            **{"noise_std": 5.0, "l2_reg": 0.5, "smoothness": 1.0, "lipschitz": 1.0, "monotone_loss": False},
            **{"direction": REMOVE, "epsilon": 1.0, "delta": 1e-5},
        },
        "Logistic-like": {
            **{"noise_std": 5.0, "l2_reg": 1.0, "smoothness": 0.25, "lipschitz": 1.0, "monotone_loss": True},
            **{"direction": REMOVE, "epsilon": 0.3, "delta": 1e-5},
        },
    }
    table_names: ClassVar = ("worst_case", "worst_case_noise", "worst_case_pieces", "worst_case_readouts")

    noise_std = param.Number(10.0)
    l2_reg = param.Number(5.0)
    direction = param.Selector(
        default=REMOVE,
        objects={"the record is removed": REMOVE, "the record is added": ADD},
        label="What is hidden",
        doc="That the record was there and is removed, or that it is added. A promise needs both; removing leaks more.",
    )
    epsilon = param.Number(
        0.3,
        bounds=(0.001, 100),
        label="ε  to leak most at",
        doc="The loss is chosen to break the promise of this ε most often. Smaller is a stronger promise.",
    )
    delta = param.Number(
        1e-5,
        bounds=(1e-12, 0.5),
        label="δ  to read ε at",
        doc="The failure probability at which the readouts give ε. Smaller is a stronger promise.",
    )

    def losses(self, names=LOSSES):
        """The OneRecordLoss of each of `names` by name, without NO_RECORD."""
        made = {LINEAR: lambda: linear_loss(self.mechanism, direction=self.direction), WORST: self.worst}
        return {name: made[name]() for name in names if name in made}

    def worst(self):
        """The OneRecordLoss that leaks most at epsilon."""
        return _attaining_loss(self.mechanism, self.epsilon, self.direction)

    def noise_end(self):
        """The largest |b| that is drawn: four standard deviations, or as far out as a linear loss leaks."""
        sigma, onset = self.noise_std, self._onset()
        return float(max(WIDTH * sigma, onset + TAIL * sigma**2 / (sigma + onset)))

    def noise(self, names=LOSSES):
        """The values of b that are drawn, ndarray: even steps, finer ones where a linear loss begins to leak, and both
        sides and the middle of each piece of the worst one, if it is among `names`."""
        end, sigma, onset = self.noise_end(), self.noise_std, self._onset()
        near = onset + np.geomspace(1e-3, TAIL, 40) * sigma**2 / (sigma + onset)
        parts = [np.linspace(-end, end, POINTS), near, -near, [onset, -onset]]
        if WORST in names:
            knots = np.array(self.worst().knots)
            parts += [knots, np.nextafter(knots, -np.inf), (knots[1:] + knots[:-1]) / 2]
        noise = np.unique(np.concatenate(parts))
        return noise[np.abs(noise) <= end]

    def curves(self, names=LOSSES):
        """What the plots draw of the losses in `names`.

        Returns
        -------
        dict of DataFrame, with a column for each name: "loss", over "theta" = -b / lambda; over "b", "map", how far the
        record moves the noise, T(b) - b; "privacy loss", log p/q of the theta that b makes without the record, in the
        chosen direction; and "excess", (p - e^epsilon q)_+ in 1/b, whose integral is delta at epsilon
        """
        b, losses = self.noise(names), self.losses(names)
        theta, none = -b[::-1] / self.l2_reg, {NO_RECORD: np.zeros(b.size)} if NO_RECORD in names else {}
        log_ratio = {name: getattr(loss, f"privacy_loss_{self.direction}")(b) for name, loss in losses.items()}
        return {
            "loss": pd.DataFrame(
                {"theta": theta, **none, **{name: loss.value(theta) for name, loss in losses.items()}}
            ),
            "map": pd.DataFrame({"b": b, **none, **{name: of.shift(b) for name, of in losses.items()}}),
            "privacy loss": pd.DataFrame({"b": b, **none, **log_ratio}),
            "excess": pd.DataFrame({"b": b, **{name: self._excess(of, b) for name, of in losses.items()}}),
        }

    def bends(self):
        """Whether each value of `noise` makes a theta at which the worst loss bends; boolean ndarray."""
        return self.worst().shift_slope(self.noise()) > 0

    def refusal(self):
        """Why the paper's bound does not apply, or ""."""
        return refusal(HockeyStickBound, self.mechanism)

    def pieces(self):
        """Where the worst loss is straight and where it bends, from left to right.

        Returns
        -------
        DataFrame, a row for each piece: "from" and "to" in theta, "slope from" and "slope to", and "curvature"
        """
        worst = self.worst()
        kinks, slopes = -np.array(worst.knots)[::-1] / self.l2_reg, -np.array(worst.shifts)[::-1]
        low, high = np.append(-np.inf, kinks), np.append(kinks, np.inf)
        before, after = np.append(slopes[0], slopes), np.append(slopes, slopes[-1])
        columns = {"from": low, "to": high, "slope from": before, "slope to": after}
        return pd.DataFrame({**columns, "curvature": (after - before) / (high - low)})

    def summary(self):
        """What the chosen direction costs by each bound.

        Returns
        -------
        DataFrame indexed by NAMES: "log10_delta" at epsilon, "log10_ratio" of that delta to the attained one, "epsilon"
        at delta, and "refusal", why a bound does not apply (then the numbers are nan) or ""
        """
        profiles, refused = self.profiles(), {HOCKEY_STICK: self.refusal()}
        known = {name: float(smallest_epsilon(profiles[name], self.delta)) for name in CLOSED if name in profiles}
        between = {"low": known[GAUSSIAN], "high": known[REFINED], "delta": self.delta}
        known[TIGHT] = _epsilon(profiles[TIGHT], **between)[1]
        known[ATTAINED] = _epsilon(profiles[ATTAINED], **between)[0]
        table = pd.DataFrame(
            {
                "log10_delta": {name: float(of(self.epsilon)) / np.log(10) for name, of in profiles.items()},
                "epsilon": known,
            },
            index=NAMES,
        )
        table.insert(1, "log10_ratio", table["log10_delta"] - table.loc[ATTAINED, "log10_delta"])
        return table.assign(refusal=[refused.get(name, "") for name in NAMES])

    def profiles(self):
        """log delta of the chosen direction by each bound that applies, callables by name."""
        mechanism = self.mechanism
        profiles = {} if self.refusal() else {HOCKEY_STICK: HockeyStickBound(mechanism).log_delta}
        for name, bound in {REFINED: RefinedBound, TIGHT: TightBound, ATTAINED: AttainedLowerBound}.items():
            profiles[name] = getattr(bound(mechanism), f"log_delta_{self.direction}")
        return {**profiles, GAUSSIAN: GaussianLowerBound(mechanism).log_delta}

    def tables(self):
        """The losses, the noise with all that happens to it, the pieces of the worst loss, and the readouts."""
        curves = self.curves()
        noise = curves["map"][["b"]].copy()
        for name, loss in self.losses().items():
            noise[f"T(b), {name}"] = noise["b"] + curves["map"][name]
            noise[f"log density with, {name}"] = loss.log_density_with(noise["b"])
            noise[f"privacy loss, {name}"] = curves["privacy loss"][name]
            noise[f"excess, {name}"] = curves["excess"][name]
        noise.insert(1, "log density without", self.worst().log_density_without(noise["b"]))
        readouts = self.summary().rename_axis("bound").reset_index()
        return dict(zip(self.table_names, (curves["loss"], noise, self.pieces(), readouts), strict=True))

    def script(self):
        """Python that computes `loss`, its `shift` and `excess` over `noise`, and prints each bound's delta."""
        end = self.noise_end()
        values = {"epsilon": self.epsilon, "direction": self.direction, "end": end, "points": POINTS}
        return _SCRIPT.format(mechanism=repr(self.mechanism), **values)

    def _onset(self):
        """The b >= 0 from which on a linear loss leaks beyond epsilon: h (b + h/2) = sigma^2 epsilon for "add", and for
        "remove", where the other density lies at b + h, h (b - h/2)."""
        half = self.lipschitz / 2 * (1 if self.direction == REMOVE else -1)
        return max(self.epsilon * self.noise_std**2 / self.lipschitz + half, 0.0)

    def _excess(self, loss, noise):
        p, q = loss.log_density_without(noise), loss.log_density_with(noise)
        p, q = (p, q) if self.direction == ADD else (q, p)
        return np.exp(p) * -np.expm1(np.minimum(self.epsilon + q - p, 0))


@lru_cache(maxsize=32)
def _attaining_loss(mechanism, epsilon, direction):
    """Each redraw asks for it several times."""
    return attaining_loss(mechanism, epsilon=epsilon, direction=direction)


def _epsilon(profile, *, low, high, delta):
    """Two epsilons, less than a thousandth of [low, high] apart, between which the profile falls to delta.

    The Gaussian's and the refined bound's epsilon enclose those of the profiles that take milliseconds each time.
    """
    for _ in range(2):
        epsilon = np.linspace(low, high, 33)
        first = int(np.argmax(profile(epsilon) <= np.log(delta)))
        low, high = epsilon[max(first - 1, 0)], epsilon[first]
    return float(low), float(high)


_SCRIPT = """\
import numpy as np

from explorer.accounting import (
    AttainedLowerBound,
    BoundNotApplicable,
    GaussianLowerBound,
    HockeyStickBound,
    ObjectivePerturbation,
    RefinedBound,
    TightBound,
    attaining_loss,
)

mechanism = {mechanism}
epsilon, direction = {epsilon!r}, {direction!r}
loss = attaining_loss(mechanism, epsilon=epsilon, direction=direction)
noise = np.linspace(-{end!r}, {end!r}, {points})
theta = -noise / mechanism.l2_reg
value, shift = loss.value(theta), loss.shift(noise)
log_p, log_q = loss.log_density_without(noise), loss.log_density_with(noise)
if direction == "remove":
    log_p, log_q = log_q, log_p
excess = np.exp(log_p) * -np.expm1(np.minimum(epsilon + log_q - log_p, 0))
print(f"the loss bends in {{len(loss.knots) // 2}} places")

log10_delta = {{"This loss": getattr(loss, f"log_delta_{{direction}}")(epsilon) / np.log(10)}}
for bound in (HockeyStickBound, RefinedBound, TightBound, AttainedLowerBound, GaussianLowerBound):
    try:
        proof = bound(mechanism)
    except BoundNotApplicable as reason:
        print(f"{{bound.__name__}}: {{reason}}")
        continue
    profile = getattr(proof, f"log_delta_{{direction}}", proof.log_delta)
    log10_delta[bound.__name__] = float(profile(epsilon)) / np.log(10)
for name, value_at_epsilon in log10_delta.items():
    print(f"{{name}}: log10 delta = {{value_at_epsilon:.6g}}")
"""
