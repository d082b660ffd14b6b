#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks two builds the same questions and lists what differs, value by value.

    python3 tools/compare_builds.py OLD NEW [--tables FILE.csv ...] [--quick] [--show ID]

OLD and NEW are executables; each reads the data beside its own sources unless PLANSEARCH_DATA says
otherwise. The questions are drawn with a fixed seed: every row of the shipped tables (and of those
named), 500 predictions over shipped machines, models and frameworks (some illegal: the exit codes
are compared), 30 searches, explanations and the signature of `bench`. Values are compared by key;
keys that only one build has are listed once and are no difference. Exit status: 0 equal, 1 not.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = ("published_runs.csv", "published_memory.csv")
SEED = 20240611
TOLERANCE = 1e-9  # relative; smaller changes are counted as last digits
LIMIT_S = 120
MOST_SEARCHED = 90e9  # parameters of searched models
# Lists of objects are matched by what names their items, not by position.
NAMES = (("id",), ("key",), ("set", "by", "value"), ("source", "model", "gpus", "hw"),
         ("what", "kind", "axis"), ("what",))
HEADLINES = ("rows.predicted_step_time_s", "rows.predicted_peak_memory_bytes", "rows.feasible",
             "rows.reason", "plans.step_time_s", "plans.peak_memory_bytes", "ranking", "exit code")


def ask(executable, arguments):
    """Exit status and standard output of one question; a time-out is status 'time'."""
    try:
        done = subprocess.run([executable, *arguments], stdout=subprocess.PIPE, timeout=LIMIT_S,
                              stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return "time", ""


# ---- the questions ---------------------------------------------------------------------------


def shipped(old, new, what):
    """Rows that both builds list, with the columns of the old one, by name."""
    texts = [ask(build, ["list", what, "--format", "json"])[1] for build in (old, new)]
    first, second = ({item["name"]: item for item in json.loads(text)} for text in texts)
    return [first[name] for name in sorted(first.keys() & second.keys())]


# Features that the frameworks below lack, so that most draws are legal; others can do all of it.
CANNOT = {
    "axonn": {"cp", "sp", "zero", "vpp", "selective"},
    "deepspeed": {"tp", "pp", "ring", "vpp", "selective", "sp"},
    "fsdp": {"tp", "pp", "cp", "vpp", "sp", "plain"},
    "internevo": {"ring", "selective"},
    "maxtext": {"pp", "cp", "vpp"},
    "megatron-deepspeed": {"vpp", "selective", "ring"},
    "nanotron": {"vpp", "selective"},
    "torchtitan": {"always-sp"},
}


def is_expert_model(name):
    path = ROOT / "models" / f"{name}.yaml"
    return path.exists() and "experts" in path.read_text()


def divisors(number, candidates):
    return [n for n in candidates if number % n == 0] or [1]


def drawn_degrees(rng, machine, model, cannot):
    """dp, tp, pp, cp within the machine; heads and layers divide."""
    tp = 1 if "tp" in cannot else rng.choice(divisors(int(model.get("heads") or 1), (1, 2, 4, 8)))
    pp = 1 if "pp" in cannot else rng.choice(divisors(int(model.get("layers") or 1), (1, 1, 2, 4, 8)))
    cp = 1 if "cp" in cannot else rng.choice((1, 1, 1, 1, 2, 4))
    most = min(int(machine.get("accelerators") or 8), 1024)
    dp = rng.choice((1, 2, 4, 8, 16, 32, 64))
    while tp * pp * cp * dp > most and dp > 1:
        dp //= 2
    return dp, tp, pp, cp


def surely_too_large(machine, model, flags, tp, pp):
    """Whether states and activations, by their usual estimates, exceed 0.7 of a device."""
    capacity = float(machine["memory"].split()[0]) * 2**30
    whole, cut = {0: (18, 0), 1: (6, 12), 2: (2, 16), 3: (0, 18)}[flags["zero"]]
    states = float(model["parameters"]) / (tp * pp) * (whole + cut / flags["dp"])
    tokens = int(model["seq_len"]) * flags["micro-batch"] / flags["cp"]
    kept = 4 if flags["recompute"] == "full" else 36 / tp
    activations = tokens * int(model["hidden"]) * int(model["layers"]) * kept
    return states + activations > 0.7 * capacity


def drawn_plan(rng, machine, model, framework):
    """Flags of one plan, most of them legal; None when the model is too large for the machine."""
    cannot = CANNOT.get(framework, set())
    for _ in range(40):
        dp, tp, pp, cp = drawn_degrees(rng, machine, model, cannot)
        micro = rng.choice((1, 1, 2, 4))
        flags = {"gpus": dp * tp * pp * cp, "dp": dp, "tp": tp, "pp": pp, "cp": cp,
                 "micro-batch": micro, "batch": dp * micro * pp * rng.choice((1, 2, 4, 8, 8, 16))}
        flags["zero"] = (0 if "zero" in cannot else rng.choice((2, 3)) if "plain" in cannot else
                         rng.choice((0, 1, 1, 2, 3)) if pp == 1 else rng.choice((0, 1)))
        levels = ("none", "full") if "selective" in cannot else ("none", "selective", "full")
        flags["recompute"] = rng.choice(levels)
        per_node = int(machine.get("per_node") or 1)
        whole = flags["gpus"] <= per_node or flags["gpus"] % per_node == 0
        if whole and not surely_too_large(machine, model, flags, tp, pp):
            break
    else:
        if rng.random() < 0.95:
            return None
    flags["sp"] = int(tp > 1 and "sp" not in cannot and ("always-sp" in cannot or rng.random() < 0.6))
    if framework == "axonn" and tp > 1:
        x = rng.choice(divisors(tp, (1, 2, 4)))
        flags.update({"tp-x": x, "tp-y": tp // x, "tp-z": 1})
        del flags["tp"]
    if cp > 1 and ("ring" in cannot or rng.random() < 0.3):
        flags["cp-kind"] = "ulysses"
    if pp > 1 and rng.random() < 0.4:
        layers = int(model.get("layers") or 1)
        flags["schedule"], flags["vpp"] = "gpipe", 1
        if "vpp" not in cannot and layers % (2 * pp) == 0:
            flags["schedule"], flags["vpp"] = "interleaved", 2
    if is_expert_model(model["name"]):
        flags["ep"] = rng.choice(divisors(dp * cp * tp, (1, 2, 4, 8)))
        if tp > 1 and "sp" not in cannot:
            flags["sp"] = 1
    if rng.random() < 0.06:  # one wrong number
        key = rng.choice(("dp", "pp", "batch", "gpus"))
        flags[key] = flags[key] + 1
    if rng.random() < 0.15:
        flags["overlap"] = rng.choice(("none", "all"))
    if rng.random() < 0.08:
        flags["precision"] = rng.choice(("fp16", "fp8", "fp32"))
    return [part for key, value in flags.items() for part in (f"--{key}", str(value))]


def predictions(rng, count, machines, models, frameworks):
    for number in range(count):
        plan = None
        while plan is None:
            machine, model, framework = map(rng.choice, (machines, models, frameworks))
            name = framework["name"]
            plan = drawn_plan(rng, machine, model, name)
        verb = "explain" if number % 20 == 19 else "predict"
        yield (f"{verb}-{number:03d}", verb,
               [verb, "--hw", machine["name"], "--model", model["name"], "--framework", name]
               + plan + ["--format", "json"])


def searches(rng, count, machines, models, frameworks):
    for number in range(count):
        machine, model = rng.choice(machines), rng.choice(
            [item for item in models if float(item["parameters"]) < MOST_SEARCHED])
        framework = rng.choice(["megatron"] * 4 + [item["name"] for item in frameworks])
        most = min(int(machine.get("accelerators") or 8), 128)
        per_node = int(machine.get("per_node") or 1)
        wanted = max(8.0, float(model["parameters"]) / 2e9)  # 36 GB of states each
        gpus = next((n for n in (8, 16, 32, 64, 128)
                     if n >= wanted and (n <= per_node or n % per_node == 0)), most)
        gpus = min(gpus, most)
        arguments = ["--hw", machine["name"], "--model", model["name"], "--gpus", str(gpus),
                     "--framework", framework, "--top", "10", "--threads", "1"]
        if number % 7 == 3:
            arguments.append("--exhaustive")
        verb = ["explain"] if number % 10 == 9 else []
        yield f"search-{number:02d}", "search", verb + arguments + ["--format", "json"]


def questions(options):
    old, new = options.old, options.new
    machines, models, frameworks = (shipped(old, new, what)
                                    for what in ("hw", "models", "frameworks"))
    suspect = ROOT / "validation" / "published_suspect.csv"
    for table in options.tables:
        more = ["--suspect", str(suspect)] if table.name in TABLES else []
        yield f"validate {table.name}", "validate", ["validate", str(table), "--format", "json",
                                                     *more]
    few = 5 if options.quick else 1
    yield from predictions(random.Random(SEED), 500 // few, machines, models, frameworks)
    yield from searches(random.Random(SEED + 1), 30 // few, machines, models, frameworks)
    if not options.quick:
        yield "bench", "bench", ["bench"]


# ---- values by key ---------------------------------------------------------------------------


def plan_name(config, keys):
    return " ".join(f"{key}={config[key]}" for key in sorted(keys))


def config_keys(document):
    """The names of the degrees that plans of this document have."""
    found = set()
    stack = [document]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            found |= set(item.get("config") or {}) if isinstance(item.get("config"), dict) else set()
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return found


def item_name(item, degrees):
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("config"), dict):
        return plan_name(item["config"], degrees & item["config"].keys())
    for keys in NAMES:
        if all(key in item for key in keys):
            return " ".join(str(item[key]) for key in keys)
    return None


def flatten(value, degrees, key="", place="", into=None):
    """{(key without list positions, place): leaf} of a JSON document."""
    into = {} if into is None else into
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in ("config", "rank", "tie_with_previous"):
                flatten(inner, degrees, f"{key}.{name}" if key else name, place, into)
    elif isinstance(value, list):
        names = [item_name(item, degrees) for item in value]
        if key == "plans" and len(names) > 1:
            into[("ranking", place)] = names
        seen = collections.Counter()
        for number, (name, item) in enumerate(zip(names, value)):
            name = str(number) if name is None else name
            seen[name] += 1
            again = f"~{seen[name]}" if seen[name] > 1 else ""
            flatten(item, degrees, key, f"{place} / {name}{again}".strip(" /"), into)
    else:
        into[(key, place)] = value
    return into


def read(group, text):
    if group == "bench":
        lines = [line for line in text.splitlines() if "signature" in line]
        return {"signature": lines[0].split("signature", 1)[1].split()[0] if lines else None}
    try:
        return json.loads(text) if text.strip() else {}
    except json.JSONDecodeError:
        return {"text": text}


def relative(old, new):
    """Relative change of two numbers; None when one of them is not a number."""
    for value in (old, new):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
    if old == new:
        return 0.0
    return (new - old) / max(abs(old), 1e-300) if old else float("inf")


class Differences:
    """Differing values, by key."""

    def __init__(self):
        self.changed = collections.defaultdict(list)  # (group, key) -> (relative, id, old, new)
        self.compared = collections.Counter()
        self.only = {"old": set(), "new": set()}
        self.items = collections.defaultdict(list)  # items (plans, messages) of one build only
        self.last_digits = 0

    def add(self, group, name, old, new):
        if old[0] != new[0]:
            self.changed[(group, "exit code")].append((float("inf"), name, old[0], new[0]))
            return
        documents = [read(group, text) for _, text in (old, new)]
        degrees = config_keys(documents[0]) & config_keys(documents[1])
        first, second = (flatten(document, degrees) for document in documents)
        keys = [{key for key, _ in leaves} for leaves in (first, second)]
        self.only["old"] |= keys[0] - keys[1]
        self.only["new"] |= keys[1] - keys[0]
        for leaf in first.keys() & second.keys():
            self.compare(group, name, leaf, first[leaf], second[leaf])
        for side, mine, other in (("old", first, second), ("new", second, first)):
            names = {(key, place) for key, place in mine.keys() - other.keys()
                     if key in keys[0] & keys[1]}
            for place in {place for _, place in names}:
                self.items[side].append(f"{name}: {place}" if place else name)

    def compare(self, group, name, leaf, old, new):
        key, place = leaf
        self.compared[(group, key)] += 1
        if old == new:
            return
        change = relative(old, new)
        if change is not None and abs(change) < TOLERANCE:
            self.last_digits += 1
            return
        self.changed[(group, key)].append((float("inf") if change is None else change,
                                           f"{name}: {place}" if place else name, old, new))


# ---- the summary -----------------------------------------------------------------------------


def short(value, most=44):
    text = f"{value:.7g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else text[:most - 3] + "..."


def print_key(group, key, entries, compared):
    finite = [abs(entry[0]) for entry in entries if abs(entry[0]) != float("inf")]
    spread = ""
    if finite:
        signed = sum(entry[0] for entry in entries if abs(entry[0]) != float("inf")) / len(finite)
        spread = (f", relative mean {signed:+.3%}, mean of sizes {sum(finite) / len(finite):.3%}, "
                  f"largest {max(finite):.3%}")
    print(f"{group}  {key}: {len(entries)} of {compared}{spread}")


def print_entries(entries, most):
    for change, name, old, new in sorted(entries, key=lambda e: (-abs(e[0]), e[1]))[:most]:
        size = "" if abs(change) == float("inf") else f"{change:+.3%}  "
        if isinstance(old, list):
            at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
            old, new = (f"rank {at + 1} {item[at] if at < len(item) else '-'}" for item in (old, new))
            print(f"    {size}{name}\n      {old}\n      {new}")
        else:
            print(f"    {size}{name[:110]}  {short(old)} -> {short(new)}")


def report(differences, counts, show):
    changed = differences.changed
    for (group, key), entries in sorted(changed.items(), key=lambda e: -len(e[1])):
        if key in HEADLINES or group == "bench":
            print_key(group, key, entries, differences.compared[(group, key)] or counts[group])
            print_entries(entries, 10)
    others = [item for item in changed.items() if item[0][1] not in HEADLINES
              and item[0][0] != "bench"]
    for (group, key), entries in sorted(others, key=lambda e: (e[0][0], -len(e[1])))[:40]:
        print_key(group, key, entries, differences.compared[(group, key)])
        if show or key.startswith("summary"):
            print_entries(entries, 10 if show else 2)
    for side in ("old", "new"):
        names = sorted(differences.only[side])
        if names:
            print(f"keys of the {side} build only: {', '.join(names[:60])}"
                  + (f" and {len(names) - 60} more" if len(names) > 60 else ""))
        items = differences.items[side]
        if items:
            print(f"items of the {side} build only: {len(items)}, such as {items[0][:150]}")
    if differences.last_digits:
        print(f"{differences.last_digits} values differ by less than {TOLERANCE:g} (last digits)")
    differ = sum(map(len, changed.values()))
    asked = ", ".join(f"{count} {group}" for group, count in counts.items())
    equal = not changed and not any(differences.items.values())
    print(f"asked {asked}; " + ("equal" if equal else f"{differ} values differ"))
    return 0 if equal else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="executable")
    parser.add_argument("new", help="executable")
    parser.add_argument("--tables", nargs="+", type=pathlib.Path, default=[],
                        help="more tables of measured runs, beside the shipped ones")
    parser.add_argument("--quick", action="store_true", help="a fifth of the questions, no bench")
    parser.add_argument("--show", metavar="ID", help="only this question, every difference")
    options = parser.parse_args()
    options.tables = [ROOT / "validation" / name for name in TABLES] + options.tables
    differences, counts = Differences(), collections.Counter()
    spent = {"old": 0.0, "new": 0.0}
    legal = 0
    for name, group, arguments in questions(options):
        if options.show and name != options.show:
            continue
        answers = []
        for side, build in (("old", options.old), ("new", options.new)):
            started = time.monotonic()
            answers.append(ask(build, arguments))
            spent[side] += time.monotonic() - started
        counts[group] += 1
        legal += group in ("predict", "explain") and answers[0][0] == 0
        if options.show:
            print(" ".join(arguments))
        differences.add(group, name, *answers)
    print(f"{legal} of {counts['predict'] + counts['explain']} predictions legal; "
          f"old {spent['old']:.0f} s, new {spent['new']:.0f} s")
    return report(differences, counts, options.show)


if __name__ == "__main__":
    sys.exit(main())
