#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the curves of frameworks/operators/recurrences.yaml to a table of measured kernels.

A kernel that takes a sequence in chunks needs

    launch + ceil(batch x heads / multiprocessors) x ceil(tokens / chunk) x latency + FLOPs / rate,

at least launch + bytes / (share x bandwidth): chunks of one sequence and head follow each other on one multiprocessor,
what is more than there are multiprocessors runs in waves (src/cost/kernels/chunk_cost.cpp). FLOPs are those of the
chunk form, of a convolution 8 a channel and token (4 taps; measured rates are far below memory's). Launch, latency and
rate minimise the mean of |predicted / measured - 1| over the rows of one kernel and chip. Every chip is also predicted from the nearest other one by bf16 peak, latency and
rate by the square root of the peaks, as the program does for chips without a row.

    tools/fit_kernels.py kernels.csv [--write-yaml]

Columns: gpu, op, kernel, batch, seq, groups_or_k_heads, state_or_k_dim, heads_or_v_heads, head_dim, chunk, ms (forward).
Published tables: ai-dynamo/aiconfigurator@095f58a51, systems/data. Plain Python, a minute.
"""
import argparse
import csv
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from least_squares import solve  # noqa: E402

# bf16 peak (TFLOP/s), memory bandwidth (TB/s) and multiprocessors: hardware_profiles/accelerators.
CHIPS = {"a100_sxm": ("a100-sxm4-80gb", 312, 2.039, 108), "h100_sxm": ("h100-sxm5-80gb", 989.4, 3.35, 132),
         "h200_sxm": ("h200-sxm-141gb", 989.4, 4.8, 132), "b200_sxm": ("b200-sxm-180gb", 2250, 8.0, 148),
         "gb200": ("gb200-186gb", 2500, 8.0, 148)}
CONVOLUTIONS = ("causal_conv1d_fn", "causal_conv1d_fn_qkv3")
#: Times of these rows do not change with the number of channels: it is not known what they are of.
UNKNOWN = {("a100_sxm", "causal_conv1d_fn")}


class Row:
    def __init__(self, row):
        self.gpu, self.op, self.kernel = row["gpu"], row["op"], row["kernel"]
        names = ("batch", "seq", "groups_or_k_heads", "state_or_k_dim", "heads_or_v_heads", "head_dim")
        self.batch, self.tokens, self.groups, self.key, self.heads, self.value = (int(row[n]) for n in names)
        self.chunk = int(row["chunk"] or 64)
        self.seconds = float(row["ms"]) * 1e-3
        self.chunks = math.ceil(self.tokens / self.chunk)
        self.waves = math.ceil(self.batch * self.heads / CHIPS[self.gpu][3])

    def flops(self):
        rows, c, n, p = self.batch * self.tokens, self.chunk, self.key, self.value
        if self.kernel in CONVOLUTIONS:
            return rows * 8.0 * (2 * self.groups * n + self.heads * p)
        if self.op == "mamba2":
            return rows * (self.heads * (4 * n * p + 2 * c * p) + self.groups * 2 * c * n)
        return rows * self.heads * (6 * n * p + 6 * c * n + 4 * c * p + 2 / 3 * c * c)

    def bytes(self):
        channels = 2 * self.groups * self.key + self.heads * self.value
        if self.kernel in CONVOLUTIONS:
            return 4.0 * self.batch * self.tokens * channels
        gates = self.heads * (self.key if self.op == "kda" else 2)
        return 2.0 * self.batch * self.tokens * (channels + self.heads * self.value + gates)


def predict(row, values, chip, faster=1.0):
    launch, latency, rate, share = values
    bandwidth = CHIPS[chip][2] * 1e12
    time = launch + latency * row.chunks * row.waves / faster
    if rate:
        time += row.flops() / (rate * faster)
    return max(time, launch + row.bytes() / (share * bandwidth))


def unpack(kernel, logs):
    if kernel in CONVOLUTIONS:
        return (math.exp(logs[0]) * 1e-6, 0.0, math.exp(logs[1]) * 1e12, 1.0)
    return (math.exp(logs[0]) * 1e-6, math.exp(logs[1]) * 1e-6, math.exp(logs[2]) * 1e12, 1.0)


def mean_error(rows, values, chip, faster=1.0):
    errors = sorted(abs(predict(row, values, chip, faster) / row.seconds - 1) for row in rows)
    return sum(errors) / len(errors), errors[int(0.9 * (len(errors) - 1))]


def fit(rows, kernel, chip):
    """Levenberg-Marquardt on logarithms, rows weighted so that their errors count by size."""
    logs = [math.log(5), math.log(4)] if kernel in CONVOLUTIONS else [math.log(15), 0.0, math.log(80)]

    def residuals(at):
        values = unpack(kernel, at)
        return [math.log(predict(row, values, chip) / row.seconds) for row in rows]

    def cost(at):
        return sum(abs(r) for r in residuals(at))

    best, damping = cost(logs), 1e-2
    for _ in range(80):
        now = residuals(logs)
        slopes = []
        for i in range(len(logs)):
            moved = list(logs)
            moved[i] += 1e-4
            slopes.append([(a - b) / 1e-4 for a, b in zip(residuals(moved), now)])
        weights = [1.0 / max(abs(r), 0.01) for r in now]
        curvature = [[sum(w * a * b for w, a, b in zip(weights, x, y)) for y in slopes] for x in slopes]
        slope = [-sum(w * a * r for w, a, r in zip(weights, x, now)) for x in slopes]
        while damping < 1e8:
            matrix = [[v + (damping * (v + 1e-9) if i == j else 0.0) for j, v in enumerate(line)]
                      for i, line in enumerate(curvature)]
            tried = [a + max(-1.0, min(1.0, d)) for a, d in zip(logs, solve(matrix, slope))]
            if cost(tried) < best * (1 - 1e-9):
                logs, best, damping = tried, cost(tried), max(damping / 3, 1e-7)
                break
            damping *= 4
        if damping >= 1e8:
            break
    return unpack(kernel, logs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--write-yaml", action="store_true", help="chips of recurrences.yaml in place of the report")
    options = parser.parse_args()
    table = [Row(row) for row in csv.DictReader(open(options.table)) if (row["gpu"], row["kernel"]) not in UNKNOWN]
    for kernel in sorted({row.kernel for row in table}):
        fits, groups = {}, {}
        for chip in sorted({row.gpu for row in table if row.kernel == kernel}):
            groups[chip] = [row for row in table if row.kernel == kernel and row.gpu == chip]
            fits[chip] = fit(groups[chip], kernel, chip)
        if options.write_yaml:
            print(f"{kernel}:")
            for chip, (launch, latency, rate, share) in fits.items():
                curve = f"chunk: {latency * 1e6:.3f} us, rate: {rate / 1e12:.2f} TFLOP/s"
                print(f"  {CHIPS[chip][0]}: {{peak: {CHIPS[chip][1]} TFLOP/s, forward: {{launch: {launch * 1e6:.1f} us, {curve}}}}}")
            continue
        means = []
        for chip, values in fits.items():
            mean, high = mean_error(groups[chip], values, chip)
            means.append(mean)
            others = [other for other in fits if other != chip]
            out = "-"
            if others:
                near = min(others, key=lambda other: abs(math.log(CHIPS[chip][1] / CHIPS[other][1])))
                faster = math.sqrt(CHIPS[chip][1] / CHIPS[near][1])
                left = mean_error(groups[chip], fits[near], chip, faster)[0]
                out = f"{100 * left:5.1f} from {near}"
            print(f"{kernel:34} {chip:9} {len(groups[chip]):4} rows  launch {values[0] * 1e6:5.1f} us  chunk "
                  f"{values[1] * 1e6:5.2f} us  rate {values[2] / 1e12:6.0f} TFLOP/s  share {values[3]:.2f}  "
                  f"error {100 * mean:4.1f} % mean {100 * high:5.1f} p90  left out {out}")
        print(f"{kernel:34} mean over chips {100 * sum(means) / len(means):.1f} %")


if __name__ == "__main__":
    main()
