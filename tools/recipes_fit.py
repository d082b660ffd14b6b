#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prices the published plans of recipes/*.yaml under their own settings: does the plan fit that somebody ran?

    python3 tools/recipes_fit.py BIN                # a line per plan, and how many fit
    python3 tools/recipes_fit.py BIN --write        # also writes validation/recipes_fit.csv
    python3 tools/recipes_fit.py BIN --check        # exit status 1 where that table says otherwise

A verdict is that of `predict`: fits, tight (a risk of running out of memory above the accepted one), no. Only the
standard library is needed.
"""
import argparse
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import plain_yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "validation" / "recipes_fit.csv"
ABOUT = ("name", "source", "date", "step_time")   # keys of a recipe that no plan file has
UNSAID = "not in a plan: "                         # in a source: what the run did besides
COLUMNS = ("name", "verdict", "peak_gib", "capacity_gib", "risk", "step_s", "published_s", "unsaid")


def recipes():
    for path in sorted((ROOT / "recipes").glob("*.yaml")):
        yield from plain_yaml.load(path.read_text())["recipes"]


def plan_file(recipe):
    """The recipe as a plan file: JSON is YAML, and a number or a truth value is one without quotes."""
    def scalar(value):
        if isinstance(value, dict):
            return {k: scalar(v) for k, v in value.items()}
        plain = {"true": True, "false": False}.get(value, value)
        return int(plain) if isinstance(plain, str) and plain.isdigit() else plain
    plan = {"schema": "plansearch/plan/v1"}
    plan.update({k: scalar(v) for k, v in recipe.items() if k not in ABOUT})
    return json.dumps(plan)


def price(binary, recipe):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(plan_file(recipe))
        file.flush()
        environment = dict(os.environ)
        environment.setdefault("PLANSEARCH_DATA", str(ROOT))
        done = subprocess.run([binary, "predict", "--plan", file.name, "--format", "json", "--quiet"],
                              capture_output=True, text=True, check=False, env=environment)
    row = {"name": recipe["name"], "published_s": recipe.get("step_time", "").removesuffix(" s"), "unsaid": recipe["source"].partition(UNSAID)[2]}
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {**row, "verdict": "refused: " + done.stderr.strip().splitlines()[0]}
    plan = answer["plans"][0]
    verdict = {"fits": "fits", "tight": "tight"}.get(plan["memory_verdict"], "no")
    return {**row, "verdict": verdict, "peak_gib": f"{plan['peak_memory_bytes'] / 2**30:.1f}",
            "capacity_gib": f"{answer['question']['memory_capacity_bytes'] / 2**30:.1f}",
            "risk": f"{plan['memory_risk']:.2f}", "step_s": f"{plan['step_time_s']:.4g}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rows = [price(options.binary, recipe) for recipe in recipes()]
    text = io.StringIO()
    out = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    out.writeheader()
    out.writerows(rows)
    if options.check:
        stored = {row["name"]: row["verdict"] for row in csv.DictReader(TABLE.open())}
        moved = [f"{r['name']}: {stored.get(r['name'])} -> {r['verdict']}" for r in rows if stored.get(r["name"]) != r["verdict"]]
        sys.exit("\n".join(moved) if moved else 0)
    if options.write:
        TABLE.write_text(text.getvalue())
    for row in rows:
        print(f"{row['verdict']:6} {row.get('peak_gib', ''):>7} of {row.get('capacity_gib', ''):>6} GiB  risk {row.get('risk', ''):>5}  "
              f"{row.get('step_s', ''):>7} s ({row['published_s']:>7})  {row['name']}  {row['unsaid']}")
    fit = sum(row["verdict"] == "fits" for row in rows)
    said = sum(row["verdict"] != "fits" and bool(row["unsaid"]) for row in rows)
    print(f"{fit} of {len(rows)} fit; {said} more say what they did that no plan says")


if __name__ == "__main__":
    main()
