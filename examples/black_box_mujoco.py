"""A black box as the trusted model: MuJoCo steps a pendulum, and reality has more damping than it knows.

Nothing can be proved of code that cannot be read: the claim is statistical. Needs ``pip install mujoco``.
"""

import os

import mujoco
import numpy as np
from matplotlib.figure import Figure

import tether

TINY = bool(os.environ.get("TETHER_TINY"))
XML = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody><body>
    <joint name="hinge" type="hinge" axis="0 1 0" damping="{damping}"/>
    <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -1"/>
  </body></worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>"""
known, real = (mujoco.MjModel.from_xml_string(XML.format(damping=damping)) for damping in (0.1, 0.6))
trusted = tether.load_trusted(known, frame_skip=5)  # M: five steps of 10 ms are one of ours

rng = np.random.default_rng(0)
rows = {"states": [], "controls": [], "following": [], "episode": []}
body = mujoco.MjData(real)
for episode in range(12 if TINY else 40):  # the log: torques held for a while
    mujoco.mj_resetData(real, body)
    body.qpos[:], body.qvel[:] = rng.uniform(-2, 2), rng.uniform(-3, 3)
    for step in range(50):
        body.ctrl[:] = rng.uniform(-3, 3) if step % 10 == 0 else body.ctrl
        rows["states"].append([*body.qpos, *body.qvel])
        rows["controls"].append(body.ctrl.copy())
        mujoco.mj_step(real, body, nstep=5)
        rows["following"].append([*body.qpos, *body.qvel])
        rows["episode"].append(episode)

schema = tether.make_schema(["angle", "speed"], ["torque"], units={"angle": "rad", "speed": "rad/s"})
arrays = (np.array(rows[name]) for name in ("states", "controls", "following"))
data = tether.Transitions.from_arrays(*arrays, episodes=np.array(rows["episode"]), schema=schema)
model = tether.fit(
    data, trusted=trusted, evidence=tether.Statistical(epsilon=0.05 if TINY else 0.01, beta=0.001),
    memories=10 if TINY else 100, leaves=20 if TINY else 500,
    hidden=(16,) if TINY else (64, 64), training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip
certificate = tether.certify(model, trusted)
print(certificate)
test = data.split().test
truth = test.next_states
answers = {
    "MuJoCo as we know it": trusted.function(test.states, test.controls),
    "tethered": model.predict(test.states, test.controls),
}
figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
for (name, answer), mark in zip(answers.items(), ("k.", "r."), strict=True):
    axes.plot(test.states[:, 1], answer[:, 1] - truth[:, 1], mark, ms=3, label=name)
    print(
        f"{name}: speed off by {np.sqrt(((answer - truth)[:, 1] ** 2).mean()):.3g} rad/s (root mean square)"
    )
axes.set(xlabel="speed [rad/s]", ylabel="predicted less true next speed [rad/s]")
figure.legend(loc="outside upper center", ncols=3)
figure.savefig("black_box_mujoco.png", dpi=120)
print("picture: black_box_mujoco.png")
