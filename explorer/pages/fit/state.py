"""The Fit page: Algorithm 1, live, many times over, on demo data or on a visitor's own."""

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import param
from sklearn.linear_model import LogisticRegression

from explorer import datasets
from explorer.accounting import InfeasibleTarget
from explorer.learning import (
    AMPClassifier,
    ClippedLoss,
    Logistic,
    NoReleaseError,
    PerturbedObjective,
    PrivacyStatement,
    Records,
)
from explorer.learning.solvers import minimise
from explorer.pages.state import BOUND_KEYS, PageState
from explorer.uploads import Table
from explorer.vocabulary import DATASETS

ACCURACY, TWO_FEATURES, CERTIFICATE = SECTIONS = ("Accuracy", "Two features", "Loss and certificate")
ROW_NORM = float(np.sqrt(2))  # of a record of norm 1 with its constant column
SHARES = (0.05, 0.5, 0.95)  # of the draws that score less: the band's ends and the median
POINTS = 600  # records drawn in the plane
ROOM = 1.05  # times the least f or λ that can grant (ε, δ), where the other of σ and λ would have no bound
REPORT_SECONDS = 0.05  # between two reports of a running fit
_LEVELS = np.array([1, 2, 3]) / 3
_CIRCLE = np.linspace(0, 2 * np.pi, 73)
_REACH = 3.0  # half the length of a line in the plane, which shows the unit circle


@dataclass(frozen=True)
class Plane:
    """What a fit of two features shows. A theta is (theta_1, theta_2, intercept), and its line is where x.theta = 0.

    Attributes
    ----------
    names : pair of str, of the features
    points : DataFrame of some training records: "x1", "x2" and "class", 0 or 1
    non_private : ndarray (3,), theta of logistic regression
    untilted : ndarray (3,), the minimiser of the private objective without b
    tilt : ndarray (3,) or None, b of the first draw
    levels : DataFrame of closed curves "theta_1", "theta_2" by "objective", "without b" or "with b" (of the first
        draw, if released), and "level": where the quadratic approximation of the objective, minimised over the
        intercept, exceeds its minimum by equal parts of sqrt(level), up to what b takes from the objective without it
    """

    names: tuple[str, str]
    points: pd.DataFrame
    non_private: np.ndarray
    untilted: np.ndarray
    tilt: np.ndarray | None
    levels: pd.DataFrame


@dataclass(frozen=True)
class FitResult:
    """What running Algorithm 1 gave so far, and what it is compared with; accuracies are on the test set, in 0..1.

    Attributes
    ----------
    data : str, name of the data; unaccounted : str, what was taken from them without being paid for
    plan : PrivacyStatement of one draw
    non_private_accuracy, majority_accuracy : float
    draws : DataFrame, a row for each draw done: "accuracy" (nan where nothing was released), "gradient_norm",
        "gradient_evaluations", "refusal" (text or ""); with two features also "theta_1", "theta_2", "intercept" (nan
        where nothing was released)
    trace : DataFrame of the first draw: "gradient_evaluations", "gradient_norm" at each iteration
    plane : Plane, or None where there are not two features and two classes
    """

    data: str
    unaccounted: str
    plan: PrivacyStatement
    non_private_accuracy: float
    majority_accuracy: float
    draws: pd.DataFrame
    trace: pd.DataFrame
    plane: Plane | None

    @property
    def released(self):
        """Accuracies of the draws that were released, ndarray."""
        return self.draws["accuracy"].dropna().to_numpy(float)

    @property
    def band(self):
        """Accuracy below which 5 %, 50 % and 95 % of the released draws lie, ndarray (3,); nan where there is none."""
        return np.quantile(self.released, SHARES) if self.released.size else np.full(3, np.nan)


class FitState(PageState):
    """Parameters of Algorithm 1 and of the data that it learns from, and what the last run with them gave."""

    table_names: ClassVar = ("fit_draws", "fit_trace", "fit_loss")

    epsilon = param.Number(
        1.0,
        bounds=(0.01, 20),
        label="ε  privacy budget",
        doc="How much one record may change the odds of any outcome. Smaller is more private and less accurate.",
    )
    delta = param.Number(
        1e-5,
        bounds=(1e-12, 0.1),
        label="δ  failure probability",
        doc="How often the ε promise may fail. Smaller is more private.",
    )
    dataset = param.Selector(
        default="breast_cancer",
        objects={label: name for name, label in DATASETS.items()},
        label="Data",
        doc="What is learned from. Fewer records mean that privacy costs more accuracy.",
    )
    two_features = param.Boolean(
        False,
        label="Only two features",
        doc="Learn from two features alone, so that records and decision lines can be drawn. Privacy stays the same.",
    )
    first_feature = param.Integer(
        1, bounds=(1, 5000), label="x₁  first feature", doc="Number of the feature that lies to the right."
    )
    second_feature = param.Integer(
        2, bounds=(1, 5000), label="x₂  second feature", doc="Number of the feature that stands upright."
    )
    draws = param.Integer(
        20,
        bounds=(1, 200),
        label="K  draws of b",
        doc="How often the whole of Algorithm 1 is repeated with fresh noise. More show the spread better, and take "
        "longer. In earnest only one is drawn: releasing all K would cost K times.",
    )
    accountant = param.Selector(
        default="hockey_stick",
        objects=BOUND_KEYS,
        label="Proof",
        doc="Which proof has to grant (ε, δ). All are right; a tighter one asks for less noise. "
        "Least noise: Tight (which takes seconds to compute), most: Kifer et al.",
    )
    gradient_tol = param.Number(
        0.01,
        bounds=(1e-16, 10),
        label="τ  gradient tolerance",
        doc="The solver must bring the gradient below this or nothing is released. Smaller costs more work and less λ.",
    )
    output_noise_std = param.Number(
        0.15,
        bounds=(0.001, 10),
        label="σ_out  output noise",
        doc="Noise added to the coefficients, hiding that the minimum is approximate. Larger is more private.",
    )
    f = param.Number(
        1.3,
        bounds=(1.001, 1000),
        softbounds=(1.01, 10),
        label="f  noise factor",
        doc="Noise of the slope, as a multiple of the Gaussian mechanism's. More of it needs less λ for the same ε.",
    )
    l2_reg = param.Number(
        0.0,
        bounds=(0, 1e9),
        softbounds=(0.1, 1e4),
        label="λ  regularisation",
        doc="0 takes the smallest λ that f allows. When given, the noise is the least that grants (ε, δ), and f is not "
        "used: a larger λ needs less noise, but shrinks the coefficients.",
    )
    clip_norm = param.Number(
        0.0,
        bounds=(0, 100),
        softbounds=(0.05, 2),
        label="C  clipping threshold",
        doc="Longest gradient that a record may have; longer ones are shortened to it. 0 takes the loss's own bound, "
        "√2. A smaller C needs less noise for the same ε, and changes what is minimised.",
    )
    seed = param.Integer(
        0,
        bounds=(0, 2**31 - 1),
        label="Seed of the noise",
        doc="Repeats a demonstration exactly. A seed that others know voids privacy: real releases use none.",
    )
    section = param.Selector(default=ACCURACY, objects=list(SECTIONS), label="Section", doc="Which part is shown.")

    upload = param.ClassSelector(
        class_=Table, default=None, allow_None=True, precedence=-1, doc="A visitor's own data, in place of `dataset`."
    )
    class_column = param.Parameter(None, precedence=-1, doc="Of the upload, str; None for its last.")
    result = param.ClassSelector(
        class_=FitResult, default=None, allow_None=True, precedence=-1, doc="Of the last run, if any."
    )

    @param.depends("dataset", watch=True)
    def forget_upload(self):
        """Learn from `dataset` again; nothing of the upload is kept."""
        self.param.update(upload=None, class_column=None)

    @classmethod
    def inputs(cls):
        """Names of the parameters that a result depends on."""
        return [name for name in cls.shared() if name != "section"] + ["upload", "class_column"]

    def columns(self):
        """Names of the features that can be chosen, tuple of str."""
        if self.upload is not None:
            return self.upload.features(label=self.class_column)
        return datasets.column_names(self.dataset)

    def features(self):
        """The two columns chosen, counted from 0, or None for all."""
        if not self.two_features or len(self.columns()) <= 2:
            return None
        return self.first_feature - 1, self.second_feature - 1

    def refusal(self):
        """Why no fit can be run with the current parameters, or ""."""
        if self.upload is None and (reason := datasets.missing(self.dataset)):
            return f"{reason}."
        if (features := self.features()) is None:
            return ""
        width = len(self.columns())
        if features[0] == features[1] or max(features) >= width:
            return f"Choose two different features: these data have {width}."
        return ""

    def remedy(self, error):
        """The parameter that would have met a target which `run_fit` refused.

        Parameters
        ----------
        error : exception that it raised

        Returns
        -------
        (str, float, float) : the parameter's name, what it must exceed, and a value that does; or None
        """
        if isinstance(error, InfeasibleTarget):
            for name in ("f", "l2_reg"):
                least = error.needed.get(name, np.inf)
                if ROOM * least <= self.param[name].bounds[1]:
                    return name, least, float(f"{ROOM * least:.3g}")
        return None

    def tables(self):
        """Every draw and the first one's gradient norms of the last run, empty where there is none; the loss."""
        result = self.result
        draws = pd.DataFrame(columns=["accuracy", "gradient_norm", "gradient_evaluations", "refusal"])
        trace = pd.DataFrame(columns=["gradient_evaluations", "gradient_norm"])
        if result is not None:
            draws, trace = result.draws, result.trace
        return {"fit_draws": draws.rename_axis("draw").reset_index(), "fit_trace": trace, "fit_loss": self.loss()}

    @property
    def steepest(self):
        """Largest |f'| that clipping leaves the loss of a record of norm 1 with its constant, at most 1."""
        return min(self.clip_norm / ROW_NORM, 1.0) if self.clip_norm else 1.0

    def kink(self):
        """Margin at which the clipped loss turns into a line, or -inf where nothing is clipped."""
        return float(Logistic().inverse_derivative(-self.steepest, 1.0)) if self.steepest < 1 else -np.inf

    def loss(self):
        """The logistic loss of a record of class +1 with |x| = sqrt(2) over its margin x.theta, and that loss clipped.

        Returns
        -------
        DataFrame: "margin", "loss", "clipped loss"
        """
        margin = np.linspace(-6, 6, 241)
        clipped = ClippedLoss(Logistic(), clip_norm=self.steepest * ROW_NORM, row_norms=np.full(margin.shape, ROW_NORM))
        table = {"margin": margin, "loss": Logistic().value(margin, 1.0), "clipped loss": clipped.value(margin, 1.0)}
        return pd.DataFrame(table)

    def arguments(self):
        """Everything `run_fit` needs, picklable, fixed at this moment."""
        return {
            "dataset": self.dataset,
            "upload": self.upload,
            "class_column": self.class_column,
            "features": self.features(),
            "draws": self.draws,
            "seed": self.seed,
            "learner": self._learner(),
        }

    def _learner(self):
        names = ("epsilon", "delta", "accountant", "gradient_tol", "output_noise_std", "f")
        optional = {name: getattr(self, name) or None for name in ("l2_reg", "clip_norm")}
        return {**{name: getattr(self, name) for name in names}, **optional}

    def script(self):
        """Python that repeats the draws with the same noise, and leaves `accuracies` and the last `model`."""
        if self.upload is None:
            source = f"from explorer import datasets\n{_IMPORTS}\ndata = datasets.load({self.dataset!r})\n"
        else:
            label = self.class_column or self.upload.columns[-1]
            source = f"from pathlib import Path\n\n{_IMPORTS}from explorer.uploads import read_csv\n\n"
            source += "# This page has kept no copy of your file: read it from where you have it.\n"
            source += f"data = read_csv(Path({self.upload.name!r}).read_bytes()).dataset(label={label!r})\n"
        if self.features() is not None:
            source = source.replace("from explorer import datasets\n", "")
            source = f"from explorer import datasets\n{source}data = datasets.two_columns(data, {self.features()})\n"
        learner = "".join(f"        {name}={value!r},\n" for name, value in self._learner().items())
        return source + _SCRIPT.format(seed=self.seed, draws=self.draws, learner=learner)


_IMPORTS = """\
import numpy as np

from explorer.learning import AMPClassifier, NoReleaseError
"""

_SCRIPT = """\
rng = np.random.default_rng({seed})
accuracies = []
for _ in range({draws}):
    model = AMPClassifier(
{learner}        random_state=rng,
    )
    try:
        accuracies.append(model.fit(data.X_train, data.y_train).score(data.X_test, data.y_test))
    except NoReleaseError as refusal:
        accuracies.append(np.nan)
        print(refusal)
low, median, high = np.nanquantile(accuracies, [0.05, 0.5, 0.95])
print(f"accuracy {{median:.4f}}, 5-95 % of the draws {{low:.4f}} to {{high:.4f}}")
print(model.plan(data.X_train, data.y_train))
"""


def run_fit(*, dataset, upload, class_column, features, draws, seed, learner, report=lambda result: None):
    """Run Algorithm 1 several times with fresh noise, beside a logistic regression without privacy.

    Parameters
    ----------
    dataset : str, name in `explorer.datasets.DATASETS`, whose files must be there: nothing is fetched
    upload : Table in place of `dataset`, or None; class_column : str or None, as `Table.dataset` has it
    features : pair of int, columns counted from 0, or None for all
    draws : int >= 1
    seed : int, of the noise of all draws
    learner : dict, the parameters of AMPClassifier
    report : callable, receives the FitResult so far, now and then

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError for a target that cannot be met, for data that are not there or cannot be learned from.
    """
    data, names = _data(dataset, upload, class_column, features)
    plan = AMPClassifier(**learner).plan(data.X_train, data.y_train)
    result = _without_privacy(data, names, plan)
    report(result)
    rng, rows, told = np.random.default_rng(seed), [], time.monotonic()

    def tell(trace=None):
        nonlocal result, told
        if trace is not None:
            result = replace(result, trace=_trace(trace))
        if time.monotonic() - told > REPORT_SECONDS:
            told = time.monotonic()
            report(result)

    for number in range(draws):
        row, theta, tilt = _draw(data, learner, rng, follow=(lambda _: None) if number else tell)
        rows.append(row)
        plane = result.plane
        if plane is not None and not number:
            plane = replace(plane, tilt=tilt, levels=_levels(data, plan, plane.untilted, tilt, theta))
        result = replace(result, draws=pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1)), plane=plane)
        tell()
    return result


def _data(dataset, upload, class_column, features):
    """The data and the names of their features."""
    if upload is not None:
        data, names = upload.dataset(label=class_column), upload.features(label=class_column)
    else:
        if reason := datasets.missing(dataset):
            raise ValueError(reason)
        data, names = datasets.load(dataset), datasets.column_names(dataset)
    if features is None:
        return data, names
    n_classes = len(np.unique(data.y_train))
    if n_classes > 2:
        raise ValueError(f"two features are drawn for two classes: {data.name} has {n_classes}")
    return datasets.two_columns(data, features), tuple(names[j] for j in features)


def _without_privacy(data, names, plan):
    """The FitResult before the first draw."""
    plain = LogisticRegression(max_iter=1000).fit(data.X_train, data.y_train)
    majority = Counter(data.y_train.tolist()).most_common(1)[0][0]
    plane = None
    if data.X_train.shape[1] == 2 and len(plain.classes_) == 2:
        rows = slice(POINTS)  # the split has shuffled them
        points = pd.DataFrame(data.X_train[rows], columns=["x1", "x2"]).assign(**{"class": data.y_train[rows]})
        untilted = minimise(_objective(data, plan, np.zeros(3)), gradient_tol=1e-6).x
        non_private = np.append(plain.coef_[0], plain.intercept_)
        plane = Plane(tuple(names), points, non_private, untilted, None, _level_table({}))
    return FitResult(
        data=data.name,
        unaccounted=data.unaccounted,
        plan=plan,
        non_private_accuracy=float(plain.score(data.X_test, data.y_test)),
        majority_accuracy=float(np.mean(data.y_test == majority)),
        draws=pd.DataFrame({"accuracy": [], "gradient_norm": [], "gradient_evaluations": [], "refusal": []}),
        trace=_trace([]),
        plane=plane,
    )


def _draw(data, learner, rng, *, follow):
    """One draw: its row of FitResult.draws, theta before its output noise (None if not released), and b."""
    trace, watched = [], {}

    def callback(evaluations, norm):
        trace.append((evaluations, norm))
        follow(trace)

    def watch(theta, b):
        watched.update(theta=theta, b=b)

    model = AMPClassifier(**learner, random_state=rng, callback=callback, watch=watch)
    row = {"accuracy": np.nan, "gradient_norm": np.nan, "gradient_evaluations": 0, "refusal": ""}
    try:
        model.fit(data.X_train, data.y_train)
        row.update(accuracy=model.score(data.X_test, data.y_test), gradient_norm=model.privacy_.gradient_norm)
        row["gradient_evaluations"] = model.n_gradient_evaluations_
    except NoReleaseError as error:
        row.update(refusal=str(error), gradient_evaluations=trace[-1][0], gradient_norm=trace[-1][1])
    released = not row["refusal"]
    if data.X_train.shape[1] == 2 and len(watched["b"]) == 3:
        theta = (*model.coef_[0], model.intercept_[0]) if released else (np.nan,) * 3
        row.update(zip(("theta_1", "theta_2", "intercept"), map(float, theta), strict=True))
    return row, watched["theta"] if released else None, watched["b"]


def _trace(trace):
    return pd.DataFrame(trace, columns=["gradient_evaluations", "gradient_norm"])


def _objective(data, plan, tilt):
    """What Algorithm 1 minimises on two features, with b = tilt."""
    mechanism = plan.mechanism
    records = Records(data.X_train, np.where(data.y_train == 1, 1.0, -1.0), data_norm=1.0, constant=True)
    clip_norm = mechanism.lipschitz if mechanism.lipschitz < ROW_NORM else None
    return PerturbedObjective(records, loss=Logistic(), l2_reg=mechanism.l2_reg, linear_term=tilt, clip_norm=clip_norm)


def _levels(data, plan, untilted, tilt, theta):
    """Level curves around the minimisers without b and, if theta is one, with it."""
    objective = _objective(data, plan, tilt)
    inverse = np.linalg.inv(objective.hessian(untilted))  # the Hessian does not depend on b
    taken = tilt @ inverse @ tilt / 2
    curves = {"without b": (untilted, inverse)}
    if theta is not None:
        curves["with b"] = theta, np.linalg.inv(objective.hessian(theta))
    return _level_table(
        {
            (name, taken * part**2): _ellipse(*curve, taken * part**2)
            for name, curve in curves.items()
            for part in _LEVELS
        }
    )


def _ellipse(centre, inverse_hessian, level):
    """Where (theta - centre).H.(theta - centre) / 2, minimised over the intercept, equals level, ndarray (m, 2)."""
    root = np.linalg.cholesky(inverse_hessian[:2, :2])  # that block is the inverse of H's Schur complement
    circle = np.column_stack([np.cos(_CIRCLE), np.sin(_CIRCLE)])
    return centre[:2] + np.sqrt(2 * level) * circle @ root.T


def _level_table(curves):
    columns = ["objective", "level", "theta_1", "theta_2"]
    rows = [(name, level, *point) for (name, level), curve in curves.items() for point in curve]
    return pd.DataFrame(rows, columns=columns)


def line(theta):
    """Two points of the line x1 theta_1 + x2 theta_2 + intercept = 0, outside the unit circle: ndarray (2, 2)."""
    normal, offset = np.asarray(theta[:2], float), float(theta[2])
    length = np.linalg.norm(normal)
    if length == 0:
        return np.full((2, 2), np.nan)
    along = np.array([-normal[1], normal[0]]) / length
    return -offset * normal / length**2 + np.outer([-_REACH, _REACH], along)
