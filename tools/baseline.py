#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows which predictions a build moves, against validation/predictions.csv.

    python3 tools/baseline.py BIN             # lists what moved; exit status 1 when anything did
    python3 tools/baseline.py BIN --write     # takes the predictions of BIN as the new ones
    python3 tools/baseline.py BIN --draw N    # ... after drawing N plans anew

The file holds the answers for N plans over shipped machines, models, frameworks and schedules, asked of
`predict`, and for every row of the published tables, asked of `validate`, all of them at factor 1: factors of
sites move with every refit and no plan by itself. A change that means to move
predictions writes the file anew: its diff is the list of what moved, for the commit message.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import compare_builds

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREDICTIONS = ROOT / "validation" / "predictions.csv"
TABLES = ("published_runs", "published_memory")
VALUES = ("step_time_s", "p10_s", "p90_s", "compute_s", "exposed_s", "bubble_s", "peak_memory_bytes")
COLUMNS = ("id", "answer", *VALUES, "question")
TOLERANCE = 1e-6  # relative: what compilers and their options may change
SEED = 20250301
SHOWN = 40
SCHEDULES = (("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("interleaved", 4))  # frameworks run these


# ---- answers ---------------------------------------------------------------------------------


def values_of_plan(plan):
    step = plan["step"]
    return (plan["step_time_s"], plan["step_time_p10_s"], plan["step_time_p90_s"], step["compute_s"],
            sum(step["exposed_communication_s"].values()), step["bubble_s"], plan["peak_memory_bytes"])


def values_of_row(row):
    parts = row["predicted_parts_s"] or {}
    return (row["predicted_step_time_s"], row["predicted_p10_s"], row["predicted_p90_s"],
            parts.get("compute"), parts.get("exposed_communication"), parts.get("bubble"),
            row["predicted_peak_memory_bytes"])


def record(name, answer, values, question=""):
    texts = ["" if value is None else f"{value:.10g}" for value in values or [None] * len(VALUES)]
    return dict(zip(COLUMNS, (name, answer, *texts, question)))


def ask_predict(executable, name, question):
    """The record of one plan: exit status and, where there is a plan, its figures."""
    status, text = compare_builds.ask(executable, ["predict", *question.split(), "--site", "tuned",
                                                        "--format", "json"])
    plans = json.loads(text).get("plans") if text.strip() else None
    return record(name, f"exit {status}", values_of_plan(plans[0]) if plans else None, question)


def ask_table(executable, table):
    path = ROOT / "validation" / f"{table}.csv"
    done = subprocess.run([executable, "validate", str(path), "--site", "tuned", "--format", "json"],
                          stdout=subprocess.PIPE, check=True)
    for row in json.loads(done.stdout)["rows"]:
        yield record(f"{table} {row['id']}", row["verdict"], values_of_row(row))


def answers(executable, questions):
    """Records of all questions, in their order, then those of the tables."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        asked = pool.map(lambda pair: ask_predict(executable, *pair), questions.items())
        records = list(asked)
    for table in TABLES:
        records.extend(ask_table(executable, table))
    return records


# ---- questions -------------------------------------------------------------------------------


def with_schedule(rng, flags):
    """The same plan with another schedule; the framework may refuse it."""
    flags = dict(zip(flags[::2], flags[1::2]))
    if int(flags["--pp"]) > 1:
        flags["--schedule"], chunks = rng.choice(SCHEDULES)
        flags["--vpp"] = str(chunks)
    return [part for pair in flags.items() for part in pair]


def drawn_questions(executable, count):
    """Plans that are legal, with at most a tenth beyond memory or forbidden; every machine, model and
    framework takes its turn."""
    rng = random.Random(SEED)
    lists = [compare_builds.shipped(executable, executable, what) for what in ("hw", "models", "frameworks")]
    questions, others, turn = {}, 0, 0
    while len(questions) < count:
        turn += 1
        machine, model = lists[0][turn % len(lists[0])], rng.choice(lists[1])
        framework = rng.choice([item for item in lists[2] if item["name"] == "megatron"] * 4 + lists[2])
        flags = compare_builds.drawn_plan(rng, machine, model, framework["name"])
        if flags is None or ("1" == flags[flags.index("--pp") + 1] and rng.random() < 0.5):
            continue  # most machines are small: half of the plans with one stage give way
        if rng.random() < 0.5:
            flags = with_schedule(rng, flags)
        question = " ".join(["--hw", machine["name"], "--model", model["name"],
                             "--framework", framework["name"], *flags])
        status, _ = compare_builds.ask(executable, ["predict", *question.split(), "--format", "json"])
        if status != 0 and others >= count // 10:
            continue
        others += status != 0
        questions[f"plan {len(questions) + 1:03d}"] = question
    return questions


# ---- the file --------------------------------------------------------------------------------


def read():
    with PREDICTIONS.open(newline="") as file:
        return list(csv.DictReader(file))


def write(records):
    with PREDICTIONS.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def change(old, new):
    """How far a figure moved, relative; none when it stays within the tolerance."""
    if old == new:
        return None
    if not old or not new:
        return float("inf")
    first, second = float(old), float(new)
    size = abs(second - first) / max(abs(first), 1e-12)
    return size if size > TOLERANCE and abs(second - first) > 1e-9 else None


def differences(old, new):
    """{id: [(how far, what moved, before, after)]}, the farthest first within an id."""
    before = {row["id"]: row for row in old}
    after = {row["id"]: row for row in new}
    moved = {}
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in before or name not in after:
            moved[name] = [(float("inf"), "row", *("there" if name in side else "missing"
                                                   for side in (before, after)))]
            continue
        rows = []
        if before[name]["answer"] != after[name]["answer"]:
            rows.append((float("inf"), "answer", before[name]["answer"], after[name]["answer"]))
        for key in VALUES:
            size = change(before[name][key], after[name][key])
            if size is not None:
                rows.append((size, key, before[name][key], after[name][key]))
        if rows:
            moved[name] = sorted(rows, reverse=True)
    return moved


def shown(size, key, old, new):
    if size == float("inf"):
        return f"{key} {old or '-'} -> {new or '-'}"
    return f"{key} {float(old):.6g} -> {float(new):.6g} ({float(new) / float(old) - 1:+.3%})" \
        if float(old) else f"{key} 0 -> {float(new):.6g}"


def report(moved, records):
    count = len(records)
    if not moved:
        print(f"{count} predictions, none moved")
        return 0
    questions = {row["id"]: row["question"] for row in records}
    for key in ("row", "answer", *VALUES):
        sizes = [rows_size for rows in moved.values() for rows_size, what, *_ in rows if what == key]
        if sizes:
            finite = [size for size in sizes if size != float("inf")]
            print(f"{key:18} {len(sizes):4} moved"
                  + (f", mean {sum(finite) / len(finite):.3%}, largest {max(finite):.3%}" if finite else ""))
    order = sorted(moved, key=lambda name: (-moved[name][0][0], name))
    for name in order[:SHOWN]:
        print(f"{name}: " + "; ".join(shown(*row) for row in moved[name][:3]))
        if questions.get(name):
            print(f"    predict {questions[name]}")
    if len(order) > SHOWN:
        print(f"... and {len(order) - SHOWN} more")
    print(f"{len(moved)} of {count} predictions moved. If that is meant: tools/baseline.py BIN --write, "
          "and say in the commit message which and why.")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("executable")
    parser.add_argument("--write", action="store_true", help="take the predictions of this build")
    parser.add_argument("--draw", type=int, metavar="N", help="draw the plans anew, and write")
    options = parser.parse_args()
    executable = str(pathlib.Path(options.executable).resolve())
    old = read() if PREDICTIONS.exists() else []
    if options.draw:
        questions = drawn_questions(executable, options.draw)
    else:
        questions = {row["id"]: row["question"] for row in old if row["question"]}
    new = answers(executable, questions)
    status = report(differences(old, new), new)
    if options.write or options.draw:
        write(new)
        return 0
    return status


if __name__ == "__main__":
    sys.exit(main())
