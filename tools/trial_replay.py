#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays `plansearch tune` on measured sweeps, each without its own laboratory.

A sweep is one job (machine, framework, network, batch, formats) measured under four plans or more. The deviations of
the parts of a step, of degrees and of plans are derived from the sweeps of all other laboratories: the squared difference
of the errors of two plans of a sweep is linear in their squares (least squares, none below zero). The shipped ones are
replayed beside them. Constants of kernels, links and frameworks stay as shipped. Rows that ran out of memory although
they are predicted to fit are plans like any other until a trial says so; it raises the risk of all others, and a plan
counts as much longer as it is likely not to run.

  tools/trial_replay.py --binary build/release/plansearch --table runs.csv [--also more.csv ...] [--suspect FILE ...]
      [--terms]: instead, what runs of a site say of its others, by one factor and by the parts of a step (fit)
"""
import argparse
import csv
import json
import math
import random
import statistics
import subprocess
import sys

import least_squares

NORMAL = statistics.NormalDist()
PARTS = ("compute", "recompute", "bubble", "optimizer", "host", "exposed_tensor", "exposed_data", "exposed_context",
         "exposed_expert", "exposed_pipeline", "exposed_offload")
#: src/measure/tune/trial_choice.cpp: deviations of the parts; of degrees; of a plan by itself.
SHIPPED = [0.05, 0.075, 0.15, 0.25, 0.15] + [0.20] * 6 + [0.10, 0.02]
PER_DEGREE, NOISE, FAR_OFF, LEVEL = 0.5, 0.01, 3.0, 0.2
SHARED_ROOM, LEAST_RISK, HOPELESS = 0.5, 1e-6, 0.9
#: The error of memory that all plans share, in deviations.
SHARED = [0.1 * (step - 60) for step in range(121)]
#: Plans that are predicted to take longer than this many times the fastest are not looked at.
NEAR = 1.6
DEGREES = ("micro_batch", "tp", "pp", "vpp", "dp", "cp", "ep", "sp", "zero", "recompute", "schedule")
JOB = ("hw", "framework", "gpus", "model", "layers", "hidden", "seq_len", "global_batch", "precision", "implementation",
       "lora_rank", "optimizer_states")


def rows_of(binary, table):
    done = subprocess.run([binary, "validate", table, "--format", "json"], capture_output=True, text=True, check=True)
    return {row["id"]: row for row in json.loads(done.stdout)["rows"]}


def read(options):
    """(cells, answer) of all rows with a price, without suspects."""
    suspects = set()
    for path in options.suspect:
        with open(path, newline="") as file:
            suspects.update(row["id"] for row in csv.DictReader(file))
    for table in [options.table, *options.also]:
        answers = rows_of(options.binary, table)
        with open(table, newline="") as file:
            for cells in csv.DictReader(file):
                answer = answers.get(cells["id"])
                if answer and answer["predicted_parts_s"] and cells["id"] not in suspects:
                    yield cells, answer


class Plan:
    def __init__(self, cells, answer):
        parts = answer["predicted_parts_s"]
        times = [parts[name] for name in PARTS]
        self.predicted = math.log(sum(times))
        self.shares = [time / sum(times) for time in times]
        self.degrees = [cells.get(name) or "" for name in DEGREES]
        self.risk = answer["memory_risk"] or 0.0
        measured = answer["measured_step_time_s"]
        self.measured = math.log(measured) if measured else None  # nothing: it ran out of memory

    def error(self):
        return self.measured - self.predicted


def sweeps_of(rows):
    found = {}
    for cells, answer in rows:
        if not answer["measured_step_time_s"] and not (cells.get("oom") == "1" and answer["feasible"]):
            continue
        laboratory = answer["site"] or answer["source"]
        job = (laboratory, *(cells.get(name) or "" for name in JOB))
        plan = Plan(cells, answer)
        plans = found.setdefault(job, {})
        plans.setdefault(tuple(plan.degrees), plan)
    sweeps = []
    for job, plans in found.items():
        fastest = min(plan.predicted for plan in plans.values())
        near = [plan for plan in plans.values() if plan.predicted - fastest <= math.log(NEAR)]
        if sum(plan.measured is not None for plan in near) < 4:
            continue
        best = min(plan.measured for plan in plans.values() if plan.measured is not None)
        sweeps.append((job[0], near, best))
    return sweeps


# ---- deviations --------------------------------------------------------------------------------


def apart(a, b):
    return sum(x != y for x, y in zip(a.degrees, b.degrees))


def normal_equations(plans, pairs, noise):
    """Of squared differences of errors, of at most so many pairs, each sweep of weight one."""
    size = len(SHIPPED)
    matrix, right = [[0.0] * size for _ in range(size)], [0.0] * size
    ran = [plan for plan in plans if plan.measured is not None]
    every = [(i, j) for i in range(len(ran)) for j in range(i)]
    chosen = every if len(every) <= pairs else noise.sample(every, pairs)
    for i, j in chosen:
        a, b = ran[i], ran[j]
        row = [(x - y) ** 2 for x, y in zip(a.shares, b.shares)]
        row += [2.0 * (1.0 - PER_DEGREE ** apart(a, b)), 2.0]
        seen = min((a.error() - b.error()) ** 2, 0.25)  # stalls count as half a step
        for k in range(size):
            right[k] += row[k] * seen / len(chosen)
            for m in range(size):
                matrix[k][m] += row[k] * row[m] / len(chosen)
    return matrix, right


def deviations(equations):
    """Least squares of squares that are not below zero, with a weak pull to one common size."""
    size = len(SHIPPED)
    matrix = [[sum(e[0][k][m] for e in equations) for m in range(size)] for k in range(size)]
    right = [sum(e[1][k] for e in equations) for k in range(size)]
    for k in range(size):
        pull = 1e-3 * sum(matrix[m][m] for m in range(size)) / size
        matrix[k][k] += pull
        right[k] += pull * 0.1 ** 2
    kept = list(range(size))
    while kept:
        x = least_squares.solve([[matrix[k][m] for m in kept] for k in kept], [right[k] for k in kept])
        low = min(range(len(kept)), key=lambda i: x[i])
        if x[low] >= 0.0:
            break
        del kept[low]
    found = [0.0] * size
    for k, value in zip(kept, x):
        found[k] = math.sqrt(value)
    return [max(value, 0.01) for value in found]


# ---- beliefs, as in trial_choice.cpp -----------------------------------------------------------


def below(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def density(x):
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) if math.isfinite(x) else 0.0


def expected_least(means, slopes):
    lines = sorted(zip(means, slopes), key=lambda line: (-line[1], line[0]))
    envelope, begins = [], []
    for mean, slope in lines:
        if envelope and envelope[-1][1] == slope:
            continue
        begin = -math.inf
        while envelope:
            begin = (mean - envelope[-1][0]) / (envelope[-1][1] - slope)
            if begin > begins[-1]:
                break
            envelope.pop()
            begins.pop()
            begin = -math.inf
        envelope.append((mean, slope))
        begins.append(begin)
    begins.append(math.inf)
    return sum(mean * (below(begins[i + 1]) - below(begins[i])) + slope * (density(begins[i]) - density(begins[i + 1]))
               for i, (mean, slope) in enumerate(envelope))


class Beliefs:
    def __init__(self, plans, sizes, level=LEVEL, noise=NOISE, far_off=FAR_OFF):
        self.noise, self.far_off = noise, far_off
        self.mean = [plan.predicted for plan in plans]
        self.risk = [getattr(plan, "risk", 0.0) for plan in plans]
        self.room = [-NORMAL.inv_cdf(min(max(risk, LEAST_RISK), 1.0 - LEAST_RISK)) for risk in self.risk]
        self.shared = [density(x) for x in SHARED]
        squares = [size * size for size in sizes]
        self.cov = [[level ** 2 + sum(s * x * y for s, x, y in zip(squares, a.shares, b.shares))
                     + squares[-2] * PER_DEGREE ** apart(a, b) for b in plans] for a in plans]
        for i in range(len(plans)):
            self.cov[i][i] += squares[-1]

    def condition(self, plan, surprise, variance):
        column = [row[plan] for row in self.cov]
        self.mean = [mean + c * surprise / variance for mean, c in zip(self.mean, column)]
        self.cov = [[value - c * d / variance for value, d in zip(row, column)] for row, c in zip(self.cov, column)]

    def see(self, plan, seen):
        surprise = seen - self.mean[plan]
        self.condition(plan, surprise, max(self.cov[plan][plan] + self.noise ** 2, (surprise / self.far_off) ** 2))
        self.mean[plan] = seen
        for i in range(len(self.mean)):
            self.cov[i][plan] = self.cov[plan][i] = 0.0
        self.remember(plan, False)

    def risks(self, plan):
        """By the shared error."""
        return [below((math.sqrt(SHARED_ROOM) * x - self.room[plan]) / math.sqrt(1.0 - SHARED_ROOM)) for x in SHARED]

    def remember(self, plan, ran_out):
        if all(risk == 0.0 for risk in self.risk):
            return  # sites of runs
        self.shared = [weight * max(risk if ran_out else 1.0 - risk, LEAST_RISK)
                       for weight, risk in zip(self.shared, self.risks(plan))]
        whole = sum(self.shared)
        self.shared = [weight / whole for weight in self.shared]
        self.room[plan] = -math.inf if ran_out else math.inf
        for other, room in enumerate(self.room):
            self.risk[other] = float(room < 0.0) if math.isinf(room) else sum(
                weight * risk for weight, risk in zip(self.shared, self.risks(other)))

    def copy(self):
        other = Beliefs.__new__(Beliefs)
        other.noise, other.far_off = self.noise, self.far_off
        other.mean, other.cov = list(self.mean), [list(row) for row in self.cov]
        other.risk, other.room, other.shared = list(self.risk), list(self.room), list(self.shared)
        return other

    def alive(self):
        return [plan for plan, risk in enumerate(self.risk) if risk < 1.0]

    def cost(self, plan):
        return self.mean[plan] + self.risk[plan]

    def leader(self):
        return min(self.alive(), key=self.cost, default=None)

    def gain(self, plan):
        deviation = math.sqrt(self.cov[plan][plan] + self.noise ** 2)
        alive, now = self.alive(), self.cost(self.leader())
        runs = expected_least([self.mean[i] if i == plan else self.cost(i) for i in alive],
                              [self.cov[i][plan] / deviation for i in alive])
        fails = min([now + 1.0, *(self.cost(i) for i in alive if i != plan)])
        return now - (1.0 - self.risk[plan]) * runs - self.risk[plan] * fails

    def next_trial(self, tried):
        alive = self.alive()
        if not alive:
            return None
        fastest = min([self.leader(), *(plan for plan in alive if self.risk[plan] <= HOPELESS)],
                      key=lambda plan: self.mean[plan])
        if fastest not in tried:
            return fastest
        return max((plan for plan in alive if plan not in tried), key=self.gain, default=None)

    def says_best(self, plan, draws, noise):
        """The probability that nothing is more than one percent faster."""
        order = [plan, *(i for i in self.alive() if i != plan)]
        size = len(order)
        factor = [[0.0] * size for _ in range(size)]
        for i in range(size):
            for j in range(i + 1):
                rest = self.cov[order[i]][order[j]] - sum(factor[i][k] * factor[j][k] for k in range(j))
                if i == j:
                    factor[i][j] = math.sqrt(max(rest, 0.0))
                elif factor[j][j] > 1e-9:
                    factor[i][j] = rest / factor[j][j]
        good = 0
        for _ in range(draws):
            normal = [noise.gauss(0.0, 1.0) for _ in range(size)]
            drawn = [self.mean[p] + sum(f * n for f, n in zip(factor[i], normal)) for i, p in enumerate(order)]
            runs = [time for time, p in zip(drawn, order) if p == plan or noise.random() >= self.risk[p]]
            good += drawn[0] - min(runs) <= math.log(1.01)
        return good / draws


def replay(plans, sizes, trials, side_by_side):
    """(the plan that is gone by, what is believed) after so many trials."""
    beliefs = Beliefs(plans, sizes)
    waiting = beliefs.copy() if side_by_side else beliefs
    tried = []

    def learn(trial):
        if plans[trial].measured is None:
            beliefs.remember(trial, True)
        else:
            beliefs.see(trial, plans[trial].measured)

    for _ in range(trials):
        trial = waiting.next_trial(tried)
        if trial is None:
            break
        tried.append(trial)
        if side_by_side:
            waiting.condition(trial, 0.0, waiting.cov[trial][trial] + NOISE ** 2)
        else:
            learn(trial)
    for trial in tried if side_by_side else []:
        learn(trial)
    return beliefs.leader(), beliefs


def best_of(plans, order):
    ran = [plans[i].measured for i in order if plans[i].measured is not None]
    return min(ran) if ran else None


class Score:
    """Shares of losses over sweeps; a plan that does not run loses a whole step."""

    def __init__(self):
        self.losses = []

    def add(self, measured, best):
        self.losses.append(1.0 if measured is None else math.exp(measured - best) - 1.0)

    def text(self):
        within = sum(loss <= 0.01 for loss in self.losses) / len(self.losses)
        return f"{100 * within:3.0f} %, {100 * sum(self.losses) / len(self.losses):5.2f} %"


def replay_all(sweeps, title):
    noise = random.Random(1)
    equations = [normal_equations(plans, 400, noise) for _, plans, _ in sweeps]
    laboratories = sorted({laboratory for laboratory, *_ in sweeps})
    derived = {laboratory: deviations([e for e, s in zip(equations, sweeps) if s[0] != laboratory])
               for laboratory in laboratories}
    plans = [plan for sweep in sweeps for plan in sweep[1]]
    print(f"{title}: {len(sweeps)} sweeps, {len(laboratories)} laboratories, {len(plans)} plans, "
          f"{sum(plan.measured is None for plan in plans)} out of memory")
    print("  derived from all: " + " ".join(f"{value:.3f}" for value in deviations(equations)))
    if not sweeps:
        return
    for trials in (0, 1, 3, 5):
        ways = (("chosen at once", None, True), ("chosen in turn", None, False),
                ("at once, shipped deviations", SHIPPED, True), ("in turn, shipped deviations", SHIPPED, False))
        scores = {name: Score() for name in ("random", "top of the table", *(way[0] for way in ways))}
        said, true = 0.0, 0
        for laboratory, plans, best in sweeps:
            ranked = sorted(range(len(plans)), key=lambda i: plans[i].predicted)
            for _ in range(20):
                order = noise.sample(range(len(plans)), min(max(trials, 1), len(plans)))
                scores["random"].add(best_of(plans, order), best)
            scores["top of the table"].add(best_of(plans, ranked[:max(trials, 1)]), best)
            for name, sizes, at_once in ways:
                chosen, beliefs = replay(plans, sizes or derived[laboratory], trials, at_once)
                measured = plans[chosen].measured if chosen is not None else None
                scores[name].add(measured, best)
                if name == "at once, shipped deviations" and chosen is not None:
                    said += beliefs.says_best(chosen, 200, noise)
                    true += measured is not None and measured - min(
                        p.measured for p in plans if p.measured is not None) <= math.log(1.01)
        print(f"  {trials} trials: " + "; ".join(f"{name} {score.text()}" for name, score in scores.items())
              + f"; with these said {100 * said / len(sweeps):.0f} %, true {100 * true / len(sweeps):.0f} %")


# ---- terms -------------------------------------------------------------------------------------

#: A typical site, how far sites are from it, and rows of a site from each other (logarithms).
TYPICAL, SITES, WITHIN = 0.09, 0.15, 0.07
STEADY = 4.0  # some sites scatter so much less
WORTHWHILE = 0.003  # of a step, by which parts have to predict a run left out better
COUNTS = (3, 5, 8, 12)
DRAWS = 6  # of the runs of a site
FACTOR_ROWS = 0.5  # rows that the typical site counts in one factor


def sites_of(rows):
    found = {}
    for cells, answer in rows:
        if not answer["measured_step_time_s"] or (answer["measured_mfu"] or 1.0) < 0.02:
            continue
        key = (answer["site"] or answer["source"], cells["hw"], cells["framework"], cells["precision"] or "bf16",
               cells.get("implementation") or "")
        found.setdefault(key, []).append(Plan(cells, answer))
    return {key: plans for key, plans in found.items() if len(plans) >= 6}


class Part:
    """A step that is one part alone: what is believed of it is the factor of the part."""

    def __init__(self, part):
        self.predicted = TYPICAL
        self.shares = [1.0 if other == part else 0.0 for other in range(len(PARTS))]
        self.degrees = [object() for _ in DEGREES]


def median_of(runs):
    errors = sorted(run.error() for run in runs)
    return (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2.0


def one_factor(runs):
    weight = len(runs) / (len(runs) + FACTOR_ROWS)
    return math.exp(weight * median_of(runs) + (1.0 - weight) * TYPICAL)


def factors_of_parts(runs, sizes=SHIPPED[:-2], scatter=WITHIN):
    """As src/measure/fit/fit_parts.cpp: those in the middle first."""
    middle = median_of(runs)
    runs = sorted(runs, key=lambda run: abs(run.error() - middle))
    there = [part for part in range(len(PARTS)) if any(run.shares[part] for run in runs)]
    beliefs = Beliefs([*runs, *map(Part, there)], [*sizes, 0.0, 0.0], SITES, scatter, 1.0)
    for i, run in enumerate(runs):
        beliefs.mean[i] += TYPICAL
    for i, run in enumerate(runs):
        beliefs.see(i, run.measured)
    found = dict(zip(there, map(math.exp, beliefs.mean[len(runs):])))
    return [found.get(part, 1.0) for part in range(len(PARTS))]


def off(factors, run):
    return abs(sum(share * factor for share, factor in zip(run.shares, factors)) * math.exp(-run.error()) - 1.0)


def best_factors(runs):
    """Those of parts where they predict a run left out clearly better than if parts were all alike."""
    def left_out(*sizes):
        return sum(off(factors_of_parts(runs[:i] + runs[i + 1:], *sizes), run) for i, run in enumerate(runs))

    clearly = WORTHWHILE * len(runs)
    scatters = (WITHIN, WITHIN / STEADY)
    alike = min(left_out([0.05] + [0.0] * (len(PARTS) - 1), scatter) for scatter in scatters)
    usual, steady = (left_out(SHIPPED[:-2], scatter) for scatter in scatters)
    if min(usual, steady) + clearly >= alike:
        return [one_factor(runs)] * len(PARTS)
    return factors_of_parts(runs, SHIPPED[:-2], scatters[steady + clearly < usual])


def compare_terms(sites):
    noise = random.Random(3)
    for count in COUNTS:
        losses = []  # of a site: as typical, by one factor, by parts
        for runs in sites.values():
            if len(runs) < count + 3:
                continue
            sums = [0.0, 0.0, 0.0]
            for _ in range(DRAWS):
                order = noise.sample(runs, len(runs))
                seen, others = order[:count], order[count:count + 60]
                ways = ([math.exp(TYPICAL)] * len(PARTS), [one_factor(seen)] * len(PARTS), best_factors(seen))
                for i, factors in enumerate(ways):
                    sums[i] += sum(off(factors, run) for run in others) / len(others) / DRAWS
            losses.append(sums)
        mixed = [loss for loss in losses if loss[1] > loss[0]]
        for name, which in (("all", losses), ("one factor is worse than none", mixed)):
            means = [100.0 * sum(loss[i] for loss in which) / max(len(which), 1) for i in range(3)]
            print(f"{count} runs, {name}: {len(which)} sites: typical {means[0]:.2f} %, one factor {means[1]:.2f} %, "
                  f"by parts {means[2]:.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--also", nargs="*", default=[])
    parser.add_argument("--suspect", nargs="*", default=[])
    parser.add_argument("--terms", action="store_true", help="what runs of a site say of its others")
    options = parser.parse_args()
    if options.terms:
        compare_terms(sites_of(read(options)))
        return 0
    sweeps = sweeps_of(read(options))
    replay_all(sweeps, "all")
    replay_all([s for s in sweeps if "nanotron" not in s[0] and s[0] != "ultra-scale"], "without ultra-scale")
    return 0


if __name__ == "__main__":
    sys.exit(main())
