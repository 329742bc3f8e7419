"""What the files of a finished run hold: checked once, when they are read."""

from __future__ import annotations

import base64
import binascii
import re
from math import isqrt
from typing import Any

from tether.foundation.documents import (
    Misfit,
    at_least_zero,
    flag,
    items,
    mapping,
    maybe,
    number,
    one_of,
    record,
    share,
    text,
    whole,
)
from tether.foundation.wording import MEANING

LOSSES = ("approximation_loss_D", "constraint_loss_D_mean", "constraint_loss_omega_mean",
          "constraint_loss_omega_max")  # fmt: skip
_LEVELS = one_of(*MEANING, "direct")
_DRAWN_CHARACTERS = 8 << 20
EXPLORER_FORMAT = 2
"""Of ``explorer.json``, which the page's script draws."""

_OUTPUT_DELTA = record(
    {
        "name": text,
        "unit": text,
        "maximum": at_least_zero,
        "median": at_least_zero,
        "held_out": maybe(items(at_least_zero, count=2)),
        "lemma": maybe(at_least_zero),
        "worst_cells": items(whole()),
    },
    {"single": maybe(at_least_zero), "remainder": maybe(items(maybe(at_least_zero), count=2))},
)
_DOMAIN = record(
    {
        "radius": maybe(items(at_least_zero, count=2)),
        "box": mapping(items(number, count=2)),
        "coverage_D": maybe(share),
        "coverage_omega": maybe(share),
    },
    {"coverage_box": maybe(share)},
)
_BAND = record(
    {
        "probability": share,
        "alpha": share,
        "inside": share,
        "episodes": whole(1),
        "missed": maybe(items(share)),
        "rows": items(whole()),
    }
)
_RECHECK = record(
    {
        "points": whole(),
        "max_ratio": at_least_zero,
        "farthest": items(at_least_zero),
        "outside_bounds": share,
    }
)
_COST = record(
    {
        "epsilon": items(at_least_zero),
        "alpha_diameter": maybe(items(at_least_zero)),
        "paper_bound": maybe(items(at_least_zero)),
        "paper_holds": maybe(share),
        "sharp_holds": share,
        "tether_miss": items(at_least_zero),
        "tether_miss_share": share,
    }
)
_MONOTONICITY = record({"claim": text, "declared": items(text), "assumptions": items(text)})
certificate = record(
    {
        "claim": text,
        "evidence": _LEVELS,
        "certified": flag,
        "assumptions": items(text),
        "deltas": items(_OUTPUT_DELTA),
        "domain": _DOMAIN,
        "recheck": _RECHECK,
        "trusted_name": text,
        "trusted_source_sha256": maybe(text),
    },
    {
        "approximation_cost": _COST,
        "of": text,
        "monotonicity": maybe(_MONOTONICITY),
        "band": maybe(_BAND),
        "concerns": items(text),
        "why": maybe(text),
    },
)
"""What ``certificate.json`` holds."""


evaluation = record({"method": text, "step": whole(), **dict.fromkeys(LOSSES, at_least_zero)})
"""A line of ``metrics.jsonl``."""

_RUN = record(
    {"method": text},
    {
        "memories": maybe(whole(1)),
        "seed": whole(),
        **dict.fromkeys(LOSSES, at_least_zero),
        "rmse": mapping(at_least_zero),
        "worst_error": mapping(at_least_zero),
        "evidence_level": _LEVELS,
        "coverage_D": share,
        "coverage_omega": share,
        "attack_max_ratio": maybe(at_least_zero),
        "attack_evaluations": maybe(whole()),
        "delta_certified": mapping(record({"max": at_least_zero})),
        "delta_D": maybe(mapping(record({"median": at_least_zero}))),
        "certificate": maybe(certificate),
        "history": items(record({"step": whole(), **dict.fromkeys(LOSSES, at_least_zero)})),
    },
)
_SECTION = record(
    {
        "title": text,
        "paragraphs": items(text),
        "grids": items(record({"title": text, "header": items(text), "rows": items(items(text))})),
        "pictures": items(record({"name": text, "caption": text})),
    },
    {"animations": items(record({"name": text, "caption": text}))},
)


def _colour(value: Any, place: str) -> None:
    text(value, place)
    if not re.fullmatch("#[0-9A-Fa-f]{6}", value):
        raise Misfit(f"`{place}` must be a colour such as #0072B2; got {value!r:.20}")


_CURVES = record(
    {
        "titles": mapping(text),
        "seeds": whole(1),
        "methods": items(
            record(
                {
                    "name": text,
                    "color": _colour,
                    "width": number,
                    "alpha": share,
                    "dash": items(at_least_zero),
                    "steps": items(whole()),
                    "metrics": mapping(mapping(items(number))),
                }
            )
        ),
    }
)
_RESULTS = record(
    {"name": text, "runs": items(_RUN), "units": mapping(text)},
    {
        "title": text,
        "scale": maybe(text),
        "command": text,
        "versions": mapping(text),
        "claims": items(record({"said": text, "measured": text, "holds": flag}, {"source": text})),
        "failed": items(text),
        "headings": mapping(text),
        "sections": items(_SECTION),
        "curves": maybe(_CURVES),
    },
)


def results(value: Any, place: str) -> None:
    """What ``results.json`` holds."""
    _RESULTS(value, place)
    if not value["runs"]:
        raise Misfit("`runs` must hold at least one run; got none")
    for k, run in enumerate(value["runs"]):
        _check_run(run, f"runs[{k}]")
        for name in value.get("headings", {}):
            maybe(number)(run.get(name), f"runs[{k}].{name}")
    for method in (value.get("curves") or {"methods": []})["methods"]:
        _check_curve(method, value["curves"]["titles"])
    for k, grid in ((k, grid) for k, s in enumerate(value.get("sections", [])) for grid in s["grids"]):
        if any(len(row) != len(grid["header"]) for row in grid["rows"]):
            raise Misfit(f"`sections[{k}].grids` must have rows as long as their header; got another")


def _check_curve(method: dict[str, Any], titles: dict[str, str]) -> None:
    """Every metric of a method, with a value for each step."""
    for name in titles:
        lines = method["metrics"].get(name, {})
        if "mean" not in lines or any(len(line) != len(method["steps"]) for line in lines.values()):
            raise Misfit(f"`curves.methods` must have {name} at every step of {method['name']!r:.40}")


def _check_run(run: dict[str, Any], place: str) -> None:
    """What a run must say because it says something else."""
    if run["method"] != "Trusted" and "delta_certified" not in run and LOSSES[0] not in run:
        raise Misfit(f"`{place}.{LOSSES[0]}` is missing")
    claims = "delta_certified" in run or run.get("attack_max_ratio") is not None
    if claims and "evidence_level" not in run:
        raise Misfit(f"`{place}.evidence_level` is missing")
    if "coverage_D" not in run or "delta_certified" not in run:
        return
    for name in ("coverage_omega", "evidence_level", "delta_D", LOSSES[0]):
        if name not in run:
            raise Misfit(f"`{place}.{name}` is missing")
    missing = set(run["delta_certified"]) - set(run["delta_D"] or run["delta_certified"])
    if missing:
        raise Misfit(f"`{place}.delta_D` must have the outputs of `delta_certified`; got none for {missing}")


def _coded(value: Any, place: str) -> None:
    """Bytes as text, few enough to draw."""
    text(value, place)
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit(f"`{place}` must be bytes in base 64; it is not") from None
    if len(value) > _DRAWN_CHARACTERS:
        raise Misfit(f"`{place}` must have at most {_DRAWN_CHARACTERS:,} characters; got {len(value):,}")


_PACKED = record({"shape": items(whole(), count=2), "low": _coded, "step": _coded, "codes": _coded})


def _table(value: Any, place: str) -> None:
    """A matrix in 16-bit codes, as many as its shape says."""
    _PACKED(value, place)
    rows, columns = value["shape"]
    for name, bytes_wanted in (("low", 4 * columns), ("step", 4 * columns), ("codes", 2 * rows * columns)):
        held = len(base64.b64decode(value[name]))
        if held != bytes_wanted:
            raise Misfit(f"`{place}.{name}` must have {bytes_wanted} bytes for its shape; got {held}")


_EXPLORER = record(
    {
        "format": whole(1),
        "name": text,
        "kind": text,
        "evidence": text,
        "inputs": items(text),
        "outputs": items(text),
        "units": mapping(text),
        "scale": items(number),
        "reach": at_least_zero,
        "box": items(items(number), count=2),
        "data": _table,
        "probes": _table,
        "cells": maybe(record({"radii": items(number), "memories": _table, "delta": _table})),
        "everywhere": maybe(items(at_least_zero)),
        "start": items(whole()),
        "planes": items(items(whole(), count=2)),
        "references": items(
            record(
                {
                    "label": text,
                    "inputs": items(number),
                    "spans": items(items(number, count=2)),
                    "cells": _coded,
                    "lines": _table,
                    "deltas": items(_table),
                }
            )
        ),
    }
)


def explorer(value: Any, place: str) -> None:
    """What ``explorer.json`` holds, of the format that the page can draw or of another."""
    record({"format": whole(1)})(value, place)
    if value["format"] != EXPLORER_FORMAT:
        return
    _EXPLORER(value, place)
    inputs, outputs = len(value["inputs"]), len(value["outputs"])
    lengths = {"scale": len(value["scale"]), "box": min(map(len, value["box"]))}
    for name in ("data", "probes"):
        lengths[name] = value[name]["shape"][1]
    for k, reference in enumerate(value["references"]):
        _check_reference(reference, f"references[{k}]", inputs, outputs, len(value["planes"]))
        lengths[f"references[{k}].inputs"] = len(reference["inputs"])
        lengths[f"references[{k}].spans"] = len(reference["spans"])
    for name, length in lengths.items():
        if length != inputs:
            raise Misfit(f"`{name}` must have one entry for each of {inputs} inputs; got {length}")
    named = [*value["start"], *(k for plane in value["planes"] for k in plane)]
    if not (value["references"] and value["start"] and max(named) < inputs):
        raise Misfit("`references`, `start` and `planes` must be there and of the inputs; they are not")
    _check_slices(value, inputs, outputs)


def _check_reference(reference: dict[str, Any], place: str, inputs: int, outputs: int, planes: int) -> None:
    """Lines along every input, and delta on every plane."""
    rows, columns = reference["lines"]["shape"]
    if columns != 4 * inputs * outputs or len(base64.b64decode(reference["cells"])) != 4 * inputs * rows:
        raise Misfit(f"`{place}` must have lines along every input; got {rows} x {columns} numbers")
    shapes = [part["shape"] for part in reference["deltas"]]
    if len(shapes) != planes or any(shape != [max(1, isqrt(shape[0])) ** 2, outputs] for shape in shapes):
        raise Misfit(f"`{place}.deltas` must have a square for each of {planes} planes; got {shapes!r:.60}")


def _check_slices(value: dict[str, Any], inputs: int, outputs: int) -> None:
    """One of three: cells, planes, or one delta for each output."""
    cells, everywhere = value["cells"], value["everywhere"]
    if [cells is not None, everywhere is not None, bool(value["planes"])].count(True) != 1:
        raise Misfit("`cells`, `everywhere` and `planes` must be one of them alone; they are not")
    if everywhere is not None and len(everywhere) != outputs:
        raise Misfit(f"`everywhere` must have one entry for each of {outputs} outputs; got {len(everywhere)}")
    if cells is None:
        return
    count = cells["memories"]["shape"][0]
    for name, shape in {"memories": [count, inputs], "delta": [count, outputs]}.items():
        if cells[name]["shape"] != shape:
            raise Misfit(f"`cells.{name}.shape` must be {shape}; got {cells[name]['shape']}")
    if not count or len(cells["radii"]) not in (1, count):
        raise Misfit(f"`cells.radii` must fit {count} cells; got {len(cells['radii'])}")
