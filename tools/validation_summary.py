#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sites, rankings, memory risks and fits of a table of measured runs, from the answer of `plansearch validate`.

  python3 tools/validation_summary.py runs.csv [--binary plansearch] [--suspect suspect.csv] [--min-mfu 0.02]
                                      [--by source,hw+precision] [--fit-on 3 [--repeat 200]] [--format json]

Prints tables in Markdown, or with `--format json` the answer itself, whose groups then have `at_sites`,
`ranking` and `memory_risk`, beside `sweeps` and `fit_on`. docs/validation_tables.md explains every figure.
Only the standard library is needed.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import subprocess
import sys

import validation_draws
from validation_markdown import VIEWS, draws_table, groups, ranking_table, risk_table, site_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Rows that share these cells are one job under several plans.
SWEEP = ("source", "hw", "framework", "precision", "model", "gpus", "seq_len", "global_batch", "lora_rank",
         "base_precision")
RISK_BINS = (0.0, 0.1, 0.5, 0.9, 1.0)
FEWEST_SITE_ROWS = 5


def mean(values):
    return sum(values) / len(values) if values else None


def quantile(values, share):
    """Linear between order statistics; None of none."""
    if not values:
        return None
    values = sorted(values)
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


def grouped(rows, values_of):
    """{value: rows} in order of first appearance; a row may have several values."""
    found = {}
    for row in rows:
        for value in values_of(row):
            found.setdefault(value, []).append(row)
    return found


def has_both_times(row):
    return bool(row["measured_step_time_s"] and row["predicted_step_time_s"] and not row["failed"])


def errors_at(rows, view):
    """Errors of the step times at one view of the sites."""
    errors, inside = [], 0
    for row in rows:
        at, measured = row["at_sites"][view], row["measured_step_time_s"]
        if at is not None:
            errors.append(at["step_time_s"] / measured - 1)
            inside += at["p10_s"] <= measured <= at["p90_s"]
    sizes = [abs(error) for error in errors]
    return {"rows": len(errors), "mean_absolute_error": mean(sorted(sizes)),
            "median_absolute_error": quantile(sizes, 0.5), "p90_absolute_error": quantile(sizes, 0.9),
            "bias": mean(errors), "within_p10_p90": inside / len(errors) if errors else None}


def alike(found, fewest, view):
    """Means over groups of at least `fewest` rows, every group weighed alike."""
    kept = [errors for _, errors in sorted((value, errors_at(rows, view)) for value, rows in found.items())
            if errors["rows"] >= fewest]
    means, inside = ([errors[key] for errors in kept] for key in ("mean_absolute_error", "within_p10_p90"))
    return {"groups": len(kept), "mean_absolute_error": mean(means), "median_of_mean_errors": quantile(means, 0.5),
            "bias": mean([errors["bias"] for errors in kept]), "within_p10_p90": mean(inside),
            "groups_below_40_percent_inside": mean([float(share < 0.4) for share in inside])}


def at_sites(rows):
    """Step-time errors at the row's own site, at a typical one, and without the row's laboratory."""
    by_source = grouped(rows, lambda row: [row["source"]] if row["source"] else [])
    by_site = grouped(rows, lambda row: [row["site"]] if row["site"] else [])
    return {view: {**errors_at(rows, view), "sources_alike": alike(by_source, 1, view),
                   "sites_alike": alike(by_site, FEWEST_SITE_ROWS, view)} for view in VIEWS}


def kendall_tau(a, b):
    """Kendall's tau-b; None where one side is constant."""
    concordance, untied_a, untied_b = 0, 0, 0
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            da, db = ((x[i] > x[j]) - (x[i] < x[j]) for x in (a, b))
            concordance, untied_a, untied_b = concordance + da * db, untied_a + abs(da), untied_b + abs(db)
    return concordance / math.sqrt(untied_a * untied_b) if untied_a and untied_b else None


def rank_sweep(measured, predicted):
    """Regret of the first in the predicted order, and where the measured best is."""
    order = sorted(range(len(measured)), key=lambda i: predicted[i])
    best = min(measured)
    return {"regret": measured[order[0]] / best - 1, "tau": kendall_tau(measured, predicted),
            "top1": measured[order[0]] == best, "top3": any(measured[i] == best for i in order[:3])}


def sweeps_of(rows):
    """Jobs of two rows or more with both times. Rows called infeasible are ranked too: they did run."""
    sweeps = []
    for cells, found in grouped(filter(has_both_times, rows),
                                lambda row: [tuple(row["cells"].get(column, "") for column in SWEEP)]).items():
        if len(found) < 2:
            continue
        measured, predicted = ([row[key] for row in found]
                               for key in ("measured_step_time_s", "predicted_step_time_s"))
        job = {column: cell or None for column, cell in zip(SWEEP, cells)}
        sweeps.append({**job, **{column: int(job[column] or 0) for column in ("gpus", "seq_len", "global_batch")},
                       "rows": len(found), "best": found[measured.index(min(measured))]["id"],
                       "chosen": found[predicted.index(min(predicted))]["id"], **rank_sweep(measured, predicted)})
        if len(found) < 3:
            sweeps[-1]["tau"] = None
    return sweeps


def ranking(sweeps):
    regrets = [sweep["regret"] for sweep in sweeps]
    taus = [sweep["tau"] for sweep in sweeps if sweep["tau"] is not None]
    return {"sweeps": len(sweeps), "median_regret": quantile(regrets, 0.5), "mean_regret": mean(regrets),
            "worst_regret": max(regrets, default=None), "tau_sweeps": len(taus), "mean_tau": mean(taus),
            "median_tau": quantile(taus, 0.5), "top1": sum(sweep["top1"] for sweep in sweeps),
            "top3": sum(sweep["top3"] for sweep in sweeps)}


def memory_risk(rows):
    """Stated risks of legal rows against failures; None where none was recorded: only what ran was published."""
    judged = [(row["memory_risk"], float(row["failed"]), float(row["needed_memory_bytes"] > row["memory_limit_bytes"]))
              for row in rows if row["verdict"] in ("feasible", "out of memory") and row["memory_risk"] is not None]
    failures = sum(failed for _, failed, _ in judged)
    if not failures:
        return None
    bins = []
    for low, high in zip(RISK_BINS, RISK_BINS[1:]):
        inside = [(risk, failed) for risk, failed, _ in judged if (low < risk or low == 0.0) and risk <= high]
        bins.append({"low": low, "high": high, "rows": len(inside), "stated": mean([risk for risk, _ in inside]),
                     "failed": int(sum(failed for _, failed in inside))})
    share = failures / len(judged)
    return {"rows": len(judged), "failed": int(failures),
            "brier": mean([(risk - failed) ** 2 for risk, failed, _ in judged]), "brier_base_rate": share * (1 - share),
            "brier_hard_limit": mean([(beyond - failed) ** 2 for _, failed, beyond in judged]), "bins": bins}


def values_of(row, by):
    """The groups of `by` that a row is in, as `plansearch validate --by` makes them."""
    if by == "all":
        return [None]
    if by == "regime":
        return row["regimes"] or ["none of these"]
    if by == "site":
        return [row["site"]] if row["site"] else []
    if by == "mfu":
        return [] if row["measured_mfu"] is None else ["< 2 %" if row["measured_mfu"] < 0.02 else ">= 2 %"]
    cells = [row["cells"].get(column, "") for column in by.split("+")]
    return [", ".join(cells)]


def kinds_of(summary):
    return list(dict.fromkeys(group["by"] for group in summary))


def extend(answer, cells):
    """The answer on a table of runs (`cells`: its rows, {column: cell}) with all that this file computes."""
    rows = answer["rows"] = [{**row, "cells": line} for row, line in zip(answer["rows"], cells, strict=True)]
    members = {by: grouped(rows, lambda row, by=by: values_of(row, by)) for by in kinds_of(answer["summary"])}
    for group in answer["summary"]:
        mine = [row for row in members[group["by"]][group["value"]]
                if not (row["suspect"] and group["set"] == "without_suspects")]
        timed = [row for row in mine if has_both_times(row) and (row["measured_mfu"] or 1.0) >= answer["min_mfu"]]
        group.update(at_sites=at_sites(timed), ranking=ranking(sweeps_of(mine)), memory_risk=memory_risk(mine))
    answer["sweeps"] = sweeps_of(rows)
    return answer


def validate(binary, table, suspect=None, more=(), data=None):
    """The answer of `plansearch validate`, extended where the table is one of runs. `data`: folder of the data."""
    command = [str(binary), "validate", str(table), "--format", "json", "--quiet", *more]
    if suspect:
        command += ["--suspect", str(suspect)]
    environment = dict(os.environ)
    environment["PLANSEARCH_DATA"] = str(data or environment.get("PLANSEARCH_DATA", ROOT))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    answer = json.loads(done.stdout)
    if answer["table"] != "runs":
        return answer
    with open(table, newline="", encoding="utf-8-sig") as file:
        return extend(answer, list(csv.DictReader(file)))


def text_of(answer):
    summary, which = answer["summary"], "without_suspects" if answer["summary"][-1]["set"] != "all" else "all"
    kinds = kinds_of(summary)
    text = "Step time by site:\n\n" + site_table(summary, kinds, which)
    # Regimes, sites and utilisation would cut sweeps into pieces.
    text += "Ranking inside sweeps:\n\n" + ranking_table(summary, [by for by in kinds if by not in ("regime", "site", "mfu")])
    risks = [group for by in ("all", "source") for group in groups(summary, by) if group["memory_risk"]]
    if risks:
        text += "Memory risk:\n\n" + risk_table(risks)
    if answer["fit_on"]:
        text += "Fitted on a few rows:\n\n" + draws_table(answer["fit_on"])
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", help="CSV of measured runs")
    parser.add_argument("--binary", default="plansearch")
    parser.add_argument("--suspect", help="CSV (id, why) of rows to report apart")
    parser.add_argument("--min-mfu", type=float, default=0.0, help="leave slower steps out of step-time errors")
    parser.add_argument("--by", help="summarise by these columns")
    parser.add_argument("--site", help="site of rows that name none")
    parser.add_argument("--fit-on", type=int, default=0, help="fit a site to so many rows of it, report the others")
    parser.add_argument("--repeat", type=int, default=200, help="draws of those rows")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    if args.fit_on and args.fit_on < validation_draws.FEWEST:
        parser.error(f"--fit-on {args.fit_on}: a factor needs {validation_draws.FEWEST} rows")
    more = [word for flag in ("by", "site") if getattr(args, flag) for word in (f"--{flag}", getattr(args, flag))]
    answer = validate(args.binary, args.table, args.suspect, ["--min-mfu", str(args.min_mfu), *more])
    if answer["table"] != "runs":
        sys.exit(f"{args.table} is no table of runs; plansearch validate says all of it")
    answer["fit_on"] = (validation_draws.study(answer, args.fit_on, args.repeat, validation_draws.measured_sites())
                        if args.fit_on else None)
    print((json.dumps(answer, indent=1) if args.format == "json" else text_of(answer)).rstrip())


if __name__ == "__main__":
    main()
