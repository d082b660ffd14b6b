# SPDX-License-Identifier: Apache-2.0
"""Damped least squares of a few parameters to many residuals of groups; plain Python.

Levenberg-Marquardt with finite differences. Parameters have bounds and a normal prior. Residuals are
logarithms of predicted over measured; small ones count by their square, large ones by their size
(pseudo-Huber); every group (a site) may lie off by a factor of its own, which is taken out with the same
normal prior for all of them.
"""
import math

#: From here on a residual counts by its size (logarithm).
SCALE = 0.05
#: Standard deviation of a group's own factor (logarithm).
GROUP_WIDTH = 0.06


class Parameter:
    """One parameter on the scale on which it is fitted: logarithmic, or linear between its bounds."""

    def __init__(self, low, high, scale="log", centre=None):
        self.log = scale == "log" and low > 0
        self.low, self.high = self.inward(low), self.inward(high)
        middle = (self.low + self.high) / 2
        self.centre = middle if centre is None else self.inward(centre)
        #: The bounds lie one standard deviation from the middle.
        self.width = (self.high - self.low) / 2

    def inward(self, value):
        return math.log(value) if self.log else value

    def outward(self, at):
        return math.exp(at) if self.log else at

    def clip(self, at):
        return min(max(at, self.low), self.high)

    def difference(self, at):
        """A step for finite differences that stays inside the bounds."""
        step = (self.high - self.low) / 100
        return step if at + step <= self.high else -step


def solve(matrix, right):
    """x of matrix x = right, by elimination with pivots."""
    size = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            if factor:
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    x = [0.0] * size
    for i in reversed(range(size)):
        x[i] = (rows[i][size] - sum(rows[i][j] * x[j] for j in range(i + 1, size))) / rows[i][i]
    return x


def group_means(values, weights, groups):
    """The factor of every group, shrunk by its prior; no group: none."""
    prior = (SCALE / GROUP_WIDTH) ** 2
    sums = {}
    for value, weight, group in zip(values, weights, groups):
        if group is not None:
            total, count = sums.get(group, (0.0, prior))
            sums[group] = (total + weight * value, count + weight)
    return {group: total / count for group, (total, count) in sums.items()}


def centred(values, weights, groups):
    """Residuals of values, and those of the prior on every group's factor, in the same unit."""
    means = group_means(values, weights, groups)
    rest = [value - means.get(group, 0.0) for value, group in zip(values, groups)]
    return rest, [means[group] * SCALE / GROUP_WIDTH for group in sorted(means)]


class Problem:
    """A problem to fit: parameters, weights and groups of residuals, and `residuals(values)`."""

    def __init__(self, parameters, residuals, weights, groups):
        self.parameters, self.residuals = parameters, residuals
        self.weights, self.groups = weights, groups

    def at(self, point):
        return self.residuals([p.outward(u) for p, u in zip(self.parameters, point)])

    def robust(self, found):
        """Weights by size of residual, which depends on the factors, which depend on the weights."""
        weights = self.weights
        for _ in range(5):
            rest, factors = centred(found, weights, self.groups)
            weights = [w / math.hypot(1, r / SCALE) for w, r in zip(self.weights, rest)]
        return rest, factors, weights

    def cost(self, point, found):
        rest, factors, _ = self.robust(found)
        sums = sum(2 * w * (math.hypot(1, r / SCALE) - 1) for w, r in zip(self.weights, rest))
        sums += sum((factor / SCALE) ** 2 for factor in factors)
        return sums + sum(((u - p.centre) / p.width) ** 2 for u, p in zip(point, self.parameters))

    def slopes(self, point, found):
        """Change of every residual with every parameter, one column per parameter."""
        columns = []
        for i, parameter in enumerate(self.parameters):
            step = parameter.difference(point[i])
            moved = self.at(point[:i] + [point[i] + step] + point[i + 1:])
            columns.append([(b - a) / step for a, b in zip(found, moved)])
        return columns

    def normal_equations(self, point, found, columns):
        """Curvature and slope of the cost, in units of SCALE squared."""
        rest, factors, weights = self.robust(found)
        free = [sum(centred(column, weights, self.groups), []) for column in columns]
        rest, weights = rest + factors, weights + [1.0] * len(factors)
        weighted = [[w * v / SCALE**2 for w, v in zip(weights, column)] for column in free]
        size = len(free)
        curvature = [[0.0] * size for _ in range(size)]
        slope = []
        for i, parameter in enumerate(self.parameters):
            for j in range(i + 1):
                curvature[i][j] = curvature[j][i] = sum(
                    a * b for a, b in zip(weighted[i], free[j]))
            curvature[i][i] += 1 / parameter.width**2
            slope.append(sum(a * r for a, r in zip(weighted[i], rest))
                         + (point[i] - parameter.centre) / parameter.width**2)
        return curvature, slope

    def step(self, point, curvature, slope, damping):
        """The next point; parameters that would leave their bounds stop there, the others go on."""
        fixed = {}
        while True:
            free = [i for i in range(len(point)) if i not in fixed]
            if not free:
                break
            matrix = [[curvature[i][j] * (1 + damping * (i == j)) for j in free] for i in free]
            right = [-slope[i] - sum(curvature[i][k] * d for k, d in fixed.items()) for i in free]
            moves = dict(zip(free, solve(matrix, right)))
            out = {}
            for i, move in moves.items():
                inside = self.parameters[i].clip(point[i] + move)
                if inside != point[i] + move:
                    out[i] = inside - point[i]
            if not out:
                return [point[i] + (fixed[i] if i in fixed else moves[i]) for i in range(len(point))]
            fixed.update(out)
        return [u + fixed[i] for i, u in enumerate(point)]


class Result:
    def __init__(self, values, deviations, cost, columns):
        self.values, self.deviations = values, deviations
        self.cost, self.columns = cost, columns


def deviations(curvature):
    size = len(curvature)
    return [math.sqrt(solve(curvature, [float(i == k) for k in range(size)])[i]) for i in range(size)]


def fit(problem, start, rounds=10, say=lambda text: None, columns=None):
    """From start values to the least cost; with `columns`, slopes that are known already."""
    point = [p.clip(p.inward(v)) for p, v in zip(problem.parameters, start)]
    found = problem.at(point)
    cost, damping = problem.cost(point, found), 1e-3
    say(f"start: cost {cost:.3f}")
    known = columns
    for turn in range(rounds):
        columns = known or problem.slopes(point, found)
        curvature, slope = problem.normal_equations(point, found, columns)
        before = cost
        for _ in range(6):
            trial = problem.step(point, curvature, slope, damping)
            there = problem.at(trial)
            value = problem.cost(trial, there)
            if value < cost:
                point, found, cost = trial, there, value
                damping /= 5
                break
            damping *= 10
        say(f"round {turn + 1}: cost {cost:.3f}")
        if before - cost < 1e-3 * before:
            break
    curvature, _ = problem.normal_equations(point, found, columns)
    return Result([p.outward(u) for p, u in zip(problem.parameters, point)],
                  deviations(curvature), cost, columns)
