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
            + page.ablation_section() + ablation(page) + STAYS_OFF).rstrip() + "\n"


#: Written by hand: figures of refits and of rows that tables of errors do not tell, with what was tried.
STAYS_OFF = """## What stays off

Runs held out: `tools/refit.py validation/fitted_constants.yaml --binary BINARY --table RUNS.csv --suspect SUSPECT.csv --hold-out
0.2` fits every constant to four fifths of the first table and predicts the rest with the factors of their sites: 592 runs, mean
error 7.0 %, median of 14 sources 7.5 % (7.7 % of the fitted ones).
Whole jobs (machine, model, GPUs, sequence length, precision) held out, by the same command with `--jobs`: 506 runs, mean error
7.7 %, median of 10 sources 6.0 % (7.5 % of the fitted runs). Both fits start at the shipped values.
Chips whose kernels are another architecture's, each as if its own steps had said nothing of them: `tools/left_out_architectures.py
--binary BINARY --table RUNS.csv --table LATER.csv --suspect SUSPECT.csv` judges every chip by the spread of the others. Inside
p10 - p90: Gaudi 2 60 % of 10 runs, MI250X, MI300X and MI325X all of 15, TPU v5p all of 16, TPU 7x 86 % of 14; the eight chips alike
81 %.

| what | off by | why; what was tried |
|---|---|---|
| LoRA, 111 runs of two sources | 10.5 % (MLPerf 8.3, Qwen 12.4) | six runs of Qwen on two servers of two GPUs take 1.78 times as long as the same work on one GPU at every length from 1,024 tokens on, with the same memory: no message grows with tokens there, and gradients of adapters are small (-41 to -49 %). README, `finetune_lora_ds.sh` and `ds_config_zero2.json` (QwenLM/Qwen@2df8e8a) say what is priced: one sequence, eight micro-batches, ZeRO 2, recomputation, nothing on the host, no stages; its memory grows by 2.55 MB a token, that of one GPU by 2.08, so that their software differs in something unpublished. Without them 9.1 %. Configuration files of submitters in place of filled degrees: 11.6 -> 10.5 %. MLPerf as vendors and Qwen as a laboratory (`--site`): 9.2 % |
| MLPerf LoRA on GB200, eight context ranks | +9 to +23 % | two racks of the same code differ by 7 %; B200 with one rank +5 %; CUDA graphs are on there. The rest is a typical site's 1.09 where these vendors have 1.0 |
| nvfp4 under torchtitan | -12, -15.5 % | mxfp8 of the same networks -4, +1: what torchao does around products of 4 bits (stochastic rounding, transforms) is not a pass of ours yet; a rate for its products alone has no published table |
| fp8 in torchao's tables on H100 and B200 | +23, +26 % by tensor, +9, +4 % by row | its page says that torchtitan ran them; they are in the table, and in the fit, as FSDP's. Beside bf16 of the same site: +7, +13 by tensor, -6, -7 by row. As torchtitan's they are -18 to -34 % (bf16 too): one micro-batch of 8,192 tokens hides less there than we say. Rows and tensors have one price: products scaled by row are as fast on an H200 ([measured](../validation/measured/h200-sxm-141gb/host_and_fp8.csv)), and what quantises weights of both layouts again for every use is not distinguished |
| torchtune with moments in 8 bits | memory -10.9 % (1.9 GiB) | one table of 394 M elements whose moments are expanded while it is updated is 1.5 GiB a tensor in fp32; no published figure separates it |
| torchtitan's Llama 4 Scout | -37 % | experts in `for` loops or grouped, token dispatch and recomputation are not published |
| in sample, own site | 7.1 % | nanotron's runs (9.8 %) and Megatron-Bridge (8.3 %) hold it up: both hide a switch that no column has, repeated runs of nanotron differ by 15 %. A refit to all tables gives 7.2 % |
| ranking | regret 4.2 % in the mean | 14 sweeps of nanotron (32.7 %), of which one has its best plan at a third of the time of its neighbours; 0.0 % in the median, 0.2 to 3.5 % in the other frameworks |
"""


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
