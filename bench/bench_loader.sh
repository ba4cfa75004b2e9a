# loader: accel and the limit, then PyTorch where it is installed.
"$top_builddir/bench/bench_loader" || exit
"$top_builddir/bench/loader_files" || exit
! python3 -c 'import torch' 2>/dev/null ||
    python3 "$top_srcdir/bench/peer_torch.py" loader
