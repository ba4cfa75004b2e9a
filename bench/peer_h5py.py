# h5py's side of bench_ckpt: the same arrays in one file, made durable, and
# back; one process, which for HDF5's serial flavour is all there is.
import os
import sys
import time

import h5py
import numpy as np

ARRAYS, BYTES, TURNS = 32, 256 << 20, 3


def save(path, data):
    with h5py.File(path, "w") as f:
        for i, part in enumerate(data):
            f["model/layer%d.weight" % i] = part
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def load(path, data):
    with h5py.File(path, "r") as f:
        for i, part in enumerate(data):
            f["model/layer%d.weight" % i].read_direct(part)


def timed(act, *args):
    start = time.perf_counter()
    act(*args)
    return time.perf_counter() - start


path = os.path.join(sys.argv[1], "peer.h5")
data = np.random.rand(ARRAYS, 256, BYTES // ARRAYS // 4 // 256)
data = data.astype(np.float32)
times = {"save": [], "load": []}
for _ in range(TURNS):
    times["save"].append(timed(save, path, data))
    times["load"].append(timed(load, path, data))
    os.unlink(path)
for act in times:
    for ranks in (1, 2):
        print("%s-%dranks-256MiB\tGB/s\th5py\t%.6g"
              % (act, ranks, 1e-9 * BYTES / min(times[act])))
