#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types of the Python package's arguments, from the help of the command line.

python3 tools/python_settings.py --binary build/release/plansearch [--update]
"""

import argparse
import pathlib
import re
import subprocess
import sys

FILE = pathlib.Path(__file__).resolve().parent.parent / "python" / "plansearch" / "settings.pyi"
SAME_FOR_ALL = {"format", "out", "color", "quiet"}  # Python has objects instead
GROUPS = {"Question": "Settings", "Degrees of a plan": "Degrees", "Search": "Search", "Answer": "Search"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by tools/python_settings.py; a test compares it with the help of the command line.
from collections.abc import Sequence
from os import PathLike
from typing import TypedDict

Numbers = int | str | Sequence[int]
Words = str | Sequence[str]
File = str | PathLike[str]
'''
DOCS = {
    "Settings": "What is asked about.",
    "Degrees": "Of a plan; searches take lists, and ranges as text.",
    "Search": "A question with limits of its answer.",
}


def options(binary, command):
    """(group, flag, type, help) of every option."""
    text = subprocess.run([binary, command, "--help"], check=True, capture_output=True, text=True).stdout
    group = None
    entries = []
    for line in text.splitlines():
        if re.match(r"^\S.*:$", line):
            group = line[:-1]
        found = re.match(r"^  (?:-\w,)?--([\w-]+) ?(.*)$", line)
        if found:
            kind, _, help_text = found[2].partition("  ")
            entries.append([group, found[1], kind.strip(), help_text.strip()])
        elif entries and line.startswith("    ") and line.strip():
            wrapped_type = entries[-1][2].endswith("|") and not entries[-1][3]
            entries[-1][2 if wrapped_type else 3] += " " + line.strip()
    return entries


def python_type(kind):
    if not kind:
        return "bool"
    if "|" in kind and not re.fullmatch(r"[0-9|]+", kind):
        return "Words"
    return {"FILE": "File", "LIST": "Words", "MODEL": "File | Words", "HARDWARE": "File | Words",
            "FRAMEWORK": "File | Words", "N": "Numbers", "SECONDS": "float",
            "SHARE": "float", "COUNT": "float | str"}.get(kind, "Numbers" if "|" in kind else "Words")


def written(binary):
    classes = {"Settings": {}, "Degrees": {}, "Search": {}}
    for command in ("search", "predict", "explain"):
        for group, flag, kind, help_text in options(binary, command):
            if group in GROUPS and flag not in SAME_FOR_ALL:
                classes[GROUPS[group]].setdefault(flag, (kind, help_text.strip()))
    text = HEAD
    for name, fields in classes.items():
        bases = "Settings, Degrees" if name == "Search" else "TypedDict"
        text += f'\nclass {name}({bases}, total=False):\n    """{DOCS[name]}"""\n\n'
        for flag, (kind, help_text) in fields.items():
            words = f" ({kind.replace(' ', '')})" if "|" in kind else ""
            text += f"    {flag.replace('-', '_')}: {python_type(kind)}  # {help_text}{words}\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--update", action="store_true")
    asked = parser.parse_args()
    text = written(asked.binary)
    if asked.update:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit(f"{FILE} is not what the help says: python3 tools/python_settings.py --binary ... --update")


if __name__ == "__main__":
    main()
