# SPDX-License-Identifier: Apache-2.0
"""The part of JSON Schema that docs/schema uses, without dependencies."""

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "integer": lambda v: not isinstance(v, bool)
    and (isinstance(v, int) or (isinstance(v, float) and v.is_integer())),
}
KEYWORDS = {
    "$schema", "$id", "$ref", "$defs", "title", "description", "type", "const", "enum", "required",
    "properties", "additionalProperties", "items", "minimum", "maximum", "exclusiveMinimum", "oneOf",
}


class Mismatch(AssertionError):
    pass


def check(value, schema):
    """Raises Mismatch naming the place."""
    _check(value, schema, schema, "$")


def _fail(path, message):
    raise Mismatch(f"{path}: {message}")


def _check(value, schema, root, path):
    unknown = set(schema) - KEYWORDS
    if unknown:
        _fail(path, f"schema uses {unknown}, which this checker does not know")
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        _check(value, root["$defs"][name], root, path)
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(TYPES[name](value) for name in names):
            _fail(path, f"{value!r} is no {' or '.join(names)}")
    if "const" in schema and value != schema["const"]:
        _fail(path, f"{value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        _fail(path, f"{value!r} is none of {schema['enum']}")
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        _fail(path, f"{value} is below {schema['minimum']}")
    if "maximum" in schema and value is not None and value > schema["maximum"]:
        _fail(path, f"{value} is above {schema['maximum']}")
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        _fail(path, f"{value} is not above {schema['exclusiveMinimum']}")
    if "oneOf" in schema:
        _check_one(value, schema["oneOf"], root, path)
    if isinstance(value, dict):
        _check_object(value, schema, root, path)
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            _check(item, schema["items"], root, f"{path}[{i}]")


def _check_one(value, choices, root, path):
    matches = 0
    reason = None
    for choice in choices:
        try:
            _check(value, choice, root, path)
            matches += 1
        except Mismatch as mismatch:
            reason = mismatch
    if matches != 1:
        _fail(path, f"matches {matches} of the alternatives ({reason})")


def _check_object(value, schema, root, path):
    for key in schema.get("required", []):
        if key not in value:
            _fail(path, f"lacks {key}")
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key, item in value.items():
        if key in properties:
            _check(item, properties[key], root, f"{path}.{key}")
        elif others is False:
            _fail(path, f"has the unknown key {key}")
        elif isinstance(others, dict):
            _check(item, others, root, f"{path}.{key}")
