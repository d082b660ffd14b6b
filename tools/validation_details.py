# SPDX-License-Identifier: Apache-2.0
"""docs/validation_details.md: the tables behind docs/validation.md, source by source."""
from validation_markdown import (error_table, feasibility_table, groups, memory_table, percent,
                                 ranking_table, signed, site_table, table)


def details_text(page, generated):
    return (generated + "# Validation, source by source\n\n"
            "The tables behind [validation.md](validation.md), which explains their columns. Written by "
            "`tools/validation_page.py`.\n\n"
            + sites(page) + step_times(page) + memories(page) + rankings(page)
            + "## What can run\n\n" + feasibility_table(page.summary)
            + page.risks() + page.largest_runs() + page.slow_mode() + page.kernel_section() + kernels(page)
            + page.overlap_section() + combinations(page) + page.left_out_section() + folds(page)
            + page.ablation_section() + ablation(page)).rstrip() + "\n"


def sites(page):
    parts = (page.full or {}).get("sites", ()) or [{"title": "Shipped runs", "rows": len(page.runs["rows"]),
                                                    "summary": page.runs["summary"]}]
    return "## Sites\n\n" + "".join(f"{part['title']} ({part['rows']} rows in all):\n\n"
                                    + site_table(part["summary"], ("source",), "without_suspects")
                                    for part in parts)


def step_times(page):
    words = "## Step time\n\n"
    if page.full:
        words += "Full table:\n\n" + error_table(page.summary, ("source",))
    return (words + "Shipped sample:\n\n" + error_table(page.runs["summary"], ("source",))
            + f"By framework ({page.table}):\n\n" + error_table(page.summary, ("framework",))
            + f"By machine ({page.table}):\n\n" + error_table(page.summary, ("hw",)))


def memories(page):
    return "## Peak memory\n\n" + memory_table(page.memory_summaries())


def rankings(page):
    sweeps = page.full["runs"]["worst_sweeps"] if page.full else sorted(
        page.runs["sweeps"], key=lambda sweep: -sweep["regret"])[:8]
    rows = [[s["source"], s["model"], s["gpus"], s["global_batch"], s["rows"], percent(s["regret"]),
             "-" if s["tau"] is None else f"{s['tau']:.2f}"] for s in sweeps if s["regret"] > 0]
    return ("## Ranking inside sweeps\n\n" + ranking_table(page.summary)
            + "The worst sweeps (suspects included):\n\n"
            + table(["source", "model", "GPUs", "batch", "plans", "regret %", "tau-b"], rows, 2))


def kernels(page):
    if not page.kernels:
        return ""
    return "All subsets:\n\n" + page.kernel_table(page.kernels["rows"])


def combinations(page):
    return "By combination:\n\n" + page.overlap_table(("parts",))


def folds(page):
    if not page.left_out:
        return ""
    words = ""
    for study in page.left_out["studies"]:
        words += (f"**{study['title']}** ({len(study['constants'])} constants: "
                  + ", ".join(f"`{name}`" for name in study["constants"]) + ")\n\n"
                  + page.fold_table([[f["left_out"], f] for f in study["folds"]]))
    return words


def ablation(page):
    if not page.ablation:
        return ""
    return "By source:\n\n" + page.ablation_table(list(page.ablation["baseline"]))
