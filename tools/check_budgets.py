#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the size of the project against tools/budget_lines.txt: lines and files by part and folder, walks
(tools/walks.py), words of the front pages, comments without a subject, CPU seconds of the last .ci/run.
Exit 1 where a figure is above its budget, one line each.

usage: check_budgets.py [--show] [ROOT]
"""
import configparser
import fnmatch
import pathlib
import re
import sys

import walks

FIRST = "src, include and search"
COUNTED = ("include", "search", "src")
COMMENT = re.compile(r"^[^\n\"]*?//[/<]*\s*(\w+)")


def read_budgets(root):
    """{section: {name: text}} and the budget of the first line."""
    first, rest = (root / "tools" / "budget_lines.txt").read_text().split("\n", 1)
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str
    parser.read_string(rest)
    return int(first), parser


def sources(root):
    """{path: text} of all C++ files that count."""
    return {path.relative_to(root).as_posix(): path.read_text() for folder in (*COUNTED, "python")
            for path in sorted((root / folder).rglob("*")) if path.suffix in (".hpp", ".cpp")}


def part_of(path, parts):
    """The part with the longest folder or pattern that the path fits."""
    fits = [(len(pattern), part) for part, patterns in parts.items() for pattern in patterns.split()
            if path.startswith(pattern + "/") or fnmatch.fnmatch(path, pattern)]
    return max(fits)[1]


def folder_of(path):
    """src/plan of src/plan/degrees/a.cpp, search of search/space/a.cpp."""
    names = path.split("/")
    return "/".join(names[:2]) if names[0] == "src" else names[0]


def sums(files, key):
    """{key: (lines, files)}"""
    found = {}
    for path, text in files.items():
        lines, count = found.get(key(path), (0, 0))
        found[key(path)] = lines + text.count("\n"), count + 1
    return dict(sorted(found.items()))


def first_words(files):
    """How many comments begin with each word; a comment of several lines begins in its first."""
    counts = {}
    for text in files.values():
        continued = False
        for line in text.splitlines():
            own = line.lstrip().startswith("//")
            found = COMMENT.match(line)
            if found and not (own and continued):
                counts[found[1]] = counts.get(found[1], 0) + 1
            continued = own
    return counts


def cpu_seconds(root):
    """{"build": seconds, "suite": seconds} of the last .ci/run, empty where there was none."""
    path = root / "build" / "ci_seconds.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: float(value) for name, value in (line.split() for line in lines)}


def figures(root, budgets):
    """[(section, name, figure)] of today; section "" is the first line."""
    files = sources(root)
    parts = sums(files, lambda path: part_of(path, budgets["parts"]))
    folders = sums(files, folder_of)
    yield "", FIRST, sum(text.count("\n") for path, text in files.items() if path.split("/")[0] in COUNTED)
    for number, section in enumerate(("lines", "files")):
        yield from ((section, name, figure[number]) for name, figure in parts.items())
        yield from ((f"folder {section}", name, figure[number]) for name, figure in folders.items())
    house = walks.House(root)
    for road in budgets["stays"]:
        yield "stays", road, walks.Walk(house, *walks.start(house, road)).figures()["stays"]
    for page in budgets["words"]:
        yield "words", page, len((root / page).read_text().split())
    counts = first_words(files)
    yield from (("comments", word, counts.get(word, 0)) for word in budgets["comments"])
    yield from (("cpu seconds", name, round(value)) for name, value in cpu_seconds(root).items())


def show(root, budgets):
    """The file with the figures of today in place of the budgets, and with all parts and folders."""
    found = list(figures(root, budgets))
    lines = [str(found[0][2])]
    section, missing = None, {}
    for line in (root / "tools" / "budget_lines.txt").read_text().splitlines()[1:] + ["["]:
        name = line.split(" = ")[0]
        if line.startswith("["):
            while lines[-1] == "" and missing:
                lines.pop()
            ended = len(missing) > 0
            lines += [f"{name} = {figure}" for name, figure in missing.items()] + [""] * ended
            section = line.strip("[]")
            missing = {name: figure for kind, name, figure in found if kind == section}
        lines.append(f"{name} = {missing.pop(name)}" if name in missing else line)
    return "\n".join(lines[:-1]).rstrip()


def faults(root, first, budgets):
    for section, name, figure in figures(root, budgets):
        if section and name not in budgets[section]:
            if section.endswith("lines"):
                yield f"{name}: {figure} lines without a budget; add one to [{section}] (tools/budget_lines.txt)"
            continue
        budget = int(budgets[section][name]) if section else first
        if figure > budget:
            unit = (section or "lines").removeprefix("folder ")
            yield (f"{name}: {figure} {unit}, the budget is {budget}; "
                   "make it less, or raise it in the commit, with a reason (tools/budget_lines.txt)")


def main():
    words = [word for word in sys.argv[1:] if word != "--show"]
    root = pathlib.Path(words[0] if words else pathlib.Path(__file__).parent.parent).resolve()
    first, budgets = read_budgets(root)
    found = [show(root, budgets)] if "--show" in sys.argv else list(faults(root, first, budgets))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found and "--show" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
