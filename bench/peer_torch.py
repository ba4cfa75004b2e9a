# PyTorch's side of bench_optim, bench_convert and bench_loader: one round, in
# the lines that bench/README describes. One thread, as the other side has.
import sys
import tempfile
import time

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

TURNS = 3


def best(work):
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def show(case, unit, value):
    print(f"{case}\t{unit}\tpytorch\t{value:.6g}")


def optim():
    count = 8 << 20
    p = torch.nn.Parameter(torch.zeros(count))
    p.grad = torch.full((count,), 1e-4)
    # weight_decay as in bench_optim.c
    step = torch.optim.AdamW([p], lr=1e-3, weight_decay=0.01).step
    step()
    show("adamw-f32-8Mi", "GB/s", 28e-9 * count / best(step))


def convert():
    count = 16 << 20
    wide = torch.rand(count)
    for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        out = torch.empty(count, dtype=dtype)
        show(f"f32-to-{name}", "GB/s",
             6e-9 * count / best(lambda: out.copy_(wide)))
        back = torch.empty(count)
        show(f"{name}-to-f32", "GB/s",
             6e-9 * count / best(lambda: back.copy_(out)))


class Rows(Dataset):
    """Samples of an array in a file, one at a time, as its users read them."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.from_numpy(numpy.array(self.rows[i]))


def epochs(case, data, shuffle):
    batches = DataLoader(data, batch_size=32, shuffle=shuffle)

    def epoch():
        for _ in batches:
            pass

    show(case, "Msamples/s", 1e-6 * len(data) / best(epoch))


def loader():
    rows = numpy.zeros((16 << 10, 64), "f4")  # slower, so fewer: it is a rate
    data = TensorDataset(torch.from_numpy(rows))
    epochs("shuffled-32x64-f32", data, True)
    epochs("in-order-32x64-f32", data, False)
    with tempfile.TemporaryDirectory() as folder:
        numpy.save(folder + "/x.npy", rows)
        data = Rows(numpy.load(folder + "/x.npy", mmap_mode="r"))
        epochs("npy-shuffled-32x64-f32", data, True)
        try:
            import h5py
        except ImportError:
            return
        with h5py.File(folder + "/x.h5", "w") as f:
            f["x"] = rows
        with h5py.File(folder + "/x.h5", "r") as f:
            epochs("hdf5-shuffled-32x64-f32", Rows(f["x"]), True)


torch.set_num_threads(1)
{"optim": optim, "convert": convert, "loader": loader}[sys.argv[1]]()
