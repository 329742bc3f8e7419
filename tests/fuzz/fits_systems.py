"""Random trusted models as engineers write them, with the places where they hurt.

Each output is its state (or nothing) plus a few terms; what the terms do is where trouble lives: kinks, bumps a
millionth wide, steep steps, poles outside the box, angles over ±π, huge and tiny scales, cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from subject import run_text

MATRIX = (
    "np.stack([np.stack([2.0 + np.sin({0}), {0}], -1), np.stack([-1.0 * ({0}), 1.5 + 0.0 * ({0})], -1)], -2)"
)


@dataclass(frozen=True)
class System:
    """A trusted model as source, and what a fit needs besides.

    Attributes:
        source: defines ``model(s, u)``.
        states: names of the states; `controls` and `outputs` likewise.
        angles: which of them wrap.
        low: (D,) lower limits of the data; `high` the upper ones.
        spots: (input, place, width) where M hurts.
    """

    source: str
    states: tuple[str, ...]
    controls: tuple[str, ...]
    outputs: tuple[str, ...]
    angles: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    spots: tuple[tuple[int, float, float], ...]

    def build(self) -> Any:
        return run_text(self.source)["model"]


class Author:
    """Writes one system."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dx, self.du = int(rng.integers(1, 4)), int(rng.integers(0, 2))
        self.columns = self.dx + self.du
        self.names = [f"x{k}" for k in range(self.dx)] + [f"u{k}" for k in range(self.du)]
        self.turns = [bool(rng.random() < 0.3) and k < self.dx for k in range(self.columns)]
        scale = 10.0 ** rng.choice([0, 0, 0, 0, -6, -2, 3, 6], self.columns)
        place = rng.choice([0, 0, 0, 1, -3, 30], self.columns) * scale
        self.low, self.high = place - scale, place + scale
        for k in np.flatnonzero(self.turns):
            self.low[k], self.high[k] = -np.pi, np.pi
            if rng.random() < 0.5:
                self.low[k], self.high[k] = np.sort(rng.uniform(-np.pi, np.pi, 2))
        self.spots: list[tuple[int, float, float]] = []

    def _choice(self, items: list[Any] | tuple[Any, ...]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def _inside(self, k: int) -> float:
        low, high = self.low[k], self.high[k]
        return float(self._choice([
            self.rng.uniform(low, high), self.rng.uniform(low, high), 0.5 * (low + high), high, low,
            round(float(self.rng.uniform(low, high)), 1),
        ]))  # fmt: skip

    def term(self, size: float) -> str:
        """One term of about this size."""
        k = int(self.rng.integers(self.columns))
        width = float(self.high[k] - self.low[k]) or 1.0
        name, at = f"{{{k}}}", self._inside(k)
        unit = f"(({name} - {at!r}) / {width!r})"
        kind = int(self.rng.integers(0, 15 + 12))
        if kind in (3, 4, 5, 6, 7, 8):
            narrow = width * self._choice([1e-6, 1e-6, 1e-3, 0.1])
            self.spots.append((k, at, narrow if kind >= 5 else 0.0))
        else:
            narrow = 1.0
        scaled = f"(({name} - {at!r}) / {narrow!r})"
        other = f"{{{int(self.rng.integers(self.columns))}}}"
        texts = [
            unit,
            f"np.sin(3.0 * {unit})",
            f"{unit} ** 2",
            f"np.abs({unit})",
            f"np.maximum({unit}, 0.0)",
            f"np.exp(-{scaled} ** 2)",
            f"1.0 / (1.0 + {scaled} ** 2)",
            f"np.maximum(0.0, 1.0 - np.abs({scaled}))",
            f"np.tanh({scaled})",
            f"np.clip({unit}, -0.2, 0.3)",
            f"1.0 / ({unit} - {self._choice([1.05, 1.5, -1.2])!r})",
            f"(({unit} + 1e8) - 1e8)",
            f"(1.0 - np.cos(1e-3 * {unit})) * 1e6",
            f"np.sqrt({unit} ** 2 + {self._choice([1e-12, 1e-4, 1.0])!r})",
            f"np.sin({other}) * np.cos(2.0 * {unit})",
            # What jumps, what is looked up, what is solved for.
            f"np.sign({unit}) * np.cos({other})",
            f"np.where({scaled} + {other} * {self._choice([0.0, 1e-3])!r} > 0.0, np.sin({unit}), {unit})",
            f"np.floor(3.0 * {unit})",
            f"((2.0 * {unit}) % {self._choice([1.0, 0.3])!r})",
            f"np.interp({unit}, [-0.7, -0.1, 0.0, 0.4], [1.0, {self._choice([-1.0, 1.0])!r}, 0.0, 0.5])",
            f"np.array([0.0, 0.4, -0.3, 1.0])[np.searchsorted([-0.4, 0.0, 0.3], {unit})]",
            f"np.piecewise({unit}, [{unit} < 0.1], [lambda v: 2.0 * v, lambda v: v * v])",
            f"np.arctan2({unit}, {self._choice(['-0.2', '0.0', '1.0'])} + np.cos({other}))",
            f"np.linalg.solve({MATRIX.format(unit)}, np.stack([np.sin({other}), {unit}], -1)[..., None])[..., 0, 0]",
            f"np.linalg.inv({MATRIX.format(unit)})[..., 0, 1]",
            f"np.linalg.det({MATRIX.format(unit)})",
            f"np.fmod(2.5 * {unit}, 1.0) * {unit}",
        ]
        if kind == 10:
            self.spots.append((k, at + 1.05 * width, width))
        return f"{float(size)!r} * {texts[kind]}"

    def angle(self) -> str:
        """An output that turns."""
        k = int(self.rng.integers(self.columns))
        width = float(self.high[k] - self.low[k]) or 1.0
        unit = f"(({{{k}}} - {self._inside(k)!r}) / {width!r})"
        return self._choice([
            f"np.pi + 0.5 * {unit}", f"3.0 + {unit}", f"-np.pi + 1e-6 * {unit}", f"40.0 * {unit}",
            f"20 * np.pi + 0.3 * {unit}", f"np.arctan2({unit}, 1.5)", f"np.arctan2(0.4, 3.0 * {unit})",
            f"np.pi + 1e-3 * {self.term(1.0)}", f"6.0 * {unit}", f"1e4 + {unit}",
        ])  # fmt: skip

    def outputs(self) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:
        """Expressions, names of the outputs, names of those that are angles."""
        other = self.rng.random() < 0.3
        # As many outputs as states would be taken for their next values.
        count = self._choice([k for k in (1, 2, 3) if k != self.dx]) if other else self.dx
        names, angles, texts = [], [], []
        for j in range(count):
            turning = self.rng.random() < 0.35 if other else self.turns[j]
            names.append(f"y{j}" if other else self.names[j])
            angles += [names[-1]] if turning else []
            width = 2.0 if other else float(self.high[j] - self.low[j]) or 1.0
            size = float(width * 10.0 ** self.rng.uniform(-3, 0))
            parts = [self.term(size) for _ in range(int(self.rng.integers(1, 4)))]
            if other:
                texts.append(self.angle() if turning else " + ".join(parts))
            elif turning and self.rng.random() < 0.5:
                texts.append(self.angle() if self.rng.random() < 0.5 else f"{{{j}}} + {self.angle()}")
            else:
                texts.append(" + ".join([f"{{{j}}}", *parts]))
        return texts, tuple(names), tuple(angles)

    def source(self, texts: list[str]) -> str:
        """The same expressions in one of several styles."""
        style = self._choice(
            ["columns", "transposed", "rows", "assigned", "split", "in place", "unpacked", "list"]
        )
        batch = [f"s[:, {k}]" for k in range(self.dx)] + [f"u[:, {k}]" for k in range(self.du)]
        row = [f"r[{k}]" for k in range(self.dx)] + [f"c[{k}]" for k in range(self.du)]
        filled = [text.format(*batch) for text in texts]
        count = len(texts)
        join = self._choice(
            [
                "np.column_stack([{}])",
                "np.stack([{}], axis=1)",
                "np.array([{}]).T",
                "np.c_[{}]",
                "np.stack(({}), axis=-1)",
            ]
        )
        if style == "rows":
            return self._rows([text.format(*row) for text in texts])
        if style == "assigned":
            make = self._choice([f"np.zeros((len(s), {count}))", f"np.empty((len(s), {count}))"])
            lines = (
                [f"out = {make}"]
                + [f"out[:, {j}] = {text}" for j, text in enumerate(filled)]
                + ["return out"]
            )
        elif style == "split" and count > 1:
            joined = join.format(", ".join(filled[:1] + ["s[:, 0] * 0.0"] * (count - 1)) + ",")
            lines = [f"nxt = {joined}", f"parts = np.split(nxt, {count}, axis=1)"]
            lines += [f"parts[{j}] += ({text})[:, None]" for j, text in enumerate(filled) if j] + [
                "return nxt"
            ]
        elif style == "in place":
            joined = join.format(", ".join(["0.0 * s[:, 0]"] * count) + ",")
            lines = [f"out = {joined}.copy()", *(f"col{j} = out.T[{j}]" for j in range(count))]
            lines += [f"col{j} += {text}" for j, text in enumerate(filled)] + ["return out"]
        elif style == "unpacked":
            names = [f"a{k}" for k in range(self.columns)]
            lines = [f"{', '.join(names[: self.dx])}, = s.T"]
            lines += [f"{', '.join(names[self.dx :])}, = u.T"] if self.du else []
            filled = [text.format(*names) for text in texts]
            lines += [f"return {join.format(', '.join(filled) + ',')}"]
        elif style == "transposed":
            lines = ["rows = []", *(f"rows.append({text})" for text in filled), "return np.array(rows).T"]
        else:
            lines = [f"return {join.format(', '.join(filled) + ',')}"]
        return "import numpy as np\n\ndef model(s, u):\n    " + "\n    ".join(lines) + "\n"

    def _rows(self, texts: list[str]) -> str:
        count = len(texts)
        if count == self.dx and self.rng.random() < 0.6:
            keep = ", ".join(f"x{k}" for k in range(self.dx))
            lines = ["q = r.copy()", f"{keep}, = q"]
            for j, text in enumerate(texts):
                for k in range(self.dx):
                    text = text.replace(f"r[{k}]", f"x{k}")
                lines.append(f"q[{j}] = {text}")
            lines.append("return q")
        else:
            lines = [f"return {self._choice(['np.array([{}])', '[{}]']).format(', '.join(texts))}"]
        wrapper = self._choice([
            "return np.array([step(r, c) for r, c in zip(s, u)])",
            f"out = np.empty((len(s), {count}))\n    for k in range(len(s)):\n        out[k] = step(s[k], u[k])\n    return out",
        ])  # fmt: skip
        body = "\n    ".join(lines)
        return f"import numpy as np\n\ndef step(r, c):\n    {body}\n\ndef model(s, u):\n    {wrapper}\n"


def write_system(rng: np.random.Generator) -> System:
    author = Author(rng)
    texts, outputs, turning = author.outputs()
    angles = [name for name, turns in zip(author.names, author.turns, strict=True) if turns]
    return System(
        author.source(texts),
        tuple(author.names[: author.dx]),
        tuple(author.names[author.dx :]),
        outputs,
        tuple(dict.fromkeys([*angles, *turning])),
        author.low,
        author.high,
        tuple(author.spots),
    )
