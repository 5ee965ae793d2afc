"""Cases of operators that rearrange, join, split, repeat or pad arrays."""

from __future__ import annotations

from ..case import Family, counting, integers, normal

family = Family("shape", tolerance="exact")

RESHAPES = [
    ((2, 3, 4), (4, 6)),
    ((2, 3, 4), (-1,)),
    ((2, 3, 4), (0, -1)),
    ((2, 3, 4), (4, 0, 2)),
    ((2, 3, 4), (0, 0, 0)),
    ((2, 3, 4), (-1, 0, 0)),
    ((2, 3, 4), (6, 1, -1)),
    ((2, 3, 4), (3, -1, 8)),
    ((2, 3, 4), (-2,)),
    ((2, 3, 4), (2, -2)),
    ((2, 3, 4), (-2, 1, 1)),
    ((2, 3, 4), (1, -2)),
    ((2, 3, 4), (-3, 4)),
    ((2, 3, 4), (0, -3)),
    ((2, 3, 4), (-3, -2)),
    ((2, 3, 4, 5), (-3, -3)),
    ((2, 3, 4), (-4, 1, 2, -2)),
    ((2, 3, 4), (2, -4, -1, 3, -2)),
    ((2, 3, 4), (0, 0, -4, 2, -1)),
    ((2, 3, 4), (-4, -1, 2, 3, 4)),
    ((6,), (2, 3)),
    ((1,), (1, 1, 1)),
    ((10, 5, 4), (-1, 0)),
]
for source, target in RESHAPES:
    family.call("nd.reshape", normal(*source), shape=target)
    family.call("nd.reshape", normal(*source), shape=target, reverse=True)
    family.call("method:reshape", normal(*source), arguments=(target,))
    family.call("method:reshape", normal(*source), arguments=target, reverse=True)
for target in ((5, 5), (2, 2), (7, -1), (-1, -1), (-5, 1)):
    family.call("method:reshape", normal(2, 3, 4), arguments=(target,))
    family.call("method:reshape", normal(2, 3, 4), arguments=(target,), grad=False, tag="value")
family.call("nd.reshape", normal(2, 3, 4), shape=(-1, -1))
family.call("nd.reshape", normal(2, 3, 4), shape=(-5, 1))
family.call("nd.Reshape", normal(2, 3, 4), shape=(4, 6))
family.call("nd.Reshape", normal(2, 3, 4), target_shape=(4, 6))
family.call("nd.Reshape", normal(2, 3, 4), target_shape=(0, 6), keep_highest=True)
family.call("nd.reshape", normal(2, 3))
family.call("nd.reshape", counting(2, 6, dtype="int32"), shape=(3, 4))
family.call("nd.reshape", normal(2, 6, dtype="float64"), shape=(3, 4))
family.call("method:reshape", normal(2, 3), shape=(3, 2))
family.call("method:reshape", normal(2, 3))
family.call("method:reshape", normal(2, 3), shape=(3, 2), foo=1)
family.call("method:reshape", normal(2, 3), arguments=(6,))
family.call("method:reshape", normal(2, 3), arguments=(-1,))
family.expression("(x.reshape((3, 2)) * y).reshape((-1,))", normal(2, 3), normal(3, 2), tolerance="elementwise")

for name in ("reshape_like", ".reshape_like"):
    call = f"method:{name[1:]}" if name.startswith(".") else f"nd.{name}"
    family.call(call, normal(2, 6), normal(3, 4))
    family.call(call, normal(30, 7), normal(15, 2, 4), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
    family.call(call, normal(30, 12), normal(4, 2, 2, 3), lhs_begin=-1, lhs_end=None, rhs_begin=1, rhs_end=None)
    family.call(call, normal(2, 6), normal(5, 2))
family.call("nd.reshape_like", counting(2, 6, dtype="int32"), normal(3, 4))

for call in ("nd.flatten", "nd.Flatten", "method:flatten"):
    for shape in ((2, 3, 4), (2, 3), (5,), (2, 1, 3, 1)):
        family.call(call, normal(*shape))
for axis in (0, 1, 2, -1, -2, -3, 3, -4):
    family.call("nd.expand_dims", normal(2, 3), axis=axis)
family.call("method:expand_dims", normal(2, 3), axis=1)
family.call("method:expand_dims", normal(2, 3), arguments=(-1,))
for axis in (None, 0, 2, -1, (0, 2), (0, -1), 1, 5):
    family.call("nd.squeeze", normal(1, 3, 1), axis=axis)
family.call("nd.squeeze", normal(1, 1))
family.call("nd.squeeze", normal(1, 3, 1))
family.call("method:squeeze", normal(1, 3, 1))
family.call("method:squeeze", normal(1, 3, 1), axis=0)

for axes in ((), (0, 2, 1), (2, 1, 0), (1, 2, 0), (-1, 0, 1), (0, 1), (0, 1, 3)):
    family.call("nd.transpose", normal(2, 3, 4), axes=axes)
family.call("nd.transpose", normal(2, 3))
family.call("nd.transpose", normal(5))
family.call("nd.transpose", normal(2, 3, 2, 2, 3), axes=(4, 0, 3, 1, 2))
family.call("nd.transpose", counting(2, 3, dtype="int64"))
family.call("nd.transpose", normal(2, 3, dtype="float16"))
family.call("method:transpose", normal(2, 3, 4))
family.call("method:transpose", normal(2, 3, 4), axes=(1, 0, 2))
family.call("method:transpose", normal(2, 3, 4), arguments=((1, 0, 2),))
family.expression("x.transpose(1, 0, 2)", normal(2, 3, 4))
family.expression("x.T", normal(2, 3))
family.expression("x.T", normal(4))
family.expression("x.T", normal(2, 3, 4))
for first, second in ((0, 1), (0, 2), (-1, 0), (1, 1), (0, 3)):
    family.call("nd.swapaxes", normal(2, 3, 4), dim1=first, dim2=second)
    family.call("nd.SwapAxis", normal(2, 3, 4), dim1=first, dim2=second)
family.call("nd.swapaxes", normal(2, 3, 4))
family.call("method:swapaxes", normal(2, 3, 4), dim1=0, dim2=2)
family.call("method:swapaxes", normal(2, 3, 4), arguments=(0, 2))
for source, destination in ((0, 2), (2, 0), (-1, 1), ((0, 1), (1, 2)), ((0, 1), (-1, -2)), (0, 3), ((0, 1), (0, 0))):
    family.expression(f"nd.moveaxis(x, {source}, {destination})", normal(2, 3, 4))

for operator in ("flip", "reverse"):
    for axis in (0, 1, 2, (0, 2), (0, 1, 2), -1, 3):
        family.call(f"nd.{operator}", normal(2, 3, 4), axis=axis)
    family.call(f"nd.{operator}", counting(4, dtype="int32"), axis=0)
family.call("method:flip", normal(2, 3), axis=1)
family.call("nd.flip", normal(2, 3))

for call in ("nd.tile", "method:tile"):
    for reps in ((2,), (2, 3), (2, 1, 2), (1, 1), 3, (2, 2, 2, 2)):
        family.call(call, normal(2, 3), reps=reps, tolerance="sum")
family.call("nd.tile", normal(2, 3), reps=(0,))
family.call("nd.tile", counting(3, dtype="int32"), reps=(2,))
family.call("nd.tile", normal(3, dtype="float64"), reps=(2, 2), tolerance="sum")
for call in ("nd.repeat", "method:repeat"):
    for repeats, axis in ((2, None), (3, 0), (2, 1), (2, -1), (1, 0)):
        family.call(call, normal(2, 3), repeats=repeats, axis=axis, tolerance="sum")
family.call("nd.repeat", normal(2, 3), repeats=2, tolerance="sum")
family.call("nd.repeat", normal(2, 3), repeats=2, axis=2)
family.call("nd.repeat", counting(3, dtype="int64"), repeats=2)

for call in ("nd.broadcast_to", "method:broadcast_to"):
    for source, target in (
        ((1, 3), (2, 3)),
        ((2, 1, 1), (2, 3, 4)),
        ((1,), (4,)),
        ((1, 3), (2, 0)),
        ((2, 3), (2, 3)),
        ((2, 3), (4, 3)),
        ((3,), (2, 3)),
    ):
        family.call(call, normal(*source), shape=target, tolerance="sum")
family.expression("x.broadcast_to(2, 3)", normal(1, 3))
for operator in ("broadcast_axis", "broadcast_axes"):
    family.call(f"nd.{operator}", normal(1, 2, 1), axis=2, size=3, tolerance="sum")
    family.call(f"nd.{operator}", normal(1, 2, 1), axis=(0, 2), size=(2, 3), tolerance="sum")
    family.call(f"nd.{operator}", normal(1, 2, 1), axis=1, size=3)
    family.call(f"nd.{operator}", normal(1, 2, 1), axis=(0, 2), size=(2,))
    family.call(f"nd.{operator}", normal(1, 2, 1), axis=-1, size=3, tolerance="sum")
family.call("method:broadcast_axes", normal(1, 2), axis=0, size=3, tolerance="sum")
for call in ("nd.broadcast_like", "method:broadcast_like"):
    family.call(call, normal(1, 3), normal(2, 3), tolerance="sum")
    family.call(call, normal(2, 1, 1), normal(2, 3, 4), tolerance="sum")
    family.call(call, normal(1, 1, 3), normal(4, 5), lhs_axes=(0, 1), rhs_axes=(0, 1), tolerance="sum")
    family.call(call, normal(1, 3), normal(5, 6, 7), lhs_axes=(0,), rhs_axes=(-1,), tolerance="sum")
    family.call(call, normal(2, 3), normal(3, 3))

for call in ("nd.concat", "nd.Concat"):
    family.call(call, normal(2, 3), normal(2, 1))
    family.call(call, normal(2, 3), normal(4, 3), dim=0)
    family.call(call, normal(2, 3, 4), normal(2, 3, 1), normal(2, 3, 2), dim=2)
    family.call(call, normal(2, 3, 4), normal(2, 3, 1), dim=-1)
family.call("nd.concat", normal(2, 3), dim=0)
family.call("nd.concat", normal(2, 3), normal(3, 3), dim=1)
family.call("nd.concat", normal(2), normal(3), dim=0)
family.call("nd.concat", normal(2, dtype="float64"), normal(3, dtype="float64"), dim=0)
family.call("nd.concat", normal(2, dtype="float16"), normal(3, dtype="float16"), dim=0)
family.call("nd.concat", counting(2, dtype="int32"), counting(3, dtype="int32"), dim=0)
family.call("nd.concat", normal(2), counting(3, dtype="int32"), dim=0)
family.expression("nd.concat([x, y])", normal(2), normal(3))
family.expression("nd.concat(x, x * 2, dim=0)", normal(2, 3))
family.expression("nd.concatenate([x, y])", normal(2, 3), normal(1, 3))
family.expression("nd.concatenate([x, y], axis=1)", normal(2, 3), normal(2, 1))
family.expression("nd.concatenate([x, y, z], axis=2)", *[normal(2, 1, 2)] * 3, grad=False)
family.expression("nd.concatenate([x], always_copy=False)", normal(2, 3), grad=False)
family.expression("nd.concatenate([x, y], axis=1)", normal(2, 3), normal(3, 1))
for axis in (0, 1, 2, -1, -3):
    family.call("nd.stack", normal(2, 3), normal(2, 3), normal(2, 3), axis=axis)
family.call("nd.stack", normal(2, 3))
family.call("nd.stack", normal(2, 3), normal(3, 3))
family.call("nd.stack", *[counting(3, dtype="int32")] * 2)
family.expression("nd.stack(x, y, x)", normal(3), normal(3))

for call in ("nd.split", "nd.SliceChannel", "method:split"):
    family.call(call, normal(2, 6), num_outputs=3)
    family.call(call, normal(4, 3), num_outputs=2, axis=0)
    family.call(call, normal(2, 3), num_outputs=3, axis=1, squeeze_axis=True)
    family.call(call, normal(2, 3, 4), num_outputs=2, axis=-1)
family.call("nd.split", normal(2, 3), num_outputs=1)
family.call("nd.split", normal(2, 5), num_outputs=3)
family.call("nd.split", normal(2, 6), num_outputs=3, squeeze_axis=True)
family.call("nd.split", counting(4, dtype="int32"), num_outputs=2, axis=0)
family.expression("nd.split(x, num_outputs=2)[1]", normal(2, 4))
for sections, axis in ((2, 1), (3, 0), ((1, 3), 1), ((1, 2), 0), ((), 0), ((2,), -1), ((0, 2), 1), (5, 1)):
    family.expression(f"nd.split_v2(x, {sections}, axis={axis})", normal(3, 4))
family.expression("nd.split_v2(x, 3, axis=0, squeeze_axis=True)", normal(3, 4))
family.expression("x.split_v2((1, 3), axis=1)", normal(3, 4))

WIDTHS = [(0, 0, 0, 0, 1, 1, 2, 1), (0, 0, 0, 0, 0, 0, 0, 2), (0, 0, 0, 0, 1, 0, 0, 1)]
for mode in ("constant", "edge", "reflect"):
    for width in WIDTHS:
        for call in ("nd.pad", "nd.Pad"):
            family.call(call, normal(1, 2, 3, 4), mode=mode, pad_width=width, tolerance="sum")
    width = (0, 0, 0, 0, 1, 1, 0, 1, 1, 0)
    family.call("nd.pad", normal(1, 1, 2, 3, 2), mode=mode, pad_width=width, tolerance="sum")
    family.call("nd.pad", normal(1, 1, 3, 3, dtype="float64"), mode=mode, pad_width=WIDTHS[0], tolerance="sum")
family.call("nd.pad", normal(1, 2, 3, 3), mode="constant", pad_width=WIDTHS[0], constant_value=1.5)
family.call("nd.pad", normal(2, 3), mode="constant", pad_width=(0, 0, 1, 1))
family.call("nd.pad", normal(2, 2, 2, 2), mode="constant", pad_width=(1, 0, 0, 0, 0, 0, 0, 0))
family.call("nd.pad", normal(2, 2, 2, 2), mode="wrap", pad_width=WIDTHS[0])
family.call("method:pad", normal(1, 1, 2, 2), mode="edge", pad_width=WIDTHS[0], tolerance="sum")

for call in ("nd.diag", "method:diag"):
    for k in (0, 1, -1, 2):
        family.call(call, normal(3), k=k)
        family.call(call, normal(3, 4), k=k)
    family.call(call, normal(2, 3, 4), axis1=0, axis2=1)
    family.call(call, normal(2, 3, 4), axis1=1, axis2=2, k=1)
    family.call(call, normal(2, 3, 4), axis1=-1, axis2=-2)
family.call("nd.diag", normal(2, 3, 4))
family.call("nd.diag", counting(2, 3, dtype="int32"))
family.call("nd.diag", normal(2, 3), k=5)

for operator in ("depth_to_space", "space_to_depth"):
    shape = (1, 8, 2, 3) if operator == "depth_to_space" else (1, 2, 4, 6)
    family.call(f"nd.{operator}", normal(*shape), block_size=2)
    family.call(f"method:{operator}", normal(*shape), block_size=2)
    family.call(f"nd.{operator}", normal(1, 3, 3, 3), block_size=2)
for call in ("nd.shape_array", "method:shape_array", "nd.size_array", "method:size_array"):
    family.call(call, normal(2, 3, 4))
    family.call(call, counting(5, dtype="int32"))

for end in ("x.shape", "x.size", "x.ndim", "len(x)", "x.dtype", "x.stype", "str(x.context)"):
    family.expression(end, integers(2, 3, dtype="int32"), grad=False)

family.call("nd.Crop", normal(1, 2, 5, 6), h_w=(3, 4), num_args=1)
family.call("nd.Crop", normal(1, 2, 5, 6), h_w=(3, 4), offset=(1, 2), num_args=1)
family.call("nd.Crop", normal(1, 2, 5, 6), h_w=(3, 4), center_crop=True, num_args=1)
family.call("nd.Crop", normal(1, 2, 5, 6), normal(1, 1, 2, 3), num_args=2)
family.call("nd.Crop", normal(1, 2, 5, 6), normal(1, 1, 2, 3), num_args=2, center_crop=True)
