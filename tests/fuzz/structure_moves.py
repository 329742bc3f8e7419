"""Templates of statements that view, copy, split and update; see `structure_templates`."""

VIEWS = """
{n} = {x}{sl}
{n} = {x}{sl}
{n} = {x}{ix}
{n} = {x}{ix}
{n} = {x}{fx}
{n} = {x}{sl}{sl}
{n} = {x}[..., None]
{n} = {x}[..., ::-1]
{n} = {x}.T
{n} = {x}.transpose()
{n} = np.transpose({x})
{n} = np.swapaxes({x}, {any}, {any})
{n} = {x}.swapaxes({any}, {any})
{n} = np.moveaxis({x}, {any}, {any})
{n} = np.rollaxis({x}, {any})
{n} = np.squeeze({x}, axis={ax})
{n} = {x}{sl}.squeeze({ax})
{n} = np.expand_dims({x}, {new})
{n} = np.atleast_1d({x})
{n} = np.atleast_2d({x})
{n} = np.flip({x}, {ax})
{n} = np.broadcast_to({x}, (2,) + {x}.shape)
{n} = np.broadcast_to({y}, {x}.shape)
{n}, {m} = np.broadcast_arrays({x}, {y})
{n} = np.diagonal({x}, axis1={ax}, axis2={ax})
{n} = np.real({x})
{n} = {x}.real
{n} = {x}.view()
{n} = np.asarray({x})
{n} = np.asarray({x}, dtype=float)
{n} = np.asarray({x}, dtype=np.float64)
{n} = {x}.astype(float, copy=False)
{n} = np.array({x}, copy=None)
{n} = np.ascontiguousarray({x})
{n} = np.asfortranarray({x})
{n} = {x}.reshape({x}.shape)
{n} = {x}.reshape({x}.shape[0], -1)
{n} = np.reshape({x}, {x}.shape + (1,))
{n} = np.reshape({x}, (1,) + {x}.shape)
{n} = {x}.ravel().reshape({x}.shape)
{n} = {x}.T.reshape({x}.T.shape)
{n} = {x}
{n} = np.lib.stride_tricks.sliding_window_view({x}, 2, axis={ax})
{n} = {x}.reshape({x}.shape[:-1] + (-1, 1))
{n} = np.fliplr({x})
{n} = np.matrix_transpose({x})
""".strip().splitlines()

COPIES = """
{n} = {x}.copy()
{n} = {x}.copy(order="F")
{n} = np.copy({x})
{n} = copy.copy({x})
{n} = copy.deepcopy({x})
{n} = np.array({x})
{n} = np.array({x}, dtype=float)
{n} = {x}.astype(float)
{n} = {x}.astype(np.float64)
{n} = {x}.astype("float64")
{n} = +{x}
{n} = {x} + 0
{n} = {x} * 1
{n} = np.positive({x})
{n} = np.clip({x}, None, None)
{n} = {x}.clip(-0.5, None)
{n} = np.clip({x}, None, {c})
{n} = np.sum({x}, axis=())
{n} = {x}.sum(axis=())
{n} = np.prod({x}, axis=())
{n} = np.max({x}, axis=())
{n} = {x}.flatten().reshape({x}.shape)
{n} = {x}.flatten(order="F").reshape({x}.shape, order="F")
{n} = np.roll({x}, {i}, axis={ax})
{n} = np.roll({x}, -1, {ax})
{n} = np.repeat({x}, 2, axis={ax})
{n} = {x}.repeat([1] * {x}.shape[{ax}], {ax})
{n} = np.tile({x}, (2, 1))[:{x}.shape[0]]
{n} = np.tile({x}, (1, 2))
{n} = np.take({x}, [0, -1], axis={ax})
{n} = {x}.take(0, axis={ax})
{n} = np.take({x}, [0], {ax})
{n} = np.take_along_axis({x}, np.zeros({x}.shape, dtype=int), {ax})
{n} = np.delete({x}, 0, axis={ax})
{n} = np.insert({x}, 0, {c}, axis={ax})
{n} = np.append({x}, {xx}, axis={ax})
{n} = np.pad({x}, [(0, 0)] * ({x}.ndim - 1) + [(1, 0)])
{n} = np.pad({x}, [(0, 0)] * ({x}.ndim - 1) + [(0, 1)], mode="edge")
{n} = np.tril({x})
{n} = np.triu({x}, 1)
{n} = np.nan_to_num({x})
{n} = np.compress([True] * {x}.shape[{ax}], {x}, axis={ax})
{n} = np.array([{x}, {xx}])
{n} = np.array([{x}, {xx}]).T
{n} = np.stack([{x}, {xx}], axis={new})
{n} = np.stack(({x}, {e}), -1)
{n} = np.concatenate([{x}, {xx}], axis={ax})
{n} = np.concatenate(({x}, {x}), {ax})
{n} = np.hstack([{x}, {xx}])
{n} = np.vstack([{x}, {xx}])
{n} = np.dstack([{x}, {xx}])
{n} = np.column_stack([{x}, {xx}])
{n} = np.column_stack(({x}{ix}, {x}{ix}))
{n} = np.c_[{x}, {xx}]
{n} = np.c_[{x}, {x}{ix}]
{n} = np.r_["-1", {x}, {xx}]
{n} = np.block([{x}, {xx}])
{n} = np.block([[{x}, {xx}], [{xx}, {x}]])
{n} = np.concatenate([{x}, np.zeros_like({x})], axis={ax})
{n} = np.stack([{x}[..., j] for j in range({x}.shape[-1])], axis=-1)
{n} = np.array([col for col in {x}.T]).T
{n} = np.array(list(map(np.sin, {x}.T)))
{n} = np.asarray([{x}, {xx}])
{n} = np.asarray([{x}{ix}, {e}])
""".strip().splitlines()

SPLITS = """
{n}, {m} = np.split({x}, 2, axis={ax})
{n}, {m} = np.array_split({x}, 2, axis={ax})
{n}, {m} = np.split({x}, [1], axis={ax})
{n}, {m} = np.split({w}, 2, axis={ax})\\n{m} += {c}
{n}, {m} = np.array_split({w}, 2, axis={ax})\\n{n} *= {c}
{n}, {m} = np.hsplit({w}, [1])\\n{n} += {c}
{n}, {m} = np.hsplit({w}, 2)\\n{m} += {c}
{n}, {m} = np.vsplit({w}, 2)\\n{m} -= {c}
{n}, {m} = np.dsplit({w}, 2)\\n{m} -= {c}
{n}, {m}, *{k} = {w}.T\\n{n} += {c}
{n}, {m}, *{k} = np.moveaxis({w}, {ax}, 0)\\n{m} += {c}
{n}, *{k} = {x}.T
{n}, *{k} = list({w}.T)\\n{n} *= {c}
{n}, {m} = {w}.T[:2]\\n{m} += {n}
{n}, {m} = ({w}[..., k] for k in (0, 1))\\n{n} += {m}
{n}, {m} = {x}[..., 0], {x}[..., 1]
{n}, {m} = {w}[..., 0], {w}[..., 1]\\n{w}[..., 0] = {n} + 0.1 * {m}\\n{w}[..., 1] = {m} - 0.1 * np.sin({n})
{n}, {m} = np.unstack({x}, axis={ax})
{n} = np.split({w}, [1], axis={ax})[0]\\n{n} -= {e}
""".strip().splitlines()

UPDATES = """
{w} += {e}
{w} -= {e}
{w} *= {c}
{w} /= 2.0
{w} **= 2
{w}{sl} += {e}
{w}{sl} *= {c}
{w}{ix} += {c}
{w}{ix} = {w}{ix} * {c}
{w}{ix} = {w}{ix}
{w}{fx} += {c}
{w}{fx} = {c}
{w}{sl} = {c}
{w}{sl}{sl} += {c}
{w}{sl}{ix} -= {c}
{w}{sl}.T[...] += {c}
{w}[...] = {e}
{w}[:] = {e}
{w}[()] = {e}
{wx}[...] = {x}
{wx}[...] = {x}[..., ::-1]
{n} = {w}{sl}\\n{n} += {c}
{n} = {w}{ix}\\n{n} += {c}
{n} = {w}{fx}\\n{n} += {c}
{n} = {w}.T\\n{n} *= {c}
{n} = {w}{sl}\\n{w} += {c}\\n{n} = {n} * 2.0
{n} = {w}\\n{n} += {c}
{n} = {w}\\n{n} = {n} + {c}
{n} = {w}.ravel()\\n{n} += {c}
{n} = {w}.reshape(-1)\\n{n} *= {c}
{n} = {w}{sl}.ravel()\\n{n} += {c}
{n} = {w}.flatten()\\n{n} += {c}
np.add({w}, {e}, out={w})
np.add({w}, {e}, {w})
np.multiply({x}, {e}, out={wx})
np.sin({x}, out={wx})
np.negative({w}, out={w})
np.subtract({x}, {xx}, out={wx})
np.copyto({wx}, {x})
np.copyto({w}, {c})
np.clip({x}, -0.5, 0.5, out={wx})
np.minimum({x}, {y}, out={wx})
{n} = np.add({x}, {y}, out={wx})\\n{n} += {c}
{n} = np.empty_like({x})\\nnp.cos({x}, out={n})
np.fill_diagonal({w}, {c})
{w}.fill({c})
{w}[..., 1:] += {w}[..., :-1]
{w}[..., :-1] += {w}[..., 1:]
{w}[..., 1:] = {w}[..., :-1]
{w}[..., ::-1] = {w}
{w}[..., ::2] -= {w}[..., ::-2][..., :{w}[..., ::2].shape[-1]]
np.add({w}[..., :-1], {c}, out={w}[..., 1:])
{w}[..., 0], {w}[..., 1] = {w}[..., 1], {w}[..., 0]
{w}[..., [0, 1]] = {w}[..., [1, 0]]
{w}[..., 0], {w}[..., 1] = {w}[..., 1].copy(), {w}[..., 0].copy()
np.add.at({w}, (..., [0, 0]), {c})
{w}[..., [0, 0]] += {c}
{w}[..., [0, -1]] *= {c}
{w}.T[0] += {c}
{w}.T[-1] = {w}.T[0]
for {k} in {w}.T:\\n    {k} *= {c}
for {k} in {w}.T:\\n    {k} = {k} + {c}
for {k} in range({w}.shape[-1]):\\n    {w}[..., {k}] += {k} * {c}
for {k}, {m} in enumerate({w}.T):\\n    {m} += {k} * {c}
for {k}, {m} in zip({w}.T, {w}.T[::-1]):\\n    {k} += 0.1 * {m}
for {k} in np.split({w}, {w}.shape[{ax}], axis={ax}):\\n    {k} += {c}
{w}[..., 0] -= np.sin({w}[..., -1])
{w}[..., -1] += 0.1 * {w}[..., 0]
{n} = [{w}, {w}]\\n{n}[0][..., 0] += {c}
{n} = [{w}, {x}]\\n{n}[0] += {c}
{n} = dict(a={w})\\n{n}["a"] *= {c}
{n} = {w}.swapaxes(0, -1)\\n{n}[0] += {c}
{n} = np.moveaxis({w}, {ax}, 0)\\n{n}[0] *= {c}
{n} = np.flip({w}, {ax})\\n{n}{sl} += {c}
{n} = np.atleast_2d({w})\\n{n} += {c}
{n} = np.asarray({w})\\n{n} += {c}
{n} = np.asarray({w}, dtype=float)\\n{n} += {c}
{n} = {w}.astype(float, copy=False)\\n{n} += {c}
{n} = {w}.astype(float)\\n{n} += {c}
{n} = np.array({w})\\n{n} += {c}
{n} = np.array({w}, copy=False)\\n{n} += {c}
{n} = np.ascontiguousarray({w})\\n{n} += {c}
{n} = copy.copy({w})\\n{n} += {c}
{n} = copy.deepcopy({w})\\n{n} *= {c}
{n} = np.clip({w}, None, None)\\n{n} += {c}
{n} = np.sum({w}, axis=())\\n{n} += {c}
{n} = np.real({w})\\n{n} += {c}
{n} = np.nan_to_num({w}, copy=False)\\n{n} += {c}
{n} = np.squeeze({w}[..., None], -1)\\n{n} += {c}
{n} = np.expand_dims({w}, 0)\\n{n} += {c}
{n} = np.take({w}, [0], axis={ax})\\n{n} += {c}
{n} = np.broadcast_arrays({w}, {c})[0] + {c}
{n} = np.einsum("...i->...i", {w})\\n{n} += {c}
{n} = np.roll({w}, 0, {ax})\\n{n} += {c}
{n} = np.lib.stride_tricks.sliding_window_view({w}, 2, axis={ax}, writeable=True)\\n{n}[..., 0] += {c}
bump({w}, {c})
{n} = bumped({w}, {c})
{n} = first_doubled({w})
{n} = shifted({w}, {c})
{n}, {m} = swapped({w}, {x})\\n{m} += {c}
{n} = Held({w})\\n{n}.value += {c}
{n} = Held({w})\\n{n}.halve()
{n} = lambda a=({w}): a * {c}\\n{w} += {c}\\n{m} = {n}()
{n} = integrated({w}, 0.1)
{n} = clamped({x}, {c})
{n} = {w}[..., 0]\\n{w}[..., 0] = 0.0\\n{m} = {n} + 1.0
{n} = {w}{sl}.copy()\\n{w}{sl} = {c}\\n{w}{sl} += {n}
""".strip().splitlines()
