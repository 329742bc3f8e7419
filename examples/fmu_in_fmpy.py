"""A tethered car as an FMU: exported, checked and simulated in fmpy.

Needs ``pip install fmpy`` and a C compiler; any other tool for FMI 2.0 runs it as well, and with
``to="fmu3"`` those for FMI 3.0.
"""

import os
import tempfile

import fmpy
import numpy as np
from fmpy.validation import validate_fmu
from matplotlib.figure import Figure

import tether
from tether.export import export
from tether_studies import parked_car

TINY = bool(os.environ.get("TETHER_TINY"))

driven = parked_car.drive(episodes=10 if TINY else 60)
car = tether.fit(
    driven, trusted=parked_car.TRUSTED, probes=parked_car.parked(driven, count=500),
    domain=parked_car.DOMAIN, memories=50 if TINY else 500, leaves=300 if TINY else 4000, hidden=(64, 64),
    training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip

with tempfile.TemporaryDirectory() as folder:
    (fmu,) = export(
        car, to="fmu", out=folder, name="car", certificate=tether.certify(car, parked_car.TRUSTED).as_dict()
    )
    assert validate_fmu(str(fmu)) == []
    print(tether.verify(fmu, parked_car.TRUSTED).statement)

    # A step of the model is 0.1 s. Two seconds straight on, then a turn to the left.
    times = 0.1 * np.arange(40)
    table = np.rec.fromarrays(
        [times, np.full(40, 5.0), np.where(times < 2, 0.0, 0.5)], names=["time", "speed", "yaw_rate"]
    )
    found = fmpy.simulate_fmu(
        str(fmu), stop_time=4.0, step_size=0.1, output_interval=0.1, input=table,
        start_values={"step": 0.1, "x": -5.0, "y": 0.0, "heading": 0.0},
        output=["x", "y", "heading", "delta_x", "delta_y", "delta_heading", "in_domain"],
    )  # fmt: skip

print("   time       x       y heading  delta_x in_domain")
for row in found[::10]:
    print(
        "{time:7.2f} {x:7.3f} {y:7.3f} {heading:7.3f} {delta_x:8.2g} {in_domain}".format(
            **{name: row[name] for name in found.dtype.names}
        )
    )

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
axes.errorbar(
    found["x"], found["y"], xerr=found["delta_x"], yerr=found["delta_y"], fmt="o-", ms=3, lw=1, elinewidth=0.6
)
axes.set(xlabel="x [m]", ylabel="y [m]", title="bars: delta of one step")
figure.savefig("fmu_in_fmpy.png", dpi=120)
print("picture: fmu_in_fmpy.png")
