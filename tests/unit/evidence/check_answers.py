#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `plansearch validate` on small tables: answers match their JSON schema, do not depend on
threads, and malformed tables are refused with file, line and column.

Usage: check_answers.py REPOSITORY EXECUTABLE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT, EXECUTABLE = pathlib.Path(sys.argv[1]), sys.argv[2]
TABLES = ROOT / "tests/data/validate"


def run(*arguments):
    return subprocess.run([EXECUTABLE, "validate", *map(str, arguments)], capture_output=True,
                          text=True, check=False)


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_tables():
    schema = json.loads((ROOT / "docs/schema/validate.v1.schema.json").read_text())
    for table in ("runs", "matmul", "attention", "collective"):
        extra = ["--suspect", TABLES / "suspect.csv"] if table == "runs" else []
        done = run(TABLES / f"{table}.csv", "--format", "json", *extra)
        check(done.returncode == 0, f"{table}: {done.stderr}")
        answer = json.loads(done.stdout)
        check(answer["table"] == table, f"{table} is recognised by its header")
        if jsonschema:
            jsonschema.Draft202012Validator(schema).validate(answer)
        again = run(TABLES / f"{table}.csv", "--format", "json", "--threads", "1", *extra)
        check(again.stdout == done.stdout, f"{table}: the same bytes for any number of threads")
        for form in ("table", "csv", "jsonl"):
            check(run(TABLES / f"{table}.csv", "--format", form).stdout, f"{table} as {form}")


def check_rows():
    rows = json.loads(run(TABLES / "runs.csv", "--format", "json").stdout)["rows"]
    by_id = {row["id"]: row for row in rows}
    good = by_id["korthikanti-22b-full"]
    check(good["expressible"] and good["reason"] is None, "the published run is expressible")
    check(abs(good["predicted_step_time_s"] / 1.42 - 1) < 0.1, "and within 10 %")
    deep = by_id["too-deep"]
    check(deep["feasible"] is False and deep["failed"], "more stages than layers cannot run")
    check(by_id["unknown-machine"]["expressible"] is False, "an unknown machine is told apart")


def check_malformed():
    """Every broken table: exit 2, the place, a remedy, and nothing on standard output."""
    text = (TABLES / "runs.csv").read_text()
    header = text.split("\n")[0] + "\n"
    broken = {"a negative time": (text.replace(",1.42,", ",-1.42,"), ":2:178:"),
              "a time of zero": (text.replace(",1.42,", ",0,"), ":2:178:"),
              "text in a number": (text.replace(",1.42,", ",quick,"), ":2:178:"),
              "no number": (text.replace(",1.42,", ",nan,"), ":2:178:"),
              "a missing column": (text.replace(",hidden,", ",hiden,"), ":1:1:"),
              "a repeated column": (text.replace(",locator,", ",source,"), ":1:11:"),
              "a short row": (text + "a,b\n", ":6:1:"),
              "an open quote": (text.replace("Table 5", '"Table 5'), ":2:65:"),
              "semicolons": (text.replace(",", ";"), ":1:1:"),
              "tabs": (text.replace(",", "\t"), ":1:1:"),
              "nothing": ("", ":1:1:"),
              "no rows": (header, ":1:1:"),
              "a profile that is not there": (text.replace("selene", "profiles/x.yaml"), ":2:73:"),
              "no table at all": ("x,y\n1,2\n", ":1:1:")}
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "broken.csv"
        for what, (content, place) in broken.items():
            path.write_text(content)
            done = run(path)
            check(done.returncode == 2, f"{what}: exit code {done.returncode}")
            check(f"broken.csv{place} error: " in done.stderr, f"{what}: {done.stderr}")
            if what != "a repeated column":
                check("hint: " in done.stderr, f"{what}: no remedy in {done.stderr}")
            check(not done.stdout, f"{what}: nothing on standard output")
        for absent in (directory, directory + "/absent.csv"):
            check(run(absent).returncode == 2, f"{absent} is no table")
        unknown = {"machine": header + text.split("\n")[3] + "\n",
                   "framework": text.replace(",megatron,", ",megatrn,").replace(",fsdp,", ",fdsp,")}
        for content in unknown.values():  # in every row: each is answered
            path.write_text(content)
            rows = json.loads(run(path, "--format", "json").stdout)["rows"]
            check(all(not row["expressible"] and "unknown" in row["reason"] for row in rows), rows)
        path.write_text(text)
        check(run(path, "--by", "no_such_column").returncode == 2, "--by names a column")


def check_dialects():
    """Spreadsheets write byte-order marks, carriage returns and quotes: the same answer."""
    text = (TABLES / "runs.csv").read_text()
    plain = run(TABLES / "runs.csv", "--format", "json").stdout
    variants = {"mark": b"\xef\xbb\xbf" + text.encode(),
                "returns": text.replace("\n", "\r\n").encode(),
                "quotes": text.replace("Table 5", '"Table ""5"", first row"').encode()}
    with tempfile.TemporaryDirectory() as directory:
        for what, content in variants.items():
            path = pathlib.Path(directory) / "runs.csv"
            path.write_bytes(content)
            check(run(path, "--format", "json").stdout == plain, what)


def check_foreign_profiles():
    """Rows may name profile files, beside the table or below it, and aliases of shipped ones."""
    text = (TABLES / "runs.csv").read_text()
    header, row = text.split("\n")[:2]
    shipped = ROOT / "hardware_profiles"
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        (folder / "machines").mkdir()
        (folder / "machines/mine.yaml").write_text(
            (shipped / "selene.yaml").read_text().replace("name: selene", "name: mine"))
        names = ["selene", "machines/mine.yaml", "./machines/mine.yaml", "A100-SXM4-80GB",
                 str(folder / "machines/mine.yaml")]
        lines = [header] + [row.replace("selene", name).replace("korthikanti-22b-full", f"r{i}")
                            for i, name in enumerate(names)]
        lines.append(row.replace(",fp16,", ",float16,").replace("GPT 22B", "").replace(
            "korthikanti-22b-full", "other-words"))
        (folder / "runs.csv").write_text("\n".join(lines) + "\n")
        done = run(folder / "runs.csv", "--format", "json")
        check(done.returncode == 0, done.stderr)
        times = [r["predicted_step_time_s"] for r in json.loads(done.stdout)["rows"]]
        check(None not in times and len(set(times)) == 1, f"the same machine: {times}")


def check_unknown_cells():
    """Empty cells are unknown: filled and reported, or a row that cannot be expressed."""
    text = (TABLES / "runs.csv").read_text().split("\n")
    header, row = text[0].split(","), text[1].split(",")

    def without(*columns, identifier):
        return ",".join(identifier if name == "id" else "" if name in columns else cell
                        for name, cell in zip(header, row))

    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "runs.csv"
        path.write_text("\n".join([text[0], without("layers", "heads", identifier="a"), text[1],
                                   without("attention", "precision", "vocab", "ffn_hidden", "tp",
                                           "model", "dp", "sp", "zero", "recompute", identifier="b")]) + "\n")
        rows = json.loads(run(path, "--format", "json").stdout)["rows"]
        check(not rows[0]["expressible"] and rows[0]["reason"] == "unknown: layers, heads", rows[0])
        check(rows[1]["expressible"] and rows[2]["expressible"], "the others are not affected")
        for what in ("attention flash", "precision bf16", "vocab 51200", "zero 1",
                     "recompute none"):
            check(what in rows[2]["filled"], f"{what} in {rows[2]['filled']}")


# Sizes that only columns say, and the model file of each: every kind of MLP and grouped, learned, rotary, routed.
NETWORKS = {
    "gelu": ({"mlp": "gelu", "layers": 24, "hidden": 2048, "heads": 16, "seq_len": 1024},
             {"attention": {"heads": 16, "positions": "learned", "bias": "all"}, "max_positions": 1024,
              "mlp": {"width": 8192, "activation": "gelu", "bias": True}, "norm": {"kind": "layernorm"},
              "embedding": {"vocab": 51200, "tied": True}, "dropout": {"residual": 0.1, "attention": 0.1}}),
    "gated": ({"mlp": "gated", "layers": 32, "hidden": 3072, "ffn_hidden": 8192, "heads": 24, "kv_heads": 8, "head_dim": 96,
               "vocab": 64000, "seq_len": 4096},
              {"attention": {"heads": 24, "kv_heads": 8, "head_size": 96, "positions": "rotary"},
               "mlp": {"width": 8192, "activation": "silu", "gated": True}, "norm": {"kind": "rmsnorm"},
               "embedding": {"vocab": 64000}}),
    "squared": ({"mlp": "squared-relu", "layers": 16, "hidden": 4096, "ffn_hidden": 16384, "heads": 32, "kv_heads": 8,
                 "vocab": 128000, "seq_len": 4096},
                {"attention": {"heads": 32, "kv_heads": 8, "positions": "rotary"},
                 "mlp": {"width": 16384, "activation": "squared-relu"}, "embedding": {"vocab": 128000}}),
    "experts": ({"mlp": "gated", "layers": 16, "hidden": 2048, "ffn_hidden": 8192, "heads": 16, "vocab": 32000, "seq_len": 2048,
                 "moe_experts": 8, "moe_topk": 2, "moe_ffn": 4096},
                {"attention": {"heads": 16, "positions": "rotary"}, "mlp": {"width": 8192, "activation": "silu", "gated": True},
                 "norm": {"kind": "rmsnorm"}, "embedding": {"vocab": 32000},
                 "experts": {"count": 8, "top_k": 2, "width": 4096}}),
}
PLANS = (("gelu", "selene", "megatron", {"tp": 4, "pp": 2, "zero": 1, "sp": 1, "recompute": "selective", "attention": "unfused"}),
         ("gelu", "jean-zay-v100-32", "megatron-deepspeed", {"pp": 4, "zero": 1, "recompute": "full", "precision": "fp16"}),
         ("gated", "dgx-h100", "megatron", {"tp": 2, "pp": 4, "vpp": 2, "zero": 0, "sp": 1, "precision": "fp8"}),
         ("gated", "dgx-h100", "torchtitan", {"pp": 2, "zero": 3, "recompute": "full", "schedule": "1F1B"}),
         ("gated", "dgx-h100", "megatron", {"pp": 4, "zero": 1, "recompute": "none", "schedule": "interleaved"}),
         ("gated", "dgx-h100", "megatron", {"pp": 4, "zero": 1, "recompute": "none", "schedule": "zb-v"}),
         ("gated", "mosaic-a100-80", "fsdp", {"zero": 3, "recompute": "full", "shard_group": 8}),
         ("gated", "dgx-h100", "megatron", {"cp": 2, "cp_kind": "ulysses", "main_grads": "bf16", "overlap": "none"}),
         ("squared", "dgx-h100", "megatron", {"tp": 8, "sp": 0, "implementation": "eager"}),
         ("experts", "dgx-h100", "megatron", {"ep": 8, "zero": 1, "precision": "bf16"}),
         ("experts", "h100-500w", "torchtitan", {"ep": 4, "zero": 3, "recompute": "selective"}))
# A table that leaves the precision out means what its framework usually runs; here both say it.
PLANS = tuple((network, machine, framework, {"precision": "bf16"} | plan) for network, machine, framework, plan in PLANS)


def check_networks_of_columns():
    """A row whose network only its columns say, and the same network in a model file: one price."""
    columns = ["id", "hw", "framework", "model", "gpus", "global_batch", "micro_batch", "step_time_s",
               *sorted({key for sizes, _ in NETWORKS.values() for key in sizes} | {key for *_, plan in PLANS for key in plan})]
    rows = [{"id": i, "hw": hardware, "framework": framework, "model": "own", "gpus": 16, "global_batch": 64, "micro_batch": 2,
             "step_time_s": 1} | NETWORKS[network][0] | plan for i, (network, hardware, framework, plan) in enumerate(PLANS)]
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        lines = [",".join(columns), *(",".join(str(row.get(column, "")) for column in columns) for row in rows)]
        (folder / "runs.csv").write_text("\n".join(lines) + "\n")
        done = run(folder / "runs.csv", "--format", "json", "--site", "tuned")
        check(done.returncode == 0, done.stderr)
        for row, answer, (network, hardware, framework, plan) in zip(rows, json.loads(done.stdout)["rows"], PLANS, strict=True):
            sizes, parts = NETWORKS[network]
            model = folder / "model.json"
            model.write_text(json.dumps({"schema": "plansearch/model/v1", "name": "own", "source": "the columns",
                                         "layers": sizes["layers"], "hidden": sizes["hidden"],
                                         "training": {"seq_len": sizes["seq_len"], "global_batch": 64}} | parts))
            flags = [word for key, value in plan.items() for word in (f"--{key.replace('_', '-')}", str(value).lower())]
            priced = subprocess.run([EXECUTABLE, "predict", "--hw", hardware, "--model", model, "--framework", framework, "--gpus", "16",
                                     "--batch", "64", "--micro-batch", "2", "--site", "tuned", *flags, "--format", "json"],
                                    capture_output=True, text=True, check=False)
            check(priced.returncode in (0, 3) and priced.stdout, f"{row}: {priced.stderr}")
            predicted = json.loads(priced.stdout)["plans"][0]
            check(answer["predicted_step_time_s"] == predicted["step_time_s"], f"{row}: step")
            if "recompute" not in plan:  # p10 and p90 are of a mixture, memory the least of what the framework may run with
                continue
            for there, here in (("predicted_p10_s", "step_time_p10_s"), ("predicted_p90_s", "step_time_p90_s"),
                                ("needed_memory_bytes", "peak_memory_bytes")):
                check(answer[there] == predicted[here], f"{row}: {there} {answer[there]}, predict says {predicted[here]}")


check_networks_of_columns()
check_tables()
check_rows()
check_malformed()
check_dialects()
check_foreign_profiles()
check_unknown_cells()
