#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/legality: every check of the frameworks' sources and the rule that stands for it.

usage: legality_tables.py [--write]            consistent with rules, framework files and docs/legality.md?
       legality_tables.py --sources TABLE DIR  consistent with a checkout of the sources of a table?

--write puts the summary into docs/legality.md.
"""
import ast
import csv
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = ROOT / "docs" / "legality"
PAGE = ROOT / "docs" / "legality.md"
BEGIN, END = "<!-- summary -->\n", "<!-- end of summary -->\n"
#: Which tables hold the checks a framework file answers for.
TABLES_OF = {
    "megatron": ["megatron", "transformer_engine"],
    "megatron-2025": ["megatron", "transformer_engine"],
    "megatron-2026": ["megatron", "transformer_engine"],
    "torchtitan": ["torchtitan", "torch_pipelining"],
    "torchtitan-async-tp": ["torchtitan", "torch_pipelining"],
    "deepspeed": ["deepspeed"],
    "megatron-deepspeed": ["megatron_deepspeed"],
    "nanotron": ["nanotron"],
    "maxtext": ["maxtext"],
}
WORDS = ["by construction", "network", "never set", "run set-up", "internal", "not applicable"]


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rule_names():
    text = (ROOT / "src" / "plan" / "legality" / "framework_rules.cpp").read_text(encoding="utf-8")
    return re.findall(r'^    \{\{"([a-z0-9-]+)",', text, re.M)


def built_in_names():
    text = (ROOT / "src" / "base" / "words.cpp").read_text(encoding="utf-8")
    names = re.search(r"kObstacles\{(.*?)\}", text, re.S).group(1)
    return ["built-in: " + name for name in re.findall(r'"([^"]+)"', names)]


def own_rules(framework):
    text = (ROOT / "frameworks" / (framework + ".yaml")).read_text(encoding="utf-8")
    return re.findall(r"^  - rule: ([a-z0-9-]+)$", text, re.M)


def rules_of(framework):
    text = (ROOT / "frameworks" / (framework + ".yaml")).read_text(encoding="utf-8")
    own = own_rules(framework)
    like = re.search(r"^like: (\S+)", text, re.M)
    replaced = re.search(r"^rules:", text, re.M)
    return own if own or replaced or not like else rules_of(like.group(1))


def line_numbers(row):
    return [int(number) for number in row["lines"].split()]


def table_faults(name, table, sources):
    known = set(rule_names()) | set(built_in_names()) | set(WORDS)
    counted, seen = {}, {}
    for at, row in enumerate(table, start=2):
        where = f"{name}.csv:{at}"
        lines = line_numbers(row)
        if row["covered_by"] not in known:
            yield f"{where}: '{row['covered_by']}' is neither a rule nor a built-in condition"
        if int(row["checks"]) != len(lines):
            yield f"{where}: {row['checks']} checks, {len(lines)} lines"
        for line in set(lines):
            if line in seen.setdefault(row["file"], set()) or lines.count(line) > 1:
                yield f"{where}: line {line} is there twice"
        seen[row["file"]].update(lines)
        counted[row["file"]] = counted.get(row["file"], 0) + len(lines)
    wanted = {s["file"]: int(s["checks"]) for s in sources if s["table"] == name and s["checks"] != "0"}
    for file in sorted(set(wanted) | set(counted)):
        if wanted.get(file) != counted.get(file):
            yield f"{name}.csv: {file} has {wanted.get(file)} checks, {counted.get(file)} are listed"


def framework_faults(tables, features):
    for path in sorted((ROOT / "frameworks").glob("*.yaml")):
        framework = path.stem
        listed = {row["rule"] for row in features if row["framework"] == framework}
        for table in TABLES_OF.get(framework, []):
            listed |= {row["covered_by"] for row in tables[table]}
        rules = rules_of(framework)
        for rule in own_rules(framework):  # those it takes from another are in the other's tables
            if rule not in listed:
                yield f"{framework}: rule {rule} is in no table"
        for table in TABLES_OF.get(framework, []):
            answered = {row["covered_by"] for row in tables[table]} & set(rule_names())
            for rule in sorted(answered - set(rules)):
                yield f"{table}.csv: {rule} covers checks, and {framework} does not have it"
    names = rule_names()
    for row in features:
        if row["rule"] not in names:
            yield f"features.csv: no rule {row['rule']}"
        elif row["rule"] not in rules_of(row["framework"]):
            yield f"features.csv: {row['framework']} has no rule {row['rule']}"


def summary(tables, sources):
    text = "| table | repository | checks | " + " | ".join(["rule", "built-in"] + WORDS) + " |\n"
    text += "|---|---|---:" + "|---:" * (len(WORDS) + 2) + "|\n"
    for name, table in tables.items():
        source = next(s for s in sources if s["table"] == name)
        counts = dict.fromkeys(["rule", "built-in"] + WORDS, 0)
        for row in table:
            word = row["covered_by"]
            key = word if word in WORDS else "built-in" if word.startswith("built-in") else "rule"
            counts[key] += int(row["checks"])
        at = source["commit"] + (f" ({source['date']})" if source["date"] else "")
        cells = " | ".join(str(count) for count in counts.values())
        text += f"| [{name}](legality/{name}.csv) | {source['repository']} {at} | {sum(counts.values())} | {cells} |\n"
    return text


def checks_of(text):
    """Line of every assert and of every raise of an error."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert):
            found.append(node.lineno)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = getattr(error, "id", getattr(error, "attr", ""))
            if "Error" in name or "Exception" in name:
                found.append(node.lineno)
    return sorted(found)


def source_faults(name, table, sources, root):
    for source in (s for s in sources if s["table"] == name):
        file = source["file"]
        found = checks_of((root / file).read_text(encoding="utf-8"))
        listed = sorted(line for row in table if row["file"] == file for line in line_numbers(row))
        if found != listed:
            yield f"{name}: {file}: not listed {sorted(set(found) - set(listed))}, gone {sorted(set(listed) - set(found))}"


def main(arguments):
    sources, features = rows(TABLES / "sources.csv"), rows(TABLES / "features.csv")
    tables = {name: rows(TABLES / (name + ".csv")) for name in dict.fromkeys(s["table"] for s in sources)}
    if arguments[:1] == ["--sources"]:
        faults = list(source_faults(arguments[1], tables[arguments[1]], sources, pathlib.Path(arguments[2])))
    else:
        faults = [f for name, table in tables.items() for f in table_faults(name, table, sources)]
        faults += framework_faults(tables, features)
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        shown, tail = rest.split(END)
        if arguments == ["--write"]:
            PAGE.write_text(head + BEGIN + summary(tables, sources) + END + tail, encoding="utf-8")
        elif shown != summary(tables, sources):
            faults.append("docs/legality.md: the summary is old: python3 tools/legality_tables.py --write")
    print("\n".join(faults) if faults else f"{sum(len(t) for t in tables.values())} rows, no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
