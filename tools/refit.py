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
    also: other.yaml#key ...              # scalars that keep their ratio to this one

Tables are of measured runs, matmuls, attention or collectives; several may be fitted at once. Every trial
writes the candidates into a copy of the data directory and runs `plansearch validate`, so what is fitted is
what ships. The fit is tools/least_squares.py: ln(predicted / measured), large errors damped, the factor of
every site taken out, a weak prior in the middle of the bounds, a source of n rows weighed as the square root
of n. It starts from the values in the files; `--start middle` from the middle of the bounds.

Options: --suspect FILE leaves rows out; --source TEXT (repeatable) keeps rows of these sources (of kernel
tables: gpu, dtype, collective); --only TEXT (repeatable) fits the constants of these files; --min-mfu X
leaves rows of less utilisation out; --memory fits memory instead of time; --hold-out SHARE keeps random rows
out of the fit, with --jobs all rows of random jobs (machine, model, GPUs, sequence length, precision); --rounds N; --write puts the result into the data directory. tools/leave_one_out.py refits
without one group of runs at a time. Only the standard library is needed.
"""
import argparse
import concurrent.futures
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

import least_squares


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


#: Rows with equal values are runs of one job, whatever the plan.
JOB = ("source", "hw", "framework", "model", "gpus", "seq_len", "precision")


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
    """A copy of the data directory, and the executable that reads it."""

    def __init__(self, args, constants):
        self.args = args
        self.constants = constants
        self.root = tempfile.mkdtemp(prefix="plansearch-refit-")
        for name in ("hardware_profiles", "models", "frameworks", "validation"):
            shutil.copytree(os.path.join(args.data, name), os.path.join(self.root, name))
        self.scalars = [self.scalars_of(constant) for constant in constants]
        self.start = [scalars[0][2] for scalars in self.scalars]
        self.units = [scalars[0][3] for scalars in self.scalars]

    def close(self):
        shutil.rmtree(self.root)

    def scalars_of(self, constant):
        """(file, key, value, unit) of a constant and of what keeps its ratio to it."""
        places = [(constant["file"], constant["key"])]
        places += [tuple(place.split("#", 1)) for place in constant.get("also", "").split()]
        return [(file, key, *number_and_unit(DataFile(os.path.join(self.root, file)).get(key)))
                for file, key in places]

    def put(self, values, root=None):
        files = {}
        for scalars, value in zip(self.scalars, values):
            first = scalars[0][2]
            for file, key, start, unit in scalars:
                target = files.setdefault(file, DataFile(os.path.join(root or self.root, file)))
                ratio = start / first if first else 1.0
                target.set(key, f"{value * ratio:.4g}{' ' + unit if unit else ''}")
        for target in files.values():
            target.save()

    def rows(self, values):
        self.put(values)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return [row for rows in pool.map(self.rows_of, self.args.table) for row in rows]

    def rows_of(self, table):
        done = subprocess.run(
            [self.args.binary, "validate", table, "--site", "tuned", "--format", "json", "--quiet",
             "--threads", "1"], env=dict(os.environ, PLANSEARCH_DATA=self.root),
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)["rows"]


class Selection:
    """Which rows count, of what group, and how much."""

    def __init__(self, args):
        self.args = args
        self.suspects = set()
        for path in args.suspect or ():
            with open(path, newline="", encoding="utf-8") as file:
                self.suspects |= {row["id"] for row in csv.DictReader(file)}
        self.jobs = {}  # by row: what is held out together
        for path in args.table if args.jobs else ():
            with open(path, newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    self.jobs[row.get("id")] = " ".join(row.get(key) or "" for key in JOB)

    def held_out(self, row):
        """A fixed pseudo-random share of the rows."""
        name = self.jobs.get(row.get("id")) or str(row.get("id", row.get("row")))
        return zlib.crc32(name.encode()) % 1000 < 1000 * self.args.hold_out

    def times(self, row):
        """Measured and predicted value, or nothing when the row does not count."""
        if "measured_us" in row:
            return row["measured_us"], row["predicted_us"]
        what = "peak_memory_bytes" if self.args.memory else "step_time_s"
        if row["failed"] or not row["expressible"] or row["id"] in self.suspects:
            return None, None
        if (row["measured_mfu"] or 1.0) < self.args.min_mfu:
            return None, None
        return row["measured_" + what], row["predicted_" + what]

    @staticmethod
    def source(row):
        if "measured_us" in row:  # kernels: what a fit must not mix is the accelerator
            return " ".join(row[key] for key in ("gpu", "hw", "dtype", "collective") if key in row)
        return row["source"] or ""

    def residual(self, row):
        """ln(predicted / measured), or nothing."""
        measured, predicted = self.times(row)
        return None if measured is None or predicted is None else math.log(predicted / measured)

    def errors(self, rows, wanted, fitted=None, held_out=False):
        """{source: [absolute relative errors]}, with the factors of the sites that fitted rows show."""
        fitted = fitted or wanted
        used = [row for row in rows if self.residual(row) is not None]
        known = [row for row in used if fitted(self.source(row)) and not self.held_out(row)]
        factors = least_squares.group_means([self.residual(row) for row in known], [1.0] * len(known),
                                            [row.get("site") for row in known])
        errors = {}
        for row in used:
            if wanted(self.source(row)) and self.held_out(row) == held_out:
                rest = self.residual(row) - factors.get(row.get("site"), 0.0)
                errors.setdefault(self.source(row), []).append(abs(math.exp(rest) - 1))
        return errors


def fit(bench, selection, wanted, start, rounds=10, say=lambda text: None, columns=None):
    """The constants that fit the wanted rows best; rows that do not count have no weight."""
    rows = bench.rows(start)
    used = [i for i, row in enumerate(rows) if selection.residual(row) is not None]
    counts = {}
    for i in used:
        source = selection.source(rows[i])
        counts[source] = counts.get(source, 0) + 1
    weights = [counts[selection.source(rows[i])] ** -0.5
               if wanted(selection.source(rows[i])) and not selection.held_out(rows[i]) else 0.0
               for i in used]
    if not any(weights):
        sys.exit("no row is left to fit to")

    def residuals(values):
        found = bench.rows(values)
        return [selection.residual(found[i]) for i in used]

    parameters = [least_squares.Parameter(c["low"], c["high"], c["scale"]) for c in bench.constants]
    problem = least_squares.Problem(parameters, residuals, weights,
                                    [rows[i].get("site") for i in used])
    return least_squares.fit(problem, start, rounds, say, columns)


def middle(constant):
    parameter = least_squares.Parameter(constant["low"], constant["high"], constant["scale"])
    return parameter.outward(parameter.centre)


def print_errors(title, by_source):
    print(title)
    for source, errors in sorted(by_source.items()):
        errors = sorted(errors)
        mean = 100 * sum(errors) / len(errors)
        print(f"  {source[:58]:58s} {len(errors):5d} rows  mean {mean:6.2f} %"
              f"  median {100 * errors[len(errors) // 2]:6.2f} %")


def report_values(bench, result):
    entries = zip(bench.constants, bench.units, bench.start, result.values, result.deviations)
    for constant, unit, start, value, deviation in entries:
        if constant["scale"] == "log":
            deviation *= value
        at = " (at its bound)" if value in (constant["low"], constant["high"]) else ""
        print(f"  {constant['file']} {constant['key']}: {start:.4g} -> {value:.4g} +- "
              f"{deviation:.2g} {unit}{at}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("constants")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", required=True, action="append")
    parser.add_argument("--data", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("--suspect", action="append")
    parser.add_argument("--source", action="append", help="text that the source must contain")
    parser.add_argument("--only", action="append", help="text that a constant's file must contain")
    parser.add_argument("--start", choices=("files", "middle"), default="files")
    parser.add_argument("--min-mfu", type=float, default=0.02, help="slower rows do not count")
    parser.add_argument("--hold-out", type=float, default=0.0,
                        help="share of rows kept out of the fit and reported apart")
    parser.add_argument("--jobs", action="store_true",
                        help="hold out all rows of a job together")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()

    def wanted(source):
        return not args.source or any(text in source for text in args.source)

    constants = [c for c in read_constants(args.constants)
                 if not args.only or any(text in c["file"] for text in args.only)]
    bench, selection = Bench(args, constants), Selection(args)
    try:
        print_errors("before", selection.errors(bench.rows(bench.start), wanted))
        start = bench.start if args.start == "files" else [middle(c) for c in constants]
        result = fit(bench, selection, wanted, start, args.rounds,
                     lambda text: print(text, file=sys.stderr, flush=True))
        report_values(bench, result)
        rows = bench.rows(result.values)
        print_errors("after", selection.errors(rows, wanted))
        if args.hold_out:
            print_errors("held out", selection.errors(rows, wanted, held_out=True))
        if args.write:
            bench.put(result.values, args.data)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
