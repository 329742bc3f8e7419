"""Every table of the paper's numbers in README and docs, from the committed results.

    python benchmarks/results_table.py            # prints them
    python benchmarks/results_table.py --write    # puts them into README.md, docs/artifact.md and docs/authors.md

Nothing in these tables is typed but what the paper's authors measured.
"""

import argparse
import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
STUDIES = {
    "vehicle": ("vehicle", 2500),
    "pancreas": ("pancreas, our simulator", 2000),
    "pancreas-traces": ("pancreas, the paper's traces", 2000),
    "drones": ("drones", 2000),
}
METHODS = (
    "Trusted",
    "Vanilla",
    "Vanilla Δ",
    "Lagrangian (paper)",
    "Augmented Lagrangian",
    "Augmented Lagrangian Δ",
    "Constrained (paper)",
    "Constrained",
    "Constrained Δ",
    "HardNet",
    "HardNet Δ",
    "Direct",
    "Direct Δ",
    "Tethered",
    "Tethered Δ",
    "Tethered, own axes",
    "Tethered, monotone",
)
# The authors' own methods, by the row that is theirs where there is one.
THEIRS = {"Vanilla": "Vanilla", "Lagrangian (paper)": "Lagrangian", "Constrained (paper)": "Constrained"}
OLDER = {"Vanilla": "Vanilla", "Augmented Lagrangian": "Lagrangian", "Constrained": "Constrained"}
"""Likewise of results without such rows."""
ERROR, OMEGA = "approximation_loss_D", "constraint_loss_omega_mean"
KEYS = (ERROR, "constraint_loss_D_mean", OMEGA, "constraint_loss_omega_max")
_SHORT = (ERROR, OMEGA)
_LEAST = 1e-20
"""Below which a squared distance is rounding."""
_ONE_SEED = " ¹"
Runs = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Logged:
    """Last lines of the authors' training logs for one row, a value for each of their seeds.

    Attributes:
        error: on D.
        to_m: mean constraint loss on D.
        omega: the same on Ω.
        worst: the largest on Ω.
        seeds: of theirs that these are of.
    """

    error: tuple[float, ...]
    to_m: tuple[float, ...]
    omega: tuple[float, ...]
    worst: tuple[float, ...]
    seeds: str

    def means(self) -> list[float]:
        """Of each column, in the order of :data:`KEYS`."""
        return [mean(values) for values in (self.error, self.to_m, self.omega, self.worst)]


_CAR, _DRONES, _GLUCOSE = "0, 1, 2", "0, 1, 2", "0, 100, 200"
# By study, method and memories. Some logs have one value for all seeds: their seeds did not reach the network.
LOGS: dict[str, dict[tuple[str, int | None], Logged]] = {
    "vehicle": {
        ("Vanilla", None): Logged((3.3, 444, 268), (3.3, 444, 268), (59, 127, 573), (82, 172, 759), _CAR),
        ("Lagrangian", None): Logged((39, 13, 45), (39, 13, 45), (16, 5.1, 16), (42, 6.6, 21), _CAR),
        ("Constrained", 500): Logged(
            (4281, 4291, 4246), (4281, 4291, 4246), (0.14, 0.21, 0.11), (0.57, 0.63, 2.2), _CAR
        ),
        ("Constrained", 1000): Logged((269, 265, 266), (269, 265, 266), (0.18, 0.18, 0.18), (0.63,), _CAR),
        ("Constrained", 2500): Logged(
            (120, 50, 171), (120, 50, 171), (0.090, 0.038, 0.090), (0.47, 0.33, 0.47), _CAR
        ),
    },
    "pancreas-traces": {
        ("Vanilla", None): Logged((19.9,), (35,), (41.6,), (67,), _GLUCOSE),
        ("Lagrangian", None): Logged((4.0,), (6.7,), (8.4,), (19.5,), _GLUCOSE),
        ("Constrained", 1000): Logged(
            (9.4, 10.5, 9.8), (7.6, 8.9, 8.2), (0.84, 0.92, 0.91), (5.5, 7.0, 7.4), _GLUCOSE
        ),
        ("Constrained", 1500): Logged(
            (9.5, 9.2, 9.3), (7.5, 7.8, 7.4), (0.73, 0.85, 0.69), (4.6, 6.4, 4.9), _GLUCOSE
        ),
        ("Constrained", 2000): Logged(
            (8.8, 9.6, 9.3), (6.8, 7.4, 6.8), (0.65, 0.75, 0.65), (4.4, 5.0, 5.0), _GLUCOSE
        ),
    },
    "drones": {
        ("Vanilla", None): Logged(
            (0.025, 0.025, 0.050), (0.025, 0.025, 0.050), (0.43, 0.43, 0.46), (0.48, 0.49, 0.52), _DRONES
        ),
        ("Lagrangian", None): Logged(
            (0.034, 0.035, 0.020),
            (0.034, 0.035, 0.020),
            (0.029, 0.034, 0.029),
            (0.034, 0.041, 0.038),
            _DRONES,
        ),
        ("Constrained", 800): Logged(
            (0.022, 0.022), (0.022, 0.022), (2.7e-8, 4.5e-8), (3.1e-8, 5.2e-8), "1, 2"
        ),
        ("Constrained", 1000): Logged((0.013, 0.014), (0.013, 0.014), (1.2e-8,), (2.5e-8,), "1, 2"),
        ("Constrained", 2000): Logged((0.013, 0.013), (0.013, 0.013), (1.5e-12,), (5.8e-12,), "1, 2"),
    },
}
# The paper's Table 1: largest and mean rise of predicted glucose.
RISES = {
    ("Vanilla", None): (3.8356, 1.315),
    ("Lagrangian", None): (3.8072, 1.245),
    ("Constrained", 1000): (0.9157, 0.0092),
    ("Constrained", 1500): (0.2047, 0.0027),
    ("Constrained", 2000): (0.1775, 0.0026),
}
RISE_KEYS = ("monotonicity_rise_max", "monotonicity_rise_mean")
# Whose logs stand beside which of our studies, the likest first, and what ours differ in.
BESIDE = {
    "vehicle": {
        "vehicle-patch": "another simulator, parked where the authors park",
        "vehicle": "another simulator, parked anywhere on the map",
    },
    "pancreas-traces": {"pancreas-traces": "the authors' own traces"},
    "drones": {
        "drones-authors": "flights made again by the authors' recipe, their rows and their M",
        "drones": "our simulation, hover anywhere",
    },
}


def runs_of(study: str) -> Runs:
    """Rows of the committed results of a study; none where there are none."""
    path = RESULTS / study / "runs.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def runs_with(runs: Runs, method: str, memories: int | None = None) -> Runs:
    """Of a method: with so many memories, or with those it was run with."""
    own = [run for run in runs if run["method"] == method]
    return [run for run in own if run["memories"] == str(memories)] or own


def means(runs: Runs, keys: Iterable[str]) -> list[float]:
    """Over seeds."""
    return [mean(float(run[key]) for run in runs) for key in keys] if runs else []


def short(value: float) -> str:
    """Two or three digits."""
    if value < _LEAST:
        return "0" if value == 0 else "< 1e-20"
    if 1 <= value < 1e4:
        return f"{value:.3g}" if value < 1e3 else f"{value:,.0f}"
    return f"{value:.2g}" if 1e-3 <= value < 1 else f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")


# README


def rows(study: str) -> list[str]:
    """The README's table about one study."""
    title, memories = STUDIES[study]
    runs = runs_of(study)
    seeds = sorted({run["seed"] for run in runs}, key=int)
    every, title = len(seeds), f"{title} (seeds {', '.join(seeds)})"
    held = {method: own for method in METHODS if (own := runs_with(runs, method, memories))}
    called = THEIRS if "Constrained (paper)" in held else OLDER
    lines = []
    for method in held:
        cells = [_cell(held, method, k) for k in range(len(_SHORT))]
        logs = LOGS.get(study, {})
        # Their constrained model and ours by the same number of memories.
        theirs = called.get(method, "")
        known = logs.get((theirs, memories)) or logs.get((theirs, None))
        beside = [short(mean(known.error)), short(mean(known.omega))] if known else ["", ""]
        name = "M alone" if method == "Trusted" else method
        alone = _ONE_SEED if len({run["seed"] for run in held[method]}) < every else ""
        lines.append(f"| {title} | {name}{alone} | {' | '.join([*cells, *beside])} |")
        title = ""
    return lines


def _below(one: Runs, other: Runs, column: int) -> bool:
    """Whether one method is better than another, over the seeds that both were run with."""
    common = {run["seed"] for run in one} & {run["seed"] for run in other}
    mine, theirs = (
        means([run for run in runs if run["seed"] in common], _SHORT)[column] for runs in (one, other)
    )
    return (mine if mine >= _LEAST else 0.0) < (theirs if theirs >= _LEAST else 0.0)  # rounding is 0


def _better(held: dict[str, Runs], method: str, column: int) -> list[str]:
    """Methods that are better than one, without M's own distance to itself, which wins nothing."""
    return [rival for rival in held if rival != "Trusted" and _below(held[rival], held[method], column)]


def _cell(held: dict[str, Runs], method: str, column: int) -> str:
    """Bold where nothing is better, but for rounding; Tethered's place where something is."""
    text = short(means(held[method], _SHORT)[column])
    if method == "Trusted":
        return text
    better = _better(held, method, column)
    if not better:
        return f"**{text}**"
    return f"{text} (place {len(better) + 1})" if method == "Tethered" else text


def not_won(study: str) -> list[str]:
    """Columns of a study in which another row than Tethered is the least."""
    title, memories = STUDIES[study]
    runs = runs_of(study)
    held = {m: own for m in METHODS if (own := runs_with(runs, m, memories))}
    lost = []
    for column, what in enumerate(("error on D", "distance to M on Ω")):
        better = _better(held, "Tethered", column)
        if better:
            value = {m: means(held[m], _SHORT)[column] for m in ("Tethered", *better)}
            best = min(better, key=lambda method: value[method])
            lost.append(f"{title}, {what} ({short(value['Tethered'])}; {best} has {short(value[best])})")
    return lost


def readme_lines() -> list[str]:
    """The table's rows, and the sentence below it."""
    table = [line for study in STUDIES for line in rows(study)]
    lost = [text for study in STUDIES for text in not_won(study)]
    told = f"Where Tethered does not win: {'; '.join(lost)}." if lost else "Tethered wins every column."
    seeds = (
        f"{_ONE_SEED.strip()} One seed, over which it is compared."
        if any(_ONE_SEED in line for line in table)
        else ""
    )
    return [*table, "", f"{told} {seeds}".strip()]


# docs/artifact.md


@dataclass(frozen=True)
class Compared:
    """A line of what an artifact reviewer compares.

    Attributes:
        claim: in words.
        what: row and column.
        smoke: what to expect of small runs.
        paper: of the committed results; None: they have it not yet.
    """

    claim: str
    what: str
    smoke: str
    paper: Callable[[], str | None]


def _over(study: str, method: str, rival: str, key: str) -> Callable[[], str | None]:
    def told() -> str | None:
        both = [means(runs_with(runs_of(study), name, _most(study)), [key]) for name in (method, rival)]
        return short(both[0][0] / both[1][0]) if all(both) else None

    return told


def _most(study: str) -> int:
    return {"vehicle": 2500, "vehicle-patch": 2500}.get(study, 2000)


def _operator() -> str | None:
    """What the clip does to the error on D, by the ablations that are kept."""
    told = []
    for page in sorted(RESULTS.glob("*/ablation.md")):
        line = re.search(r"^\| operator: [^|]*\| ([^|]*) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
        told += [f"{page.parent.name} {line[1]} orders"] if line else []
    return ", ".join(told) or None


def _middles() -> str | None:
    page = RESULTS / "drones-authors" / "summary.md"
    if not page.is_file():
        return None
    after = page.read_text(encoding="utf-8").partition(
        "Mean squared distance to M on held-out Ω of the middle"
    )[2]
    lines = re.findall(r"^\| \d+ \| (.*) \|$", after.split("\n##")[0], re.MULTILINE)
    values = [float(cell) for line in lines for cell in line.split(" | ")]
    return f"{min(values):.0e} to {max(values):.0e}, by the draw of the gas" if values else None


def _alone() -> str | None:
    told = [
        f"{study} {found}"
        for study in ("vehicle", "pancreas", "drones")
        if (found := _over(study, "Trusted", "Vanilla", ERROR)()) is not None
    ]
    return ", ".join(told) or None


COMPARED = (
    Compared(
        "increments are most of the gap on the vehicle", "Vanilla Δ over Vanilla, error on D", "below 0.01",
        _over("vehicle", "Vanilla Δ", "Vanilla", ERROR),
    ),
    Compared(
        "Tethered is more accurate than M", "Tethered over Trusted, error on D, drones", "below 0.5",
        _over("drones", "Tethered", "Trusted", ERROR),
    ),
    Compared(
        "Constrained Δ conforms far better than Vanilla on drones", "Constrained Δ over Vanilla, Ω", "below 1e-3",
        _over("drones", "Constrained Δ", "Vanilla", OMEGA),
    ),
    Compared(
        "on the authors' flights the paper's order shows: Vanilla, Lagrangian, Constrained",
        "Constrained (paper) over Vanilla, Ω", "below 0.1",
        _over("drones-authors", "Constrained (paper)", "Vanilla", OMEGA),
    ),
    Compared(
        "… and middles of cells without any network show the same", "table *Middles of cells*, Ω", "below 1e-4",
        _middles,
    ),
    Compared(
        "the paper's sigmoid is less accurate than the clip", "ablation, operator, error on D",
        "below 0.5 orders", _operator,
    ),
    Compared(
        "M alone beats Vanilla on D, but for the pancreas", "Trusted over Vanilla",
        "below 1, vehicle and drones", _alone,
    ),
)  # fmt: skip


def artifact_lines() -> list[str]:
    """Rows of the table of comparisons."""
    return [f"| {c.claim} | {c.what} | {c.smoke} | {c.paper() or 'not run yet'} |" for c in COMPARED]


# docs/authors.md


def authors_lines(study: str) -> list[str]:
    """The authors' numbers and ours, row by row; the source of each line at its end."""
    lines = []
    for (method, memories), logged in LOGS[study].items():
        title = f"{method} ({memories})" if memories else method
        cells = map(_with_seeds, (logged.error, logged.to_m, logged.omega, logged.worst))
        source = f"their logs, last evaluation, seeds {logged.seeds}"
        lines.append(f"| {title} | the authors | {' | '.join(cells)} | {source} |")
        for own in BESIDE[study]:
            lines += _ours(own, method, memories, KEYS)
    return lines


def rises_lines() -> list[str]:
    """The paper's Table 1, and ours on the same traces."""
    lines = []
    for (method, memories), values in RISES.items():
        title = f"{method} ({memories})" if memories else method
        lines.append(f"| {title} | the authors | {' | '.join(map(short, values))} | the paper's Table 1 |")
        lines += _ours("pancreas-traces", method, memories, RISE_KEYS)
    return lines


def _with_seeds(values: Sequence[float]) -> str:
    """The mean, and in brackets each seed's where they are told apart."""
    each = ", ".join(f"{value:g}" for value in values)
    return short(mean(values)) if len(values) == 1 else f"{short(mean(values))} ({each})"


def _ours(study: str, method: str, memories: int | None, keys: Sequence[str]) -> list[str]:
    """Our line for a row of theirs: the paper's own method where it was run, else the older one."""
    runs = runs_of(study)
    names = [name for called in (THEIRS, OLDER) for name, theirs in called.items() if theirs == method]
    for name in names:
        own = [
            r for r in runs if r["method"] == name and (memories is None or r["memories"] == str(memories))
        ]
        if own:
            seeds = ", ".join(sorted({run["seed"] for run in own}, key=int))
            source = f"[{study}](results/{study}/runs.csv), seeds {seeds}"
            title = f"{name} ({memories})" if memories else name
            return [f"|  | ours, {study}: {title} | {' | '.join(map(short, means(own, keys)))} | {source} |"]
    return []


HEADERS = {
    study: f"| {title} | whose | error on D | to M on D | to M on Ω | worst on Ω | source |"
    for study, title in (
        ("vehicle", "car"), ("pancreas-traces", "glucose"), ("drones", "drones"),
    )
}  # fmt: skip
RISES_HEADER = "| rise of glucose | whose | largest | mean | source |"
README_HEADER = "| study | method | error on D | to M on Ω | authors: error on D | authors: to M on Ω |"
ARTIFACT_HEADER = "| claim | row, column | smoke | paper |"


def put(path: Path, header: str, lines: Sequence[str], *, paragraph: bool = False) -> None:
    """Replaces the rows below a header; with `paragraph` also the one that follows the table."""
    old = path.read_text(encoding="utf-8").split("\n")
    first = old.index(header) + 2
    last = next(k for k in range(first, len(old)) if not old[k].startswith("|"))
    if paragraph:
        last = next(k for k in range(last + 1, len(old)) if not old[k])
    path.write_text("\n".join([*old[:first], *lines, *old[last:]]), encoding="utf-8")


def tables() -> list[tuple[Path, str, list[str]]]:
    """Files, headers, and what stands below these."""
    authors = ROOT / "docs" / "authors.md"
    return [
        (ROOT / "README.md", README_HEADER, readme_lines()),
        (ROOT / "docs" / "artifact.md", ARTIFACT_HEADER, artifact_lines()),
        *((authors, header, authors_lines(study)) for study, header in HEADERS.items()),
        (authors, RISES_HEADER, rises_lines()),
    ]


def main() -> None:
    """Prints every table, or puts it in its place."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--write", action="store_true")
    write = reader.parse_args().write
    for path, header, lines in tables():
        if write:
            put(path, header, lines, paragraph=path.name == "README.md")
        else:
            print(f"\n{path.relative_to(ROOT)}\n\n{header}", *lines, sep="\n")


if __name__ == "__main__":
    main()
