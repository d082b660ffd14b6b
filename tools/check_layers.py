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
    ["hardware", "workload", "framework", "schedule"],
    ["plan"],
    ["communication"],
    ["cost"],
    ["evaluate"],
    ["search", "report", "io"],
    ["studies"],
    ["cli"],
]
# The installed headers, flat in include/plansearch, by the layer that implements them.
PUBLIC = {
    "base": ["quantity", "error", "data_type", "provenance", "fixed_vector", "axis", "scope",
             "infeasible"],
    "hardware": ["cluster", "kernel_curves", "link_curves"],
    "workload": ["network", "model_description", "transformer_builder"],
    "framework": ["framework"],
    "schedule": ["schedule_id"],
    "plan": ["degree_set", "degrees", "device_mesh", "plan"],
    "communication": ["communication", "communication_kind"],
    "evaluate": ["evaluation", "problem", "evaluator", "plan_report"],
    "search": ["space", "search", "ranking"],
    "report": ["report"],
}
LAYER_OF_PUBLIC = {name: layer for layer, names in PUBLIC.items() for name in names}
RANK = {layer: rank for rank, row in enumerate(ROWS) for layer in row}
HEADER_KEYS = ["Computes:", "Source:", "Assumes:", "Units:", "Checked by:"]
MOST_LINES = 500
INCLUDE = re.compile(r'#include "([a-z_]+)/(?:[a-z_]+/)*([a-z_0-9]+)\.hpp"')


def layer_of(path, root):
    parts = path.relative_to(root).parts
    if parts[0] == "search":
        return "search"
    if parts[0] == "src":
        return parts[1]
    return LAYER_OF_PUBLIC.get(path.stem)  # include/plansearch/<name>.hpp


def used_layer(match):
    """The layer of an included header: its folder, or the table above for an installed one."""
    folder, name = match.groups()
    return LAYER_OF_PUBLIC.get(name) if folder == "plansearch" else folder


def sources(root):
    for folder in ("include", "src", "search"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".hpp", ".cpp"):
                yield path


def faults(path, root):
    text = path.read_text()
    lines = text.splitlines()
    layer = layer_of(path, root)
    if layer not in RANK:
        yield 1, "no layer: name the header in PUBLIC of tools/check_layers.py"
        return
    if not lines or "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
        yield 1, "the first line must be the licence identifier"
    if len(lines) > MOST_LINES:
        yield len(lines), f"{len(lines)} lines; split files above {MOST_LINES}"
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        used = used_layer(match) if match else None
        if used not in RANK:
            continue
        if path.parts[-3:-1] == ("include", "plansearch") and match.group(1) != "plansearch":
            yield number, "an installed header must not include a private one"
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
