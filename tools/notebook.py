#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the cells of a notebook in order and compares what they print with what it shows.

python3 tools/notebook.py docs/python.ipynb --package build/release/python [--update]

Cells tagged "pictures" are left out where matplotlib is missing, cells tagged "tables" without pandas.
"""

import argparse
import ast
import contextlib
import importlib.util
import io
import json
import pathlib
import sys

NEEDS = {"pictures": "matplotlib", "tables": "pandas"}


def run_cell(source, names):
    """Output of a cell, and the text of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        outputs.append({"data": {"text/plain": repr(value).splitlines(True)}, "execution_count": None, "metadata": {},
                        "output_type": "execute_result"})
    return outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=pathlib.Path)
    parser.add_argument("--package", required=True)
    parser.add_argument("--update", action="store_true")
    asked = parser.parse_args()
    if not list(pathlib.Path(asked.package).glob("plansearch/_core*.so")):
        print(f"skipped: {asked.package} has no module (-DPLANSEARCH_PYTHON=ON)")
        sys.exit(77)
    sys.path.insert(0, asked.package)
    notebook = json.loads(asked.notebook.read_text())
    names = {"__name__": "__main__"}
    wrong = 0
    for number, cell in enumerate(notebook["cells"], 1):
        missing = [NEEDS[tag] for tag in cell["metadata"].get("tags", []) if tag in NEEDS
                   and importlib.util.find_spec(NEEDS[tag]) is None]
        if cell["cell_type"] != "code" or missing:
            continue
        outputs = run_cell("".join(cell["source"]), names)
        if "pictures" in cell["metadata"].get("tags", []):
            outputs = []
        if outputs != cell["outputs"] and not asked.update:
            wrong += 1
            print(f"cell {number} shows\n{json.dumps(cell['outputs'], indent=1)}\nand answers\n{json.dumps(outputs, indent=1)}")
        cell["outputs"] = outputs
    if asked.update:
        asked.notebook.write_text(json.dumps(notebook, indent=1) + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
