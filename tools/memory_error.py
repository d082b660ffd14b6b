#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The error of predicted peak memory, by framework: what `memory_error_*` of frameworks/*.yaml say.

    plansearch validate TABLE.csv --format json --out answer.json     # one per table
    python3 tools/memory_error.py answer.json...

    python3 tools/memory_error.py --like torchtune=hf-transformers answer.json

ln(measured / predicted) of every row with both figures; the sources of a framework weigh alike, so
that a long sweep of one laboratory does not speak for all. `--like` counts rows of one framework as
another's, whose constants it has. Deviations are those of a normal
distribution with the same 10th or 90th percentile, one on either side of the median.
"""
import argparse
import collections
import json
import math

NORMAL_P90 = 1.2815515655446004


def quantile(weighted, share):
    """The quantile `share` of (value, weight) pairs."""
    weighted = sorted(weighted)
    left = share * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        left -= weight
        if left <= 0:
            return value
    return weighted[-1][0]


def residuals(paths, like):
    """ln(measured / predicted) by framework and source; suspects are left out."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        for row in rows:
            measured, predicted = row["measured_peak_memory_bytes"], row["predicted_peak_memory_bytes"]
            if measured and predicted and not row["suspect"]:
                name = like.get(row["framework"], row["framework"])
                found[name][row["source"]].append(math.log(measured / predicted))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", nargs="+", help="of plansearch validate --format json")
    parser.add_argument("--like", action="append", default=[], metavar="A=B", help="rows of A are those of B")
    arguments = parser.parse_args()
    found = residuals(arguments.answers, dict(pair.split("=") for pair in arguments.like))
    everything = [(value, 1 / len(values)) for sources in found.values() for values in sources.values()
                  for value in values]
    groups = {name: [(value, 1 / len(values)) for values in sources.values() for value in values]
              for name, sources in sorted(found.items())}
    for name, weighted in {**groups, "all": everything}.items():
        low, median, high = (quantile(weighted, share) for share in (0.1, 0.5, 0.9))
        print(f"{name}: {len(weighted)} rows, {len(found.get(name, found))} sources: "
              f"memory_error_median {math.exp(median):.2f}, memory_error_below {(median - low) / NORMAL_P90:.2f}, "
              f"memory_error_above {(high - median) / NORMAL_P90:.2f}")


if __name__ == "__main__":
    main()
