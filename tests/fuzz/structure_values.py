"""Templates of statements that create, reduce, compare and ask; see `structure_templates`."""

CREATION = """
{n} = np.zeros_like({x})\\n{n}[..., 0] = {x}[..., -1]
{n} = np.empty_like({x})\\n{n}[...] = {e}
{n} = np.ones_like({x})\\n{n} += {e}
{n} = np.full_like({x}, {c})
{n} = np.full_like({x}, {y})
{n} = np.full({x}.shape, {y})
{n} = np.zeros({x}.shape)\\n{n}[...] = {x}
{n} = np.zeros({x}.shape)\\n{n} += {x}
{n} = np.empty({x}.shape)\\n{n}[:] = {e}
{n} = np.ones({x}.shape[:1] + (2,))\\n{n}[:, 1] = {x}[..., 0]
{n} = np.zeros(({x}.shape[0], 3))\\n{n}[:, 1:] = {x}[..., :2]
{n} = np.zeros({x}.shape, dtype={x}.dtype)\\n{n}[..., 0] += {x}[..., 0]
{n} = np.zeros({x}.shape, order="F")\\n{n}[...] = {x}\\n{m} = {n}.ravel(order="K")
{n} = np.zeros_like({x}, dtype=float)\\n{n}[..., -1] = {c}
{n} = np.zeros({x}.shape, dtype=int)\\n{n}[...] = {x}
{n} = np.zeros({x}.shape, dtype=np.float32)\\n{n}[...] = {x}
{n} = np.zeros({x}.shape)\\n{n}[{cond}] = {c}
{n} = np.zeros_like({x}[..., 0])\\nfor {k} in range({x}.shape[-1]):\\n    {n} += {x}[..., {k}]
{n} = np.empty({x}.shape)\\nfor {k} in range({x}.shape[-1]):\\n    {n}[..., {k}] = {k} + {x}[..., -1 - {k}]
{n} = np.zeros({x}.shape)\\nnp.add({x}, 1.0, out={n})
{n} = GAIN.copy()\\n{n}[0] = 2.0\\n{m} = {x}[..., :1] * {n}
{n} = {x}[..., :1] * GAIN
{n} = np.eye({x}.shape[-1])\\n{m} = {x} @ {n}
{n} = np.zeros({x}.shape)\\n{m} = {n}{sl}\\n{m} += {c}\\n{n} = {n} + {x}
{n} = np.arange({x}.shape[-1]) * {x}
{n} = np.linspace(0.0, 1.0, {x}.shape[-1]) * {x}
{n} = np.linspace({x}, {e}, 3)
{n} = {x} * np.float32(0.1)
{n} = {x} * np.int8(100)
{n} = np.zeros_like({x}) + np.array(7) // 2
""".strip().splitlines()

REDUCTIONS = """
{n} = {x}.sum(axis={ax})
{n} = np.sum({x}, axis={ax}, keepdims=True)
{n} = np.sum({x}, {ax}, initial=1.0)
{n} = np.mean({x}, axis={ax})
{n} = {x}.mean({ax})
{n} = np.prod({x}, axis={ax})
{n} = {x}.min(axis={ax})
{n} = np.max({x}, axis={ax}, keepdims=True)
{n} = np.amin({x}, {ax})
{n} = np.cumsum({x}, axis={ax})
{n} = {x}.cumsum({ax})
{n} = np.cumprod({x}, axis={ax})
{n} = np.diff({x}, axis={ax})
{n} = np.diff({x}, axis={ax}, prepend=0.0)
{n} = np.linalg.norm({x}, axis={ax})
{n} = np.average({x}, axis={ax})
{n} = np.var({x}, axis={ax})
{n} = np.std({x}, axis={ax})
{n} = np.ptp({x}, axis={ax})
{n} = np.add.reduce({x}, axis={ax})
{n} = np.maximum.reduce({x}, axis={ax})
{n} = np.minimum.reduce([{x}, {xx}])
{n} = np.add.accumulate({x}, axis={ax})
{n} = np.maximum.accumulate({x}, {ax})
{n} = np.add.reduceat({x}, [0, 1], axis={ax})
{n} = sum([{x}, {xx}, {c}])
{n} = sum({x}[..., j] for j in range({x}.shape[-1]))
{n} = functools.reduce(np.minimum, [{x}, {xx}, {c}])
{n} = np.trapezoid({x}, axis={ax})
{n} = np.nansum({x}, axis={ax})
{n} = np.gradient({x}, axis={ax})
{n} = np.sort({x}, axis={ax})
{n} = np.median({x}, axis={ax})
{n} = np.argmax({x}, axis={ax})
{n} = {x} @ np.arange(1.0, 1.0 + {x}.shape[-1])
{n} = {x} @ np.ones(({x}.shape[-1], 2))
{n} = np.dot({x}, np.arange(1.0, 1.0 + {x}.shape[-1]))
{n} = {x}.dot(np.ones(({x}.shape[-1], 2)))
{n} = np.matmul({x}[..., None, :], {xx}[..., :, None])[..., 0, 0]
{n} = {x}[..., :, None] * {xx}[..., None, :]
{n} = np.einsum("...i->...", {x})
{n} = np.einsum("...i,...i->...", {x}, {xx})
{n} = np.einsum("...i,...j->...ij", {x}, {xx})
{n} = np.einsum("ni,ni->n", {x}, {xx})
{n} = np.einsum("...i,ij->...j", {x}, np.eye({x}.shape[-1]) + 1.0)
{n} = np.inner({x}, np.arange(1.0, 1.0 + {x}.shape[-1]))
{n} = np.tensordot({x}, np.arange(1.0, 1.0 + {x}.shape[-1]), axes=1)
{n} = np.tensordot({x}, np.ones(({x}.shape[-1], 2)), axes=([-1], [0]))
{n} = np.vecdot({x}, {xx})
{n} = np.cross({x}, {xx})
{n} = np.cross({x}[..., :3], GAIN)
{n} = np.polyval([0.1, {c}, 0.0], {x})
{n} = np.polyval([{x}, {xx}, 0.5], 0.3)
{n} = np.interp({x}, [-1.0, 0.0, 2.0], [0.0, 0.5, 0.25])
{n} = np.add.outer([0.0, 1.0], {x})
{n} = np.sum([{x}, {xx}], axis=0)
{n} = np.max([{x}, {xx}], axis=0)
{n} = np.mean(({x}, {xx}), 0)
""".strip().splitlines()

CONDITIONS = """
{n} = {cond}
{n} = {cond} & {cond}
{n} = {cond} | {cond}
{n} = ~{cond}
{n} = {cond} ^ {cond}
{n} = np.logical_and({cond}, {cond})
{n} = np.logical_not({cond})
{n} = ~({cond} & ~{cond})
{n} = np.where({cond}, {x}, {e})
{n} = np.where({b}, {yb}, {c})
{n} = np.where({b}, {c}, {yb})
{n} = np.where(~{b}, {yb}, {yb})
{n} = np.where({cond} & {cond}, {c}, {x})
{n} = {x}.copy()\\n{n}[{cond}] = {c}
{n} = {x}.copy()\\n{n}[{cond}] *= {c}
{wb}[{b}] = {c}
{wb}[{b}] += {c}
{wb}[~{b}] *= {c}
{wb}[{b}] = {wb}[{b}] * {c}
{wb}[{b}] += {yb}[{b}]
{w}{sl}[{b}] = {c}
{n} = {w}.T\\n{n}[{b}.T] = {c}
np.copyto({wb}, {yb}, where={b})
np.putmask({wb}, {b}, {c})
np.add({wb}, {c}, out={wb}, where={b})
{n} = {b} & 2
{n} = ({cond}) & 2
{n} = {b} | 2
{n} = {b} & 1
{n} = {b} + {b}
{n} = {cond} + {cond}
{n} = {b} * 2.0
{n} = {b} * {b}
{n} = {b} * {yb}
{n} = {b}.astype(float)
{n} = {b}.astype(float) * {yb}
{n} = {b}.astype(int) & 2
{n} = ~{b}.astype(int)
{n} = {b} ** 2
{n} = 1 - {b}
{n} = 1.0 - {b} * {yb}
{n} = {b} / 2
{n} = {b} << 1
{n} = {b} == {b}
{n} = {b} != {cond}
{n} = {b} > 0.5
{n} = np.maximum({b}, {cond})
{n} = {b}.sum(axis=-1)
{n} = {b}.any(axis=-1)
{n} = np.all({b}, axis=-1)
{n} = np.any({cond}, axis={ax})
{n} = np.count_nonzero({b}, axis=-1)
{n} = {b}.mean(axis=-1)
{n} = np.cumsum({b}, axis=-1)
{n} = np.select([{cond}, {cond}], [{x}, {e}], default={c})
{n} = np.select([{b}], [{yb}], {c})
{n} = np.choose({b}.astype(int), [{yb}, {c}])
{n} = np.piecewise({x}, [{cond}], [lambda z: z * {c}, lambda z: z + {c}])
{n} = np.heaviside({x}, 0.5)
{n} = np.sign({x})
{n} = np.sign({x}) * {e}
{n} = np.copysign({x}, {xx})
{n} = np.floor({x})
{n} = np.ceil({x} * 3.0)
{n} = np.rint({x})
{n} = np.round({x}, 1)
{n} = np.trunc({x})
{n} = np.fix({x})
{n} = np.mod({x}, 0.7)
{n} = {x} % 0.7
{n} = {x} // 0.7
{n} = np.fmod({x}, 0.7)
{n} = np.floor({x}).astype(int)
{n} = {x}.astype(int)
{n} = {x}.astype(np.float32)
{n} = np.isfinite({x}) & {cond}
{n} = np.isclose({x}, {xx})
{n} = np.where(np.isnan({x}), 0.0, {x})
{n} = {x} * ({x} > 0)
{n} = {x} * -({x} < 0).astype(float)
{n} = (({x} > 0) * 2 - 1) * {e}
{n} = np.where({x} == {x}, {e}, {c})
{n} = np.where({x} >= {xx}, {x}, {xx})
{n} = np.where({x} != 0, {x}, 1.0)
{n} = np.minimum({x}, {xx}) < {x}
{n} = np.digitize({x}, [-0.5, 0.5])
{n} = np.where({cond})[0]
{n} = {x}[{cond}]
{n} = np.extract({cond}, {x})
""".strip().splitlines()

INTROSPECTION = """
{n} = {x} * 2.0 if {x}.dtype == np.float64 else {x} * 3.0
{n} = {x} * 2.0 if {x}.dtype.kind == "f" else {x} * 3.0
{n} = {x} * 2.0 if isinstance({x}, np.ndarray) else {x} * 3.0
{n} = {x} * 2.0 if type({x}) is np.ndarray else {x} * 3.0
{n} = {x} * 2.0 if np.issubdtype({x}.dtype, np.floating) else {x} * 3.0
{n} = {x} * 2.0 if {x}.flags.writeable else {x} * 3.0
{n} = {x} * 2.0 if {x}.base is None else {x} * 3.0
{n} = {x} * 2.0 if np.shares_memory({x}, {w}) else {x} * 3.0
{n} = {x} * 2.0 if {x} is {w} else {x} * 3.0
{n} = {x} * {x}.itemsize
{n} = {x} + np.finfo({x}.dtype).eps
{n} = {x} * 2.0 if np.isrealobj({x}) else {x} * 3.0
{n} = {x} * 2.0 if {x}.dtype == object else {x} * 3.0
{n} = {x} * 2.0 if np.iscomplexobj({x}) else {x} * 3.0
{n} = {x} * {x}.ndim + {x}.shape[-1]
{n} = np.result_type({x}, 1.0).itemsize * {x}
{n} = {x}.size / {x}.shape[0] * {x}
try:\\n    {n} = float({x}[0, 0]) + {x}\\nexcept TypeError:\\n    {n} = {x} * 3.0
try:\\n    {n} = {x}.astype(np.float32) * 1.0\\nexcept Exception:\\n    {n} = {x} * 3.0
{n} = {x} if np.isfinite({x}).all() else {x} * 3.0
{n} = {x} if {x}.any() else {x} + 1.0
{n} = np.vectorize(math.sin)({x})
{n} = np.frompyfunc(lambda a: a * 2.0, 1, 1)({x}).astype(float)
{n} = {x}.tolist()
{n} = np.array({x}.tolist())
{n} = np.fromiter(({k} for {k} in {x}.ravel()), float).reshape({x}.shape)
""".strip().splitlines()

ROW_ONLY = """
{n} = {x}[0]\\n{m} = {x}[-1]
{n}, {m} = {w}[0], {w}[1]\\n{w}[0] = {n} + 0.1 * {m}\\n{w}[1] = {m} + 0.1 * (0.3 - np.sin({n}))
{n} = {w}[0]\\n{n} += 1.0
{n} = {w}[0]\\n{w}[0] = 0.25\\n{m} = {n} * 2.0
{n} = {w}[0]\\n{w} *= 2.0\\n{m} = {n} * 2.0
{n} = {w}[:1]\\n{w}[0] = 0.25\\n{m} = {n} * 2.0
{n} = {w}[0, ...]\\n{w}[0] = 0.25\\n{m} = {n} * 2.0
{n} = {w}[0:1].reshape(())\\n{w}[0] = 0.25\\n{m} = {n} * 2.0
for {k} in {w}:\\n    {k} += 1.0
for {k}, {m} in enumerate({w}):\\n    {w}[{k}] = {m} * 0.5 + {w}[0]
{w}[0], {w}[1] = {w}[1], {w}[0]
{w}[0] = {w}[1] = {v}
{w}[-1] += {v}
{w}.flat[0] = {v}
{w}.flat[1:] = {c}
{n} = {w}.flat\\n{m} = {n}[0] + {c}
{w}.itemset(0, {c})
np.put({w}, [0], {v})
{n} = {v} + {vv}
{n} = {v}\\n{n} *= {c}
{n} = {v} if {v} > {c} else {vv}
if {v} > {c}:\\n    {w} += 0.5\\nelse:\\n    {w} -= 0.5
if {v} > {c} and {vv} < {c}:\\n    {w}[0] = {v}
if not {v} < {c}:\\n    {w}[0] *= {v}
{n} = {v}\\nwhile {n} > 1.0:\\n    {n} = 0.5 * {n}
{n} = max({v}, {vv})
{n} = min({v}, {vv}, {c})
{n} = abs({v})
{n} = round({v}, 1)
{n} = int({v})
{n} = float({v})
{n} = {v}.item()
{n} = math.sin({v})
{n} = math.sqrt({v} * {v} + 1.0)
{n} = math.atan2({v}, {vv})
{n} = math.hypot({v}, {vv})
{n} = math.fabs({v}) + math.copysign(1.0, {vv})
{n} = math.exp(-{v} * {v})
{n} = math.floor({v})
{n} = math.fsum([{v}, {vv}, 0.1])
{n} = math.pow({v}, 2)
{n} = math.isfinite({v}) * {vv}
{n} = {x}.tolist()\\n{m} = {n}[0]
{n} = divmod({v}, 0.7)[1]
{n} = pow({v}, 2)
{n} = {v} ** 2 + {vv} ** 3
{n} = ({v} > {c}) + ({vv} > {c})
{n} = ({v} > {c}) * 2 + ({vv} > {c})
{n} = ({v} > {c}) & 2
{n} = ~({v} > {c})
{n} = not {v} > {c}
{n} = -({v} > {c}) * 1.0 if False else {v}
{n} = True + ({v} > {c})
{n} = {c} < {v} < 2.0
{n} = sorted([{v}, {vv}])[0]
{n} = [{v}, {vv}][int({v} > {c})]
{n} = [{v}, {vv}, {c}]\\n{n}[0] += 1.0\\n{m} = {n}[0] * {n}[1]
{n} = np.array([{v}, {vv}])
{n} = np.array([[{v}, {vv}], [-{vv}, {v}]])
{n} = np.array([[{v}, -{vv}], [{vv}, {v}]]) @ np.array([{c}, {v}])
{n} = np.array([{v}, {vv}, {c}])\\n{n}[1] = {v}\\n{n}[2] += {n}[1]
{n} = np.array([1, 2, 3])\\n{n}[0] = {v}
{n} = np.r_[{x}, {v}]
{n} = np.r_[{v}, {vv}, 1.0]
{n} = np.hstack([{v}, {vv}])
{n} = np.append({x}, {v})
{n} = np.outer({x}, {xx})
{n} = np.outer({x}, {x})[0]
{n} = np.diag({x})
{n} = np.inner({x}, {xx})
{n} = np.vdot({x}, {xx})
{n} = {x} @ {xx}
{n} = np.kron({x}, {xx})
{n} = np.trace({x})
{n} = np.tensordot({x}, {xx}, axes=0)
{n} = np.tensordot({x}, {xx})
{n} = np.einsum("i,i", {x}, {xx})
{n} = np.einsum("i,j->ij", {x}, {xx})
{n} = np.einsum("ii->i", {w})\\n{n} += {c}
{n} = np.einsum("ij->ji", {w})\\n{n}[0] += {c}
{n} = np.convolve({x}, {xx})
{n} = np.ravel({x})
{n} = {x}.flatten()
{n} = np.ravel({w})\\n{n} += {c}
{n} = np.resize({x}, 3)
{n} = np.rot90({x})
{n} = np.meshgrid({x}, {xx})[0]
{n} = np.vander({x}, 3)
{n} = {x}.sum()
{n} = np.min({x})
{n} = np.mean({x})
{n} = np.linalg.norm({x})
{n} = np.linalg.det({x})
{n} = np.linalg.solve({x}, {x}[0])
{n} = np.ix_([0, 1], [0])\\n{m} = {x}[{n}]
{n} = np.float64({v})
{n} = np.array({v})\\n{n} += 1.0
{n} = np.asarray({v})
{n} = {v}.copy()
{n} = copy.copy({v})
{n} = {x} * 2.0 if isinstance({v}, float) else {x} * 3.0
{n} = {x} * 2.0 if type({v}) is np.float64 else {x} * 3.0
{n} = {x} * 2.0 if np.isscalar({v}) else {x} * 3.0
{n} = {x} * 2.0 if np.ndim({v}) == 0 else {x} * 3.0
{n} = {v}[...]
{n} = {v} * np.ones(3)
{n} = np.ones(3) * {v}\\n{n}[0] = {vv}
{n} = np.zeros(4)\\n{n}[:{x}.shape[0]] = {x}
{n} = np.zeros((2, 2))\\n{n}[0, 1] = {v}\\n{n}[1] = {n}[0] + {c}
{n} = np.empty(2)\\n{n}[0], {n}[1] = {v}, {vv}
{n} = np.full(3, {v})\\n{n}[0] += 1.0
{n} = np.full_like({x}, {v})
{n} = [{x}[j] * j for j in range(len({x}))]
{n} = sum({k} * {k} for {k} in {x})
{n} = dict(zip("abcd", {x}))["a"]
{n} = next(iter({x}))
{n} = {x}[::-1][0]
{n} = {x}[np.argmax({x})]
{n} = np.searchsorted([-0.5, 0.5], {v})
{n} = GAIN[int({v} > {c})] * {v}
{n} = math.sin(float({v})) if {v} > {c} else math.cos({v})
assert {v} < 1e6\\n{n} = {v} + 1.0
{n} = np.array([{v}, {vv}])\\nfor _ in range(3):\\n    {n} = {n} + 0.1 * np.array([{n}[1], -np.sin({n}[0])])
{n} = integrated({w}, 0.05)
{n} = ~({v}.item() > {c})
{n} = ~({x}.tolist()[0] > {c})
{n} = np.zeros(3)\\n{n}[0] = {v}\\n{m} = ({n}[1] < 1.0) + ({n}[2] < 1.0)
{n} = np.zeros(3)\\n{n}[0] = {v}\\n{m} = ~({n}[1] < {c})
{n} = np.array([{v}, -8.0])\\n{m} = np.nan_to_num({n}[1] ** (1 / 3))
{n} = np.array([{v}, 2**60 + 1])\\n{m} = {n}[1] - 2**60
{n} = np.array([{v}, 7])\\n{m} = {n}[1] / 2 + {n}[1] // 2
{n} = 1.0 if str({v}).startswith("-") else {v}
{n} = {v} in [0.5, {v}]
{n} = [{v}, {vv}].index({vv})
{n} = np.eye(2)\\n{n}[0, 1] = {v}\\n{m} = {n} @ np.array([{v}, {vv}])
{n} = np.arctan2(0.0 * {v}, 1.0)
{n} = np.concatenate([{x}, [{v}, 1]])
{n} = np.maximum.reduce([{v}, {vv}, 0.1])
{n} = any({k} > {c} for {k} in {x}) * {v}
{n} = all([{v} > {c}, {vv} < {c}]) * {v}
{n} = np.clip({v}, {vv} - 0.1, {vv} + 0.1)
""".strip().splitlines()
