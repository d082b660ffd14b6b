# SPDX-License-Identifier: Apache-2.0
"""The section of docs/validation.md on sources in no fit: answers as first asked, and those of today."""
import csv

from statistics import mean, median

from validation_markdown import percent, signed, table
from validation_summary import validate


def unseen_tables(binary, shipped):
    """(name, rows of the answer of today, first answers by row) of every table validation/unseen_*.csv, timed or not."""
    found = []
    for first in sorted(shipped.glob("unseen_*_answers.csv")):
        path = first.with_name(first.name.replace("_answers", ""))
        with open(first, newline="", encoding="utf-8") as file:
            found.append((path.stem, validate(binary, path)["rows"], {row["id"]: row for row in csv.DictReader(file)}))
    return found


def timed(rows):
    return [row for row in rows if row["measured_step_time_s"] is not None]


def answered(row, predicted):
    """(error, whether the measured time lies between p10 and p90); None where there is no answer."""
    middle, low, high = (predicted[f"predicted_{name}_s"] for name in ("step_time", "p10", "p90"))
    if middle in ("", None):
        return None
    measured = row["measured_step_time_s"]
    return float(middle) / measured - 1, float(low) <= measured <= float(high)


def by_source(rows, answer_of):
    found = {row["source"]: [] for row in rows}
    for row in rows:
        answer = answered(row, answer_of(row))
        if answer:
            found[row["source"]].append(answer)
    return found


def cells(answers):
    if not answers:
        return ["0", "-", "-", "-"]
    errors = [error for error, _ in answers]
    return [str(len(answers)), percent(mean(map(abs, errors))), signed(mean(errors)),
            percent(mean(inside for _, inside in answers), 0)]


def alike(found):
    """Sources weigh alike: their number, rows, mean, median, bias and share inside."""
    some = [answers for answers in found.values() if answers]
    errors = [mean(abs(error) for error, _ in answers) for answers in some]
    return {"sources": len(some), "rows": sum(map(len, some)), "mean": mean(errors), "median": median(errors),
            "bias": mean(mean(error for error, _ in answers) for answers in some),
            "inside": mean(mean(inside for _, inside in answers) for answers in some)}


def answers_text(name, every, first):
    rows = timed(every)
    then, now = by_source(rows, lambda row: first[row["id"]]), by_source(rows, lambda row: row)
    total = [[label, f"{one['rows']} of {len(rows)}", f"{one['sources']} of {len(found)}", percent(one["mean"]),
              percent(one["median"]), signed(one["bias"]), percent(one["inside"], 0)]
             for label, found in (("as first asked", then), ("now", now)) for one in (alike(found),)]
    each = [[source] + cells(then[source]) + cells(now[source]) for source in now]
    columns = [f"{when} {what}" for when in ("first", "now") for what in ("rows", "mean %", "bias %", "inside %")]
    return (
        f"[`{name}.csv`](../validation/{name}.csv), {len(rows)} timed rows of {len(now)} sources; first answers: "
        f"[`{name}_answers.csv`](../validation/{name}_answers.csv); `tools/validation_summary.py validation/{name}.csv --binary "
        "BINARY` prints those of today.\n\n"
        + table([name, "rows answered", "sources", "mean of sources %", "median of sources %", "bias %", "inside %"], total, 1)
        + table(["source"] + columns, each, 1))


def unseen_text(tables):
    return (
        "## Sources in no fit\n\n"
        "Published runs that were collected before any of them was predicted. No constant is fitted to them. *First*: the "
        "answers to what the sources publish, before any of them was checked. *Now*: after what they showed to be missing or wrong was "
        "mended (mostly names of frameworks, networks and routings), so that it is not out of sample any more. Step times; sources weigh alike; "
        "some of their laboratories have other runs in the fits.\n\n"
        + "".join(answers_text(*one) for one in tables))
