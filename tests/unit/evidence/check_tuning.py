#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published fine-tuning in no fit: nearly all rows of validation/unseen_tuning.csv are answered, within loose bounds.

Usage: check_tuning.py REPOSITORY EXECUTABLE
"""
import collections
import csv
import json
import pathlib
import subprocess
import sys
from statistics import mean, median

ROOT, EXECUTABLE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
TABLE = ROOT / "validation" / "unseen_tuning.csv"


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def errors(rows, source_of, what):
    """Mean absolute error of every source."""
    found = collections.defaultdict(list)
    for row in rows:
        measured, predicted = row[f"measured_{what}"], row[f"predicted_{what}"]
        if measured and predicted:
            found[source_of[row["id"]]].append(abs(predicted / measured - 1))
    return [mean(some) for some in found.values()]


with open(TABLE, newline="", encoding="utf-8") as file:
    SOURCE = {row["id"]: row["source"] for row in csv.DictReader(file)}
with open(ROOT / "validation" / "unseen_tuning_answers.csv", newline="", encoding="utf-8") as file:
    check([row["id"] for row in csv.DictReader(file)] == list(SOURCE), "every row has a first answer")
ROWS = json.loads(subprocess.run([EXECUTABLE, "validate", TABLE, "--format", "json"], capture_output=True, check=True).stdout)["rows"]
TIMED = [row for row in ROWS if row["measured_step_time_s"] and row["predicted_step_time_s"]]
INSIDE = mean(row["predicted_p10_s"] <= row["measured_step_time_s"] <= row["predicted_p90_s"] for row in TIMED)
check(sum(row["expressible"] for row in ROWS) >= 0.98 * len(ROWS), "98 % of the rows are answered")
check(mean(errors(ROWS, SOURCE, "step_time_s")) < 0.30, "steps, sources alike, are within 30 %")
check(median(errors(ROWS, SOURCE, "peak_memory_bytes")) < 0.22, "peaks, sources alike, are within 22 %")
print(f"{len(TIMED)} steps, {INSIDE:.0%} between p10 and p90")
