"""A tethered car in C: exported, verified, compiled with a main of its own, and run as a program on its own.

tether export RUN --to c --out DIR --name car       does the same for the folder of a run.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tether
from tether.export import export
from tether_studies import parked_car

TINY = bool(os.environ.get("TETHER_TINY"))
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "car.h"

/* car X Y HEADING SPEED YAW_RATE: the next pose, and how far from the unicycle it can be. */
int main(int count, char **words)
{
    double state[CAR_STATES], control[CAR_CONTROLS], next[CAR_OUTPUTS], delta[CAR_OUTPUTS];
    int k, inside;
    if (count != 1 + CAR_STATES + CAR_CONTROLS) return 2;
    for (k = 0; k < CAR_STATES; ++k) state[k] = atof(words[1 + k]);
    for (k = 0; k < CAR_CONTROLS; ++k) control[k] = atof(words[1 + CAR_STATES + k]);
    inside = car_predict(state, control, next, 0, 0, delta);
    for (k = 0; k < CAR_OUTPUTS; ++k) printf("%.6f +- %.3g\n", next[k], delta[k]);
    printf("guaranteed: %s\n", inside ? "yes" : "no");
    return 0;
}
"""

driven = parked_car.drive(episodes=10 if TINY else 60)
car = tether.fit(
    driven, trusted=parked_car.TRUSTED, probes=parked_car.parked(driven, count=500),
    domain=parked_car.DOMAIN, memories=50 if TINY else 500, leaves=300 if TINY else 4000, hidden=(64, 64),
    training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip

with tempfile.TemporaryDirectory() as folder:
    header, source = export(car, to="c", out=folder, name="car")
    print(tether.verify(source, parked_car.TRUSTED).statement)
    Path(folder, "main.c").write_text(MAIN)
    words = ["cc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "main.c", "car.c", "-o", "car", "-lm"]
    subprocess.run(words, cwd=folder, check=True)

    def answer(*inputs: str) -> str:
        """What the program prints."""
        return subprocess.run(
            ["./car", *inputs], cwd=folder, capture_output=True, text=True, check=True
        ).stdout

    for inputs in (["0", "0", "0.3", "5", "0.2"], ["0", "0", "0.3", "0", "0"], ["0", "0", "0.3", "99", "0"]):
        print("$ ./car", *inputs)
        print(answer(*inputs))
    speeds = np.linspace(0, 14, 5 if TINY else 57)
    lines = [answer("0", "0", "0.3", str(speed), "0.2").split("\n")[0] for speed in speeds]

moved, delta = np.array([line.split(" +- ") for line in lines], dtype=float).T
figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
axes.fill_between(speeds, moved - delta, moved + delta, alpha=0.25, label="within delta")
axes.plot(speeds, moved, label="what the program says")
axes.set(xlabel="speed [m/s]", ylabel="x after 0.1 s [m]")
axes.legend()
figure.savefig("c_on_the_command_line.png", dpi=120)
print("picture: c_on_the_command_line.png")
