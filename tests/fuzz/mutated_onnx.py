"""Mutates an exported ONNX file: bytes, tables, operators, words, and whole models signed anew; `verify` reads it.

    python tests/fuzz/mutated_onnx.py --count 1000 --seed 0

Every case must be refused with a line, or proved; what is proved is run in ONNX Runtime, and no output may then be
farther from M than its delta. Each case is a function of the seed and its number alone.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

import tether
from tether.export import export
from tether.foundation.errors import CertificateError, StorageError

Random = np.random.Generator


def some_byte(random: Random, content: bytes, model: Any) -> bytes:
    """Any byte of the file."""
    changed = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        changed[int(random.integers(len(changed)))] ^= int(random.integers(1, 256))
    return bytes(changed)


def a_table(random: Random, content: bytes, model: Any) -> bytes:
    """One number of an initialiser, or of the tree."""
    held = onnx.ModelProto.FromString(content)
    trees = [node for node in held.graph.node if node.op_type == "TreeEnsembleRegressor"]
    tensors = [*held.graph.initializer, *(own.t for node in trees for own in node.attribute if own.t.dims)]
    tensor = tensors[int(random.integers(len(tensors)))]
    values = np.array(onnx.numpy_helper.to_array(tensor))
    place = int(random.integers(max(values.size, 1)))
    if values.size:
        old = values.reshape(-1)[place]
        factor = random.choice([0.0, 0.5, 0.999, 1.0000001, -1.0, 2.0])
        with np.errstate(invalid="ignore"):
            new = ~old if values.dtype == bool else (old * factor).astype(values.dtype)
            values.reshape(-1)[place] = new if new != old else old + 1
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return held.SerializeToString()


def an_operator(random: Random, content: bytes, model: Any) -> bytes:
    """What a node does, what it is given, or whether it is there."""
    held = onnx.ModelProto.FromString(content)
    nodes = held.graph.node
    one, other = (nodes[int(k)] for k in random.integers(len(nodes), size=2))
    way = int(random.integers(5))
    if way == 0:
        one.op_type = str(random.choice(["Add", "Sub", "Mul", "Max", "Min", "Identity", "Less", "Greater"]))
    elif way == 1 and len(one.input):
        one.input[int(random.integers(len(one.input)))] = other.output[0]
    elif way == 2:
        nodes.remove(one)
    elif way == 3 and one.attribute:
        attribute = one.attribute[int(random.integers(len(one.attribute)))]
        attribute.i += 1
        if attribute.ints:
            attribute.ints[int(random.integers(len(attribute.ints)))] += 1
    else:
        one.CopyFrom(other)
    return held.SerializeToString()


def a_word(random: Random, content: bytes, model: Any) -> bytes:
    """A letter of the metadata, or an entry."""
    held = onnx.ModelProto.FromString(content)
    entry = held.metadata_props[int(random.integers(len(held.metadata_props)))]
    way, place = int(random.integers(3)), int(random.integers(max(1, len(entry.value))))
    if way == 0:
        letter = chr(int(random.integers(32, 127)))
        entry.value = entry.value[:place] + letter + entry.value[place + 1 :]
    elif way == 1:
        entry.value = entry.value.replace("float64", "float32").replace("fixed", "inputs")
    else:
        held.metadata_props.add(key="tether_certificate", value='{"certified": true}')
    return held.SerializeToString()


CLAIMED = (
    "value", "slope", "remainder", "reference", "half_width", "leaves.threshold", "leaves.lower", "leaves.upper",
)  # fmt: skip
"""Arrays that a claim is about."""


def a_whole_model(random: Random, content: bytes, model: Any) -> bytes:
    """Another model, exported as it should be: only the proof can tell."""
    state = {name: value.clone() for name, value in model.tether.state_dict().items()}
    name = CLAIMED[int(random.integers(len(CLAIMED)))]
    place = int(random.integers(state[name].numel()))
    factor = float(random.choice([0.0, 0.5, 0.99, 1.01, 2.0]))
    try:
        changed = tether.load(model.path)
        changed.tether.load_state_dict({**state, name: scaled(state[name], place, factor)})
        with tempfile.TemporaryDirectory() as folder:
            return export(changed, to="onnx", out=folder)[0].read_bytes()
    except (ValueError, StorageError):  # cannot even be written
        return content[:-1]


def scaled(values: torch.Tensor, place: int, factor: float) -> torch.Tensor:
    flat = values.clone().reshape(-1)
    flat[place] *= factor
    return flat.reshape(values.shape)


MUTATIONS: tuple[Callable[[Random, bytes, Any], bytes], ...] = (
    some_byte, a_table, an_operator, a_word, a_whole_model,
)  # fmt: skip


class Original:
    """A model and where its file is."""

    def __init__(self, path: Path) -> None:
        self.path, self.tether = path, tether.load(path).tether


def mutated(model: Path, trusted: Any, *, count: int, seed: int, only: int | None = None) -> Counter[str]:
    """How many mutated files were refused and proved, by mutation and in all; raises where neither is so."""
    original, counts = Original(model), Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        content = export(tether.load(model), to="onnx", out=folder / "original")[0].read_bytes()
        for number in range(count) if only is None else [only]:
            random = np.random.default_rng([seed, number])
            mutation = MUTATIONS[int(random.integers(len(MUTATIONS)))]
            path = folder / "mutated.onnx"
            path.write_bytes(mutation(random, content, original))
            verdict = verdict_on(path, trusted)
            if verdict == "proved":
                _hold(path, trusted, original.tether, random, number)
            counts.update([verdict, f"{mutation.__name__}, {verdict}"])
    return counts


def verdict_on(path: Path, trusted: Any) -> str:
    try:
        return "proved" if tether.verify(path, trusted).verified else "estimated"
    except (CertificateError, StorageError) as error:
        return "refused" if "\n" not in str(error) else "refused in many lines"


def _hold(path: Path, trusted: Any, own: Any, random: Random, number: int) -> None:
    """Raises where a file that was proved leaves its delta."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    lower, upper = own.bounds.tree.lower, own.bounds.tree.upper
    inputs = random.uniform(lower - 0.1, upper + 0.1, (2000, len(lower)))
    states = session.get_inputs()[0].shape[1]
    given = {"states": inputs[:, :states], "controls": inputs[:, states:]}
    following, _, _, delta, inside = session.run(None, given)
    known = tether.TrustedModel(trusted) if not isinstance(trusted, tether.TrustedModel) else trusted
    away = np.abs(following - known.function(given["states"], given["controls"]))
    assert (away <= delta)[inside].all(), f"case {number}: what was proved is false"


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


def pushed(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """A cart without friction whose push fades with speed."""
    x, v = states[:, 0], states[:, 1]
    return np.stack([x + 0.1 * v, v + 0.1 * controls[:, 0] * np.cos(v)], axis=1)


def small_model() -> Any:
    """Of a cart with friction."""
    random = np.random.default_rng(0)
    states, controls = random.normal(size=(400, 2)), random.normal(size=(400, 1))
    following = pushed(states, controls) - 0.03 * states * [0.0, 1.0]
    data = tether.Transitions.from_arrays(
        states,
        controls,
        following,
        episodes=np.arange(400) // 20,
        schema=tether.make_schema(["x", "v"], ["u"]),
    )
    training = tether.TrainingConfig(steps=20)
    return tether.fit(data, trusted=pushed, training=training, memories=10, leaves=30, hidden=(4,))


if __name__ == "__main__":
    _main()
