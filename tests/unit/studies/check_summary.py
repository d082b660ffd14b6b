#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rankings, sites, memory risks and fits that tools/validation_summary.py makes of rows, by hand and on the shipped table.

Usage: check_summary.py REPOSITORY EXECUTABLE
"""
import json
import math
import pathlib
import subprocess
import sys

ROOT, EXECUTABLE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
sys.path.insert(0, str(ROOT / "tools"))

import validation_draws  # noqa: E402
import validation_summary as summary  # noqa: E402


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def near(value, expected, what):
    check(math.isclose(value, expected, rel_tol=1e-6, abs_tol=1e-12), f"{what}: {value}, expected {expected}")


def row(number, measured, predicted, **changes):
    """A row of 16 GPUs as it stands in an answer, with its cells."""
    cells = {"source": "test", "hw": "dgx-h100", "framework": "megatron", "precision": "bf16", "model": "GPT", "gpus": "16",
             "seq_len": "1024", "global_batch": "64"} | changes.pop("cells", {})
    return {"id": str(number), "source": cells["source"], "site": None, "hw": cells["hw"], "framework": cells["framework"],
            "measured_step_time_s": measured, "predicted_step_time_s": predicted, "failed": False, "suspect": False,
            "verdict": "feasible", "measured_mfu": 0.3, "regimes": [], "memory_risk": None, "cells": cells} | changes


def at(own, typical):
    return {view: {"step_time_s": time, "p10_s": 0.9 * time, "p90_s": 1.1 * time}
            for view, time in (("own_site", own), ("typical", typical), ("left_out", typical))}


def check_tau():
    a = [1, 2, 3, 4]
    near(summary.kendall_tau(a, a), 1.0, "the same order")
    near(summary.kendall_tau(a, a[::-1]), -1.0, "the reverse order")
    near(summary.kendall_tau(a, [1, 3, 2, 4]), 4 / 6, "one swapped pair of six: (5 - 1) / 6")
    near(summary.kendall_tau(a, [1, 2, 2, 3]), 5 / math.sqrt(30), "one tie on the right: 5 of sqrt(6 x 5)")
    check(summary.kendall_tau(a, [1, 1, 1, 1]) is None, "a constant side ranks nothing")


def check_regret():
    measured = [10.0, 11.0, 12.0, 13.0, 9.0]
    best = summary.rank_sweep(measured, measured)
    check(best["regret"] == 0 and best["top1"] and best["top3"], best)
    # We would pick the second row (11 against 9); the best is the fourth of our list.
    other = summary.rank_sweep(measured, [2, 1, 3, 5, 4])
    near(other["regret"], 11 / 9 - 1, "regret")
    check(not other["top1"] and not other["top3"], other)


def check_sweeps():
    large = {"cells": {"gpus": "32"}}
    rows = [row(1, 1, 2), row(2, 2, 1), row(3, 3, 3), row(4, 4, 4, **large), row(5, 5, 6, **large)]
    # The first sweep picks its second row (regret 1), the other picks right.
    found = summary.ranking(summary.sweeps_of(rows))
    check((found["sweeps"], found["top1"], found["top3"], found["tau_sweeps"]) == (2, 1, 2, 1), found)
    near(found["mean_regret"], 0.5, "mean regret")
    near(found["worst_regret"], 1.0, "worst regret")
    near(found["mean_tau"], 1 / 3, "mean tau")
    rows = [row(1, 3, 1, verdict="out of memory"), row(2, 2, 2), row(3, 4, 4, **large)]
    sweeps = summary.sweeps_of(rows)
    check(len(sweeps) == 1 and sweeps[0]["best"] == "2" and sweeps[0]["chosen"] == "1", "rows called infeasible are ranked")
    near(sweeps[0]["regret"], 0.5, "regret of the chosen row")
    check(summary.ranking(sweeps)["tau_sweeps"] == 0, "two rows make a regret but no tau")
    check(not summary.sweeps_of([row(1, 1, 1), row(2, 1, 1, failed=True), row(3, None, 1)]), "failed runs are not ranked")


def check_risks():
    rows = []
    for number, (risk, failed) in enumerate(((0.1, False), (0.4, False), (0.2, True), (1.0, True), (1.0, True))):
        rows.append(row(number, None if failed else 1, 1, failed=failed, memory_risk=risk, memory_limit_bytes=80e9,
                        needed_memory_bytes=90e9 if risk > 0.5 else 70e9,
                        verdict="out of memory" if risk > 0.5 else "feasible"))
    rows[-1]["verdict"] = "illegal"  # says nothing of memory
    risk = summary.memory_risk(rows)
    check((risk["rows"], risk["failed"]) == (4, 2), risk)
    # Two of four failed: 0.5 x 0.5. The hard limit is wrong about one run of four.
    near(risk["brier_base_rate"], 0.25, "base rate")
    near(risk["brier_hard_limit"], 0.25, "hard limit")
    near(risk["brier"], (0.01 + 0.16 + 0.64) / 4, "Brier score")
    check([(b["rows"], b["failed"]) for b in risk["bins"]] == [(1, 0), (2, 1), (0, 0), (1, 1)], risk["bins"])
    near(risk["bins"][1]["stated"], 0.3, "mean stated risk")
    check(summary.memory_risk(rows[:2]) is None, "no failure, no judgement")


def check_sites():
    # Typical: errors 10, 10, 10 % of source a and -30 % of source b: mean 15, alike 20 %.
    rows = [row(i, 1, 1, at_sites=at(1.0, 1.1), source="a") for i in range(3)] + [row(4, 1, 1, at_sites=at(1.0, 0.7), source="b")]
    views = summary.at_sites(rows)
    typical = views["typical"]
    near(typical["mean_absolute_error"], 0.15, "mean of rows")
    check(typical["sources_alike"]["groups"] == 2 and typical["sites_alike"]["groups"] == 0, "no site has five rows")
    near(typical["sources_alike"]["mean_absolute_error"], 0.2, "mean of sources")
    near(typical["sources_alike"]["bias"], -0.1, "bias of sources")
    # 1 lies in 0.99 .. 1.21, not in 0.63 .. 0.77.
    near(typical["within_p10_p90"], 3 / 4, "inside")
    near(typical["sources_alike"]["within_p10_p90"], 0.5, "inside, sources alike")
    near(typical["sources_alike"]["groups_below_40_percent_inside"], 0.5, "sources below 40 %")
    near(views["own_site"]["mean_absolute_error"], 0.0, "own site")


def check_groups():
    rows = [row(1, 1, 1, at_sites=at(1, 1), regimes=["mixture of experts"]), row(2, 9, 1, at_sites=at(1, 1), suspect=True)]
    cells = [r.pop("cells") | {"known": "1"} for r in rows]
    answer = {"rows": rows, "min_mfu": 0.0, "summary": [
        {"set": chosen, "by": by, "value": value} for chosen, by, value in
        (("all", "all", None), ("all", "regime", "none of these"), ("all", "hw+known", "dgx-h100, 1"),
         ("without_suspects", "all", None))]}
    counts = [group["at_sites"]["typical"]["rows"] for group in summary.extend(answer, cells)["summary"]]
    check(counts == [2, 1, 2, 1], f"rows of groups: {counts}")


def check_draws():
    """Six rows 1.5 times as slow as predicted: any three give a factor of 1.5^(6/7), the prior of the sites being 1."""
    sites = [{"name": name, "laboratory": name, "rows": "9", "factor": factor, "spread": "0.1"}
             for name, factor in (("a", "0.8"), ("b", "1.25"))]
    answer = {"min_mfu": 0.0, "rows": [row(i, 1.5, 1.0, at_sites=at(1.0, 1.0)) for i in range(6)]}
    study = validation_draws.study(answer, 3, 20, sites)
    check(len(study["groups"]) == 1 and study["groups"][0]["refused"] == 0, study)
    near(study["median_error_after"], 1 - 1.5 ** (-1 / 7), "the error that a fit on three rows leaves")
    near(study["median_error_before"], 1 / 3, "the error of a typical site")
    check(not validation_draws.study(answer, 5, 20, sites)["groups"], "a fit on five leaves less than two rows")
    # The cases of tests/unit/studies/site_fit_test.cpp.
    population = validation_draws.Population(sites)
    population.mean, population.between, population.within = 0.1, 0.2, 0.1
    near(validation_draws.fitted_factor([0.3, 0.4, 0.5], population), math.exp(0.3571429), "three runs weigh 3 / 3.5")
    near(validation_draws.fitted_factor([0.3, 0.4, 0.5, 0.4 + math.log(3)], population), math.exp(0.3571429), "an outlier")
    check(validation_draws.fitted_factor([0.30, 0.32, 0.30 + math.log(3)], population) is None, "two of three are too few")
    check(validation_draws.fitted_factor([0.0, 0.5, 1.0], population) is None, "runs that scatter are refused")


def check_shipped_table():
    """The sites' factor is the one of the executable, groups are its groups, and few runs make a site sharper."""
    table = ROOT / "validation/published_runs.csv"
    sites = validation_draws.measured_sites()
    tuned = summary.validate(EXECUTABLE, ROOT / "tests/data/validate/runs.csv", more=("--site", "tuned"))["rows"][0]
    near(tuned["at_sites"]["typical"]["step_time_s"] / tuned["predicted_step_time_s"],
         math.exp(validation_draws.Population(sites).mean), "factor of a typical site")
    command = [sys.executable, str(ROOT / "tools/validation_summary.py"), str(table), "--binary", EXECUTABLE, "--fit-on", "3",
               "--repeat", "50", "--min-mfu", "0.02", "--format"]
    done = subprocess.run([*command, "json"], capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stderr)
    answer = json.loads(done.stdout)
    for group in answer["summary"]:
        counted = group["at_sites"]["typical"]["rows"]
        check(counted == group["step_time"]["rows"], f"{group['by']} {group['value']}: {counted} rows with both times")
    check(answer["fit_on"]["runs"] == 3, answer["fit_on"])
    check(answer["fit_on"]["median_error_after"] < answer["fit_on"]["median_error_before"], "three runs make a site sharper")
    study = validation_draws.study(answer, 3, 50, sites)
    check(study == answer["fit_on"], "the same draws every time")
    text = subprocess.run([*command, "table"], capture_output=True, text=True, check=False).stdout
    for words in ("Step time by site", "Ranking inside sweeps", "50 draws of 3 rows"):
        check(words in text, words)


check_tau()
check_regret()
check_sweeps()
check_risks()
check_sites()
check_groups()
check_draws()
check_shipped_table()
