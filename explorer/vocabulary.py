"""Every name that a person reads, once: labels, symbols, colours and dash patterns by key.

Colours are Okabe and Ito's, told apart by colour-blind eyes; dash patterns tell curves apart without colour. Keys are
what the library calls things; labels are what pages, tables and legends show.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How a curve is drawn.

    Attributes
    ----------
    color : str, "#rrggbb"
    dash : str, lengths of dashes and gaps in pixels, or "solid"
    """

    color: str
    dash: str = "solid"


@dataclass(frozen=True)
class Term:
    """A name and how its curve is drawn.

    Attributes
    ----------
    label : str, what pages and legends show
    style : Style
    title : str, the label where there is room for a longer one
    """

    label: str
    style: Style
    title: str = ""

    def __post_init__(self):
        object.__setattr__(self, "title", self.title or self.label)


_GREY, _ORANGE, _SKY, _GREEN = "#888888", "#E69F00", "#56B4E9", "#009E73"
_BLUE, _RED, _PURPLE = "#0072B2", "#D55E00", "#CC79A7"

SYMBOLS = {
    "noise_std": "σ",
    "l2_reg": "λ",
    "smoothness": "β",
    "lipschitz": "L",
    "epsilon": "ε",
    "delta": "δ",
    "alpha": "α",
    "gradient_tol": "τ",
    "output_noise_std": "σ_out",
    "clip_norm": "C",
    "sampling_rate": "q",
    "noise_multiplier": "σ",
}

BOUNDS = {
    "kifer": Term("Kifer et al. 2012", Style(_ORANGE, "2 4")),
    "renyi": Term("RDP", Style(_SKY, "12 5")),
    "hockey_stick": Term("Hockey-stick", Style(_RED)),
    "refined": Term("Refined", Style(_PURPLE, "8 3")),
    "exact": Term("Exact", Style(_BLUE)),
    "adaptive": Term("Exact, adaptive", Style(_GREY, "20 3")),
    "gaussian": Term("Gaussian lower bound", Style(_GREEN, "12 4 2 4")),
}
ACCOUNTANTS = ("kifer", "renyi", "hockey_stick", "refined", "exact")  # the bounds that account for Algorithm 1

METHODS = {
    "amp_rdp": Term("Algorithm 1, Rényi", Style(_SKY, "12 5"), "Algorithm 1, Rényi (the paper's)"),
    "amp_hockey_stick": Term("Algorithm 1, hockey-stick", Style(_RED)),
    "amp_exact": Term("Algorithm 1, exact", Style(_PURPLE, "8 3")),
    "amp_exact_noise": Term("Algorithm 1, exact, same λ", Style(_BLUE, "20 3"), "Algorithm 1, exact, the paper's λ"),
    "amp_exact_risk": Term(
        "Algorithm 1, exact, λ by risk", Style(_BLUE, "2 4"), "Algorithm 1, exact, λ from the risk bound"
    ),
    "dp_sgd_dishonest": Term(
        "DP-SGD, dishonest", Style(_ORANGE, "6 3 2 3 2 3"), "DP-SGD, dishonest (rate by test records)"
    ),
    "dp_sgd_honest_rdp": Term("DP-SGD, honest, Rényi", Style(_GREEN, "12 4 2 4")),
    "dp_sgd_honest_profile": Term("DP-SGD, honest, profile", Style(_GREEN, "4 4"), "DP-SGD, honest, privacy profile"),
    "output_perturbation": Term("Output perturbation", Style(_GREY, "3 3")),
    "non_private": Term("Not private", Style(_GREY, "16 4 4 4")),
}

DATASETS = {
    "breast_cancer": "Breast cancer",
    "two_clouds": "Two clouds",
    "digits": "Digits",
    "synthetic_l": "Synthetic-L",
    "synthetic_h": "Synthetic-H",
    "adult": "Adult",
    "gisette": "Gisette",
}

SOLVERS = {
    "gradient_descent": Term("Gradient descent", Style(_RED)),
    "accelerated": Term("Accelerated", Style(_ORANGE, "8 3")),
    "sag": Term("SAG", Style(_BLUE)),
    "svrg": Term("SVRG", Style(_SKY, "12 5")),
    "lbfgs": Term("L-BFGS", Style(_GREEN, "12 4 2 4")),
    "newton": Term("Newton", Style(_PURPLE)),
    "newton_cg": Term("Newton-CG", Style(_GREY, "3 3")),
    "subsampled_newton": Term("Subsampled Newton", Style(_PURPLE, "2 4")),
}

CURVES = {
    # privacy losses and Rényi divergences
    "normal": Term("Normal", Style(_GREEN, "12 4 2 4")),
    "half_normal": Term("Half-normal", Style(_ORANGE, "2 4")),
    "half_normal_mechanism": Term("Half-normal mechanism", Style(_BLUE, "8 3")),
    "objective_perturbation": Term("Objective perturbation", Style(_SKY, "12 5")),
    "exact_remove": Term("Exact, removing", Style(_RED)),
    "exact_add": Term("Exact, adding", Style(_GREY, "20 3")),
    "linearised": Term("Linearised", Style(_RED, "6 3 2 3 2 3")),
    "start_up_gap": Term("start-up gap", Style(_GREY)),
    "shift": Term("shift", Style(_BLUE, "8 3")),
    # one record
    "glm": Term("GLM", Style(_RED)),
    "not_glm": Term("Not a GLM", Style(_PURPLE, "8 3")),
    "density_without": Term("p(θ|Z)", Style(_SKY, "12 5")),
    "density_with": Term("p(θ|Z′)", Style(_RED)),
    "log_ratio": Term("log-ratio", Style(_BLUE)),
    "no_record": Term("No record", Style(_GREY, "3 3")),
    "linear_loss": Term("Linear loss", Style(_GREEN, "12 4 2 4")),
    "worst_case": Term("Worst case", Style(_RED)),
    # learners
    "algorithm_1": Term("Algorithm 1", Style(_RED, "12 5")),
    "dp_sgd": Term("DP-SGD", Style(_BLUE)),
    "dp_ftrl": Term("DP-FTRL", Style(_ORANGE, "6 3 2 3 2 3")),
    # a fit
    "median_draw": Term("median of the draws", Style(_BLUE)),
    "one_draw": Term("one draw", Style(_SKY)),
    "without_privacy": Term("without privacy", Style(_GREEN, "12 4 2 4")),
    "larger_class": Term("always the larger class", Style(_GREY, "3 3")),
    "without_b": Term("same λ, no b", Style(_ORANGE, "8 3")),
    "minus_b": Term("−b", Style(_RED)),
    "class_0": Term("class 0", Style(_SKY)),
    "class_1": Term("class 1", Style(_ORANGE)),
    "certificate_holds": Term("certificate holds", Style(_GREEN)),
    "certificate_void": Term("certificate void", Style(_RED)),
    "loss": Term("loss", Style(_SKY, "12 5")),
    "clipped_loss": Term("clipped loss", Style(_RED)),
    "gradient_norm": Term("gradient norm", Style(_SKY)),
    # laws of growth
    "n_log_n": Term("n log n", Style(_GREY, "12 5")),
    "n_squared": Term("n²", Style(_GREY, "6 3 2 3 2 3")),
}

_STYLES = {term.label: term.style for terms in (BOUNDS, METHODS, SOLVERS, CURVES) for term in terms.values()}


def style(label):
    """The Style of the curve that this label names.

    Raises
    ------
    ValueError for a label that no term above has.
    """
    if label not in _STYLES:
        raise ValueError(f"label must be one of this project's curves, or come with a Style of its own: got {label!r}")
    return _STYLES[label]


def labels(terms):
    """Labels by key of a dict of Term."""
    return {key: term.label for key, term in terms.items()}


def keys(terms):
    """Keys by label of a dict of Term."""
    return {term.label: key for key, term in terms.items()}
