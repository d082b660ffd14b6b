#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Host links, updates on the host and fp8 products of one NVIDIA GPU in PyTorch, as a table.

  python3 tools/host_and_fp8_times.py --out host_and_fp8.csv [--tokens 8192]

Rows: what, m, k, n, bytes, seconds (the best of several), rate.
  copy-to-device, copy-from-device, copy-both     pinned memory of 1 GiB (both: one each way at once)
  update-on-host                                  fused AdamW of fp32 parameters, moments and gradients on the CPU
  product-bf16, product-fp8-tensorwise, product-fp8-rowwise   one product, operands scaled before (torch._scaled_mm)
  quantise-tensorwise, quantise-rowwise           an operand m x k of bf16 in fp8 with its scales, compiled
"""

import argparse
import csv
import sys

# (k, n) of the products of Llama 3 8B and 70B in one layer.
SHAPES = [(4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096), (8192, 10240), (8192, 57344), (28672, 8192)]
TOP = 448.0  # the largest number of float8_e4m3fn


def best(torch, work, repeats=10):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return min(times)


def copies(torch, write):
    size = 1 << 30
    device, other = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    host, host_other = (torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2))
    write("copy-to-device", 0, 0, 0, size, best(torch, lambda: device.copy_(host, non_blocking=True)))
    write("copy-from-device", 0, 0, 0, size, best(torch, lambda: host.copy_(device, non_blocking=True)))
    stream = torch.cuda.Stream()

    def both():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            host_other.copy_(other, non_blocking=True)
        device.copy_(host, non_blocking=True)
        torch.cuda.current_stream().wait_stream(stream)

    write("copy-both", 0, 0, 0, 2 * size, best(torch, both))


def update(torch, write):
    import time

    elements = 1 << 28
    parameter = torch.nn.Parameter(torch.zeros(elements))
    parameter.grad = torch.ones(elements)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    # Parameter and two moments read and written, gradient read.
    write("update-on-host", 0, 0, 0, elements * 28, min(times))


def tensorwise(torch, x):
    scale = x.abs().max().float() / TOP
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def rowwise(torch, x):
    scale = x.abs().amax(dim=1, keepdim=True).float() / TOP
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def products(torch, write, m):
    quantisers = {"tensorwise": torch.compile(lambda x: tensorwise(torch, x)), "rowwise": torch.compile(lambda x: rowwise(torch, x))}
    for k, n in SHAPES:
        x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        write("product-bf16", m, k, n, 0, best(torch, lambda: x @ w.t()))
        for name, quantise in quantisers.items():
            (a, sa), (b, sb) = quantise(x), quantise(w)
            if name == "rowwise":
                sb = sb.t().contiguous()
            write(f"product-fp8-{name}", m, k, n, 0,
                  best(torch, lambda: torch._scaled_mm(a, b.t(), scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16, use_fast_accum=True)))
            write(f"quantise-{name}", m, k, 0, m * k * 3, best(torch, lambda: quantise(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--tokens", type=int, default=8192)
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as missing:
        sys.exit(f"error: {missing}\nhint: pip install torch")
    if not torch.cuda.is_available():
        print("error: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(3)
    with open(arguments.out, "w", newline="") as target:
        table = csv.writer(target)
        table.writerow(["what", "m", "k", "n", "bytes", "seconds", "rate"])

        def write(what, m, k, n, size, seconds):
            rate = (size or 2.0 * m * k * n) / seconds
            table.writerow([what, m, k, n, size, f"{seconds:.6g}", f"{rate:.4g}"])
            target.flush()
            print(f"{what} {m} x {k} x {n}: {seconds:.4g} s, {rate:.4g} /s", flush=True)

        copies(torch, write)
        products(torch, write, arguments.tokens)
        update(torch, write)


if __name__ == "__main__":
    main()
