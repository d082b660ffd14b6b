#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documentation is what the program does.

A fenced block of kind `console` holds commands ("$ plansearch ...", continued by a backslash) and what
they print, on a screen of 100 columns; a line "..." stands for lines left out. A block whose info string
ends in file=NAME is written to NAME first. All blocks of a page share one folder, top to bottom.

What a page says ships ("57 clusters", "87 networks", "17 frameworks") is counted.

  python3 tests/docs/docs_test.py --binary build/fast/plansearch [README.md ...]
  python3 tests/docs/docs_test.py --binary build/fast/plansearch --update    # prints what is true now
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
ELLIPSIS = "..."
SHIPPED = {"clusters": "hw", "networks": "models", "frameworks": "frameworks"}
COUNTS = re.compile(r"\b(\d+) (clusters), (\d+) (networks), (\d+) (frameworks)\b")
PLACEHOLDER = re.compile(r"(?<![\w./-])[A-Z][A-Z_]*(?:\.\w+)?(?![\w.-])|[\[\]|<>]|\.\.\.|path/to|my[_-]|result\.json|runs\.csv --by")


class Block:
    """A fenced block: where it starts and ends in the page, its kind, its lines."""

    def __init__(self, start, info):
        self.start, self.info, self.lines = start, info, []

    @property
    def file(self):
        found = re.search(r"\bfile=(\S+)", self.info)
        return found.group(1) if found else None


def blocks_of(text):
    blocks, block = [], None
    for number, line in enumerate(text.splitlines()):
        if not line.startswith("```"):
            if block is not None:
                block.lines.append(line)
        elif block is None:
            block = Block(number + 1, line[3:].strip())
        else:
            blocks.append(block)
            block = None
    return blocks


def steps_of(lines):
    """[(the lines of a command, the lines it prints)]"""
    steps = []
    continued = False
    for line in lines:
        if continued or line.startswith("$ "):
            if continued:
                steps[-1][0].append(line)
            else:
                steps.append(([line], []))
            continued = line.endswith("\\")
        elif steps:
            steps[-1][1].append(line)
        elif line.strip():
            sys.exit(f"a console block begins with '{line}', not with a command")
    return steps


def matches(expected, printed):
    """`...` stands for any lines, at most once."""
    if ELLIPSIS not in expected:
        return expected == printed
    at = expected.index(ELLIPSIS)
    head, tail = expected[:at], expected[at + 1:]
    return (len(printed) >= len(head) + len(tail) and printed[:at] == head
            and (not tail or printed[-len(tail):] == tail))


def renewed(expected, printed):
    if ELLIPSIS not in expected:
        return printed
    at = expected.index(ELLIPSIS)
    tail = len(expected) - at - 1
    return printed[:at] + [ELLIPSIS] + (printed[-tail:] if tail else [])


class Page:
    ended_well = set()  # commands in the text of any page that read no file of its folder

    def __init__(self, path, binary):
        self.path = path
        self.name = path.relative_to(SOURCE)
        self.text = path.read_text()
        self.folder = tempfile.TemporaryDirectory(prefix="plansearch-docs-")
        folder = pathlib.Path(self.folder.name)
        (folder / "bin").mkdir()
        (folder / "bin" / "plansearch").symlink_to(binary)
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "validation").symlink_to(SOURCE / "validation")
        self.environment = dict(os.environ, COLUMNS="100", PATH=f"{folder}/bin:{os.environ['PATH']}",
                                PLANSEARCH_DATA=str(SOURCE))
        self.problems = []

    def run(self, command):
        result = subprocess.run(["bash", "-c", command], cwd=self.work, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                timeout=300, check=False)
        return result.returncode, [line.rstrip() for line in result.stdout.splitlines()]

    def run_console(self, block):
        lines = []
        for command, expected in steps_of(block.lines):
            script = "\n".join(command)[2:]
            _, printed = self.run(script)
            while expected and not expected[-1]:
                expected.pop()
            if not matches(expected, printed):
                shown = "\n".join(printed[:60])
                self.problems.append(f"{self.name}:{block.start}: $ {script}\n  prints now\n{shown}")
            lines += command + renewed(expected, printed)
        return lines

    def check(self):
        """Runs every block; the page as it should read."""
        page = self.text.splitlines()
        shift = 0
        for block in blocks_of(self.text):
            if block.file:
                path = self.work / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(block.lines) + "\n")
            if block.info.split(" ")[0] != "console":
                continue
            lines = self.run_console(block)
            start = block.start + shift
            page[start:start + len(block.lines)] = lines
            shift += len(lines) - len(block.lines)
        return self.check_counts("\n".join(page) + "\n")

    def check_counts(self, text):
        def counted(_):
            sizes = []
            for word, listed in SHIPPED.items():
                printed = self.run(f"plansearch list {listed} --format json")[1]
                sizes.append(f"{len(json.loads(''.join(printed)))} {word}")
            return ", ".join(sizes)

        renewed_text = COUNTS.sub(counted, text)
        if renewed_text != text:
            said = COUNTS.search(renewed_text).group(0)
            self.problems.append(f"{self.name}: what ships is now {said}")
        return renewed_text

    def check_seed(self, seed):
        headings = re.findall("^## .*", (SOURCE / "docs/reproduce.md").read_text(), re.M)
        if not any(f"`{seed}`" in heading for heading in headings):
            self.problems.append(f"{self.name}: plansearch reproduce {seed}: no such section in docs/reproduce.md")

    def check_inline(self):
        """Commands in running text and tables: whatever names no placeholder ends well."""
        outside = re.sub(r"^```.*?^```", "", self.text, flags=re.M | re.S)
        commands = re.findall(r"`(plansearch [^`]+)`", outside) + re.findall(r"^    (plansearch .+)$", outside, re.M)
        for command in sorted(set(commands)):
            if PLACEHOLDER.search(command.replace("\\|", "|")):
                continue
            if command.startswith("plansearch reproduce "):  # runs once, in tests/cli
                self.check_seed(command.split()[2])
                continue
            alone = not any((self.work / word).is_file() for word in command.split())
            if alone and command in Page.ended_well:
                continue
            code, printed = self.run(f"{command} > answer.txt")
            if code == 0 and alone:
                Page.ended_well.add(command)
            if code != 0:
                said = "\n".join(printed)
                self.problems.append(f"{self.name}: {command}: exit code {code}\n{said}")


def pages_of(names):
    if names:
        return [SOURCE / name for name in names]
    return [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("pages", nargs="*")
    arguments = parser.parse_args()
    problems = []
    for path in pages_of(arguments.pages):
        page = Page(path, pathlib.Path(arguments.binary).resolve())
        text = page.check()
        if arguments.update:
            page.problems.clear()
            if text != page.text:
                path.write_text(text)
                print(f"renewed {page.name}")
        page.check_inline()
        problems += page.problems
    print("\n\n".join(problems))
    if problems:
        sys.exit("the documentation is not what the program prints: correct one of them, or renew it with --update")


if __name__ == "__main__":
    main()
