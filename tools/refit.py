#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refits constants of the shipped data files to measured runs, through the built executable.

  tools/refit.py CONSTANTS.yaml --binary build/release/plansearch --table runs.csv [options]

CONSTANTS.yaml (or .json) is a list of constants; each is one scalar of one data file:

  - file: frameworks/megatron.yaml        # relative to the data directory
    key: constants.collective_call        # path of keys; list items by number (tiers.1.bandwidth)
    low: 5                                # bounds, in the unit that the file uses
    high: 200
    scale: log                            # log (default) or linear

The table is one of measured runs, matmuls, attention or collectives. Every trial writes the
candidates into a copy of the data directory and runs `plansearch validate`, so what is fitted is
what ships. The search is a coordinate descent with shrinking steps. Rows that cannot be expressed
do not count; expressible rows without a prediction cost as much as an error of 1.

Options: --suspect FILE leaves rows out; --source TEXT (repeatable) keeps rows of these sources (of
kernel tables: gpu, dtype, collective); --min-mfu X leaves rows of less utilisation out; --memory
fits memory instead of time; --loss mean|robust; --weight-sources gives every source the same
weight; --hold-out SHARE keeps random rows out of the fit; --rounds N; --write puts the result into
the data directory. tools/leave_one_out.py refits without one group of runs at a time.
Only the standard library is needed.
"""
import argparse
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

LARGE_ERROR = 1.0
ROBUST_ERROR = 0.1
FIRST_STEP = 0.25
LAST_STEP = 0.01


def read_constants(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".json"):
        entries = json.loads(text)
    else:
        entries = parse_flat_yaml(text, path)
    for entry in entries:
        for field in ("file", "key", "low", "high"):
            if field not in entry:
                sys.exit(f"{path}: a constant lacks {field}: {entry}")
        entry["low"], entry["high"] = float(entry["low"]), float(entry["high"])
        entry.setdefault("scale", "log")
    return entries


def parse_flat_yaml(text, path):
    """A list of maps of scalars, in block or flow style: all that the list of constants needs."""
    entries = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"\s+#.*|^#.*", "", raw).rstrip()
        if not line:
            continue
        match = re.match(r"^-\s*\{(.*)\}$", line)
        if match:
            entries.append(dict(pair.split(":", 1) for pair in match.group(1).split(",")))
            entries[-1] = {k.strip(): v.strip() for k, v in entries[-1].items()}
            continue
        match = re.match(r"^(- |  )\s*([a-z]+):\s*(.*)$", line)
        if not match:
            sys.exit(f"{path}:{number}: expected `key: value`, got {raw!r}")
        if match.group(1) == "- ":
            entries.append({})
        entries[-1][match.group(2)] = match.group(3).strip("'\"")
    return entries


class DataFile:
    """A YAML file whose scalars are replaced in place; comments and order stay as they are."""

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().split("\n")

    def find(self, key):
        """Line and column span of the scalar at a path of keys."""
        parts = key.split(".")
        start, indent = 0, -1
        for depth, part in enumerate(parts):
            if part.isdigit():
                found = self.find_item(int(part), start, indent)
            else:
                found = self.find_key(part, start, indent)
            if found is None:
                sys.exit(f"{self.path}: no key {key}")
            start, indent, value_at = found
            if depth == len(parts) - 1:
                return self.scalar_span(start, value_at)
            if self.lines[start][value_at:].startswith("{"):
                return self.find_in_flow(start, value_at, parts[depth + 1:], key)
            start += 0 if part.isdigit() else 1
        return None

    def children(self, start, parent_indent):
        """(number, indent, body) of the lines below a key, comments left out."""
        for number in range(start, len(self.lines)):
            body = self.lines[number].lstrip(" ")
            if not body or body.startswith("#"):
                continue
            indent = len(self.lines[number]) - len(body)
            if indent <= parent_indent and not (number == start and body.startswith("- ")):
                return
            yield number, indent, body

    def find_item(self, wanted, start, parent_indent):
        dash, item = None, -1
        for number, indent, body in self.children(start, parent_indent):
            dash = indent if dash is None else dash
            if indent == dash and body.startswith("- "):
                item += 1
                if item == wanted:
                    return number, indent, indent + 2
        return None

    def find_key(self, part, start, parent_indent):
        """The child of that name; the first key of an item stands behind its dash."""
        child_indent = None
        for number, indent, body in self.children(start, parent_indent):
            if body.startswith("- "):
                if number != start:
                    if child_indent is not None and indent < child_indent:
                        return None
                    continue
                indent, body = indent + 2, body[2:]
            child_indent = indent if child_indent is None else child_indent
            match = re.match(r"([\w.-]+):(\s*)", body)
            if indent == child_indent and match and match.group(1) == part:
                return number, indent, indent + match.end()
        return None

    def find_in_flow(self, number, column, parts, key):
        line = self.lines[number]
        for part in parts:
            match = re.compile(r"[{,]\s*" + re.escape(part) + r":\s*").search(line, column)
            if not match:
                sys.exit(f"{self.path}: no key {key}")
            column = match.end()
        end = re.compile(r"[,}]").search(line, column).start()
        return number, column, column + len(line[column:end].rstrip())

    def scalar_span(self, number, column):
        line = self.lines[number]
        end = re.search(r"\s+#|$", line[column:]).start() + column
        return number, column, end

    def get(self, key):
        number, begin, end = self.find(key)
        return self.lines[number][begin:end]

    def set(self, key, text):
        number, begin, end = self.find(key)
        self.lines[number] = self.lines[number][:begin] + text + self.lines[number][end:]

    def save(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("\n".join(self.lines))


def number_and_unit(text):
    match = re.match(r"^\"?([-+0-9.eE]+)\s*([^\"]*)\"?$", text)
    if not match:
        sys.exit(f"not a number: {text!r}")
    return float(match.group(1)), match.group(2).strip()


class Bench:
    """Copies of the data directory, and the executable that reads them."""

    def __init__(self, args, constants):
        self.args = args
        self.constants = constants
        self.root = tempfile.mkdtemp(prefix="plansearch-refit-")
        for name in ("hardware_profiles", "models", "frameworks", "validation"):
            shutil.copytree(os.path.join(args.data, name), os.path.join(self.root, name))
        self.units = []
        self.start = []
        for constant in constants:
            value, unit = number_and_unit(self.file(constant).get(constant["key"]))
            self.start.append(value)
            self.units.append(unit)
        self.calls = 0

    def close(self):
        shutil.rmtree(self.root)

    def file(self, constant, root=None):
        return DataFile(os.path.join(root or self.root, constant["file"]))

    def put(self, values, root=None):
        for constant, unit, value in zip(self.constants, self.units, values):
            target = self.file(constant, root)
            target.set(constant["key"], f"{value:.6g}{' ' + unit if unit else ''}")
            target.save()

    def rows(self, values):
        self.put(values)
        command = [self.args.binary, "validate", "", "--site", "tuned", "--format", "json", "--quiet"]
        rows = []
        for table in self.args.table:
            command[2] = table
            done = subprocess.run(command, env=dict(os.environ, PLANSEARCH_DATA=self.root),
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip())
            rows += json.loads(done.stdout)["rows"]
        self.calls += 1
        return rows


class Loss:
    """Mean error over the rows of interest; large errors count less in a robust one."""

    def __init__(self, args):
        self.args = args
        self.suspects = set()
        for path in args.suspect or ():
            with open(path, newline="", encoding="utf-8") as file:
                self.suspects |= {row["id"] for row in csv.DictReader(file)}

    def held_out(self, row):
        """A fixed pseudo-random share of the rows."""
        name = str(row.get("id", row.get("row"))).encode()
        return zlib.crc32(name) % 1000 < 1000 * self.args.hold_out

    def error(self, row):
        """Source and absolute relative error of a row, or nothing when it does not count."""
        if "measured_us" in row:  # kernels: what the fit must not mix is the accelerator
            if row["measured_us"] is None or row["predicted_us"] is None:
                return None
            source = " ".join(row[key] for key in ("gpu", "hw", "dtype", "collective")
                              if key in row)
            return source, abs(row["predicted_us"] / row["measured_us"] - 1)
        what = "peak_memory_bytes" if self.args.memory else "step_time_s"
        measured, predicted = row["measured_" + what], row["predicted_" + what]
        if measured is None or row["failed"] or not row["expressible"]:
            return None
        if row["id"] in self.suspects or (row["measured_mfu"] or 1.0) < self.args.min_mfu:
            return None
        error = LARGE_ERROR if predicted is None else abs(predicted / measured - 1)
        return row["source"] or "", error

    def errors(self, rows, wanted, held_out=False):
        """{source: [absolute relative errors]}"""
        found = {}
        for row in rows:
            entry = self.error(row)
            if entry and wanted(entry[0]) and self.held_out(row) == held_out:
                found.setdefault(entry[0], []).append(entry[1])
        return found

    def value(self, rows, wanted):
        by_source = self.errors(rows, wanted)
        if not by_source:
            sys.exit("no row is left to fit to")
        if self.args.weight_sources:
            return sum(self.mean(e) for e in by_source.values()) / len(by_source)
        return self.mean([e for errors in by_source.values() for e in errors])

    def mean(self, errors):
        if self.args.loss == "robust":
            errors = [math.log1p(e / ROBUST_ERROR) * ROBUST_ERROR for e in errors]
        return sum(errors) / len(errors)


def moved(constant, value, step):
    """The value one step along its scale, inside its bounds."""
    if constant["scale"] == "log" and value > 0:
        value *= math.exp(4 * step)
    else:
        value += step * (constant["high"] - constant["low"])
    return min(max(value, constant["low"]), constant["high"])


def fit(bench, loss, wanted, rounds, say):
    values = [min(max(v, c["low"]), c["high"]) for c, v in zip(bench.constants, bench.start)]
    best = loss.value(bench.rows(values), wanted)
    steps = [FIRST_STEP] * len(values)
    direction = [1] * len(values)
    say(f"start {100 * best:.3f} %")
    for turn in range(rounds):
        before = best
        for i, constant in enumerate(bench.constants):
            if steps[i] < LAST_STEP:
                continue
            for sign in (direction[i], -direction[i]):
                trial = list(values)
                trial[i] = moved(constant, values[i], sign * steps[i])
                if trial[i] == values[i]:
                    continue
                cost = loss.value(bench.rows(trial), wanted)
                if cost < best:
                    best, values, direction[i] = cost, trial, sign
                    steps[i] = min(steps[i] * 1.5, FIRST_STEP)
                    break
            else:
                steps[i] /= 2.5
        say(f"round {turn + 1}: {100 * best:.3f} % ({bench.calls} runs)")
        if max(steps) < LAST_STEP or (before - best < 1e-5 and max(steps) < 4 * LAST_STEP):
            break
    return values, best


def print_errors(title, by_source):
    print(title)
    for source, errors in sorted(by_source.items()):
        errors = sorted(errors)
        mean = 100 * sum(errors) / len(errors)
        print(f"  {source[:58]:58s} {len(errors):5d} rows  mean {mean:6.2f} %"
              f"  median {100 * errors[len(errors) // 2]:6.2f} %")


def report_values(bench, values):
    for constant, unit, start, value in zip(bench.constants, bench.units, bench.start, values):
        at = " (at its bound)" if value in (constant["low"], constant["high"]) else ""
        print(f"  {constant['file']} {constant['key']}: {start:.6g} -> {value:.6g} {unit}{at}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("constants")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", required=True, action="append")
    parser.add_argument("--data", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("--suspect", action="append")
    parser.add_argument("--source", action="append", help="text that the source must contain")
    parser.add_argument("--loss", choices=("mean", "robust"), default="mean")
    parser.add_argument("--min-mfu", type=float, default=0.0, help="slower rows do not count")
    parser.add_argument("--hold-out", type=float, default=0.0,
                        help="share of rows kept out of the fit and reported apart")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--weight-sources", action="store_true")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()

    def wanted(source):
        return not args.source or any(text in source for text in args.source)

    bench = Bench(args, read_constants(args.constants))
    loss = Loss(args)
    try:
        print_errors("before", loss.errors(bench.rows(bench.start), wanted))
        values, _ = fit(bench, loss, wanted, args.rounds,
                        lambda text: print(text, file=sys.stderr, flush=True))
        report_values(bench, values)
        inside = loss.errors(bench.rows(values), wanted)
        print_errors("after", inside)
        if args.hold_out:
            print_errors("held out", loss.errors(bench.rows(values), wanted, held_out=True))
        if args.write:
            bench.put(values, args.data)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
