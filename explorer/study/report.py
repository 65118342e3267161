"""`python -m explorer.study.report` writes docs/results.md and its plots from the table in the package.

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
from explorer.vocabulary import DATASETS
from explorer.vocabulary import METHODS as TERMS

NAMES = {name: DATASETS[name] for name in ("synthetic_l", "synthetic_h", "adult", "gisette")}
_SHORT = {"dp_sgd_dishonest": "DP-SGD, dishonest", "amp_rdp": "Algorithm 1", "dp_sgd_honest_rdp": "DP-SGD, honest"}


def main(arguments=None):
    """Write the page and the plots."""
    parser = argparse.ArgumentParser(prog="python -m explorer.study.report", description=__doc__.split("\n\n")[0])
    parser.add_argument("--docs", default="docs", type=Path, help="folder to write to (default: docs)")
    docs = parser.parse_args(arguments).docs
    try:
        results = load_results()
    except FileNotFoundError as error:
        parser.exit(1, f"{error}\n")
    if missing := {cell.seed for cell in grid()} - set(results.loc[results["error"] == "", "seed"]):
        parser.exit(1, f"the table lacks {len(missing)} cells, or has an error for them: make study\n")
    docs.mkdir(parents=True, exist_ok=True)
    texts = {"results.md": page(results, load_provenance()), **figures(results)}
    for name, text in texts.items():
        (docs / name).write_text(text, encoding="utf-8", newline="")
    print(f"wrote {', '.join(texts)} to {docs}")


def figures(results):
    """SVG text by file name, one plot for each dataset."""
    return {f"accuracy_{dataset}.svg": _figure(part) for dataset, part in _datasets(summarise(results))}


def page(results, provenance):
    """The Markdown of docs/results.md."""
    table = summarise(results)
    return "\n\n".join(
        [
            "# Results",
            _method(results, provenance),
            *_plots(table),
            "## Comparison with the paper's tables",
            *_beside_the_paper(table),
            "## What exact accounting gains",
            *_exact(results, table),
            "## Honest DP-SGD under privacy-profile accounting",
            *_honest(results, table),
            "## All accuracies",
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
        f"this page from it. Accuracies are percentages of the test records, means of {results['trial'].nunique()} "
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
        yield f"![Accuracy against epsilon on {NAMES[dataset]}](accuracy_{dataset}.svg)"


def _figure(table):
    dataset = table["dataset"].iloc[0]
    curves = []
    for method, term in TERMS.items():
        part = table[(table["method"] == method) & np.isfinite(table["epsilon"])]  # without privacy: a level
        if len(part):
            columns = part[["epsilon", "accuracy", "margin"]].to_numpy().T * [[1], [100], [100]]
            curves.append(
                Curve(METHODS[method].label, *columns, term.style.color, term.style.dash.replace("solid", ""))
            )
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
    where = [both["dataset"], both["method"], both["epsilon"]]
    at, margin = points.groupby(where).first(), (100 * both["margin"]).groupby(where).first()
    if not {("synthetic_l", method, 0.1) for method in _SHORT} <= set(at.index):
        return
    honest = ", and ".join(
        f"on {NAMES[dataset]} {', '.join(f'{value:+.1f}' for value in part)}"
        for dataset, part in at.xs("dp_sgd_honest_rdp", level="method").groupby("dataset", sort=False)
    )
    yield (
        "Differences from the paper, in points. Algorithm 1: "
        f"{at['synthetic_l', 'amp_rdp', 0.1]:+.1f} on Synthetic-L at ε = 0.1, where the difference of two means "
        f"has the margin {np.sqrt(2) * margin['synthetic_l', 'amp_rdp', 0.1]:.1f}, if the paper's varies as ours; "
        f"at most {_largest(at, 'amp_rdp'):.1f} elsewhere. Two of its "
        "other columns do not reproduce. "
        f"Dishonest DP-SGD on Synthetic-L at ε = 0.1: {at['synthetic_l', 'dp_sgd_dishonest', 0.1]:+.1f}, for which "
        f"no reason is known; at most {_largest(at, 'dp_sgd_dishonest'):.1f} elsewhere. Honest DP-SGD, from the least "
        f"ε to the largest: {honest}; part of the latter is what a noise √2 times as large would do, as if the "
        "clipping norm √2 of rows with a constant had been counted twice."
    )


def _largest(at, method):
    others = at.drop(("synthetic_l", method, 0.1)).xs(method, level="method")
    return others.abs().max()


def _exact(results, table):
    others = ("amp_hockey_stick", "amp_exact", "amp_exact_noise", "amp_exact_risk")
    gains = {METHODS[method].label: gain(results, method, over="amp_rdp") for method in others}
    yield (
        "Points of accuracy over Algorithm 1 by the paper's accounting, at the same (ε, δ), trial by trial on the same "
        f"splits. Where σ is fixed at {NOISE_FACTOR:g} σ_G, a tighter accounting lowers λ, which is a gain only where "
        f"λ is what costs accuracy; where λ is given, it lowers σ. {_verdicts(gains)}"
    )
    for dataset, _ in _datasets(table):
        yield _gain_table(gains, dataset)
    yield "The parameters that are the same for all data:"
    one = table[(table["dataset"] == table["dataset"].iloc[0]) & np.isfinite(table["epsilon"])]
    parameters = one.pivot(index="epsilon", columns="method")
    l2_reg, noise = parameters["l2_reg"], parameters["noise_std"]
    rows = [
        [f"λ: {METHODS[method].label}", *(f"{value:.3g}" for value in l2_reg[method])]
        for method in ("amp_rdp", "amp_hockey_stick", "amp_exact")
    ]
    ratio = NOISE_FACTOR * noise["amp_exact_noise"] / noise["amp_rdp"]
    rows.append([f"σ/σ_G: {METHODS['amp_exact_noise'].label}", *(f"{value:.3f}" for value in ratio)])
    yield _markdown(["", *(f"ε = {e:g}" for e in noise.index)], rows)


def _honest(results, table):
    new, old = "dp_sgd_honest_profile", "dp_sgd_honest_rdp"
    pairs = {
        "privacy profile over Rényi": (new, old),
        "Algorithm 1, Rényi, over DP-SGD, privacy profile": ("amp_rdp", new),
        "Algorithm 1, exact, the paper's λ, over DP-SGD, privacy profile": ("amp_exact_noise", new),
    }
    gains = {label: gain(results, method, over=other) for label, (method, other) in pairs.items()}
    yield (
        "The paper leaves open where honest tuning stands when it is accounted for by privacy profiles instead of "
        "Rényi divergence. Points of accuracy at the same (ε, δ), and the noise multiplier of each run. "
        f"{_verdicts(gains)}"
    )
    for dataset, part in _datasets(table):
        noise = part[np.isfinite(part["epsilon"])].pivot(index="epsilon", columns="method", values="noise_multiplier")
        rows = [[f"noise: {METHODS[method].label}", *(f"{x:.4g}" for x in noise[method])] for method in (old, new)]
        yield _gain_table(gains, dataset, *rows)


def _verdicts(gains):
    """How often each gain is told apart from 0, in a sentence."""
    parts = []
    for label, table in gains.items():
        above, below = (int((sign * table["gain"] > table["margin"]).sum()) for sign in (1, -1))
        parts.append(f"{label}: above its margin in {above}, below in {below}")
    return f"Of {len(table)} cells each: {'; '.join(parts)}."


def _gain_table(gains, dataset, *more):
    rows = []
    for label, table in gains.items():
        of = table[table["dataset"] == dataset]
        rows.append(
            [label, *(f"{100 * g:+.2f} ± {100 * m:.2f}" for g, m in zip(of["gain"], of["margin"], strict=True))]
        )
    return _markdown([NAMES[dataset], *(f"ε = {e:g}" for e in of["epsilon"])], [*rows, *more])


def _everything(table):
    yield "Mean test accuracy of every method, in percent."
    for dataset, part in _datasets(table):
        of = {(row.method, row.epsilon): _percent(row) for row in part.itertuples()}
        epsilons = sorted({epsilon for _, epsilon in of if np.isfinite(epsilon)})
        private = [method for method in METHODS if "epsilon" in METHODS[method].axes]
        rows = [[METHODS[method].label, *(of[method, e] for e in epsilons)] for method in private]
        yield _markdown([NAMES[dataset], *(f"ε = {e:g}" for e in epsilons)], rows)
        yield f"{METHODS['non_private'].label}: {of['non_private', np.inf]}."


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
