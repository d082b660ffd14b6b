#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the `concurrency:` section of accelerators to a table of kernels and copies that ran at once.

  tools/fit_concurrency.py TABLE.csv [--seeds 5] [--out-sample validation/published_overlap.csv]

The table has gpu, nodes, intra_group, inter_group, m, n, k, gpu_to_gpu_mb, cpu_to_gpu_mb,
gpu_to_cpu_mb, time_ms: parts alone (one of the four sizes above zero) and together, all started at
once. Combinations are predicted from their parts measured alone, with the equation of
src/cost/kernels/concurrency.cpp. For every seed, coefficients are fitted to a random 70 % of the combinations
and the error on the other 30 % is printed; the coefficients of the first seed ship, and the sample is
drawn from what its fit has not seen. Only the standard library is needed.
"""
import argparse
import csv
import math
import random
import statistics

SIZES = ("m", "gpu_to_gpu_mb", "cpu_to_gpu_mb", "gpu_to_cpu_mb")
WHERE = ("gpu", "nodes", "intra_group", "inter_group")
COMPUTE, LOCAL, FABRIC, FROM_HOST, TO_HOST = range(5)
NAMES = ("compute", "local", "fabric", "from_host", "to_host")
COPIES = (FROM_HOST, TO_HOST)
SAMPLE_ROWS = 300
#: Pairs whose time exceeds that of the longer part by less have no coefficient.
NOTHING_SHARED = 0.02


def slow_down(activity, others, shares, paths):
    copies = sum(paths.get(frozenset((activity, other)), 0.0) for other in others if other in COPIES)
    if activity == COMPUTE:
        taken = sum(shares.get(other, 0.0) for other in others)
        return (1.0 + copies) / (1.0 - min(taken, 0.9))
    kernels = [paths.get(frozenset((activity, other)), 0.0) for other in others if other not in COPIES]
    return 1.0 + copies + max(kernels, default=0.0)


class Rates:
    def __init__(self, shares, paths):
        self.shares, self.paths, self.known = shares, paths, {}

    def of(self, active):
        if active not in self.known:
            self.known[active] = [1.0 / slow_down(a, [b for b in active if b != a], self.shares, self.paths)
                                  for a in active]
        return self.known[active]


def end_of(parts, rates):
    """Until all have ended; parts: (activity, time alone), started at once."""
    time = 0.0
    while parts:
        rate = rates.of(tuple(activity for activity, _ in parts))
        step = min(work / speed for (_, work), speed in zip(parts, rate))
        time += step
        parts = [(activity, work - step * speed) for (activity, work), speed in zip(parts, rate)
                 if work - step * speed > 1e-9 * work]
    return time


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    alone, combinations = {}, []
    for row in rows:
        there = [size for size in SIZES if float(row[size]) > 0]
        if len(there) == 1:
            alone[tuple(row[w] for w in WHERE) + (there[0], row[there[0]])] = row
    for row in rows:
        there = [size for size in SIZES if float(row[size]) > 0]
        keys = [tuple(row[w] for w in WHERE) + (size, row[size]) for size in there]
        if len(there) < 2 or not all(key in alone for key in keys):
            continue
        kinds = {"m": COMPUTE, "gpu_to_gpu_mb": FABRIC if int(row["inter_group"]) > 1 else LOCAL,
                 "cpu_to_gpu_mb": FROM_HOST, "gpu_to_cpu_mb": TO_HOST}
        parts = [(kinds[size], float(alone[key]["time_ms"])) for size, key in zip(there, keys)]
        combinations.append((row, parts, float(row["time_ms"]), [alone[key] for key in keys]))
    return rows, combinations


def parameters_of(combinations):
    """Pairs of activities that share a resource of this chip: pairs that take longer than the longer of the two."""
    excess = {}
    for _, parts, time, _ in combinations:
        if len(parts) == 2:
            pair = frozenset(activity for activity, _ in parts)
            excess.setdefault(pair, []).append(time / max(work for _, work in parts) - 1.0)
    pairs = {pair for pair, found in excess.items() if statistics.mean(found) > NOTHING_SHARED}
    shares = sorted(b for b in (LOCAL, FABRIC) if frozenset((COMPUTE, b)) in pairs)
    paths = sorted(tuple(sorted(p)) for p in pairs if not p <= {COMPUTE, LOCAL, FABRIC})
    return shares, [frozenset(p) for p in paths]


def fit(combinations, shares, paths):
    """Lowest mean |ln(predicted / measured)|: one coefficient after the other, in shrinking steps."""
    names = list(shares) + list(paths)
    values = [0.2] * len(names)

    def loss(values):
        rates = Rates(dict(zip(shares, values)), dict(zip(paths, values[len(shares):])))
        return sum(abs(math.log(end_of(parts, rates) / time)) for _, parts, time, _ in combinations)

    best, step = loss(values), 0.2
    while step > 0.004:
        moved = False
        for i in range(len(values)):
            for way in (step, -step):
                tried = list(values)
                tried[i] = min(0.9 if i < len(shares) else 1.0, max(0.0, values[i] + way))
                found = loss(tried)
                if found < best - 1e-9:
                    best, values, moved = found, tried, True
                    break
        if not moved:
            step /= 2
    return dict(zip(shares, values)), dict(zip(paths, values[len(shares):]))


def errors(combinations, shares, paths):
    rates = Rates(shares, paths)
    return [end_of(parts, rates) / time - 1.0 for _, parts, time, _ in combinations]


def summary(found):
    size = sorted(abs(e) for e in found)
    return (f"mean {100 * statistics.mean(size):.2f} %, median {100 * statistics.median(size):.2f} %, p90 "
            f"{100 * size[int(0.9 * (len(size) - 1))]:.2f} %, bias {100 * statistics.mean(found):+.2f} %")


def split(combinations, seed):
    order = list(combinations)
    random.Random(seed).shuffle(order)
    cut = round(0.7 * len(order))
    return order[:cut], order[cut:]


def show(shares, paths):
    text = [f"multiprocessors.{NAMES[a]} {v:.3f}" for a, v in shares.items()]
    text += [f"paths.{'+'.join(NAMES[a] for a in sorted(p))} {v:.3f}" for p, v in paths.items()]
    return ", ".join(text)


def write_sample(path, rows, held_out):
    """Combinations that no fit has seen, and their parts alone."""
    chosen, lines = list(held_out), set()
    random.Random(1).shuffle(chosen)
    for row, _, _, alone in chosen:
        more = {id(row)} | {id(a) for a in alone}
        if len(lines | more) > SAMPLE_ROWS:
            break
        lines |= more
    header = [h for h in rows[0] if h != "std_over_mean"]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header + ["source"])
        for row in rows:
            if id(row) in lines:
                writer.writerow([row[h] for h in header] + ["Dazz993/Mist@d69e530 mist/tools/results-final"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out-sample")
    args = parser.parse_args()
    rows, combinations = read(args.table)
    sample = []
    for gpu in sorted({row["gpu"] for row in rows}):
        own = [c for c in combinations if c[0]["gpu"] == gpu]
        for seed in range(1, args.seeds + 1):
            seen, left = split(own, seed)
            shares, paths = fit(seen, *parameters_of(seen))
            print(f"{gpu}, seed {seed}: {len(left)} combinations left out: "
                  f"{summary(errors(left, shares, paths))}\n  {show(shares, paths)}", flush=True)
            if seed == 1:
                sample += left
                print(f"  all kinds: nothing shared: {summary(errors(left, {}, {}))}")
                for kind in sorted({tuple(a for a, _ in c[1]) for c in left}, key=lambda k: (len(k), k)):
                    of_kind = [c for c in left if tuple(a for a, _ in c[1]) == kind]
                    print(f"  {' + '.join(NAMES[a] for a in kind)}: {len(of_kind)}: "
                          f"{summary(errors(of_kind, shares, paths))}")
    if args.out_sample:
        write_sample(args.out_sample, rows, sample)


if __name__ == "__main__":
    main()
