#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tools around validation read the shipped files, and change what they say they change.

Usage: check_tools.py REPOSITORY
"""
import math
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(ROOT / "tools"))

import ablation  # noqa: E402
import baseline  # noqa: E402
import fitted_constants  # noqa: E402
import least_squares  # noqa: E402
import plain_yaml  # noqa: E402
import refit  # noqa: E402
import sites  # noqa: E402


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_yaml():
    text = ('# head\na: {b: 1 GiB, c: [x, "y: z"]}  # tail\nlist:\n  - name: one\n    size: "2, 3"\n'
            "  - {name: two}\nplain: [p, q]\nlong: some words\n  go on\nnothing:\n")
    check(plain_yaml.load(text) ==
          {"a": {"b": "1 GiB", "c": ["x", "y: z"]},
           "list": [{"name": "one", "size": "2, 3"}, {"name": "two"}], "plain": ["p", "q"],
           "long": "some words go on", "nothing": None}, plain_yaml.load(text))
    for folder in ("frameworks", "hardware_profiles", "models"):
        for path in (ROOT / folder).rglob("[!_]*.yaml"):
            read = plain_yaml.load(path.read_text(encoding="utf-8"))
            check("schema" in read or "_class_name" in read, f"{path} is read")


def check_constants():
    found = fitted_constants.collect(ROOT)
    check(all(c.value and c.source for c in found) and len(found) > 100, "constants have sources")
    fitted = refit.read_constants(str(ROOT / "validation/fitted_constants.yaml"))
    check(len(fitted) > 20, "constants to fit are listed")
    for constant in fitted:
        value, _ = refit.number_and_unit(
            refit.DataFile(str(ROOT / constant["file"])).get(constant["key"]))
        check(value >= 0, f"{constant['file']} {constant['key']} is {value}")
        check(constant["low"] <= refit.middle(constant) <= constant["high"],
              f"{constant['key']} has bounds")


def check_least_squares():
    """Times a x + b of three sites that lie off by known factors, one of them with wild rows."""
    a, b = 3.0, 0.5
    sites = {"one": 0.0, "two": 0.05, "three": -0.04}
    rows = [(site, x, off) for site, off in sites.items() for x in (0.1, 0.3, 1.0, 3.0, 10.0)]
    measured = [(a * x + b) * math.exp(-off) for _, x, off in rows]
    measured[0] *= 5.0  # a slow mode
    parameters = [least_squares.Parameter(0.5, 50.0), least_squares.Parameter(0.1, 20.0)]

    def residuals(values):
        return [math.log((values[0] * x + values[1]) / m) for (_, x, _), m in zip(rows, measured)]

    groups = [site for site, _, _ in rows]
    weights = [100.0] * len(rows)
    found = least_squares.fit(least_squares.Problem(parameters, residuals, weights, groups), [40, 18])
    for value, true, deviation in zip(found.values, (a, b), found.deviations):
        check(abs(math.log(value / true)) < 0.03, f"{value} is near {true}")
        check(0 < deviation < 0.2, f"stated as {deviation} uncertain")
    bound = [least_squares.Parameter(0.5, 2.0), parameters[1]]
    found = least_squares.fit(least_squares.Problem(bound, residuals, weights, groups), [1, 1])
    check(abs(found.values[0] - 2.0) < 1e-9, "a value beyond its bound stops there")
    weights = [0.0] * len(rows)
    found = least_squares.fit(least_squares.Problem(parameters, residuals, weights, groups), [40, 18])
    check(abs(found.values[0] - 5.0) < 0.01, "without rows the middle of the bounds is left")
    check(least_squares.solve([[0.0, 2.0], [1.0, 1.0]], [4.0, 5.0]) == [3.0, 2.0], "pivots")


def check_sites():
    """Three runs that take 1, 1.1 and 1.21 times what is predicted: the middle one is the factor."""
    logs = {"mosaicml": [0.0, math.log(1.1), 2 * math.log(1.1)]}
    every = [site["name"] for site in plain_yaml.load(sites.SITES.read_text(encoding="utf-8"))["sites"]]
    for keep, names in ((True, every), (False, ["mosaicml"])):
        found = {site["name"]: site for site in plain_yaml.load(sites.with_figures(logs, keep))["sites"]}
        check(list(found) == names, f"sites without rows {'stay' if keep else 'leave'}: {list(found)}")
        check(found["mosaicml"]["factor"] == "1.1", found["mosaicml"])


def check_ablation():
    for name, edits in ablation.MECHANISMS:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for folder in ("frameworks", "hardware_profiles"):
                shutil.copytree(ROOT / folder, root / folder)
            changed = sum(ablation.edit(root, *edit) for edit in edits)
            check(changed > 0, f"{name} is in the data files")
            for path in root.rglob("*.yaml"):
                plain_yaml.load(path.read_text(encoding="utf-8"))


def check_baseline():
    row = baseline.record("plan 1", "exit 0", [2.0, 1.5, 3.0, 1.0, 0.0, 0.25, 1e9], "--gpus 8")
    same = dict(row, step_time_s="2.000000001", exposed_s="1e-12")
    check(baseline.differences([row], [same]) == {}, "last digits are no difference")
    moved = dict(row, answer="exit 3", step_time_s="2.02", p10_s="")
    found = baseline.differences([row], [moved])["plan 1"]
    check([key for _, key, *_ in found] == ["p10_s", "answer", "step_time_s"], found)
    check(abs(found[-1][0] - 0.01) < 1e-12, "2 -> 2.02 s is 1 %")
    check(baseline.differences([row], []) == {"plan 1": [(float("inf"), "row", "there", "missing")]},
          "a row that is gone is a difference")
    check({r["question"] != "" for r in baseline.read()} == {True, False}, "plans and tables are asked")


check_yaml()
check_baseline()
check_constants()
check_least_squares()
check_sites()
check_ablation()
