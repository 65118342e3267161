"""The Spectrum page's parameters: those of the three learners, what the figures show of their noise, and the fits."""

from typing import ClassVar

import param

from explorer.pages import parameters
from explorer.pages.spectrum.computation import compare_learners, covariance_table, noise_table, path_table
from explorer.pages.state import Answer, PageState, call, imports


class SpectrumState(PageState):
    """Parameters of the three learners, what the figures show of their noise, and the fits with these parameters."""

    presets: ClassVar = {
        "One pass in 64 samples": {"steps": 64, "sampled": True, "epsilon": 1.0, "delta": 1e-5},
        "All records 64 times": {"steps": 64, "sampled": False, "epsilon": 1.0, "delta": 1e-5},
        "Two steps": {"steps": 2, "sampled": False, "epsilon": 1.0, "delta": 1e-5},
    }
    table_names: ClassVar = ("spectrum_noise", "spectrum_covariance", "spectrum_paths", "spectrum_readouts")

    steps = param.Integer(
        64,
        bounds=(2, 128),
        label="T  steps",
        doc="Steps of DP-SGD and DP-FTRL. More steps need more noise for the same privacy. The solver steps of "
        "Algorithm 1 cost no privacy.",
    )
    epsilon = parameters.epsilon(bounds=(0.1, 20))
    delta = parameters.delta(bounds=(1e-10, 0.1))
    learning_rate = param.Number(
        1.5,
        bounds=(0.01, 8),
        label="η  learning rate",
        doc="Of DP-SGD and DP-FTRL, for the mean gradient. No effect on privacy; larger moves faster and amplifies the "
        "noise.",
    )
    l2_reg = parameters.l2_reg(
        2.0,
        bounds=(0.01, 1000),
        doc="Of Algorithm 1. Larger needs a little less noise for the same privacy; the fit shrinks towards zero.",
    )
    seed = parameters.seed(label="Seed of the noise")
    sampled = param.Boolean(
        True,
        label="Sampling in DP-SGD",
        doc="Each step of DP-SGD is on a random sample, each record with probability 1/T; otherwise on all records "
        "(DP-GD). A step on a sample is more private, and so needs less noise for the same guarantee.",
    )
    prefix_sums = param.Boolean(
        False,
        label="Prefix sums",
        doc="Show the noise in the sum of the steps so far instead of in each step. No effect on privacy.",
    )
    absolute = param.Boolean(
        False,
        label="Covariances",
        doc="Show covariances instead of correlations, and the noise in units of one record's largest gradient instead "
        "of its standard deviation. No effect on privacy.",
    )

    comparison = Answer("arguments", "What `compare_learners` gave with these parameters, a Comparison, or None.")

    def arguments(self):
        """Everything `compare_learners` needs, picklable; the other parameters only choose what is shown."""
        names = ("steps", "epsilon", "delta", "learning_rate", "l2_reg", "sampled", "seed")
        return {name: getattr(self, name) for name in names}

    def shown(self):
        """Which noise the figures show: the keywords of `NoisyFit.shown_matrix` and `NoisyFit.shown_noise`, dict."""
        return {"prefix_sums": self.prefix_sums, "absolute": self.absolute}

    def tables(self):
        """The noise against step, the covariances, the paths and the readouts; fits the learners where need be."""
        comparison = self.comparison or compare_learners(**self.arguments())
        tidy = (table(comparison.fits) for table in (noise_table, covariance_table, path_table))
        readouts = comparison.readouts.rename_axis("learner").reset_index()
        return dict(zip(self.table_names, (*tidy, readouts), strict=True))

    def script(self):
        """Python that leaves the Comparison `comparison`, and prints its readouts and privacy statements."""
        return "".join(
            (
                imports(compare_learners),
                "\n",
                call(compare_learners, self.arguments(), result="comparison"),
                _PRINT,
            )
        )


_PRINT = """\
for name, reason in comparison.refusals.items():
    print(f"{name}: {reason}")
for name, fit in comparison.fits.items():
    std = comparison.readouts.loc[name, "final_std"]
    print(f"{name}: noise of standard deviation {std:.6g} in the sum of all steps")
    print(fit.privacy)
"""
