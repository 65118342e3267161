"""The Fit page: Algorithm 1, live, on demo data."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import param
from sklearn.linear_model import LogisticRegression

from explorer import datasets
from explorer.learning import AMPClassifier, NoReleaseError, PrivacyStatement
from explorer.state.page import PageState


@dataclass(frozen=True)
class FitResult:
    """What one run of Algorithm 1 released and what it is compared with; accuracies are on the test set, in 0..1.

    `accuracy` and `privacy` are None where nothing was released, and `refusal` says why.
    """

    accuracy: float | None
    non_private_accuracy: float
    majority_accuracy: float
    privacy: PrivacyStatement | None
    refusal: str
    trace: pd.DataFrame


class FitState(PageState):
    """Parameters of Algorithm 1 on the breast-cancer data, and what the last run with them gave."""

    table_names: ClassVar = ("fit_trace",)

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
    seed = param.Integer(
        0,
        bounds=(0, 2**31 - 1),
        label="Seed of the noise",
        doc="Repeats a demonstration exactly. A seed that others know voids privacy: real releases use none.",
    )

    result = param.ClassSelector(
        class_=FitResult, default=None, allow_None=True, precedence=-1, doc="Of the last run, if any."
    )

    def tables(self):
        """The gradient norm at each evaluation of the last run; empty where there is none."""
        empty = pd.DataFrame(columns=["gradient_evaluations", "gradient_norm"])
        return {"fit_trace": empty if self.result is None else self.result.trace}

    def script(self):
        """Python that fits the same model with the same noise, and leaves `model` and `accuracy`."""
        return _SCRIPT.format(**self.arguments())

    def arguments(self):
        """Everything `run_fit` needs, picklable, fixed at this moment."""
        return {name: getattr(self, name) for name in ("epsilon", "delta", "gradient_tol", "output_noise_std", "seed")}


_SCRIPT = """\
from explorer import datasets
from explorer.learning import AMPClassifier

data = datasets.breast_cancer()
model = AMPClassifier(
    {epsilon!r},
    delta={delta!r},
    gradient_tol={gradient_tol!r},
    output_noise_std={output_noise_std!r},
    random_state={seed!r},
)
model.fit(data.X_train, data.y_train)  # NoReleaseError if the gradient norm is not reached
accuracy = model.score(data.X_test, data.y_test)
print(f"accuracy {{accuracy:.4f}}")
print(model.privacy_)
"""


def run_fit(*, epsilon, delta, gradient_tol, output_noise_std, seed, report=lambda message: None):
    """Fit Algorithm 1 and a non-private logistic regression to the breast-cancer training set.

    Parameters
    ----------
    epsilon, delta, gradient_tol, output_noise_std : as in AMPClassifier
    seed : int, of the noise
    report : callable, receives (n_gradient_evaluations, gradient_norm) after each solver iteration

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError for a target that cannot be met.
    """
    data = datasets.breast_cancer()
    trace = []

    def follow(evaluations, norm):
        trace.append((evaluations, norm))
        report(trace[-1])

    model = AMPClassifier(
        epsilon,
        delta=delta,
        gradient_tol=gradient_tol,
        output_noise_std=output_noise_std,
        random_state=seed,
        callback=follow,
    )
    accuracy, privacy, refusal = None, None, ""
    try:
        model.fit(data.X_train, data.y_train)
        accuracy, privacy = float(model.score(data.X_test, data.y_test)), model.privacy_
    except NoReleaseError as error:
        refusal = str(error)
    plain = LogisticRegression(max_iter=1000).fit(data.X_train, data.y_train)
    return FitResult(
        accuracy=accuracy,
        non_private_accuracy=float(plain.score(data.X_test, data.y_test)),
        majority_accuracy=float(np.mean(data.y_test == (np.mean(data.y_train) > 0.5))),
        privacy=privacy,
        refusal=refusal,
        trace=pd.DataFrame(trace, columns=["gradient_evaluations", "gradient_norm"]),
    )
