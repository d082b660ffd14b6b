# SPDX-License-Identifier: Apache-2.0
"""The sections of docs/validation.md, from the answers of `plansearch validate --format json`."""
import os

from statistics import median

from validation_details import details_text
from validation_markdown import (error_table, feasibility_table, groups, left_out_words,
                                 memory_table, percent, ranking_table, risk_table, signed, site_table, table)
from validation_unseen import unseen_text

GENERATED = ("<!-- Written by tools/validation_page.py from shipped data; edit that, not this. -->\n"
             "<!-- SPDX-License-Identifier: Apache-2.0 -->\n\n")


class Page:
    def __init__(self, runs, memory, full, kernels, left_out, ablation, overlap, largest,
                 collectives, shipped_sites, fresh):
        self.shipped_sites, self.fresh = shipped_sites, fresh
        self.largest, self.collectives = largest, collectives
        self.runs, self.memory, self.full, self.overlap = runs, memory, full, overlap
        self.kernels, self.left_out, self.ablation = kernels, left_out, ablation
        #: The widest evidence at hand.
        self.summary = full["runs"]["summary"] if full else runs["summary"]
        self.table = "full table" if full else "shipped table"

    def text(self):
        sections = [self.opening(), unseen_text(self.fresh), self.unseen(), self.in_short(), self.laboratories(), self.memories(),
                    self.rankings(), self.sites(), self.headline(), self.regimes(), self.feasibility(),
                    self.weaknesses(), self.closing()]
        return GENERATED + "".join(sections).rstrip() + "\n"

    def details(self):
        return details_text(self, GENERATED)

    def opening(self):
        words = (
            "# Validation\n\n"
            "How far predictions are from what real clusters measured: first out of sample, in sample "
            "below. Written by `tools/validation_page.py` from "
            f"[`published_runs.csv`](../validation/published_runs.csv) ({len(self.runs['rows'])} training runs) "
            f"and [`published_memory.csv`](../validation/published_memory.csv) ({len(self.memory['rows'])} "
            "memory peaks): published figures, each with its source and place.")
        if self.full:
            words += (
                " They are a sample, not drawn by results; what the whole tables gave "
                f"({sum(part['rows'] for part in self.full['sites'])} runs, on {self.full['date']} at commit "
                f"`{self.full['commit']}`) is kept in "
                "[`results_full.json`](../validation/results_full.json).")
        return words + (
            " [By source](validation_details.md); [constants](validation_constants.md) with value, data and "
            "residual. `plansearch validate YOUR_TABLE.csv` judges your own runs.\n\n"
            "*Error*: absolute value of predicted / measured - 1; *bias*: with its sign, below zero is too fast. "
            "*Inside*: measured times between p10 and p90, 80 % would be right. *: without rows that contradict "
            "identical or neighbouring ones ([why](../validation/published_suspect.csv)).\n\n")

    @staticmethod
    def unseen():
        """An audit of commit da14a723, typed by hand: its tables are in no fit, and none of them ships."""
        return (
            "## Sources never seen before\n\n"
            "Published runs of sources that were in no fit and in no table of this project, predicted from what was "
            "published, for a typical site (an audit of commit `da14a723`; its tables do not ship). Sources weigh "
            "alike. Step-time error is the mean of a source.\n\n"
            + table(["", "mean of sources %", "median of sources %", "inside %"],
                    [["step time, sources of the first audit", "22.2", "18.5", "62"],
                     ["... on NVIDIA and AMD GPUs", "22.7", "17.6", ""],
                     ["step time, with 19 newer sources (846 rows)", "21.6", "17.3", "65"],
                     ["peak memory", "", "30", ""],
                     ["peak memory, sources used in development", "", "7.7", ""]], 1)
            + "- Within 20 % of the measured step: 82 % of the rows of tuned pre-training on NVIDIA GPUs, 65 % of users' "
            "dense jobs, 48 % of mixtures of experts, 45 % on other chips, 43 % of LoRA.\n"
            "- 15 % of the sources have less than 40 % of their times inside p10 - p90; 67 % of the published runs can be "
            "asked as they are published.\n"
            "- In 82 sweeps the plan predicted fastest is the one measured fastest, or within 1 % of it, in 77 %; its mean "
            "regret is 4.2 %, that of a random plan 97 %.\n\n")

    def in_short(self):
        """The figures, and the commands that give them on the tables that ship."""
        left_out = self.left_out_figures()
        rows = []
        if left_out:
            rows += [["laboratory left out, all constants refitted: median of its sites, bias",
                      f"{percent(left_out['middle'])} %, {signed(left_out['bias'])} %", "L"],
                     ["... measured times inside p10 - p90, sites alike; sites below 40 %",
                      f"{percent(left_out['inside'], 0)} %; {percent(left_out['narrow'], 0)} %", "L"]]
        for part in self.later_parts():
            total = groups(part["summary"], "all", "without_suspects")[0]["at_sites"]["left_out"]["sources_alike"]
            fit = "" if "in view" in part["title"] else ", in no fit"
            rows += [[words, f"{percent(one['mean_absolute_error'])} %, {signed(one['bias'])} %; "
                             f"{percent(one['within_p10_p90'], 0)} %", "V"] for words, one in (
                (f"{part['title'].lower()}{fit}: mean of sources, bias; inside", total),
                ("... without what architectures.yaml says of a source by its name", part["without_aliases"]))]
        memory = self.memory_by_source()
        if memory:
            rows.append([f"peak memory: median of {len(memory)} sources",
                         f"{percent(median(memory))} %", "M"])
        ranking = groups(self.summary, "all", "without_suspects")[0]["ranking"]
        rows.append(["regret of the plan predicted fastest: mean*, median*",
                     f"{percent(ranking['mean_regret'])} %, {percent(ranking['median_regret'])} %", "V"])
        own = self.in_sample()
        if own:
            rows.append(["in sample: own site, sources alike; inside",
                         f"{percent(own['mean_absolute_error'])} %; {percent(own['within_p10_p90'], 0)} %", "V"])
        return (
            "## In short\n\n" + table(["", self.table.replace("table", "tables"), "command"], rows, 1)
            + "On the tables that ship:\n\n"
            "- L: `tools/leave_one_out.py --binary BINARY --table validation/published_runs.csv --suspect "
            "validation/published_suspect.csv --study laboratories --out left_out.json`\n"
            "- V: `tools/validation_summary.py validation/published_runs.csv --binary BINARY --suspect "
            f"validation/published_suspect.csv --min-mfu 0.02` prints, {self.of_shipped_sites()}\n"
            "- M: `plansearch validate validation/published_memory.csv`, and of the table of V\n\n")

    def of_shipped_sites(self):
        """The line of command V on the shipped table that weighs sources alike."""
        at = groups(self.shipped_sites, "all", "without_suspects")[0]["at_sites"]
        words = [f"{name.replace('_', ' ')} {percent(at[name]['sources_alike']['mean_absolute_error'])} %"
                 for name in ("own_site", "typical", "left_out")]
        return "sources weighed alike: " + ", ".join(words)

    def later_parts(self):
        return (self.full or {}).get("sites", ())[1:]

    def in_sample(self):
        """Errors of the tables that constants were fitted to, sources alike, with the factors of their own sites."""
        parts = (self.full or {}).get("sites", ())
        summary = parts[0]["summary"] if parts else self.runs["summary"]
        return groups(summary, "all", "without_suspects")[0]["at_sites"]["own_site"]["sources_alike"]

    def memory_by_source(self):
        """Mean errors of the peaks of every source, whatever was read of them."""
        summaries = [self.summary] + [part["summary"] for part in self.later_parts()]
        summaries += [self.full["memory"]["summary"]] if self.full and "memory" in self.full else [
            self.memory["summary"]]
        errors = []
        for summary in summaries:
            for group in groups(summary, "source"):
                kinds = (group.get("memory") or {}).values()
                rows = sum(kind["rows"] for kind in kinds)
                if rows:
                    errors.append(sum(k["rows"] * k["mean_absolute_error"] for k in kinds) / rows)
        return errors

    def left_out_figures(self):
        found = (self.left_out or {}).get("laboratories", [])
        if not found:
            return None
        return {"middle": median([f["error"] for f in found]),
                "bias": sum(f["bias"] for f in found) / len(found),
                "inside": sum(f["inside"] for f in found) / len(found),
                "narrow": sum(f["inside"] < 0.4 for f in found) / len(found)}

    def largest_runs(self):
        words = (
            "## Llama 3 405B on 8,192 and 16,384 GPUs\n\n"
            "Published: 380 to 430 TFLOP/s per GPU with 8 tensor ranks and 16 stages (arXiv 2407.21783, "
            "Table 4). Seconds follow from 6 N per token and causal attention. The number of chunks per "
            "stage is not published. Predicted for a typical site of `h100-meta-roce400`, ZeRO-1, one "
            "sequence per micro-batch:\n\n")
        lines = [(f"{gpus:,}", f"{seq_len:,}", f"{seconds:.2f}", f"{rate}", f"{chunks}",
                  f"{plan['step_time_s']:.2f}",
                  f"{plan['step_time_p10_s']:.2f} - {plan['step_time_p90_s']:.2f}",
                  f"{plan['model_tflops_per_gpu']:.0f}")
                 for gpus, seq_len, rate, seconds, chunks, plan in self.largest]
        return words + table(("GPUs", "sequence", "published s", "published TFLOP/s", "chunks",
                              "predicted s", "p10 - p90 s", "predicted TFLOP/s"), lines)

    @staticmethod
    def slow_mode():
        """Runs outside the intervals."""
        return (
            "## Slow mode\n\n"
            "Pipelines of the Ultra-Scale Playbook sweep (EFA) have two modes. Most runs lie within a tenth of "
            "their prediction. Slow ones take about 0.5 s more per slot (micro-batch on a stage) and "
            "neighbouring stage, whatever the model and the micro-batch: 7, 8, 14, 20, 27, 58 and 99 % of "
            "the runs on 1, 2, 4, 8, 16, 32 and 64 nodes.\n\n"
            "- The cause is unknown: the network, or nanotron's sends. No other framework ran there, and no "
            "run had several chunks per stage.\n"
            "- The interval is that of the fast mode. The answer gives the share of slow runs and their step "
            "time beside it (`slow_mode` of the fabric; `slow_mode` in JSON).\n"
            "- Runs without a pipeline are slow too on 64 nodes, with no common excess. The answer does not "
            "cover them.\n\n")

    def sites(self):
        words = (
            "## By site, constants as shipped\n\n"
            "The same plan on the same machine takes longer in one laboratory than in another. Every answer "
            "is for a *typical* site: times the mean factor of the measured sites "
            "([`sites.yaml`](../validation/sites.yaml), `tools/sites.py`; mean + site + residual of logarithms, "
            "moment estimator), with their spread in p10 - p90. *Own*: with the factor of the row's own site, in "
            "sample. *Left out*: typical without the sites of the row's laboratory, while constants that were "
            "fitted to its runs stay. No constant was fitted to the rows of MT-NLG, BLOOM and Llama 3, nor to "
            "Table 2 of PTD-P. Rows without a time, under suspicion or below 2 % utilisation are left out.\n\n")
        found = (self.full or {}).get("sites", ())
        if not found:
            which = self.runs["summary"]
            return (words + site_table(which, ("all",), "without_suspects")
                    + left_out_words(which, "without_suspects"))
        for part in found:
            words += f"{part['title']} ({part['rows']} rows in all):\n\n"
            words += site_table(part["summary"], ("all",), "without_suspects")
            words += left_out_words(part["summary"], "without_suspects")
            words += "With the rows under suspicion: " + left_out_words(part["summary"], "all")
        return words + (
            "Three runs of a site remove most of its own factor (`fit`). They were drawn 200 times from every "
            "site, machine, framework and precision. The median error of the other runs falls from 12.5 % to 7.5 % for "
            "sources that constants were fitted to, and from 12.6 % to 5.7 % for sources that came later.\n\n")

    def headline(self):
        words = "## Step time\n\nPredicted for a typical site, rows below 2 % utilisation included.\n\n"
        if self.full:
            words += f"Full table, {self.full['runs']['rows']} runs:\n\n"
            words += error_table(self.summary, ("all", "mfu", "known"))
            words += ("*MFU*: measured model FLOPs over the dense peak. *Some switches assumed*: "
                      "recomputation, overlap or precision details are not published, and "
                      "documented defaults stand in.\n\n")
        words += "Shipped sample:\n\n" + error_table(self.runs["summary"], ("all",))
        return words + ("![Predicted against measured step time](figures/validation_step_time.svg)"
                        "\n\n")

    def regimes(self):
        return ("## Where it is hard\n\n"
                f"Step-time error of the {self.table} by what makes a run hard to predict (a run "
                "may be in several rows):\n\n" + error_table(self.summary, ("regime",)))

    def memory_summaries(self):
        named = []
        if self.full:
            named.append(("full table of runs", self.full["runs"]["summary"]))
            if "memory" in self.full:
                named.append(("Megatron-LM tests, all", self.full["memory"]["summary"]))
        named += [("shipped runs", self.runs["summary"]),
                  ("shipped Megatron-LM tests", self.memory["summary"])]
        return named

    def memories(self):
        named = self.memory_summaries()
        return ("## Peak memory\n\n"
                "*allocated*: peak of the allocator; *torch-peak*: a counter of PyTorch, not said "
                "which; *nvidia-smi*: the whole process.\n\n" + memory_table(named, ("all",))
                + "![Predicted against measured peak memory](figures/validation_memory.svg)\n\n")

    def rankings(self):
        words = (
            "## Ranking inside sweeps\n\n"
            "A sweep is a set of runs that differ in the plan only (same source, machine, "
            "framework, precision, model, GPUs, sequence length, batch and adapters). *Regret*: measured "
            "time of the plan predicted fastest over that of the plan measured fastest, minus 1; "
            "runs that we call too large are ranked like any other, for they ran. *Top-3*: the "
            "best plan is among our first three. *tau-b*: Kendall's rank correlation over sweeps "
            "of three plans or more.\n\n"
            + ranking_table(self.summary, ("all", "framework")))
        return words

    def feasibility(self):
        reasons = self.full["runs"]["inexpressible"] if self.full else {
            row["reason"]: 1 for row in self.runs["rows"] if not row["expressible"]}
        words = ("## What can run\n\n"
                 "Runs that we say cannot run although they did, and runs that failed (often, but "
                 "not always, for memory) though we would have run them. Time is predicted, and "
                 "counted above, whatever memory says.\n\n" + feasibility_table(self.summary, ("all",)))
        for reason, count in sorted(reasons.items()):
            words += f"- cannot be expressed ({count}): {reason}\n"
        return words + ("\n" if reasons else "")

    def risks(self):
        """Stated risks against failures, of the sources that published failures."""
        found = [group for group in groups(self.summary, "source")
                 if group["memory_risk"] and group["memory_risk"]["failed"] > 1]
        found += [group for group in (self.full or {}).get("risk", ())
                  if group["memory_risk"]["failed"] > 1]
        if not found:
            return ""
        return ("## Risk of running out of memory\n\n"
                "A plan has a probability of not fitting (`memory_error_*` of the framework files, fitted to "
                "measured peaks, not to failures). The table has legal rows that ran or failed in four bins "
                "of the stated risk: the failures, and the mean stated risk.\n\n"
                "- *Brier*: mean of (stated risk - failed)^2, 0 is perfect.\n"
                "- *Hard limit*: stating 1 where the predicted peak exceeds the memory and 0 elsewhere.\n"
                "- *Base rate*: always stating the share that failed.\n\n"
                "Failures of the Ultra-Scale sweep are crashes of any kind: about one run in ten of those "
                "that need less than half of the memory failed too. Aleph Alpha's runs used their own code, "
                "priced as Megatron-LM. It needs more than predicted, most of all where a vocabulary of "
                "128,000 meets large micro-batches.\n\n"
                + risk_table(found) + "\n")

    def kernel_section(self):
        if not self.kernels:
            return ""
        words = ("## Kernels and collectives\n\n" + self.kernels["method"] + "\n\n"
                 "Shapes of training steps and left-out message sizes:\n\n"
                 + self.kernel_table([r for r in self.kernels["rows"] if self.is_main(r)]))
        rows = []
        for group in self.collectives["summary"]:
            e = group["time"]
            if e["rows"] and group["by"] == "hw":
                rows.append([group["value"], e["rows"], percent(e["mean_absolute_error"]),
                             percent(e["median_absolute_error"]), signed(e["bias"])])
        words += (
            "Over several nodes, with the constants that ship "
            "([`validation/published_collectives.csv`](../validation/published_collectives.csv)): "
            "gathers of 1 MiB to 1 GiB on Perlmutter, all-reduces of at most 512 bytes elsewhere "
            "(H20 and A100 on InfiniBand: 2 nodes of 8, 32 nodes of 8, 2 single GPUs; EFA: 2 nodes of "
            "8). A hop of InfiniBand is fitted to 2 and 4 nodes of 8 GPUs. The other two points show that "
            "half of it belongs to the steps inside a node, which wait for the network there. EFA's newest "
            "cards (p6) are faster than those of p5.\n\n"
            + table(["cluster", "rows", "mean %", "median %", "bias %"], rows))
        if self.full and self.full.get("kernels"):
            rows = []
            for kind, answers in self.full["kernels"].items():
                for answer in answers:
                    for group in answer["summary"]:
                        e = group["time"]
                        if e["rows"] and group["by"] in ("all", "gpu", "gpu+dtype", "hw"):
                            rows.append([kind, group["value"] or "**all**", e["rows"],
                                         percent(e["mean_absolute_error"]),
                                         percent(e["median_absolute_error"]),
                                         percent(e["p90_absolute_error"]), signed(e["bias"]),
                                         group["inexpressible"]])
            words += ("With the constants that ship, through `plansearch validate` (in sample; the "
                      "last table of collectives holds points of many clusters, most of them "
                      "without a profile):\n\n")
            words += table(["table", "group", "rows", "mean %", "median %", "p90 %", "bias %",
                            "inexpressible"], rows, 2)
        return words

    @staticmethod
    def is_main(row):
        return any(part in row["subset"] for part in ("training steps", "message sizes", "in sample", "seed 1"))

    @staticmethod
    def kernel_table(found):
        rows = [[r["kind"], r["owner"], r["subset"], r["rows"], percent(r["mean_absolute_error"]),
                 percent(r["median_absolute_error"]), signed(r["bias"])] for r in found]
        return table(["table", "device", "subset", "rows", "mean %", "median %", "bias %"], rows, 3)

    def overlap_table(self, kinds):
        rows = []
        for group in self.overlap["summary"]:
            e = group["time"]
            if e["rows"] and group["by"] in kinds:
                rows.append([group["value"] or "**all**", e["rows"],
                             percent(e["mean_absolute_error"]), percent(e["median_absolute_error"]),
                             percent(e["p90_absolute_error"]), signed(e["bias"])])
        rows.sort(key=lambda row: row[0].count(" + "))
        return table(["set", "rows", "mean %", "median %", "p90 %", "bias %"], rows, 1)

    def overlap_section(self):
        return (
            "## Kernels, messages and copies at once\n\n"
            "A matrix product, an all-gather and copies from and to host memory, alone and in every "
            "combination, started together (published with Mist, EuroSys 2025, Apache-2.0; "
            "[`validation/published_overlap.csv`](../validation/published_overlap.csv) is a sample of 300 of "
            "its 4,834 rows).\n\nCombinations are predicted from the times of their parts alone and the rates "
            "of [the accelerator](hardware_profiles.md#what-runs-at-once): five coefficients for the A100, "
            "six for the V100, fitted to a random 70 % of the combinations (`tools/fit_concurrency.py`). "
            "The table holds the other 30 %. With nothing shared, times would be "
            "19 % (A100) and 45 % (V100) too short.\n\n"
            + self.overlap_table(("all", "gpu"))
            + "- Copies of the V100 wait for kernels and messages, as copies of pageable memory do; those of "
            "the A100 do not.\n"
            "- The hosts of the A100's one-node and two-node runs share differently, most of all in both "
            "directions. One value stands for both: errors up to a fifth.\n"
            "- No other accelerator is measured.\n\n"
            "**Rules and shares.** Where measured runs are predicted no worse for it, hidden time is "
            "simulated in the framework's order of issue ([frameworks](frameworks.md#overlap)): "
            "tensor-parallel messages of Megatron-LM, Megatron-DeepSpeed, nanotron and InternEvo, and "
            "everything of AxoNN, Tensor3D and Domino. Fitted shares stay elsewhere (spread around the "
            "median of a source, by shares and by rules):\n\n"
            "- Gathers and reductions of FSDP (llm-foundry 3.0 and 3.3 %, torchao 7.9 and 8.4 %), of "
            "torchtitan (1.7 and 2.3 %) and of MaxText (7.2 and 7.4 %; Paxml 4.3 and 5.9 %). No rule "
            "describes FSDP's limit on gathers in flight yet.\n"
            "- ZeRO-2 and 3 of Megatron-LM: 13 runs do not decide (3.9 and 4.0 %).\n"
            "- Messages between stages, in rings and of experts: their shares are part of forms that were "
            "fitted with them.\n\n")

    def left_out_section(self):
        if not self.left_out:
            return ""
        words = ("## Held out\n\n" + self.left_out["method"] + "\n\n")
        words += self.fold_table([[study["title"].replace(": a ", ", a "), study["folds"][-1]]
                                  for study in self.left_out["studies"]])
        return words

    @staticmethod
    def fold_table(named):
        rows = [[name, f["rows"], percent(f["in_sample"]), percent(f["held_out"]),
                 "-" if not f["in_sample"] else f"{f['held_out'] / f['in_sample']:.2f}"]
                for name, f in named]
        return table(["left out", "rows", "in sample %", "held out %", "ratio"], rows)

    def laboratories(self):
        """Sites predicted by what the other laboratories leave, every constant refitted."""
        figures = self.left_out_figures()
        if not figures:
            return ""
        rows = [[f["site"], f["laboratory"], f["rows"], percent(f["error"]), signed(f["bias"]),
                 percent(f["inside"], 0)] for f in self.left_out["laboratories"]]
        return (
            "## Laboratories left out\n\n"
            "Split: all constants of [`fitted_constants.yaml`](../validation/fitted_constants.yaml), those of "
            "chips, attention kernels and fabrics that came from steps included, are refitted without the runs "
            "of one laboratory (from the common optimum, with its slopes), the factors of all other sites are "
            "computed again, and its runs are predicted for a typical site. Curves of kernels and links, which "
            "are measured alone, stay. Sites of five runs or more above 2 % utilisation, without suspects"
            + (f"; {self.left_out['scope']}" if self.left_out.get("scope") else "")
            + f" (run on {self.left_out.get('laboratories_date', self.left_out['date'])}).\n\n"
            + table(["site", "laboratory", "rows", "mean %", "bias %", "inside %"], rows, 2)
            + f"Median of the sites {percent(figures['middle'])} %, bias {signed(figures['bias'])} %, inside "
            f"{percent(figures['inside'], 0)} %, {percent(figures['narrow'], 0)} % of the sites below 40 %. "
            + self.left_out.get("common_fit", "") + "\n\n")

    def ablation_section(self):
        if not self.ablation:
            return ""
        return ("## What each mechanism bought\n\n" + self.ablation["method"] + "\n\n"
                + self.ablation_table(list(self.ablation["baseline"])[:1])
                + "Bold: more than two percentage points worse. A mechanism that costs nothing to remove here is either "
                "carried by other constants, or not exercised by these runs.\n\n")

    def ablation_table(self, names):
        rows = [["*as shipped*"] + [percent(self.ablation["baseline"][n]) for n in names]]
        for entry in self.ablation["mechanisms"]:
            row = [entry["name"]]
            for name in names:
                change = entry["errors"][name] - self.ablation["baseline"][name]
                value = percent(entry["errors"][name])
                row.append(f"**{value}**" if change > 0.02 else value)
            rows.append(row)
        return table(["removed"] + names, rows)

    def weaknesses(self):
        lines = ["## Weaknesses\n\n"]
        regimes = sorted((g for g in groups(self.summary, "regime") if g["step_time"]["rows"] >= 5),
                         key=lambda g: -g["step_time"]["mean_absolute_error"])
        for group in regimes[:3]:
            t = group["step_time"]
            lines.append(f"- **{group['value']}**: mean error {percent(t['mean_absolute_error'])} "
                         f"% (bias {signed(t['bias'])} %) over {t['rows']} runs.\n")
        low = next((g for g in groups(self.summary, "mfu") if g["value"] == "< 2 %"), None)
        if low and low["step_time"]["rows"]:
            t = low["step_time"]
            lines.append(f"- **Runs below 2 % utilisation** (tensor parallelism across nodes, tiny "
                         f"models on many GPUs): mean error {percent(t['mean_absolute_error'])} %; "
                         f"{percent(t['within_p10_p90'], 0)} % lie inside the interval. They "
                         "matter for ranking only.\n")
        total = groups(self.summary, "all")[0]
        covered = total["step_time"]["within_p10_p90"]
        if covered is not None:
            off = sorted((g for g in groups(self.summary, "source") if g["step_time"]["rows"] >= 8),
                         key=lambda g: -abs(g["step_time"]["within_p10_p90"] - 0.8))[:2]
            lines.append(f"- **Intervals** hold {percent(covered, 0)} % of all measured times (80 % "
                         "would be right), but not of every source: "
                         + ", ".join(f"{percent(g['step_time']['within_p10_p90'], 0)} % of "
                                     f"{g['value']}" for g in off) + ".\n")
        for group in groups(self.summary, "source"):
            for kind, e in group["memory"].items():
                if e["mean_absolute_error"] > 0.2:
                    lines.append(f"- **Memory of {group['value']}** ({kind}): mean error "
                                 f"{percent(e['mean_absolute_error'])} %, bias "
                                 f"{signed(e['bias'])} %, over {e['rows']} runs.\n")
        f = total["feasibility"]
        if f["measured_called_out_of_memory"] or f["failed_called_feasible"]:
            lines.append(f"- **Memory decides wrongly** for {f['measured_called_out_of_memory']} "
                         f"of {f['measured']} runs that ran, and lets {f['failed_called_feasible']}"
                         f" of {f['failed']} failed ones through (not all of those failed for "
                         "memory).\n")
        return "".join(lines) + (
            "- **Slow modes**: some published runs take several times as long as identical ones; "
            "no column explains them, nothing here predicts them.\n"
            "- **Mixture of experts** assumes balanced routing; low-precision recipes are "
            "represented by one kind of scaling each.\n"
            "- **No public table** has backward matrix or attention kernels, or large all-gather "
            "and reduce-scatter sweeps over many nodes: those rest on forward tables, stated "
            "ratios, and whole training steps.\n"
            "- **Constants stand in for each other**: launch cost, collective latency and "
            "element-wise traffic of one framework were fitted to the same steps.\n\n")

    def closing(self):
        return (
            "## Constants and data\n\n"
            "Every fitted constant, with value, unit, data and residual: "
            "[validation_constants.md](validation_constants.md).\n\n"
            "The shipped table holds every row of the papers, MLPerf, NeMo and torchao, and a "
            "systematic sample (every n-th row in published order, no selection by result) of "
            "vTrain, llm-foundry, the Ultra-Scale Playbook, Megatron-Bridge and Jean Zay.\n\nFacts of a "
            "network without a published column come from "
            "[`validation/architectures.yaml`](../validation/architectures.yaml) and are reported "
            "per row as `filled`. The columns are described in "
            "[validation_tables.md](validation_tables.md). The papers on Llama 3 and PTD-P do not "
            "say how many chunks a pipeline stage has: those rows are predicted without "
            "interleaving, which makes them look slower than they were.\n")

    def residual(self, constant):
        """Residual of a kernel curve, or the error of a framework's runs."""
        if constant.residual:
            return constant.residual + " of log(measured / predicted)"
        name = os.path.basename(constant.file)[:-len(".yaml")]
        if constant.key.rpartition(".")[2].startswith("memory_"):
            return self.memory_residual(name)
        by = "framework" if constant.file.startswith("frameworks/") else "hw"
        for group in groups(self.summary, by):
            t = group["step_time"]
            if group["value"] == name and t["rows"]:
                return (f"step time: mean {percent(t['mean_absolute_error'])} %, median "
                        f"{percent(t['median_absolute_error'])} % ({t['rows']} runs)")
        return "-"

    def memory_residual(self, framework):
        found = []
        summaries = [self.summary]
        if self.full and "memory" in self.full:
            summaries.append(self.full["memory"]["summary"])
        for summary in summaries:
            for group in groups(summary, "framework"):
                if group["value"] == framework:
                    found += [f"{kind} memory: mean {percent(e['mean_absolute_error'])} %, median "
                              f"{percent(e['median_absolute_error'])} % ({e['rows']} runs)"
                              for kind, e in group["memory"].items()]
        return "; ".join(found) or "-"

    def constants_text(self, constants):
        sources, files = [], {}
        for constant in constants:
            if constant.source not in sources:
                sources.append(constant.source)
            group, _, name = constant.key.rpartition(".")
            key = (group, sources.index(constant.source) + 1, self.residual(constant))
            files.setdefault(constant.file, {}).setdefault(key, []).append(
                f"`{name}` {constant.value}")
        text = (GENERATED + "# Fitted constants\n\n"
                f"All {len(constants)} constants of the shipped files that were fitted to "
                "measurements; the rest are datasheet values, published figures or assumptions, "
                "each marked so in its file. Numbers in brackets are the sources below. Written by "
                "`tools/validation_page.py`; see [validation.md](validation.md).\n\n")
        for file in files:
            rows = [[f"`{group}`" if group else "", ", ".join(values), f"[{source}]", residual]
                    for (group, source, residual), values in files[file].items()]
            text += f"## [{file}](../{file})\n\n" + table(
                ["group", "constants", "data", "residual"], rows, 4)
        text += "## Data\n\n"
        return text + "\n".join(f"{i}. {source}" for i, source in enumerate(sources, 1)) + "\n"
