#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The validation page is written from shipped data by one command, and says nothing of the machine
that wrote it; shipped tables are sound.

Usage: check_page.py REPOSITORY EXECUTABLE
"""
import csv
import pathlib
import subprocess
import sys
import tempfile
import xml.dom.minidom
from statistics import mean, median

ROOT, EXECUTABLE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
sys.path.insert(0, str(ROOT / "tools"))

from validation_unseen import alike, by_source, timed, unseen_tables  # noqa: E402


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_page():
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, str(ROOT / "tools/validation_page.py"), "--binary", EXECUTABLE,
                   "--out", directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stderr)
        out = pathlib.Path(directory)
        page = (out / "validation.md").read_text(encoding="utf-8")
        details = (out / "validation_details.md").read_text(encoding="utf-8")
        # Sources out of sample come first, in sample below.
        sections = ["## Sources in no fit", "## Sources never seen before", "## In short", "## Laboratories left out", "## Peak memory",
                    "## Ranking inside sweeps", "## By site", "## Step time", "## What can run", "## Weaknesses"]
        places = [page.find("\n" + section) for section in sections]
        check(min(places) >= 0 and places == sorted(places), f"sections in order: {places}")
        for section in ("## Kernels and collectives", "## Kernels, messages and copies at once", "## Held out"):
            check(details.count(section) == 1, section)
        constants = (out / "validation_constants.md").read_text(encoding="utf-8")
        check("`host_launch`" in constants, "constants of frameworks are listed")
        for text in (page, details, constants):
            for path in (str(ROOT), directory, str(pathlib.Path(EXECUTABLE).resolve().parent)):
                check(path not in text, f"the page mentions {path}")
        for figure in ("step_time", "memory"):
            svg = out / f"figures/validation_{figure}.svg"
            root = xml.dom.minidom.parse(str(svg)).documentElement
            check(root.tagName == "svg", f"{svg} is a picture")
            check(f"figures/validation_{figure}.svg" in page, f"{figure} is shown")


def rows_of(name):
    with open(ROOT / "validation" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_tables():
    names = set()
    for table in ("published_runs.csv", "published_memory.csv"):
        for row in rows_of(table):
            check(row["id"] not in names, f"{row['id']} appears twice")
            names.add(row["id"])
            check(row["source"] and row["locator"], f"{row['id']} says where it was published")
    for row in rows_of("published_suspect.csv"):
        check(row["id"] in names and row["why"], f"{row['id']} is a row, with a reason")


def check_unseen():
    """Runs in no fit are answered, and no worse than when they were first asked."""
    for name, every, first in unseen_tables(EXECUTABLE, ROOT / "validation"):
        rows = timed(every)
        check([row["id"] for row in every] == list(first), f"{name}: every row has a first answer")
        check(all(row["source"] and row["locator"] for row in rows_of(f"{name}.csv")), f"{name}: rows say where")
        then, now = (alike(by_source(rows, answer)) for answer in (lambda row: first[row["id"]], lambda row: row))
        check(now["rows"] >= 0.9 * len(rows), f"{name}: {now['rows']} rows of {len(rows)} answered")
        check(now["mean"] <= 1.1 * then["mean"] and now["inside"] >= 0.5, f"{name}: {now}, first {then}")
        if name == "unseen_tuning":
            check_tuning(every, now)


def check_tuning(rows, steps):
    """Nearly all runs of users are answered, within loose bounds; sources weigh alike."""
    check(sum(row["expressible"] for row in rows) >= 0.98 * len(rows), "98 % of the rows are answered")
    check(steps["mean"] < 0.30, f"steps are within 30 %: {steps}")
    peaks = {row["source"]: [] for row in rows}
    for row in rows:
        measured, predicted = row["measured_peak_memory_bytes"], row["predicted_peak_memory_bytes"]
        if measured and predicted:
            peaks[row["source"]].append(abs(predicted / measured - 1))
    check(median(mean(errors) for errors in peaks.values() if errors) < 0.22, "peaks are within 22 %")


check_page()
check_tables()
check_unseen()
