"""The Composition page's parameters: one objective perturbation, how often it runs, and where the cost is read."""

from typing import ClassVar

import param

from explorer import vocabulary
from explorer.accounting import HockeyStickBound, ObjectivePerturbation
from explorer.pages import parameters
from explorer.pages.composition.computation import ADAPTIVE, LABELS, RENYI, Question, compose, most_runs, read
from explorer.pages.state import Code, ObjectivePerturbationState, call, imports, refusal

RUNS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
SLOW = ("exact", ADAPTIVE)  # seconds for each k, and more for small sampling rates with little noise
KEYS = vocabulary.keys(vocabulary.BOUNDS)


class CompositionState(ObjectivePerturbationState):
    """Parameters of one objective perturbation, how often it runs on the same data, and where the cost is read."""

    presets: ClassVar = {
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
    table_names: ClassVar = ("composition",)

    noise_std = parameters.noise_std(
        8.0,
        bounds=(1, 200),
        doc="Standard deviation of the random linear term of each run. Larger is more private and less accurate.",
    )
    l2_reg = parameters.l2_reg(10.0, bounds=(0.1, 10_000))
    smoothness = parameters.smoothness(bounds=(0.01, 10))
    lipschitz = parameters.lipschitz(bounds=(0.1, 2))
    sampling_rate = param.Number(
        1.0,
        bounds=(0.001, 1),
        label="q  sampling rate",
        doc="Probability of each record, independently, to be in a run; 1 runs on all records. Smaller is more "
        "private. Batches from a shuffled pass over the data are not such samples.",
    )
    uses = param.Integer(
        1000,
        bounds=(1, 1000),
        label="k  runs",
        doc="How often the mechanism runs on the same data; the readouts are for this number. Fewer is more private.",
    )
    delta = parameters.delta(
        1e-10,
        label="δ  to read ε at",
        doc="Failure probability of all runs together, at which ε is shown. A smaller δ is a stronger guarantee.",
    )
    epsilon = parameters.epsilon(
        10.0,
        bounds=(0.01, 1000),
        label="ε  to read δ at",
        doc="Privacy budget of all runs together, at which δ is shown. A smaller ε is a stronger guarantee.",
    )
    delta_on_y_axis = param.Boolean(
        False,
        label="δ on the y-axis",
        doc="Plot δ at the chosen ε instead of ε at the chosen δ. Changes only the picture, not the privacy.",
    )
    exact = param.Boolean(
        False,
        label="Exact analysis too",
        doc="Also compose the exact profile of a run, and compute what an adversary gains who chooses each run’s loss "
        "after the earlier outcomes: seconds for each number of runs. The mechanism is equally private; less of its "
        "cost is overstated.",
    )

    def names(self):
        """Labels of the bounds that are asked for, in the order of the legend."""
        return [label for key, label in LABELS.items() if key not in SLOW or self.exact]

    def refusals(self):
        """Why a bound does not apply to the current parameters, dict of str by label."""
        reason = refusal(HockeyStickBound, self.mechanism)
        refused = {LABELS[key]: reason for key in (RENYI, "hockey_stick")} if reason else {}
        if self.sampling_rate < 1:
            refused[LABELS[RENYI]] = "no Rényi divergence of a run on a sample is known: it needs sampling_rate = 1"
            if self.exact:
                refused[LABELS[ADAPTIVE]] = "it is computed for runs on all records only: it needs sampling_rate = 1"
        return refused

    def runs(self):
        """The numbers of runs, tuple of int, increasing: RUNS and the chosen one."""
        return tuple(sorted({*RUNS, self.uses}))

    def applies(self, name, runs):
        """Whether this bound (a label that is not refused) is computed for so many runs."""
        return runs <= most_runs(KEYS[name])

    def question(self, name, runs):
        """Everything that the reading of this bound (a label) after `runs` runs depends on, a Question."""
        return Question(KEYS[name], self.mechanism, self.sampling_rate, int(runs), self.delta, self.epsilon)

    def reading(self, name, runs):
        """The Reading of this bound (a label that is not refused) after `runs` runs."""
        return read(self.question(name, runs))

    def arguments(self):
        """Everything `compose` needs: the bounds that are asked for and apply, dict."""
        refused = self.refusals()
        return {
            "mechanism": self.mechanism,
            "bounds": [KEYS[name] for name in self.names() if name not in refused],
            "runs": list(self.runs()),
            "sampling_rate": self.sampling_rate,
            "delta": self.delta,
            "epsilon": self.epsilon,
        }

    def tables(self):
        """All readings, tidy: "runs" (k), "bound" and the columns of `Reading`, of the bounds that apply."""
        return {"composition": compose(**self.arguments())}

    def script(self):
        """Python that leaves the DataFrame `table` of `compose`, and prints its rows for the chosen k."""
        return "".join(
            (
                imports(ObjectivePerturbation, compose),
                f"\nmechanism = {self.mechanism!r}\n",
                call(compose, self.arguments() | {"mechanism": Code("mechanism")}, result="table"),
                _PRINT.format(uses=self.uses, delta=self.delta),
            )
        )


_PRINT = """\
for row in table[table["runs"] == {uses}].itertuples():
    print(
        f"{{row.bound}}: epsilon from {{row.epsilon_low:.6f}} to {{row.epsilon:.6f}} "
        "at delta = {delta} after {uses} runs"
    )
"""
