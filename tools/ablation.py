#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Worth of each mechanism: neutralises one at a time and predicts the measured runs again.

  tools/ablation.py --binary build/release/plansearch --table runs.csv [--table ...]
                    [--suspect suspect.csv] [--out validation/ablation.json]

A mechanism is switched off through data alone, in a temporary copy of the data directory, so what
runs is the program that ships. Constants are not refitted to the crippled data: other constants
could take over a part of a mechanism, and these figures say nothing about that. Only the standard
library is needed.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ("hardware_profiles", "models", "frameworks", "validation")
FRAMEWORKS, ACCELERATORS, FABRICS = "frameworks", "hardware_profiles/accelerators", \
    "hardware_profiles/fabrics"
OVERLAPS = ("gradient_reduction", "parameter_gather", "pipeline_send", "tensor_parallel",
            "context_ring", "expert_all_to_all")

#: (name, [(folder, key, new value or None to drop the line)])
MECHANISMS = (
    ("CPU cost of launches and steps", [(FRAMEWORKS, "host_launch", "0 us"),
                                        (FRAMEWORKS, "host_step", "0 ms"),
                                        (FRAMEWORKS, "host_parameter", "0 us"),
                                        (FRAMEWORKS, "expert_launch", "0 us")]),
    ("CPU cost and skew of collectives", [(FRAMEWORKS, "collective_call", "0 us"),
                                          (FRAMEWORKS, "collective_rank", "0 us"),
                                          (FRAMEWORKS, "collective_skew", "0 us"),
                                          (FRAMEWORKS, "collective_skew_across_nodes", "0 us")]),
    ("all overlap of communication", [(FRAMEWORKS, key, "0") for key in OVERLAPS]),
    ("limits of overlap (all is perfect)", [(FRAMEWORKS, key, "1.0") for key in OVERLAPS]),
    ("contention of overlapped work", [(FRAMEWORKS, "contention_" + key, "0") for key in OVERLAPS]),
    ("how memory-bound operators run (all fused)", [(FRAMEWORKS, "all", "fused"),
                                                    (FRAMEWORKS, "gated_activation", "fused"),
                                                    (FRAMEWORKS, "loss", "fused")]),
    ("traffic of gradient accumulation", [(FRAMEWORKS, "accumulation_bytes", "0")]),
    ("excess of the optimizer step", [(FRAMEWORKS, "optimizer_factor", "1.0")]),
    ("attention kernel of the framework", [(FRAMEWORKS, "attention_kernel", None),
                                           (FRAMEWORKS, "attention_factor", "1.0")]),
    ("layers by the framework's rule (even)", [(FRAMEWORKS, "layers", "even")]),
    ("network efficiency inside steps", [(FABRICS, "step_nic_efficiency", None),
                                         (FABRICS, "rail_efficiency", None)]),
    ("loss of bandwidth with nodes", [(FABRICS, "efficiency_decay", "0")]),
    ("latency of collectives between nodes", [(FABRICS, "hop", "0 us"),
                                              (FABRICS, "hop_low_latency", "0 us"),
                                              (FABRICS, "ring_step", "0 us")]),
    ("tiles and waves of matrix kernels", [(ACCELERATORS, "wave_quantisation", "0"),
                                           (ACCELERATORS, "tile_penalty", "0"),
                                           (ACCELERATORS, "prologue_depth", "0")]),
    ("clocks that fall under load", [(ACCELERATORS, "power_droop", "0")]),
)


def edit(root, folder, key, value):
    """Sets, or drops, every scalar of that name; the number of lines changed."""
    old = r"[-+.\d][^#\n]*?" if value and value[0].isdigit() else r"[^\s#{\[][^#\n]*?"
    pattern = re.compile(rf"^(\s*{re.escape(key)}:[ \t]+)({old})([ \t]*(#[^\n]*)?)$", re.M)
    changed = 0
    for path in sorted((root / folder).glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if value is None:
            text, count = re.subn(pattern.pattern + r"\n", "", text, flags=re.M)
        else:
            text, count = pattern.subn(lambda match: match.group(1) + value + match.group(3), text)
        if count:
            if value is None:  # provenance may not speak of what is not there
                text = re.sub(r"(, )?\b(constants\.)?" + re.escape(key) + r"\b(?=[,\]])", "", text)
                text = text.replace("[, ", "[")
            path.write_text(text, encoding="utf-8")
            changed += count
    return changed


def errors(args, root):
    """{source: (rows, mean error)} of the tables; '' holds all rows."""
    sums = {}
    suspects = ["--suspect", args.suspect] if args.suspect else []
    for table in args.table:
        command = [args.binary, "validate", table, "--site", "tuned", "--format", "json", "--quiet",
                   *suspects]
        done = subprocess.run(command, env=dict(os.environ, PLANSEARCH_DATA=str(root)),
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        for row in json.loads(done.stdout)["rows"]:
            measured, predicted = row["measured_step_time_s"], row["predicted_step_time_s"]
            if measured is None or predicted is None or row["failed"] or row["suspect"]:
                continue
            error = abs(predicted / measured - 1)
            for name in ("", row["source"] or "unknown"):
                count, total = sums.get(name, (0, 0.0))
                sums[name] = (count + 1, total + error)
    return {name: (count, total / count) for name, (count, total) in sums.items()}


def copy_data(target):
    for name in DATA:
        shutil.copytree(ROOT / name, target / name)


def short(source):
    for part, name in (("single-node", "vTrain, one node"), ("multi-node", "vTrain, several nodes"),
                       ("llm-foundry", "llm-foundry"), ("nanotron", "nanotron"),
                       ("Megatron-Bridge", "Megatron-Bridge"), ("MLPerf", "MLPerf"),
                       ("Korthikanti", "Korthikanti"), ("Jean Zay", "Jean Zay"), ("", "others")):
        if part in source:
            return name
    return source


def merged(by_source):
    """Sources of one kind together; all rows first."""
    sums = {}
    for source, (rows, mean) in by_source.items():
        name = "all" if source == "" else short(source)
        count, total = sums.get(name, (0, 0.0))
        sums[name] = (count + rows, total + rows * mean)
    order = sorted(sums, key=lambda name: (name != "all", name == "others", -sums[name][0]))
    return {name: sums[name][1] / sums[name][0] for name in order}, \
        {name: sums[name][0] for name in order}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--table", required=True, action="append")
    parser.add_argument("--suspect")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "validation/ablation.json")
    args = parser.parse_args()
    baseline, rows = merged(errors(args, ROOT))
    entries = []
    for name, edits in MECHANISMS:
        with tempfile.TemporaryDirectory(prefix="plansearch-ablation-") as directory:
            root = pathlib.Path(directory)
            copy_data(root)
            changed = sum(edit(root, *change) for change in edits)
            if changed == 0:
                sys.exit(f"{name}: no such constant in the data files")
            found, left = merged(errors(args, root))
        lost = rows["all"] - left["all"]
        if lost:
            name += f"; {lost} runs become illegal"
        entries.append({"name": name, "errors": {k: round(v, 5) for k, v in found.items()},
                        "edits": [f"{key}: {'removed' if value is None else value}"
                                  for _, key, value in edits]})
        print(f"{name:42s} {changed:4d} lines  " +
              "  ".join(f"{k} {100 * v:.1f}" for k, v in found.items()), flush=True)
    result = {"schema": "plansearch/ablation/v1", "date": datetime.date.today().isoformat(),
              "method": "Mean step-time error in % when one mechanism is switched off in the data "
                        "files, at factor 1 of every site. Runs below 2 % utilisation count; rows "
                        "under suspicion do not, and nothing is refitted. So the first row is none "
                        "of the errors above (runs per column: "
                        + ", ".join(f"{k} {v}" for k, v in rows.items()) + ").",
              "baseline": {k: round(v, 5) for k, v in baseline.items()}, "mechanisms": entries}
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
