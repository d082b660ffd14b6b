#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual page, from the help of the program and of each command.

python3 tools/man_page.py --binary build/release/plansearch [--update]
"""

import argparse
import pathlib
import re
import subprocess
import sys

FILE = pathlib.Path(__file__).resolve().parent.parent / "packaging" / "man" / "plansearch.1"
EXIT_CODES = (("0", "there is an answer"), ("1", "a mistake of the program itself"), ("2", "wrong input"),
              ("3", "no plan fits; the answer says what would help"), ("4", "the target cannot express the plan"),
              ("130", "interrupted; the best so far was printed"))


def help_of(binary, *command):
    return subprocess.run([binary, *command, "--help"], check=True, capture_output=True, text=True).stdout


def escaped(text):
    """Plain text for troff: no line may start a request, dashes are dashes."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def sections(text):
    """{heading: [(term, words)]} of a help text; wrapped lines are joined."""
    found, heading = {}, None
    for line in text.splitlines():
        if re.match(r"^[A-Z].*:$", line):
            heading = found.setdefault(line[:-1], [])
        elif not line.startswith(" ") or heading is None:
            heading = None if line.strip() else heading
        elif re.match(r"^  \S", line):
            term, _, words = line.strip().partition("  ")
            heading.append([term, words.strip()])
        elif heading:
            part = 0 if heading[-1][0].endswith("|") and not heading[-1][1] else 1
            heading[-1][part] = f"{heading[-1][part]} {line.strip()}".strip()
    return found


def listed(rows):
    return "".join(f".TP\n.B {escaped(term)}\n{escaped(words)}\n" for term, words in rows)


def written(binary):
    whole = help_of(binary)
    version = subprocess.run([binary, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    about = " ".join(whole.partition("\n\n")[0].split())
    parts = sections(whole)
    commands = next(rows for name, rows in parts.items() if "ommands" in name)
    text = f'.\\" Written by tools/man_page.py\n.TH PLANSEARCH 1 "" "plansearch {version}" "User Commands"\n'
    text += ".SH NAME\nplansearch \\- which parallel plan to train a large network with\n"
    text += ".SH SYNOPSIS\n.B plansearch\n[\\fICOMMAND\\fR] [\\fIOPTIONS\\fR]\n"
    text += f".SH DESCRIPTION\n{escaped(about)}\n.SH COMMANDS\n{listed(commands)}"
    shared = set()
    for name, rows in parts.items():
        if "ommands" in name or name in ("Options", "Usage"):
            continue
        text += f".SH {escaped(name.upper())}\n{listed(rows)}"
        shared.update(term for term, _ in rows)
    for command, _ in commands:
        name = command.split()[0]
        own = [row for heading, rows in sections(help_of(binary, name)).items() for row in rows
               if row[0] not in shared and not row[0].startswith("-h,")]
        if own:
            text += f".SH OPTIONS OF {name.upper()}\n{listed(own)}"
    text += f".SH EXIT STATUS\n{listed(EXIT_CODES)}"
    text += ".SH ENVIRONMENT\n" + listed((("PLANSEARCH_DATA", "folder of hardware profiles, models and frameworks"),
                                           ("COLUMNS", "characters to a line of the answer"),
                                           ("NO_COLOR", "no colours")))
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
        sys.exit(f"{FILE} is not what the help says: python3 tools/man_page.py --binary ... --update")


if __name__ == "__main__":
    main()
