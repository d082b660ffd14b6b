#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rows, factor and spread of every site of validation/sites.yaml from measured runs.

  tools/sites.py --binary build/release/plansearch --table runs.csv [--table more.csv ...]
                 [--suspect suspect.csv ...] [--min-mfu 0.02] [--write]

A factor is the median of measured over predicted step times, predicted at factor 1; a spread the
standard deviation of its logarithm (1.4826 times the median absolute deviation from five rows on, so
that a slow mode of some rows does not count). Rows under suspicion, below the utilisation, failed or
inexpressible are left out. Which rows are whose is the file's own `sources` and `hardware`. To be run
again after other constants have changed; without --write the new lines are printed only. A site
without rows keeps its figures, and says so.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SITES = ROOT / "validation" / "sites.yaml"
#: From so many rows on, the spread is a robust one.
ROBUST = 5
NORMAL = 1.4826


def rows_of(binary, table, root=ROOT):
    done = subprocess.run([binary, "validate", table, "--site", "tuned", "--format", "json",
                           "--quiet"], env=dict(os.environ, PLANSEARCH_DATA=str(root)),
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)["rows"]


def suspect_ids(paths):
    suspects = set()
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            suspects |= {row["id"] for row in csv.DictReader(file)}
    return suspects


def counts(row, suspects, min_mfu):
    if row["measured_step_time_s"] is None or row["predicted_step_time_s"] is None:
        return False
    return not (row["failed"] or row["site"] is None or row["id"] in suspects
                or (row["measured_mfu"] or 1.0) < min_mfu)


def measured_logs(args, root=ROOT):
    """{site: [ln(measured / predicted)]}"""
    suspects, logs = suspect_ids(args.suspect), {}
    for table in args.table:
        for row in rows_of(args.binary, table, root):
            if counts(row, suspects, args.min_mfu):
                logs.setdefault(row["site"], []).append(
                    math.log(row["measured_step_time_s"] / row["predicted_step_time_s"]))
    return logs


def figures(logs):
    middle = statistics.median(logs)
    if len(logs) >= ROBUST:
        spread = NORMAL * statistics.median(abs(value - middle) for value in logs)
    else:
        spread = statistics.pstdev(logs)
    return f"rows: {len(logs)}, factor: {math.exp(middle):.4g}, spread: {spread:.3g}"


def with_figures(logs, keep=True):
    """The text of the file with the figures of these rows; sites without rows only where they are kept."""
    lines = []
    for line in SITES.read_text(encoding="utf-8").splitlines():
        name = re.match(r"  - \{name: ([^,]+),", line)
        if name and name[1] in logs:
            line = re.sub(r"rows: .*?\}", figures(logs[name[1]]) + "}", line)
        elif name and not keep:
            continue
        elif name:
            print(f"{name[1]}: no rows, kept as it is", file=sys.stderr)
        lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", action="append", required=True)
    parser.add_argument("--suspect", action="append", default=[])
    parser.add_argument("--min-mfu", type=float, default=0.02)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    text = with_figures(measured_logs(args))
    if args.write:
        SITES.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
