"""Reading a certificate as an auditor: somebody hands over a model file, a certificate and the trusted model.

Five questions, none of which needs their data: is it about this M; what does it claim; where; does it hold;
and what does it not say.
"""

import json
import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tether
from tether_studies import parked_car

TINY = bool(os.environ.get("TETHER_TINY"))
M = parked_car.TRUSTED

# What the other side did, and handed over: two files, and M as code.
driven = parked_car.drive(episodes=12 if TINY else 60)
car = tether.fit(
    driven, trusted=M, probes=parked_car.parked(driven, count=500), domain=parked_car.DOMAIN,
    memories=50 if TINY else 300, leaves=300 if TINY else 4000, hidden=(32, 32),
    training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip
tether.save(car, "car.safetensors")
Path("certificate.json").write_text(json.dumps(tether.certify(car, M).as_dict()))

# From here on: the auditor.
said = json.loads(Path("certificate.json").read_text())
same = said["trusted_source_sha256"] == tether.load_trusted(M).source_digest
print(f"1. About this M? {same} ({said['trusted_name']})")
print(f"2. What? {said['claim']}")
for delta in said["deltas"]:
    print(f"   {delta['name']}: at most {delta['maximum']:.3g} {delta['unit']}, median {delta['median']:.3g}")
print("3. Where?")
for name, (low, high) in said["domain"]["box"].items():
    print(f"   {name} {low:.3g} to {high:.3g}")
shown = tether.verify("car.safetensors", M, "certificate.json")  # shares no code with what built it
print(f"4. Does it hold? verified: {shown.verified}. {shown.statement}")
model = tether.load("car.safetensors")
print(tether.attack(model, M, evaluations=2000 if TINY else 200_000))
print("5. Not said: that reality is near M. Measured on their data, so not vouched for by us:")
print(f"   {', '.join(shown.not_vouched)}")
for line in said["assumptions"]:
    print(f"   Assumed: {line}")

# One picture: how far from M any weights can take a prediction, at inputs from all over the box.
rng = np.random.default_rng(0)
box = np.array([said["domain"]["box"][name] for name in model.schema.inputs])
inputs = rng.uniform(box[:, 0], box[:, 1], (2000, 5))
found = model.predict(inputs[:, :3], inputs[:, 3:], details=True)
trusted = M.function(inputs[:, :3], inputs[:, 3:])
far = np.maximum(np.abs(found.upper - trusted), np.abs(found.lower - trusted))
figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
for k, name in enumerate(model.schema.outputs[:2]):
    axes.plot(inputs[:, 3], far[:, k], ".", ms=3, label=f"{name}: farthest that any weights reach")
    axes.axhline(said["deltas"][k]["maximum"], color=f"C{k}", ls="--", label=f"{name}: certified, worst")
axes.set(xlabel="speed input [m/s]", ylabel="distance to M after one step [m]", ylim=(0, None))
figure.legend(loc="outside upper center", ncols=2)
figure.savefig("reading_a_certificate.png", dpi=120)
print("picture: reading_a_certificate.png")
