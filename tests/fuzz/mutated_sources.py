"""Mutates exported C files and FMUs: bytes, tables, operators, lines, words, archives, models written anew; `verify` reads.

    python tests/fuzz/mutated_sources.py --count 1000 --seed 0

Every case must be refused with a line, or proved; what is proved is compiled and run, and no output may then be
farther from M than its delta. Each case is a function of the seed and its number alone. Half are C files, each with its
header beside it, half FMUs of either version, of which the binaries are not vouched for and are not run.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import re
import subprocess
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mutated_onnx import CLAIMED, Original, pushed, scaled, small_model, verdict_on

import tether
from tether.export import export
from tether.foundation.errors import StorageError

Random = np.random.Generator
Files = dict[str, bytes]
_LOOP = """
#include "NAME.c"
void loop(long rows, const double *x, const double *u, double *next, double *delta, int *inside)
{
    for (long k = 0; k < rows; ++k)
        inside[k] = NAME_predict(x + 2 * k, u + k, next + 2 * k, 0, 0, delta + 2 * k);
}
"""
_OPERATORS = (
    ("<", "<="),
    (">", ">="),
    (" + ", " - "),
    (" * ", " + "),
    (" = 0;", " = 1;"),
    ("!", ""),
    ("||", "&&"),
)


def some_byte(random: Random, content: bytes) -> bytes:
    """Any byte."""
    changed = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        changed[int(random.integers(len(changed)))] ^= int(random.integers(1, 256))
    return bytes(changed)


def a_number(random: Random, content: bytes) -> bytes:
    """One number of a table, or of the code."""
    places = [*re.finditer(rb"(?<![\w.])-?(0x[0-9a-f.]+p[+-]?\d+|\d+)(?![\w.])", content)]
    if not places:
        return content + b" "
    place = places[int(random.integers(len(places)))]
    old = float.fromhex(place[0].decode()) if b"x" in place[0] else float(place[0])
    new = old * float(random.choice([0.0, 0.5, 0.999, -1.0, 2.0]))
    text = (new if new != old else old + 1).hex() if b"x" in place[0] else str(int(old) + 1)
    return content[: place.start()] + text.encode() + content[place.end() :]


def an_operator(random: Random, content: bytes) -> bytes:
    """What a line does."""
    one, other = _OPERATORS[int(random.integers(len(_OPERATORS)))]
    places = [found.start() for found in re.finditer(re.escape(one.encode()), content)]
    if not places:
        return content[:-1]
    place = places[int(random.integers(len(places)))]
    return content[:place] + other.encode() + content[place + len(one) :]


def a_line(random: Random, content: bytes) -> bytes:
    """A line is gone, there twice, ends otherwise, or has changed places."""
    lines = content.split(b"\n")
    one, other = (int(k) for k in random.integers(len(lines), size=2))
    way = int(random.integers(4))
    if way == 0:
        del lines[one]
    elif way == 1:
        lines.insert(other, lines[one] if lines[one] != lines[other] else b"#define isnan(x) 0")
    elif way == 2:
        lines[one] += b"\r"
    else:
        lines[one], lines[other] = lines[other], lines[one] + b" "
    return b"\n".join(lines)


def a_word(random: Random, content: bytes) -> bytes:
    """Of what the file says of itself."""
    ways = (
        (b"proved", b"sampled"),
        (b"float64", b"float32"),
        (b'"', b"'"),
        (b"delta", b"Delta"),
        (b"*/", b"* /"),
    )
    one, other = ways[int(random.integers(len(ways)))]
    return content.replace(one, other, 1) if one in content else content + b"\n"


TEXTS: tuple[Callable[[Random, bytes], bytes], ...] = (some_byte, a_number, an_operator, a_line, a_word)


def a_whole_model(random: Random, form: str, original: Any, certificate: dict[str, Any]) -> Files:
    """Another model, written as it should be: only the proof can tell."""
    state = {name: value.clone() for name, value in original.tether.state_dict().items()}
    name = CLAIMED[int(random.integers(len(CLAIMED)))]
    place = int(random.integers(state[name].numel()))
    factor = float(random.choice([0.0, 0.5, 0.99, 1.01, 2.0]))
    try:
        changed = tether.load(original.path)
        changed.tether.load_state_dict({**state, name: scaled(state[name], place, factor)})
        with tempfile.TemporaryDirectory() as folder:
            made = export(changed, to=form, out=folder, name="cart", certificate=certificate)
            return {path.name: path.read_bytes() for path in made}
    except (ValueError, StorageError):  # cannot even be written
        return {_main_file(form): b""}


def _main_file(form: str) -> str:
    """What is verified."""
    return "cart.c" if form == "c" else "cart.fmu"


def an_archive(random: Random, content: bytes) -> bytes:
    """An archive's bytes, names or order."""
    way = int(random.integers(4))
    if way == 0:
        return some_byte(random, content)
    entries = _entries(content)
    names = list(entries)
    one = names[int(random.integers(len(names)))]
    if way == 1:
        del entries[one]
    elif way == 2:
        other = str(random.choice(["sources/math.h", "sources/../x.c", "binaries/x", one.upper(), one + "/"]))
        entries[other] = entries[one]
    else:
        entries = dict(zip(names, np.roll(np.array(list(entries.values()), dtype=object), 1), strict=True))
    return _archive(entries)


def _entries(content: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _archive(entries: Files) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, part in entries.items():
            archive.writestr(name, part)
    return whole.getvalue()


def mutated(model: Path, trusted: Any, *, count: int, seed: int, only: int | None = None) -> Counter[str]:
    """How many mutated files were refused and proved, by mutation and in all; raises where neither is so."""
    original, counts = Original(model), Counter()
    certificate = tether.certify(tether.load(model), tether.TrustedModel(trusted)).as_dict()
    with tempfile.TemporaryDirectory() as place:
        folder, files = Path(place), {}
        for form in ("c", "fmu", "fmu3"):
            made = export(
                tether.load(model), to=form, out=folder / form, name="cart", certificate=certificate
            )
            files[form] = {path.name: path.read_bytes() for path in made}
        for number in range(count) if only is None else [only]:
            random = np.random.default_rng([seed, number])
            form = str(random.choice(["c", "fmu", "fmu3"], p=[0.5, 0.25, 0.25]))
            name, changed = _case(random, form, files[form], original, certificate)
            own = folder / f"case {number}"
            own.mkdir()
            for part, content in changed.items():
                (own / part).write_bytes(content)
            verdict = verdict_on(own / _main_file(form), trusted)
            if verdict == "proved":
                _hold(own, form, trusted, original.tether, random, number)
            counts.update([verdict, f"{form}: {name}, {verdict}"])
    return counts


def _case(
    random: Random, form: str, files: Files, original: Any, certificate: dict[str, Any]
) -> tuple[str, Files]:
    """What was done, and the files then."""
    ways = [*TEXTS, a_whole_model, *([an_archive] if form != "c" else [])]
    way: Any = ways[int(random.integers(len(ways)))]
    if way is a_whole_model:
        return way.__name__, way(random, form, original, certificate)
    if way is an_archive:
        return way.__name__, {"cart.fmu": way(random, files["cart.fmu"])}
    own = dict(files) if form == "c" else _entries(files["cart.fmu"])
    # The source most of the time; the rest of the time any other text.
    source = next(name for name in own if name.endswith("cart.c"))
    texts = [name for name in own if not name.startswith("binaries/")]
    name = source if random.random() < 0.6 else texts[int(random.integers(len(texts)))]
    own[name] = way(random, own[name])
    return way.__name__, own if form == "c" else {"cart.fmu": _archive(own)}


def _hold(folder: Path, form: str, trusted: Any, own: Any, random: Random, number: int) -> None:
    """Raises where a file that was proved leaves its delta."""
    if form != "c":
        with zipfile.ZipFile(folder / "cart.fmu") as archive:  # whose binaries may be damaged
            for name in archive.namelist():
                if name.startswith("sources/"):
                    (folder / Path(name).name).write_bytes(archive.read(name))
    (folder / "loop.c").write_text(_LOOP.replace("NAME", "cart"))
    command = ["cc", "-std=c99", "-O1", "-shared", "-fPIC", "loop.c", "-o", f"loop{number}.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    lower, upper = own.bounds.tree.lower, own.bounds.tree.upper
    inputs = random.uniform(lower - 0.1, upper + 0.1, (2000, len(lower)))
    states, controls = (np.ascontiguousarray(part) for part in (inputs[:, :2], inputs[:, 2:]))
    following, delta, inside = np.empty((2000, 2)), np.empty((2000, 2)), np.empty(2000, np.int32)
    places = [part.ctypes.data_as(ctypes.c_void_p) for part in (states, controls, following, delta, inside)]
    ctypes.CDLL(str(folder / f"loop{number}.so")).loop(ctypes.c_long(2000), *places)
    away = np.abs(following - trusted(states, controls))
    assert (away <= delta)[inside == 1].all(), f"case {number}: what was proved is false"
    assert inside.any()


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        tether.save(small_model(), path)
        counts = mutated(path, pushed, count=asked.count, seed=asked.seed, only=asked.only)
    for name, number in sorted(counts.items()):
        print(f"{name}: {number}")


if __name__ == "__main__":
    _main()
