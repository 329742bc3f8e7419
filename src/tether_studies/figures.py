"""Figures that every study has: metrics against steps, bars, accuracy against conformance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterMathtext, LogLocator, NullFormatter

from tether.report.curves import FLOOR as _FLOOR
from tether.report.curves import TITLES
from tether.report.figures import line_styles, styled
from tether.report.seeds import LOSSES, grouped, values_of
from tether.report.styles import kind_of


def curves_figure(runs: Sequence[dict[str, Any]]) -> Figure:
    """The paper's four metrics against gradient steps: mean over seeds, and their range."""
    groups = {n: g for n, g in grouped(runs).items() if g[0].get("history")}
    with styled():
        figure = Figure(figsize=(10, 7.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes, styles = figure.subplots(2, 2).ravel(), line_styles(groups)
        for axis, (key, title) in zip(axes, TITLES.items(), strict=True):
            for name, group in groups.items():
                steps = [e["step"] for e in group[0]["history"]]
                values = [[max(e[key], _FLOOR) for e in run["history"]] for run in group]
                length = min(map(len, values))
                table = np.array([row[:length] for row in values])
                axis.plot(steps[:length], np.exp(np.log(table).mean(axis=0)), label=name, **styles[name])
                axis.fill_between(
                    steps[:length], table.min(0), table.max(0), color=styles[name]["color"], alpha=0.15, lw=0
                )
            axis.set(title=title, xlabel="gradient steps", xscale="log", yscale="log")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def bars_figure(runs: Sequence[dict[str, Any]]) -> Figure:
    """The paper's bar charts: every method, mean and standard deviation over seeds, logarithmic."""
    groups = grouped(runs)
    with styled():
        figure = Figure(figsize=(10, 0.9 + 0.32 * len(groups)), layout="constrained")
        FigureCanvasAgg(figure)
        axes, styles = figure.subplots(1, len(LOSSES), sharey=True), line_styles(groups)
        places = np.arange(len(groups))[::-1]
        for axis, (key, title) in zip(axes, TITLES.items(), strict=True):
            table = [values_of(group, key) for group in groups.values()]
            means = np.array([np.mean(row) for row in table])
            spread = np.array([np.std(row, ddof=1) if len(row) > 1 else 0.0 for row in table])
            left = max(_FLOOR, 0.3 * float(means[means > _FLOOR].min(initial=1.0)))
            bars = axis.barh(
                places, np.maximum(means, left), color=[styles[n]["color"] for n in groups], height=0.7
            )
            for bar, name in zip(bars, groups, strict=True):
                bar.set_alpha(styles[name]["alpha"])
            low = np.minimum(spread, np.maximum(means - left, 0))
            axis.errorbar(means, places, xerr=[low, spread], fmt="none", ecolor="#333333", lw=0.8, capsize=2)
            for place, mean in zip(places, means, strict=True):
                axis.annotate(
                    "0" if mean == 0 else f"{mean:.1e}",
                    (max(mean, left), place),
                    xytext=(3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=6.5,
                )
            axis.set_xscale("log")
            axis.set_xlim(left, 30 * float(means.max()))
            axis.set_title(title, fontsize=8.5)
            axis.tick_params(axis="x", labelsize=7)
        axes[0].set_yticks(places, list(groups))
    return figure


def plane_figure(runs: Sequence[dict[str, Any]]) -> Figure:
    """Accuracy against conformance, every run of every method a point."""
    groups = grouped(runs)
    smallest = [v for g in groups.values() for v in values_of(g, "constraint_loss_omega_mean") if v > 0]
    floor = max(_FLOOR, 0.1 * min(smallest, default=1.0))
    with styled():
        figure = Figure(figsize=(7.5, 5), layout="constrained")
        FigureCanvasAgg(figure)
        axis, styles = figure.subplots(), line_styles(groups)
        markers = iter("svDP^X*hpd<>" * 3)
        for name, group in groups.items():
            x = values_of(group, "approximation_loss_D")
            y = [max(v, floor) for v in values_of(group, "constraint_loss_omega_mean")]
            marker = "o" if kind_of(name) == "Tethered" else next(markers)
            axis.scatter(
                x,
                y,
                label=name,
                color=styles[name]["color"],
                marker=marker,
                s=44,
                alpha=styles[name]["alpha"],
                zorder=3,
            )
        axis.axhline(floor, color="#999999", lw=0.8, ls=":")
        axis.annotate(
            f"{floor:.0e} or less",
            (0.99, floor),
            xycoords=("axes fraction", "data"),
            fontsize=8,
            ha="right",
            va="bottom",
        )
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="error on held-out D (more accurate to the left)",
            ylabel="mean distance² to M on Ω (conforms more below)",
            title="Accuracy against conformance",
        )
        low, high = axis.get_xlim()
        far = high > 30 * low
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0,) if far else (1.0, 2.0, 5.0), numticks=12))
        axis.xaxis.set_major_formatter(LogFormatterMathtext() if far else "{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def memories_figure(runs: Sequence[dict[str, Any]], units: Mapping[str, str]) -> Figure | None:
    """Certified delta against the number of memories, one panel per unit; None where counts do not vary.

    The worst output of that unit: in the worst cell, and at the median held-out input; means over seeds.
    """
    families = _by_count(runs)
    if not families:
        return None
    # Of each family, because one may be fitted in other outputs than the rest.
    outputs = {name: list(next(iter(counts.values()))[0]["delta_D"]) for name, counts in families.items()}
    panels = list(dict.fromkeys(units.get(name) or "-" for own in outputs.values() for name in own))
    with styled():
        figure = Figure(figsize=(3.1 * len(panels) + 1, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes, styles = figure.subplots(1, len(panels), squeeze=False)[0], line_styles(families)
        for axis, unit in zip(axes, panels, strict=True):
            for family, counts in families.items():
                names = [name for name in outputs[family] if (units.get(name) or "-") == unit]
                if not names:
                    continue
                for part, key, line in (("worst cell", "max", "-"), ("median input", "median", "--")):
                    source = "delta_certified" if key == "max" else "delta_D"
                    values = [
                        np.mean([max(run[source][name][key] for name in names) for run in group])
                        for group in counts.values()
                    ]
                    axis.plot(
                        list(counts),
                        values,
                        line,
                        marker="o",
                        ms=4,
                        color=styles[family]["color"],
                        label=f"{family}, {part}",
                    )
            axis.set(title=f"delta [{unit}]", xlabel="memories", xscale="log", yscale="log")
            every = sorted({count for counts in families.values() for count in counts})
            axis.set_xticks(every, [str(count) for count in every])
            axis.minorticks_off()
        # A family may be missing from some panels; one panel has room for two columns.
        entries = [axis.get_legend_handles_labels() for axis in axes]
        labels = {label: line for lines, own in entries for line, label in zip(lines, own, strict=True)}
        legend_below(figure, labels, 2 * min(len(panels), 2), columnspacing=1.5, fontsize=8)
    return figure


def legend_below(figure: Figure, labels: Mapping[str, Any], most: int, **style: Any) -> None:
    """In as many columns as the figure has room for, `most` at most."""
    for columns in range(min(most, len(labels)), 0, -1):
        legend = figure.legend(
            labels.values(), labels.keys(), loc="outside lower center", ncols=columns, **style
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _by_count(runs: Sequence[dict[str, Any]]) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """Runs with a delta by method and number of memories, for methods that were run with several."""
    families: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for run in runs:
        if run.get("memories") and run.get("delta_D"):
            families.setdefault(run["method"], {}).setdefault(run["memories"], []).append(run)
    return {name: dict(sorted(counts.items())) for name, counts in families.items() if len(counts) > 1}
