#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates the shipped frameworks and the examples in the documentation against their JSON Schemas.

Usage: check_frameworks.py REPOSITORY. Exit 77 (skipped) without python3-jsonschema or python3-yaml.
"""
import json
import pathlib
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def check(schema, what, data):
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(data))
    for error in errors:
        print(f"{what}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}")
    return len(errors)


def main():
    root = pathlib.Path(sys.argv[1])
    failures = 0
    files = 0
    for kind, page in (("framework", "frameworks.md"), ("plan", "plan_format.md"), ("export", "export.md")):
        schema = json.loads((root / f"docs/schema/{kind}.v1.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        examples = re.findall(r"```yaml\n(.*?)```", (root / "docs" / page).read_text(), re.S)
        for example in examples:
            failures += check(schema, page, yaml.safe_load(example))
        folder = {"framework": "frameworks", "export": "frameworks/export"}.get(kind)
        if folder:
            for path in sorted((root / folder).glob("*.yaml")):
                files += 1
                failures += check(schema, path, yaml.safe_load(path.read_text()))
        broken = {"schema": f"plansearch/{kind}/v1", "name": "x", "colour": "red"}
        failures += not list(jsonschema.Draft202012Validator(schema).iter_errors(broken))
    print(f"{files} files, {failures} failures")
    return 1 if failures or files < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
