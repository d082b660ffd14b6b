# SPDX-License-Identifier: Apache-2.0
"""How well a few runs of a group predict its others: what `plansearch fit` on them would have given.

A group is the rows of one site, machine, framework and precision; it has one factor. Formulas: src/studies/validate/site_fit.cpp
(shrinkage, outliers) and src/evaluate/answer/site_population.cpp (moment estimator over the sites of validation/sites.yaml).
"""
import math
import pathlib
import random
from statistics import median

import plain_yaml

SITES = pathlib.Path(__file__).resolve().parent.parent / "validation" / "sites.yaml"
FEWEST, OUTLIER, NORMAL, PRIOR_RUNS = 3, 6.0, 1.4826, 0.5


class Population:
    """ln(measured / predicted) of sites: mean, standard deviations between sites and within one."""

    def __init__(self, sites):
        spread = {id(site): float(site["spread"]) for site in sites}
        self.within = median([spread[id(site)] for site in sites if int(site["rows"]) > 1])
        moments = []
        for site in sites:
            rows = int(site["rows"])
            row = ((rows - 1) * spread[id(site)] ** 2 + self.within ** 2) / rows
            moments.append((math.log(float(site["factor"])), row / rows))
        self.between = self.scatter(moments)
        self.mean = self.weighted(moments, self.between)

    @staticmethod
    def weighted(moments, between):
        weights = [1 / (between ** 2 + variance) for _, variance in moments]
        return sum(w * value for w, (value, _) in zip(weights, moments)) / sum(weights)

    def scatter(self, moments):
        """The scatter between sites with which their means scatter as much as they should."""
        def excess(between):
            center = self.weighted(moments, between)
            return sum((value - center) ** 2 / (between ** 2 + variance) for value, variance in moments) - len(moments) + 1
        low, high = 0.0, 10.0
        if excess(low) <= 0:
            return 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return low


def fitted_factor(logs, population):
    """The factor of a site from a few of its runs; None where a fit refuses them."""
    center = median(logs)
    distances = [abs(value - center) for value in logs]
    usual = max(NORMAL * median(distances), population.within)
    kept = [value for value, distance in zip(logs, distances) if distance <= OUTLIER * usual]
    if len(kept) < FEWEST:
        return None
    own = sum(kept) / len(kept)
    variance = (population.within ** 2 + sum((value - own) ** 2 for value in kept)) / len(kept)
    weight = len(kept) / (len(kept) + PRIOR_RUNS)
    if math.sqrt(weight * variance / len(kept)) >= population.between:
        return None
    return math.exp(weight * own + (1 - weight) * population.mean)


def error_of(factor, logs):
    return sum(abs(factor / math.exp(value) - 1) for value in logs) / len(logs)


def fit_often(name, logs, population, runs, repeat):
    """Errors before and after: of rows that a fit has not seen, mean over draws; refused draws count as before."""
    typical = math.exp(population.mean)
    engine, after, refused = random.Random(name), 0.0, 0
    for _ in range(repeat):
        engine.shuffle(logs)
        factor = fitted_factor(logs[:runs], population)
        refused += factor is None
        after += error_of(typical if factor is None else factor, logs[runs:])
    before, after = error_of(typical, logs), after / repeat
    return {"group": name, "rows": len(logs), "error_before": before, "error_after": after, "refused": refused / repeat,
            "worse": after > 1.2 * before + 0.01}


def logs_by_group(answer, typical):
    """{(site, name): [ln(measured / predicted at factor 1)]}"""
    found = {}
    for row in answer["rows"]:
        at, measured = row["at_sites"]["typical"], row["measured_step_time_s"]
        if not (measured and at) or row["failed"] or row["suspect"] or (row["measured_mfu"] or 1.0) < answer["min_mfu"]:
            continue
        name = ", ".join((row["site"] or row["source"] or "", row["hw"], row["framework"], row["cells"].get("precision", "")))
        found.setdefault((row["site"], name), []).append(math.log(measured / at["step_time_s"]) + math.log(typical))
    return found


def measured_sites():
    return plain_yaml.load(SITES.read_text(encoding="utf-8"))["sites"]


def study(answer, runs, repeat, sites):
    """The same draws for the same table. Groups have at least two rows more than a fit sees."""
    laboratories = {site["name"]: site["laboratory"] for site in sites}
    typical = math.exp(Population(sites).mean)
    found = []
    for (site, name), logs in logs_by_group(answer, typical).items():
        if len(logs) >= runs + 2:
            others = [other for other in sites if other["laboratory"] != laboratories.get(site)]
            found.append(fit_often(name, logs, Population(others), runs, repeat))
    before, after, refused = ([group[key] for group in found] or [0.0] for key in ("error_before", "error_after", "refused"))
    return {"runs": runs, "repeat": repeat, "median_error_before": median(before), "median_error_after": median(after),
            "refused": sum(refused) / len(refused), "groups": found}
