#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint of the tree: layers include only layers below them, files stay small, headers of cost,
schedule and search sources are complete, the licence line stands first. Exit 1 with one line each.

usage: check_layers.py [ROOT]
"""
import pathlib
import re
import sys

# Lower first; layers of one row are siblings that do not see each other.
ROWS = [
    ["base"],
    ["hardware", "workload"],
    ["plan"],
    ["cost"],
    ["schedule"],
    ["evaluate"],
    ["search", "report", "io"],
    ["studies"],
    ["cli"],
]
RANK = {layer: rank for rank, row in enumerate(ROWS) for layer in row}
HEADER_KEYS = ["Computes:", "Source:", "Assumes:", "Units:", "Checked by:"]
MOST_LINES = 500
INCLUDE = re.compile(r'#include "(?:plansearch/)?([a-z_]+)/')


def layer_of(path, root):
    parts = path.relative_to(root).parts
    if parts[0] == "search":
        return "search"
    if parts[0] == "src":
        return parts[1]
    return parts[2]  # include/plansearch/<layer>


def sources(root):
    for folder in ("include", "src", "search"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".hpp", ".cpp"):
                yield path


def faults(path, root):
    text = path.read_text()
    lines = text.splitlines()
    layer = layer_of(path, root)
    if not lines or "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
        yield 1, "the first line must be the licence identifier"
    if len(lines) > MOST_LINES:
        yield len(lines), f"{len(lines)} lines; split files above {MOST_LINES}"
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or match.group(1) not in RANK:
            continue
        used = match.group(1)
        if used != layer and RANK[used] >= RANK[layer]:
            yield number, f"layer {layer} must not include layer {used}"
    if path.suffix == ".cpp" and layer in ("cost", "schedule", "search"):
        head = "\n".join(lines[:16])
        for key in HEADER_KEYS:
            if key not in head:
                yield 1, f"the header comment lacks \"{key}\""


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    count = 0
    for path in sources(root):
        for line, message in faults(path, root):
            print(f"{path.relative_to(root)}:{line}: {message}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
