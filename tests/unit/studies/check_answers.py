#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `plansearch validate` on small tables: answers match their JSON schema, do not depend on
threads, and malformed tables are refused with file, line and column.

Usage: check_answers.py REPOSITORY EXECUTABLE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT, EXECUTABLE = pathlib.Path(sys.argv[1]), sys.argv[2]
TABLES = ROOT / "tests/data/validate"


def run(*arguments):
    return subprocess.run([EXECUTABLE, "validate", *map(str, arguments)], capture_output=True,
                          text=True, check=False)


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_tables():
    schema = json.loads((ROOT / "docs/schema/validate.v1.schema.json").read_text())
    for table in ("runs", "matmul", "attention", "collective"):
        extra = ["--suspect", TABLES / "suspect.csv"] if table == "runs" else []
        done = run(TABLES / f"{table}.csv", "--format", "json", *extra)
        check(done.returncode == 0, f"{table}: {done.stderr}")
        answer = json.loads(done.stdout)
        check(answer["table"] == table, f"{table} is recognised by its header")
        if jsonschema:
            jsonschema.Draft202012Validator(schema).validate(answer)
        again = run(TABLES / f"{table}.csv", "--format", "json", "--threads", "1", *extra)
        check(again.stdout == done.stdout, f"{table}: the same bytes for any number of threads")
        for form in ("table", "csv", "jsonl"):
            check(run(TABLES / f"{table}.csv", "--format", form).stdout, f"{table} as {form}")


def check_rows():
    rows = json.loads(run(TABLES / "runs.csv", "--format", "json").stdout)["rows"]
    by_id = {row["id"]: row for row in rows}
    good = by_id["korthikanti-22b-full"]
    check(good["expressible"] and good["reason"] is None, "the published run is expressible")
    check(abs(good["predicted_step_time_s"] / 1.42 - 1) < 0.1, "and within 10 %")
    deep = by_id["too-deep"]
    check(deep["feasible"] is False and deep["failed"], "more stages than layers cannot run")
    check(by_id["unknown-machine"]["expressible"] is False, "an unknown machine is told apart")


def check_malformed():
    text = (TABLES / "runs.csv").read_text()
    broken = {"a negative time": (text.replace(",1.42,", ",-1.42,"), ":2:"),
              "text in a number": (text.replace(",1.42,", ",quick,"), ":2:"),
              "a missing column": (text.replace(",hidden,", ",hiden,"), ":1:"),
              "a short row": (text + "a,b\n", ":6:"),
              "no table at all": ("x,y\n1,2\n", ":1:")}
    with tempfile.TemporaryDirectory() as directory:
        for what, (content, place) in broken.items():
            path = pathlib.Path(directory) / "broken.csv"
            path.write_text(content)
            done = run(path)
            check(done.returncode == 2, f"{what}: exit code {done.returncode}")
            check(f"broken.csv{place}" in done.stderr, f"{what}: {done.stderr}")
            check(not done.stdout, f"{what}: nothing on standard output")


check_tables()
check_rows()
check_malformed()
