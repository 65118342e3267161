"""`python -m explorer.study.report` writes README's results and their plots anew from the table in the package.

Every number in them is computed here from that table, except those labelled as the paper's.
"""

import argparse
from pathlib import Path

import numpy as np

from explorer.study.figure import Curve, accuracy_figure
from explorer.study.grid import grid
from explorer.study.methods import METHODS, NOISE_FACTOR, OPTIMUM_NORM
from explorer.study.results import load_provenance, load_published, load_results
from explorer.study.summary import gain, summarise

BEGIN, END = "<!-- study: begin -->\n", "<!-- study: end -->"
NAMES = {"synthetic_l": "Synthetic-L", "synthetic_h": "Synthetic-H", "adult": "Adult", "gisette": "Gisette"}
_STROKES = {
    "amp_rdp": ("#56B4E9", ""),
    "amp_hockey_stick": ("#D55E00", ""),
    "amp_tight": ("#CC79A7", ""),
    "amp_tight_noise": ("#0072B2", ""),
    "amp_tight_risk": ("#0072B2", "2 3"),
    "dp_sgd_dishonest": ("#E69F00", "8 3"),
    "dp_sgd_honest_rdp": ("#009E73", "8 3"),
    "dp_sgd_honest_profile": ("#000000", "8 3"),
    "output_perturbation": ("#999999", "3 3"),
}
_SHORT = {"dp_sgd_dishonest": "DP-SGD, dishonest", "amp_rdp": "Algorithm 1", "dp_sgd_honest_rdp": "DP-SGD, honest"}


def main(arguments=None):
    """Rewrite README between its markers, and the plots."""
    parser = argparse.ArgumentParser(prog="python -m explorer.study.report", description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", default=".", type=Path, help="folder of README.md and docs (default: this one)")
    root = parser.parse_args(arguments).root
    results = load_results()
    if missing := {cell.seed for cell in grid()} - set(results.loc[results["error"] == "", "seed"]):
        parser.exit(1, f"the table lacks {len(missing)} cells, or has an error for them: make study\n")
    readme = root / "README.md"
    readme.write_text(with_section(readme.read_text(encoding="utf-8"), section(results, load_provenance())), "utf-8")
    for name, text in figures(results).items():
        path = root / "docs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    print(f"README.md and {len(figures(results))} plots in docs are up to date")


def with_section(readme, text):
    """README's text with `text` between the markers; ValueError if they are not there."""
    if BEGIN not in readme or END not in readme:
        raise ValueError(f"README.md must have the lines {BEGIN.strip()!r} and {END!r}")
    return readme[: readme.index(BEGIN) + len(BEGIN)] + text + readme[readme.index(END) :]


def figures(results):
    """SVG text by file name, one plot for each dataset."""
    return {f"accuracy_{dataset}.svg": _figure(part) for dataset, part in _datasets(summarise(results))}


def section(results, provenance):
    """The Markdown of README's results."""
    table = summarise(results)
    return "\n\n".join(
        [
            _method(results, provenance),
            *_plots(table),
            "### Beside the paper's tables",
            *_beside_the_paper(table),
            "### What tight accounting gains",
            _tight_text(),
            *_tight(results, table),
            "### Where honest DP-SGD stands under privacy profiles",
            _honest_text(),
            *_honest(results, table),
            "### Everything",
            *_everything(table),
            "",
        ]
    )


def _method(results, provenance):
    machine, libraries, sessions = (provenance[key] for key in ("machine", "libraries", "sessions"))
    hours = sum(session["seconds"] for session in sessions) / 3600
    versions = ", ".join(f"{name} {number}" for name, number in libraries.items())
    return (
        f"`make study` made `explorer/study/results/paper.csv` in {hours:.1f} hours on {machine['cores']} cores "
        f"({machine['system']}, {machine['processor']}, {machine['memory_gb']:g} GB; {versions}); `make report` makes "
        f"this section from it. Accuracies are percentages of the test records, means of {results['trial'].nunique()} "
        f"trials on {results['split'].nunique()} random 80/20 splits, ± 1.96 standard errors, all at δ = "
        f"{results['delta'].max():g}. No split or seed was chosen by its result. DP-SGD's learning rate is chosen by "
        "accuracy on the test records, as in the paper: dishonestly, as the best of ten in each trial at the privacy "
        "of one fit, or honestly, with the choice accounted for. Algorithm 1 chooses nothing on the data: σ = "
        f"{NOISE_FACTOR:g} σ_G and the smallest λ, or a given λ and the smallest σ; given is *the paper's λ*, that of "
        f"its own accounting, or the one *from the risk bound*, with |θ*| = {OPTIMUM_NORM:g} assumed for all data. "
        "Adult's continuous columns are divided by their maximum, which no ε covers."
    )


def _plots(table):
    for dataset, _ in _datasets(table):
        yield f"![Accuracy against epsilon on {NAMES[dataset]}](docs/accuracy_{dataset}.svg)"


def _figure(table):
    dataset = table["dataset"].iloc[0]
    curves = []
    for method, (color, dash) in _STROKES.items():
        part = table[table["method"] == method]
        if len(part):
            columns = part[["epsilon", "accuracy", "margin"]].to_numpy().T * [[1], [100], [100]]
            curves.append(Curve(METHODS[method].label, *columns, color, dash))
    level = table.loc[table["method"] == "non_private", "accuracy"]
    return accuracy_figure(
        curves,
        title=NAMES[dataset],
        x_label=f"ε (δ = {table['delta'].max():g}), smaller is more private",
        level=100 * level.iloc[0] if len(level) else None,
        level_label=METHODS["non_private"].label,
    )


def _beside_the_paper(table):
    published = load_published()
    both = table.merge(published, on=["dataset", "method", "epsilon"], suffixes=("", "_paper"))
    for dataset, part in _datasets(both):
        epsilons = sorted(part["epsilon"].unique())
        heads = [text for epsilon in epsilons for text in (f"ε = {epsilon:g}", "paper")]
        rows = []
        for method, label in _SHORT.items():
            cells = part[part["method"] == method].set_index("epsilon").loc[epsilons]
            pairs = [(_percent(c), f"{100 * c.accuracy_paper:.2f}") for c in cells.itertuples()]
            rows.append([label, *(text for pair in pairs for text in pair)])
        yield _markdown([NAMES[dataset], *heads], rows)
    yield from _differences(both)


def _differences(both):
    """What does not agree with the paper, said in words, with the numbers of this table."""
    points = 100 * (both["accuracy"] - both["accuracy_paper"])
    at = points.groupby([both["dataset"], both["method"], both["epsilon"]]).first()
    if not {("synthetic_l", method, 0.1) for method in _SHORT} <= set(at.index):
        return
    honest = ", ".join(f"{value:+.1f}" for value in at["synthetic_l", "dp_sgd_honest_rdp"])
    yield (
        "Differences from the paper, in points. Algorithm 1: "
        f"{at['synthetic_l', 'amp_rdp', 0.1]:+.1f} on Synthetic-L at ε = 0.1, over random splits; "
        f"at most {_largest(at, 'amp_rdp'):.1f} elsewhere. Two more do not reproduce. "
        f"Dishonest DP-SGD on Synthetic-L at ε = 0.1: {at['synthetic_l', 'dp_sgd_dishonest', 0.1]:+.1f}, for which "
        f"no reason is known. Honest DP-SGD on Synthetic-L: {honest}; part of it is what a noise √2 times as large "
        "would do, as if the clipping norm √2 of rows with a constant had been counted twice."
    )


def _largest(at, method):
    others = at.drop(("synthetic_l", method, 0.1)).xs(method, level="method")
    return others.abs().max()


def _tight_text():
    return (
        "All at the same (ε, δ): points of accuracy over the paper's accounting, trial by trial on the same splits, "
        f"and the λ and σ/σ_G that each accounting grants. Where σ is fixed at {NOISE_FACTOR:g} σ_G, a tighter "
        "accounting lowers λ, which is a gain only where λ is what costs accuracy; where λ is given, it lowers σ."
    )


def _tight(results, table):
    methods = ("amp_hockey_stick", "amp_tight", "amp_tight_noise", "amp_tight_risk")
    gains = {method: gain(results, method, over="amp_rdp") for method in methods if (table["method"] == method).any()}
    for dataset, part in _datasets(table[table["method"].isin(["amp_rdp", *methods])]):
        epsilons = sorted(part["epsilon"].unique())
        rows = [_gain_row(METHODS[method].label, gains[method], dataset, epsilons) for method in gains]
        for method in ("amp_rdp", *gains):
            of = part[part["method"] == method].set_index("epsilon")
            rows.append([f"λ: {METHODS[method].label}", *(f"{of['l2_reg'][e]:.3g}" for e in epsilons)])
        rows += _noise_rows(part, epsilons)
        yield _markdown([NAMES[dataset], *(f"ε = {e:g}" for e in epsilons)], rows)


def _noise_rows(part, epsilons):
    """sigma relative to sigma_G of those that do not set it to 1.3 sigma_G."""
    noise = part.pivot(index="epsilon", columns="method", values="noise_std")
    for method in ("amp_tight_noise", "amp_tight_risk"):
        ratio = NOISE_FACTOR * noise[method] / noise["amp_rdp"]
        yield [f"σ/σ_G: {METHODS[method].label}", *(f"{ratio[e]:.3f}" for e in epsilons)]


def _honest_text():
    return (
        "The paper leaves open what honest tuning costs when it is accounted for by privacy profiles instead of Rényi "
        "divergence. Points of accuracy at the same (ε, δ), and the noise multiplier of each run:"
    )


def _honest(results, table):
    new = "dp_sgd_honest_profile"
    pairs = [(new, "dp_sgd_honest_rdp"), ("amp_rdp", new), ("amp_tight_risk", new)]
    gains = [gain(results, method, over=other) for method, other in pairs]
    for dataset, part in _datasets(table[table["method"].isin([new, "dp_sgd_honest_rdp"])]):
        epsilons = sorted(part["epsilon"].unique())
        labels = [f"{METHODS[method].label} over {METHODS[other].label}" for method, other in pairs]
        rows = [_gain_row(label, g, dataset, epsilons) for label, g in zip(labels, gains, strict=True)]
        for method in ("dp_sgd_honest_rdp", new):
            noise = part[part["method"] == method].set_index("epsilon")["noise_multiplier"]
            rows.append([f"noise multiplier: {METHODS[method].label}", *(f"{noise[e]:.4g}" for e in epsilons)])
        yield _markdown([NAMES[dataset], *(f"ε = {e:g}" for e in epsilons)], rows)


def _everything(table):
    for dataset, part in _datasets(table):
        epsilons = sorted(e for e in part["epsilon"].unique() if np.isfinite(e))
        rows = []
        for method, group in part.groupby("method", sort=False):
            if "epsilon" in METHODS[method].axes:
                cells = {c.epsilon: _percent(c) for c in group.itertuples()}
                rows.append([METHODS[method].label, *(cells.get(e, "") for e in epsilons)])
        (plain,) = part[part["method"] == "non_private"].itertuples()
        yield _markdown([NAMES[dataset], *(f"ε = {e:g}" for e in epsilons)], rows)
        yield f"{METHODS['non_private'].label}: {_percent(plain)}."


def _gain_row(label, gains, dataset, epsilons):
    of = gains[gains["dataset"] == dataset].set_index("epsilon")
    return [label, *(f"{100 * of['gain'][e]:+.2f} ± {100 * of['margin'][e]:.2f}" for e in epsilons)]


def _percent(row):
    return f"{100 * row.accuracy:.2f} ± {100 * row.margin:.2f}"


def _datasets(table):
    """Pairs of a dataset's name and its rows, in the paper's order."""
    return [(name, table[table["dataset"] == name]) for name in NAMES if (table["dataset"] == name).any()]


def _markdown(heads, rows):
    rule = ["---", *("--:" for _ in heads[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


if __name__ == "__main__":
    main()
