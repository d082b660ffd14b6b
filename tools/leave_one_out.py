#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refits the constants of a framework without one group of runs, and predicts that group.

  tools/leave_one_out.py --binary build/release/plansearch --table runs.csv --suspect suspect.csv
                         [--study TEXT] [--out validation/leave_one_out.json]

Groups are sources where several share the constants, else models or machines (STUDIES below). Every
fit, with and without the group, starts from the middle of the bounds of
validation/fitted_constants.yaml, never from the shipped values, which have seen all rows. Takes
minutes. Only the standard library is needed.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import sys
import tempfile

import refit

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 12

#: (title, framework, column that makes the groups, {text in a cell: group of several cells},
#:  lowest utilisation)
STUDIES = (
    ("Megatron: a source left out", "megatron", "source", {"MLPerf": "MLPerf Training"}, 0.0),
    ("Megatron-DeepSpeed: a source left out", "megatron-deepspeed", "source",
     {"BigScience": "BigScience on Jean Zay (V100)"}, 0.0),
    ("FSDP: a source left out", "fsdp", "source", {}, 0.0),
    ("FSDP: a machine left out", "fsdp", "hw", {}, 0.0),
    ("FSDP: a model left out", "fsdp", "model", {}, 0.0),
    ("nanotron: a model left out", "nanotron", "model", {}, 0.02),
    ("nanotron: a number of GPUs left out", "nanotron", "gpus", {}, 0.02),
)
METHOD = (
    "Constants that stand for a framework are refitted without a group of runs, which is then "
    "predicted; *in sample* is the error on the same runs when they are part of the fit. Both fits "
    "start from the middle of the bounds in "
    "[`validation/fitted_constants.yaml`](../validation/fitted_constants.yaml), not from the "
    "shipped values, so *in sample* differs from the tables above. Suspect rows are left out, and "
    "for nanotron runs below 2 % utilisation. nanotron has a single source, so models and numbers "
    "of GPUs are left out instead. Constants of kernels, links and fabrics stay as shipped; the few "
    "of them that were fitted to steps (marked so in "
    "[validation_constants.md](validation_constants.md)) have seen all runs. The search is a "
    "coordinate descent of twelve rounds: a ratio below one is its noise, not a virtue.")


def middle(constant):
    low, high = constant["low"], constant["high"]
    return (low * high) ** 0.5 if constant["scale"] == "log" else (low + high) / 2


def group_of(row, column, together):
    for text, name in together.items():
        if text in row[column]:
            return name
    return row[column]


class Study:
    """Rows of one framework, their groups, and a bench that prices only them."""

    def __init__(self, args, suspects, study):
        self.title, self.framework, column, together, min_mfu = study
        with open(args.table, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = [row for row in reader if row["framework"] == self.framework
                    and row["step_time_s"] and row["id"] not in suspects]
            columns = reader.fieldnames
        self.groups = {row["id"]: group_of(row, column, together) for row in rows}
        handle, self.table = tempfile.mkstemp(suffix=".csv")
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        self.args = argparse.Namespace(binary=args.binary, table=[self.table], data=str(ROOT),
                                       suspect=None, hold_out=0.0, memory=False, min_mfu=min_mfu,
                                       weight_sources=False, loss="mean")
        constants = refit.read_constants(str(ROOT / "validation/fitted_constants.yaml"))
        wanted = {f"frameworks/{self.framework}.yaml"}
        if self.framework == "nanotron":
            wanted.add("hardware_profiles/fabrics/efa.yaml")
        self.constants = [c for c in constants if c["file"] in wanted]
        self.loss = GroupLoss(self.args, self.groups)

    def fit(self, wanted):
        """{group: [errors]} of all groups, fitted to the wanted ones."""
        bench = refit.Bench(self.args, self.constants)
        try:
            bench.start = [middle(constant) for constant in self.constants]
            values, _ = refit.fit(bench, self.loss, wanted, ROUNDS, lambda text: None)
            return self.loss.errors(bench.rows(values), lambda group: True), values
        finally:
            bench.close()

    def run(self):
        inside, values = self.fit(lambda group: True)
        folds = []
        for left_out in sorted(inside):
            if len(inside) < 2:
                break
            outside, _ = self.fit(lambda group, name=left_out: group != name)
            seen, unseen = inside[left_out], outside[left_out]
            folds.append({"left_out": left_out, "rows": len(unseen),
                          "in_sample": round(sum(seen) / len(seen), 5),
                          "held_out": round(sum(unseen) / len(unseen), 5)})
            print(f"{self.title}: {left_out[:50]} {folds[-1]}", flush=True)
        total = sum(fold["rows"] for fold in folds)
        folds.append({"left_out": "all, each when it was left out", "rows": total,
                      **{key: round(sum(f[key] * f["rows"] for f in folds) / total, 5)
                         for key in ("in_sample", "held_out")}})
        return {"title": self.title, "framework": self.framework,
                "constants": [c["key"].rpartition(".")[2] for c in self.constants],
                "fitted_to_all": [f"{value:.4g}" for value in values], "folds": folds}

    def close(self):
        os.remove(self.table)


class GroupLoss(refit.Loss):
    """As when refitting, with the study's groups in the place of sources."""

    def __init__(self, args, groups):
        super().__init__(args)
        self.groups = groups

    def error(self, row):
        found = super().error(row)
        return (self.groups[row["id"]], found[1]) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--suspect")
    parser.add_argument("--study", action="append", help="only studies whose title has this text")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "validation/leave_one_out.json")
    args = parser.parse_args()
    suspects = set()
    if args.suspect:
        with open(args.suspect, newline="", encoding="utf-8") as file:
            suspects = {row["id"] for row in csv.DictReader(file)}
    wanted = [study for study in STUDIES
              if not args.study or any(text in study[0] for text in args.study)]
    if not wanted:
        sys.exit("no study has that text in its title")
    done = []
    for entry in wanted:
        study = Study(args, suspects, entry)
        try:
            done.append(study.run())
        finally:
            study.close()
        args.out.write_text(json.dumps({"schema": "plansearch/leave-one-out/v1",
                                        "date": datetime.date.today().isoformat(),
                                        "method": METHOD, "studies": done}, indent=1) + "\n",
                            encoding="utf-8")


if __name__ == "__main__":
    main()
