"""Algorithm 1 many times over with fresh noise, beside a fit without privacy, and what its noise does in a plane."""

import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from explorer import datasets
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
from explorer.vocabulary import CURVES

ROW_NORM = float(np.sqrt(2))  # of a record of norm 1 with its constant column
SHARES = (0.05, 0.5, 0.95)  # of the draws that score less: the band's ends and the median
POINTS = 600  # records drawn in the plane
REPORT_SECONDS = 0.05  # between two reports of a running fit
LOSS, CLIPPED = CURVES["loss"].label, CURVES["clipped_loss"].label
WITHOUT_B, WITH_B = "without b", "with b"  # the objectives of `Plane.contours`
_LEVELS = np.array([1, 2, 3]) / 3
_CIRCLE = np.linspace(0, 2 * np.pi, 73)
_REACH = 3.0  # half the length of a line in the plane, which shows the unit circle


@dataclass(frozen=True)
class Plane:
    """A fit of two features. A theta is (theta_1, theta_2, intercept); its decision line is where x.theta = 0.

    Attributes
    ----------
    names : pair of str, of the features
    points : DataFrame of some training records: "x1", "x2" and "class", 0 or 1
    non_private : ndarray (3,), theta of logistic regression
    without_b : ndarray (3,), the minimiser of the private objective without its random linear term
    b : ndarray (3,) or None, the random linear term of the first draw
    contours : DataFrame of closed curves "theta_1", "theta_2" by "objective", WITHOUT_B or WITH_B (of the first draw,
        if released), and "level": where the quadratic approximation of the objective, minimised over the intercept,
        exceeds its minimum by `level`. The levels are (k/3)^2 b.H^-1.b / 2 for k = 1, 2, 3, with H the Hessian without
        b: for a quadratic objective, the minimiser with b lies on or inside the outermost contour without b
    """

    names: tuple[str, str]
    points: pd.DataFrame
    non_private: np.ndarray
    without_b: np.ndarray
    b: np.ndarray | None
    contours: pd.DataFrame


@dataclass(frozen=True)
class FitResult:
    """The draws of Algorithm 1 that are done, and their baselines; accuracies are on the test set, in 0..1.

    Attributes
    ----------
    data : str, name of the data
    unaccounted : str, what their preparation took from many records and no (epsilon, delta) covers, or ""
    plan : PrivacyStatement of one draw
    non_private_accuracy, majority_accuracy : float
    draws : DataFrame, a row for each draw done: "accuracy" (nan where nothing was released), "gradient_norm",
        "gradient_evaluations", "refusal" (text or ""); with two features also "theta_1", "theta_2", "intercept" (nan
        where nothing was released)
    trace : DataFrame of the first draw: "gradient_evaluations", "gradient_norm" at each iteration
    plane : Plane, or None unless there are two features and two classes
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


def run_fit(
    *,
    dataset=None,
    upload=None,
    class_column=None,
    features=None,
    draws,
    seed,
    learner,
    report=lambda result: None,
):
    """Run Algorithm 1 several times with fresh noise, beside a logistic regression without privacy.

    Parameters
    ----------
    dataset : str, name in `explorer.datasets.DATASETS` of data that are on this machine (nothing is downloaded), or
        None where there is an upload
    upload : Table, uploaded data in place of `dataset`, or None
    class_column : str or None, of the upload, as in `Table.dataset`
    features : pair of int, columns counted from 0, or None for all
    draws : int >= 1
    seed : int, of the noise of all draws
    learner : dict, the parameters of AMPClassifier
    report : callable, receives the FitResult so far, every REPORT_SECONDS at most

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError for a target that cannot be met, for data that are not on this machine or cannot be learned from.
    """
    data, names = _data(dataset, upload, class_column, features)
    plan = AMPClassifier(**learner).plan(data.X_train, data.y_train)
    result = _baselines(data, names, plan)
    report(result)
    rng, rows, reported = np.random.default_rng(seed), [], time.monotonic()

    def tell(trace=None):
        nonlocal result, reported
        if trace is not None:
            result = replace(result, trace=_trace(trace))
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            report(result)

    for number in range(draws):
        row, theta, b = _draw(data, learner, rng, follow=(lambda _: None) if number else tell)
        rows.append(row)
        plane = result.plane
        if plane is not None and not number:
            plane = replace(plane, b=b, contours=_contours(data, plan, plane.without_b, b, theta))
        result = replace(result, draws=pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1)), plane=plane)
        tell()
    return result


def decision_line(theta):
    """Two points of the line x1 theta_1 + x2 theta_2 + intercept = 0, outside the unit circle: ndarray (2, 2)."""
    normal, offset = np.asarray(theta[:2], float), float(theta[2])
    length = np.linalg.norm(normal)
    if length == 0:
        return np.full((2, 2), np.nan)
    along = np.array([-normal[1], normal[0]]) / length
    return -offset * normal / length**2 + np.outer([-_REACH, _REACH], along)


def steepest_slope(clip_norm):
    """Largest |f'| of the logistic loss f of a record of norm ROW_NORM whose gradient is clipped to `clip_norm`.

    It is min(clip_norm / ROW_NORM, 1); 1 for None, which clips nothing.
    """
    return 1.0 if clip_norm is None else min(clip_norm / ROW_NORM, 1.0)


def clipping_margin(clip_norm):
    """Margin below which the clipped loss of such a record is linear, or -inf where nothing is clipped."""
    slope = steepest_slope(clip_norm)
    return float(Logistic().inverse_derivative(-slope, 1.0)) if slope < 1 else -np.inf


def loss_curves(*, clip_norm=None):
    """The logistic loss of a record of class +1 and norm ROW_NORM over its margin x.theta, and that loss clipped.

    Parameters
    ----------
    clip_norm : float > 0, the gradient norm that clipping leaves; None to clip nothing

    Returns
    -------
    DataFrame: "margin", and the losses LOSS and CLIPPED
    """
    margin, clip_norm = np.linspace(-6, 6, 241), steepest_slope(clip_norm) * ROW_NORM
    clipped = ClippedLoss(Logistic(), clip_norm=clip_norm, row_norms=np.full(margin.shape, ROW_NORM))
    return pd.DataFrame({"margin": margin, LOSS: Logistic().value(margin, 1.0), CLIPPED: clipped.value(margin, 1.0)})


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


def _baselines(data, names, plan):
    """The FitResult before the first draw."""
    plain = LogisticRegression(max_iter=1000).fit(data.X_train, data.y_train)
    majority = Counter(data.y_train.tolist()).most_common(1)[0][0]
    plane = None
    if data.X_train.shape[1] == 2 and len(plain.classes_) == 2:
        rows = slice(POINTS)  # the split has shuffled them
        points = pd.DataFrame(data.X_train[rows], columns=["x1", "x2"]).assign(**{"class": data.y_train[rows]})
        without_b = minimise(_objective(data, plan, np.zeros(3)), gradient_tol=1e-6).x
        non_private = np.append(plain.coef_[0], plain.intercept_)
        plane = Plane(tuple(names), points, non_private, without_b, None, _contour_table({}))
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


def _objective(data, plan, b):
    """The objective that Algorithm 1 minimises on two features, with this b."""
    mechanism = plan.mechanism
    records = Records(data.X_train, np.where(data.y_train == 1, 1.0, -1.0), data_norm=1.0, constant=True)
    clip_norm = mechanism.lipschitz if mechanism.lipschitz < ROW_NORM else None
    return PerturbedObjective(records, loss=Logistic(), l2_reg=mechanism.l2_reg, linear_term=b, clip_norm=clip_norm)


def _contours(data, plan, without_b, b, theta):
    """Contours around the minimisers without b and with it; theta, the latter, is None where nothing was released."""
    objective = _objective(data, plan, b)
    inverse = np.linalg.inv(objective.hessian(without_b))  # the Hessian does not depend on b
    largest = b @ inverse @ b / 2
    minima = {WITHOUT_B: (without_b, inverse)}
    if theta is not None:
        minima[WITH_B] = theta, np.linalg.inv(objective.hessian(theta))
    levels = largest * _LEVELS**2
    return _contour_table({(name, x): _ellipse(*minimum, x) for name, minimum in minima.items() for x in levels})


def _ellipse(centre, inverse_hessian, level):
    """Points where (theta - centre).H.(theta - centre) / 2, minimised over the intercept, is level: ndarray (m, 2)."""
    root = np.linalg.cholesky(inverse_hessian[:2, :2])  # that block is the inverse of H's Schur complement
    circle = np.column_stack([np.cos(_CIRCLE), np.sin(_CIRCLE)])
    return centre[:2] + np.sqrt(2 * level) * circle @ root.T


def _contour_table(curves):
    columns = ["objective", "level", "theta_1", "theta_2"]
    rows = [(name, level, *point) for (name, level), curve in curves.items() for point in curve]
    return pd.DataFrame(rows, columns=columns)
