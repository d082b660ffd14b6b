#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts which values of unstated switches laboratories ran, from the published runs that state them.

  tools/switch_priors.py [--table validation/published_runs.csv] [--write]
  tools/switch_priors.py --binary build/release/plansearch --left-out runs.csv [--left-out more.csv ...]

One entry a framework, source and value: runs, and their share of the source's. Rows of a table count
with the cells that state the switch; entries of validation/architectures.yaml that list the rows of a
source (`id`) count with what the source's own configurations say of them. Micro-batches are counted at
the nearest power of two. The year is that of the source; without --write the file is printed only.

Who states a switch is not who leaves it out. `--left-out` prices the runs of tables that leave recomputation
out with every level and says how many of their sources ran what is assumed (`as_assumed`): a source as a
whole runs the framework's default, or what those who state it do; the share that makes the measured times
likeliest, with one source of either kind added. It is AS_ASSUMED here.
"""
import argparse
import collections
import csv
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRIORS = ROOT / "validation" / "switch_priors.yaml"
SWITCHES = ("recompute", "micro_batch")
#: By --left-out over all tables: 15 sources.
AS_ASSUMED = 0.89
NORMAL_P90 = 1.2815515655446004
#: Years of sources that do not say it in their name or place.
YEARS = {
    "MLPerf Training v3.0": 2023, "MLPerf Training v3.1": 2023, "MLPerf Training v4.0": 2024, "MLPerf Training v4.1": 2024,
    "MosaicML llm-foundry": 2023,  # both tables: June and November
    "Ultra-Scale Playbook": 2025, "NeMo Framework Launcher": 2024, "BigScience experiments on Jean Zay": 2021,
    "PyTorch torchao training benchmarks": 2025,
}
PATTERNS = ((re.compile(r"arXiv (\d\d)\d\d\."), 2000), (re.compile(r"\b(2[0-9])\.\d\d(?:\.\d\d)? NeMo Container"), 2000))
#: Rows that entries of architectures.yaml list by name: their framework and year (containers 25.11 to 26.08).
LISTED = {"NVIDIA-NeMo/Megatron-Bridge perf summary": ("megatron", 2026)}


def year_of(row):
    for pattern, century in PATTERNS:
        found = pattern.search(row["source"]) or pattern.search(row["locator"])
        if found:
            return century + int(found.group(1))
    for name, year in YEARS.items():
        if row["source"].startswith(name):
            return year
    sys.exit(f"no year is known of {row['source']!r}: add it to YEARS")


def value_of(switch, text):
    return str(2 ** round(math.log2(int(text)))) if switch == "micro_batch" else text


def counted(table):
    """{(switch, framework, source, year): {value: runs}}"""
    counts = collections.defaultdict(collections.Counter)
    with open(table, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for switch in SWITCHES:
                if row.get(switch):
                    key = (switch, row["framework"], row["source"], year_of(row))
                    counts[key][value_of(switch, row[switch])] += 1
    entries = yaml.safe_load((ROOT / "validation" / "architectures.yaml").read_text(encoding="utf-8"))["architectures"]
    for entry in entries:
        columns, settings = entry.get("columns", {}), entry.get("settings", {})
        if columns.get("source") not in LISTED or "id" not in columns:
            continue
        framework, year = LISTED[columns["source"]]
        for switch in SWITCHES:
            if switch in settings:
                key = (switch, framework, columns["source"], year)
                counts[key][value_of(switch, settings[switch])] += len(columns["id"])
    return counts


def text_of(counts):
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             "# Written by tools/switch_priors.py from published_runs.csv and architectures.yaml; edit those, not this.",
             "# What laboratories ran where a switch was theirs to choose: runs of a source with each value, and the",
             "# source's year. Micro-batches at the nearest power of two.",
             "schema: plansearch/switch-priors/v1",
             "# How many of those who leave a switch out run what is assumed: tools/switch_priors.py --left-out.",
             f"as_assumed: {AS_ASSUMED}", "priors:"]
    for (switch, framework, source, year), values in sorted(counts.items()):
        order = sorted(values.items(), key=lambda item: (not item[0].isdigit(), int(item[0]) if item[0].isdigit() else item[0]))
        lines += [f"  - switch: {switch}", f"    framework: {framework}", f"    year: {year}",
                  "    runs: {" + ", ".join(f'"{value}": {runs}' for value, runs in order) + "}",
                  f'    source: "{source}"']
    return "\n".join(lines) + "\n"


def predicted(binary, rows, columns, level, folder):
    """{id: row of validate} of the rows with one recompute level."""
    path = pathlib.Path(folder) / "rows.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({**row, "recompute": level} for row in rows)
    done = subprocess.run([binary, "validate", path, "--format", "json", "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return {row["id"]: row for row in json.loads(done.stdout)["rows"]}


def density(measured, row):
    """Density of the logarithm of a measured step, by the interval of its prediction."""
    error = math.log(measured / row["predicted_step_time_s"])
    below = math.log(row["predicted_step_time_s"] / row["predicted_p10_s"]) / NORMAL_P90
    above = math.log(row["predicted_p90_s"] / row["predicted_step_time_s"]) / NORMAL_P90
    return math.exp(-0.5 * (error / (below if error < 0 else above)) ** 2) * 2 / (below + above) + 1e-9


def prior(counts, framework, year, value):
    """As src/plan/degrees/switch_priors.cpp has it, of recomputation."""
    def mean(groups):
        weights = [(1 / (1 + abs(key[3] - year)), values[value] / sum(values.values())) for key, values in groups]
        return sum(w * share for w, share in weights), sum(w for w, _ in weights)
    every = [item for item in counts.items() if item[0][0] == "recompute"]
    own, weight = mean([item for item in every if item[0][1] == framework])
    all_value, all_weight = mean(every)
    return (own + 0.5 * all_value / all_weight) / (weight + 0.5)


def left_out(binary, tables, counts):
    newest = max(key[3] for key in counts)
    likely = collections.defaultdict(lambda: [0.0, 0.0])
    for table in tables:
        with open(table, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if not row["recompute"] and row["step_time_s"] and row["oom"] in ("", "0")]
        if not rows:
            continue
        with tempfile.TemporaryDirectory() as folder:
            as_is, *levels = (predicted(binary, rows, list(rows[0]), level, folder)
                              for level in ("", "none", "selective", "full"))
        for row in rows:
            notes = [note.split()[1] for note in as_is[row["id"]]["filled"] if note.startswith("recompute ") and "(" in note]
            priced = {level: found[row["id"]] for level, found in zip(("none", "selective", "full"), levels)
                      if found[row["id"]]["predicted_step_time_s"] and found[row["id"]]["verdict"] != "illegal"}
            if not notes or notes[0] not in priced or (as_is[row["id"]]["measured_mfu"] or 1) < 0.02:
                continue
            times = {level: density(float(row["step_time_s"]), found) for level, found in priced.items()}
            odds = {level: prior(counts, row["framework"], newest, level) * (1 - (found["memory_risk"] or 0))
                    for level, found in priced.items()}
            total = sum(odds.values())
            if total > 0:
                likely[row["source"]][0] += math.log(times[notes[0]])
                likely[row["source"]][1] += math.log(sum(odds[level] * times[level] for level in odds) / total)
    share = 0.5
    for _ in range(200):
        kept = [1 / (1 + (1 - share) / share * math.exp(min(700.0, b - a))) for a, b in likely.values()]
        share = (sum(kept) + 1) / (len(kept) + 2)
    print(f"{len(likely)} sources leave recomputation out: as assumed {share:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "validation" / "published_runs.csv")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--binary")
    parser.add_argument("--left-out", action="append", default=[], metavar="TABLE")
    args = parser.parse_args()
    if args.left_out:
        left_out(args.binary, args.left_out, counted(args.table))
        return
    text = text_of(counted(args.table))
    if args.write:
        PRIORS.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
