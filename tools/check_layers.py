#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint of the tree: layers include only layers below them, files do not call each other in a circle,
files and functions stay small, headers of sources that compute something are complete, no two types have
one name, the licence line stands first. Exit 1, one line each.

usage: check_layers.py [ROOT]
"""
import functools
import pathlib
import re
import sys

from functions import functions, without_text

# Lower first; layers of one row are siblings that do not see each other.
ROWS = [
    ["base"],
    ["hardware", "workload", "framework", "schedule"],
    ["plan"],
    ["communication"],
    ["cost"],
    ["evaluate"],
    ["partition"],
    ["search", "report", "io"],
    ["exporters"],
    ["question"],
    ["answer"],
    ["cli"],
    ["exchange", "evidence", "absent"],
    ["measure"],
    ["python"],
]
# Layers above `cli` are wings: the core includes none of them, and of another wing its one header alone.
WINGS = ("exchange", "evidence", "measure")
# The installed headers, flat in include/plansearch, by the layer that implements them.
PUBLIC = {
    "base": ["quantity", "error", "data_type", "provenance", "fixed_vector", "axis", "stop_token",
             "infeasible", "implementation", "operator_passes", "concurrency", "site",
             "layer_module", "dispatcher", "layer_list", "named_kernels"],
    "hardware": ["cluster", "kernel_curves", "link_curves"],
    "workload": ["network", "model_description", "transformer_builder"],
    "framework": ["chip_software", "framework", "framework_constants"],
    "schedule": ["schedule_id"],
    "plan": ["degree_table", "degrees", "device_mesh",
             "placements", "plan", "plan_stages", "problem_request", "setting_table",
             "switch_priors"],
    "communication": ["communication", "communication_kind"],
    "evaluate": ["evaluation", "problem", "evaluator", "plan_report"],
    "search": ["space", "search"],
    "report": ["report"],
    "question": ["shipped_data", "load_problem"],
    "answer": ["plansearch"],
}
LAYER_OF_PUBLIC = {name: layer for layer, names in PUBLIC.items() for name in names}
RANK = {layer: rank for rank, row in enumerate(ROWS) for layer in row}
HEADER_KEYS = ["Computes:", "Source:", "Assumes:", "Units:", "Checked by:"]
HEADED = ("communication", "cost", "schedule")  # files of other layers only where they hold an equation
MOST_LINES = 500
MOST_LINES_OF_FUNCTION = 59
NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{[^}]*$")
TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?) (\w[\w:]*)(?: final)?(?: : [^;{]*)? \{")
INCLUDE = re.compile(r'#include "([a-z_]+)/(?:[a-z_]+/)*([a-z_0-9]+)\.hpp"')
INCLUDED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
SHOWN = re.compile(r"^(?!using|typedef|return)[\[\w][^=;(\n]*?[ *&](\w+)\(", re.MULTILINE)  # at namespace scope
CALLED = re.compile(r"(?<![.>\w])(\w+)(?:<[^<>;(]*>)?\(")
# To be cut; none may be added.
KNOWN_CIRCLES = [
    ("src/communication/derive/placement.cpp", "src/communication/slices/block_index.cpp"),
    ("src/communication/redistribution/redistribution.cpp", "src/communication/redistribution/redistribution_search.cpp"),
    ("src/evaluate/memory/memory_model.cpp", "src/evaluate/step/windowed_step.cpp"),
]
KIND = re.compile(r"\bOperatorKind::\w")
ALGORITHM = re.compile(r"\bstd::ranges::(?!less|greater|equal_to)(\w+)")


def layer_of(path, root):
    parts = path.relative_to(root).parts
    if parts[0] in ("search", "python"):
        return parts[0]
    if parts[0] == "src":
        return parts[1]
    return LAYER_OF_PUBLIC.get(path.stem)  # include/plansearch/<name>.hpp


def used_layer(match):
    """The layer of an included header: its folder, or the table above for an installed one."""
    folder, name = match.groups()
    return LAYER_OF_PUBLIC.get(name) if folder == "plansearch" else folder


def long_functions(text):
    for first, last in functions(text):
        if last - first >= MOST_LINES_OF_FUNCTION:
            yield first, (f"a function of {last - first + 1} lines; split those above "
                          f"{MOST_LINES_OF_FUNCTION}")


def tests(root):
    for folder in ("tests", "benchmarks"):
        yield from sorted((root / folder).rglob("*.?pp"))


def sources(root):
    for folder in ("include", "src", "search", "python"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".hpp", ".cpp"):
                yield path


@functools.cache
def algorithms_of_the_page(root):
    """Names that web/standard.hpp defines for the library of preset `web`, which has no algorithm on ranges."""
    header = root / "web" / "standard.hpp"
    return set(re.findall(r"(?:WITH_\w+\(|constexpr (?:auto|void|bool|I|Found) )(\w+)", header.read_text())) if header.exists() else set()


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
        if layer != "workload" and KIND.search(line):
            yield number, "a kind of operator by name; ask its row (workload/operator_traits.hpp)"
        if layer != "base" and "EMSCRIPTEN" in line:
            yield number, "the page runs the same program; differences of its platform belong into base"
        for name in ALGORITHM.findall(line):
            if layer not in (*WINGS, "python") and name not in algorithms_of_the_page(root):
                yield number, f"the page's library has no std::ranges::{name}: add it to web/standard.hpp"
        match = INCLUDE.match(line)
        used = used_layer(match) if match else None
        if used not in RANK:
            continue
        if path.parts[-3:-1] == ("include", "plansearch") and match.group(1) != "plansearch":
            yield number, "an installed header must not include a private one"
        if used in WINGS and used != layer and match.group(0) != f'#include "{used}/{used}.hpp"':
            yield number, f"wing {used} shows others {used}/{used}.hpp alone"
        if used != layer and RANK[used] >= RANK[layer]:
            yield number, f"layer {layer} must not include layer {used}"
    yield from long_functions(text)
    head = "\n".join(lines[:16])
    if path.suffix == ".cpp" and ("// Computes:" in head or layer in HEADED):
        for key in HEADER_KEYS:
            if key not in head:
                yield 1, f"the header comment lacks \"{key}\""


def named_types(text):
    """Types of named namespaces, with their line. Those of unnamed ones are each file's own."""
    namespaces = []
    for number, line in enumerate(text.splitlines(), 1):
        if opened := NAMESPACE.match(line):
            namespaces.append(opened.group(1))
        elif line.startswith("}  // namespace") and namespaces:
            namespaces.pop()
        elif (found := TYPE.match(line)) and "" not in namespaces:
            yield number, "::".join([*namespaces, found.group(1)])


def shared_names(root):
    """Two types of one name are one type to the linker (the one-definition rule)."""
    first = {}
    for path in [*sources(root), *tests(root)]:
        for line, name in named_types(path.read_text()):
            if name in first:
                yield path, line, f"{name} is also the name of a type in {first[name]}"
            first.setdefault(name, path.relative_to(root))


def rooms(root):
    """{room: {file: text}}: a source and the header of its name, wherever that is installed, are one room."""
    files = {path.relative_to(root).as_posix(): path.read_text() for path in sources(root)}
    room = {name: name for name in files}
    for name, text in files.items():
        for header in included(text, files) if name.endswith(".cpp") else ():
            if header.endswith(f"/{pathlib.PurePath(name).stem}.hpp"):
                room[header] = name
    found = {}
    for name, text in files.items():
        found.setdefault(room[name], {})[name] = text
    return found


def included(text, files):
    return [name for word in INCLUDED.findall(text) for name in (f"src/{word}", f"include/{word}", word) if name in files]


def uses(root):
    """{room: {room: names}}: rooms whose headers a room includes, and the functions that it calls there."""
    found = rooms(root)
    room_of = {name: room for room, files in found.items() for name in files}
    shown, called = {}, {}
    for room, files in found.items():
        texts = {name: without_text(text) for name, text in files.items()}
        shown[room] = {match for name, text in texts.items() if name.endswith(".hpp") for match in SHOWN.findall(text)}
        called[room] = {match for text in texts.values() for match in CALLED.findall(text)}
    used = {}
    for room, files in found.items():
        for other in {room_of[name] for text in files.values() for name in included(text, room_of)} - {room}:
            names = (shown[other] - shown[room]) & called[room]
            if names:
                used.setdefault(room, {})[other] = names
    return used


def circles(root):
    """Rooms that call functions of each other in a circle: [(room, room, ...)], each once."""
    used = uses(root)
    found = {}
    for start in sorted(used):
        before, queue = {start: None}, [start]
        for room in queue:  # breadth first: the shortest circle through the start
            if start in used.get(room, ()):
                circle = [room]
                while before[circle[-1]] is not None:
                    circle.append(before[circle[-1]])
                found.setdefault(frozenset(circle), tuple(reversed(circle)))
                break
            for other in used.get(room, ()):
                if other not in before:
                    before[other] = room
                    queue.append(other)
    for circle in found.values():
        if circle not in KNOWN_CIRCLES:
            ways = [f"{room} takes {', '.join(sorted(used[room][other]))} from {other}"
                    for room, other in zip(circle, circle[1:] + circle[:1])]
            yield root / circle[0], 1, "a circle of calls: " + "; ".join(ways)
    for circle in KNOWN_CIRCLES:
        if (root / circle[0]).exists() and circle not in found.values():
            yield root / circle[0], 1, "this circle is cut: strike it from KNOWN_CIRCLES of tools/check_layers.py"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    count = 0
    for path in sources(root):
        for line, message in faults(path, root):
            print(f"{path.relative_to(root)}:{line}: {message}")
            count += 1
    for path in tests(root):
        for line, message in long_functions(path.read_text()):
            print(f"{path.relative_to(root)}:{line}: {message}")
            count += 1
    for path, line, message in [*circles(root), *shared_names(root)]:
        print(f"{path.relative_to(root)}:{line}: {message}")
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
