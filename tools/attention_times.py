#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of PyTorch's fused attention on the first GPU, as a table that `plansearch fit` and `validate` read.

  python3 tools/attention_times.py --out attention.csv [--gpu NAME] [--device cpu]

scaled_dot_product_attention with the kernel that PyTorch chooses (FlashAttention, cuDNN or its own), causal, forward and
backward apart. Random inputs; the median of seven blocks after a warm-up. `fit` reads it beside samples:

  plansearch fit samples.jsonl attention.csv --out mine.yaml
"""

import argparse
import csv
import statistics
import sys
import time

HEADS = [(1, 8, 8, 64), (1, 16, 16, 128), (4, 16, 16, 64), (2, 32, 8, 128), (8, 32, 32, 128), (1, 2, 2, 128)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--gpu", help="the accelerator's name for the table (default: as PyTorch calls it)")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--longest", type=int, default=16384)
    arguments = parser.parse_args()
    try:
        import torch
        from torch.nn.functional import scaled_dot_product_attention as attention
    except ImportError as missing:
        sys.exit(f"error: {missing}\nhint: pip install torch")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("error: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(3)
    dtype = torch.bfloat16 if arguments.device == "cuda" else torch.float32
    name = arguments.gpu or (torch.cuda.get_device_name(0) if arguments.device == "cuda" else "cpu")

    def wait():
        if arguments.device == "cuda":
            torch.cuda.synchronize()

    def seconds(call):
        for _ in range(5):
            call()
        wait()
        begin = time.perf_counter()
        call()
        wait()
        calls = max(1, min(200, round(0.05 / max(time.perf_counter() - begin, 1e-6))))
        blocks = []
        for _ in range(7):
            wait()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            wait()
            blocks.append((time.perf_counter() - begin) / calls)
        return statistics.median(blocks)

    with open(arguments.out, "w", newline="") as target:
        table = csv.writer(target)
        table.writerow(["gpu", "kernel", "direction", "mask", "dtype", "batch", "seq_len", "heads", "kv_heads", "head_dim",
                        "time_us"])
        for batch, heads, kv_heads, size in HEADS:
            length = 256
            while length <= arguments.longest:
                shape = [batch, length, heads, kv_heads, size]
                try:
                    query = torch.randn(batch, heads, length, size, device=arguments.device, dtype=dtype, requires_grad=True)
                    key, value = (torch.randn(batch, kv_heads, length, size, device=arguments.device, dtype=dtype,
                                              requires_grad=True) for _ in range(2))
                    more = {"enable_gqa": True} if heads != kv_heads else {}

                    def forward():
                        return attention(query, key, value, is_causal=True, **more)

                    context = forward()
                    slope = torch.randn_like(context)

                    def backward():
                        torch.autograd.grad(context, (query, key, value), slope, retain_graph=True)

                    with torch.no_grad():
                        ahead = seconds(forward)
                    back = seconds(backward)
                except torch.OutOfMemoryError:
                    break
                for direction, time_s in (("forward", ahead), ("backward", back)):
                    table.writerow([name, "measured", direction, "causal", "bf16" if dtype == torch.bfloat16 else "fp32", *shape,
                                    f"{1e6 * time_s:.6g}"])
                target.flush()
                length *= 2
    print(f"{arguments.out}: next: plansearch fit samples.jsonl {arguments.out} --out mine.yaml")


if __name__ == "__main__":
    main()
