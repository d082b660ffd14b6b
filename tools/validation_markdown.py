# SPDX-License-Identifier: Apache-2.0
"""Markdown tables of the summaries that `plansearch validate --format json` gives."""


def percent(value, digits=1):
    return "-" if value is None else f"{100 * value:.{digits}f}"


def signed(value):
    return "-" if value is None else f"{100 * value:+.1f}"


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(titles, rows, right_from=1):
    """A Markdown table; columns from `right_from` on are aligned to the right."""
    lines = ["| " + " | ".join(titles) + " |",
             "|" + "|".join("---" if i < right_from else "---:" for i in range(len(titles))) + "|"]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n\n"


def groups(summary, by, which="all"):
    return [g for g in summary if g["by"] == by and g["set"] == which]


def both(summary, by):
    """(group of all rows, the same group without suspects) in order; the second may be absent."""
    trusted = {g["value"]: g for g in groups(summary, by, "without_suspects")}
    return [(g, trusted.get(g["value"])) for g in groups(summary, by)]


def error_row(name, group, trusted):
    t = group["step_time"]
    row = [name, t["rows"], percent(t["mean_absolute_error"]), percent(t["median_absolute_error"]),
           percent(t["p90_absolute_error"]), signed(t["bias"]), percent(t["within_p10_p90"], 0)]
    u = trusted["step_time"] if trusted else None
    if u is None or u["rows"] == 0:
        return row + ["-"] * 4
    return row + [u["rows"], percent(u["mean_absolute_error"]),
                  percent(u["median_absolute_error"]), percent(u["within_p10_p90"], 0)]


def name_of(group):
    if group["by"] == "all":
        return "**all**"
    if group["by"] == "mfu":
        return f"MFU {group['value']}"
    if group["by"] == "known":
        return "every switch published" if group["value"] == "1" else "some switches assumed"
    return group["value"]


ERROR_TITLES = ["set", "rows", "mean %", "median %", "p90 %", "bias %", "inside %", "rows*",
                "mean* %", "median* %", "inside* %"]


def error_table(summary, kinds):
    rows = []
    for by in kinds:
        for group, trusted in both(summary, by):
            if group["step_time"]["rows"]:
                rows.append(error_row(name_of(group), group, trusted))
    return table(ERROR_TITLES, rows)


VIEWS = ("own_site", "typical", "left_out")
SITE_TITLES = ["set", "rows", "own site %", "bias %", "inside %", "typical %", "bias %", "inside %",
               "left out %", "bias %", "inside %"]


def view_cells(errors, mean="mean_absolute_error"):
    return [percent(errors[mean]), signed(errors["bias"]), percent(errors["within_p10_p90"], 0)]


def site_row(name, rows, parts):
    return [name, rows] + [cell for part in parts for cell in view_cells(part)]


def site_table(summary, kinds, which):
    """Three errors side by side of the groups of a set; all of them weighed alike below the first."""
    rows = []
    for by in kinds:
        for group in groups(summary, by, which):
            views = [group["at_sites"][view] for view in VIEWS]
            if not views[1]["rows"]:
                continue
            rows.append(site_row(name_of(group), views[1]["rows"], views))
            if by != "all":
                continue
            for key, words in (("sources_alike", "sources weighed alike"),
                               ("sites_alike", "sites of 5 rows or more weighed alike")):
                alike = [view[key] for view in views]
                if alike[1]["groups"] > 1:
                    rows.append(site_row(words, alike[1]["groups"], alike))
    return table(SITE_TITLES, rows)


def left_out_words(summary, which):
    """What a laboratory that no fit of sites has seen can expect."""
    alike = groups(summary, "all", which)[0]["at_sites"]["left_out"]["sites_alike"]
    return (f"{alike['groups']} sites of five rows or more, each left out: median of their mean errors "
            f"**{percent(alike['median_of_mean_errors'])} %**, bias {signed(alike['bias'])} %, "
            f"{percent(alike['within_p10_p90'], 0)} % of their measured times between p10 and p90, "
            f"{percent(alike['groups_below_40_percent_inside'], 0)} % of the sites below 40 %.\n\n")


def memory_table(named, kinds=("all", "source")):
    rows = []
    for name, summary in named:
        for by in kinds:
            if by == "source" and len(groups(summary, "source")) == 1:
                continue
            for group, trusted in both(summary, by):
                for kind, e in group["memory"].items():
                    row = [name if by == "all" else group["value"], kind, e["rows"],
                           percent(e["mean_absolute_error"]), percent(e["median_absolute_error"]),
                           percent(e["p90_absolute_error"]), signed(e["bias"])]
                    u = trusted["memory"].get(kind) if trusted else None
                    row += [u["rows"], percent(u["mean_absolute_error"]),
                            percent(u["median_absolute_error"])] if u else ["-"] * 3
                    rows.append(row)
    return table(["set", "figure", "rows", "mean %", "median %", "p90 %", "bias %", "rows*",
                  "mean* %", "median* %"], rows, 2)


def ranking_table(summary, kinds=("all", "source", "framework")):
    rows = []
    for by in kinds:
        for group, trusted in both(summary, by):
            r = group["ranking"]
            if r["sweeps"] == 0:
                continue
            u = trusted["ranking"] if trusted else r
            tau = "-" if r["mean_tau"] is None else f"{r['mean_tau']:.3f}"
            tau_trusted = "-" if u["mean_tau"] is None else f"{u['mean_tau']:.3f}"
            rows.append(["**all**" if by == "all" else group["value"], r["sweeps"],
                         percent(r["mean_regret"]), percent(r["median_regret"]),
                         f"{r['top1']}/{r['sweeps']}", f"{r['top3']}/{r['sweeps']}",
                         r["tau_sweeps"], tau, percent(u["mean_regret"]),
                         percent(u["median_regret"]), tau_trusted])
    return table(["sweeps of", "sweeps", "mean regret %", "median regret %", "top-1", "top-3",
                  "of >= 3 plans", "tau-b", "mean regret* %", "median regret* %", "tau-b*"], rows)


def risk_table(found):
    rows = []
    for group in found:
        risk = group["memory_risk"]
        cells = [f"{b['failed']}/{b['rows']} ({percent(b['failed'] / b['rows'])} %; "
                 f"{percent(b['stated'])} % stated)" if b["rows"] else "-" for b in risk["bins"]]
        rows.append([group["value"], risk["rows"], *cells, f"{risk['brier']:.3f}",
                     f"{risk['brier_hard_limit']:.3f}", f"{risk['brier_base_rate']:.3f}"])
    return table(["source", "rows", "fits: risk up to 0.1", "tight: up to 0.5", "up to 0.9",
                  "above 0.9", "Brier", "hard limit", "base rate"], rows)


def draws_table(study):
    """Errors of a typical site without the laboratory, and of what fits on a few rows leave on the others."""
    rows = [[group["group"], group["rows"], percent(group["error_before"]), percent(group["error_after"]),
             percent(group["refused"], 0), "worse" if group["worse"] else ""] for group in study["groups"]]
    rows.append(["**median of groups** (refused: mean)", len(rows), percent(study["median_error_before"]),
                 percent(study["median_error_after"]), percent(study["refused"], 0), ""])
    return table([f"{study['repeat']} draws of {study['runs']} rows", "rows", "before %", "after %", "refused %", ""], rows)


def feasibility_table(summary, kinds=("all", "source")):
    rows = []
    for by in kinds:
        for group in groups(summary, by):
            f = group["feasibility"]
            quiet = f["measured_called_illegal"] + f["measured_called_out_of_memory"] + f["failed"]
            if by == "source" and quiet + group["inexpressible"] == 0:
                continue
            rows.append(["**all**" if by == "all" else group["value"], f["measured"],
                         f["measured_called_illegal"], f["measured_called_out_of_memory"],
                         f["failed"], f["failed_called_illegal"], f["failed_called_out_of_memory"],
                         f["failed_called_feasible"], group["inexpressible"]])
    return table(["rows of", "ran", "called illegal", "called too large", "failed",
                  "called illegal", "called too large", "called feasible", "inexpressible"], rows)
