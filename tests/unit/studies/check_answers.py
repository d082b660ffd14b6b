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
    """Every broken table: exit 2, the place, a remedy, and nothing on standard output."""
    text = (TABLES / "runs.csv").read_text()
    header = text.split("\n")[0] + "\n"
    broken = {"a negative time": (text.replace(",1.42,", ",-1.42,"), ":2:178:"),
              "a time of zero": (text.replace(",1.42,", ",0,"), ":2:178:"),
              "text in a number": (text.replace(",1.42,", ",quick,"), ":2:178:"),
              "no number": (text.replace(",1.42,", ",nan,"), ":2:178:"),
              "a missing column": (text.replace(",hidden,", ",hiden,"), ":1:1:"),
              "a repeated column": (text.replace(",locator,", ",source,"), ":1:11:"),
              "a short row": (text + "a,b\n", ":6:1:"),
              "an open quote": (text.replace("Table 5", '"Table 5'), ":2:65:"),
              "semicolons": (text.replace(",", ";"), ":1:1:"),
              "tabs": (text.replace(",", "\t"), ":1:1:"),
              "nothing": ("", ":1:1:"),
              "no rows": (header, ":1:1:"),
              "a profile that is not there": (text.replace("selene", "profiles/x.yaml"), ":2:73:"),
              "machines all unknown": (header + text.split("\n")[3] + "\n", ":2:23:"),
              "frameworks all unknown": (text.replace(",megatron,", ",megatrn,")
                                         .replace(",fsdp,", ",fdsp,"), ":2:80:"),
              "no table at all": ("x,y\n1,2\n", ":1:1:")}
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "broken.csv"
        for what, (content, place) in broken.items():
            path.write_text(content)
            done = run(path)
            check(done.returncode == 2, f"{what}: exit code {done.returncode}")
            check(f"broken.csv{place} error: " in done.stderr, f"{what}: {done.stderr}")
            if what != "a repeated column":
                check("hint: " in done.stderr, f"{what}: no remedy in {done.stderr}")
            check(not done.stdout, f"{what}: nothing on standard output")
        for absent in (directory, directory + "/absent.csv"):
            check(run(absent).returncode == 2, f"{absent} is no table")
        path.write_text(text)
        check(run(path, "--by", "no_such_column").returncode == 2, "--by names a column")


def check_dialects():
    """Spreadsheets write byte-order marks, carriage returns and quotes: the same answer."""
    text = (TABLES / "runs.csv").read_text()
    plain = run(TABLES / "runs.csv", "--format", "json").stdout
    variants = {"mark": b"\xef\xbb\xbf" + text.encode(),
                "returns": text.replace("\n", "\r\n").encode(),
                "quotes": text.replace("Table 5", '"Table ""5"", first row"').encode()}
    with tempfile.TemporaryDirectory() as directory:
        for what, content in variants.items():
            path = pathlib.Path(directory) / "runs.csv"
            path.write_bytes(content)
            check(run(path, "--format", "json").stdout == plain, what)


def check_foreign_profiles():
    """Rows may name profile files, beside the table or below it, and aliases of shipped ones."""
    text = (TABLES / "runs.csv").read_text()
    header, row = text.split("\n")[:2]
    shipped = ROOT / "hardware_profiles"
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        (folder / "machines").mkdir()
        (folder / "machines/mine.yaml").write_text(
            (shipped / "selene.yaml").read_text().replace("name: selene", "name: mine"))
        names = ["selene", "machines/mine.yaml", "./machines/mine.yaml", "A100-SXM4-80GB",
                 str(folder / "machines/mine.yaml")]
        lines = [header] + [row.replace("selene", name).replace("korthikanti-22b-full", f"r{i}")
                            for i, name in enumerate(names)]
        lines.append(row.replace(",fp16,", ",float16,").replace("GPT 22B", "").replace(
            "korthikanti-22b-full", "other-words"))
        (folder / "runs.csv").write_text("\n".join(lines) + "\n")
        done = run(folder / "runs.csv", "--format", "json")
        check(done.returncode == 0, done.stderr)
        times = [r["predicted_step_time_s"] for r in json.loads(done.stdout)["rows"]]
        check(None not in times and len(set(times)) == 1, f"the same machine: {times}")


def check_unknown_cells():
    """Empty cells are unknown: filled and reported, or a row that cannot be expressed."""
    text = (TABLES / "runs.csv").read_text().split("\n")
    header, row = text[0].split(","), text[1].split(",")

    def without(*columns, identifier):
        return ",".join(identifier if name == "id" else "" if name in columns else cell
                        for name, cell in zip(header, row))

    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "runs.csv"
        path.write_text("\n".join([text[0], without("layers", "heads", identifier="a"), text[1],
                                   without("attention", "precision", "vocab", "ffn_hidden", "tp",
                                           "model", "dp", "sp", "zero", "recompute", identifier="b")]) + "\n")
        rows = json.loads(run(path, "--format", "json").stdout)["rows"]
        check(not rows[0]["expressible"] and rows[0]["reason"] == "unknown: layers, heads", rows[0])
        check(rows[1]["expressible"] and rows[2]["expressible"], "the others are not affected")
        for what in ("attention flash", "precision bf16", "vocab 51200", "zero 1",
                     "recompute none"):
            check(what in rows[2]["filled"], f"{what} in {rows[2]['filled']}")


check_tables()
check_rows()
check_malformed()
check_dialects()
check_foreign_profiles()
check_unknown_cells()
