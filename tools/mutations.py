#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts classic mistakes back into the sources, one at a time, and shows which test catches each.

    python3 tools/mutations.py --build build/check [--only NAME] [--first] [--write | --list | --check]

The working tree is never touched: the sources are copied to BUILD/mutations, configured there with
the compiler and flags of BUILD, and every mistake is compiled into that copy. A mistake that no
test notices, a text that is no longer in its file and a mistake that does not compile are failures.
The test that the table names is run first: all of them take a hundred times as long, and run where
that one passes. With --write, docs/mistakes.md gets the rows of the mistakes that were put back.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree

from mistakes import MISTAKES

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIED = ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "include", "search", "tests",
          "benchmarks", "tools", "models", "hardware_profiles", "frameworks", "constraints", "recipes", "docs", "validation")
KEPT_SETTINGS = ("CMAKE_BUILD_TYPE", "CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER",
                 "CMAKE_CXX_FLAGS", "CMAKE_CXX_FLAGS_DEBUG", "CMAKE_UNITY_BUILD", "CMAKE_UNITY_BUILD_BATCH_SIZE")
TESTS = ("plansearch_tests", "plansearch_reader_tests")
TIME_LIMIT_S = 600
# Damaged files take half of the tests' time and ask nothing of predictions.
LEFT_OUT = "*damage*,*cut off*,*mutated*"
TABLE = ROOT / "docs" / "mistakes.md"
TABLE_HEAD = """# Classic mistakes and the tests that catch them

Each of these edits (`tools/mistakes.py`) was put back into the sources and compiled; the test named here failed, where
several do one of them. Written by `tools/mutations.py --write`.

| mistake | file | caught by |
|---|---|---|
"""


class Failed(Exception):
    """A sentence about what could not be done."""


def copy_changed(source, target):
    """Copies a file, or a folder as it is now; unchanged files keep their time."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in source.iterdir()}
        for entry in target.iterdir():
            if entry.name not in names:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for entry in source.iterdir():
            copy_changed(entry, target / entry.name)
    elif not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copyfile(source, target)


def settings_of(build):
    cache = build / "CMakeCache.txt"
    if not cache.is_file():
        raise Failed(f"{build} is not a configured build; run: cmake --preset check")
    values = {}
    for line in cache.read_text().splitlines():
        key, colon, rest = line.partition(":")
        if colon and key in KEPT_SETTINGS:
            values[key] = rest.partition("=")[2]
    return [f"-D{key}={value}" for key, value in values.items() if value]


def run(command, limit=None):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=limit, check=False)


class Copy:
    """A copy of the tree with a build of its own, at the same depth so that ccache helps."""

    def __init__(self, build, jobs, first):
        self.tree = build / "mutations"
        self.build = self.tree / "build" / "check"
        self.jobs = jobs
        self.options = ["-aa=1"] if first else []
        for name in COPIED:
            if (ROOT / name).exists():
                self.tree.mkdir(parents=True, exist_ok=True)
                copy_changed(ROOT / name, self.tree / name)
        done = run(["cmake", "-G", "Ninja", "-S", str(self.tree), "-B", str(self.build),
                    "-DPLANSEARCH_BUILD_TESTS=ON", "-DPLANSEARCH_WERROR=OFF", *settings_of(build)])
        if done.returncode != 0:
            raise Failed("configuration failed:\n" + done.stdout[-2000:])

    def compile(self):
        done = run(["cmake", "--build", str(self.build), "--target", *TESTS, "-j", str(self.jobs)])
        return "" if done.returncode == 0 else done.stdout[-2000:]

    def failing_tests(self, named=""):
        """Names of the test cases that fail, of all or of those `named`, with `first` only one; a crash or a hang
        counts as one. Programs are run in turn."""
        chosen = ["-tc=" + named.replace("\\", "\\\\").replace(",", "\\,")] if named else ["-tce=" + LEFT_OUT]
        failing = []
        for name in TESTS:
            failing += self.failing_of(self.build / "tests" / name, chosen)
            if failing and self.options:
                break
        return failing

    def failing_of(self, binary, chosen):
        """The same of one program of tests."""
        try:
            done = subprocess.run([str(binary), "-r=xml", *chosen, *self.options], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return ["(the tests do not end)"]
        if done.returncode == 0:
            return []
        try:
            report = ElementTree.fromstring(done.stdout)
        except ElementTree.ParseError:
            return [f"(the tests end with {done.returncode})"]
        failing = []
        for case in report.iter("TestCase"):
            result = case.find("OverallResultsAsserts")
            if result is not None and result.get("test_case_success") == "false":
                failing.append(case.get("name"))
        return failing or [f"(the tests end with {done.returncode})"]

    def catching_tests(self, mutation, known):
        """The tests that fail with the mistake: the one that is `known` to, where it still does, or any of all."""
        if reason := stale(self.tree, mutation):
            raise Failed(reason)
        path = self.tree / mutation.file
        original = path.read_text()
        try:
            path.write_text(original.replace(mutation.old, mutation.new))
            problem = self.compile()
            if problem:
                raise Failed("does not compile:\n" + problem)
            return (self.failing_tests(known) if known else []) or self.failing_tests()
        finally:
            path.write_text(original)


def stale(root, mutation):
    """Why the edit cannot be made; "" when it can."""
    path = root / mutation.file
    count = path.read_text().count(mutation.old) if path.is_file() else 0
    return "" if count == 1 else (f"{mutation.name}: {mutation.file} holds the text {count} times; "
                                  "bring tools/mistakes.py up to date")


def rows_of_table():
    """{what is in the first column: line} of the table as it is."""
    lines = TABLE.read_text().splitlines() if TABLE.is_file() else []
    rows = [line for line in lines if line.startswith("| ") and "---" not in line]
    return {row.split(" | ")[0][2:]: row for row in rows[1:]}


def test_of(row):
    return row.rsplit(" | ", 1)[1][:-2] if row else ""


def write_table(caught):
    """`caught`: {name: test}; other rows stay, rows of mistakes that are no more go."""
    known = rows_of_table()
    with TABLE.open("w") as file:
        file.write(TABLE_HEAD)
        for mutation in MISTAKES:
            row = known.get(mutation.mistake)
            if mutation.name in caught:
                test = caught[mutation.name]
                row = f"| {mutation.mistake} | `{mutation.file}` | {test} |"
            if row:
                file.write(row + "\n")


def without_test():
    """Mistakes without a row in the table, and rows whose test is no more."""
    rows = rows_of_table()
    tests = " ".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.cpp")))
    tests = re.sub(r'"\s*"', "", tests)
    for mutation in MISTAKES:
        row = rows.get(mutation.mistake)
        test = test_of(row)
        if not row or f'"{test}"' not in tests:
            yield (f"{mutation.name}: docs/mistakes.md names no test that is there; run "
                   f"tools/mutations.py --write --only {mutation.name}")


def shown(mutation, catchers):
    lines = textwrap.wrap(mutation.mistake, 50)
    more = f" (+{len(catchers) - 1})" if len(catchers) > 1 else ""
    lines[0] = f"{mutation.name:25} {lines[0]:51} {catchers[0]}{more}"
    return "\n".join([lines[0]] + [" " * 26 + line for line in lines[1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "check",
                        help="configured build whose compiler and flags to use")
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", action="store_true", help="stop at the first test that fails")
    parser.add_argument("--list", action="store_true", help="print the mistakes and stop")
    parser.add_argument("--check", action="store_true",
                        help="only look whether the sources still hold the texts to change, and "
                             "whether the tests of docs/mistakes.md are there")
    parser.add_argument("--write", action="store_true", help="bring docs/mistakes.md up to date")
    arguments = parser.parse_args()
    chosen = [m for m in MISTAKES if not arguments.only or m.name in arguments.only]
    if arguments.list or not chosen:
        for mutation in MISTAKES:
            print(f"{mutation.name:25} {mutation.mistake}")
        return 0 if arguments.list else 2
    if arguments.check:
        reasons = [reason for reason in (stale(ROOT, mutation) for mutation in chosen) if reason]
        reasons += without_test()
        print("\n".join(reasons))
        return 1 if reasons else 0
    failures, caught = 0, {}
    try:
        copy = Copy(arguments.build.resolve(), arguments.jobs, arguments.first)
        problem = copy.compile() or ", ".join(copy.failing_tests())
        if problem:
            raise Failed("the unchanged sources are not green: " + problem)
    except Failed as reason:
        print(reason, file=sys.stderr)
        return 1
    rows = rows_of_table()
    for mutation in chosen:
        try:
            catchers = copy.catching_tests(mutation, test_of(rows.get(mutation.mistake)))
        except Failed as reason:
            catchers = []
            print(f"{mutation.name}: {reason}", file=sys.stderr)
        failures += not catchers
        if catchers:
            caught[mutation.name] = catchers[0]
        print(shown(mutation, catchers or ["NOT CAUGHT"]), flush=True)
        if arguments.write:
            write_table(caught)
    print(f"{len(chosen) - failures} of {len(chosen)} mistakes caught")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
