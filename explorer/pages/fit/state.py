"""The Fit page's parameters: Algorithm 1, the data that it learns from, and the result of the last run."""

from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer import datasets
from explorer.accounting import InfeasibleTarget
from explorer.pages import parameters
from explorer.pages.fit.computation import loss_curves, run_fit
from explorer.pages.state import BOUND_KEYS, Answer, Code, PageState, call, imports
from explorer.uploads import Table, read_csv
from explorer.vocabulary import DATASETS

ACCURACY, TWO_FEATURES, CERTIFICATE = SECTIONS = ("Accuracy", "Two features", "Loss and certificate")
REMEDY = 1.05  # times the least f or λ for which (ε, δ) can be met; at the least itself, λ or σ is infinite

_PRINT = """\
low, median, high = result.band
print(f"accuracy {median:.4f}, 5-95 % of the draws {low:.4f} to {high:.4f}")
print(f"without privacy {result.non_private_accuracy:.4f}, larger class {result.majority_accuracy:.4f}")
print(*filter(None, result.draws["refusal"]), result.plan, sep="\\n")
"""


class FitState(PageState):
    """Parameters of Algorithm 1 and of the data that it learns from, and the result of the last run with them."""

    table_names: ClassVar = ("fit_draws", "fit_trace", "fit_loss")

    epsilon = parameters.epsilon()
    delta = parameters.delta(bounds=(1e-12, 0.1))
    dataset = param.Selector(
        default="breast_cancer",
        objects={label: name for name, label in DATASETS.items()},
        label="Data",
        doc="The records to learn from. The guarantee is the same for all; with fewer records it costs more accuracy.",
    )
    two_features = param.Boolean(
        False,
        label="Only two features",
        doc="Learn from two features alone, so that records and decision lines can be drawn. Privacy stays the same.",
    )
    first_feature = param.Integer(
        1,
        bounds=(1, 5000),
        label="x₁  first feature",
        doc="Number of the feature on the x-axis. Privacy does not depend on it.",
    )
    second_feature = param.Integer(
        2,
        bounds=(1, 5000),
        label="x₂  second feature",
        doc="Number of the feature on the y-axis. Privacy does not depend on it.",
    )
    draws = param.Integer(
        20,
        bounds=(1, 200),
        label="K  draws of b",
        doc="How often Algorithm 1 is repeated with fresh noise. More show the spread better and take longer. (ε, δ) "
        "is the guarantee of one draw: releasing all K would cost more.",
    )
    accountant = param.Selector(
        default="exact",
        objects=BOUND_KEYS,
        label="Privacy bound",
        doc="The bound by which (ε, δ) is met. All are valid and equally private; a tighter one needs less noise. "
        "Least noise: Exact; most: Kifer et al.",
    )
    gradient_tol = parameters.gradient_tol(bounds=(1e-16, 10))
    output_noise_std = param.Number(
        0.15,
        bounds=(0.001, 10),
        label="σ_out  output noise",
        doc="Standard deviation of the noise added to the coefficients, which covers the distance between the "
        "approximate and the exact minimum. Larger is more private.",
    )
    f = param.Number(
        1.3,
        bounds=(1.001, 1000),
        softbounds=(1.01, 10),
        label="f  noise factor",
        doc="Standard deviation σ of b, as a multiple of the Gaussian mechanism's for the same (ε, δ). A larger f "
        "needs a smaller λ; the guarantee stays the same.",
    )
    l2_reg = parameters.l2_reg(
        0.0,
        bounds=(0, 1e9),
        softbounds=(0.1, 1e4),
        doc="Weight of the ridge penalty. 0 takes the smallest λ that f allows. Any other λ takes the smallest σ that "
        "meets (ε, δ) instead, and f is not used: a larger λ needs less noise, and shrinks the coefficients.",
    )
    clip_norm = param.Number(
        0.0,
        bounds=(0, 100),
        softbounds=(0.05, 2),
        label="C  clipping norm",
        doc="Largest gradient norm of a record; longer gradients are scaled down to it. 0 means no clipping: logistic "
        "loss has at most √2. A smaller C needs less noise for the same ε, and changes the objective.",
    )
    seed = parameters.seed(label="Seed of the noise")
    section = param.Selector(
        default=ACCURACY, objects=list(SECTIONS), label="Section", doc="Which plots are shown. No effect on privacy."
    )

    upload = param.ClassSelector(
        class_=Table, default=None, allow_None=True, precedence=-1, doc="Uploaded data, in place of `dataset`."
    )
    class_column = param.Parameter(None, precedence=-1, doc="Of the upload, str; None for its last.")

    result = Answer("arguments", "What `run_fit` gave with these parameters, a FitResult, or None.")

    @param.depends("dataset", watch=True)
    def remove_upload(self):
        """Learn from `dataset` again."""
        self.param.update(upload=None, class_column=None)

    @param.depends("upload", watch=True)
    def _free(self):
        """Hold no reference to the upload before, as the arguments of a result do until it is asked for."""
        self.result = None

    @classmethod
    def inputs(cls):
        """Names of the parameters that a result can depend on."""
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
        """A parameter and a value of it for which a target can be met that `run_fit` refused.

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
                if REMEDY * least <= self.param[name].bounds[1]:
                    return name, least, float(f"{REMEDY * least:.3g}")
        return None

    def tables(self):
        """Every draw of the result, and the gradient norms of the first; empty without a result. And the loss."""
        result = self.result
        draws = pd.DataFrame(columns=["accuracy", "gradient_norm", "gradient_evaluations", "refusal"])
        trace = pd.DataFrame(columns=["gradient_evaluations", "gradient_norm"])
        if result is not None:
            draws, trace = result.draws, result.trace
        loss = loss_curves(**self.loss_arguments())
        return dict(zip(self.table_names, (draws.rename_axis("draw").reset_index(), trace, loss), strict=True))

    def arguments(self):
        """Everything `run_fit` needs, picklable, fixed at this moment."""
        upload = self.upload
        return {
            "dataset": self.dataset if upload is None else None,
            "upload": upload,
            "class_column": self.class_column,
            "features": self.features(),
            "draws": self.draws,
            "seed": self.seed,
            "learner": self._learner(),
        }

    def loss_arguments(self):
        """Everything `loss_curves` needs."""
        return {"clip_norm": self.clip_norm or None}

    def _learner(self):
        names = ("epsilon", "delta", "accountant", "gradient_tol", "output_noise_std", "f")
        optional = {name: getattr(self, name) or None for name in ("l2_reg", "clip_norm")}
        return {**{name: getattr(self, name) for name in names}, **optional}

    def script(self):
        """Python that repeats the draws with the same noise, and leaves the FitResult `result` and `loss`."""
        arguments, header, used = self.arguments(), "", [loss_curves, run_fit]
        learner = "".join(f"        {name!r}: {value!r},\n" for name, value in self._learner().items())
        arguments["learner"] = Code(f"{{\n{learner}    }}")
        if self.upload is not None:
            arguments["upload"], header, used = Code("upload"), "from pathlib import Path\n\n", [*used, read_csv]
        parts = [header, imports(*used), "\n"]
        if self.upload is not None:
            name = self.upload.name
            parts += [
                "# The server has not kept the uploaded file: read it from where you have it.\n",
                f"upload = read_csv(Path({name!r}).read_bytes(), name={name!r})\n",
            ]
        parts += [call(run_fit, arguments, result="result"), _PRINT, "\n"]
        return "".join([*parts, call(loss_curves, self.loss_arguments(), result="loss")])
