#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates every shipped hardware profile against docs/schema/profile.v1.schema.json.

Usage: check_profiles.py REPOSITORY. Exit 77 (skipped) without python3-jsonschema or python3-yaml.
"""
import json
import pathlib
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def main():
    root = pathlib.Path(sys.argv[1])
    schema = json.loads((root / "docs/schema/profile.v1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    wanted = {"plansearch/profile/v1": "cluster", "plansearch/accelerator/v1": "accelerator",
              "plansearch/link/v1": "link", "plansearch/fabric/v1": "fabric"}
    failures = 0
    files = sorted([*(root / "hardware_profiles").rglob("*.yaml"),
                    *(root / "validation/reproduce").glob("*.yaml")])
    for path in files:
        if path.name == "defaults.yaml":
            continue
        data = yaml.safe_load(path.read_text())
        if data["schema"] not in wanted:
            continue
        part = dict(schema)
        del part["oneOf"]
        part["$ref"] = "#/$defs/" + wanted[data["schema"]]
        for error in jsonschema.Draft202012Validator(part).iter_errors(data):
            failures += 1
            print(f"{path}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}")
    print(f"{len(files)} files, {failures} failures")
    return 1 if failures or len(files) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
