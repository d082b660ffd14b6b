# SPDX-License-Identifier: Apache-2.0
"""Lists the constants of the data files that were fitted to measurements, with their sources.

  fitted_constants.collect(root) -> [Constant]: evidence is `measured`, or the source says "fit"
"""
import dataclasses
import pathlib
import re

import plain_yaml

FOLDERS = ("frameworks", "hardware_profiles/accelerators", "hardware_profiles/links",
           "hardware_profiles/fabrics", "hardware_profiles")
NOT_CONSTANTS = {"schema", "name", "aliases", "description", "provenance", "residual", "like"}


@dataclasses.dataclass
class Constant:
    file: str
    key: str
    value: str
    source: str
    residual: str


def scalars(value, path):
    """(path, text) of every scalar below a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in NOT_CONSTANTS:
                yield from scalars(inner, path + [key])
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from scalars(inner, path + [str(place)])
    elif value is not None:
        yield path, value


def at(document, path):
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document


def residual_of(document, path):
    """The nearest `residual` above a constant: quantiles of log(measured / predicted)."""
    for length in range(len(path), -1, -1):
        value = at(document, path[:length])
        if isinstance(value, dict) and isinstance(value.get("residual"), dict):
            r = value["residual"]
            return f"p10 {r.get('p10', '-')}, p90 {r.get('p90', '-')}"
    return ""


def fields(document, name):
    """The part of a document that a provenance field speaks of; `curve` is all its numbers."""
    if name == "curve":
        return [(path, text) for path, text in scalars(document, []) if re.match(r"[-+.\d]", text)]
    path = name.split(".")
    value = at(document, path)
    return [] if value is None else list(scalars(value, path))


def from_document(file, document, prefix=()):
    found = {}
    for entry in document.get("provenance") or []:
        source = entry.get("source", "")
        if entry.get("evidence") != "measured" and not re.search(r"\bfit(ted)?\b", source):
            continue
        for name in entry.get("fields", []):
            for path, text in fields(document, name):
                key = ".".join([*prefix, *path])
                found[key] = Constant(file, key, text, source, residual_of(document, path))
    return list(found.values())


def collect(root):
    constants = []
    for folder in FOLDERS:
        for path in sorted((pathlib.Path(root) / folder).glob("*.yaml")):
            document = plain_yaml.load(path.read_text(encoding="utf-8"))
            name = str(path.relative_to(root))
            constants += from_document(name, document)
            for place, tier in enumerate(document.get("tiers") or []):
                constants += from_document(name, tier, ("tiers", str(place)))
    return constants
