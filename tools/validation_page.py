#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/validation.md, validation_details.md, validation_constants.md and their figures from shipped data.

  python3 tools/validation_page.py --binary build/release/plansearch
  python3 tools/validation_page.py --binary B --also runs.csv --suspect suspect.csv
                                   [--also-later more.csv ... --suspect-later suspect_more.csv]
                                   [--also-memory memory.csv] [--also-risk more.csv ...] [--kernels TABLE.csv ...]

The first form needs nothing but this repository. The second also predicts larger tables that do not
ship and keeps their summary, with date and commit, in validation/results_full.json, from which the
first form then writes the same page. Only the standard library is needed.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import ablation
import fitted_constants
import validation_svg
from validation_markdown import groups
from validation_sections import Page
from validation_summary import validate
from validation_unseen import unseen_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "plansearch/validation-results/v1"
#: Legend of the figures: the first text that a source holds decides.
LABELS = (("multi-node", "vTrain, several nodes"), ("single-node", "vTrain, one node"),
          ("llm-foundry", "llm-foundry (FSDP)"), ("Ultra-Scale", "nanotron"),
          ("Megatron-Bridge", "Megatron-Bridge"), ("MLPerf", "MLPerf Training"),
          ("NeMo Framework", "NeMo"), ("Jean Zay", "Jean Zay V100"), ("torchao", "torchao (FSDP)"),
          ("Megatron-LM functional", "Megatron-LM tests"), ("arXiv", "papers"))


#: Titles of the tables of `--also-later`.
LATER = ("Sources that came later", "Sources that came last",
         "Sources handed over after these, defaults set in view of them")


#: Llama 3 405B (arXiv 2407.21783, Table 4): GPUs, sequence length, sequences per step, context ranks,
#: published TFLOP/s per GPU, seconds that follow from it (6 N per token and causal attention). How many
#: chunks a stage has is not published.
LLAMA = ((8192, 8192, 2048, 1, 430, 12.08), (16384, 8192, 2048, 1, 400, 6.49),
         (16384, 131072, 128, 16, 380, 10.94))
LLAMA_CHUNKS = (1, 2, 4, 8)


def largest_runs(binary):
    environment = dict(os.environ)
    environment.setdefault("PLANSEARCH_DATA", str(ROOT))
    rows = []
    for gpus, seq_len, batch, context, rate, seconds in LLAMA:
        for chunks in LLAMA_CHUNKS:
            done = subprocess.run(
                [str(binary), "predict", "--hw", "h100-meta-roce400", "--model", "llama3.1-405b",
                 "--gpus", str(gpus), "--tp", "8", "--pp", "16", "--vpp", str(chunks), "--cp",
                 str(context), "--batch", str(batch), "--seq-len", str(seq_len), "--micro-batch", "1",
                 "--zero", "1", "--format", "json", "--quiet"],
                capture_output=True, text=True, check=False, env=environment)
            if not done.stdout:
                sys.exit(done.stderr.strip())
            plan = json.loads(done.stdout)["plans"][0]
            rows.append((gpus, seq_len, rate, seconds, chunks, plan))
    return rows


def label_of(source):
    for part, label in LABELS:
        if part in source:
            return label
    return source


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 5) if isinstance(value, float) else value


def summary_of(answer):
    """Summary of a table that does not ship: groups, no rows."""
    kept = {"rows": len(answer["rows"]),
            "summary": [{key: value for key, value in group.items() if key != "at_sites"}
                        for group in rounded(answer["summary"])]}
    if answer["table"] == "runs":
        reasons = {}
        for row in answer["rows"]:
            if not row["expressible"]:
                reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
        kept["inexpressible"] = reasons
        worst = sorted(answer["sweeps"], key=lambda sweep: -sweep["regret"])[:8]
        kept["worst_sweeps"] = [{key: value for key, value in rounded(sweep).items()
                                 if key not in ("best", "chosen", "top1", "top3")} for sweep in worst]
    return kept


def sites_of(args, title, table, suspect, data=None):
    """Errors by site of the runs above 2 % utilisation, without what else a group holds."""
    answer = validate(args.binary, table, suspect, ("--min-mfu", "0.02"), data)
    return {"title": title, "rows": len(answer["rows"]),
            "summary": [{key: group[key] for key in ("set", "by", "value", "at_sites", "memory")}
                        for group in rounded(answer["summary"])
                        if group["by"] in ("all", "source")]}


def without_source_aliases(root):
    """Copies the data to `root`, without the entries of architectures.yaml that name the source of a row."""
    ablation.copy_data(root)
    path = root / "validation/architectures.yaml"
    entries = re.split(r"(?m)^(?=  - name: )", path.read_text(encoding="utf-8"))
    kept = [entry for entry in entries if not re.search(r"columns:\s*\{?\s*source:", entry)]
    path.write_text("".join(kept), encoding="utf-8")


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def write_full_results(args, path):
    results = {"schema": SCHEMA, "date": datetime.date.today().isoformat(), "commit": commit(),
               "runs": summary_of(validate(args.binary, args.also, args.suspect))}
    if args.also_memory:
        results["memory"] = summary_of(validate(args.binary, args.also_memory, args.suspect))
    results["sites"] = [sites_of(args, "Sources that constants were fitted to", args.also, args.suspect)]
    with tempfile.TemporaryDirectory() as folder:
        without_source_aliases(pathlib.Path(folder))
        for table, title in zip(args.also_later, LATER):
            part = sites_of(args, title, table, args.suspect_later)
            without = sites_of(args, title, table, args.suspect_later, folder)["summary"]
            total = groups(without, "all", "without_suspects")[0]["at_sites"]
            results["sites"].append({**part, "without_aliases": total["left_out"]["sources_alike"]})
    kernels = {}
    for table in args.kernels or ():
        answer = validate(args.binary, table)
        kernels.setdefault(answer["table"], []).append(summary_of(answer))
    results["kernels"] = kernels
    results["risk"] = [group for table in args.also_risk or ()
                       for group in rounded(validate(args.binary, table)["summary"])
                       if group["by"] == "source" and group["memory_risk"]]
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def read_if_there(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def step_points(answer):
    return [(label_of(row["source"] or ""), row["measured_step_time_s"],
             row["predicted_step_time_s"]) for row in answer["rows"]
            if row["measured_step_time_s"] and row["predicted_step_time_s"] and not row["failed"]]


def memory_points(answers):
    gib = 2.0 ** 30
    return [(label_of(row["source"] or ""), row["measured_peak_memory_bytes"] / gib,
             row["predicted_peak_memory_bytes"] / gib) for answer in answers
            for row in answer["rows"]
            if row["measured_peak_memory_bytes"] and row["predicted_peak_memory_bytes"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--also", help="a larger table of runs, summarised only")
    parser.add_argument("--also-memory", help="a larger table of memory peaks, summarised only")
    parser.add_argument("--also-risk", action="append",
                        help="further tables of runs of which memory risks are summarised only")
    parser.add_argument("--suspect", help="CSV (id, why) of rows of these tables to report apart")
    parser.add_argument("--also-later", action="append", default=[],
                        help="tables of runs that no constant has seen, in the order in which they came")
    parser.add_argument("--suspect-later", help="CSV (id, why) of its rows to report apart")
    parser.add_argument("--kernels", action="append", help="tables of kernels, summarised only")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs")
    args = parser.parse_args()
    shipped = ROOT / "validation"
    if args.also:
        write_full_results(args, shipped / "results_full.json")

    suspects = shipped / "published_suspect.csv"
    runs = validate(args.binary, shipped / "published_runs.csv", suspects)
    memory = validate(args.binary, shipped / "published_memory.csv", suspects)
    figures = args.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    (figures / "validation_step_time.svg").write_text(
        validation_svg.scatter("Step time: predicted against measured (shipped table)", "seconds",
                               step_points(runs)), encoding="utf-8")
    (figures / "validation_memory.svg").write_text(
        validation_svg.scatter("Peak memory: predicted against measured (shipped tables)", "GiB",
                               memory_points([memory, runs])), encoding="utf-8")
    page = Page(runs=runs, memory=memory, full=read_if_there(shipped / "results_full.json"),
                kernels=read_if_there(shipped / "results_kernels.json"),
                left_out=read_if_there(shipped / "leave_one_out.json"),
                ablation=read_if_there(shipped / "ablation.json"),
                shipped_sites=sites_of(args, "", shipped / "published_runs.csv", shipped / "published_suspect.csv")["summary"],
                fresh=unseen_tables(args.binary, shipped),
                overlap=validate(args.binary, shipped / "published_overlap.csv"),
                largest=largest_runs(args.binary),
                collectives=validate(args.binary, shipped / "published_collectives.csv"))
    (args.out / "validation.md").write_text(page.text(), encoding="utf-8")
    (args.out / "validation_details.md").write_text(page.details(), encoding="utf-8")
    (args.out / "validation_constants.md").write_text(
        page.constants_text(fitted_constants.collect(ROOT)), encoding="utf-8")


if __name__ == "__main__":
    main()
