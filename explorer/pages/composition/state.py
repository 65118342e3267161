"""The Composition page: what k runs of objective perturbation on the same data cost, by each analysis."""

from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import param

from explorer.accounting import (
    CompositionBound,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    PoissonSubsampledGaussian,
    RefinedBound,
    RenyiBound,
    TightBound,
    hockey_stick_plds,
    poisson_subsampled_plds,
    profile_plds,
    refined_plds,
)
from explorer.pages.state import ObjectivePerturbationState, refusal

RUNS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
LOWER_BOUND = "Gaussian lower bound"
COMPOSED = ("Hockey-stick", "Refined", "Tight")  # by privacy loss distributions, with an interval
SLOW = "Tight"  # about a second for each k, and more on small samples with little noise
ACCURACY = 0.02  # relative width of the interval of delta; epsilon's is some thousandths of that

PRESETS = {
    "σ = 8, λ = 10, up to 1000 runs": {
        "noise_std": 8.0,
        "l2_reg": 10.0,
        "smoothness": 1.0,
        "lipschitz": 1.0,
        "monotone_loss": False,
        "sampling_rate": 1.0,
        "uses": 1000,
        "delta": 1e-10,
    },
}


class Reading(NamedTuple):
    """Epsilon at delta and log10 delta at epsilon after k runs, each between two ends.

    For an analysis by privacy loss distributions, and for the lower bound, the exact value of its own composition lies
    in between; a guarantee is the high end and a lower bound the low one. Without an interval low is high.
    """

    epsilon_low: float
    epsilon: float
    log10_delta_low: float
    log10_delta: float


class CompositionState(ObjectivePerturbationState):
    """Parameters of one objective perturbation, how often it runs on the same data, and where that is read."""

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("composition",)

    noise_std = param.Number(
        8.0,
        bounds=(1, 200),
        doc="Standard deviation of each run's random linear term. Larger is more private and less accurate.",
    )
    l2_reg = param.Number(10.0, bounds=(0.1, 10_000))
    smoothness = param.Number(1.0, bounds=(0.01, 10))
    lipschitz = param.Number(1.0, bounds=(0.1, 2))
    sampling_rate = param.Number(
        1.0,
        bounds=(0.001, 1),
        label="q  sampling rate",
        doc="Chance of each record, on its own, to be in a run; 1 runs on all records. Smaller is more private. "
        "Batches from a shuffled pass are not such samples.",
    )
    uses = param.Integer(
        1000,
        bounds=(1, 1000),
        label="k  runs",
        doc="How often the mechanism runs on the same data; the readouts are for this many. Fewer is more private.",
    )
    delta = param.Number(
        1e-10,
        bounds=(1e-12, 0.5),
        label="δ  to read ε at",
        doc="The failure probability of all runs together at which ε is given. Smaller is a stronger promise.",
    )
    epsilon = param.Number(
        10.0,
        bounds=(0.01, 1000),
        label="ε  to read δ at",
        doc="The privacy parameter of all runs together at which δ is given. Smaller is a stronger promise.",
    )
    delta_upright = param.Boolean(
        False,
        label="δ upright",
        doc="Draw δ at the chosen ε; without it ε at the chosen δ is drawn.",
    )
    tight = param.Boolean(
        False,
        label="Tight proof too",
        doc="Also compose the tightest proof made here: seconds of computing for each number of runs. The mechanism "
        "is no more private for it, only better understood.",
    )

    def names(self):
        """Names of the analyses that are asked for, in the order of the legend."""
        return ["RDP", *(name for name in COMPOSED if name != SLOW or self.tight), LOWER_BOUND]

    def refusals(self):
        """Why an analysis does not apply to the current parameters, dict of str by name."""
        reason = refusal(HockeyStickBound, self.mechanism)
        refused = {"RDP": reason, "Hockey-stick": reason} if reason else {}
        if self.sampling_rate < 1:
            refused["RDP"] = "no Rényi divergence of a run on a sample is known here: sampling_rate < 1"
        return refused

    def runs(self):
        """The numbers of runs, tuple of int, increasing: RUNS and the chosen one."""
        return tuple(sorted({*RUNS, self.uses}))

    def reading(self, name, runs):
        """The named analysis after `runs` runs, a Reading, kept for the next time; of what is not refused."""
        return _reading(name, self.mechanism, self.sampling_rate, int(runs), self.delta, self.epsilon)

    def tables(self):
        """All readings, tidy: "runs" (k), "bound" and the columns of `Reading`, without what is refused."""
        names = [name for name in self.names() if name not in self.refusals()]
        rows = [(k, name, *self.reading(name, k)) for k in self.runs() for name in names]
        return {"composition": pd.DataFrame(rows, columns=["runs", "bound", *Reading._fields])}

    def script(self):
        """Python that computes epsilon's interval (low, high) by name for each of `runs`, and prints it for k."""
        refused, sampled = self.refusals(), self.sampling_rate < 1
        names = [name for name in self.names() if name in COMPOSED and name not in refused]
        losses = "".join(f"    {name!r}: {(_SAMPLED if sampled else _WHOLE)[name]},\n" for name in names)
        parts = [_SAMPLE] if sampled else []
        parts += [_COMPOSE] + ([] if "RDP" in refused else [_RENYI]) + [_SAMPLED_FLOOR if sampled else _FLOOR, _PRINT]
        values = {"mechanism": repr(self.mechanism), "rate": self.sampling_rate, "runs": list(self.runs())}
        values |= {"delta": self.delta, "losses": losses, "accuracy": ACCURACY, "uses": self.uses}
        return _HEAD.format(**values) + "".join(parts).format(**values)


@lru_cache(maxsize=10_000)
def _reading(name, mechanism, sampling_rate, runs, delta, epsilon):
    if name == "RDP":
        proof = RenyiBound(mechanism, uses=runs)
        return _exactly(proof, delta, epsilon)
    if name == LOWER_BOUND and sampling_rate == 1:
        whole = Gaussian(noise_std=mechanism.noise_std, sensitivity=mechanism.lipschitz * np.sqrt(runs))
        return _exactly(GaussianLowerBound(whole), delta, epsilon)
    losses = _losses(name, mechanism, sampling_rate)
    proof = CompositionBound(mechanism, uses=runs, plds=lambda _: losses, accuracy=ACCURACY)
    log10_delta = (float(end) / np.log(10) for end in proof.log_delta_interval(epsilon))
    return Reading(*map(float, proof.epsilon_interval(delta)), *log10_delta)


def _exactly(proof, delta, epsilon):
    at_delta, at_epsilon = float(proof.epsilon(delta)), float(proof.log_delta(epsilon)) / np.log(10)
    return Reading(at_delta, at_delta, at_epsilon, at_epsilon)


@lru_cache(maxsize=64)
def _losses(name, mechanism, sampling_rate):
    """The DirectedPLDs of one run, shared by all k, so that each profile's range is searched once.

    With a linear loss, objective perturbation on a sample is the Gaussian mechanism on a sample: the lower bound.
    """
    if name == LOWER_BOUND:
        noise = mechanism.noise_std / mechanism.lipschitz
        return refined_plds(PoissonSubsampledGaussian(noise_multiplier=noise, sampling_rate=sampling_rate, steps=1))
    if sampling_rate == 1:
        return WHOLE[name](mechanism)
    add, remove = PROFILES[name](mechanism)
    return poisson_subsampled_plds(add, remove, sampling_rate=sampling_rate)


def _both(mechanism):
    profile = HockeyStickBound(mechanism).log_delta  # of the paper's dominating pair at every real epsilon
    return profile, profile


def _directed(mechanism, *, bound):
    proof = bound(mechanism)
    return proof.log_delta_add, proof.log_delta_remove


# Of one run on all records, DirectedPLDs; on a sample, the profiles of add and remove.
WHOLE = {
    "Hockey-stick": hockey_stick_plds,
    "Refined": refined_plds,
    "Tight": partial(profile_plds, bound=TightBound),
}
PROFILES = {
    "Hockey-stick": _both,
    "Refined": partial(_directed, bound=RefinedBound),
    "Tight": partial(_directed, bound=TightBound),
}

_WHOLE = {
    "Hockey-stick": "hockey_stick_plds",
    "Refined": "refined_plds",
    "Tight": "partial(profile_plds, bound=TightBound)",
}
_SAMPLED = {
    "Hockey-stick": "lambda one: sampled(HockeyStickBound(one).log_delta, HockeyStickBound(one).log_delta)",
    "Refined": "lambda one: sampled(RefinedBound(one).log_delta_add, RefinedBound(one).log_delta_remove)",
    "Tight": "lambda one: sampled(TightBound(one).log_delta_add, TightBound(one).log_delta_remove)",
}
_HEAD = """\
from functools import partial

import numpy as np

from explorer.accounting import (
    CompositionBound,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
    RefinedBound,
    RenyiBound,
    TightBound,
    hockey_stick_plds,
    poisson_subsampled_plds,
    profile_plds,
    refined_plds,
)

mechanism = {mechanism}
runs = {runs}
delta = {delta!r}
curves = {{}}
"""
_SAMPLE = """
sampled = partial(poisson_subsampled_plds, sampling_rate={rate!r})
"""
_COMPOSE = """
losses = {{
{losses}}}
for name, loss in losses.items():
    proofs = [CompositionBound(mechanism, uses=k, plds=loss, accuracy={accuracy!r}) for k in runs]
    curves[name] = [proof.epsilon_interval(delta) for proof in proofs]
"""
_RENYI = """
curves["RDP"] = [2 * (RenyiBound(mechanism, uses=k).epsilon(delta),) for k in runs]
"""
_FLOOR = """
wholes = [Gaussian(noise_std=mechanism.noise_std, sensitivity=mechanism.lipschitz * np.sqrt(k)) for k in runs]
curves["Gaussian lower bound"] = [2 * (GaussianLowerBound(whole).epsilon(delta),) for whole in wholes]
"""
_SAMPLED_FLOOR = """
noise = mechanism.noise_std / mechanism.lipschitz
sgd = PoissonSubsampledGaussian(noise_multiplier=noise, sampling_rate={rate!r}, steps=1)
proofs = [CompositionBound(sgd, uses=k, accuracy={accuracy!r}) for k in runs]
curves["Gaussian lower bound"] = [proof.epsilon_interval(delta) for proof in proofs]
"""
_PRINT = """
for name, curve in curves.items():
    low, high = curve[runs.index({uses})]
    print(f"{{name}}: epsilon from {{low:.6f}} to {{high:.6f}} at delta = {{delta}} after {uses} runs")
"""
