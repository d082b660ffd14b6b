#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How wrong steps are on chips whose kernels are fractions of another architecture's, each left out in turn.

  tools/left_out_architectures.py --binary build/release/plansearch --table runs.csv [--table more.csv ...]
                                  [--suspect suspect.csv ...]

Every row is predicted for a typical site without the row's laboratory and without `foreign_sigma`. Of each
chip (source by source) the squared mean of ln(measured / predicted), less what sites differ by, is what its
kernels are off by; the mean over the other chips is the variance with which the chip is judged: how many of
its measured times lie between p10 and p90. The last line is that of all chips: hardware_profiles/defaults.yaml.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import sites

ROOT = pathlib.Path(__file__).resolve().parent.parent
P90 = 1.2815515655446004


def without_foreign_sigma(folder):
    for name in ("models", "frameworks", "validation"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "hardware_profiles", folder / "hardware_profiles")
    defaults = folder / "hardware_profiles" / "defaults.yaml"
    lines = defaults.read_text().splitlines()
    defaults.write_text("\n".join("foreign_sigma: 0" if line.startswith("foreign_sigma:") else line
                                  for line in lines) + "\n")


def chip_of(binary, hardware, known):
    """The accelerator of a profile, if its kernels are another architecture's."""
    if hardware not in known:
        shown = subprocess.run([binary, "show", "hw", hardware, "--format", "json"], capture_output=True, text=True,
                               check=False)
        rows = json.loads(shown.stdout)["rows"] if shown.returncode == 0 else []
        foreign = any(row["field"] == "foreign_kernels" and row["value"] == "yes" for row in rows)
        names = [row["value"] for row in rows if row["field"] == "accelerator"]
        known[hardware] = (names[0] if names else hardware) if foreign else None
    return known[hardware]


def deviations(args, folder):
    """{chip: {source: [(ln(measured / predicted), deviation that the interval has already)]}}"""
    suspects, known, found = sites.suspect_ids(args.suspect), {}, {}
    for table in args.table:
        done = subprocess.run([args.binary, "validate", table, "--format", "json", "--quiet"], capture_output=True,
                              text=True, check=False, env={**os.environ, "PLANSEARCH_DATA": str(folder)})
        if done.returncode != 0:
            sys.exit(done.stderr)
        for row in json.loads(done.stdout)["rows"]:
            measured, answer = row["measured_step_time_s"], (row["at_sites"] or {}).get("left_out")
            chip = chip_of(args.binary, row["hw"], known)
            if chip is None or measured is None or answer is None or row["failed"] or row["id"] in suspects:
                continue
            if (row["measured_mfu"] or 1.0) < 0.02:
                continue
            sigma = math.log(answer["p90_s"] / answer["p10_s"]) / (2 * P90)
            found.setdefault(chip, {}).setdefault(row["source"], []).append(
                (math.log(measured / answer["step_time_s"]), sigma))
    return found


def variance_of(sources):
    """Beyond the interval as it is."""
    return statistics.mean(
        max(0.0, statistics.mean(d for d, _ in rows) ** 2 - statistics.mean(s for _, s in rows) ** 2)
        for rows in sources.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", action="append", required=True)
    parser.add_argument("--suspect", action="append", default=[])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        without_foreign_sigma(pathlib.Path(folder))
        chips = deviations(args, pathlib.Path(folder))
    inside_all = []
    for chip, sources in sorted(chips.items()):
        others = [variance_of(other) for name, other in chips.items() if name != chip]
        sigma = math.sqrt(statistics.mean(others)) if others else 0.0
        inside, errors = [], []
        for rows in sources.values():
            inside.append(statistics.mean(abs(d) <= P90 * math.hypot(s, sigma) for d, s in rows))
            errors.append(statistics.mean(abs(math.exp(-d) - 1) for d, _ in rows))
        inside_all.append(statistics.mean(inside))
        print(f"{chip}: {sum(map(len, sources.values()))} rows of {len(sources)} sources, error "
              f"{100 * statistics.mean(errors):.0f} %, inside with the {sigma:.2f} of the others "
              f"{100 * inside_all[-1]:.0f} %")
    print(f"chips alike: inside {100 * statistics.mean(inside_all):.0f} %; of all chips "
          f"{math.sqrt(statistics.mean(variance_of(sources) for sources in chips.values())):.2f}")


if __name__ == "__main__":
    main()
