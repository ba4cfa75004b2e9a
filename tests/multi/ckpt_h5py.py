"""Does h5py see in DIR/step-NNNNNNNN/index.h5 what mp_ckpt saved?

usage: ckpt_h5py.py DIR STEP RANKS
"""
import os
import sys

import h5py
import numpy as np

ARRAYS = [  # as in mp_ckpt.c; None: bfloat16, which h5py reads as float32
    ("model/weights", np.float32, (137, 253), "F32"),
    ("optimizer/moments", np.float32, (137, 253), "F32"),
    ("model/halves", None, (7, 5, 3), "BF16"),
    ("model/f16s", np.float16, (64,), "F16"),
    ("tiny%d%%b%b", np.int64, (3,), "I64"),
    ("number", np.float64, (), "F64"),
    ("roots", np.uint8, (11,), "U8"),
    ("empty", np.float16, (0, 3), "F16"),
]


def wanted(array, dtype, shape, step):
    """The bits that put() in mp_ckpt.c makes, as a flat array."""
    i = np.arange(np.prod(shape, dtype=int), dtype=np.uint64)
    x = i * np.uint64(0x9E3779B97F4A7C15) + np.uint64(array * 77 + step)
    x ^= (np.uint64(step) * i) >> np.uint64(3)
    if dtype is None:
        return ((x & 0xFFFF) << 16).astype(np.uint32).view(np.float32)
    if dtype == np.float16:
        return x.astype(np.uint16).view(np.float16)
    if dtype == np.float32:
        return (x % 100003).astype(np.float32)
    if dtype == np.float64:
        return (x % 1000003).astype(np.float64)
    return x.astype(dtype)


def check(condition, text):
    if not condition:
        sys.exit("ckpt_h5py: " + text)


def main():
    where, step, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    path = os.path.join(where, "step-%08d" % step, "index.h5")
    with h5py.File(path, "r") as f:
        check(f.attrs["format"] == "accel-checkpoint", "format")
        check(f.attrs["step"] == step, "step")
        check(f.attrs["world_size"] == ranks, "world_size")
        seen = []
        f.visititems(lambda name, what: seen.append(name))
        check(set(a[0] for a in ARRAYS) <= set(seen), "visititems: %s" % seen)
        for array, (name, dtype, shape, spelled) in enumerate(ARRAYS):
            data = f[name]
            check(data.shape == shape, "%s: shape %s" % (name, data.shape))
            check(data.dtype == (dtype or np.float32),
                  "%s: dtype %s" % (name, data.dtype))
            check(data.attrs["dtype"] == spelled, "%s: dtype" % name)
            got = np.asarray(data[()]).reshape(-1)
            want = wanted(array, dtype, shape, step)
            same = (got == want) | ((got != got) & (want != want))
            check(same.all(), "%s: elements %s" % (name, np.where(~same)[0]))
    print("h5py sees step", step)


main()
