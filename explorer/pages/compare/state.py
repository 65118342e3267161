"""The Compare page's parameters, the study's table, live results, and the texts about them."""

from typing import ClassVar

import pandas as pd
import param

from explorer import vocabulary
from explorer.datasets import BUILT_IN
from explorer.pages.compare.computation import (
    LABELS,
    MARGIN,
    QUESTIONS,
    RANGE,
    Results,
    against_the_paper,
    best_honest,
    differences,
    mean_accuracies,
    planned_cells,
    run_live,
    shipped_results,
)
from explorer.pages.state import Code, PageState, call, imports
from explorer.study import EPSILONS, METHODS, per_trial

ABOUT = {
    "synthetic_l": "10 000 generated records of 40 features, the paper's low-dimensional data.",
    "synthetic_h": "2000 generated records of 2000 features, 10 of them informative: the paper's high-dimensional "
    "data.",
    "adult": "45 222 people of the US census of 1994: who earned more than 50 000 dollars? Continuous columns are "
    "divided by their maximum over the data, which no ε covers.",
    "gisette": "7000 images of handwritten digits 4 and 9, with 5000 features.",
    "breast_cancer": "569 tumours, benign or malignant. Columns are standardised by their mean and standard deviation "
    "over the data, which no ε covers. Not in the paper.",
}
DATASETS = {vocabulary.DATASETS[name]: name for name in ABOUT}
_BY_LABEL = vocabulary.keys(vocabulary.METHODS)

_NOT_AT_FIRST = ("amp_hockey_stick", "amp_exact", "output_perturbation")
PRESETS = {
    "The paper's": {"methods": ["amp_rdp", "dp_sgd_dishonest", "dp_sgd_honest_rdp", "non_private"]},
    "Exact accounting": {"methods": [name for name in METHODS if name.startswith("amp")]},
    "Honest tuning": {"methods": ["amp_rdp", "amp_exact_noise", "dp_sgd_honest_rdp", "dp_sgd_honest_profile"]},
    "All": {"methods": list(METHODS)},
}

APART = 1.0  # percentage points from the paper's value beyond which the page mentions a mean
CAUSES = {
    ("synthetic_l", "dp_sgd_dishonest"): "the cause is unknown",
    ("synthetic_l", "dp_sgd_honest_rdp"): "part of it is the effect of a noise √2 times as large, as if the clipping "
    "norm √2 of rows with a constant column had been counted twice",
    ("synthetic_l", "amp_rdp"): "about the margin of a difference of two such means, 1.96 standard errors",
}

_PRINT_MEANS = """\
for source, table in means.groupby("source"):
    print(f"{source}: mean test accuracy by epsilon")
    print(table.pivot(index="method", columns="epsilon", values="accuracy").round(4).to_string(na_rep=""))
"""
_PRINT_DIFFERENCES = """\
for title, gap in gaps.items():
    print(f"{title}: {gap.mean:+.5f} +- {gap.standard_error:.5f}")
"""


class CompareState(PageState):
    """What is compared, the ε of the readouts, what a live run would run, and the results.

    Results are data: each row has the dataset, method, ε and trial of its cell, by which tables select it.

    Parameters
    ----------
    stored : Results to show beside the paper's; by default those of the package. For a study of your own use
        CompareState(stored=Results(load_results("study.csv")))
    """

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("compare", "compare_readouts", "compare_trials")

    stored = param.ClassSelector(
        class_=Results, default=None, allow_None=True, constant=True, doc="The study's table, or None without one."
    )
    live = param.ClassSelector(
        class_=Results, default=None, allow_None=True, precedence=-1, doc="All cells of live runs, on any dataset."
    )

    dataset = param.Selector(
        objects=DATASETS,
        default="synthetic_l",
        label="Dataset",
        doc="The records to learn from. The guarantee is the same for all; on harder data it costs more accuracy.",
    )
    methods = param.ListSelector(
        objects=_BY_LABEL,
        default=[name for name in METHODS if name not in _NOT_AT_FIRST],
        label="Methods",
        doc="The curves. At equal ε all are equally private, except dishonest DP-SGD, whose real ε is larger than "
        "stated. After the comma: the privacy accounting. “Same λ”: the paper's λ, less noise. “λ by risk”: λ from "
        "the bound on the excess risk.",
    )
    band = param.Selector(
        objects=[MARGIN, RANGE],
        default=MARGIN,
        label="Band",
        doc="The shaded region around the mean of the trials. No effect on privacy.",
    )
    epsilon = param.Selector(
        objects=list(EPSILONS),
        default=0.5,
        label="ε  of the readouts",
        doc="The privacy budget at which the readouts compare methods. Smaller is more private and less accurate.",
    )

    live_methods = param.ListSelector(
        objects=_BY_LABEL,
        default=["amp_rdp", "dp_sgd_honest_rdp"],
        label="Methods to run",
        doc="The methods of a live run. DP-SGD takes seconds a trial, Algorithm 1 far less. At equal ε both "
        "are equally private.",
    )
    all_epsilons = param.Boolean(
        False,
        label="At all nine ε",
        doc="Run at every ε of the axis, not only at that of the readouts. Nine times the work; each fit is as private "
        "as its own ε.",
    )
    trials = param.Integer(
        3,
        bounds=(1, 20),
        label="n  trials",
        doc="Fits of each method at each ε, each with its own noise. More trials reduce the standard error; ε is the "
        "guarantee of one trial.",
    )
    first_trial = param.Integer(
        0,
        bounds=(0, 1000),
        label="t₀  first trial",
        doc="Number of the first trial, which determines split and noise. From 0 a run repeats the stored trials; "
        "from 10 its trials are new. No effect on privacy.",
    )

    def __init__(self, **params):
        super().__init__(**{"stored": shipped_results(), **params})

    def source(self):
        """Which results the readouts show: "stored", "live" if the stored table lacks the dataset, or "" for none."""
        candidates = {"stored": self.stored, "live": self.live}
        return next((name for name, part in candidates.items() if part is not None and part.has(self.dataset)), "")

    def results(self):
        """The Results of the readouts, or None."""
        return {"stored": self.stored, "live": self.live}.get(self.source())

    def means(self):
        """`mean_accuracies` of all methods."""
        return mean_accuracies(stored=self.stored, live=self.live, dataset=self.dataset, band=self.band)

    def shown(self):
        """`mean_accuracies` of the chosen methods."""
        return mean_accuracies(
            stored=self.stored, live=self.live, dataset=self.dataset, methods=self.methods, band=self.band
        )

    def best(self):
        """`best_honest` of the readouts' results."""
        return best_honest(self.results(), dataset=self.dataset, epsilon=self.epsilon)

    def differences(self):
        """`differences` of the readouts' results."""
        return differences(self.results(), dataset=self.dataset, epsilon=self.epsilon)

    def against_the_paper(self):
        """`against_the_paper` of the stored results."""
        return against_the_paper(self.stored, dataset=self.dataset)

    def remarks(self):
        """Means that differ from the paper's by more than APART, a list of sentences, largest difference first."""
        both = self.against_the_paper()
        far = both[both["points"].abs() > APART]
        sentences = []
        for row in far.reindex(far["points"].abs().sort_values(ascending=False).index).itertuples():
            cause = CAUSES.get((self.dataset, row.method))
            sentences.append(
                f"{LABELS[row.method]} at ε = {row.epsilon:g}: {100 * row.accuracy:.2f} % here, "
                f"{100 * row.paper:.2f} % in the paper ({signed(row.points, 1)} points{f'; {cause}' if cause else ''})."
            )
        return sentences

    def cells(self):
        """`planned_cells` of a live run with these parameters, list of Cell.

        Empty for data that need files or a network, on which a fit can take minutes.
        """
        if self.dataset not in BUILT_IN:
            return []
        epsilons = EPSILONS if self.all_epsilons else (self.epsilon,)
        numbers = range(self.first_trial, self.first_trial + self.trials)
        trials = {(method, epsilon): numbers for method in self.live_methods for epsilon in epsilons}
        return planned_cells(dataset=self.dataset, trials=trials)

    def add_live(self, frames):
        """Add tables of a live run; a cell that was run before has the same result."""
        known = [] if self.live is None else [self.live.frame]
        self.live = Results(pd.concat([*known, *frames]).drop_duplicates("seed", keep="last", ignore_index=True))

    def repeated(self):
        """Number of live cells that the stored table has too, and of those that have another accuracy there."""
        if self.live is None or self.stored is None:
            return 0, 0
        live, stored = (part.frame.set_index("seed")["accuracy"].dropna() for part in (self.live, self.stored))
        both = live.index.intersection(stored.index)
        return len(both), int((live[both] != stored[both]).sum())

    def tables(self):
        """The means, the readouts, and the accuracy of each trial of stored and live runs."""
        parts = {"stored": self.stored, "live": self.live}
        trials = [per_trial(part.frame).assign(source=name) for name, part in parts.items() if part is not None]
        trials = pd.concat(trials) if trials else pd.DataFrame(columns=["source", "dataset", "method"])
        trials = trials[(trials["dataset"] == self.dataset) & trials["method"].isin(self.methods)]
        return dict(zip(self.table_names, (self.shown(), self._readouts(), trials), strict=True))

    def _readouts(self):
        rows = [
            (title, *QUESTIONS[title], self.epsilon, gap.mean, gap.standard_error, gap.clear)
            for title, gap in self.differences().items()
        ]
        if best := self.best():
            rows += [
                ("Best honest method", best[0], other, self.epsilon, gap.mean, gap.standard_error, gap.clear)
                for other, gap in best[2].items()
            ]
        columns = ["question", "method", "over", "epsilon", "difference", "standard_error", "clear"]
        return pd.DataFrame(rows, columns=columns).assign(source=self.source())

    def script(self):
        """Python that leaves `means`, as by `shown`, and `gaps`, as by `differences` where there are results."""
        used, lines, given = [mean_accuracies], [], {}
        if self.stored is not None and self.stored.has(self.dataset):
            used.append(shipped_results)
            given["stored"] = Code("stored")
            lines.append("stored = shipped_results()\n")
        if trials := self._live_trials():
            used += [Results, planned_cells, run_live]
            given["live"] = Code("live")
            lines.append(call(planned_cells, {"dataset": self.dataset, "trials": trials}, result="cells"))
            lines.append("live = Results(run_live(cells=cells))\n")
        chosen = {"dataset": self.dataset, "methods": self.methods, "band": self.band}
        lines += [call(mean_accuracies, given | chosen, result="means"), _PRINT_MEANS]
        if source := self.source():
            used.append(differences)
            at = {"results": Code(source), "dataset": self.dataset, "epsilon": self.epsilon}
            lines += ["\n", call(differences, at, result="gaps"), _PRINT_DIFFERENCES]
        return "".join([imports(*used), "\n", *lines])

    def _live_trials(self):
        """Trials that were run live on the dataset, lists by (method, epsilon); epsilon None if not private."""
        if self.live is None:
            return {}
        rows = self.live.frame[self.live.frame["dataset"] == self.dataset]
        parts = rows.groupby(["method", "epsilon"])["trial"]
        return {
            (method, float(epsilon) if "epsilon" in METHODS[method].axes else None): sorted(part.unique().tolist())
            for (method, epsilon), part in parts
        }


def signed(value, digits):
    """A number with its sign, a minus sign rather than a hyphen."""
    return f"{value:+.{digits}f}".replace("-", "−")
