"""Results and certificates as tables, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tether.claims.claims import Certificate, OutputDelta
from tether.claims.cost import ApproximationCost
from tether.foundation.printing import plain


def symbols(runs: Sequence[dict[str, Any]]) -> str:
    """What the letters mean, to be said where they first appear."""
    changes = any("Δ" in run["method"] for run in runs)
    return (
        "M is the trusted model. D is your data: measured rows. Ω are the probes: inputs without "
        "measurements, at which only M says what should happen. "
        f"{'Methods with Δ predict the change of the state. ' if changes else ''}"
        "All numbers are of rows held out, which no model has seen."
    )


def delta_words(deltas: Sequence[OutputDelta]) -> str:
    """What delta is, and its parts, to be said where they first appear."""
    words = "Delta is how far from M a prediction can be, with any weights."
    if all(d.remainder for d in deltas):
        return (
            f"{words} A leaf is one of the boxes into which the inputs are cut. Room is the part of delta "
            "that the data ask for, because they differ from M."
        )
    return words if _everywhere(deltas) else f"{words} A cell is all inputs near one memory."


def _everywhere(deltas: Sequence[OutputDelta]) -> bool:
    """Whether delta is the same at every input."""
    return all(d.maximum == d.median and not d.worst_cells for d in deltas)


_MOST_ACROSS = 4
"""Outputs that fit beside one another on a screen."""


@dataclass(frozen=True)
class Grid:
    """A table before it is drawn: a title, a header, rows of text, the first column left aligned."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def results_grid(runs: Sequence[dict[str, Any]], extra: Mapping[str, str] | None = None) -> Grid:
    """The paper's metrics, one row per run; `extra` adds columns, key to heading."""
    columns = {
        "approximation_loss_D": "error on D",
        "constraint_loss_D_mean": "to M on D",
        "constraint_loss_omega_mean": "to M on Ω",
        "constraint_loss_omega_max": "worst on Ω",
        **(extra or {}),
    }
    rows = [(run_name(run), *(number(run.get(key)) for key in columns)) for run in runs]
    return Grid(
        "Held-out data; squared errors and squared distances to the trusted model M, physical units",
        ("method", *columns.values()),
        tuple(rows),
    )


def run_name(run: dict[str, Any]) -> str:
    """Method, with its memories where it has some."""
    return f"{run['method']} ({run['memories']})" if run.get("memories") else run["method"]


def delta_grid(deltas: Sequence[OutputDelta], evidence: str) -> Grid:
    """Delta per output: over cells at their rim, and over held-out inputs where they lie."""
    part = "leaf" if all(d.remainder for d in deltas) else "cell"
    columns: dict[str, list[str]] = {
        "output": [d.name for d in deltas],
        "unit": [d.unit or "-" for d in deltas],
    }
    if _everywhere(deltas):
        columns["delta, everywhere"] = [number(d.maximum) for d in deltas]
    else:
        columns[f"delta, worst {part}"] = [number(d.maximum) for d in deltas]
        columns[f"median {part}"] = [number(d.median) for d in deltas]
    if all(d.held_out for d in deltas):
        columns["99 % of held-out D"] = [number(d.held_out[1]) for d in deltas if d.held_out]
        columns["median of held-out D"] = [number(d.held_out[0]) for d in deltas if d.held_out]
    if all(d.remainder is not None for d in deltas):
        columns["without room, worst"] = [number(d.remainder[0]) for d in deltas if d.remainder]
    if all(d.remainder is not None and d.remainder[1] is not None for d in deltas):
        columns["without room, 99 %"] = [number(d.remainder[1]) for d in deltas if d.remainder]
    if any(d.single is not None for d in deltas):
        columns["float32"] = [number(d.single) for d in deltas]
    if all(d.lemma is not None for d in deltas):
        columns["Lemma 4"] = [number(d.lemma) for d in deltas]
    rows = tuple(zip(*columns.values(), strict=True))
    return Grid(f"Distance to the trusted model, evidence level {evidence}", tuple(columns), rows)


def errors_grid(runs: Sequence[dict[str, Any]], units: Mapping[str, str]) -> Grid | None:
    """Root mean square and worst error of each output on held-out data, in its unit; None: not measured."""
    held = [run for run in runs if run.get("rmse")]
    if not held:
        return None
    names = list(held[0]["rmse"])
    header = ("method", *(f"{name} [{units[name]}]" if units.get(name) else name for name in names))
    rows = [
        (run_name(run), *(f"{_of(run, 'rmse', name)} ({_of(run, 'worst_error', name)})" for name in names))
        for run in held
    ]
    if len(names) > _MOST_ACROSS and len(names) >= len(rows):  # down the page there is room for any number
        header, *rows = zip(("output", *header[1:]), *rows, strict=True)
    return Grid("Error on held-out data by output: root mean square (worst)", header, tuple(rows))


def _of(run: Mapping[str, Any], measure: str, output: str) -> str:
    """What a run measured of an output; a dash where it did not."""
    return number((run.get(measure) or {}).get(output))


def certificate_lines(certificate: Certificate, cost: ApproximationCost | None = None) -> list[str]:
    """The certificate in sentences."""
    return [
        *why_lines(certificate),
        f"Evidence level: {certificate.evidence}. {certificate.claim}",
        *domain_lines(certificate),
        *checked_lines(certificate, cost),
    ]


def why_lines(certificate: Certificate) -> list[str]:
    """The evidence that was taken and why nothing stronger, where that was not the caller's choice."""
    why = certificate.conformance.why
    return [] if why is None else [f"Evidence: {certificate.evidence}, because {why}"]


def checked_lines(certificate: Certificate, cost: ApproximationCost | None = None) -> list[str]:
    """What was checked, what else is claimed, and what all of it assumes."""
    lines = [
        f"Fresh check: {recheck_line(certificate)}",
        *monotonicity_lines(certificate),
        *band_lines(certificate),
        *(f"Of little use: {concern}." for concern in certificate.conformance.concerns),
    ]
    if cost is not None:
        lines.append(cost_line(cost))
    return lines + [f"Assumes: {line}" for line in certificate.conformance.assumptions]


def domain_lines(certificate: Certificate) -> list[str]:
    """Where the claim holds, and how much of the held-out inputs that is."""
    domain = certificate.domain
    if not domain.box:
        return ["Domain: every finite input."]
    where = (
        f"inside the box of the certificate, near the data: at most {_span(domain.radius)} away from a "
        "memory (one of the inputs that the model keeps as typical; inputs are counted in units of their "
        "spread)."
        if domain.radius is not None
        else _of_box(domain.coverage_box)
    )
    return [
        f"Domain: {where}",
        f"Held-out inputs in that domain: {percent(domain.coverage_D)} of the data D, "
        f"{percent(domain.coverage_omega)} of the probes Ω.",
    ]


def _of_box(share: float | None) -> str:
    """How much of the box is known to be in the domain: what is said of it is a lower limit."""
    if share is None or share == 1:
        return f"the whole box of the certificate, {percent(share)} of it."
    least = f", at least {percent(share)} of it" if share else ""
    return f"the box of the certificate but for leaves over which nothing is known of M{least}."


def monotonicity_lines(certificate: Certificate) -> list[str]:
    """What is claimed of inputs in which no prediction rises."""
    falling = certificate.monotonicity
    return [] if falling is None else [f"{falling.claim} Declared inputs: {', '.join(falling.declared)}."]


def band_lines(certificate: Certificate) -> list[str]:
    """What is claimed of reality, and the rows that contradict it most."""
    band = certificate.band
    if band is None:
        return []
    missed = (
        ""
        if band.missed is None
        else f" Of held-out rows {percent(max(band.missed))} lay outside, in the output with the most."
    )
    lines = [
        f"Reality: each output of a new row lies in the band with probability {percent(band.probability)} or "
        f"more, over episodes like the {band.episodes} it was calibrated on (statistical).{missed}"
    ]
    if band.inside < 1 - band.alpha:
        lines.append(
            f"That is less than the {percent(1 - band.alpha)} asked for: M is followed where probes or a "
            "delta ask for it and where no other episode was, and reality is not always there."
        )
    if band.rows:
        lines.append(
            "Rows to look at, far outside (counted from 0 through training, then validation data): "
            f"{', '.join(map(str, band.rows))}. The report of the fit says where in the data they are."
        )
    return lines


def recheck_line(certificate: Certificate) -> str:
    """What fresh points showed."""
    recheck, domain = certificate.conformance.recheck, certificate.domain
    if not domain.box:
        worst = ratio(recheck.max_ratio)
        return f"At {recheck.points:,} new points no prediction came farther from M than {worst} of delta."
    place = "cells" if domain.radius is not None else "leaves"
    aside = "" if recheck.outside_bounds == 0 else _aside(recheck.outside_bounds)
    return (
        f"At {recheck.points:,} new points inside the {place}, no prediction that the model could make with "
        f"any weights was farther from M than {ratio(recheck.max_ratio)} of delta.{aside}"
    )


def _aside(share: float) -> str:
    """What it means that some bounds do not hold M's own answer."""
    return f" At {percent(share)} of them it cannot give M's own answer exactly, only one within delta of it."


def cost_line(cost: ApproximationCost) -> str:
    """What constraining costs in accuracy."""
    paper = (
        ""
        if cost.paper_holds is None
        else f" The paper's own, looser limit on the error held for {percent(cost.paper_holds)}."
    )
    return (
        "What staying near M costs in accuracy: the truth was out of reach of the model for "
        f"{percent(cost.tether_miss_share)} of held-out measurements. Holding a free network to the same "
        "limits added no more to its error than how far out of reach the truth was, for "
        f"{percent(cost.sharp_holds)} of them.{paper}"
    )


def _span(limits: tuple[float, float]) -> str:
    low, high = (f"{limit:.4g}" for limit in limits)
    return low if low == high else f"{low} to {high}, depending on the memory,"


def rich_table(grid: Grid) -> Table:
    """For a terminal."""
    title = plain(grid.title, "bold")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for k, heading in enumerate(grid.header):
        table.add_column(plain(heading), justify="left" if k == 0 else "right", no_wrap=k == 0)
    for row in grid.rows:
        table.add_row(*map(plain, row))
    return table


def number(value: float | None) -> str:
    """Three significant digits; a dash for what was not measured."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:.3g}"


def ratio(value: float) -> str:
    """Six decimals, never rounded across 1."""
    return f"{min(value, 0.999999) if value <= 1 else max(value, 1.000001):.6f}"


def percent(value: float | None) -> str:
    """A share in per cent, never rounded up to 100 nor down to 0."""
    if value is None:
        return "not measured"
    shown = f"{100 * value:.2f}"
    if shown == "0.00" and value > 0:
        return "< 0.01 %"
    return ("> 99.99 %" if shown == "100.00" and value < 1 else f"{shown} %").replace("100.00 %", "100 %")
