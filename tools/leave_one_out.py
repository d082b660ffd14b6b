#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refits constants without one group of runs, and predicts that group.

  tools/leave_one_out.py --binary build/release/plansearch --table runs.csv [--also more.csv ...]
                         --suspect suspect.csv [...] [--study TEXT] [--out validation/leave_one_out.json]

Groups are sources where several share the constants, else models or machines (STUDIES below), and the
laboratories: without one of them every constant of validation/fitted_constants.yaml is refitted, the
factors of all other sites are computed again, and its runs are predicted for a typical site. `--also`
names tables of later runs: in the fits of the laboratories, whose runs are left out like any other's, and
in no other. Only the standard library is needed.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import tempfile

import plain_yaml
import refit
import sites

ROOT = pathlib.Path(__file__).resolve().parent.parent

#: (title, framework, column that makes the groups, {text in a cell: group of several cells})
STUDIES = (
    ("Megatron: a source left out", "megatron", "source", {"MLPerf": "MLPerf Training"}),
    ("Megatron-DeepSpeed: a source left out", "megatron-deepspeed", "source",
     {"BigScience": "BigScience on Jean Zay (V100)"}),
    ("FSDP: a source left out", "fsdp", "source", {}),
    ("FSDP: a machine left out", "fsdp", "hw", {}),
    ("FSDP: a model left out", "fsdp", "model", {}),
    ("nanotron: a model left out", "nanotron", "model", {}),
    ("nanotron: a number of GPUs left out", "nanotron", "gpus", {}),
)
METHOD = (
    "Constants that stand for a framework are refitted without a group of runs, which is then "
    "predicted; *in sample* is the error on the same runs when they are part of the fit. The fit is that "
    "of `tools/refit.py`: damped least squares with a weak prior in the middle of the bounds in "
    "[`validation/fitted_constants.yaml`](../validation/fitted_constants.yaml), which knows nothing of "
    "the shipped values; a fit without a group starts where the fit to all ended. Every site that is in "
    "the fit has a factor of its own, so *in sample* differs from the tables above. Suspect rows are "
    "left out, and runs below 2 % utilisation. nanotron has a single source, so models and numbers of "
    "GPUs are left out instead. Constants of kernels, links and fabrics stay as shipped in these "
    "studies; of laboratories (below) those that were fitted to steps are refitted too.")


def group_of(row, column, together):
    for text, name in together.items():
        if text in row[column]:
            return name
    return row[column]


class GroupSelection(refit.Selection):
    """As when refitting, with the study's groups in the place of sources."""

    def __init__(self, args, groups):
        super().__init__(args)
        self.groups = groups

    def source(self, row):
        return self.groups[row["id"]]


def bench_args(args, tables, min_mfu=0.02):
    return argparse.Namespace(binary=args.binary, table=tables, data=str(ROOT), suspect=args.suspect,
                              hold_out=0.0, jobs=False, memory=False, min_mfu=min_mfu)


class Study:
    """Rows of one framework, their groups, and a bench that prices only them."""

    def __init__(self, args, study):
        self.title, self.framework, column, together = study
        with open(args.table, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = [row for row in reader if row["framework"] == self.framework
                    and row["step_time_s"]]
            columns = reader.fieldnames
        handle, self.table = tempfile.mkstemp(suffix=".csv")
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        wanted = {f"frameworks/{self.framework}.yaml"}
        if self.framework == "nanotron":
            wanted.add("hardware_profiles/fabrics/efa.yaml")
        options = bench_args(args, [self.table])
        self.bench = refit.Bench(options, [c for c in constants() if c["file"] in wanted])
        self.selection = GroupSelection(
            options, {row["id"]: group_of(row, column, together) for row in rows})

    def errors(self, result, fitted):
        rows = self.bench.rows(result.values)
        return self.selection.errors(rows, lambda group: True, fitted)

    def run(self):
        everybody = lambda group: True  # noqa: E731
        start = [refit.middle(constant) for constant in self.bench.constants]
        common = refit.fit(self.bench, self.selection, everybody, start)
        inside = self.errors(common, everybody)
        folds = []
        for left_out in sorted(inside) if len(inside) > 1 else []:
            others = lambda group, name=left_out: group != name  # noqa: E731
            unseen = self.errors(
                refit.fit(self.bench, self.selection, others, common.values, 3), others)[left_out]
            seen = inside[left_out]
            folds.append({"left_out": left_out, "rows": len(unseen),
                          "in_sample": round(sum(seen) / len(seen), 5),
                          "held_out": round(sum(unseen) / len(unseen), 5)})
            print(f"{self.title}: {left_out[:50]} {folds[-1]}", flush=True)
        total = sum(fold["rows"] for fold in folds)
        folds.append({"left_out": "all, each when it was left out", "rows": total,
                      **{key: round(sum(f[key] * f["rows"] for f in folds) / total, 5)
                         for key in ("in_sample", "held_out")}})
        return {"title": self.title, "framework": self.framework,
                "constants": [c["key"].rpartition(".")[2] for c in self.bench.constants],
                "fitted_to_all": [f"{value:.4g}" for value in common.values], "folds": folds}

    def close(self):
        self.bench.close()
        os.remove(self.table)


def constants():
    return refit.read_constants(str(ROOT / "validation/fitted_constants.yaml"))


def laboratories():
    """{site: laboratory}"""
    listed = plain_yaml.load(sites.SITES.read_text(encoding="utf-8"))["sites"]
    return {site["name"]: site["laboratory"] for site in listed}


class LaboratoryStudy:
    """Every laboratory of all tables in turn, predicted by all that the others leave."""

    def __init__(self, args):
        self.args = args
        self.suspects = sites.suspect_ids(args.suspect)
        self.tables = [args.table, *args.also]
        self.bench = refit.Bench(bench_args(args, self.tables), constants())
        self.labs = laboratories()
        rows = self.bench.rows(self.bench.start)
        self.selection = GroupSelection(  # weighed by source, left out by laboratory
            self.bench.args, {row["id"]: (self.labs.get(row["site"]), row["source"]) for row in rows})

    def judged(self, lab, values):
        """{site: (mean error, bias, share inside, rows)} of its sites, typical, at these constants."""
        self.bench.put(values)
        root = pathlib.Path(self.bench.root)
        figures = argparse.Namespace(binary=self.args.binary, table=self.tables,
                                     suspect=self.args.suspect, min_mfu=0.02)
        text = sites.with_figures(sites.measured_logs(figures, root), keep=False)
        (root / "validation/sites.yaml").write_text(text, encoding="utf-8")
        found = {}
        for row in (row for table in self.tables for row in sites.rows_of(self.args.binary, table, root)):
            if sites.counts(row, self.suspects, 0.02) and self.labs[row["site"]] == lab:
                answer, measured = row["at_sites"]["left_out"], row["measured_step_time_s"]
                found.setdefault(row["site"], []).append(
                    (answer["step_time_s"] / measured - 1,
                     answer["p10_s"] <= measured <= answer["p90_s"]))
        return found

    def run(self):
        print("laboratories: fit to all", flush=True)
        common = refit.fit(self.bench, self.selection, lambda group: True, self.bench.start)
        folds = []
        for lab in sorted({lab for lab, _ in self.selection.groups.values() if lab}):
            fitted = refit.fit(self.bench, self.selection, lambda group, out=lab: group[0] != out,
                               common.values, 2, columns=common.columns)
            for site, errors in sorted(self.judged(lab, fitted.values).items()):
                if len(errors) < 5:
                    continue
                folds.append({"site": site, "laboratory": lab, "rows": len(errors),
                              "error": round(sum(abs(e) for e, _ in errors) / len(errors), 5),
                              "bias": round(sum(e for e, _ in errors) / len(errors), 5),
                              "inside": round(sum(i for _, i in errors) / len(errors), 5)})
                print(folds[-1], flush=True)
        return folds

    def close(self):
        self.bench.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--also", action="append", default=[], help="later runs, for `laboratories`")
    parser.add_argument("--suspect", action="append", default=[])
    parser.add_argument("--study", action="append",
                        help="only studies whose title has this text (or `laboratories`)")
    parser.add_argument("--scope", default="", help="which runs the tables lack, for the page")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "validation/leave_one_out.json")
    args = parser.parse_args()

    def asked(title):
        return not args.study or any(text in title for text in args.study)

    today = datetime.date.today().isoformat()
    result = {"schema": "plansearch/leave-one-out/v1", "date": today, "method": METHOD, "studies": [],
              "laboratories": []}
    if args.study and args.out.exists():  # what is not asked for stays
        result |= json.loads(args.out.read_text(encoding="utf-8"))
        result["studies"] = [s for s in result["studies"] if not asked(s["title"])]
    for entry in [entry for entry in STUDIES if asked(entry[0])]:
        study = Study(args, entry)
        try:
            result["studies"].append(study.run())
        finally:
            study.close()
    if asked("laboratories"):
        study = LaboratoryStudy(args)
        try:
            result["laboratories"], result["laboratories_date"] = study.run(), today
            result["scope"] = args.scope
        finally:
            study.close()
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
