#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A chip as if it had not been measured, calibrated from a few of its recorded times, against its shipped profile.

  python3 tools/left_out_chip.py BIN --chip h100-sxm5-80gb --cluster dgx-h100 --link nvlink4-switch --donor a100-sxm4-80gb --donor-link nvlink3-switch \\
      --matmul gemm.csv --attention attention.csv --collectives nccl.csv --runs runs.csv [--samples 100]

The chip's curves are taken out of a copy of the data; fractions of the donor stand in for what no table holds (attention
backward, passes over memory). `calibrate --backend replay` plays the tables back, `fit` makes a profile from the first samples
of their order, and `validate` predicts all of them, and measured runs on clusters of the chip, with the shipped curves, with
those of the donor alone, and with the calibrated ones.
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(binary, data, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, check=False,
                          env={**os.environ, "PLANSEARCH_DATA": str(data)})
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def copy_of_data(folder):
    for name in ("models", "frameworks", "validation"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "hardware_profiles", folder / "hardware_profiles")


def forget(folder, words):
    """The chip and its siblings, and whatever refers to them."""
    gone = set()
    for path in sorted(folder.glob("accelerators/*.yaml")) + sorted(folder.glob("links/*.yaml")):
        if any(word in path.stem for word in words):
            gone.add(path.stem)
            path.unlink()
    before = -1
    while before != len(gone):
        before = len(gone)
        for path in sorted(folder.rglob("*.yaml")):
            if path.stem != "defaults" and any(f": {name}\n" in path.read_text() for name in gone):
                gone.add(path.stem)
                path.unlink()
    defaults = folder / "defaults.yaml"
    text = defaults.read_text().splitlines()
    defaults.write_text("\n".join(line for line in text if not any(f"like: {name}}}" in line for name in gone)) + "\n")


def accelerator_file(data, chip):
    return data / "hardware_profiles" / "accelerators" / f"{chip}.yaml"


def change(path, new):
    """A file with some of its keys replaced, and their evidence left out."""
    content = yaml.safe_load(path.read_text())
    content.update(new)
    content["provenance"] = [entry for entry in content.get("provenance", [])
                             if not any(field.split(".")[0] in ("kernels", "concurrency", "curve") for field in entry["fields"])]
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def mean_error(binary, data, table, chip, only=None):
    rows = json.loads(run(binary, data, "validate", table, "--format", "json"))["rows"]
    names = [line.get("gpu", "") for line in csv.DictReader(open(table, newline=""))]
    errors = {}
    for row in rows:
        if row["measured_us"] is None or row["predicted_us"] is None or names[row["row"] - 2] not in chip:
            continue
        if only and not only(row):
            continue
        errors[row["row"]] = abs(row["predicted_us"] / row["measured_us"] - 1.0)
    return 100.0 * sum(errors.values()) / len(errors), len(errors)


def run_error(binary, data, table):
    rows = json.loads(run(binary, data, "validate", table, "--format", "json", "--min-mfu", "0.02"))["rows"]
    by_source = {}
    for row in rows:
        if row["measured_step_time_s"] is None or row["predicted_step_time_s"] is None:
            continue
        by_source.setdefault(row.get("site") or "", []).append(
            abs(row["predicted_step_time_s"] / row["measured_step_time_s"] - 1.0))
    means = [sum(errors) / len(errors) for errors in by_source.values()]
    return 100.0 * sum(means) / len(means), sum(map(len, by_source.values())), len(means)


def names_of(binary, table, chip):
    """How a table writes the chip."""
    known = set()
    for name in {line["gpu"] for line in csv.DictReader(open(table, newline=""))}:
        shown = subprocess.run([binary, "calibrate", "--backend", "replay", "--table", table, "--truth", name, "--dry-run"],
                               capture_output=True, text=True, check=False)
        if shown.returncode == 0 and name.lower().replace("_", "-").startswith(chip.split("-")[0]):
            known.add(name)
    return known


def formats(path, dtypes, out):
    """Only rows of these formats."""
    with open(path, newline="") as source, open(out, "w", newline="") as target:
        reader = csv.DictReader(source)
        writer = csv.DictWriter(target, reader.fieldnames)
        writer.writeheader()
        writer.writerows(row for row in reader if row.get("dtype", "bfloat16") in dtypes)
    return out


def calibrated(binary, data, arguments, work):
    samples = work / "samples.jsonl"
    run(binary, ROOT, "calibrate", "--backend", "replay", "--table", arguments.matmul, "--table", arguments.attention,
        "--table", arguments.collectives, "--truth", arguments.chip, "--out", samples)
    lines = [line for line in samples.read_text().splitlines() if '"skipped"' not in line]
    kept = lines[:arguments.samples + 1]
    passes = work / "passes.jsonl"
    # No table of passes over memory is at hand: the rate of the data sheet, as the donor reaches it.
    run(binary, data, "calibrate", "--backend", "synthetic", "--truth", arguments.cluster, "--only", "stream", "--quick",
        "--noise", "0", "--out", passes)
    kept += [line for line in passes.read_text().splitlines()[1:] if '"skipped"' not in line]
    few = work / "few.jsonl"
    few.write_text("\n".join(kept).replace(f'"{arguments.chip}"', '"left-out-chip"') + "\n")
    profile = work / "mine.yaml"
    strangers = work / "strangers"
    strangers.mkdir()
    copy_of_data(strangers)
    forget(strangers / "hardware_profiles", arguments.forget)
    for path in (strangers / "hardware_profiles").glob("*.yaml"):
        text = path.read_text()
        if path.stem != "defaults" and (f"accelerator: {arguments.donor}\n" not in text or "\nlike: " in text):
            path.unlink()
    report = run(binary, strangers, "fit", few, "--out", profile, "--quiet")
    if not profile.exists():
        sys.exit(report)
    return yaml.safe_load(profile.read_text()), report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    for name in ("chip", "cluster", "link", "donor", "donor-link", "matmul", "attention", "collectives"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--runs", action="append", default=[])
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--forget", action="append", default=[], help="siblings, by part of their names")
    arguments = parser.parse_args()
    binary = str(pathlib.Path(arguments.binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        arguments.matmul = formats(arguments.matmul, ("bfloat16", "bf16"), work / "matmul.csv")
        chips = names_of(binary, arguments.matmul, arguments.chip)
        datas = {"shipped": ROOT}
        for name in ("donor", "calibrated"):
            datas[name] = work / name
            datas[name].mkdir()
            copy_of_data(datas[name])
            change(accelerator_file(datas[name], arguments.chip), {"kernels": {"like": arguments.donor}})
            links = datas[name] / "hardware_profiles" / "links"
            own = yaml.safe_load((links / f"{arguments.link}.yaml").read_text())
            (links / f"{arguments.link}.yaml").write_text(yaml.safe_dump(
                {"schema": own["schema"], "name": own["name"], "like": arguments.donor_link,
                 "nominal_bandwidth": own["nominal_bandwidth"]}))
        profile, report = calibrated(binary, datas["donor"], arguments, work)
        print(report)
        kernels = {**profile["accelerator"]["kernels"], "like": arguments.donor}
        path = accelerator_file(datas["calibrated"], arguments.chip)
        sheet = yaml.safe_load(path.read_text())
        # Fractions are of the peaks that the samples gave.
        change(path, {"kernels": kernels, "peak": {**sheet["peak"], **profile["accelerator"]["peak"]},
                      "memory_bandwidth": profile["accelerator"]["memory_bandwidth"]})
        link = datas["calibrated"] / "hardware_profiles" / "links" / f"{arguments.link}.yaml"
        curve = {key: value for key, value in profile["tiers"][0]["link"].items() if key != "provenance"}
        name, bandwidth = (yaml.safe_load(link.read_text())[key] for key in ("name", "nominal_bandwidth"))
        link.write_text(yaml.safe_dump({"schema": "plansearch/link/v1", "name": name, "nominal_bandwidth": bandwidth, **curve}))
        print(f"{'':<28}" + "".join(f"{title:>12}" for title in datas))
        tables = {"matrix products": arguments.matmul, "attention, forward": arguments.attention,
                  "messages in a node": arguments.collectives}
        for title, table in tables.items():
            found = [mean_error(binary, data, table, chips) for data in datas.values()]
            print(f"{title + f' ({found[0][1]})':<28}" + "".join(f"{error:>10.1f} %" for error, _ in found))
        for table in arguments.runs:
            found = [run_error(binary, data, table) for data in datas.values()]
            print(f"{f'runs ({found[0][1]}, {found[0][2]} sites)':<28}" + "".join(f"{error:>10.1f} %" for error, *_ in found))


if __name__ == "__main__":
    main()
