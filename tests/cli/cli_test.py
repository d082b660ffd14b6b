#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End-to-end tests of the plansearch executable: exit codes, messages, answers.

  python3 tests/cli/cli_test.py --binary build/check/plansearch [Errors Answers ...]
  python3 tests/cli/cli_test.py --binary build/check/plansearch --update   # rewrite golden files
"""

import argparse
import csv
import functools
import html.parser
import io
import itertools
import json
import math
import os
import pathlib
import pty
import re
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

import bad_inputs
import json_schema

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
BINARY = None
UPDATE = False

QUESTION = ["--hw", "perlmutter", "--model", "gpt2-xl"]


def typed_again(arguments, text):
    """Hints that propose an option with the very value that was typed."""
    words = [str(word) for word in arguments]
    typed = [f"{name} {value}" for name, value in zip(words, words[1:], strict=False)
             if name.startswith("--") and value and not value.startswith("-")]
    return [hint for hint in re.findall(r"(?m)^hint: .*", text) for option in typed
            if re.search(re.escape(option) + r"(?![\w.,/-])", hint)]


def run(*arguments, stdin=None, env=None):
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | (env or {})
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                          errors="replace", stdin=stdin, env=environment, timeout=3600, check=False)
    hints = typed_again(arguments, done.stdout + done.stderr)
    if hints:
        raise AssertionError(f"{arguments}: a hint repeats the option typed: {hints}")
    return done


class Case(unittest.TestCase):
    """A directory of its own, and what most tests ask."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plansearch-cli-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def file(self, name, content):
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def succeed(self, *arguments, env=None):
        result = run(*arguments, env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def compare(self, name, *arguments):
        text = self.succeed(*arguments)
        path = HERE / "golden" / name
        if UPDATE:
            path.write_text(text)
        self.assertEqual(text, path.read_text(), f"{name}: if this is meant, run with --update")

    def answer(self, *arguments):
        return json.loads(self.succeed(*arguments, "--format", "json"))

    def refuse(self, *arguments, expect, code=2):
        """Exit code, nothing on standard output, and every expected text in the message."""
        result = run(*arguments)
        self.assertEqual(result.returncode, code, (arguments, result.stdout, result.stderr))
        self.assertEqual(result.stdout, "")
        self.assertIn("error:", result.stderr)
        for text in expect:
            self.assertIn(text, result.stderr)
        return result.stderr


class Usage(Case):
    def test_help_and_version(self):
        self.assertIn("--model", self.succeed("--help"))
        predict = self.succeed("predict", "--help")
        for words in ("Usage: plansearch predict", "--plan", "--hw", "--micro-batch", "-o,--out", "-q,--quiet"):
            self.assertIn(words, predict)
        self.assertNotIn("--hw", self.succeed("schedule", "--help"))
        self.assertIn("--pp 2..8", self.succeed("--help"))
        self.assertIn("--max-pp 8", self.succeed("compare", "--help"))

    def test_help_fits_the_screen(self):
        commands = re.findall(r"^  (\w+) ", self.succeed("--help").split("Subcommands:")[1], re.M)
        self.assertGreaterEqual(len(commands), 8)
        for screen in (80, 120):
            for command in ([], *([name] for name in commands)):
                result = run(*command, "--help", env={"COLUMNS": str(screen)})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), screen, command)

    def test_no_arguments_are_a_short_help(self):
        text = self.succeed()
        self.assertIn("plansearch --hw", text)
        self.assertLess(len(text.splitlines()), 20)

    def test_options_a_command_does_not_take(self):
        self.refuse("list", "hw", "--tp", "2", expect=["list takes no --tp"])
        self.refuse("explain", "--hw", "dgx-h100", "--write-plan", "x.yaml",
                    expect=["explain takes no --write-plan", "taken by predict"])
        self.refuse("compare", "--hw", "dgx-h100", "--temporal", "2x2", expect=["--temporal 2x2", "search and predict take them"])
        self.refuse("--tp", "2", "predict", "--tp", "4", expect=["--tp: given more than once"])

    def test_models_from_a_folder_and_from_standard_input(self):
        config = SOURCE / "tests/data/hf/llama-3-8b.json"
        folder = self.directory / "llama-3-8b"
        folder.mkdir()
        shutil.copy(config, folder / "config.json")
        question = ["--hw", "h100", "--gpus", "8", "--format", "json", "--top", "1", "-q"]
        by_folder = json.loads(self.succeed("--model", folder, *question))
        answer = self.directory / "answer.json"
        self.succeed("--model", folder, *question, "-o", answer)
        again = self.answer("predict", "--plan", answer)
        self.assertEqual(again["plans"][0]["step_time_s"], by_folder["plans"][0]["step_time_s"])
        with open(config, encoding="utf-8") as stdin:
            piped = run("--model", "-", *question, stdin=stdin)
        self.assertEqual(piped.returncode, 0, piped.stderr)
        self.assertEqual(json.loads(piped.stdout)["plans"], by_folder["plans"])
        self.assertEqual(by_folder["question"]["hardware"], "dgx-h100")

    def test_plan_from_standard_input(self):
        result = self.directory / "result.json"
        self.succeed(*QUESTION, "--gpus", "64", "--format", "json", "-o", result)
        with open(result, encoding="utf-8") as stdin:
            piped = run("predict", "--plan", "-#2", "--format", "json", stdin=stdin)
        self.assertEqual(piped.returncode, 0, piped.stderr)
        self.assertEqual(json.loads(piped.stdout)["plans"][0]["step_time_s"],
                         json.loads(result.read_text())["plans"][1]["step_time_s"])
        self.assertRegex(self.succeed("--version"), r"^plansearch \d+\.\d+\.\d+\n$")

    def test_missing_question(self):
        self.refuse("--hw", "perlmutter", expect=["--model", "hint:"])

    def test_misspelled_words(self):
        self.refuse(*QUESTION, "--gpu", "64", expect=["--gpu", "did you mean --gpus"])
        for word, ours in (("--qlora", "--task qlora"), ("--max-steps", "--tokens"), ("--cutoff-len", "--seq-len"),
                           ("--per_device_train_batch_size", "--micro-batch"), ("--tensor-model-parallel-size", "--tp")):
            self.refuse(*QUESTION, word, "2", expect=[f"unknown option '{word}'", f"plansearch calls it {ours}"])
        self.refuse(*QUESTION, "--samples", "2", expect=["--tokens, sequences of the whole run times --seq-len"])
        self.refuse("capacity", *QUESTION, "--confidence", "90", expect=["capacity says the chance of a limit"])
        self.refuse("finetune", "Qwen3-8B", expect=["--gpus 1 --task sft|lora|qlora|dpo"])

    def test_plans_are_given_by_name_or_flag(self):
        plan = self.directory / "plan.yaml"
        self.succeed("predict", *QUESTION, "--gpus", "64", "--micro-batch", "4", "--write-plan", str(plan))
        for command in (["predict"], ["explain"], ["diagnose", "--measured", "1s"]):
            self.assertEqual(self.succeed(*command, "--plan", str(plan)), self.succeed(*command, str(plan)))
        listed = self.answer("--plan", str(plan), "--micro-batch", "2,4")["plans"]
        self.assertEqual({plan["config"]["micro_batch"] for plan in listed}, {2, 4})  # not the plan's own value alone
        script = self.file("run.sh", "torchrun pretrain_gpt.py\n")
        for wrong in (script, self.file("ds.json", '{"train_batch_size": 8}')):
            self.refuse("predict", "--plan", str(wrong), expect=["not a plan document", f"plansearch import {wrong}"])
        self.refuse("predct", expect=["predct", "predict"])
        self.refuse(*QUESTION, "--format", "xml", expect=["xml", "table, json, jsonl, csv"])
        self.refuse(*QUESTION, "--gpus", "many", expect=["many"])
        self.refuse("list", "things", expect=["things", "models"])
        self.refuse(*QUESTION, "--space", "everything", expect=["everything", "megatron"])

    def test_gpu_counts(self):
        for count in ("0", "-4", "6", "100000000"):
            self.refuse(*QUESTION, "--gpus", count, expect=[f"--gpus {count}", "hint:", "nodes"])
        self.refuse(*QUESTION, "--nodes", "0", expect=["--nodes 0"])
        self.refuse(*QUESTION, "--gpus", "8", "--nodes", "2", expect=["--gpus and --nodes"])

    def test_more_gpus_than_the_profiled_machine(self):
        answer = self.answer("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "8192", "--batch",
                             "8192")
        self.assertTrue(answer["plans"])
        self.assertIn("8192 GPUs are more than the 6144 of perlmutter", answer["evidence"])

    def test_numbers_that_are_none(self):
        for value in ("99999999999999999999", "1e-3", "4.5", "", "0x10", "8 x"):
            self.refuse(*QUESTION, "--gpus", value, expect=["--gpus: ", "hint: --gpus N"])
        self.refuse(*QUESTION, "--gpus", expect=["--gpus: needs a value"])
        self.refuse(*QUESTION, "--gpus", "8", "--gpus", "16", expect=["more than once"])
        self.refuse(*QUESTION, "--nodes", "2147483647", expect=["at most 4194304"])
        self.refuse(*QUESTION, "--batch", "99999999999999999999", expect=["--batch: 9999"])
        for value in ("0", "-1", "nan", "inf", "soon"):
            self.refuse(*QUESTION, "--time-limit", value, expect=["--time-limit", "above zero"])
        self.refuse(*QUESTION, "--threads", "-1", expect=["0 to 4096"])
        self.refuse(*QUESTION, "--top", "0", expect=["1 to 10000"])
        self.refuse("predict", *QUESTION, "--dp", "65536", "--pp", "2147483647", expect=["--pp 21474"])

    def test_commands_without_their_argument(self):
        self.refuse("list", expect=["list: its argument is missing", "what to list: hw|models"])
        self.refuse("-hw", "perlmutter", expect=["'-hw'", "--hw"])
        self.refuse("completion", expect=["its argument is missing", "zsh"])
        self.refuse("validate", expect=["its argument is missing", "CSV of measured runs"])
        self.refuse("explain", self.directory / "none.json", expect=["none.json: error: cannot open"])

    def test_learned_positions_end(self):
        self.refuse(*QUESTION, "--gpus", "8", "--seq-len", "4096",
                    expect=["--seq-len 4096: gpt2-xl has 1024 learned positions", "1024 or less"])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--seq-len", "1025", expect=["1024 or less"])
        self.succeed("--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--seq-len", "16384",
                     "--batch", "64")

    def test_batch_and_sequence(self):
        self.refuse(*QUESTION, "--gpus", "8", "--batch", "0", expect=["--batch 0"])
        self.refuse(*QUESTION, "--gpus", "8", "--seq-len", "-1", expect=["--seq-len -1"])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--batch", "12",
                    expect=["batch 12", "legal values", "1, 2, 3, 4, 6, 12"])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--micro-batch", "7",
                    expect=["--micro-batch 7", "legal values"])

    def test_memory_reserve(self):
        self.refuse(*QUESTION, "--gpus", "8", "--mem-reserve", "2", expect=["--mem-reserve", "GiB"])
        self.refuse(*QUESTION, "--gpus", "8", "--mem-reserve", "80 GiB", expect=["leaves nothing"])

    def test_precision_the_accelerator_lacks(self):
        self.refuse(*QUESTION, "--gpus", "8", "--precision", "fp8", expect=["fp8", "bf16", "hint:"])
        self.refuse(*QUESTION, "--gpus", "8", "--precision", "int3", expect=["int3", "bf16"])

    def test_overlap_and_rank_order(self):
        self.refuse(*QUESTION, "--gpus", "8", "--overlap", "magic", expect=["magic", "grad"])
        self.refuse(*QUESTION, "--gpus", "8", "--rank-order", "tp-xx", expect=["xx", "dp"])
        self.refuse(*QUESTION, "--gpus", "8", "--rank-order", "tp-tp", expect=["twice"])

    def test_unknown_names(self):
        self.refuse("--hw", "perlmuter", "--model", "gpt2-xl", expect=["perlmuter", "perlmutter"])
        self.refuse("--hw", "perlmutter", "--model", "gpt2-xxl", expect=["gpt2-xxl", "gpt2-xl"])
        self.refuse(*QUESTION, "--framework", "megatrom", expect=["megatrom", "megatron"])
        self.refuse("--hw", "dgxh10", "--model", "gpt2-xl", expect=["did you mean dgx-h100"])
        self.refuse("--hw", "perlmutter", "--model", "gpt2xlarge", expect=["gpt2-xl"])
        self.refuse("--hw", "none.yaml", "--model", "gpt2-xl", expect=["no such file here", "plansearch list hw"])

    def test_aliases_and_spelling(self):
        wanted = self.succeed("predict", *QUESTION, "--gpus", "4", "--zero", "1")
        for hardware in ("perlmutter.yaml", "Perlmutter", SOURCE / "hardware_profiles/perlmutter.yaml"):
            text = self.succeed("predict", "--hw", hardware, "--model", "GPT2_XL", "--gpus", "4", "--zero", "1")
            self.assertEqual(text.replace(f"hardware={hardware} (flag), ", ""), wanted)


class Degrees(Case):
    def test_heads(self):
        for command in ([], ["predict"]):
            self.refuse(*command, *QUESTION, "--gpus", "56", "--tp", "7",
                        expect=["--tp 7", "25", "legal values: 1, 5, 25"])

    def test_every_degree_can_be_pinned_in_a_search(self):
        grid = self.answer(*QUESTION, "--gpus", "16", "--framework", "axonn", "--tp-x", "2", "--tp-z",
                           "2")
        for plan in grid["plans"]:
            self.assertEqual((plan["config"]["tp_x"], plan["config"]["tp_z"]), (2, 2))
        groups = self.answer(*QUESTION, "--gpus", "16", "--framework", "fsdp", "--shard-group", "4")
        self.assertEqual({plan["config"]["shard_group"] for plan in groups["plans"]}, {4})

    def test_two_spellings_of_tensor_parallelism(self):
        self.refuse("predict", *QUESTION, "--gpus", "8", "--tp", "5", "--tp-x", "5",
                    expect=["--tp together with --tp-x"])

    def test_grids_that_do_not_divide(self):
        asked = ["--hw", "perlmutter", "--model", "gpt3-175b", "--framework", "axonn"]
        for command in ([], ["predict"]):
            for flags, wanted in (
                    (["--gpus", "28", "--tp-x", "7"], ["--tp-x 7", "12288 hidden", "1, 2, 3, 4, 6"]),
                    (["--gpus", "20", "--tp-x", "2", "--tp-y", "5"], ["--tp-y 5", "96 attention heads", "1, 2, 3, 4, 6"]),
                    (["--gpus", "16", "--tp-z", "16", "--batch", "24"],
                     ["--tp-z 16", "batch 24", "legal values: 1, 2, 3, 4, 6, 8, 12, 24"]),
                    (["--gpus", "8", "--tp", "4", "--tp-x", "2"], ["--tp together with --tp-x", "--tp-y N"])):
                self.refuse(*command, *asked, *flags, expect=wanted)
        self.refuse("predict", *asked, "--gpus", "64", "--tp-y", "4", "--tp-z", "8", "--dp", "2", "--batch", "24",
                    expect=["dp 2 x tp-z 8", "legal values of dp x tp-z", "24"])

    def test_operators_in_steps(self):
        asked = ["predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--batch", "16", "--tp", "8",
                 "--micro-batch", "2"]
        for square, wanted in (("2x3", ["squares only", "--temporal 2x2"]), ("2", ["no square"]), ("0x0", ["2x2 or 4x4"]),
                               ("4x4", ["16 devices", "--tp 16"])):
            self.refuse(*asked, "--temporal", square, expect=["--temporal " + square, *wanted])
        self.refuse(*asked, "--temporal", "2x2", expect=["forbidden by the framework", "no operator in steps", "--framework primepar"])
        self.refuse(*asked, "--temporal", "2x2", "--target", "megatron", expect=["no operator in steps"], code=4)
        written = self.directory / "squares.yaml"
        primepar = [*asked, "--framework", "primepar", "--temporal", "2x2"]
        squares = self.answer(*primepar)["plans"][0]
        run(*primepar, "--write-plan", str(written))
        self.assertEqual(self.answer("predict", "--plan", str(written))["plans"][0]["step_time_s"], squares["step_time_s"])
        self.assertEqual(squares["config"]["placements"]["factors"], [2, 2, 2])
        tiles = [c for c in squares["communication"] if c["kind"] == "send-receive"]
        self.assertTrue(any("mlp" in c["what"] or "up" in c["what"] for c in tiles))
        self.assertLess(sum(c["exposed_s"] for c in tiles), sum(c["count"] * c["time_s"] for c in tiles))
        # A plan's operators by name: what is no product, has not the dimension, or is no square.
        text = written.read_text()
        for old, new, wanted in (("n: hidden", "n: positions", ["no dimension"]), ("m: batch", "m: head_size", ["of its input"]),
                                 ("columns: [t0]", "columns: [t1]", ["used twice"])):
            broken = self.file("broken.yaml", text.replace(old, new))
            self.refuse("predict", "--plan", str(broken), expect=wanted)
        self.refuse("predict", "--plan", str(written), "--temporal", "2x2", expect=["beside a plan"])
        self.refuse("predict", "--plan", str(written), "--temporal", "ring", expect=["temporal ring is asked for"])

    def test_rings_under_products(self):
        asked = ["predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--batch", "16", "--tp", "8",
                 "--micro-batch", "16", "--recompute", "full"]
        ring = [*asked, "--framework", "torchtitan-async-tp", "--temporal", "ring"]
        plan = self.answer(*ring)["plans"][0]
        blocking = self.answer(*asked, "--framework", "torchtitan")["plans"][0]
        self.assertLess(plan["step_time_s"], blocking["step_time_s"])
        self.assertTrue(any("same degrees cut in space" in why for why in plan["why"]))
        written = self.directory / "rings.yaml"
        run(*ring, "--write-plan", str(written))
        self.assertEqual(self.answer("predict", "--plan", str(written))["plans"][0]["step_time_s"], plan["step_time_s"])
        self.assertIn("8+sp ring", self.succeed(*ring))
        self.refuse(*asked, "--temporal", "ring", expect=["no operator in steps over rings", "--framework torchtitan-async-tp"])
        self.refuse(*[f if f != "8" else "1" for f in ring], expect=["a ring of one device", "--tp 2"])
        self.assertIn("temporal: ring", written.read_text())
        self.refuse(*ring, "--sp", "0", expect=["--sp 1"])
        # A degree of every search, and of one list: with and without.
        searched = [*asked[1:], "--framework", "torchtitan-async-tp"]
        both = self.answer("search", *searched, "--temporal", "none,ring")["plans"]
        self.assertEqual({plan["config"]["temporal"] for plan in both}, {"none", "ring"})
        # A search refuses as a prediction does; of a list it leaves the rings out.
        self.refuse("search", *asked[1:7], "--batch", "16", "--temporal", "ring",
                    expect=["no operator in steps over rings", "torchtitan-async-tp"])
        rejected = self.answer("search", *asked[1:7], "--batch", "16", "--temporal", "none,ring")["counts"]["rejected"]
        self.assertNotIn("no such feature", rejected)
        self.assertIn("forbidden by the framework", rejected)
        for space in ([], ["--space", "temporal"]):
            for plan in self.answer("search", *searched, *space, "--temporal", "ring")["plans"]:
                self.assertEqual(plan["config"]["temporal"], "ring")

    def test_pieces_of_a_micro_batch(self):
        asked = ["--hw", "perlmutter", "--model", "gpt-80b", "--gpus", "64", "--batch", "32"]
        tensor3d = [*asked, "--framework", "tensor3d"]
        for command in ([], ["predict", "--tp-y", "16", "--tp-x", "2"]):
            self.refuse(*command, *tensor3d, "--micro-batch", "4", "--overdecompose", "3",
                        expect=["--overdecompose 3", "4 sequences", "legal values: 1, 2, 4"])
            for framework, why in (("megatron", "one piece"), ("torchtitan", "at once")):
                self.refuse(*command[:1], *asked, "--framework", framework, "--micro-batch", "4", "--overdecompose", "2",
                            expect=["--overdecompose 2", why, "legal values: 1"])
        self.refuse("predict", *tensor3d, "--tp-y", "16", "--overdecompose", "2", expect=["1 sequence ", "legal: 1"])
        self.refuse("predict", *tensor3d, "--tp-y", "16", "--overdecompose", "100", expect=["1 to 64"])
        self.refuse("predict", *tensor3d, "--tp-y", "16", "--micro-batch", "4", "--overdecompose", "4", expect=["two pieces"])
        predict = ["predict", *tensor3d, "--tp-y", "16", "--tp-x", "4", "--micro-batch", "4", "--recompute", "full"]
        whole, cut = (self.answer(*predict, "--overdecompose", d)["plans"][0] for d in ("1", "2"))
        self.assertEqual((whole["config"]["overdecompose"], cut["config"]["overdecompose"]), (1, 2))
        self.assertLess(cut["step_time_s"], whole["step_time_s"])
        for one, two in zip(whole["communication"], cut["communication"]):
            self.assertEqual(one["count"] * one["wire_bytes"], two["count"] * two["wire_bytes"])
        best = self.answer(*tensor3d, "--space", "4d", "--recompute", "full")["plans"][0]
        self.assertLessEqual(best["step_time_s"], cut["step_time_s"])

    def test_one_tensor_axis_is_the_tensor_degree(self):
        """Under one framework --tp N is --tp-y N beside one rank on the other axes, byte for byte."""
        asked = ["predict", "--hw", "perlmutter", "--model", "opt-6.7b", "--framework", "axonn", "--gpus", "64",
                 "--recompute", "full", "--batch", "64", "--micro-batch", "1"]
        plain = self.answer(*asked, "--tp", "8")["plans"][0]
        grid = self.answer(*asked, "--tp-x", "1", "--tp-y", "8", "--tp-z", "1")["plans"][0]
        self.assertEqual(plain["communication"], grid["communication"])
        self.assertEqual(plain["memory"], grid["memory"])
        self.assertEqual(plain["step_time_s"], grid["step_time_s"])

    def test_spaces_of_grids(self):
        asked = ["--hw", "perlmutter", "--model", "gpt-80b", "--framework", "axonn", "--gpus", "256", "--batch", "64"]
        grids = self.answer(*asked, "--space", "axonn")
        self.assertEqual({(plan["config"]["pp"], plan["config"]["cp"]) for plan in grids["plans"]}, {(1, 1)})
        wide = self.answer(*asked, "--space", "4d")
        self.assertGreater(wide["counts"]["total"], grids["counts"]["total"])
        self.assertLessEqual(wide["plans"][0]["step_time_s"], grids["plans"][0]["step_time_s"])
        none = self.succeed("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "8", "--space", "axonn")
        self.assertIn("grids of tensor axes (megatron runs none)", " ".join(none.split()))

    def test_ranges(self):
        self.refuse("predict", *QUESTION, "--gpus", "8", "--zero", "4", expect=["--zero 4", "0 to 3"])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--pp", "0", expect=["--pp 0"])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--pp", "2", "--vpp", "2", "--schedule",
                    "1f1b", expect=["--schedule 1f1b with --vpp 2"])

    def test_product(self):
        self.refuse("predict", *QUESTION, "--gpus", "8", "--dp", "3", expect=["8 GPUs", "3"])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--tp", "5", expect=["8 GPUs", "5"])
        self.refuse(*QUESTION, "--gpus", "8", "--tp", "5", expect=["no plan for 8 GPUs"])

    def test_search_honours_pins(self):
        answer = self.answer(*QUESTION, "--gpus", "64", "--pp", "4", "--zero", "1")
        self.assertTrue(answer["plans"])
        for plan in answer["plans"]:
            self.assertEqual((plan["config"]["pp"], plan["config"]["zero"]), (4, 1))

    def test_illegal_plans_come_with_a_remedy(self):
        for degrees in (["--vpp", "2"], ["--zero", "3", "--pp", "2"], ["--etp", "2"],
                        ["--pp", "4", "--vpp", "2", "--batch", "12"]):
            self.refuse("predict", *QUESTION, "--gpus", "8", *degrees, expect=["hint: "])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--shard-group", "3",
                    expect=["legal: 1, 2, 4, 8"])

    def test_target_that_cannot_express(self):
        self.refuse("predict", *QUESTION, "--tp-x", "5", "--dp", "4", "--pp", "2", "--target",
                    "megatron", expect=["axonn"], code=4)
        self.refuse("predict", *QUESTION, "--tp-x", "5", "--dp", "4", "--pp", "2", expect=["axonn"])

    def test_predictions_take_the_defaults_of_the_framework(self):
        question = ["predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16"]
        for framework, flags, wanted in (
                ("torchtitan", ["--tp", "8"], {"sp": True, "zero": 3, "recompute": "selective"}),
                ("torchtitan", [], {"sp": False, "zero": 3, "recompute": "selective"}),
                ("megatron", ["--tp", "8"], {"sp": True, "zero": 1, "recompute": "none"}),
                ("megatron", ["--tp", "8", "--sp", "0", "--zero", "0"], {"sp": False, "zero": 0}),
                ("megatron", ["--tp", "8", "--pp", "2"], {"sp": True, "zero": 0}),  # one data rank
                ("megatron-2026", ["--tp", "2"], {"sp": True, "zero": 1}),
                ("deepspeed", [], {"zero": 3}), ("deepspeed", ["--pp", "2"], {"zero": 1}),
                ("deepspeed", ["--cp", "2"], {"cp_kind": "ulysses"}),
                ("maxtext", [], {"zero": 3, "recompute": "full"}),
                ("nanotron", ["--tp", "2"], {"sp": True, "zero": 0})):
            result = run(*question, "--framework", framework, *flags, "--format", "json")
            self.assertIn(result.returncode, (0, 3), (framework, flags, result.stderr))
            config = json.loads(result.stdout)["plans"][0]["config"]
            self.assertEqual({key: config[key] for key in wanted}, wanted, (framework, flags))

    def test_frameworks_that_always_shard(self):
        plan = self.answer("predict", *QUESTION, "--gpus", "8", "--framework", "fsdp")["plans"][0]
        self.assertEqual(plan["config"]["zero"], 3)


PROFILE = SOURCE / "hardware_profiles" / "perlmutter.yaml"


class Files(Case):
    """Bad files: place, remedy, exit 2."""

    def profile(self, old, new):
        """The shipped profile with one text replaced, beside the files it refers to."""
        root = self.directory / "data"
        if not root.exists():
            shutil.copytree(SOURCE / "hardware_profiles", root)
        text = PROFILE.read_text()
        self.assertIn(old, text)
        path = root / "changed.yaml"
        path.write_text(text.replace(old, new, 1))
        return path

    def refuse_hardware(self, path, expect):
        return self.refuse("--hw", path, "--model", "gpt2-xl", "--gpus", "4", expect=expect)

    def first_line(self, pattern):
        for line in PROFILE.read_text().splitlines():
            if pattern in line and not line.lstrip().startswith("#"):
                return line
        self.skipTest(f"no line with {pattern}")
        return None

    def test_missing_unit(self):
        line = self.first_line("bandwidth:")
        key, value = line.split("bandwidth:", 1)
        number = value.split()[0]
        path = self.profile(line, f"{key}bandwidth: {number}")
        self.refuse_hardware(path, ["changed.yaml:", "GB/s", "error:"])

    def test_negative_bandwidth(self):
        line = self.first_line("bandwidth:")
        key, value = line.split("bandwidth:", 1)
        path = self.profile(line, f"{key}bandwidth: -{value.strip()}")
        self.refuse_hardware(path, ["changed.yaml:"])

    def test_not_a_number(self):
        line = self.first_line("bandwidth:")
        key, _ = line.split("bandwidth:", 1)
        for number in (".nan GB/s", "nan GB/s", ".inf GB/s", "inf GB/s"):
            self.refuse_hardware(self.profile(line, f"{key}bandwidth: {number}"), ["changed.yaml:"])

    def test_unknown_key(self):
        line = self.first_line("name:")
        path = self.profile(line, f"{line}\nacelerator: a100")
        message = self.refuse_hardware(path, ["changed.yaml:", "acelerator", "accelerator"])
        self.assertRegex(message, r"changed\.yaml:\d+:\d+: error:")

    def test_tier_sizes_that_do_not_divide(self):
        line = self.first_line("accelerators_per_node:")
        path = self.profile(line, "accelerators_per_node: 7")
        self.refuse_hardware(path, ["changed.yaml:"])

    def test_alias_bomb(self):
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        for i in range(1, 12):
            lines.append(f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]")
        path = self.file("bomb.yaml", "\n".join(lines))
        # Written out it would take all memory, and longer than any command may.
        self.refuse_hardware(path, ["bomb.yaml"])
        self.refuse("--hw", "perlmutter", "--model", path, expect=["bomb.yaml"])

    def test_long_text_repeated_by_aliases(self):
        """400 MB when expanded; the limit of a file is 8 MiB."""
        aliases = ", ".join(["*a"] * 10_000)
        path = self.file("long.yaml", f"a: &a {'x' * 40_000}\nb: [{aliases}]\n")
        self.refuse_hardware(path, ["long.yaml:2:", "bytes of text"])

    def test_truncated_json(self):
        path = self.file("config.json", '{"model_type": "gpt2", "n_layer": 48, "n_em')
        message = self.refuse("--hw", "perlmutter", "--model", path, expect=["config.json:1"])
        self.assertRegex(message, r"config\.json:\d+:\d+: error:")

    def test_unknown_family_and_missing_key(self):
        path = self.file("config.json", '{"model_type": "perceiver9", "n_layer": 4}')
        self.refuse("--hw", "perlmutter", "--model", path, expect=["perceiver9"])
        path = self.file("config.json", '{"model_type": "gpt2", "n_layer": 4}')
        self.refuse("--hw", "perlmutter", "--model", path, expect=["config.json"])

    def test_directory(self):
        self.refuse("--hw", self.directory, "--model", "gpt2-xl", expect=["hint:"])
        folder = self.directory / "folder.yaml"
        folder.mkdir()
        self.refuse("--hw", folder, "--model", "gpt2-xl", expect=["folder.yaml", "directory"])

    def test_missing_file(self):
        self.refuse("--hw", self.directory / "none.yaml", "--model", "gpt2-xl", expect=["none.yaml"])

    def test_garbage(self):
        seed = 12345
        noise = bytearray()
        for _ in range(1 << 16):
            seed = (seed * 1103515245 + 12345) % (1 << 31)
            noise += seed.to_bytes(4, "little")
        small = bytes(noise)
        large = small * 40  # 10 MiB
        deep = b"\n".join(b" " * i + b"a:" for i in range(2000))
        for content in (small, large, b"", b"\xff\xfe\x00", b"[" * 100000, b"\x00" * 4096,
                        b'{"a":' * 100000, deep, b"- 1\n- 2\n", b"42", b"~\n", b"a: &a [*a]\n",
                        b"name: x\n\tkey: y\n"):
            for name in ("garbage.yaml", "config.json"):
                path = self.file(name, content)
                self.refuse("--hw", path, "--model", "gpt2-xl", expect=[name, "hint: "])
                self.refuse("--hw", "perlmutter", "--model", path, expect=[name, "hint: "])
                self.refuse("predict", "--plan", path, expect=[name])
                self.refuse("validate", path, expect=[name])

    def test_byte_order_mark_and_windows_line_ends(self):
        path = self.profile("schema:", "schema:")
        wanted = self.succeed("--hw", path, "--model", "gpt2-xl", "--gpus", "8")
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
        self.assertEqual(self.succeed("--hw", path, "--model", "gpt2-xl", "--gpus", "8"), wanted)
        path.write_bytes(path.read_bytes().replace(b"kind: mesh", b"kind: mush"))
        message = self.refuse_hardware(path, ["did you mean mesh"])
        self.assertRegex(message, r"changed\.yaml:\d+:\d+: error:")

    def test_misspelled_key_that_is_required(self):
        path = self.profile("bandwidth: 300", "bandwith: 300")
        self.refuse_hardware(path, ["key 'bandwidth' is missing", "is 'bandwith' meant"])

    def test_data_directory(self):
        result = run("list", "hw", env={"PLANSEARCH_DATA": str(self.directory)})
        self.assertEqual(result.returncode, 2)
        self.assertIn("PLANSEARCH_DATA", result.stderr)


class BadInputs(Case):
    """The table of bad_inputs.py."""

    def place(self, name, text, replacement=None):
        """The file of a row: its own text, or a shipped file changed, beside what it refers to."""
        if replacement is None:
            return self.file(name, text.encode("utf-8", "surrogatepass"))
        root = self.directory / "data"
        shutil.copytree((SOURCE / name).parent, root, dirs_exist_ok=True)
        shipped = (SOURCE / name).read_text()
        self.assertIn(text, shipped)
        path = root / "changed.yaml"
        path.write_text(shipped.replace(text, replacement, 1))
        return path

    def test_every_row(self):
        self.assertGreaterEqual(len(bad_inputs.CASES), 60)
        for (question, *file), code, words in bad_inputs.CASES:
            with self.subTest(question=question[:200], file=file[:1], change=file[2:]):
                path = str(self.place(*file)) if file else ""
                before = sorted(self.directory.rglob("*"))
                arguments = [word.replace("FILE", path) for word in question.split()]
                message = self.refuse(*arguments, expect=words, code=code)
                self.assertLess(len(message), 8000)
                self.assertNotRegex(message, r"[\x00-\x09\x0b-\x1f]")
                self.assertNotIn("bug in plansearch", message)
                self.assertEqual(sorted(self.directory.rglob("*")), before)


class Overlooked(Case):
    """What was passed over without a word, or told wrongly."""

    def test_names_that_are_one_line_and_cells_that_are_no_formula(self):
        model = (SOURCE / "models" / "gpt2-xl.yaml").read_text(encoding="utf-8")
        for name in ("a\\nb", "a\\u202Eb"):
            path = self.file("odd.yaml", re.sub(r"(?m)^name: .*$", lambda _, name=name: f'name: "{name}"', model))
            self.refuse("show", "model", path, expect=["odd.yaml:", "'a"])
        path = self.file("formula.yaml", re.sub(r"(?m)^name: .*$", 'name: "=1+1"', model))
        rows = list(csv.DictReader(io.StringIO(self.succeed("--hw", "perlmutter", "--model", path, "--gpus", "8",
                                                            "--format", "csv"))))
        cells = [value for row in rows for value in row.values()]
        self.assertIn("'=1+1", cells)
        self.assertFalse([cell for cell in cells if cell.startswith(("=", "@", "+"))])

    def test_values_of_files_that_show_does_not_read(self):
        self.refuse("show", "hw", "dgx-h100", "--set", "framework.constants.host_lunch=40us",
                    expect=["framework.constants.host_lunch", "show hw reads no value of a framework"])
        self.refuse("show", "hw", "dgx-h100", "--set", "model.foo=1", expect=["of a model"])
        self.refuse("show", "framework", "megatron", "--set", "tiers.nvlink.bandwidth=1GB/s", expect=["of a machine"])
        self.succeed("show", "hw", "dgx-h100", "--set", "tiers.nvlink.bandwidth=300GB/s")

    def test_columns_of_profiles_with_slips(self):
        plan = ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--dp", "8", "--zero", "2"]
        steps = self.file("steps.csv", "step,rnak,time_s\n1,0,9.5\n2,0,9.6\n")
        self.refuse("diagnose", *plan, "--profile", steps, expect=["'rnak'", "did you mean 'rank'"])
        kernels = self.file("kernels.csv", "Total Time (ns),Instancse,Name\n100000,3,gemm\n")
        self.refuse("diagnose", *plan, "--profile", kernels, "--measured", "9s",
                    expect=["'Instancse'", "did you mean 'Instances'"])

    def test_a_name_is_not_looked_up_in_every_file_of_a_folder(self):
        profile = (SOURCE / "hardware_profiles" / "dgx-h100.yaml").read_text(encoding="utf-8")
        self.assertIn("accelerator: h100", profile)
        self.file("gpt.yaml", (SOURCE / "models" / "gpt2-xl.yaml").read_text(encoding="utf-8"))
        self.file("other.yaml", "schema: plansearch/accelerator/v1\naliases: [mine]\n")
        for name in ("gpt", "mine"):  # of another kind; only an alias of a file that nobody named
            path = self.file("my.yaml", re.sub(r"(?m)^accelerator: .*$", f"accelerator: {name}", profile))
            self.refuse("show", "hw", path, expect=["my.yaml:", f"unknown accelerator '{name}'"])
        chip = (SOURCE / "hardware_profiles" / "accelerators" / "h100-sxm5-80gb.yaml").read_text(encoding="utf-8")
        self.file("own-chip.yaml", chip)
        path = self.file("my.yaml", re.sub(r"(?m)^accelerator: .*$", "accelerator: own-chip", profile))
        self.succeed("show", "hw", path)

    def test_no_part_of_a_peak_is_below_zero(self):
        for hardware, model, gpus in (("mi300x-8", "t5-11b", 32), ("mi300x-8", "t5-v1_1-xxl", 32), ("dgx-h100", "sdxl-unet", 8)):
            answer = json.loads(self.succeed("predict", "--hw", hardware, "--model", model, "--gpus", gpus, "--format", "json"))
            peak = answer["plans"][0]["peak"]
            self.assertGreater(min(part["bytes"] for part in peak["held"]), 0, model)
            self.assertAlmostEqual(sum(part["bytes"] for part in peak["held"]) / peak["allocated_bytes"], 1.0, 6)

    def test_constraints_without_the_word_search(self):
        question = [*QUESTION, "--gpus", "8", "--constraints", "coshard", "--framework", "nnscaler", "--format", "json"]
        self.assertEqual(run(*question).stdout, run("search", *question).stdout)
        self.refuse("explain", *QUESTION, "--gpus", "8", "--constraints", "coshard", expect=["belongs to searches"])


class OutFile(Case):
    def test_an_answer_in_a_file_that_another_has_or_that_is_read(self):
        page, plan = str(self.directory / "r.html"), str(self.directory / "p.yaml")
        self.refuse(*QUESTION, "--gpus", "8", "--report", page, "--plot", f"step={page}", expect=["name one file"])
        self.refuse(*QUESTION, "--gpus", "8", "--plot", f"step={page}", "--plot",
                    f"memory={self.directory}/./r.html", expect=["--plot and --plot", "name one file"])
        self.succeed("predict", *QUESTION, "--gpus", "8", "--write-plan", plan)
        self.refuse("predict", "--plan", plan, "--out", plan, expect=["--out", "made from"])

    def test_two_answers_in_one_file(self):
        name = str(self.directory / "a.csv")
        for arguments in ([*QUESTION, "--gpus", "8", "--out", name, "--all", name],
                          ["predict", *QUESTION, "--gpus", "8", "--out", name, "--write-plan",
                           str(self.directory / "." / "a.csv")]):
            self.refuse(*arguments, expect=["--out", "name one file"])
        self.assertFalse(list(self.directory.iterdir()))

    def test_a_step_beyond_the_times_that_are_counted(self):
        self.refuse("predict", "--hw", "perlmutter", "--model", "llama2-7b", "--gpus", "4", "--pp", "4", "--batch",
                    "2147483644", "--micro-batch", "1", expect=["products must be from 1 to"])

    def test_written_in_one_step(self):
        out = self.directory / "answer.json"
        self.assertEqual(self.succeed(*QUESTION, "--gpus", "8", "--format", "json", "--out", out), "")
        self.assertEqual(json.loads(out.read_text())["schema"], "plansearch/result/v1")
        self.assertEqual([path.name for path in self.directory.iterdir()], ["answer.json"])

    def test_unwritable(self):
        for out in (self.directory, self.directory / "none" / "answer.json", "/proc/answer.json",
                    "/dev/full"):
            self.refuse(*QUESTION, "--gpus", "8", "--out", out, expect=[str(out), "hint: "])
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_no_room_leaves_nothing_behind(self):
        """A limit on file sizes stands for a full disk: half of the answer fits."""
        for content in (None, "old"):
            out = self.directory / "answer.json"
            if content:
                out.write_text(content)
            result = subprocess.run(
                [BINARY, *QUESTION, "--gpus", "8", "--format", "json", "--out", out],
                capture_output=True, text=True, timeout=600, check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("cannot write", result.stderr)
            self.assertIn("hint: make room", result.stderr)
            self.assertEqual(len(list(self.directory.iterdir())), 1 if content else 0)
        self.assertEqual(out.read_text(), "old")

    def test_small_stack(self):
        """64 KiB of stack, of which the environment takes some."""
        for command in (QUESTION, ["predict", *QUESTION]):
            result = subprocess.run(
                [BINARY, *command, "--gpus", "8"], capture_output=True, text=True, timeout=600,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 16, 1 << 16)))
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_failing_run_keeps_the_old_file(self):
        out = self.file("answer.json", "old")
        self.refuse(*QUESTION, "--gpus", "0", "--out", out, expect=["--gpus 0"])
        self.assertEqual(out.read_text(), "old")
        self.assertEqual(len(list(self.directory.iterdir())), 1)

    def test_closed_pipe(self):
        process = subprocess.Popen([BINARY, *QUESTION, "--gpus", "64", "--format", "json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=600), 0)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_full_device(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([BINARY, *QUESTION, "--gpus", "8"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=600, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("error:", result.stderr)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_messages_that_cannot_be_written(self):
        """The exit code is that of the answer, and no message lands in a file of ours."""
        with open("/dev/full", "w", encoding="utf-8") as full:
            for arguments, code in (([*QUESTION, "--gpus", "x"], 2), ([*QUESTION, "--gpus", "8"], 0)):
                result = subprocess.run([BINARY, *arguments], stdout=subprocess.DEVNULL, stderr=full,
                                        timeout=600, check=False)
                self.assertEqual(result.returncode, code)
        out = self.directory / "answer.json"
        for arguments, code in (([*QUESTION, "--gpus", "x"], 2),
                                (["predict", *QUESTION, "--gpus", "8", "--format", "json", "--out", out], 0)):
            result = subprocess.run(["sh", "-c", 'exec "$0" "$@" 2>&- 0<&-', BINARY, *map(str, arguments)],
                                    stdout=subprocess.DEVNULL, timeout=600, check=False)
            self.assertEqual(result.returncode, code)
        self.assertEqual(json.loads(out.read_text())["schema"], "plansearch/result/v1")
        result = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', BINARY, *QUESTION, "--gpus", "8"],
                                stderr=subprocess.PIPE, text=True, timeout=600, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("cannot write", result.stderr)


class Answers(Case):
    def test_recompute_of_the_first_layers(self):
        plan = ["--hw", "selene", "--model", "gpt3-175b", "--gpus", "64", "--tp", "8", "--pp", "8", "--batch", "64"]
        answers = {}
        for n in (None, 0, 1, 6, 12):
            level = ["--recompute", "none"] if n is None else ["--recompute", "full", "--recompute-layers", str(n)]
            answers[n] = json.loads(self.succeed("predict", *plan, *level, "--format", "json"))["plans"][0]
        step = {n: answer["step"]["recompute_s"] for n, answer in answers.items()}
        self.assertEqual(answers[12]["step_time_s"], answers[0]["step_time_s"])
        self.assertEqual(answers[12]["peak_memory_bytes"], answers[0]["peak_memory_bytes"])
        self.assertAlmostEqual(step[6] / step[12], 0.5)
        self.assertAlmostEqual(step[1] / step[12], 1 / 12)
        self.assertLess(answers[6]["memory"]["activations_bytes"], answers[1]["memory"]["activations_bytes"])
        self.assertLess(answers[1]["memory"]["activations_bytes"], answers[None]["memory"]["activations_bytes"])
        self.assertIn("first 6", self.succeed("predict", *plan, "--recompute", "full", "--recompute-layers", "6"))
        self.refuse("predict", *plan, "--recompute", "full", "--recompute-layers", "13", expect=["at most 12 layers"])
        self.refuse("predict", *plan, "--recompute-layers", "2", expect=["full recomputation"])
        self.refuse("predict", *plan, "--recompute", "full", "--recompute-layers", "2", "--framework", "nanotron",
                    expect=["all layers or none"])

    def test_memory_cap_of_a_plan(self):
        plan = ["-q", "--hw", "selene", "--model", "gpt3-175b", "--gpus", "64", "--tp", "8", "--pp", "8", "--batch", "64",
                "--schedule", "zb-auto", "--format", "json"]
        free = json.loads(self.succeed("predict", *plan))["plans"][0]
        few = json.loads(self.succeed("predict", *plan, "--memory-cap", "4"))
        # Half of the micro-batches; the fullest stage may be another one.
        halved = few["plans"][0]["memory"]["activations_bytes"] / free["memory"]["activations_bytes"]
        self.assertAlmostEqual(halved, 0.5, delta=0.05)
        self.assertGreater(few["plans"][0]["step"]["bubble_s"], free["step"]["bubble_s"])
        self.assertIn({"key": "memory_cap", "value": "4", "origin": "flag"}, few["question"]["settings"])
        self.refuse("predict", *plan[:-4], "--schedule", "1f1b", "--memory-cap", "4", expect=["zb-auto"])

    def test_schema(self):
        schema = json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text())
        for arguments in ([*QUESTION, "--gpus", "64"], QUESTION,
                          ["predict", *QUESTION, "--gpus", "8", "--zero", "1"],
                          ["explain", *QUESTION, "--gpus", "8"],
                          ["--hw", "dgx-h100", "--model", "mixtral-8x7b", "--gpus", "64"]):
            json_schema.check(self.answer(*arguments), schema)
        result = run("--hw", "dgx-h100", "--model", "llama3.1-405b", "--gpus", "8", "--format", "json")
        json_schema.check(json.loads(result.stdout), schema)

    def test_a_site_scales_the_step_and_keeps_the_order(self):
        """Plans, counts and communication are those at factor 1; the site's part makes the step."""
        answers = {site: self.answer(*QUESTION, "--gpus", "64", "--site", site)
                   for site in ("tuned", "typical", "aleph-alpha", "fms-fsdp")}
        tuned = answers["tuned"]
        self.assertEqual(tuned["question"]["site"]["factor"], 1)
        for answer in answers.values():
            factor = answer["question"]["site"]["factor"]
            self.assertEqual(answer["counts"], tuned["counts"])
            self.assertEqual(len(answer["plans"]), len(tuned["plans"]))
            for plan, base in zip(answer["plans"], tuned["plans"]):
                for key in ("config", "communication", "rank", "tie_with_previous", "memory", "why"):
                    self.assertEqual(plan[key], base[key])
                self.assertAlmostEqual(plan["step_time_s"] / base["step_time_s"], factor, places=9)
                self.assertAlmostEqual(plan["step"]["site_s"],
                                       base["step_time_s"] * (factor - 1), places=9)
        self.assertGreater(answers["aleph-alpha"]["question"]["site"]["factor"], 1.2)
        self.assertLess(answers["fms-fsdp"]["question"]["site"]["factor"], 1)
        width = {site: answer["plans"][0]["step_time_p90_s"] / answer["plans"][0]["step_time_s"]
                 for site, answer in answers.items()}
        self.assertGreater(width["typical"], width["tuned"])
        unknown = run(*QUESTION, "--gpus", "64", "--site", "aleph-alfa")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("did you mean aleph-alpha", unknown.stderr)

    def test_parts_sum_to_totals(self):
        answer = self.answer(*QUESTION, "--gpus", "64", "--top", "50")
        for plan in answer["plans"]:
            step = dict(plan["step"])
            exposed = sum(step.pop("exposed_communication_s").values())
            self.assertAlmostEqual(sum(step.values()) + exposed, plan["step_time_s"], places=9)
            self.assertAlmostEqual(sum(plan["memory"].values()) / plan["peak_memory_bytes"], 1.0,
                                   places=9)
            self.assertLess(plan["step_time_p10_s"], plan["step_time_s"])
            self.assertLess(plan["step_time_s"], plan["step_time_p90_s"])
            config = plan["config"]
            self.assertEqual(config["dp"] * config["pp"] * config["tp"] * config["cp"], 64)
            self.assertEqual(config["global_batch"], answer["question"]["global_batch"])
            self.assertLessEqual(plan["peak_memory_bytes"], answer["question"]["memory_capacity_bytes"])
        rows = [plan["step_time_s"] for plan in answer["plans"] if plan["variant_of"] is None]
        self.assertEqual(rows, sorted(rows))

    def test_counts(self):
        counts = self.answer(*QUESTION, "--gpus", "64")["counts"]
        dealt = counts["evaluated"] + counts["pruned"] + sum(counts["rejected"].values())
        self.assertEqual(dealt + counts["unvisited"], counts["total"])
        self.assertEqual(counts["unvisited"], 0)

    def test_formats_agree(self):
        question = [*QUESTION, "--gpus", "32", "--top", "4"]
        plans = self.answer(*question)["plans"]
        lines = self.succeed(*question, "--format", "jsonl").splitlines()
        identity = {"model": "gpt2-xl", "hardware": "perlmutter", "accelerator": "a100-sxm4-40gb",
                    "framework": "megatron", "precision": "bf16", "seq_len": 1024, "global_batch": 512,
                    "gpus": 32}
        schema = json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text())
        for line, plan in zip(lines, plans, strict=True):
            self.assertEqual(json.loads(line), identity | plan)
            json_schema.check(json.loads(line), schema["$defs"]["plan"] | {"$defs": schema["$defs"]})
        rows = list(csv.DictReader(io.StringIO(self.succeed(*question, "--format", "csv"))))
        for row, plan in zip(rows, plans, strict=True):
            self.assertEqual(float(row["step_time_s"]), plan["step_time_s"])
            self.assertEqual({key: row[key] for key in identity},
                             {key: str(value) for key, value in identity.items()})
            self.assertEqual(row["tie_with_first"], str(int(plan["tie_with_first"])))
            for key, value in plan["config"].items():
                text = str(int(value)) if isinstance(value, bool) else str(value)
                self.assertEqual(row[key], text, key)

    def test_names_with_commas(self):
        model = SOURCE / "models" / "gpt2.yaml"
        named = self.file("named.yaml", model.read_text().replace("name: gpt2", 'name: "a, \\"b\\""', 1))
        rows = list(csv.DictReader(io.StringIO(self.succeed(
            "--hw", "perlmutter", "--model", named, "--gpus", "4", "--top", "1", "--format", "csv"))))
        self.assertEqual(rows[0]["model"], 'a, "b"')

    def test_every_priced_plan_in_a_file(self):
        question = [*QUESTION, "--gpus", "32", "--framework", "fsdp", "--exhaustive"]
        plans, lines = self.directory / "plans.csv", self.directory / "plans.jsonl"
        result = run(*question, "--all", plans, "--format", "json", "--threads", "1")
        counts = json.loads(result.stdout)["counts"]
        self.assertIn(f"plans.csv: {counts['evaluated']} plans", result.stderr)
        rows = list(csv.DictReader(io.StringIO(plans.read_text())))
        self.assertEqual(len(rows), counts["evaluated"])
        # The fastest of those with room are the ranking, and what no other beats in both is the front.
        answer = json.loads(result.stdout)
        priced = rows
        rows = [row for row in rows if row["memory_verdict"] == "fits"]
        times = sorted(float(row["step_time_s"]) for row in rows)
        self.assertEqual(times[:10], [plan["step_time_s"] for plan in answer["plans"]])
        front, least = [], float("inf")
        for row in sorted(rows, key=lambda r: (float(r["step_time_s"]), float(r["peak_memory_bytes"]))):
            if float(row["peak_memory_bytes"]) < least:
                least = float(row["peak_memory_bytes"])
                front.append(float(row["step_time_s"]))
        self.assertEqual(front, [plan["step_time_s"] for plan in answer["pareto_front"]])
        shown = list(csv.DictReader(io.StringIO(self.succeed(*question, "--pareto", "--format", "csv"))))
        self.assertEqual([float(row["step_time_s"]) for row in shown], front)
        self.assertEqual([row["rank"] for row in shown], [str(i + 1) for i in range(len(front))])
        self.assertIn("Pareto front over step time and memory", self.succeed(*question, "--pareto"))
        # As JSON lines, with several threads, pruned: a part of the same rows.
        pruned = run(*question[:-1], "--top", "1", "--all", lines, "--threads", "3", "--quiet")
        self.assertEqual(pruned.stderr, "")
        some = [json.loads(line) for line in lines.read_text().splitlines()]
        rows = priced
        self.assertLess(len(some), len(rows))
        known = {(row["dp"], row["zero"], row["micro_batch"], row["recompute"], row["step_time_s"])
                 for row in rows}
        for row in some:
            self.assertIn((str(row["dp"]), str(row["zero"]), str(row["micro_batch"]), row["recompute"],
                           str(row["step_time_s"])), known)

    def test_all_plans_do_not_depend_on_threads(self):
        one, five = self.directory / "one.csv", self.directory / "five.csv"
        for name, threads in ((one, 1), (five, 5)):
            run("--hw", "dgx-h100", "--model", "mixtral-8x7b", "--gpus", "64", "--all", name, "--threads",
                threads)
        self.assertGreater(len(one.read_text().splitlines()), 100)
        self.assertEqual(one.read_text(), five.read_text())

    def test_all_plans_of_a_ladder(self):
        name = self.directory / "all.csv"
        answer = json.loads(run(*QUESTION, "--all", name, "--format", "json").stdout)
        sizes = {row["gpus"] for row in csv.DictReader(io.StringIO(name.read_text()))}
        self.assertEqual(sizes, {str(rung["gpus"]) for rung in answer["ladder"]})

    def test_all_plans_refusals(self):
        self.refuse(*QUESTION, "--gpus", "8", "--all", self.directory / "all.txt",
                    expect=["all.txt: error: every plan goes to a .csv or a .jsonl file", "hint:"])
        self.refuse(*QUESTION, "--gpus", "8", "--all", self.directory / "none" / "all.csv",
                    expect=["none/all.csv: error: cannot write"])
        self.refuse("predict", *QUESTION, "--gpus", "8", "--all", "all.csv", expect=["--all belongs to"])
        self.refuse("explain", *QUESTION, "--gpus", "8", "--pareto", expect=["--pareto belongs to"])
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_ladder(self):
        answer = self.answer(*QUESTION)
        sizes = [rung["gpus"] for rung in answer["ladder"]]
        self.assertEqual(sizes, sorted(sizes))
        self.assertEqual(sizes[:3], [4, 8, 16])
        self.assertIn(answer["question"]["gpus"], sizes)
        self.assertIn(str(answer["question"]["gpus"]), answer["ladder_choice"])

    def test_threads_do_not_matter(self):
        for question in ([*QUESTION, "--gpus", "64"],
                         ["--hw", "dgx-h100", "--model", "mixtral-8x7b", "--gpus", "64"]):
            wanted = self.succeed(*question, "--format", "json", "--threads", "1")
            for threads in ("2", "5"):
                self.assertEqual(
                    self.succeed(*question, "--format", "json", "--threads", threads), wanted)

    def test_exhaustive_ranks_alike(self):
        question = [*QUESTION, "--gpus", "64", "--top", "20"]
        pruned, exhaustive = self.answer(*question), self.answer(*question, "--exhaustive")
        self.assertEqual(pruned["plans"], exhaustive["plans"])
        self.assertEqual(pruned["pareto_front"], exhaustive["pareto_front"])
        self.assertEqual(exhaustive["counts"]["pruned"], 0)

    def test_exhaustive_ranks_alike_with_experts(self):
        question = ["--hw", "dgx-h100", "--model", "deepseek-v2-lite", "--gpus", "16", "--top", "20"]
        pruned, exhaustive = self.answer(*question), self.answer(*question, "--exhaustive")
        self.assertEqual(pruned["plans"], exhaustive["plans"])
        self.assertEqual(pruned["pareto_front"], exhaustive["pareto_front"])
        self.assertGreater(pruned["counts"]["pruned"], 0)

    def test_no_plan_appears_twice(self):
        answer = self.answer("--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "64", "--batch", "64",
                             "--top", "50")
        seen = [json.dumps(plan["config"], sort_keys=True) for plan in answer["plans"]]
        self.assertEqual(len(seen), len(set(seen)))
        for plan in answer["plans"]:
            config = plan["config"]
            self.assertNotEqual(config["recompute"], "selective")
            if config["micro_batches"] == 1 or config["pp"] == 1:
                self.assertNotEqual(config["schedule"], "gpipe")
        self.assertIn("selective recompute", answer["counts"]["left_out"][0])
        lines = [json.dumps({k: v for k, v in line.items() if k not in ("count", "exposed_s")})
                 for line in answer["plans"][0]["communication"]]
        self.assertEqual(len(lines), len(set(lines)))

    def test_table_explains_itself(self):
        table = self.succeed("--hw", "selene", "--model", "gpt3-175b", "--gpus", "64", "--batch", "64")
        for text in ("mbs: sequences per micro-batch", "comm: exposed communication", "left out: "):
            self.assertIn(text, table)
        self.assertEqual("+sp:" in table, re.search(r"\d\+sp ", table) is not None)
        ladder = self.succeed(*QUESTION, "--top", "1")
        self.assertIn("efficiency: work of a GPU over that at the best size", ladder)

    def test_settings_say_who_decided(self):
        answer = self.answer(*QUESTION, "--gpus", "8", "--batch", "64", "--overlap", "none")
        origins = {s["key"]: (s["value"], s["origin"]) for s in answer["question"]["settings"]}
        self.assertEqual(origins["batch"], ("64", "flag"))
        self.assertEqual(origins["overlap"], ("none", "flag"))
        self.assertEqual(origins["seq_len"], ("1024", "model"))
        self.assertEqual(origins["framework"], ("megatron", "default"))

    def test_overlap_helps(self):
        question = ["predict", *QUESTION, "--gpus", "64", "--zero", "1", "--micro-batch", "4"]
        hidden = self.answer(*question)["plans"][0]
        exposed = self.answer(*question, "--overlap", "none")["plans"][0]
        self.assertLess(hidden["step_time_s"], exposed["step_time_s"])

    def test_plan_round_trip(self):
        out = self.directory / "result.json"
        self.succeed(*QUESTION, "--gpus", "64", "--batch", "256", "--mem-reserve", "1 GiB",
                     "--format", "json", "--out", out)
        plans = json.loads(out.read_text())["plans"]
        for rank in (1, 3):
            again = self.answer("predict", "--plan", f"{out}#{rank}")
            self.assertEqual(again["plans"][0]["config"], plans[rank - 1]["config"])
            self.assertEqual(again["plans"][0]["step_time_s"], plans[rank - 1]["step_time_s"])
            origins = {s["key"]: s["origin"] for s in again["question"]["settings"]}
            self.assertEqual((origins["batch"], origins["mem_reserve"]), ("plan", "plan"))
        changed = self.answer("predict", "--plan", f"{out}#1", "--batch", "512")
        self.assertEqual(changed["question"]["global_batch"], 512)
        self.refuse("predict", "--plan", f"{out}#99", expect=["rank 99"])
        self.refuse("predict", "--plan", f"{out}#x", expect=["#"])
        self.assertIn("against the best other plan, same settings", self.succeed("explain", f"{out}#2"))

    def test_every_setting_of_an_answer_is_read_back(self):
        out = self.directory / "result.json"
        self.succeed("predict", *QUESTION, "--gpus", "8", "--overlap", "grad,param", "--format", "json",
                     "--out", out)
        settings = self.answer("predict", "--plan", out)["question"]["settings"]
        self.assertIn({"key": "overlap", "value": "grad+param", "origin": "plan"}, settings)
        self.succeed("predict", "--hw", "dgx-h100", "--model", "vit-large-patch16-224", "--gpus", "8",
                     "--format", "json", "--out", out)
        self.assertEqual(self.answer("predict", "--plan", out)["plans"][0]["step_time_s"],
                         json.loads(out.read_text())["plans"][0]["step_time_s"])
        self.refuse("predict", "--plan", out, "--seq-len", "198", expect=["--seq-len", "set it to 197"])

    def test_unknown_words_of_a_plan_file(self):
        for line, known in (("attention: flash9", "unfused"), ("optimizer: lamb", "adafactor")):
            path = self.file("plan.yaml", "schema: plansearch/plan/v1\nhardware: perlmutter\n"
                             f"model: gpt2-xl\ngpus: 8\n{line}\n")
            self.refuse("predict", "--plan", path, expect=[line.split()[1], known])

    def test_plan_from_a_pipe(self):
        """It can be read once only."""
        plan = "schema: plansearch/plan/v1\nhardware: perlmutter\nmodel: gpt2-xl\ngpus: 8\n"
        result = subprocess.run([BINARY, "predict", "--plan", "/dev/stdin"], input=plan, text=True,
                                capture_output=True, timeout=600, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_plan_document(self):
        path = self.file("plan.yaml", "\n".join([
            "schema: plansearch/plan/v1", "hardware: {name: selene, hash: 0123456789abcdef}",
            "model: gpt3-175b", "gpus: 96", "batch: 96", "attention: unfused", "degrees:",
            "  pp: 12", "  tp: 8", "  recompute: full"]))
        result = run("predict", "--plan", path, "--batch", "48", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("selene has changed since the plan was written", result.stderr)
        answer = json.loads(result.stdout)
        config = answer["plans"][0]["config"]
        self.assertEqual((config["dp"], config["pp"], config["tp"], config["recompute"]),
                         (1, 12, 8, "full"))
        origins = {s["key"]: (s["value"], s["origin"]) for s in answer["question"]["settings"]}
        self.assertEqual(origins["batch"], ("48", "flag"))
        self.assertEqual(origins["attention"], ("unfused", "plan"))
        wrong = self.file("wrong.yaml", "schema: plansearch/plan/v1\ndegree:\n  pp: 12\n")
        self.refuse("predict", "--plan", wrong, expect=["wrong.yaml:2:1: error:", "degrees"])

    STAGES = ("order: {micro_batches: 8}\nstages:\n"
              "  - {layers: 14, tp: 5}\n  - {layers: 18, dp: 2, recompute: full}\n  - {layers: 16}\n")

    def spelled(self, body):
        head = "schema: plansearch/plan/v1\nhardware: perlmutter\nmodel: gpt2-xl\nbatch: 32\n"
        return self.file("stages.yaml", head + body)

    def test_stages_spelled_out(self):
        path = self.spelled(self.STAGES)
        plan = self.answer("predict", "--plan", path)["plans"][0]
        self.assertEqual((plan["config"]["gpus"], plan["config"]["pp"]), (8, 3))
        self.assertEqual((plan["config"]["dp"], plan["config"]["tp"], plan["config"]["recompute"]),
                         ([1, 2, 1], [5, 1, 1], ["none", "full", "none"]))
        self.assertEqual([stage["layers"] for stage in plan["stages"]], [14, 18, 16])
        self.assertEqual([stage["first_rank"] for stage in plan["stages"]], [0, 5, 7])
        self.assertIn("1/2/1", self.succeed("explain", path))
        again = self.directory / "again.yaml"
        self.succeed("predict", "--plan", path, "--write-plan", again)
        self.assertEqual(self.answer("predict", "--plan", again)["plans"], [plan])
        result = self.directory / "result.json"
        self.succeed("predict", "--plan", path, "--format", "json", "--out", result)
        self.assertEqual(self.answer("predict", "--plan", f"{result}#1")["plans"], [plan])
        self.assertIn("1/2/1", self.succeed("explain", f"{result}#1"))
        self.refuse("predict", "--plan", f"{result}#1", "--tp", "2", expect=["the stages are listed here"])

    PLACED = ("degrees: {tp: 8, micro_batch: 8}\nplacements:\n  factors: [2, 4]\n  operators:\n"
              "    - {operators: [mlp_in, activation, mlp_out], cut: {ffn: [t1, t0]}}\n"
              "    - {operators: [query, key, value, attention, projection], layers: 0-23, cut: {batch: all}}\n"
              "    - {operators: [query, key, value, attention, projection], layers: 24-47, cut: {}}\n")

    def placed(self, body):
        head = "schema: plansearch/plan/v1\nhardware: dgx-h100\nmodel: gpt2-xl\nbatch: 64\n"
        return self.file("placed.yaml", head + body)

    def test_operators_placed_one_by_one(self):
        path = self.placed(self.PLACED)
        plan = self.answer("predict", "--plan", path)["plans"][0]
        self.assertEqual((plan["config"]["gpus"], plan["config"]["tp"]), (8, 8))
        self.assertEqual(plan["config"]["placements"]["factors"], [8])  # t0 and t1 always go together
        reduced = [line for line in plan["communication"]
                   if line["kind"] == "all-reduce" and line["what"].startswith("mlp_out")]
        self.assertEqual({line["group_size"] for line in reduced}, {8})
        again = self.directory / "again.yaml"
        self.succeed("predict", "--plan", path, "--write-plan", again)
        self.assertEqual(self.answer("predict", "--plan", again)["plans"], [plan])
        result = self.directory / "result.json"
        self.succeed("predict", "--plan", path, "--format", "json", "--out", result)
        self.assertEqual(self.answer("predict", "--plan", f"{result}#1")["plans"], [plan])
        text = self.succeed("explain", path)
        for words in ("placed one by one", "ffn over t0 (8)", "batch over t0 (8)", "0-23"):
            self.assertIn(words, text)
        refused = run("export", path, "--to", "megatron")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("placed one by one", refused.stderr)

    def test_placements_that_cannot_be(self):
        for old, new, expect in (
                ("mlp_in,", "mlp_inn,", ["placed.yaml:9:7: error:", "no operator 'mlp_inn'", "mlp_out"]),
                ("{ffn: [t1, t0]}", "{fn: all}", ["placed.yaml:9:7: error:", "no dimension 'fn'", "ffn"]),
                ("{ffn: [t1, t0]}", "{ffn: [t1, t1]}", ["placed.yaml:9:7: error:", "used twice"]),
                ("{ffn: [t1, t0]}", "{ffn: [t2]}", ["placed.yaml:9:7: error:", "no factor t2"]),
                ("{ffn: [t1, t0]}", "{ffn: [s0]}", ["error:", "'s0' is not a factor"]),
                ("factors: [2, 4]", "factors: [2, 2]", ["placed.yaml:7:3: error:", "prime factors of 8"]),
                ("layers: 0-23", "layers: 0-24", ["placed.yaml:11:7: error:", "placed twice"]),
                ("layers: 0-23", "layers: 0-48", ["placed.yaml:10:7: error:", "its layers are 0-47"]),
                ("micro_batch: 8", "micro_batch: 4", ["placed.yaml:10:7: error:", "do not divide by 8"]),
                ("tp: 8", "tp_x: 2, tp_y: 4", ["error:"])):
            self.assertIn(old, self.PLACED)
            self.refuse("predict", "--plan", self.placed(self.PLACED.replace(old, new, 1)), expect=expect)

    def test_steps_that_cannot_be(self):
        """Squares and rings of a plan file, refused one by one."""
        body = ("degrees: {tp: 8, micro_batch: 8}\nframework: FRAMEWORK\nplacements:\n  factors: [2, 2, 2]\n"
                "  operators:\n    - {operators: [mlp_in], cut: {ffn: [t2]}, STEPS}\n")
        square = "square: {rows: [t1], columns: [t0], m: sequence, n: hidden, k: ffn}"
        ring = "ring: {factors: [t2], rows: sequence}"

        def path(framework, steps):
            text = self.placed(body.replace("FRAMEWORK", framework).replace("STEPS", steps))
            text.write_text(text.read_text().replace("gpt2-xl", "llama2-7b"))
            return text

        self.succeed("predict", "--plan", path("primepar", square))
        self.succeed("predict", "--plan", path("torchtitan-async-tp", ring))
        there = "the factors of the tensor group are t2 (2), t1 (2), t0 (2)"
        for framework, steps, old, new, expect in (
                ("primepar", square, "[t1]", "[t5]", ["placed.yaml:10:7: error:", "no factor t5", there]),
                ("primepar", square, "[t0]", "[t5]", ["placed.yaml:10:7: error:", "no factor t5", there]),
                ("primepar", square, "[t0]", "[t1]", ["used twice"]),
                ("primepar", square, "[t0]", "[t0, t2]", ["2 rows and 4 columns", "only squares"]),
                ("primepar", square, "m: sequence", "m: tokens", ["no dimension 'tokens'", "legal: batch, sequence"]),
                ("primepar", square, "m: sequence, ", "", ["placed.yaml:10:", "key 'm' is missing", "rows: [t1]"]),
                ("primepar", square, square, "square: []", ["placed.yaml:10:", "no square", "leave it out"]),
                ("primepar", square, square, ring, ["over rings", "--framework torchtitan-async-tp"]),
                ("torchtitan-async-tp", ring, ring, square, ["over squares", "--framework primepar"]),
                ("torchtitan-async-tp", ring, "t2]", "t5]", ["placed.yaml:10:7: error:", "no factor t5", there]),
                ("torchtitan-async-tp", ring, "t2]", "t1]", ["no dimension of its weight is cut over"]),
                ("torchtitan-async-tp", ring, "rows: sequence", "rows: positions", ["no dimension 'positions'"]),
                ("torchtitan-async-tp", ring, "rows: sequence", "rows: hidden", ["rows of a ring are of its input"])):
            self.assertIn(old, steps)
            self.refuse("predict", "--plan", path(framework, steps.replace(old, new, 1)), expect=expect)

    def test_operators_are_searched(self):
        asked = ["search", "--hw", "dgx-h100", "--model", "gpt2-xl", "--gpus", "8", "--batch", "64",
                 "--space", "operators", "--tp", "8", "--micro-batch", "8", "--top", "2"]
        result = self.directory / "operators.json"
        self.succeed(*asked, "--format", "json", "--out", result)
        for number, plan in enumerate(json.loads(result.read_text())["plans"], 1):
            cuts = [cut for entry in plan["config"]["placements"]["operators"] for cut in entry["cut"]]
            self.assertIn("ffn", cuts)
            self.assertNotIn("heads", cuts)
            again = self.answer("predict", "--plan", f"{result}#{number}")["plans"][0]
            self.assertEqual((again["step_time_s"], again["peak_memory_bytes"], again["config"]),
                             (plan["step_time_s"], plan["peak_memory_bytes"], plan["config"]))
        self.assertIn("least sum of kernels and messages", result.read_text())
        self.refuse(*asked, "--pp", "2", expect=["no pipeline"])

    def test_sequences_are_searched(self):
        asked = ["search", "--hw", "dgx-h100", "--model", "llama2-7b", "--gpus", "8", "--batch", "16",
                 "--tp", "4", "--micro-batch", "2", "--recompute", "none", "--top", "2"]
        result = self.directory / "sequences.json"
        for space in ("primepar", "temporal"):
            self.succeed(*asked, "--framework", "primepar", "--space", space, "--format", "json", "--out", result)
            plans = json.loads(result.read_text())["plans"]
            placed = [n for n, plan in enumerate(plans, 1) if "placements" in plan["config"]]
            self.assertTrue(placed)
            for number in placed:
                plan = plans[number - 1]
                again = self.answer("predict", "--plan", f"{result}#{number}")["plans"][0]
                self.assertEqual((again["step_time_s"], again["peak_memory_bytes"], again["config"]),
                                 (plan["step_time_s"], plan["peak_memory_bytes"], plan["config"]))
        self.refuse(*asked, "--space", "temporal", expect=["no operator in steps", "--framework primepar"])
        three = ["3" if a == "4" and before == "--tp" else a for before, a in zip(["", *asked], asked)]
        self.refuse(*three, "--framework", "primepar", "--space", "temporal", expect=["bit by bit", "2, 4, 8"])

    def test_everything_a_framework_runs_is_ranked_at_once(self):
        asked = ["search", "--hw", "dgx-h100", "--model", "llama2-7b", "--gpus", "8", "--batch", "16", "--seq-len", "16384"]
        result = self.directory / "full.json"
        for framework, degrees, kinds in (("torchtitan-async-tp", ["--tp", "8"], ["ring"]), ("primepar", ["--tp", "4", "--recompute", "none"], ["square"]),
                                          ("megatron", ["--pp", "4", "--schedule", "1f1b"], ["stages"]), ("deepspeed", [], [])):
            self.succeed(*asked, *degrees, "--framework", framework, "--space", "full", "--top", "20",
                         "--format", "json", "--out", result)
            answer = json.loads(result.read_text())
            leaders = [plan for plan in answer["plans"] if "variant_of" not in plan]
            self.assertEqual(leaders, sorted(leaders, key=lambda plan: plan["step_time_s"]))
            for kind in kinds:
                self.assertIn(f'"{kind}"', json.dumps([plan["config"] for plan in answer["plans"]]))
            self.assertIn("space ", answer["optimality"])
            for number, plan in enumerate(answer["plans"], 1):
                again = self.answer("predict", "--plan", f"{result}#{number}")["plans"][0]
                self.assertEqual((again["step_time_s"], again["peak_memory_bytes"], again["config"]),
                                 (plan["step_time_s"], plan["peak_memory_bytes"], plan["config"]))
        # A list of depths is looked at, not one stage in silence.
        deep = self.answer(*asked, "--framework", "primepar", "--space", "temporal", "--tp", "2", "--pp", "2,4")
        self.assertEqual({plan["config"]["pp"] for plan in deep["plans"]}, {2, 4})

    def test_uneven_stages_are_searched(self):
        asked = ["search", "--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "8", "--batch", "32",
                 "--space", "uneven", "--pp", "3", "--top", "3"]
        result = self.directory / "uneven.json"
        self.succeed(*asked, "--format", "json", "--out", result)
        plans = json.loads(result.read_text())["plans"]
        self.assertEqual(len(plans), 3)
        for number, plan in enumerate(plans, 1):
            self.assertEqual(len(plan["config"]["stages"]), 3)
            self.assertEqual(sum(stage["layers"] for stage in plan["stages"]), 48)
            again = self.answer("predict", "--plan", f"{result}#{number}")["plans"][0]
            self.assertEqual((again["step_time_s"], again["peak_memory_bytes"], again["config"]),
                             (plan["step_time_s"], plan["peak_memory_bytes"], plan["config"]))
        self.assertIn("optimal within space uneven", result.read_text())
        rows = list(csv.DictReader(io.StringIO(self.succeed(*asked, "--format", "csv"))))
        self.assertEqual(rows[0]["layers"],
                         "/".join(str(round(stage["layers"])) for stage in plans[0]["stages"]))

    def test_stages_of_a_flat_plan(self):
        flat = ["predict", *QUESTION, "--gpus", "40", "--pp", "4", "--tp", "5", "--vpp", "2",
                "--zero", "1", "--micro-batch", "1", "--recompute", "none"]
        plan, stages = self.directory / "plan.yaml", self.directory / "stages.yaml"
        wanted = self.answer(*flat, "--write-plan", plan, "--write-stages", stages)["plans"]
        self.assertEqual(self.answer("predict", "--plan", plan)["plans"], wanted)
        self.assertEqual(self.answer("predict", "--plan", stages)["plans"], wanted)
        self.assertIn("chunks:", stages.read_text())

    def test_what_is_not_stated_widens_the_interval(self):
        question = ["predict", *QUESTION, "--gpus", "40", "--tp", "5"]
        open_, stated = self.answer(*question), self.answer(*question, "--micro-batch", "1", "--recompute", "none")
        left, right = open_["plans"][0], stated["plans"][0]
        self.assertEqual(left["step_time_s"], right["step_time_s"])
        self.assertGreater(left["step_time_p90_s"] / left["step_time_p10_s"], right["step_time_p90_s"] / right["step_time_p10_s"])
        self.assertIn("not stated: micro_batch (1 here", open_["evidence"])
        self.assertIn("recompute (none here", open_["evidence"])
        self.assertIn("micro_batch matters most", open_["evidence"])
        self.assertNotIn("not stated", stated["evidence"])

    def test_stages_that_cannot_be(self):
        for old, new, expect in (
                ("layers: 16", "layers: 15", ["stages.yaml:7:3: error:", "hold 47 layers"]),
                ("dp: 2", "dp: 3", ["stages.yaml:8:5: error:", "1.333 sequences"]),
                ("{layers: 16}", "{layers: 16, first_rank: 8}",
                 ["stages.yaml:9:5: error:", "rank 7 belongs to no stage"]),
                ("tp: 5", "tp: 9", ["stages.yaml:7:5: error:", "25 attention heads", "1, 5, 25"]),
                ("layers: 14", "layer: 14", ["stages.yaml:7:5: error:"]),
                ("tp: 5", "tp: 5, pp: 3", ["stages.yaml:7:25: error:", "'pp'"]),
                ("order:", "gpus: 16\norder:", ["the stages take 8 GPUs, not 16"]),
                ("order:", "degrees: {tp: 2}\norder:", ["stages.yaml:5:10: error:", "two ways"])):
            self.assertIn(old, self.STAGES)
            path = self.spelled(self.STAGES.replace(old, new, 1))
            self.refuse("predict", "--plan", path, expect=expect)
            self.refuse("explain", path, expect=expect)
        path = self.spelled(self.STAGES)
        self.refuse("predict", "--plan", path, "--tp", "2", expect=["stages.yaml:7:3: error:", "tp 2"])

    def test_images_have_the_tokens_of_their_patches(self):
        answer = self.answer("--hw", "dgx-h100", "--model", "vit-huge-patch14-224", "--gpus", "64")
        self.assertEqual(answer["question"]["seq_len"], 257)

    def test_hugging_face_config(self):
        path = self.file("config.json", json.dumps({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
            "intermediate_size": 11008, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}))
        answer = self.answer("--hw", "dgx-h100", "--model", path, "--gpus", "16")
        self.assertEqual(answer["question"]["parameters"], 6738415616)
        self.assertTrue(answer["feasible"])
        origins = {s["key"]: s["origin"] for s in answer["question"]["settings"]}
        self.assertEqual([origins[k] for k in ("seq_len", "batch", "optimizer")], ["assumed"] * 3)
        self.assertNotIn("part", origins)

    def test_hugging_face_config_says_what_is_left_out(self):
        table = self.succeed("--hw", "dgx-h100", "--model", SOURCE / "tests/data/hf/qwen3-vl-8b.json", "--gpus", "16")
        self.assertIn("part=text only, without its vision tower of 576 M parameters (--images) (model)", " ".join(table.split()))
        path = self.file("config.json", json.dumps({
            "model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 32,
            "torch_dtype": "float16", "colour": 3}))
        answer = self.answer("--hw", "dgx-h100", "--model", path, "--gpus", "8")
        self.assertEqual(answer["question"]["precision"], "bf16")
        self.assertIn({"key": "passed_over", "value": "colour", "origin": "model"}, answer["question"]["settings"])


class ProfileErrors(Case):
    """Everything that is wrong with a file is said at once, each with its place."""

    def test_profile(self):
        shipped = (SOURCE / "hardware_profiles" / "perlmutter.yaml").read_text()
        lines = shipped.splitlines()
        rates = [i for i, line in enumerate(lines) if "bandwidth:" in line][:2]
        for i in rates:
            lines[i] = lines[i].split("bandwidth:")[0] + "bandwidth: 3 apples"
        lines.append("colour: green")
        path = self.file("wrong.yaml", "\n".join(lines) + "\n")
        error = self.refuse("show", "hw", path, expect=[*(f"{path}:{i + 1}:" for i in rates), "3 apples", "unknown key 'colour'"])
        self.assertEqual(error.count("error:"), 3)

    def test_model_and_framework(self):
        model = self.file("model.yaml", "schema: plansearch/model/v1\nname: x\nlayers: none\nwidth: 3\n")
        error = self.refuse("show", "model", model, expect=["unknown key 'width'"])
        self.assertGreater(error.count("error:"), 1)
        framework = self.file("framework.yaml", "schema: plansearch/framework/v1\nname: x\nlike: megatron\nrecompute: 3\ncolour: green\n")
        error = self.refuse("show", "framework", framework, expect=["unknown key 'colour'"])
        self.assertGreater(error.count("error:"), 1)


class Pipelined(Case):
    """Sharded parameters with several stages, as torch.distributed.pipelining runs them."""

    def test_gradients_are_reduced_with_the_last_micro_batch(self):
        asked = ["--hw", "h100-500w", "--model", "llama3-70b", "--framework", "torchtitan", "--tp", "8", "--batch", "128",
                 "--micro-batch", "1", "--zero", "3", "--recompute", "full"]
        for stages, reductions in ((1, 1280), (4, 1)):  # a block of 80 layers, 16 micro-batches
            plan = self.answer("predict", *asked, "--gpus", 64 * stages, "--pp", stages)["plans"][0]
            counts = [row["count"] for row in plan["communication"] if row["what"] == "gradient of block parameters"]
            self.assertEqual(max(counts), reductions)
            # 70.6 B parameters in fp32: whole until then, over the stages and tensor ranks; else over data ranks too.
            whole = 4 * 70.6e9 / 8 / stages
            self.assertAlmostEqual(plan["memory"]["gradients_bytes"] / (whole / 8 if stages == 1 else whole), 1.0, delta=0.1)


class Spaces(Case):
    """Everything that can be asked of a search holds in every space."""

    # A framework that runs the space, and what keeps the question small.
    SPACES = {"framework": [], "degrees": [], "megatron": [], "data": [], "grids": ["--framework", "axonn"],
              "axonn": ["--framework", "axonn"], "4d": ["--framework", "axonn"],
              "layers": [], "operators": [], "primepar": ["--framework", "primepar"], "temporal": ["--framework", "primepar"],
              "full": ["--framework", "primepar"], "uneven": ["--pp", "2", "--micro-batch", "1,2", "--cp", "1"]}

    def in_every_space(self, check):
        for space, rest in self.SPACES.items():
            with self.subTest(space=space):
                check(["search", "--hw", "perlmutter", "--model", "gpt2-medium", "--batch", "32", "--space", space, *rest])

    def test_every_space_is_in_the_table(self):
        self.assertEqual(set(self.SPACES), {row["name"] for row in self.answer("list", "spaces")})

    def test_front(self):
        def check(asked):
            front = self.answer(*asked, "--gpus", "4")["pareto_front"]
            self.assertTrue(front)
            times = [plan["step_time_s"] for plan in front]
            self.assertEqual(times, sorted(times))
            result = run(*asked, "--gpus", "4", "--pareto")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("Pareto front", result.stdout)
        self.in_every_space(check)

    def test_all(self):
        def check(asked):
            path = self.directory / "all.csv"
            result = run(*asked, "--gpus", "4", "--all", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            rows = list(csv.DictReader(io.StringIO(path.read_text())))
            best = min(float(row["step_time_s"]) for row in rows)
            first = self.answer(*asked, "--gpus", "4", "--recompute", "none")["plans"][0]
            self.assertLessEqual(best, float(first["step_time_s"]) * (1 + 1e-9))
            self.assertEqual(len(rows), len({tuple(row.items()) for row in rows}), "a plan is told once")
        self.in_every_space(check)

    def test_ladder_and_lists(self):
        def check(asked):
            rungs = self.answer(*asked, "--gpus", "4,8")["ladder"]
            self.assertEqual([rung["gpus"] for rung in rungs], [4, 8])
            alone = self.answer(*asked, "--gpus", "8")["plans"][0]["step_time_s"]
            self.assertEqual(rungs[1]["plan"]["step_time_s"], alone)
        self.in_every_space(check)

    def test_threads(self):
        def check(asked):
            self.assertEqual(self.succeed(*asked, "--gpus", "8", "--threads", "1"),
                             self.succeed(*asked, "--gpus", "8", "--threads", "3"))
        self.in_every_space(check)

    def test_nearest_misses(self):
        def check(asked):
            result = run(*asked, "--gpus", "4", "--mem-reserve", "38.5GiB")
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("nearest misses:", result.stdout)
        self.in_every_space(check)

    # Questions, and what equal stages of the space are: an answer that was cut short counts too.
    SIMPLEST = [
        ("uneven", "--hw aws-p3 --model gpt2-xl --gpus 64 --framework alpa --recompute full", "--pp 1"),
        ("uneven", "--hw aws-p3 --model gpt2-xl --gpus 64 --framework alpa --recompute full", "--space framework --vpp 1"),
        ("uneven", "--hw dgx-h100 --model llama3-8b --gpus 32 --framework alpa", "--space framework --vpp 1"),
        ("uneven", "--hw perlmutter --model gpt2-medium --gpus 16 --batch 64", "--space framework --vpp 1"),
        ("layers", "--hw perlmutter --model gpt2-xl --gpus 16", "--space framework"),
        ("layers", "--hw dgx-h100 --model llama3-8b --gpus 32", "--space framework"),
        ("full", "--hw perlmutter --model gpt2-medium --gpus 8 --batch 32 --framework primepar", "--space framework"),
        ("full", "--hw dgx-h100 --model llama3-8b --gpus 32", "--space framework")]

    def test_no_planner_is_worse_than_its_simplest_plan(self):
        searched = functools.cache(run)  # one question has two simple plans
        for space, question, simplest in self.SIMPLEST:
            with self.subTest(space=space, question=question):
                asked = question.split()
                rest = simplest.split() if "--space" in simplest else ["--space", space, *simplest.split()]
                best = searched("search", *asked, "--space", space, "--time-limit", "600", "--format", "json")
                self.assertIn(best.returncode, (0, 130), best.stderr)
                equal = self.answer("search", *asked, *rest)["plans"][0]["step_time_s"]
                self.assertLessEqual(json.loads(best.stdout)["plans"][0]["step_time_s"], equal * (1 + 1e-9))

    def test_a_plan_that_fits_is_no_miss(self):
        # Of a mixture no operators are cut one by one here; plans of degrees fit.
        result = run("--hw", "dgx-h100", "--model", "mixtral-8x7b", "--gpus", "32", "--space", "operators", "--format", "json")
        self.assertEqual(result.returncode, 3, result.stderr)
        for miss in json.loads(result.stdout)["nearest_misses"]:
            self.assertGreater(miss["needed_bytes"], miss["limit_bytes"])

    def test_time_limit(self):
        def check(asked):
            result = run(*asked, "--gpus", "8", "--time-limit", "0.000001")
            self.assertIn(result.returncode, (0, 130))
            self.assertIn("stopped early", result.stdout)
        self.in_every_space(check)

    def test_exhaustive(self):
        def check(asked):
            pruned = self.answer(*asked, "--gpus", "4")["plans"][0]
            every = self.answer(*asked, "--gpus", "4", "--exhaustive")["plans"][0]
            self.assertEqual(every["config"], pruned["config"])
            self.assertEqual(every["step_time_s"], pruned["step_time_s"])
        self.in_every_space(check)

    def test_advice_on_padding(self):
        def check(asked):
            # Other frameworks pad the vocabulary themselves, or run no plan of the space.
            result = run(*asked, "--gpus", "8", *([] if "--framework" in asked else ["--framework", "torchtitan"]))
            if result.returncode == 0 and " torchtitan" in result.stdout:
                self.assertIn("padded to", result.stdout)
                advised.append(asked)
        advised = []
        self.in_every_space(check)
        self.assertGreaterEqual(len(advised), 3)


class Infeasible(Case):
    def test_model_too_large(self):
        result = run("--hw", "dgx-h100", "--model", "llama3.1-405b", "--gpus", "8")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("no plan fits", result.stdout)
        self.assertIn("nearest misses", result.stdout)
        self.assertRegex(result.stdout, r"hint: on \d+ GPUs it fits: ")
        json_result = run("--hw", "dgx-h100", "--model", "llama3.1-405b", "--gpus", "8", "--format",
                          "json")
        self.assertEqual(json_result.returncode, 3)
        for miss in json.loads(json_result.stdout)["nearest_misses"]:
            self.assertGreater(miss["needed_bytes"], miss["limit_bytes"])
            self.assertAlmostEqual(sum(miss["memory"].values()) / miss["needed_bytes"], 1.0, places=9)

    def test_remedies_are_true(self):
        """The number of GPUs and the change a remedy names do lead to a plan."""
        result = run("--hw", "perlmutter", "--model", "llama3-8b", "--gpus", "4", "--recompute", "none")
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("hint: with --offload optimizer it fits", result.stdout)
        self.assertRegex(result.stdout, r"hint: with another --recompute it is tight \(4\d % to run out of memory\)")
        gpus = re.search(r"hint: on (\d+) GPUs", result.stdout).group(1)
        self.succeed("--hw", "perlmutter", "--model", "llama3-8b", "--gpus", gpus, "--recompute", "none")
        result = run("predict", "--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "8")
        self.assertIn("GPUs and with other degrees it fits", result.stdout)

    def test_other_ways_out(self):
        swin = run("--hw", "dgx-h100", "--model", "swin-27b", "--gpus", "64")
        self.assertRegex(swin.stdout, r"hint: with --framework megatron it fits: ")
        self.succeed("--hw", "dgx-h100", "--model", "swin-27b", "--gpus", "64", "--framework", "megatron", "--top", "1")
        pairs = run("--hw", "dgx-h100", "--model", "gpt2-xl", "--gpus", "64", "--batch", "64", "--task", "dpo")
        self.assertRegex(pairs.stdout, r"hint: with --batch 128 it fits: ")
        ruled = run("--hw", "l40s", "--model", "gpt2-xl", "--gpus", "4", "--batch", "64", "--framework", "fsdp2", "--zero", "1")
        self.assertRegex(ruled.stdout, r"hint: fsdp2: FSDP shards parameters \(--zero 3\) or gradients")

    def test_what_is_tight_is_told_what_fits(self):
        tight = ["predict", "--hw", "dgx-h100", "--model", "llama3.1-405b", "--gpus", "1024", "--tp", "8", "--pp", "8", "--vpp", "8",
                 "--cp", "2", "--micro-batch", "1", "--batch", "512", "--zero", "1"]
        answer = self.answer(*tight)
        self.assertEqual(answer["plans"][0]["memory_verdict"], "tight")
        self.assertTrue(answer["remedies"])
        for remedy in answer["remedies"]:
            self.assertIn("it fits: ", remedy)
        self.assertIn("hint: with another --recompute it fits: ", self.succeed(*tight))

    def test_prediction_beyond_memory(self):
        result = run("predict", *QUESTION, "--gpus", "64", "--batch", "4096", "--micro-batch", "64",
                     "--format", "json")
        self.assertEqual(result.returncode, 3, result.stderr)
        answer = json.loads(result.stdout)
        self.assertFalse(answer["feasible"])
        self.assertGreater(answer["plans"][0]["step_time_s"], 0)
        self.assertGreater(answer["nearest_misses"][0]["needed_bytes"],
                           answer["nearest_misses"][0]["limit_bytes"])
        self.assertTrue(answer["remedies"])
        result = run("predict", *QUESTION, "--gpus", "64", "--batch", "4096", "--micro-batch", "64")
        self.assertEqual(result.returncode, 3)
        self.assertIn("does not fit: needs", result.stdout)
        self.assertIn("hint: with another --micro-batch it fits", result.stdout)


class Width(Case):
    """$COLUMNS characters to a line: columns go in a fixed order, sentences are wrapped."""

    QUESTIONS = [
        ["--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--tokens", "1T"],
        ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--framework", "torchtitan"],
        ["--hw", "selene", "--model", "gpt3-175b", "--gpus", "256", "--pareto"],
        ["--hw", "dgx-h100", "--model", "llama3.1-405b", "--gpus", "8"],
        ["--hw", "perlmutter", "--model", "gpt2-xl", "--tokens", "20B"],
        ["compare", "--hw", "h100,b200,mi355x-8", "--model", "llama3-8b", "--gpus", "8", "--tokens", "1T"],
        ["compare", "--hw", "h100", "--model", "llama3-8b", "--gpus", "8", "--batch", "64..128"],
        ["predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16", "--tp", "2", "--pp", "2"],
        ["explain", "--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "16"],
        ["explain", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16", "--tp", "2", "--pp", "2",
         "--timeline"],
        ["validate", SOURCE / "tests/data/validate/runs.csv"],
        ["validate", SOURCE / "tests/data/validate/matmul.csv"],
        *[["list", what] for what in ("hw", "models", "frameworks", "schedules", "exporters")],
        ["show", "hw", "dgx-h100"], ["show", "hw", "perlmutter"], ["show", "model", "llama3-8b"],
        ["show", "framework", "nanotron"],
        ["schedule", "zb-v", "--stages", "4", "--micro-batches", "8", "--times", "1,1,1"],
        ["reproduce", "hosoki"]]

    @staticmethod
    def tables(lines):
        """Titles, columns and cells of every table: what is above, of and below each rule."""
        for at, line in enumerate(lines):
            if not line.startswith("-") or line.strip("- "):
                continue
            end = next((i for i in range(at + 1, len(lines)) if not lines[i].strip()), len(lines))
            for span in re.finditer("-+", line):
                column = slice(*span.span())
                yield lines[at - 1][column].strip(), [row[column].strip() for row in lines[at + 1:end]]

    def test_nothing_overflows_and_no_column_is_empty(self):
        for question in self.QUESTIONS:
            for columns in (80, 100, 160):
                lines = run(*question, env={"COLUMNS": str(columns)}).stdout.splitlines()
                self.assertGreater(len(lines), 5, question)
                for line in lines:
                    if len(line.split()) > 1:  # one word, such as a path, is not broken
                        self.assertLessEqual(len(line), columns, line)
                for title, cells in self.tables(lines):
                    self.assertTrue(set(cells) - {"", "-"}, (question, columns, title))

    def test_a_column_has_one_unit(self):
        units = re.compile(r"[\d.,<]+ (ns|us|ms|s|h|days|KiB|MiB|GiB|TiB|kWh|MWh|GWh)(?: \(.*\))?")
        checked = 0
        for question in self.QUESTIONS[:10]:
            for title, cells in self.tables(run(*question).stdout.splitlines()):
                if title in ("this plan", "rival", "rival - this"):
                    continue  # times above, memory below
                found = {match[1] for match in map(units.fullmatch, cells) if match}
                self.assertLessEqual(len(found), 1, (question, title, cells))
                checked += len(found)
        self.assertGreater(checked, 30)

    def test_tokens_put_gpu_hours_before_utilisation(self):
        question = ["--hw", "perlmutter", "--model", "gpt2-xl", "--tokens", "20B"]
        for asked in (question, ["compare", *question, "--gpus", "16,32"]):
            for columns in (80, 100, 120):
                titles = [t for t, _ in self.tables(run(*asked, env={"COLUMNS": str(columns)}).stdout.splitlines())]
                self.assertIn("GPU-hours", titles)
                self.assertNotIn("price", titles)

    def test_drawings_go_on_below(self):
        question = ["schedule", "1f1b", "--stages", "2", "--micro-batches", "8", "--times", "1,1,1"]
        whole = run(*question).stdout.split("\n\n")[1].splitlines()
        blocks = run(*question, env={"COLUMNS": "40"}).stdout.split("\n\n")[1:-1]
        self.assertGreater(len(blocks), 1)
        pieces = [[line.partition("|")[2] for line in block.splitlines()] for block in blocks]
        for number, line in enumerate(whole):
            self.assertEqual(" ".join("".join(p[number] + " " for p in pieces).split()),
                             " ".join(line.partition("|")[2].split()))

    def test_colours_only_on_terminals_that_have_them(self):
        def on_terminal(*arguments, **environment):
            leader, follower = pty.openpty()
            with open(leader, "rb", buffering=0) as reader:
                env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")} | environment
                subprocess.run([BINARY, *arguments], stdout=follower, stderr=follower, env=env, check=False)
                os.close(follower)
                return reader.read(1 << 16)
        for question in (["list", "frameworks"], ["list", "nonsense"]):
            self.assertIn(b"\x1b[", on_terminal(*question, TERM="xterm"))
            self.assertNotIn(b"\x1b[", on_terminal(*question, TERM="xterm", NO_COLOR="1"))
            self.assertNotIn(b"\x1b[", on_terminal(*question, TERM="dumb"))
        self.assertIn(b"\x1b[", on_terminal("list", "frameworks", "--color", "always", TERM="dumb"))

    def test_more_gpus_than_there_are_is_said_first(self):
        beyond = "16384 GPUs are more than the 11616 of dgx-h100"
        size = ["--hw", "dgx-h100", "--model", "llama3-70b"]
        for command in ([], ["compare"]):
            text = self.succeed(*command, *size, "--gpus", "16384")
            self.assertTrue(text.startswith(beyond), text[:100])
        for count in re.findall(r"on ([\d,]+) GPUs", run(*size, "--nodes", "125000").stderr):
            self.assertLessEqual(int(count.replace(",", "")), 11616)

    def test_what_is_left_out_is_never_the_plan(self):
        question = ["--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--top", "1"]
        for columns, shown, gone in ((200, ["tokens/s", "p10 - p90", "why"], []),
                                     (90, ["step", "memory"], ["tokens/s", " why"]),
                                     (40, ["dp", "tp", "step", "memory"], ["p10 - p90", "MFU"])):
            text = run(*question, env={"COLUMNS": str(columns)}).stdout
            header = " ".join(title for title, _ in self.tables(text.splitlines()))
            for title in shown:
                self.assertIn(title, header)
            for title in gone:
                self.assertNotIn(title, header)


class Interruption(Case):
    QUESTION = ["--hw", "selene", "--model", "gpt3-175b", "--gpus", "1024", "--exhaustive",
                "--space", "megatron", "--threads", "1", "--format", "json"]

    def test_time_limit(self):
        answer = json.loads(run(*self.QUESTION, "--time-limit", "0.05").stdout)
        self.assertGreater(answer["counts"]["unvisited"], 0)
        self.assertIn("stopped early", answer["optimality"])

    def test_a_ladder_that_was_cut_short_does_not_say_that_nothing_fits(self):
        # Micro-batches of 256 sequences fit nowhere; which sizes were left alone is said.
        result = run("--hw", "selene", "--model", "gpt3-175b", "--micro-batch", "256", "--recompute",
                     "none", "--zero", "3", "--time-limit", "0.001")
        self.assertEqual(result.returncode, 130, result.stderr)
        self.assertNotIn("nothing fits", result.stdout)
        self.assertIn("cut short before anything was found", result.stdout)

    DEEPSEEK = ["--hw", "h800-8", "--model", "deepseek-v3", "--gpus", "2048"]
    LARGE_PLAN = [*DEEPSEEK, "--pp", "16", "--ep", "64", "--dp", "128", "--tp", "1", "--zero", "1", "--micro-batch", "1"]
    LONG = (
        [*DEEPSEEK, "--exhaustive"],
        [*DEEPSEEK, "--space", "megatron", "--schedule", "dualpipe"],
        ["--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "512", "--framework", "zero-bubble", "--batch", "131072"],
        ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "256", "--space", "uneven"],
        ["--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--space", "uneven"],
        # Prices between the layouts of 128 devices take minutes.
        ["--hw", "dgx-h100", "--model", "gpt3-175b", "--gpus", "128", "--tp", "128", "--batch", "128",
         "--space", "temporal", "--framework", "primepar"],
        ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "32", "--space", "temporal", "--framework", "primepar"],
        ["predict", *LARGE_PLAN, "--batch", "15360", "--schedule", "dualpipe"],
        ["predict", *LARGE_PLAN, "--batch", "1280000", "--schedule", "zb-auto"],
        ["predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--pp", "8", "--dp", "2", "--batch", "600000",
         "--micro-batch", "1", "--schedule", "gpipe", "--trace", "/dev/null", "--force"],
        ["--hw", "selene", "--model", "gpt3-175b", "--gpus", "4096", "--exhaustive", "--top", "10000"],
        ["--hw", "h800-8,dgx-h100", "--model", "deepseek-v3,llama3-70b", "--gpus", "2048"],
        ["reproduce", "alpa"],
        ["reproduce", "hosoki-planner"],
        ["reproduce", "primepar-nodes"],
        ["bench"],
    )
    HANGS = 600  # seconds: no busy machine makes a second that long

    def ended(self, process, cause):
        """Of a process whose time is over: what it says, and that it ends."""
        try:
            out, err = process.communicate(timeout=self.HANGS)
        finally:
            process.kill()
        self.assertIn(process.returncode, (0, 3, 130), (process.args, err))
        self.assertNotIn(b"internal", err)
        if process.returncode == 130:
            self.assertIn(cause, err, process.args)
            expected = rb": (this is the best|nothing was found) so far" if out else b" before there was an answer"
            self.assertRegex(err, expected, process.args)
        return out, err

    def start(self, *arguments, **streams):
        return subprocess.Popen([BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **streams)

    def test_no_command_outlives_its_time_limit(self):
        cut = 0
        for command in self.LONG:
            process = self.start(*command, "--time-limit", "0.5", "--threads", "2")
            time.sleep(0.5)
            _, err = self.ended(process, b"the time limit is reached")
            cut += b"the time limit is reached" in err
        self.assertGreater(cut, 5)

    def test_no_command_outlives_the_first_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            cut = 0
            for command in self.LONG:
                process = self.start(*command, "--threads", "1")
                time.sleep(0.3)
                process.send_signal(number)
                self.ended(process, b"interrupted")
                cut += process.returncode == 130
            self.assertGreater(cut, 5)

    def test_no_command_waits_for_a_pipe_after_the_first_signal(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        for command in (["validate", pipe], ["--hw", pipe, "--model", "gpt2-xl"],
                        [*QUESTION, "predict", "--plan", "/dev/stdin"]):
            for number in (signal.SIGINT, signal.SIGTERM):
                process = self.start(*command, stdin=subprocess.PIPE)
                time.sleep(0.3)
                process.send_signal(number)
                self.ended(process, b"interrupted")
                self.assertEqual(process.returncode, 130, command)

    @staticmethod
    def is_blocked(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "S"

    def test_any_second_signal_ends_the_process(self):
        # Its trace is not read: after the first signal it waits on.
        for first, second in ((signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGTERM)):
            with self.start("predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--pp", "8", "--dp", "2", "--batch",
                            "600000", "--micro-batch", "1", "--trace", "/dev/stdout", "--force") as process:
                process.stdout.read(1)
                for number in (first, second):
                    while not self.is_blocked(process):
                        time.sleep(0.05)
                    process.send_signal(number)
                    time.sleep(0.3)
                process.stdout.close()
                self.assertEqual(process.wait(timeout=600), -second)

    def test_no_study_calls_what_a_stop_left_a_result(self):
        # Of searches that were cut short no figure is known: none is printed.
        for paper in ("alpa", "primepar", "axonn"):
            result = run("reproduce", paper, "--time-limit", "0.3", "--threads", "1")
            self.assertEqual((result.returncode, result.stdout), (130, ""), paper)
            self.assertIn("the time limit is reached before there was an answer", result.stderr)

    def test_a_comparison_that_was_cut_short_says_which_rows_were(self):
        command = ["--hw", "h800-8,dgx-h100", "--model", "deepseek-v3", "--batch", "3840,7680", "--gpus", "2048",
                   "--exhaustive", "--threads", "1", "--time-limit"]
        result = run(*command, "1", "--format", "json")
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual(len(rows), 4)
        self.assertEqual(rows[-1]["reason"], "not searched: stopped early")
        self.assertEqual(rows[-1]["question"]["global_batch"], 7680)
        self.assertEqual(result.returncode, 0 if any(row["plan"] for row in rows) else 130, result.stderr)
        said = [row["advice"] or row["reason"] for row in rows if row["reason"] != "not searched: stopped early"]
        self.assertRegex(said[-1], "^(stopped early|cut short)")
        self.assertEqual(run(*command, "0.001").returncode, 130)

    def test_what_was_not_found_is_not_called_the_best(self):
        result = run(*self.QUESTION, "--time-limit", "0.001")
        self.assertEqual(result.returncode, 130)
        self.assertIn("the time limit is reached: nothing was found so far", result.stderr)
        self.assertNotIn("this is the best", result.stderr)

    def test_spaces_without_a_size_name_no_share_of_it(self):
        process = self.start("--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "32", "--space", "temporal",
                             "--framework", "primepar", "--time-limit", "1", "--format", "json", "--threads", "1")
        out, _ = self.ended(process, b"the time limit is reached")
        self.assertNotIn(" 0.0 %", json.loads(out)["optimality"])

    PASSES = ["--hw", "selene", "--model", "gpt3-175b", "--gpus", "256", "--passes", "all", "--format", "json"]
    ENDS = (
        PASSES,
        ["explain", "--hw", "dgx-b300", "--model", "deepseek-v2-lite", "--gpus", "32", "--overlap", "grad,param",
         "--passes", "all", "--ep", "4", "--format", "json"],
        ["capacity", "--hw", "tpu-7x", "--model", "mixtral-8x7b", "--gpus", "8", "--tokens", "1B", "--passes", "all"],
        ["capacity", "--model", "llama3-70b", "--tokens", "2T", "--hw",
         "dgx-h100,dgx-b200,dgx-b300,mi300x-8,aws-p5,selene,perlmutter,lumi,h800-8,tpu-7x"],
    )

    @staticmethod
    def work_of(process):
        """CPU seconds that a process has taken so far."""
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_little_work_follows_a_signal(self):
        for command in self.ENDS:
            process = self.start(*command, "--threads", "1")
            while self.work_of(process) < 0.4 and process.poll() is None:
                time.sleep(0.01)
            before = self.work_of(process) if process.poll() is None else 0.0
            process.send_signal(signal.SIGTERM)
            done = threading.Event()

            def watch(process=process, before=before, done=done):
                while not done.wait(0.02) and process.returncode is None:
                    try:
                        if self.work_of(process) - before > 2.0:
                            process.kill()
                    except OSError:  # it has ended
                        return

            watcher = threading.Thread(target=watch)
            watcher.start()
            process.communicate()
            done.set()
            watcher.join()
            self.assertIn(process.returncode, (0, 3, 130), command)

    def test_plans_are_shown_after_a_stop(self):
        """Unequal stages of 128 layers take minutes; the best equal ones are the answer so far."""
        result = run("--hw", "dgx-h100", "--model", "llama3-8b", "--set", "model.layers=128", "--gpus", "32", "--space",
                     "uneven", "--time-limit", "0.3", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("this is the best so far", result.stderr)
        answer = json.loads(result.stdout)
        self.assertGreaterEqual(len(answer["plans"]), 1)
        self.assertIn("stopped early", answer["optimality"])

    def test_pictures_are_drawn_after_a_stop(self):
        page, svg = self.directory / "page.html", self.directory / "front.svg"
        result = run(*self.DEEPSEEK, "--exhaustive", "--time-limit", "0.7", "--report", page, "--plot", f"pareto={svg}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(page.exists())
        self.assertTrue(svg.exists())

    def test_a_fit_hears_the_time_limit(self):
        lines = ["gpu,m,n,k,dtype,time_us"]
        lines += [f"h100,{64 + i},4096,{128 + i % 64},bf16,{20 + i % 97}" for i in range(20000)]
        table = self.file("products.csv", "\n".join(lines) + "\n")
        result = run("fit", table, "--base", "dgx-h100", "--out", self.directory / "mine.yaml", "--time-limit", "0.01")
        self.assertEqual(result.returncode, 130, result.stderr)
        self.assertIn("the time limit is reached", result.stderr)

    def test_interrupted_answers_say_so(self):
        process = self.start(*self.DEEPSEEK, "--exhaustive", "--threads", "1", "--format", "json")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = self.ended(process, b"interrupted")
        if process.returncode == 0:
            self.skipTest("the search was done before the signal came")
        self.assertIn("stopped early", json.loads(out)["optimality"])

    def test_memory_limit(self):
        result = run(*self.DEEPSEEK, "--memory-limit", "20 MB", "--format", "json")
        self.assertIn("the memory limit is reached", result.stderr)
        self.assertIn("stopped early", json.loads(result.stdout)["optimality"])
        self.refuse(*QUESTION, "--memory-limit", "much", expect=["--memory-limit", "is not a memory size"])

    def test_side_questions_are_not_waited_for(self):
        # The price takes milliseconds; what would fit takes seconds.
        result = run("predict", *self.LARGE_PLAN, "--batch", "15360", "--schedule", "dualpipe", "--precision", "fp8",
                     "--fp8-recipe", "block", "--seq-len", "32768", "--framework", "any")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("hint: there was no time to try all changes that may help", result.stdout)


class Schedules(Case):
    """Expected values: closed forms and independent simulations, as in tests/unit/schedule/orders."""

    def test_windows_of_what_is_too_long(self):
        text = self.succeed("schedule", "1f1b", "--stages", "4", "--micro-batches", "120", "--times", "1,1,1")
        self.assertRegex(text, r"(?m)^from 0 to 44 of 369, a column is 0.5$")
        self.assertRegex(text, r"(?m)^stage 0  \| 00112233\.{12}aaaa44bbbb55")
        self.assertRegex(text, r"(?m)^from 325 to 369 of 369")
        self.assertIn("0-9: forward of a micro-batch", text)

    def test_timeline_of_a_given_plan(self):
        plan = [*QUESTION, "--gpus", "8", "--pp", "2"]
        text = self.succeed("predict", *plan, "--timeline")
        self.assertIn("one step, 1f1b schedule", text)
        self.assertTrue(text.startswith(self.succeed("predict", *plan)))

    def schedule(self, *arguments):
        answer = json.loads(self.succeed("schedule", *arguments, "--format", "json"))
        schema = json.loads((SOURCE / "docs/schema/schedule.v1.schema.json").read_text())
        json_schema.check(answer, schema)
        self.assertLessEqual(answer["bound"], answer["makespan"])
        return answer

    def test_golden_values(self):
        grid = ["--stages", "4", "--micro-batches", "8"]
        plain = self.schedule("1f1b", *grid, "--times", "1,2")
        self.assertEqual((plain["makespan"], plain["bubble_time"]), (33, 9))
        self.assertEqual(plain["peak_activations"], [4, 3, 2, 1])
        # A chunk takes half of a device-stage: fractions are exact.
        chunked = self.schedule("interleaved", *grid, "--times", "1,2")
        self.assertEqual((chunked["chunks"], chunked["makespan"]), (2, 28.5))
        self.assertEqual(self.schedule("zb-h1", *grid, "--times", "1,1,1")["makespan"], 27)
        self.assertEqual(self.schedule("ZB_H2", *grid, "--times", "0.1,0.1,0.1")["span"], 2.4)
        self.assertEqual(self.schedule("zb-v", *grid, "--times", "2,2,2")["span"], 48)
        # 2 c [(p - 1) m / p + p - 2] for transfers
        slow = self.schedule("1f1b", *grid, "--times", "1,2", "--p2p", "0.5")
        self.assertEqual(slow["makespan"], 33 + 2 * 0.5 * (3 * 2 + 2))

    def test_waves_and_overlap(self):
        grid = ["--stages", "4", "--micro-batches", "8"]
        waves = self.schedule("hanayo", *grid, "--times", "4,4", "--waves", "2")
        self.assertEqual((waves["chunks"], waves["makespan"]), (4, 64 + 6))
        self.refuse("schedule", "hanayo", *grid, "--times", "1,1", "--waves", "2", "--chunks", "2",
                    expect=["a wave of hanayo is 2 chunks"])
        self.refuse("schedule", "1f1b", *grid, "--times", "1,1", "--waves", "2",
                    expect=["1f1b has no waves"])
        apart = self.schedule("dualpipe", *grid, "--times", "1,1,1")
        self.assertEqual((apart["makespan"], apart["times"]["overlapped"]), (26, 3))
        self.assertLess(self.schedule("dualpipe", *grid, "--times", "1,1,1,2")["makespan"], 26)
        # Each replica passes all devices: twice the stages in the picture, weights twice.
        self.assertEqual(self.schedule("chimera", *grid, "--times", "1,1")["makespan"], 18)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mine.csv")
            for name, more in (("dualpipe", []), ("zb-v", []), ("interleaved", ["--chunks", "2"])):
                grid = [name, "--stages", "4", "--micro-batches", "8", "--times", "2,4,2,6", *more]
                path.write_text(self.succeed("schedule", *grid, "--format", "csv"))
                named, read = self.schedule(*grid), self.schedule(str(path), "--times", "2,4,2,6")
                self.assertEqual(read["schedule"], str(path))
                for key in ("makespan", "span", "peak_activations", "grid"):
                    self.assertEqual(read[key], named[key])
            predict = ["predict", *QUESTION, "--gpus", "4", "--pp", "4", "--vpp", "2", "--batch", "8",
                       "--micro-batch", "1", "--format", "json"]
            plans = [json.loads(run(*predict, "--schedule", s).stdout)["plans"][0]
                     for s in ("interleaved", str(path))]
            self.assertEqual(plans[1]["config"]["schedule"], str(path))
            self.assertAlmostEqual(plans[0]["step_time_s"], plans[1]["step_time_s"], places=9)
            path.write_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
            self.refuse("schedule", str(path), "--times", "1,1",
                        expect=["mine.csv: error: the order waits for itself",
                                "itself: device 0: B0 of stage 0 needs B0 of stage 1, device 1: "])
            path.write_text("0F0,0B0\n1F0,1B0\n")
            self.refuse("schedule", str(path), "--times", "1,1", "--micro-batches", "8",
                        expect=["takes 1 micro-batch, not 8"])
        self.refuse("schedule", "missing.csv", "--times", "1,1", expect=["missing.csv"])

    def test_several_forwards(self):
        thrice = self.schedule("3f1b", "--stages", "4", "--micro-batches", "32", "--times", "1,1")
        self.assertEqual((thrice["makespan"], thrice["peak_activations"]), (138, [4, 3, 2, 1]))
        self.refuse("schedule", "1f1b", "--stages", "3", "--micro-batches", "4", "--times", "1,1", "--forwards", "3",
                    expect=["with its passes in turn the order waits for itself: device 1: B0 of stage 1 needs F0 of "
                            "pass 3 of stage 1, device 1: F0 of pass 3 of stage 1 is behind B0 of stage 1"])
        plan = ["predict", "--hw", "dgx-2-v100", "--model", "alphafold2-evoformer", "--gpus", "16", "--batch", "256",
                "--recompute", "full", "--micro-batch", "1"]
        staged = [*plan, "--pp", "4", "--dp", "4"]
        answer = json.loads(self.succeed(*staged, "--framework", "nnscaler", "--format", "json"))["plans"][0]
        self.assertEqual(answer["config"]["schedule"], "3f1b")
        self.assertTrue([c for c in answer["communication"] if c["what"] == "way back to the first stage"])
        self.succeed(*plan, "--dp", "16", "--framework", "deepspeed")
        self.refuse(*staged, "--framework", "nnscaler", "--schedule", "1f1b", expect=["1 forward pass of a micro-batch, not 3"])
        self.refuse(*staged, "--framework", "megatron", expect=["megatron has no order for 3 forward passes over stages"])
        self.refuse("predict", "--hw", "dgx-h100", "--model", "gpt2-xl", "--gpus", "8", "--pp", "4", "--framework", "any",
                    "--schedule", "3f1b", expect=["3f1b orders several forward passes, and micro-batches pass gpt2-xl once"])

    def test_blocks_on_all_devices(self):
        """Embeddings and head on all stages: the answer is read back, told apart from what nobody runs, and searched."""
        network = ["--hw", "dgx-2-v100", "--model", "t5-3.9b", "--gpus", "8", "--batch", "32", "--recompute", "full"]
        plan = ["predict", *network, "--pp", "4", "--tp", "2", "--micro-batch", "1", "--constraints", "interlaced"]
        with tempfile.TemporaryDirectory() as folder:
            text = self.succeed(*plan, "--framework", "nnscaler", "--format", "json")
            answer = json.loads(text)
            json_schema.check(answer, json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text()))
            first = answer["plans"][0]
            self.assertEqual(first["config"]["order"], {"window": True})
            self.assertEqual(first["config"]["assign"],
                             [{"of": ["embedding", "decoder_embedding", "head"], "devices": "all"}])
            self.assertGreaterEqual(first["found_order"]["window_s"], first["found_order"]["bound_s"])
            path = pathlib.Path(folder, "answer.json")
            path.write_text(text)
            again = json.loads(self.succeed("predict", "--plan", f"{path}#1", "--format", "json"))["plans"][0]
            self.assertEqual(again, first)
            self.assertIn("on the devices of all stages", self.succeed("explain", f"{path}#1"))
            self.refuse("export", f"{path}#1", "--to", "megatron", code=4, expect=["its order is found for the plan"])
        self.refuse(*plan, "--framework", "nnscaler", "--timeline", expect=["has no program of instructions"])
        for command in (plan, ["search", *network, "--constraints", "interlaced"]):
            self.refuse(*command, "--framework", "megatron",
                        expect=["megatron runs no blocks on the devices of several stages", "--framework nnscaler"])

    def ordering(self, *arguments):
        answer = json.loads(self.succeed("schedule", *arguments, "--format", "json"))
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/ordering.v1.schema.json").read_text()))
        self.assertLessEqual(answer["period_bound"], answer["period"] or answer["period_bound"])
        self.assertLessEqual(answer["makespan_bound"], answer["makespan"])
        return answer

    def test_blocks(self):
        published = SOURCE / "validation/reproduce/nnscaler/interlaced.yaml"
        given = self.ordering("--blocks", str(published), "--memory-cap", "6,5,4,3")
        self.assertEqual((given["given"], given["makespan"], [d["peak"] for d in given["devices"]]), (True, 60, [6, 5, 4, 3]))
        done = run("schedule", "--blocks", str(published), "--memory-cap", "5")
        self.assertEqual(done.returncode, 3)
        self.assertIn("device 0 keeps 6, and may keep 5", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "blocks.yaml")
            text = published.read_text()
            path.write_text(text[:text.index("starts:")])
            one = self.ordering("--blocks", str(path), "--micro-batches", "6", "--memory-cap", "6,5,4,3")
            self.assertEqual((one["period"], one["period_bound"], one["makespan"]), (8, 8, 60))
            self.assertTrue(all(d["peak"] <= d["cap"] for d in one["devices"]))
            question = ["schedule", "--blocks", str(path), "--micro-batches", "6", "--memory-cap", "6,5,4,3"]
            self.assertEqual(self.succeed(*question, "--threads", "1"), self.succeed(*question, "--threads", "2"))
            found = path.with_name("found.yaml")
            found.write_text(path.read_text() + "starts: " + json.dumps(one["starts"]) + "\n")
            self.assertEqual(self.ordering("--blocks", str(found))["makespan"], 60)
            self.refuse("schedule", "--blocks", str(path), expect=["--micro-batches is missing"])
            self.refuse(*question, "--stages", "4", expect=["--stages is of schedules by name, not of --blocks"])
            self.refuse(*question[:-1], "6,5", expect=["2 amounts for 4 devices"])
            path.write_text(path.read_text() + "before: [embed_back before f0]\n")
            self.refuse(*question, expect=["blocks.yaml:", "rules lead in a circle: ", "embed_back before f0 (line 21)"])
        self.refuse("schedule", "--times", "1,1", expect=["name is required"])

    def test_memory_cap(self):
        grid = ["--stages", "4", "--micro-batches", "8", "--times", "1,1,1"]
        uneven = [*grid[:4], "--times", "10,12,3"]
        capped = self.schedule("zb-auto", *uneven, "--memory-cap", "7")
        self.assertEqual((capped["memory_cap"], capped["too_full"]), (7, None))
        self.assertLessEqual(max(capped["peak_activations"]), 7)
        self.assertLess(capped["makespan"], self.schedule("zb-auto", *uneven)["makespan"])
        done = run("schedule", "gpipe", *grid, "--memory-cap", "2")
        self.assertEqual(done.returncode, 3)
        self.assertIn("gpipe does not fit 2 micro-batches: stage 0 keeps 3 from 2 on, when F2 starts", done.stderr)

    def test_beyond_the_framework(self):
        question = [*QUESTION, "--gpus", "16", "--pp", "4", "--top", "3"]
        answer = json.loads(self.succeed(*question, "--format", "json"))
        first = answer["plans"][0]["step_time_s"]
        beyond = answer["beyond_framework"]
        self.assertTrue(beyond)
        for row in beyond:
            self.assertLess(row["plan"]["step_time_s"], first)
            self.assertNotIn(row["plan"]["config"]["schedule"], ("1f1b", "interleaved"))
            self.assertEqual(row["plan"]["memory_verdict"], "fits")
        self.assertIn("beyond megatron: ", self.succeed(*question))
        # The plan is the one that the command prices.
        named = run(*beyond[0]["command"].split()[1:], "--format", "json")
        self.assertEqual(json.loads(named.stdout)["plans"][0]["step_time_s"], beyond[0]["plan"]["step_time_s"])
        self.assertAlmostEqual(beyond[0]["gain"], 1 - beyond[0]["plan"]["step_time_s"] / first)
        pinned = json.loads(self.succeed(*question, "--schedule", "1f1b", "--format", "json"))
        for row in pinned["beyond_framework"]:
            self.assertEqual(row["plan"]["config"]["schedule"], "1f1b")
        self.assertNotIn("beyond", self.succeed(*question, "--no-beyond"))

    def test_any_framework(self):
        predict = ["predict", *QUESTION, "--gpus", "4", "--pp", "4", "--batch", "8", "--micro-batch", "1",
                   "--format", "json"]
        times = {}
        for name in ("1f1b", "zb-h1", "zb-h2", "v-half", "v-min", "zb-auto", "dualpipe", "dualpipe-v", "chimera",
                     "hanayo", "zb-v", "eager-1f1b", "gpipe", "breadth-first"):
            done = run(*predict, "--schedule", name)
            self.assertEqual(done.returncode, 0, done.stderr)
            plan = json.loads(done.stdout)["plans"][0]
            times[name] = plan["step_time_s"]
            self.assertEqual("does not run" in done.stderr, name != "1f1b")
        self.assertLess(times["zb-h1"], times["1f1b"])

    def test_forms(self):
        question = ["schedule", "1f1b", "--stages", "2", "--micro-batches", "2", "--times", "1,2"]
        table = self.succeed(*question)
        self.assertIn("stage 0 | F0 F1 .  .  B0 B0 .  B1 B1", table)
        self.assertEqual(self.succeed(*question, "--format", "csv"), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
        large = self.schedule("zb-h1", "--stages", "16", "--micro-batches", "100000",
                              "--times", "1,1,1")
        self.assertIsNone(large["grid"])
        self.assertEqual(large["makespan"], 300000 + 15)

    def test_refusals(self):
        grid = ["--stages", "4", "--micro-batches", "6", "--times", "1,1,1"]
        self.refuse("schedule", "zb-x", *grid, expect=["unknown schedule 'zb-x'", "zb-h1"])
        self.refuse("schedule", "zb-v", *grid, "--chunks", "3",
                    expect=["zb-v takes 2 chunks per stage, not 3"])
        self.refuse("schedule", "zb-v", *grid, expect=["zb-v takes at least 7 micro-batches, not 6"])
        self.refuse("schedule", "interleaved", *grid,
                    expect=["interleaved takes a multiple of 4 micro-batches, not 6"])
        self.succeed("schedule", "interleaved", *grid, "--group", "6")
        self.refuse("schedule", "1f1b", *grid, "--group", "4",
                    expect=["1f1b takes no micro-batches in a group, not 4"])
        for times in ("1", "1,2,3,4", "1,2,3,6,6", "1,x", "1,-2", "1,,2", "1,1e400"):
            self.refuse("schedule", "gpipe", *grid[:4], "--times", times, expect=["--times"])
        self.refuse("schedule", "gpipe", "--stages", "4", "--times", "1,2",
                    expect=["--micro-batches is missing"])
        self.refuse("schedule", "gpipe", "--stages", "4", "--micro-batches", "1000000", "--times",
                    "999999999999,999999999999", "--p2p", "0.00000000001", expect=["64 bits"])
        self.refuse("schedule", "breadth-first", "--stages", "4096", "--micro-batches", "1000000",
                    "--times", "1,1", "--format", "csv", expect=["too many pieces"])


class Lists(Case):
    def test_lists(self):
        for what, name in (("hw", "perlmutter"), ("models", "gpt2-xl"), ("frameworks", "megatron"),
                           ("schedules", "1f1b")):
            self.assertIn(name, self.succeed("list", what))
            rows = list(csv.DictReader(io.StringIO(self.succeed("list", what, "--format", "csv"))))
            self.assertIn(name, [row["name"] for row in rows])
            self.assertEqual(len(json.loads(self.succeed("list", what, "--format", "json"))), len(rows))

    def test_index(self):
        """Rows come from listings.json while no file has changed, and from the files afterwards."""
        for folder in ("hardware_profiles", "models", "frameworks"):
            shutil.copytree(SOURCE / folder, self.directory / folder)
        env = {"PLANSEARCH_DATA": str(self.directory)}
        listed = lambda what: run("list", what, env=env).stdout
        known = {what: listed(what) for what in ("hw", "models", "frameworks")}
        index = self.directory / "listings.json"
        self.assertEqual(run("list", "index", "--out", str(index), env=env).returncode, 0)
        for what, rows in known.items():
            self.assertEqual(listed(what), rows)
        written = index.read_text()
        index.write_text(written.replace('"gpt2-xl"', '"from-the-index"'))
        self.assertIn("from-the-index", listed("models"))
        for broken in ("", "[]", "{", '{"digest": 1}', written[:-40], written.replace('["gpt2-xl"', '[1'), written.replace('["gpt2-xl"', '["a","b"')):
            index.write_text(broken)
            self.assertEqual(listed("models"), known["models"])
        index.write_text(written)
        model = self.directory / "models" / "gpt2-xl.yaml"
        model.write_text(model.read_text().replace("global_batch: 512", "global_batch: 513"))
        self.assertNotEqual(listed("models"), known["models"])
        shutil.copy(model, self.directory / "models" / "a-new-one.yaml")
        self.assertIn("a-new-one", listed("models"))

    def test_completion(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.succeed("completion", shell)
            for word in ("micro-batch", "predict", "interleaved", "plansearch list"):
                self.assertIn(word, script)
        self.assertIn(self.succeed("completion", "bash"), self.succeed("completion", "zsh"))  # zsh runs its functions
        script = self.file("completion.bash", self.succeed("completion", "bash"))
        for words, expected in ((["plansearch", "pre"], "predict"),
                                (["plansearch", "--recompute", "s"], "selective"),
                                (["plansearch", "list", "f"], "frameworks"),
                                (["plansearch", "explain", "--micro"], "--micro-batch")):
            quoted = " ".join(f"'{word}'" for word in words)
            shell = (f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
                     "_plansearch; echo \"${COMPREPLY[@]}\"")
            result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True,
                                    timeout=600)
            self.assertIn(expected, result.stdout.split(), result.stderr)


class Bench(Case):
    def test_bench(self):
        bench = json.loads(self.succeed("bench", "--format", "json", "--threads", "2"))
        what = [rate["what"] for rate in bench["rates"]]
        for text in ("bounds", "estimates", "16 stages x 64 micro-batches"):
            self.assertTrue(any(text in name for name in what), what)
        for model in ("gpt3-175b", "deepseek-v3"):
            profiles = {r["what"] for r in bench["rates"] if model in r["problem"]}
            self.assertLessEqual({"fresh class profiles", "known class profiles"}, profiles)
        self.assertEqual(len(bench["searches"]), 5)
        self.assertRegex(bench["signature"], "^[0-9a-f]{16}$")
        self.assertLess(bench["peak_memory_bytes"], 2**30)


class Constraints(Case):
    """Lists, ranges and bounds of degrees and sizes."""

    def test_a_limited_search_is_the_whole_one_filtered(self):
        question = ["--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "32", "--exhaustive"]
        plans = self.directory / "plans.csv"
        run(*question, "--all", plans)
        fitting = [row for row in csv.DictReader(io.StringIO(plans.read_text())) if float(row["memory_risk"]) <= 0.1]
        everything = sorted(fitting,
                            key=lambda row: (float(row["step_time_s"]), float(row["peak_memory_bytes"])))
        for flags, keeps in (
                (["--tp", "1,5"], lambda p: p["tp"] in ("1", "5")),
                (["--pp", "2..8", "--max-micro-batch", "2"],
                 lambda p: 2 <= int(p["pp"]) <= 8 and int(p["micro_batch"]) <= 2),
                (["--min-pp", "2", "--max-vpp", "1", "--recompute", "full,none"],
                 lambda p: int(p["pp"]) >= 2 and p["vpp"] == "1"),
                (["--zero", "1,2", "--max-dp", "16"],
                 lambda p: int(p["dp"]) <= 16 and (int(p["dp"]) * int(p["cp"]) == 1 or p["zero"] in "12")),
                (["--schedule", "1f1b,gpipe"], lambda p: p["pp"] == "1" or p["schedule"] != "interleaved")):
            answer = json.loads(run(*question, *flags, "--format", "json").stdout)  # megatron runs no gpipe: a note
            kept = [float(row["step_time_s"]) for row in everything if keeps(row)]
            leaders = {}  # rows by the fastest of their variants
            # Recomputation of some layers is looked at beside the space (docs/output.md).
            answer["plans"] = [plan for plan in answer["plans"] if not plan["config"]["recompute_layers"]]
            for plan in answer["plans"]:
                row = plan["variant_of"] or plan["rank"]
                leaders[row] = min(leaders.get(row, math.inf), plan["step_time_s"])
            answered = {plan["step_time_s"] for plan in answer["plans"]}
            self.assertEqual(min(leaders.values()), kept[0], flags)
            self.assertLessEqual(answered, set(kept), flags)
            self.assertLessEqual({time for time in kept if time < max(leaders.values())}, answered, flags)

    def test_refusals(self):
        for flags, expect in ((["--tp", "1,x"], ["--tp x: must be at least 1", "list (1,2,4)"]),
                              (["--pp", "8..2"], ["--pp 8..2: the range is empty"]),
                              (["--max-pp", "0"], ["--max-pp 0: must be at least 1"]),
                              (["--recompute", "none,ful"], ["--recompute ful", "did you mean full?"]),
                              (["--tp", "8", "--max-tp", "4"], ["--tp 8 is not at most 4"]),
                              (["--min-pp", "49"], ["no plan for 8 GPUs", "pp at least 49"]),
                              (["--max-sp", "1"], ["unknown option '--max-sp'"]),
                              (["--min-p", "1"], ["did you mean --min-dp, --min-pp"])):
            self.refuse(*QUESTION, "--gpus", "8", *flags, expect=[*expect, "hint:"])

    def test_one_plan_has_one_value(self):
        for flags, what in ((["--dp", "1,2"], "--dp 1,2"), (["--max-pp", "4"], "--pp at most 4"),
                            (["--batch", "64,128"], "a list of --batch"),
                            (["--gpus", "8,16"], "a list of --gpus")):
            self.refuse("predict", *QUESTION, *flags, expect=[f"{what}: one plan has one value", "search"])

    def test_ladders_of_given_sizes(self):
        answer = self.answer(*QUESTION, "--gpus", "32,8,16")
        self.assertEqual([rung["gpus"] for rung in answer["ladder"]], [8, 16, 32])
        alone = self.answer(*QUESTION, "--gpus", "16")["plans"][0]
        self.assertEqual(answer["ladder"][1]["plan"], alone)
        nodes = self.answer(*QUESTION, "--nodes", "2..8")
        self.assertEqual([rung["gpus"] for rung in nodes["ladder"]], [8, 16, 32])
        self.refuse(*QUESTION, "--gpus", "8,6", expect=["--gpus 6: not a whole number of nodes of 4"])
        self.refuse(*QUESTION, "--gpus", "8,16", "--nodes", "2", expect=["--gpus and --nodes"])
        self.refuse(*QUESTION, "--gpus", "9..15", expect=["no power of two is in 9..15"])


class Unvalidated(Case):
    """A framework without measured steps says so wherever its numbers stand."""

    def test_headline_json_and_comparison(self):
        asked = ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--batch", "64"]
        for framework, validated in (("alpa", False), ("megatron", True), ("internevo", True)):
            plan = ["predict", *asked, "--framework", framework, "--tp", "8", "--recompute", "full"]
            headline = run(*plan).stdout.split("\n\n")[0]
            self.assertEqual(f"{framework} (unvalidated)" in headline, not validated, headline)
            answer = json.loads(run(*plan, "--format", "json").stdout)
            self.assertEqual(answer["question"]["framework_validation"] is not None, validated)
        both = self.succeed("compare", *asked, "--framework", "alpa,megatron")
        self.assertRegex(both, r"alpa +\(unvalidated\)")
        self.assertNotRegex(both, r"megatron +\(unvalidated\)")
        rows = json.loads(self.succeed("compare", *asked, "--framework", "alpa,megatron", "--format", "json"))["rows"]
        json_schema.check({"schema": "plansearch/compare/v1", "rows": rows, "evidence": []},
                          json.loads((SOURCE / "docs/schema/compare.v1.schema.json").read_text()))
        self.assertEqual([row["question"]["framework_validation"] is None for row in rows], [True, False])


class Fits(Case):
    """A profile from own runs: what it gives, and every reason not to."""
    HEADER = "id,hw,framework,gpus,model,global_batch,micro_batch,tp,pp,precision,recompute,step_time_s"
    RUNS = ((1, 4.6), (2, 4.9), (4, 4.7), (8, 4.8))

    def table(self, runs, name="mine.csv", **cells):
        lines = [self.HEADER]
        for index, (tp, seconds) in enumerate(runs):
            row = {"hw": "dgx-h100", "precision": "bf16", "framework": "megatron"}
            row.update({key: value[index] for key, value in cells.items()})
            lines.append(f"r{index},{row['hw']},{row['framework']},8,llama3-8b,64,1,{tp},1,"
                         f"{row['precision']},full,{seconds}")
        path = self.directory / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def fit(self, table, expect=0, base="dgx-h100"):
        out = self.directory / "fitted.yaml"
        out.unlink(missing_ok=True)
        result = run("fit", table, "--base", base, "--out", out)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        self.assertEqual(out.exists(), expect == 0)
        return out, result

    def tuned(self):
        """Rows that are 1.3 times as slow as predicted at factor 1."""
        rows = json.loads(self.succeed("validate", self.table(self.RUNS), "--site", "tuned",
                                       "--format", "json"))["rows"]
        return [(tp, 1.3 * row["predicted_step_time_s"]) for (tp, _), row in zip(self.RUNS, rows)]

    def test_four_runs_make_a_profile(self):
        runs = self.tuned()
        out, result = self.fit(self.table(runs))
        self.assertIn("4 of 4 runs", result.stdout)
        asked = ["predict", "--model", "llama3-8b", "--gpus", "8", "--tp", "8", "--recompute", "full",
                 "--batch", "64"]
        before = self.answer(*asked, "--hw", "dgx-h100")
        after = self.answer(*asked, "--hw", out)
        # 4 / 4.5 of ln 1.3 and 0.5 / 4.5 of the typical site's logarithm
        typical = before["question"]["site"]["factor"]
        expected = math.exp((4 * math.log(1.3) + 0.5 * math.log(typical)) / 4.5)
        self.assertAlmostEqual(after["question"]["site"]["factor"], expected, places=4)
        width = [plan["step_time_p90_s"] / plan["step_time_p10_s"]
                 for plan in (before["plans"][0], after["plans"][0])]
        self.assertLess(width[1], width[0])
        other = run("predict", "--model", "llama3-8b", "--gpus", "8", "--batch", "64", "--zero", "3",
                    "--recompute", "full", "--hw", out, "--framework", "fsdp", "--format", "json")
        self.assertEqual(json.loads(other.stdout)["question"]["site"]["name"], "typical")
        self.assertIn("fitted to runs with megatron", other.stderr)
        rows = json.loads(self.succeed("validate", self.table(runs, hw=[out] * 4), "--format", "json"))
        for row in rows["rows"]:
            self.assertAlmostEqual(row["predicted_step_time_s"] / row["measured_step_time_s"],
                                   expected / 1.3, places=4)

    def test_parts_of_a_step_have_factors_of_their_own(self):
        """Tensor messages take 1.8 times as long as predicted, all else 1.05 times."""
        rows = json.loads(self.succeed("validate", self.table(self.RUNS), "--site", "tuned", "--format", "json"))["rows"]
        runs = []
        for (tp, _), row in zip(self.RUNS, rows):
            parts = row["predicted_parts_s"]
            runs.append((tp, 1.05 * row["predicted_step_time_s"] + 0.75 * parts["exposed_tensor"]))
        out, answer, _ = self.fit_all([self.table(runs)])
        self.assertTrue(answer["site"]["has_parts"])
        self.assertLess(answer["site"]["error_by_parts"], answer["site"]["error_of_one_factor"])
        parts = {part["part"]: part for part in answer["site"]["parts"]}
        self.assertGreater(parts["tensor"]["factor"], parts["compute"]["factor"] + 0.15)
        self.assertFalse(parts["tensor"]["separated"])  # only one of the four runs is mostly messages
        after = json.loads(self.succeed("validate", self.table(runs, hw=[out] * 4), "--format", "json"))["rows"]
        factor = answer["site"]["factor"]
        errors = [0.0, 0.0]
        for row, tuned in zip(after, json.loads(self.succeed("validate", self.table(runs), "--site", "tuned", "--format", "json"))["rows"]):
            for i, step in enumerate((row["predicted_step_time_s"], factor * tuned["predicted_step_time_s"])):
                errors[i] += abs(step / row["measured_step_time_s"] - 1.0)
            self.assertAlmostEqual(sum(row["predicted_parts_s"][key] for key in (
                "compute", "recompute", "exposed_communication", "bubble", "optimizer", "host", "site")),
                row["predicted_step_time_s"], places=6)
        self.assertLess(errors[0], errors[1])
        found = self.answer("--hw", out, "--model", "llama3-8b", "--gpus", "8", "--batch", "64", "--top", "20")["plans"]
        times = [plan["step_time_s"] for plan in found if not plan["variant_of"]]
        self.assertEqual(times, sorted(times))
        text = out.read_text()
        for wrong, words in (("tensor: 99", "is not a factor"), ("tensr: 1.0", "tensr")):
            out.write_text(re.sub(r"tensor: [0-9.]+", wrong, text))
            self.refuse("--hw", out, "--model", "llama3-8b", "--gpus", "8", expect=["fitted.yaml", words])

    def test_logs_are_runs(self):
        """With the arguments that they print, and with plans beside them."""
        logs, plans = [], []
        for index, (tp, seconds) in enumerate(self.tuned()):
            arguments = {"world_size": 8, "tensor_model_parallel_size": tp, "sequence_parallel": tp > 1, "num_layers": 32,
                         "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32, "group_query_attention": True,
                         "num_query_groups": 8, "max_position_embeddings": 8192, "position_embedding_type": "rope",
                         "normalization": "RMSNorm", "swiglu": True, "add_bias_linear": False, "attention_dropout": 0.0,
                         "hidden_dropout": 0.0, "untie_embeddings_and_output_weights": True, "padded_vocab_size": 128256,
                         "seq_length": 8192, "global_batch_size": 64, "micro_batch_size": 1, "bf16": True, "fp16": False,
                         "use_distributed_optimizer": True, "overlap_grad_reduce": True, "recompute_num_layers": 1,
                         "recompute_granularity": "full", "recompute_method": "uniform", "pipeline_model_parallel_size": 1,
                         "cp_comm_type": ["p2p"], "attention_backend": "AttnBackend.auto", "num_experts": None}
            printed = "".join(f"  {name} {'.' * (47 - len(name))} {value}\n" for name, value in arguments.items())
            logs.append(self.file(f"run{index}.log", printed + Trials.log(seconds, batch=64)))
        out = self.directory / "fitted.yaml"
        text = self.succeed("fit", "--quiet", *logs, "--base", "dgx-h100", "--out", out)
        self.assertIn("4 of 4 runs", text)
        self.assertIn("run3.log", text)
        self.assertIn("site: {", out.read_text())
        plan = self.directory / "plan.yaml"
        self.succeed("import", "--quiet", logs[0], "--hw", "dgx-h100", "--out", plan)
        self.assertIn("llama3-8b", plan.read_text())
        bare = [self.file(f"bare{index}.log", Trials.log(seconds, batch=64)) for index, seconds in enumerate((20, 20.2, 19.9))]
        self.refuse("fit", *bare, "--base", "dgx-h100", "--out", out, expect=["bare0.log", "prints no arguments", "--plan"])
        self.assertIn("3 of 3 runs", self.succeed("fit", "--quiet", *bare, "--plan", plan, "--base", "dgx-h100", "--out", out))
        self.refuse("fit", *bare, "--plan", plan, "--plan", plan, "--base", "dgx-h100", "--out", out,
                    expect=["2 plans for 3 logs"])
        self.assertIn("measured", self.succeed("diagnose", "--quiet", "--hw", "dgx-h100", "--log", logs[1]))

    def test_an_outlier_is_named(self):
        runs = self.tuned()
        runs[2] = (runs[2][0], 3 * runs[2][1])
        _, result = self.fit(self.table(runs))
        line = next(line for line in result.stdout.splitlines() if line.startswith("mine.csv r2"))
        self.assertIn("contradicts the others", line)
        self.assertIn("3 of 4 runs", result.stdout)

    def test_bad_tables_are_refused_and_nothing_is_written(self):
        runs = self.tuned()
        names = (f"table{number}.csv" for number in range(9))
        for table, base, words in (
                (self.table(runs[:2], next(names)), "dgx-h100", "2 runs: a factor needs 3"),
                (self.table(runs, next(names), precision=["bf16", "bf16", "fp8", "fp8"]), "dgx-h100",
                 "mix precision: bf16, fp8"),
                (self.table(runs, next(names), hw=["dgx-h100", "dgx-h100", "selene", "selene"]), "dgx-h100",
                 "mix accelerator"),
                (self.table(runs, next(names), framework=["megatron", "fsdp", "fsdp", "fsdp"]), "dgx-h100",
                 "mix framework"),
                (self.table(runs, next(names)), "selene", "the runs are on h100-sxm5-80gb"),
                (self.table([(tp, s * f) for (tp, s), f in zip(runs, (0.4, 1, 2, 0.7))], next(names)),
                 "dgx-h100",
                 "no better than that of a site without runs")):
            _, result = self.fit(table, expect=3, base=base)
            self.assertIn(words, result.stdout)
            self.assertIn("hint: ", result.stdout)
        _, result = self.fit(self.table([(1, "abc"), (2, 1), (4, 1)]), expect=2)
        self.assertIn("mine.csv:2:", result.stderr)
        table = self.table(runs)
        self.refuse("fit", table, "--base", "dgx-h100", expect=["--out is missing"])
        self.refuse("fit", table, "--base", "dgx-h100", "--out", table, expect=["made from"])

    def products(self, factor=1.0, name="gemm.csv", gpu="h100", outlier=None):
        """Matrix products as predicted on dgx-h100, times a factor; one of them three times as slow."""
        shapes = [(m, n, k) for m in (512, 2048, 8192) for n in (2048, 8192) for k in (2048, 8192)]
        lines = [f"{gpu},bf16,{m},{n},{k}" for m, n, k in shapes]
        path = self.file(name, "\n".join(["gpu,dtype,m,n,k,time_us", *(line + ",1" for line in lines)]) + "\n")
        rows = json.loads(self.succeed("validate", path, "--format", "json"))["rows"]
        times = [factor * row["predicted_us"] * (3 if index == outlier else 1)
                 for index, row in enumerate(rows)]
        return self.file(name, "\n".join(["gpu,dtype,m,n,k,time_us",
                                          *(f"{line},{time:.6g}" for line, time in zip(lines, times))]) + "\n")

    def nccl_log(self, name="all_gather.txt", device="NVIDIA H100 80GB HBM3", end=True):
        """As nccl-tests prints it: an all-gather of eight accelerators at 240 GB/s after 30 us."""
        lines = ["# nThread 1 nGpus 8 minBytes 65536 maxBytes 4294967296 step: 4(factor) warmup iters: 5 iters: 20",
                 "# Using devices"]
        lines += [f"#  Rank  {rank} Group  0 Pid   11 on   node1 device  {rank} [0000:0{rank}:00] {device}"
                  for rank in range(8)]
        lines.append("#       size         count      type   redop    root     time   algbw   busbw #wrong"
                     "     time   algbw   busbw #wrong")
        for power in range(16, 33, 2):
            size = 1 << power
            time = 30.0 + size * 7 / 8 / 240e3
            rate = size / time * 1e-3
            cells = f"{time:.1f} {rate:.2f} {rate * 7 / 8:.2f} 0"
            lines.append(f"{size:12d} {size // 32:12d} float none -1 {cells} {cells}")
        lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 150.0"] if end else []
        return self.file(name, "\n".join(lines) + "\n")

    def fit_all(self, tables, expect=0, base="dgx-h100"):
        out = self.directory / "fitted.yaml"
        out.unlink(missing_ok=True)
        result = run("fit", *tables, "--base", base, "--out", out, "--format", "json")
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        self.assertEqual(out.exists(), expect == 0)
        answer = json.loads(result.stdout) if result.stdout else None
        if answer:
            json_schema.check(answer, json.loads((SOURCE / "docs/schema/fit.v1.schema.json").read_text()))
            self.assertEqual(answer["refused"] is None, expect == 0)
        return out, answer, result

    def test_kernels_and_links_of_ones_own(self):
        out, answer, _ = self.fit_all([self.products(1.1), self.nccl_log()])
        changed = {(change["part"], change["constant"]): change["own"] / change["base"]
                   for group in answer["kernels"] for change in group["changes"]}
        # Twelve products at 1.1 of the time: about 1 / 1.1 = 0.909 of the rate; few depend on memory.
        self.assertAlmostEqual(changed["matmul bf16", "flop_efficiency"], 0.909, delta=0.02)
        self.assertLess(changed["matmul bf16", "byte_efficiency"], 0.98)
        self.assertLess(changed["tier nvlink", "simple"], 0.8)
        self.assertNotIn(("tier infiniband", "hop"), changed)
        self.assertIsNone(answer["site"])
        # The profile says what it holds, and holds it.
        shown = self.succeed("show", "hw", out)
        self.assertIn("measured", shown)
        self.assertIn("plansearch fit gemm.csv: matmul bf16: 12 of 12 rows", shown.replace("\n", " "))
        again = self.fit_all([self.nccl_log()], base=out.rename(self.directory / "own.yaml"))[1]
        change = again["kernels"][0]["changes"][0]
        self.assertLess(abs(change["own"] / change["base"] - 1), 0.1)

    def test_the_site_is_what_kernels_and_links_leave(self):
        tables = [self.products(1.1), self.nccl_log()]
        kernels_only, _, _ = self.fit_all(tables)
        kernels_only = kernels_only.rename(self.directory / "kernels.yaml")
        runs = self.table(self.RUNS)
        rows = json.loads(self.succeed("validate", self.table(self.RUNS, "there.csv", hw=[kernels_only] * 4),
                                       "--site", "tuned", "--format", "json"))["rows"]
        runs = self.table([(tp, 1.2 * row["predicted_step_time_s"]) for (tp, _), row in zip(self.RUNS, rows)])
        out, answer, _ = self.fit_all([runs, *tables])
        out = out.rename(self.directory / "own.yaml")
        for row in answer["runs"]:
            self.assertAlmostEqual(row["ratio"], 1.2, places=4)
        # 4 / 4.5 of ln 1.2 and 0.5 / 4.5 of the typical site's logarithm
        expected = math.exp((4 * math.log(1.2) + 0.5 * math.log(answer["site"]["typical_factor"])) / 4.5)
        self.assertAlmostEqual(answer["site"]["factor"], expected, places=4)
        _, answer, _ = self.fit_all(tables, expect=3, base=out)
        self.assertIn("was fitted to runs", answer["refused"]["reason"])

    def test_bad_kernel_tables(self):
        good = self.products()
        _, answer, _ = self.fit_all([self.products(1.1, "odd.csv", outlier=4)])
        self.assertEqual(answer["kernels"][0]["outliers"], ["odd.csv line 6"])
        head = good.read_text().splitlines()
        for tables, words in (
                ([self.file("two.csv", "\n".join(head[:3]) + "\n")], "matmul bf16: 2 rows: a fit needs 3"),
                ([self.products(gpu="a100", name="a100.csv")], "are on a100-sxm4-80gb, --base dgx-h100"),
                ([self.products(gpu="a100", name="a100.csv"), good], "mix accelerators"),
                ([self.products(3.0, "slow.csv")], "the times are x3 of those of the base"),
                ([self.nccl_log("all_gather_a100.txt", "NVIDIA A100-SXM4-80GB")], "are on a100-sxm4-80gb")):
            _, answer, _ = self.fit_all(tables, expect=3)
            self.assertIn(words, answer["refused"]["reason"])
        _, _, result = self.fit_all([good, self.nccl_log("all_gather_cut.txt", end=False)], expect=2)
        self.assertIn("before the summary of its test", result.stderr)
        attention = self.file("attention.csv", "gpu,batch,seq_len,heads,kv_heads,head_dim,time_us\nh100,1,256,4,4,128,17\n")
        _, answer, _ = self.fit_all([attention], expect=3)
        self.assertIn("attention serving forward: 1 row: a fit needs 3", answer["refused"]["reason"])
        together = self.file("together.csv", "gpu,nodes,intra_group,inter_group,m,n,k,gpu_to_gpu_mb,cpu_to_gpu_mb,gpu_to_cpu_mb,"
                             "time_ms\nh100,1,8,1,4096,4096,4096,64,0,0,1\n")
        _, _, result = self.fit_all([together], expect=2)
        self.assertIn("does not read tables of", result.stderr)
        self.refuse("fit", good, "--base", "dgx-h100", "--out", self.directory / "x.yaml", "--format", "csv",
                    expect=["--format table or --format json"])
        self.assertFalse((self.directory / "x.yaml").exists())

    def test_attention_of_ones_own_becomes_the_machines(self):
        head = "gpu,kernel,direction,mask,batch,seq_len,heads,kv_heads,head_dim,time_us"
        shapes = [f"{direction},causal,1,{length},{heads},{heads},{size}" for direction in ("forward", "backward")
                  for length in (512, 2048, 8192) for heads in (16, 64) for size in (64, 128)]
        asked = self.file("asked.csv", "\n".join([head, *(f"h100,flash3,{shape},1" for shape in shapes)]) + "\n")
        predicted = [row["predicted_us"] for row in
                     json.loads(self.succeed("validate", asked, "--format", "json"))["rows"]]
        # As a driver calls the chip; a third slower than what ships.
        rows = [head, *(f"NVIDIA H100 80GB HBM3,mine,{shape},{1.33 * time:.5f}" for shape, time in zip(shapes, predicted))]
        out, answer, _ = self.fit_all([self.file("attention.csv", "\n".join(rows) + "\n")])
        self.assertEqual([group["part"] for group in answer["kernels"]],
                         ["attention mine forward", "attention mine backward"])
        for group in answer["kernels"]:
            self.assertGreater(group["median_error_before"], 0.2)
            self.assertLess(group["median_error_after"], 0.07)  # the start of a call stays the base's
        self.assertIn("software: {attention_kernel: mine}", out.read_text())
        mine, base = (self.answer("predict", "--hw", hw, "--model", "llama3-8b", "--gpus", "8", "--tp", "8", "--micro-batch", "1")
                      for hw in (out, "dgx-h100"))
        self.assertNotEqual(mine["plans"][0]["step_time_s"], base["plans"][0]["step_time_s"])


class Balanced(html.parser.HTMLParser):
    """Every element ends; what a page loads."""

    VOID = {"meta", "input", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.loaded, self.names = [], [], set()

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.names |= {value for key, value in attrs if key == "id"}
        self.loaded += [value for key, value in attrs if key in ("src", "href") and not value.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.getpos())


def luminance(colour):
    """Of "#rrggbb", as WCAG 2.2 defines it."""
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    """Of two colours, 1 - 21."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


class Pages(Case):
    QUESTION = ("--hw", "perlmutter", "--model", "llama3-8b", "--batch", "256")

    def page(self, *arguments):
        path = self.directory / "plan.html"
        answer = run(*arguments, "--report", path)
        self.assertIn(answer.returncode, (0, 3))
        text = path.read_text()
        page = Balanced()
        page.feed(text)
        self.assertEqual((page.open, page.loaded), ([], []))
        self.assertLess(len(text), 2_000_000)
        return text, page.names

    def test_an_answer_is_one_page(self):
        text, sections = self.page(*self.QUESTION, "--gpus", "64", "--min-pp", "2")
        self.assertLessEqual({"plans", "parts", "memory", "front", "pipeline", "groups", "messages", "rival", "search",
                              "sensitivity", "evidence"}, sections)
        self.assertEqual(text, self.page(*self.QUESTION, "--gpus", "64", "--min-pp", "2", "--threads", "1")[0])
        best, second = self.answer(*self.QUESTION, "--gpus", "64", "--min-pp", "2")["plans"][:2]
        self.assertIn(f"{100 * best['mfu']:.1f} %", text)
        self.assertIn(f"{100 * (second['step_time_s'] / best['step_time_s'] - 1):.1f} % more time", text)
        self.assertIn("accelerator.peak.bf16", text)

    def test_a_ladder_has_its_sizes(self):
        text, sections = self.page(*self.QUESTION)
        self.assertIn("sizes", sections)
        self.assertIn(">4,096</td>", text)

    def test_what_does_not_fit_has_a_page_too(self):
        text, sections = self.page("--hw", "rtx-4090-box", "--model", "llama3-70b", "--gpus", "8")
        self.assertIn("Nearest misses", text)
        self.assertNotIn("pipeline", sections)

    def test_everybody_can_read_it(self):
        text, _ = self.page(*self.QUESTION, "--gpus", "64", "--min-pp", "2")
        self.assertIn('<html lang="en">', text)
        levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", text)]
        self.assertEqual((levels[0], levels.count(1)), (1, 1))
        for before, after in zip(levels, levels[1:]):
            self.assertLessEqual(after, before + 1)
        pictures = re.findall(r"<svg [^>]*>", text)
        self.assertGreaterEqual(len(pictures), 5)
        for picture in pictures:
            self.assertRegex(picture, r'role="img" aria-label="[^"]{20,}"')
        style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
        schemes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
        self.assertEqual(len(schemes), 2)
        written = set(re.findall(r"(?<![\w-])(?:color|fill): ([^;]*);", style))
        self.assertEqual(written, {"var(--ink)", "var(--quiet)", "var(--mark)"})
        self.assertNotRegex(text, r"<text[^>]*(?:fill|style)=")  # nor any other colour
        self.assertRegex(style, r"\.on \{ stroke: var\(--paper\); stroke-width: 3px; paint-order: stroke;")
        for scheme in schemes:
            colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", scheme))
            for ink, ground in itertools.product(("ink", "quiet", "mark"), ("paper", "shade")):
                self.assertGreaterEqual(contrast(colours[ink], colours[ground]), 4.5, (ink, ground))

    def test_names_are_no_markup(self):
        hostile = (SOURCE / "models/gpt2-xl.yaml").read_text().replace("name: gpt2-xl", "name: '<b onload=x>&\"'")
        model = self.file("hostile.yaml", hostile)
        text, _ = self.page("--hw", "perlmutter", "--model", model, "--gpus", "4")
        self.assertIn("&lt;b onload=x&gt;&amp;&quot;", text)
        self.assertNotIn("<b onload", text)

    def test_one_plan_is_a_page(self):
        for command in ("predict", "explain"):
            text, _ = self.page(command, *self.QUESTION, "--gpus", "64", "--dp", "64")
            self.assertIn("zero", text)

    def test_plan_1_is_traced(self):
        trace = self.directory / "trace.json"
        self.succeed(*self.QUESTION, "--gpus", "64", "--trace", trace)
        self.assertTrue(json.loads(trace.read_text())["traceEvents"])
        self.refuse("compare", *self.QUESTION, "--gpus", "64", "--report", trace, expect=["belongs to searches"])
        self.refuse("--hw", "perlmutter,selene", "--model", "gpt2-xl", "--gpus", "64", "--trace", trace,
                    expect=["about one question"])


class OpenPlans(Case):
    """Searches over the variants of a plan: the best one is shown, drawn and advised on as any answer."""

    SEARCH = ["search", "--model", "llama2-7b", "--framework", "nnscaler", "--constraints", "chunked-recompute"]
    EIGHT = [*SEARCH, "--hw", "perlmutter", "--gpus", "8"]
    VARIANTS = "hint: best of 4 variants: sequence* in 2 pieces; next: "

    def test_a_report(self):
        page = self.directory / "page.html"
        text = self.succeed(*self.EIGHT, "--report", page)
        self.assertIn(self.VARIANTS, text)
        self.assertIn("<html", page.read_text())
        self.assertIn("sequence* in 2 pieces", page.read_text())

    def test_a_trace(self):
        trace = self.directory / "trace.json"
        self.succeed(*self.EIGHT, "--trace", trace)
        self.assertTrue(json.loads(trace.read_text())["traceEvents"])

    def test_plots(self):
        for name in ("step", "memory", "pareto"):
            picture = self.directory / f"{name}.svg"
            self.succeed(*self.EIGHT, "--plot", f"{name}={picture}")
            self.assertTrue(xml.etree.ElementTree.fromstring(picture.read_text()).tag.endswith("svg"))

    def test_the_front(self):
        text = self.succeed(*self.EIGHT, "--pareto")
        self.assertIn("Pareto front over step time and memory", text)
        self.assertIn(self.VARIANTS, text)
        self.assertTrue(self.answer(*self.EIGHT, "--pareto")["pareto_front"])

    def test_recipes(self):
        search = ["search", "--hw", "jean-zay-a100", "--model", "bloom-176b", "--gpus", "384", "--framework", "nnscaler",
                  "--constraints", "chunked-recompute"]
        line = "published: dp 8, pp 12, tp 4, zero 1, micro-batch 2, full recompute"
        self.assertIn(line, self.succeed(*search))
        self.assertIn("bloom-176b-384", self.succeed(*search, "--recipes"))
        self.assertIn("published: no recipe of this model", self.succeed(*self.EIGHT, "--recipes"))

    def test_advice(self):
        text = self.succeed(*self.SEARCH, "--hw", "perlmutter", "--gpus", "64", "--batch", "500")
        self.assertIn("hint: best of 4 variants: ", text)
        self.assertIn("hint: batch 500 = 2^2 x 5^3 leaves a factor of 16 of 64 GPUs to cut the network by: --batch ", text)
        answer = self.directory / "answer.json"
        text = self.succeed(*self.EIGHT, "--format", "json", "--out", answer)
        self.assertIn("sequence*", json.dumps(json.loads(answer.read_text())["advice"]))

    def test_remedies(self):
        result = run(*self.SEARCH, "--hw", "perlmutter", "--gpus", "2", "--space", "data")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("no plan fits\n", result.stdout)
        self.assertIn("hint: with --task lora it fits: dp 2", result.stdout)
        self.assertIn("hint: on 32 GPUs it fits: dp 32", result.stdout)

    def test_pieces_beside_a_ladder(self):
        self.refuse(*self.SEARCH, "--hw", "perlmutter", expect=["a plan with open `pieces` needs --gpus N"])


class Plots(Case):
    """--plot NAME=FILE: pictures of the page as files of their own."""

    NAMES = ("ladder", "step", "memory", "pareto", "timeline", "held", "groups")
    LADDER = ["--hw", "dgx-h100", "--model", "llama3-8b", "--space", "megatron", "--top", "3"]
    PLAN = ["predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16", "--tp", "2", "--pp", "2"]

    def texts(self, path):
        """Texts and titles of an SVG, which is well-formed, self-contained and without page properties."""
        svg = path.read_text()
        for foreign in ("var(", "<script", "url(", "NaN", "inf"):
            self.assertNotIn(foreign, svg)
        root = xml.etree.ElementTree.fromstring(svg)
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, space + "svg")
        self.assertTrue(root.get("aria-label"))
        width, height = map(float, root.get("viewBox").split()[2:])
        for rect in root.iter(space + "rect"):
            if "%" not in rect.get("width"):
                self.assertLessEqual(float(rect.get("x")) + float(rect.get("width")), width + 0.1)
                self.assertLessEqual(float(rect.get("y")) + float(rect.get("height")), height + 0.1)
        return [element.text for element in root.iter() if element.tag in (space + "text", space + "title")]

    def plots(self, names, *arguments):
        files = {name: self.directory / f"{name}.svg" for name in names}
        words = [word for name, file in files.items() for word in ("--plot", f"{name}={file}")]
        return self.answer(*arguments, *words), {name: self.texts(file) for name, file in files.items()}

    def test_a_ladder_has_all(self):
        answer, texts = self.plots(self.NAMES, *self.LADDER)
        for rung in answer["ladder"]:
            if rung["plan"]:
                found = [text for text in texts["ladder"] if text.startswith(f"{rung['gpus']:,} GPUs: ")]
                self.assertEqual(len(found), 1, rung["gpus"])
        parts = [text for text in texts["step"] if text.startswith("compute: ")]
        self.assertEqual(len(parts), sum(plan["variant_of"] is None for plan in answer["plans"]))
        self.assertIn("capacity", texts["memory"])
        again = {name: (self.directory / f"{name}.svg").read_bytes() for name in self.NAMES}
        self.plots(self.NAMES, *self.LADDER, "--threads", "1")
        for name, before in again.items():
            self.assertEqual((self.directory / f"{name}.svg").read_bytes(), before, name)

    def test_the_step_of_a_plan(self):
        answer, texts = self.plots(("timeline", "held", "step"), *self.PLAN)
        stages = [text for text in texts["timeline"] if re.fullmatch(r"stage \d+", text)]
        self.assertEqual(len(stages), answer["plans"][0]["config"]["pp"])
        work = [text for text in texts["timeline"] if text.startswith("forward of micro-batch 0,")]
        self.assertEqual(len(work), 2)
        compute = answer["plans"][0]["step"]["compute_s"]
        shown = next(text for text in texts["step"] if text.startswith("compute: ")).split()[1]
        self.assertAlmostEqual(float(shown), compute, delta=0.06)

    def test_what_cannot_be_drawn(self):
        self.refuse(*self.PLAN, "--plot", "ladder=x.svg", expect=["--plot ladder=x.svg", "leave out --gpus"])
        self.refuse(*self.PLAN, "--plot", "stp=x.svg", expect=["'stp=x.svg'", "ladder, step"])
        self.refuse(*self.PLAN, "--plot", "step", expect=["NAME=FILE"])
        self.refuse(*self.PLAN, "--plot", f"step={self.directory}/none/x.svg", expect=["none/x.svg"])
        self.refuse("compare", *self.PLAN[1:7], "--plot", "step=x.svg", expect=["--plot belongs to searches"])
        self.refuse("--hw", "dgx-h100", "--model", "llama3-8b,gpt2-xl", "--gpus", "8", "--plot", "step=x.svg",
                    expect=["about one question"])


class AsPeopleWrite(Case):
    """Names of hubs and cards, counts with suffixes, words without flags."""

    def test_hub_names_are_the_architecture(self):
        for name, own in (("meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"), ("meta-llama/Meta-Llama-3-8B", "llama3-8b"),
                          ("Qwen/Qwen2.5-7B-Instruct", "qwen2-7b"), ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
                          ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"), ("google/gemma-3-12b-it", "gemma-3-12b"),
                          ("microsoft/phi-4", "phi-4"), ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
                          ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"), ("deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"),
                          ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama3.1-8b"), ("Qwen/QwQ-32B", "qwen2.5-32b"),
                          ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"), ("unsloth/Llama-3.2-1B-bnb-4bit", "llama3.2-1b"),
                          ("allenai/OLMo-2-1124-7B-Instruct", "olmo-2-7b"), ("HuggingFaceTB/SmolLM3-3B-Base", "smollm3-3b"),
                          ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"), ("microsoft/Phi-3-mini-128k-instruct", "phi-3.5-mini"),
                          ("zai-org/GLM-4.6-FP8", "glm-4.5"), ("zai-org/GLM-4.5-Air-Base", "glm-4.5-air"),
                          ("THUDM/glm-4-9b-chat", "glm-4-9b"), ("zai-org/GLM-4-9B-0414", "glm-4-9b-0414"),
                          ("allenai/Olmo-3-32B-Think", "olmo-3-32b"), ("EleutherAI/pythia-1.4b-deduped", "pythia-1.4b"),
                          ("google/flan-t5-xxl", "t5-v1_1-xxl"), ("LLM360/K2-Think", "qwen2.5-32b"),
                          ("mistralai/Mistral-Small-Instruct-2409", "codestral-22b"),
                          ("mistralai/Mistral-Small-24B-Instruct-2501", "mistral-small-24b"),
                          ("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", "llama-4-maverick"),
                          ("black-forest-labs/FLUX.1-dev", "flux.1-dev"), ("Wan-AI/Wan2.1-T2V-14B-Diffusers", "wan2.1-t2v-14b"),
                          ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron-nano-9b-v2"), ("internlm/internlm2_5-7b-chat", "internlm2.5-7b")):
            with self.subTest(name=name):
                self.assertEqual(self.answer("show", "model", name)["name"], own)

    def test_unknown_names_lead_to_the_configuration(self):
        self.refuse("show", "model", "acme/Frobnicator-9T", expect=["unknown model", "config.json"])
        self.refuse("show", "model", "swiss-ai/Apertus-8B-2509", expect=["unknown model", "its activation has parameters of its own"])

    def test_cards(self):
        for name, own in (("rtx4090", "rtx-4090-box"), ("mi355x", "mi355x-8"), ("RTX 4090", "rtx-4090-box"), ("H100", "dgx-h100"),
                          ("A100-80GB", "selene"), ("a100-40gb", "aws-p4d"), ("p5", "aws-p5"), ("H100-SXM", "dgx-h100"),
                          ("H100 PCIe", "h100-pcie-8"), ("v6e", "tpu-v6e"), ("a6000", "rtx-a6000-box"), ("MI250X", "frontier")):
            with self.subTest(name=name):
                self.assertEqual(self.answer("show", "hw", name)["name"], own)
        # Titles of tables of measurements are names too, which nobody types: they are not offered.
        self.assertNotIn("(", self.refuse("show", "hw", "a100-90gb", expect=["unknown hardware profile 'a100-90gb'", "did you mean"]))
        answer = self.answer("--hw", "8xH100", "--model", "llama3-8b", "--top", "1")
        self.assertEqual((answer["question"]["gpus"], answer["question"]["hardware"]), (8, "dgx-h100"))
        self.refuse("--hw", "8xH100", "--model", "llama3-8b", "--gpus", "16", expect=["size of its own"])
        rows = self.answer("compare", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--task", "sft,lora,qlora",
                           "--micro-batch", "1", "--recompute", "full")["rows"]
        _, lora, qlora = (row["plan"]["peak_memory_bytes"] for row in rows)
        self.assertLess(qlora, lora)
        rows = self.answer("compare", "--hw", "h100:8,l40s:4", "--model", "llama3-8b", "--batch", "64")["rows"]
        self.assertEqual([row["question"]["gpus"] for row in rows], [8, 4])
        rows = self.answer("compare", "--hw", "h100", "--model", "llama3-8b", "--gpus", "8", "--task", "sft,lora",
                           "--base-precision", "bf16,nf4")["rows"]
        self.assertEqual(len(rows), 3)
        self.assertTrue(all(row["plan"] for row in rows))

    def test_counts(self):
        answer = self.answer("--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "64", "--seq-len", "128k", "--batch", "1e2", "--top", "1")
        self.assertEqual((answer["question"]["seq_len"], answer["question"]["global_batch"]), (131072, 100))
        answer = self.answer("capacity", "--hw", "dgx-h100:64", "--model", "llama3-8b", "--tokens", "1,000B", "--deadline", "300")
        self.assertEqual((answer["tokens"], answer["limits"]["deadline_s"]), (1e12, 300 * 86400))

    def test_words_without_flags(self):
        question = self.answer("h100", "llama3-8b", "--gpus", "8", "--top", "1")["question"]
        self.assertEqual((question["hardware"], question["model"]), ("dgx-h100", "llama3-8b"))
        self.assertEqual(self.succeed("help"), self.succeed("--help"))
        self.assertEqual(self.succeed("help", "capacity"), self.succeed("capacity", "--help"))
        self.refuse("exprt", "plan.yaml", expect=["unknown argument 'exprt'", "export"])
        self.refuse("capacity", "--hw", "perlmutter", "--model", "llama3-8b", "--node-hours", "20000", expect=['capacity --budget "20000 node-hours"'])
        self.assertEqual(self.succeed("show", "h100"), self.succeed("show", "hw", "h100"))
        self.assertEqual(self.succeed("show", "gpt2-xl"), self.succeed("show", "model", "gpt2-xl"))
        for name in ("https://huggingface.co/Qwen/Qwen3-8B", "qwen3:8b"):
            self.assertEqual(self.succeed("show", "model", name), self.succeed("show", "model", "qwen3-8b"))
        self.refuse("show", "nothing-like-it", expect=["none of hw, model, framework"])
        self.assertEqual(self.succeed("schedule", "1f1b", "--stages", "4", "--micro-batches", "8"),
                         self.succeed("schedule", "1f1b", "--stages", "4", "--micro-batches", "8", "--times", "1,1,1"))

    def test_a_batch_counts_sequences(self):
        self.refuse("--hw", "h100", "--model", "llama3-8b", "--gpus", "8", "--batch-tokens", "4M", expect=["--batch counts sequences"])
        note = "--batch 4194304 are 34.4 B tokens a step: it counts sequences"
        question = ["predict", "--hw", "h100", "--model", "llama3-8b", "--gpus", "8", "--dp", "8", "--zero", "3"]
        self.assertIn(note, run(*question, "--batch", "4M").stderr)
        self.assertNotIn("counts sequences", run(*question, "--batch", "1024").stderr)

    def test_plans_of_tpus_are_exported(self):
        answer = self.directory / "answer.json"
        self.succeed("--hw", "tpu-v6e", "--model", "llama3-8b", "--gpus", "256", "--top", "1", "--format", "json", "--out", answer)
        done = run("export", f"{answer}#1", "--to", "maxtext", "--launch", "slurm")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("gpus-per-node", done.stdout)
        self.assertNotIn("NCCL", done.stdout)
        self.assertNotIn("priced", done.stderr)

    def test_tuning_has_defaults_of_its_own(self):
        answer = self.answer("--hw", "rtx4090", "--model", "llama3.1-8b", "--gpus", "1", "--task", "qlora", "--top", "1")
        question, settings = answer["question"], {s["key"]: s["value"] for s in answer["question"]["settings"]}
        self.assertEqual((question["framework"], question["seq_len"], question["global_batch"]), ("hf-trainer", 4096, 32))
        self.assertEqual((settings["task"], settings["base_precision"]), ("lora", "nf4"))
        self.assertIn("--packing says", json.dumps(answer))
        self.assertEqual(self.answer("--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "64", "--task", "sft",
                                     "--top", "1")["question"]["global_batch"], 64)
        self.assertEqual(self.answer("--hw", "dgx-h100", "--model", "sdxl-unet", "--gpus", "8", "--top", "1")["question"]["framework"],
                         "fsdp2")

    def test_the_log_of_a_run_is_diagnosed(self):
        plan = ["--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--tp", "8", "--pp", "2", "--dp", "4",
                "--micro-batch", "1"]
        log = str(SOURCE / "tests" / "data" / "logs" / "megatron.log")
        answer = self.answer("diagnose", *plan, "--batch", "128", "--log", log)
        read = answer["log"]
        self.assertEqual(answer["measured_step_time_s"], read["times"]["median_s"])
        self.assertAlmostEqual(answer["measured_step_time_s"], 24.02)
        self.assertEqual((read["format"], read["warm_up"], read["left_out"], read["left_out_every"]), ("megatron", 2, 4, 10))
        self.assertEqual((read["skipped"], read["lines_not_understood"]), (1, [19]))
        self.assertAlmostEqual(read["allocated_bytes"], 60211.25 * 2**20)
        text = self.succeed("diagnose", *plan, "--batch", "128", "--log", log)
        for words in ("read as megatron", "2 of warm-up, 4 slower or faster", "every 10 steps", "lines not understood", "peak memory",
                      "measured 24.0 s"):
            self.assertIn(words, text)
        paced = self.answer("diagnose", *plan, "--batch", "128", "--log", log, "--measured", "20s")
        self.assertEqual(paced["measured_step_time_s"], 20.0)
        self.refuse("diagnose", *plan, "--batch", "256", "--log", log,
                    expect=[f"{log}:42:1", "another job: 128 sequences a step, the plan has 256", "--batch 128"])
        self.refuse("diagnose", *plan, "--batch", "128", "--log", self.file("empty.log", "nothing here\n"),
                    expect=["empty.log", "no training step is in this log", "--measured TIME"])
        self.refuse("diagnose", *plan, "--batch", "128", "--log", "missing.log", expect=["missing.log", "cannot open"])
        self.refuse("diagnose", *plan, expect=["--measured, --log or --profile is needed"])

    def test_a_pace_is_diagnosed(self):
        plan = ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--dp", "8", "--zero", "1", "--micro-batch", "1", "--batch", "128"]
        paced = self.answer("diagnose", *plan, "--measured", "131072 tokens/s")
        self.assertAlmostEqual(paced["measured_step_time_s"], 128 * 8192 / 131072)
        each = self.answer("diagnose", *plan, "--measured", "16384 tokens/s/GPU")
        self.assertEqual(paced["measured_step_time_s"], each["measured_step_time_s"])
        text = self.succeed("diagnose", "--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "8", "--tp", "8", "--dp", "1",
                            "--batch", "16", "--micro-batch", "1", "--measured", "20s")
        self.assertIn("this plan does not fit in memory", text)

    def test_a_run_that_is_too_fast_is_another_question(self):
        question = ["diagnose", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--zero", "3"]
        causes = self.answer(*question, "--measured", "26s")["causes"]
        self.assertTrue({"a batch of 256", "sequences of 4096", "products run in fp8"} <= {cause["cause"] for cause in causes})
        self.assertIn(causes[0]["cause"], ("a batch of 256", "sequences of 4096"))
        # Tokens per second are the same whatever the size of a step.
        self.assertNotIn("batch of", json.dumps(self.answer(*question, "--measured", "80000 tokens/s")["causes"]))
        said = self.answer(*question, "--batch", "512", "--measured", "26s")
        self.assertNotIn("batch of", json.dumps(said["causes"]))

    def test_the_least_number_of_gpus(self):
        self.assertRegex(self.succeed("--hw", "dgx-h100", "--model", "qwen3-30b-a3b", "--pp", "6", "--ep", "8", "--tp", "1", "--etp", "1",
                                      "--batch", "96", "--seq-len", "4096"), r"trains this model: 48 GPUs")
        self.assertRegex(self.succeed("--hw", "rtx4090", "--model", "llama3.1-8b", "--task", "qlora"), r"trains this model: 1 GPU")


class Capacity(Case):
    QUESTION = ("capacity", "--model", "gpt2-xl", "--tokens", "300B", "--hw", "perlmutter:64,dgx-h100:32")

    def test_the_answer_has_its_schema_and_keeps_limits(self):
        answer = self.answer(*self.QUESTION, "--deadline", "3d")
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/capacity.v1.schema.json").read_text()))
        slow, fast = answer["rows"]
        self.assertFalse(slow["within_limits"])
        self.assertTrue(fast["within_limits"])
        self.assertEqual(answer["choices"]["cheapest"], 1)
        self.assertGreater(fast["affordable_tokens"], 300e9)
        self.assertLess(slow["affordable_tokens"], 300e9)
        self.assertGreater(fast["wall_s"], fast["plan"]["training"]["time_s"])
        text = self.succeed(*self.QUESTION, "--deadline", "3d")
        self.assertRegex(text.splitlines()[0], r"^gpt2-xl on 300 B tokens: 32 x dgx-h100 for .* days .*, within 3\.00 days")
        self.assertIn("fastest, fewest GPU-hours, least energy: 32 x dgx-h100", text)

    def test_a_row_or_two_of_each_machine(self):
        question = ["capacity", "--hw", "dgx-h100,dgx-b200,mi355x-8", "--model", "llama3.1-8b", "--tokens", "1T", "--deadline", "60d"]
        text = self.succeed(*question)
        self.assertLessEqual(len(text.splitlines()), 20, text)
        self.assertGreater(len(self.succeed(*question, "--sizes").splitlines()), 25)
        self.assertNotRegex(text, r"\de\+0")
        page = self.directory / "c.html"
        self.succeed("capacity", "--hw", "dgx-h100:64", "--model", "llama3-8b", "--tokens", "1T", "--report", page)
        self.assertRegex(page.read_text(), r"(?s)<h1>llama3-8b on 1 T tokens: 64 x dgx-h100.*<b>[\d.]+ days</b>.*Machines")

    def test_a_budget_by_itself(self):
        """Tokens are uncertain, not the cost; sizes that train on other tokens are not ranked by it."""
        question = ["capacity", "--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "8,64", "--budget", "100 node-hours"]
        answer = self.answer(*question)
        for row in answer["rows"]:
            self.assertAlmostEqual(row["gpu_hours"], 400, places=3)
            self.assertTrue(row["within_limits"])
            self.assertIsNone(row["within_limits_chance"])
            self.assertEqual(row["wall_p10_s"], row["wall_p90_s"])
            self.assertLess(row["affordable_tokens_p10"], row["affordable_tokens"])
            self.assertLess(row["affordable_tokens"], row["affordable_tokens_p90"])
        self.assertEqual(set(answer["choices"].values()), {None})
        text = self.succeed(*question)
        self.assertRegex(text.splitlines()[0], r"tokens \([\d.]+ [BT] - [\d.]+ [BT]\): \d+ x perlmutter \(\d+ nodes\) for [^(]*, 400 GPU-hours")
        self.assertNotIn("fewest GPU-hours", text)

    def test_the_chance_of_a_deadline(self):
        """A median just within the deadline keeps it in about half the cases; a larger size keeps it surely."""
        asked = ["capacity", "--hw", "dgx-h100", "--model", "qwen3-30b-a3b", "--tokens", "4T", "--gpus", "64,128", "--price", "2.5"]
        days = self.answer(*asked)["rows"][0]["wall_s"] / 86400
        asked += ["--deadline", f"{days + 0.01:.4f}"]
        small, large = self.answer(*asked)["rows"]
        self.assertAlmostEqual(small["within_limits_chance"], 0.5, places=2)
        self.assertGreater(large["within_limits_chance"], 0.95)
        first, _, second = self.succeed(*asked).splitlines()[:3]
        self.assertRegex(first, r" 64 x dgx-h100 .* \(chance 50\.\d %\); with 9\d\.\d %: 128 x dgx-h100 for .* days, .*, \$ ")
        self.assertIn(", experts balanced (--routing)", second)

    def test_a_tuned_network(self):
        """Sizes from one card to the batch, which stays what it is; no model is trained from nothing."""
        answer = self.answer("capacity", "--hw", "dgx-h100", "--model", "llama3-8b", "--task", "lora", "--tokens", "25M", "--deadline", "2h")
        self.assertEqual([row["plan"]["config"]["gpus"] for row in answer["rows"]], [1, 2, 4, 8, 16, 32])
        self.assertEqual({row["plan"]["config"]["global_batch"] for row in answer["rows"]}, {32})
        text = self.succeed("capacity", "--hw", "dgx-h100", "--model", "llama3-8b", "--task", "lora", "--tokens", "25M", "--deadline", "2h")
        self.assertIn("within the limits: ", text)
        self.assertNotIn("trained on 20 tokens each", text)

    def test_a_batch_that_divides_badly_and_a_tight_plan(self):
        text = self.succeed("capacity", "--hw", "dgx-h100", "--model", "qwen3-30b-a3b", "--tokens", "1T", "--gpus", "96")
        self.assertRegex(text, r"hint: 96 x dgx-h100: batch 1024 = 2\^10 leaves a factor of 3 of 96 GPUs to cut the network by: --batch (960|1056) takes "
                         .replace("1024", "1,024"))
        text = self.succeed("capacity", "--hw", "dgx-h100", "--model", "qwen3-235b-a22b", "--tokens", "1T", "--gpus", "64")
        self.assertRegex(text, r"hint: 64 x dgx-h100: faster, but tight: .* --mem-risk 0\.\d\d admits it")

    def test_chips_have_their_own_frameworks(self):
        text = self.succeed("capacity", "--model", "llama3-8b", "--tokens", "1T", "--hw", "dgx-h100:256,tpu-v6e:256", "--deadline", "6d")
        self.assertIn("bf16, maxtext / megatron", text)

    def test_limits_that_nothing_meets(self):
        done = run(*self.QUESTION, "--deadline", "1h")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no size is within the limits; nearest: 32 x dgx-h100", done.stderr)


class Verdicts(Case):
    """plansearch fits: the verdict, the memory of the best plan, the fewest of every card."""

    def test_the_answer_has_its_schema_and_agrees_with_the_search(self):
        question = ["--model", "llama3.1-8b", "--gpus", "2", "--task", "lora", "--hw", "rtx-4090"]
        answer = self.answer("fits", "llama3.1-8b", "--method", "lora", "--on", "rtx-4090", "--gpus", "2")
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/fits.v1.schema.json").read_text()))
        json_schema.check(answer["answer"], json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text()))
        self.assertTrue(answer["fits"])
        self.assertEqual(answer["answer"]["plans"], self.answer(*question)["plans"])
        free = answer["answer"]["question"]["memory_capacity_bytes"] - answer["answer"]["plans"][0]["peak_memory_bytes"]
        self.assertTrue(answer["verdict"].startswith(f"fits on 2 x rtx-4090 (rtx-4090-box): {free / 2**30:.1f} GiB free, "), answer["verdict"])
        cards = {row["accelerator"]: row for row in answer["rows"]}
        self.assertEqual(len(cards), len(answer["rows"]))
        self.assertEqual(cards.keys(), {row["accelerator"] for row in csv.DictReader(io.StringIO(self.succeed("list", "hw", "--format", "csv")))})
        for card in ("rtx-3090", "l40s"):  # the fewest run, one fewer does not
            gpus = cards[card]["gpus"]
            ask = ["--hw", card, "--model", "llama3.1-8b", "--task", "lora", "--gpus"]
            self.assertEqual(self.answer(*ask, str(gpus))["admitted"], "fits")
            if gpus > 1:
                self.assertEqual(run(*ask, str(gpus - 1)).returncode, 3)

    def test_quantised_adapters(self):
        answer = self.answer("fits", "Qwen/Qwen3-8B", "--method", "qlora", "--on", "rtx4090", "--no-cards")
        self.assertEqual(answer["method"], "qlora")

    def test_exit_codes_and_prices_of_misfits(self):
        ask = ["fits", "llama3.1-8b", "--method", "lora", "--on", "rtx-4090", "--gpus", "1", "--no-cards"]
        done = run(*ask)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stdout.splitlines()[0], r"^does not fit on 1 x rtx-4090 \(rtx-4090-box\): [\d.]+ GiB at the least, [\d.]+ GiB too much$")
        self.assertIn("hint: with --task qlora", done.stdout)
        anyway = run(*ask, "--anyway")
        self.assertEqual(anyway.returncode, 3)
        self.assertRegex(anyway.stdout.splitlines()[0], r"; priced all the same: [\d.]+ k tokens/s a GPU \(")
        self.assertEqual(run(*ask[:-2], "8", "--no-cards").returncode, 0)
        early = run("fits", "deepseek-v3", "--on", "h100", "--gpus", "2048", "--no-cards", "--time-limit", "0.000001")
        self.assertRegex(early.stdout, r"^stopped before a plan was found that fits on 2,048 x h100-sxm5-80gb \(dgx-h100\)\n")
        self.assertNotIn(early.returncode, (0, 3))

    def test_public_reports(self):
        """What ran and what did not, as people reported it; the verdict is another where the table says why."""
        lines = (SOURCE / "tests/data/fits.csv").read_text().splitlines()
        for report in csv.DictReader(line for line in lines if not line.startswith("#")):
            with self.subTest(report["run"]):
                code = run("fits", *report["question"].split(), "--no-cards").returncode
                self.assertEqual({0: "yes", 3: "no"}[code] == report["ran"], not report["missed"], report["source"])

    def test_the_smallest_size_days_and_cards_alone(self):
        text = self.succeed("fits", "llama3-8b", "--on", "h100", "--tokens", "10B", "--no-cards")
        self.assertRegex(text.splitlines()[0], r"^fits on [2-8] x h100-sxm5-80gb \(dgx-h100\): .* GiB free, .* for 10 B tokens \(.* to .*\)$")
        bar = re.search(r"^\[([^]]*)\] ([\d.]+) / (\d+) GiB$", text, re.MULTILINE)
        used = sum(mark != "." for mark in bar[1]) / len(bar[1])
        self.assertAlmostEqual(used, float(bar[2]) / float(bar[3]), delta=0.02)
        cards = self.succeed("fits", "gpt2-xl", "--on", "l40s,h100")
        self.assertEqual(cards.splitlines()[0], "gpt2-xl pretrain fits on 2 of 2 kinds of cards, on a single one of 2")


class Markdown(Case):
    """--format markdown: tables of equal rows, the cells those of the table for a screen."""

    QUESTION = ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16"]
    COMMANDS = (
        ["search", *QUESTION, "--top", "3"],
        ["search", "--hw", "dgx-h100", "--model", "llama3-8b", "--space", "data", "--top", "2"],
        ["compare", *QUESTION[:1], "dgx-h100,selene", *QUESTION[2:]],
        ["predict", *QUESTION, "--tp", "2"],
        ["explain", *QUESTION, "--tp", "2", "--pp", "2", "--sensitivity", "--timeline"],
        ["capacity", *QUESTION, "--tokens", "1T"],
        ["diagnose", *QUESTION, "--tp", "2", "--measured", "60s"],
        ["fits", "gpt2-xl", "--on", "l40s,dgx-h100"],
        ["show", "hw", "dgx-h100"],
        ["list", "hw"],
    )

    def test_rows_for_programs(self):
        """The same answers as lines of JSON and of CSV."""
        for command in self.COMMANDS:
            with self.subTest(command=command):
                lines = [json.loads(line) for line in self.succeed(*command, "--format", "jsonl").splitlines()]
                rows = list(csv.DictReader(io.StringIO(self.succeed(*command, "--format", "csv"))))
                self.assertEqual(len(rows), len(lines))
                self.assertTrue(rows)
                self.assertFalse([row for row in rows if None in row or None in row.values()])

    @staticmethod
    def tables(text):
        """[[cells of a row]] of every table; what is between fences is none."""
        tables, rows, fenced = [], [], False
        for line in [*text.splitlines(), ""]:
            fenced ^= line.startswith("```")
            if line.startswith("|") and not fenced:
                cells = re.split(r"(?<!\\)\|", line)[1:-1]
                rows.append([re.sub(r"\\([`*_<>|\[\]#~\\])", r"\1", cell).strip() for cell in cells])
            elif rows:
                tables.append(rows)
                rows = []
        return tables

    def test_every_answer(self):
        for command in self.COMMANDS:
            with self.subTest(command=command):
                result = run(*command, "--format", "markdown")
                self.assertEqual((result.returncode, result.stdout.count("```") % 2), (0, 0), result.stderr)
                shown = re.sub(r"\s+", " ", run(*command).stdout)
                tables = self.tables(result.stdout)
                self.assertTrue(tables)
                for head, rule, *rows in tables:
                    self.assertTrue(all(re.fullmatch(r":?-+:?", cell) for cell in rule), rule)
                    for row in rows:
                        self.assertEqual(len(row), len(head), row)
                        self.assertIn(re.sub(r"\s+", " ", " ".join(filter(None, row))), shown)
                outside = re.sub(r"^```.*?^```|^\|.*?$", "", result.stdout, flags=re.M | re.S)
                self.assertNotRegex(outside, r"(?<!\\)[<*_`\[]")
                for before, line in zip(result.stdout.splitlines(), result.stdout.splitlines()[1:], strict=False):
                    if line.startswith("|"):  # a table begins behind an empty line
                        self.assertTrue(not before or before.startswith("|"), line)

    def test_pictures_stay_as_they_are(self):
        text = self.succeed(*self.COMMANDS[4], "--format", "markdown")
        self.assertRegex(text, r"(?m)^```\n(.*\n)*?.*stage +0")


class Trials(Case):
    """tune: trials are chosen, written, read back and judged."""

    QUESTION = ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8"]

    def begin(self, *arguments):
        folder = str(self.directory / "trials")
        text = self.succeed("tune", *self.QUESTION, "--to", "megatron", "--trials", "3", "--out", folder, *arguments)
        return pathlib.Path(folder), text

    def fill(self, folder, *measured):
        path = folder / "trials.csv"
        rows = list(csv.DictReader(path.read_text().splitlines()))
        for row, text in zip(rows, measured):
            row["measured"] = text
        with path.open("w") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)

    def go_on(self, folder, *arguments):
        return json.loads(self.succeed("tune", "--continue", str(folder), "--format", "json", *arguments))

    def test_trials_are_scripts_of_different_plans(self):
        folder, text = self.begin()
        self.assertIn("trial-3.sh", text)
        scripts = [(folder / f"trial-{n}.sh").read_text() for n in (1, 2, 3)]
        for script in scripts:
            self.assertIn("--tensor-model-parallel-size", script)
            self.assertIn("--train-iters 20", script)
        self.assertEqual(len({re.search(r"(?m)^# dp .*", script).group(0) for script in scripts}), 3)
        self.refuse("tune", *self.QUESTION, "--out", str(folder), expect=["there are trials in it"])

    def test_one_job_array_runs_all_trials(self):
        folder, text = self.begin("--launch", "slurm")
        self.assertIn("sbatch trials.sbatch", text)
        array = folder / "trials.sbatch"
        for line in ("--array=1,2,3%1", "--output=trial-%a.log", "--nodes=1", "--gpus-per-node=8", "--exclusive"):
            self.assertIn(f"#SBATCH {line}\n", array.read_text())
        tools = self.directory / "tools"
        tools.mkdir()
        for name, words in (("srun", f"printf '%s\\n' \"$@\"; cat {self.file('steps.log', self.log(50))}"), ("scontrol", "echo node1")):
            (tools / name).write_text(f"#!/bin/bash\n{words}\n")
            (tools / name).chmod(0o755)
        for script in (array, *folder.glob("trial-*.sh")):
            self.assertEqual(subprocess.run(["bash", "-n", script], capture_output=True).stderr, b"")
        if checker := shutil.which("shellcheck"):
            self.assertEqual(subprocess.run([checker, array], capture_output=True, text=True).stdout, "")
        for task in ("1", "3"):  # as Slurm starts them, in the folder that the array is submitted from
            environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": task,
                           "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "node1"}
            with (folder / f"trial-{task}.log").open("w") as log:
                subprocess.run(["bash", "trials.sbatch"], cwd=folder, env=environment, stdout=log, check=True)
            degrees = re.search(r"--tensor-model-parallel-size \d+", (folder / f"trial-{task}.sh").read_text()).group(0).split()
            self.assertIn("\n".join(degrees), (folder / f"trial-{task}.log").read_text())
        array.write_text(array.read_text().replace("set -euo", "module load cuda\nset -euo"))
        after = self.go_on(folder, "--trials", "1")
        self.assertEqual([trial["measured"] for trial in after["trials"]], ["50s", "", "50s", ""])
        self.assertIn("#SBATCH --array=2,4%1\n", array.read_text())
        self.assertIn("module load cuda\n", array.read_text())
        self.assertIn("#SBATCH --output=trial-4.log", (folder / "trial-4.sh").read_text())

    def test_results_move_the_leader(self):
        folder, _ = self.begin()
        before = self.go_on(folder)
        self.assertEqual(before["new_trials"], 0)  # none has a result yet
        self.fill(folder, "90 s", "50 s", "oom")
        after = self.go_on(folder, "--trials", "2")
        trials = after["trials"]
        self.assertEqual([t["measured"] for t in trials[:3]], ["90 s", "50 s", "oom"])
        self.assertEqual(after["leader"]["rank"], trials[1]["rank"])
        self.assertAlmostEqual(after["leader"]["step_time_s"], 50.0)
        self.assertEqual(after["new_trials"], 2)
        for trial in trials[3:]:
            self.assertTrue((folder / trial["script"]).is_file())
        self.assertEqual(len({t["rank"] for t in trials}), 5)

    def test_a_pace_is_a_step(self):
        folder, _ = self.begin()
        self.fill(folder, "83886 tokens/s")  # 512 x 8192 tokens in 50 s
        self.assertIn("50.0 s", self.succeed("tune", "--continue", str(folder)))

    @staticmethod
    def log(seconds, batch=512, nan=0, steps=20):
        return "".join(
            f" [2026-03-01 10:{i:02}:00] iteration {i:8}/ 500 | consumed samples: {i * batch} | elapsed time per iteration "
            f"(ms): {1e3 * seconds * (1.5 if i < 3 else 1):.1f} | global batch size: {batch:5} | lm loss: 7.1E+00 | number of "
            f"skipped iterations: 0 | number of nan iterations: {nan} |\n" for i in range(1, steps + 1))

    def test_logs_are_results(self):
        folder, _ = self.begin()
        (folder / "trial-1.log").write_text(self.log(90))
        (folder / "trial-2.log").write_text("starting\n" + self.log(50))
        (folder / "trial-3.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
        after = self.go_on(folder)
        self.assertEqual([t["measured"] for t in after["trials"][:3]], ["90s", "50s", "oom"])
        self.assertEqual(after["leader"]["rank"], after["trials"][1]["rank"])
        with (folder / "trials.csv").open() as file:  # what was read stays, without the log
            self.assertEqual([row["measured"] for row in csv.DictReader(file)][:3], ["90s", "50s", "oom"])
        (folder / "trial-1.log").unlink()
        self.assertEqual(self.go_on(folder)["trials"][0]["measured"], "90s")

    def test_real_steps_on_two_cores(self):
        """Twelve plans on two ranks and eight on one, as tools/trial_run.py measured them: the best is found in three trials."""
        data = SOURCE / "tests/data/trials"
        with (data / "measured.csv").open() as file:
            steps = {(row["ranks"], row["zero"], row["micro_batch"], row["recompute"]): list(map(float, row["step_times_ms"].split()))
                     for row in csv.DictReader(file)}
        medians = {plan: statistics.median(times) for plan, times in steps.items()}
        for ranks in ("1", "2"):
            folder = self.directory / f"on-{ranks}"
            self.succeed("tune", "--hw", data / "two-cores.yaml", "--model", data / "gpt-tiny.yaml", "--gpus", ranks, "--to", "accelerate",
                         "--framework", "fsdp2", "--precision", "fp32", "--tp", "1", "--pp", "1", "--cp", "1", "--trials", "3", "--out", folder)
            configs = [plan["config"] for plan in json.loads((folder / "plans.json").read_text())["plans"]]
            plans = [(ranks, *(str(config[key]) for key in ("zero", "micro_batch", "recompute"))) for config in configs]
            self.assertEqual(set(plans), {plan for plan in steps if plan[0] == ranks})
            with (folder / "trials.csv").open() as file:
                for row in csv.DictReader(file):
                    lines = (f"step {i:05}/00012 (0.00%) | dt: {t:.2f}ms | tok/sec: 1 |\n"
                             for i, t in enumerate(steps[plans[int(row["rank"]) - 1]]))
                    (folder / f"trial-{row['trial']}.log").write_text("".join(lines))
            leader = plans[self.go_on(folder)["leader"]["rank"] - 1]
            self.assertLessEqual(medians[leader], 1.01 * min(medians[plan] for plan in plans))

    def test_logs_that_say_nothing_of_the_trial_are_refused(self):
        folder, _ = self.begin()
        table = (folder / "trials.csv").read_text()
        degrees = json.loads((folder / "plans.json").read_text())["plans"][int(table.splitlines()[1].split(",")[1]) - 1]["config"]
        other = "\n".join(f"  {name} {'.' * (40 - len(name))} {value}" for name, value in {
            "world_size": 8, "tensor_model_parallel_size": 4 if degrees["tp"] != 4 else 2, "pipeline_model_parallel_size": 1,
            "micro_batch_size": 1, "global_batch_size": 512, "seq_length": 8192, "bf16": True, "num_layers": 32,
            "use_distributed_optimizer": True, "hidden_size": 4096, "num_attention_heads": 32}.items()) + "\n"
        for text, words in (("still compiling\n", "no training step"), (self.log(50, batch=64), "another job"),
                            (self.log(50, nan=1), "are not numbers"), (other + self.log(50), "another plan: ")):
            (folder / "trial-1.log").write_text(text)
            self.refuse("tune", "--continue", str(folder), expect=["trial-1.log", words, "column measured"])
            self.assertEqual((folder / "trials.csv").read_text(), table)
            (folder / "trial-1.log").unlink()

    def test_wrong_folders_and_cells_are_named(self):
        self.refuse("tune", *self.QUESTION, expect=["--out is missing"])
        self.refuse("tune", *self.QUESTION[:4], "--out", str(self.directory / "none"), expect=["--gpus is missing"])
        self.refuse("tune", "--continue", str(self.directory / "nowhere"), expect=["plans.json"])
        folder, _ = self.begin()
        self.fill(folder, "fast")
        self.refuse("tune", "--continue", str(folder), expect=["trials.csv:2"])
        self.fill(folder, "", "oom", "oom")
        table = (folder / "trials.csv").read_text()
        (folder / "trials.csv").write_text(re.sub(r"(?m)^1,\d+,", "1,99999,", table))
        self.refuse("tune", "--continue", str(folder), expect=["has ranks 1 to"])
        (folder / "plans.json").write_text('{"schema": "plansearch/result/v1"}')
        self.refuse("tune", "--continue", str(folder), expect=["no plans are in it"])
        (folder / "plans.json").write_text('{"plans": [')
        self.refuse("tune", "--continue", str(folder), expect=["plans.json:1"])


class WhatIf(Case):
    """--set: other values in the files of a question."""

    PLAN = ["--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "128", "--tp", "8", "--pp", "2", "--dp", "8",
            "--zero", "1", "--batch", "512"]

    def step(self, *arguments):
        return self.answer("predict", *self.PLAN, *arguments)["plans"][0]["step_time_s"]

    def test_a_value_is_what_a_file_with_it_gives(self):
        """Against files written by hand."""
        slow = self.file("slow.yaml", "schema: plansearch/fabric/v1\nname: slow\nlike: infiniband\nsend: 9 us\n")
        half = self.file("half.yaml", "schema: plansearch/profile/v1\nname: half\nlike: dgx-h100\n"
                         "accelerator: {peak: {bf16: 700 TFLOP/s}}\n"
                         f"tiers:\n  - {{name: nvlink, bandwidth: 225 GB/s}}\n  - {{name: infiniband, fabric: {slow}}}\n")
        framework = (SOURCE / "frameworks/megatron.yaml").read_text()
        launch = re.search(r"\n  host_launch: (.*)", framework)
        calls = self.file("calls.yaml", re.sub(r"aliases: .*\n", "", framework).replace("name: megatron", "name: calls")
                          .replace(launch.group(0), "\n  host_launch: 90 us"))
        by_file = self.answer("predict", "--hw", half, "--framework", calls, *self.PLAN[2:])["plans"][0]
        by_flag = self.answer("predict", *self.PLAN, "--set", "tiers.nvlink.bandwidth=225GB/s", "--set",
                              "tiers.infiniband.fabric.send=9us;accelerator.peak.bf16=700 TFLOP/s",
                              "--set", "framework.constants.host_launch=90us")["plans"][0]
        for key in ("step_time_s", "step", "memory", "peak_memory_bytes"):
            self.assertEqual(by_flag[key], by_file[key], key)
        self.assertNotEqual(by_flag["step_time_s"], self.step())

    def test_every_command_takes_it(self):
        fewer = ["--set", "accelerator.memory=40GiB"]
        self.assertIn("/ 40 GiB", self.succeed("--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16", "--top", "1", *fewer))
        self.assertIn("/ 40 GiB", self.succeed(*fewer, "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16", "--top", "1"))
        self.assertIn("/ 40 GiB", run("predict", *self.PLAN, *fewer).stdout)
        self.assertIn("/ 40 GiB", run("explain", *self.PLAN, *fewer).stdout)
        self.assertIn("40.0 GiB", self.succeed("show", "hw", "dgx-h100", *fewer))
        days = [self.answer("capacity", "--model", "llama3-8b", "--hw", "dgx-h100", "--gpus", "64", "--tokens", "1T", *more)
                ["rows"][0]["wall_s"] for more in ([], ["--set", "accelerator.peak.bf16=500 TFLOP/s"])]
        self.assertGreater(days[1], 1.3 * days[0])
        usual = run("diagnose", *self.PLAN, "--measured", "45s", "--format", "json", "--set", "accelerator.peak.bf16=500TFLOP/s")
        self.assertGreater(json.loads(usual.stdout)["plan"]["step_time_s"], 1.2 * self.step())
        table = str(SOURCE / "tests/data/validate/runs.csv")
        self.assertNotEqual(run("validate", table, "--set", "framework.constants.host_launch=900us").stdout,
                            run("validate", table).stdout)

    def test_answers_and_plan_files_keep_it(self):
        written = self.directory / "plan.yaml"
        change = ["--set", "tiers.infiniband.nic_bandwidth=10GB/s; framework.vocab_multiple=64"]
        answer = self.answer("predict", *self.PLAN, *change, "--write-plan", written)
        self.assertIn({"key": "set", "value": change[1], "origin": "flag"}, answer["question"]["settings"])
        again = self.answer("predict", "--plan", written)
        self.assertEqual(again["plans"][0]["step_time_s"], answer["plans"][0]["step_time_s"])
        result = self.file("result.json", json.dumps(answer))
        self.assertEqual(self.answer("predict", "--plan", f"{result}#1")["plans"][0]["step_time_s"],
                         answer["plans"][0]["step_time_s"])
        other = run("predict", "--plan", written, "--set", "tiers.infiniband.nic_bandwidth=50GB/s", "--format", "json")
        self.assertIn("dgx-h100 has changed since the plan was written", other.stderr)
        other = json.loads(other.stdout)
        self.assertLess(other["plans"][0]["step_time_s"], answer["plans"][0]["step_time_s"])

    def test_what_a_program_does_is_not_exported(self):
        for change, code in (("framework.constants.host_launch=90us", 4), ("tiers.nvlink.bandwidth=225GB/s", 0)):
            written = self.directory / "plan.yaml"
            self.succeed("predict", *self.PLAN, "--set", change, "--write-plan", written)
            result = run("export", written, "--to", "megatron")
            self.assertEqual(result.returncode, code, result.stderr)
            if code:
                self.assertIn("set framework.constants.host_launch=90us", result.stderr)

    def test_the_fewest_gpus_for_a_step(self):
        question = ["capacity", "--hw", "dgx-h100", "--model", "llama3-70b", "--tokens", "2T", "--gpus", "256..1024"]
        for wrong in ("28", "0s", "-1s", "fast"):
            self.refuse(*question, "--step-time", wrong, expect=["--step-time", "not a time above zero"])
        answer = self.answer(*question, "--step-time", "10s")
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/capacity.v1.schema.json").read_text()))
        self.assertEqual([row["within_limits"] for row in answer["rows"]], [row["step_time_s"] <= 10 for row in answer["rows"]])
        self.assertEqual(answer["rows"][answer["choices"]["fewest_gpus"]]["gpus"],
                         min(row["gpus"] for row in answer["rows"] if row["step_time_s"] <= 10))
        never = run(*question, "--step-time", "10ms")
        self.assertEqual(never.returncode, 3)
        self.assertIn("the fastest step: ", never.stderr)

    def test_ranges_are_compared_and_share_their_errors(self):
        answer = self.answer("compare", *self.PLAN, "--set", "tiers.infiniband.nic_bandwidth=12.5..50GB/s")
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/compare.v1.schema.json").read_text()))
        rows = answer["rows"]
        self.assertEqual([row["question"]["set"] for row in rows],
                         [f"tiers.infiniband.nic_bandwidth={value}GB/s" for value in ("12.5", "25", "50")])
        for row in rows[1:]:
            plan = row["plan"]
            alone = self.step("--set", row["question"]["set"])
            self.assertEqual(plan["step_time_s"], alone)
            self.assertLess(row["speed_p10"], row["speed"])
            narrow = math.log(row["speed_p90"] / row["speed_p10"])
            self.assertLess(5 * narrow, math.log(plan["step_time_p90_s"] / plan["step_time_p10_s"]))
        self.assertIsNone(rows[0]["speed_p10"])
        self.assertFalse(rows[1]["tie_with_first"])

    def test_sensitivity(self):
        answer = self.answer("explain", *self.PLAN, "--sensitivity")
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text()))
        values = {row["key"]: row for row in answer["sensitivity"]["values"]}
        self.assertEqual(answer["sensitivity"]["refused"], [])
        row = values["accelerator.peak.bf16"]
        self.assertEqual((row["value"], row["evidence"]), ("989 TFLOP/s", "datasheet"))
        changed = self.step("--set", "accelerator.peak.bf16=1087.9 TFLOP/s")
        self.assertAlmostEqual(row["step_change"], changed / self.step() - 1, places=9)
        text = self.succeed("explain", *self.PLAN, "--sensitivity", env={"COLUMNS": "100"})
        self.assertRegex(text, r"accelerator.peak.bf16 +989 TFLOP/s +datasheet +-7\.\d\d %")
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertEqual(text, self.succeed("explain", *self.PLAN, "--sensitivity", "--threads", "1", env={"COLUMNS": "100"}))


class Comparisons(Case):
    """compare, lists in searches, explain of two plans, training on tokens."""

    def check(self, answer):
        schema = json.loads((SOURCE / "docs/schema/compare.v1.schema.json").read_text())
        json_schema.check(answer, schema)
        result = json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text())
        for row in answer["rows"]:
            if row["plan"]:
                json_schema.check(row["plan"], result["$defs"]["plan"] | {"$defs": result["$defs"]})
        return answer

    def test_a_changed_machine_shares_its_errors_with_the_original(self):
        half = self.file("half.yaml", "schema: plansearch/profile/v1\nname: half\nlike: dgx-h100\n"
                          "tiers:\n  - {name: nvlink, bandwidth: 225 GB/s, provenance: "
                          "[{fields: [bandwidth], evidence: assumed, source: what if}]}\n")
        rows = self.answer("compare", "--hw", f"dgx-h100,{half}", "--model", "llama3-70b", "--gpus", "64")["rows"]
        self.assertLess(rows[1]["speed"], 0.95)
        self.assertFalse(rows[1]["tie_with_first"])

    def test_only_a_changed_machine_shares_its_errors(self):
        """The same curves are not enough: the other machine has to be `like` the first."""
        twin = (SOURCE / "hardware_profiles/dgx-h100.yaml").read_text()
        twin = re.sub(r"aliases: .*\n", "", twin).replace("name: dgx-h100", "name: twin")
        twin = self.file("twin.yaml", twin.replace("bandwidth: 450 GB/s", "bandwidth: 225 GB/s"))
        rows = self.answer("compare", "--hw", f"dgx-h100,{twin}", "--model", "llama3-70b", "--gpus", "64")["rows"]
        self.assertLess(rows[1]["speed"], 0.95)
        self.assertTrue(rows[1]["tie_with_first"])

    def test_curves_that_are_like_others(self):
        """Files of links and fabrics take `like:` as profiles do; a number of multiprocessors may be left out."""
        self.file("slow.yaml", "schema: plansearch/fabric/v1\nname: slow\nlike: infiniband\nnic_efficiency: 0.4\n")
        self.file("wire.yaml", "schema: plansearch/link/v1\nname: wire\nlike: nvlink4-switch\nbase: 40 us\n")
        half = self.file("half.yaml", "schema: plansearch/profile/v1\nname: half\nlike: dgx-h100\n"
                         "tiers:\n  - {name: nvlink, link: wire}\n  - {name: infiniband, fabric: slow}\n")
        question = ["--model", "llama3-70b", "--gpus", "64", "--tp", "8", "--dp", "8", "--zero", "1"]
        rows = self.answer("compare", "--hw", f"dgx-h100,{half}", *question)["rows"]
        self.assertLess(rows[1]["speed"], 0.999)
        shown = self.succeed("show", "hw", half)
        self.assertIn("slow", shown)
        self.assertIn("wire", shown)
        loop = self.file("loop.yaml", "schema: plansearch/fabric/v1\nname: loop\nlike: loop\n")
        half = self.file("half.yaml", half.read_text().replace("fabric: slow", "fabric: loop"))
        self.refuse("show", "hw", half, expect=[f"{loop}:3:", "refers back to itself"])
        chip = ("schema: plansearch/profile/v1\nname: mine\naccelerators_per_node: 1\naccelerator: {name: chip, memory: 80 GiB, "
                "memory_bandwidth: 3 TB/s, peak: {bf16: 900 TFLOP/s}}\n"
                "tiers: [{name: one, kind: switch, size: 8, bandwidth: 400 GB/s}]\n")
        mine = self.file("mine.yaml", chip)
        self.assertRegex(self.succeed("show", "hw", mine), r"multiprocessors +132 +assumed")
        wrong = self.file("wrong.yaml", "schema: plansearch/profile/v1\nname: x\nlike: dgx-h100\ntiers: {nvlink: {size: 8}}\n")
        self.refuse("show", "hw", wrong, expect=[f"{wrong}:4:"])

    def test_batches_that_suit_the_machine(self):
        """1538 = 2 x 769: said by comparisons and ladders too."""
        asked = ["--model", "gpt-neox-20b", "--framework", "megatron", "--batch", "1538"]
        rows = self.check(self.answer("compare", "--hw", "perlmutter,perlmutter-80", *asked, "--gpus", "256"))["rows"]
        for row in rows:
            self.assertRegex(row["advice"], r"^batch 1,538 = 2 x 769 leaves a factor of 128 of 256 GPUs .*: --batch 1536 takes ")
        self.assertIn("hint: row 2: batch 1,538", self.succeed("compare", "--hw", "perlmutter,perlmutter-80", *asked, "--gpus", "256"))
        ladder = self.succeed("--hw", "perlmutter", *asked, "--gpus", "128,256")
        self.assertIn("hint: on 128 GPUs: batch 1,538 = 2 x 769 leaves a factor of 64 of 128 GPUs", ladder)
        self.assertIn("hint: batch 1,538 = 2 x 769 leaves a factor of 128 of 256 GPUs", ladder)

    def test_schedules_beside_each_other(self):
        question = ["compare", "--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--pp", "4", "--schedule", "1f1b,interleaved,zb-v"]
        rows = self.check(json.loads(run(*question, "--format", "json").stdout))["rows"]
        self.assertEqual([row["question"]["schedule"] for row in rows], ["1f1b", "interleaved", "zb-v"])
        self.assertEqual([row["plan"]["config"]["schedule"] for row in rows], ["1f1b", "interleaved", "zb-v"])
        self.assertRegex(run(*question).stdout, r"(?m)^ *# +schedule +step")
        self.assertIn("megatron does not run zb-v (internevo, nemo-automodel, ", run(*question).stderr)

    def test_orders_that_the_framework_does_not_run(self):
        """No member of a list is lost without a word."""
        question = ["--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--pp", "4"]
        listed = run(*question, "--schedule", "1f1b,zb-v", "--format", "json")
        self.assertIn("megatron does not run zb-v (internevo, nemo-automodel, ", listed.stderr)
        self.assertIn(" would): left out", listed.stderr)
        self.assertEqual({plan["config"]["schedule"] for plan in json.loads(listed.stdout)["plans"]}, {"1f1b"})
        for target in ([], ["--target", "megatron"]):
            self.refuse(*question, *target, "--schedule", "zb-v,dualpipe",
                        expect=["megatron runs none of zb-v, dualpipe", "torchtitan", "zero-bubble"])
        alone = run(*question, "--schedule", "zb-v")
        self.assertIn(" would): priced as if it did", alone.stderr)

    def test_any_is_no_slower_than_any_framework(self):
        """Its default space holds grids, rings, squares, stages of their own; advice says who runs plan 1."""
        listed = self.succeed("list", "frameworks").splitlines()[2:]
        names = [line.split()[0] for line in listed if line.strip() and line.split()[0] != "any"]
        self.assertEqual(len(names), len(listed) - 1)
        questions = [
            "--hw perlmutter --model gpt2-medium --gpus 16",
            "--hw dgx-h100 --model gpt2-medium --gpus 8",
            "--hw mi300x-8 --model llama3-8b --gpus 8",
            "--hw aws-p3 --model gpt2-xl --gpus 16 --precision fp16",
            "--hw dgx-h100 --model mixtral-8x7b --gpus 16",
            "--hw perlmutter --model gpt2-xl --gpus 64",
            "--hw gb200-nvl72 --model llama3-8b --gpus 8",
            "--hw frontier --model opt-6.7b --gpus 16",
            "--hw selene --model gpt-22b --gpus 16 --batch 64",
            "--hw h800-8 --model llama3-8b --gpus 16 --seq-len 32768 --batch 64",
        ]
        seeds = ["--framework alpa --space uneven --recompute full", "--framework primepar --space temporal",
                 "--framework axonn --space 4d", "--framework tensor3d --space full"]
        for question in questions:
            answer = self.answer(*question.split(), "--framework", "any")
            self.assertEqual(answer["counts"]["space"], "full")
            self.assertRegex(" ".join(answer["advice"]), r"no program is called any; plan 1 as a whole runs in: \w+")
            best = answer["plans"][0]["step_time_s"]
            for other in seeds + [f"--framework {name}" for name in names]:
                asked = run(*question.split(), *other.split(), "--top", "1", "--format", "json")
                if asked.returncode == 0:
                    step = json.loads(asked.stdout)["plans"][0]["step_time_s"]
                    self.assertLessEqual(best, step * (1 + 1e-9), (question, other))

    def test_pieces_where_messages_are_slow(self):
        """Over 25 Gbit/s micro-batches in pieces win; over NVLink nothing is there to hide. The answer says so."""
        question = ["--model", "opt-6.7b", "--gpus", "32", "--batch", "64", "--precision", "fp16", "--framework", "any"]
        # Of four stages, as the best plan of all has. Stages of their own are searched until a limit of whole
        # plans: the rest of the space has a bound.
        slow = json.loads(run("--hw", "aws-p3", *question, "--pp", "4", "--format", "json").stdout)["plans"][0]
        self.assertEqual(slow["config"]["overdecompose"], 2)
        told = [why for why in slow["why"] if "x as fast as with micro-batches in one piece" in why]
        self.assertEqual(len(told), 1)
        self.assertGreater(float(told[0].split()[0]), 1.0)
        self.assertIn("messages inside nodes", told[0])
        fast = self.answer("--hw", "gb200-nvl72", *question)["plans"][0]
        self.assertEqual((fast["config"]["overdecompose"], fast["config"]["temporal"]), (1, "none"))
        exposed = sum(fast["step"]["exposed_communication_s"].values())
        self.assertLess(exposed, 0.01 * fast["step_time_s"])

    def test_rules_before_plans(self):
        """What the framework forbids whatever else a plan is, is told before any plan is looked at."""
        axonn = ["--hw", "perlmutter", "--gpus", "64", "--framework", "axonn", "--model"]
        self.refuse(*axonn, "mixtral-8x7b", expect=["axonn: no mixture of experts", "compare --framework"])
        self.refuse(*axonn, "gpt2-xl", "--zero", "1", expect=["--zero 1: axonn: shards parameters over depth", "legal values: 0"])
        self.refuse(*axonn, "gpt2-xl", "--recompute", "selective", expect=["--recompute selective", "legal values: none, full"])
        self.refuse(*axonn, "gpt2-xl", "--tp", "2", "--sp", "1", expect=["--tp 2, --sp 1: axonn:", "leave one of them out"])
        self.refuse("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "64", "--temporal", "ring",
                    expect=["--temporal ring: megatron runs no operator in steps"])
        for question in (["pairs"], ["interleaved-pairs", "--pp", "4"]):
            self.refuse("--hw", "dgx-h100", "--model", "mixtral-8x7b", "--gpus", "64", "--recompute", "full", "--schedule", *question,
                        expect=[f"--recompute full, --schedule {question[0]}: ", "transformer_config.py: disable full recomputation", "leave one of them out"])
        told = self.refuse("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "64", "--memory-cap", "4",
                           expect=["search takes no --memory-cap", "taken by predict, explain"])
        self.assertNotIn("did you mean", told)
        told = self.refuse("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "64", "--temporal", "2x2",
                           expect=["--temporal 2x2: megatron runs no operator in steps over squares", "any and primepar do"])

    def test_squares_in_a_search(self):
        """Every plan over squares of devices: the first is what predict says of its degrees with the same squares."""
        question = ["--hw", "dgx-1-v100", "--model", "opt-6.7b", "--gpus", "16", "--batch", "32", "--precision", "fp16", "--framework",
                    "primepar", "--temporal", "2x2"]
        plans = self.answer(*question, "--space", "framework", "--vpp", "1")["plans"]
        self.assertTrue(all(plan["config"]["tp"] % 4 == 0 for plan in plans))
        first = plans[0]["config"]
        degrees = [word for key in ("dp", "pp", "tp", "zero", "micro_batch", "recompute", "schedule")
                   for word in ("--" + key.replace("_", "-"), str(first[key]))]
        alone = self.answer("predict", *question, *degrees)["plans"][0]
        self.assertAlmostEqual(alone["step_time_s"], plans[0]["step_time_s"], delta=1e-9)
        self.refuse(*question, "--tp", "2", expect=["squares of 2 x 2 devices: no tensor degree is a multiple of 4"])

    def test_passes_in_a_search(self):
        """Alpa's lists under all passes: another plan is the fastest, each is priced as predict does, pruning loses none."""
        question = ["--hw", "aws-p3", "--model", "gpt2-xl", "--gpus", "64", "--batch", "1024", "--precision", "fp16", "--framework", "alpa",
                    "--recompute", "full"]
        lists = self.answer(*question)["plans"][0]
        answer = self.answer(*question, "--passes", "all")
        first = answer["plans"][0]
        self.assertEqual((lists["config"]["pp"], first["config"]["pp"]), (1, 4))
        self.assertLess(first["step_time_s"], lists["step_time_s"])
        self.assertIn("passes over its lists take ", " ".join(first["why"]))
        self.assertEqual(self.answer(*question, "--passes", "all", "--exhaustive")["plans"][0], first)
        path = self.directory / "passes.json"
        path.write_text(json.dumps(answer))
        again = json.loads(self.succeed("predict", "--plan", f"{path}#1", "--format", "json"))["plans"][0]
        self.assertEqual(again["step_time_s"], first["step_time_s"])
        alone = json.loads(self.succeed("predict", "--plan", f"{path}#1", "--passes", "none", "--format", "json"))["plans"][0]
        self.assertGreater(alone["step_time_s"], lists["step_time_s"])

    def test_command_to_run(self):
        """Where the framework is asked for by name, the answer ends with the export that was tried; frameworks of papers alone have none."""
        question = ["--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "64", "--batch", "512", "--framework"]
        for framework, target in (("axonn", "axonn"), ("alpa", "alpa"), ("torchtitan-async-tp", "torchtitan"), ("nnscaler", "nnscaler")):
            answer = self.directory / "ANSWER.json"
            self.succeed(*question, framework, "--format", "json", "--out", str(answer))
            advice = json.loads(answer.read_text())["advice"][-1]
            self.assertIn(f"ANSWER.json#1 --to {target} --launch slurm", advice)
            command = re.search(r"plansearch (export .*?);", advice)[1].replace("ANSWER.json", str(answer)).split()
            exported = run(*command)  # with notes on standard error
            self.assertEqual(exported.returncode, 0, exported.stderr)
            self.assertIn("#SBATCH --nodes=16", exported.stdout)
        for framework in ("primepar", "tensor3d", "any"):
            self.assertNotIn("plan 1 runs by", self.succeed(*question, framework))
        self.assertNotIn("plan 1 runs by", self.succeed(*question[:-1]))
        self.assertNotIn("plan 1 runs by", self.succeed(*question, "alpa", "--recompute", "full", "--passes", "all"))

    def test_tensors_on_the_host(self):
        """A remedy where nothing fits, the fewest that make room; tried unasked where all that is priced may be taken."""
        question = ["--hw", "dgx-h100", "--model", "llama3-70b", "--batch", "64"]
        told = run(*question, "--gpus", "8")
        self.assertEqual(told.returncode, 3)
        self.assertRegex(told.stdout, r"hint: with --offload optimizer it fits: ")
        self.assertEqual(told.stdout.count("--offload"), 1)
        self.assertIn("no plan fits", run(*question, "--gpus", "8", "--offload", "none").stdout)
        self.assertNotIn("--offload", run(*question, "--gpus", "8", "--offload", "none").stdout)
        self.assertNotIn("--offload", self.succeed(*question, "--gpus", "64"))
        research = [*question, "--gpus", "16", "--framework", "any", "--space", "4d"]
        answer = self.answer(*research)
        first = answer["plans"][0]
        self.assertNotEqual(first["config"]["offload"], "none")
        self.assertGreater(first["host_memory_bytes"], 0)
        self.assertNotIn("--offload", " ".join(answer["advice"]))  # nothing is left to try
        self.assertLess(first["step_time_s"], self.answer(*research, "--offload", "none")["plans"][0]["step_time_s"])
        named = self.answer(*research, "--offload", first["config"]["offload"])["plans"][0]
        self.assertEqual(named["step_time_s"], first["step_time_s"])
        path = self.directory / "host.json"
        path.write_text(json.dumps(answer))
        again = json.loads(self.succeed("predict", "--plan", f"{path}#1", "--format", "json"))["plans"][0]
        self.assertEqual((again["step_time_s"], again["config"]["offload"]), (first["step_time_s"], first["config"]["offload"]))
        self.refuse(*question, "--gpus", "16", "--offload", "disk", expect=["--offload disk: must be some of none, optimizer"])

    def test_intervals_and_unmeasured_machines(self):
        text = self.succeed("compare", "--hw", "h100,mi355x-8", "--model", "llama3-8b", "--gpus", "8")
        self.assertIn("p10 - p90", text)
        self.assertRegex(text, r"(?m)^ *2\* +mi355x-8 ")
        self.assertIn("* no number of the profile is measured", text)

    def test_every_combination(self):
        question = ["compare", "--hw", "perlmutter,perlmutter-80", "--model", "gpt2-xl", "--framework",
                    "megatron,fsdp", "--gpus", "16,32"]
        answer = self.check(self.answer(*question))
        asked = [(row["question"]["hardware"], row["question"]["framework"], row["question"]["gpus"])
                 for row in answer["rows"]]
        self.assertEqual(asked, [(h, f, g) for h in ("perlmutter", "perlmutter-80")
                                 for f in ("megatron", "fsdp") for g in (16, 32)])
        first = answer["rows"][0]["plan"]
        for row, (hardware, framework, gpus) in zip(answer["rows"], asked, strict=True):
            alone = self.answer("--hw", hardware, "--model", "gpt2-xl", "--framework", framework, "--gpus",
                                gpus)["plans"][0]
            self.assertEqual(row["plan"], alone)
            self.assertEqual(row["speed"], alone["tokens_per_s"] / first["tokens_per_s"])
            self.assertAlmostEqual(row["gpu_s_per_token"], gpus / alone["tokens_per_s"], places=15)
        self.assertEqual(len(answer["evidence"]), 5)  # two profiles, two frameworks, a site
        table = self.succeed(*question)
        self.assertIn("comparing best plans: gpt2-xl, bf16, sequence 1024, batch 512", table)
        self.assertRegex(table, r"(?m)^ *#  hardware +framework +GPUs +step +p10 - p90 +tokens/s +speed")
        rows = list(csv.DictReader(io.StringIO(self.succeed(*question, "--format", "csv"))))
        self.assertEqual([float(row["step_time_s"]) for row in rows],
                         [row["plan"]["step_time_s"] for row in answer["rows"]])
        self.assertEqual(rows[0]["speed"], "1.0")
        lines = self.succeed(*question, "--format", "jsonl").splitlines()
        self.assertEqual([json.loads(line) for line in lines], answer["rows"])

    def test_batches_of_a_search(self):
        question = [*QUESTION, "--gpus", "64", "--batch", "256..1024"]
        answer = self.check(self.answer(*question))
        self.assertEqual([row["question"]["global_batch"] for row in answer["rows"]], [256, 512, 1024])
        self.assertEqual(answer, self.answer("compare", *question))
        self.assertRegex(self.succeed(*question), r"(?m)^ *# +batch +step")
        self.assertEqual(self.succeed(*question, "--threads", "1"), self.succeed(*question, "--threads", "3"))

    def test_a_row_that_cannot_be(self):
        question = ["compare", "--hw", "perlmutter,dgx-h100", "--model", "gpt2-xl", "--gpus", "8",
                    "--precision", "fp8"]
        answer = self.check(self.answer(*question))
        self.assertIsNone(answer["rows"][0]["plan"])
        self.assertIn("no fp8 rate", answer["rows"][0]["reason"])
        self.assertIsNone(answer["rows"][1]["speed"])
        self.assertTrue(answer["rows"][1]["plan"])
        self.assertIn("no fp8 rate", self.succeed(*question))
        self.assertIn("no fp8 rate", self.succeed(*question, "--format", "csv"))
        result = run("compare", *QUESTION, "--gpus", "4", "--batch", "1,2", "--model", "llama3-70b")
        self.assertEqual(result.returncode, 2)  # --model twice
        result = run("compare", "--hw", "perlmutter", "--model", "llama3-70b", "--gpus", "4,8")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no plan fits", result.stdout)

    def test_refusals(self):
        self.refuse("compare", *QUESTION, expect=["a comparison needs a number of GPUs", "--gpus N"])
        self.refuse("compare", *QUESTION, "--gpus", "8", "--framework", "megatron,megatrom",
                    expect=["megatrom", "megatron"])
        self.refuse("compare", "--hw", "perlmutter,selene,eos", "--model", "gpt2,gpt2-xl,gpt2-large",
                    "--gpus", "8..1024", expect=["more than 64 questions", "hint:"])
        self.refuse("compare", *QUESTION, "--gpus", "8", "--pareto", expect=["--pareto and --all"])

    def test_given_plans(self):
        answer = self.directory / "a.json"
        answer.write_text(self.succeed(*QUESTION, "--gpus", "32", "--format", "json"))
        plan = self.directory / "b.yaml"
        self.succeed("predict", *QUESTION, "--gpus", "16", "--zero", "2", "--write-plan", plan)
        names = [f"{answer}#1", f"{answer}#3", str(plan)]
        compared = self.check(self.answer("compare", *names))
        self.assertEqual([row["name"] for row in compared["rows"]], names)
        for row in compared["rows"]:
            alone = self.answer("predict", "--plan", row["name"])["plans"][0]
            self.assertEqual(row["plan"], alone)
        ranked = json.loads(answer.read_text())["plans"]
        self.assertEqual(compared["rows"][1]["tie_with_first"], ranked[2]["tie_with_first"])
        self.assertIn("a.json#3", self.succeed("compare", *names))
        self.refuse("compare", f"{answer}#1", f"{answer}#99", expect=["no plan of rank 99"])

    def test_a_given_plan_that_does_not_fit(self):
        answer = self.directory / "a.json"
        answer.write_text(self.succeed(*QUESTION, "--gpus", "32", "--format", "json"))
        result = run("compare", f"{answer}#1", f"{answer}#2", "--hw", "jean-zay-v100-16", "--precision",
                     "fp16")
        self.assertIn("(!)", result.stdout)

    def test_messages_add_up_to_the_breakdown_under_recompute(self):
        for recompute in ("none", "full"):
            plan = self.answer("predict", "--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--tp",
                               "8", "--pp", "4", "--batch", "64", "--sp", "1", "--zero", "1", "--recompute",
                               recompute)["plans"][0]
            exposed = dict.fromkeys(plan["step"]["exposed_communication_s"], 0.0)
            for message in plan["communication"]:
                exposed[message["purpose"]] += message["exposed_s"]
                self.assertLessEqual(message["exposed_s"], message["count"] * message["time_s"] * 1.0001)
            for purpose, time_s in plan["step"]["exposed_communication_s"].items():
                self.assertAlmostEqual(exposed[purpose], time_s, places=9)
            # 80 layers on 4 stages, 64 micro-batches of one sequence on two replicas: 20 x 32 passes of the
            # projection, repeated where the block runs again.
            count = sum(m["count"] for m in plan["communication"] if m["what"] == "projection")
            self.assertEqual(count, 640 if recompute == "none" else 1280)

    def test_explain_two_plans(self):
        answer = self.directory / "a.json"
        answer.write_text(self.succeed(*QUESTION, "--gpus", "32", "--format", "json"))
        names = [f"{answer}#1", f"{answer}#4"]
        explained = self.answer("explain", *names)
        schema = json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text())
        json_schema.check(explained, schema)
        comparison = explained["comparison"]
        self.assertEqual(comparison["name"], names[1])
        mine, other = explained["plans"][0], comparison["plan"]
        self.assertEqual(other, self.answer("predict", "--plan", names[1])["plans"][0])
        more = comparison["rival_minus_this"]
        self.assertEqual(more["step_time_s"], other["step_time_s"] - mine["step_time_s"])
        self.assertEqual(more["memory"]["activations_bytes"],
                         other["memory"]["activations_bytes"] - mine["memory"]["activations_bytes"])
        parts = more["step"]
        total = sum(v for v in parts.values() if not isinstance(v, dict))
        total += sum(parts["exposed_communication_s"].values())
        self.assertAlmostEqual(total, more["step_time_s"], places=9)
        table = self.succeed("explain", *names)
        self.assertRegex(table, r"against .*a.json#4 +this plan +rival +rival - this")
        self.assertIn("activations", table.split("against ")[1])
        # Without a second plan the best other one, in JSON too.
        best = self.answer("explain", names[0])
        self.assertEqual(best["comparison"]["name"], "the best other plan, same settings")
        json_schema.check(best, schema)

    def test_training_on_tokens(self):
        question = ["--hw", "aws-p5", "--model", "llama3-8b", "--gpus", "64", "--batch", "512",
                    "--tokens", "1T"]
        answer = self.answer(*question)
        schema = json.loads((SOURCE / "docs/schema/result.v1.schema.json").read_text())
        json_schema.check(answer, schema)
        asked = answer["question"]
        self.assertEqual((asked["tokens"], asked["gpu_power_w"]), (1e12, 700))
        price = asked["gpu_price_usd_per_h"]
        for plan in answer["plans"]:
            training = plan["training"]
            steps = -(-10**12 // (512 * asked["seq_len"]))
            self.assertEqual(training["steps"], steps)
            self.assertAlmostEqual(training["time_s"] / (steps * plan["step_time_s"]), 1, places=12)
            self.assertAlmostEqual(training["gpu_s"] / (64 * training["time_s"]), 1, places=12)
            self.assertAlmostEqual(training["energy_j"] / (700 * training["gpu_s"]), 1, places=12)
            self.assertAlmostEqual(training["price_usd"] / (price * training["gpu_s"] / 3600), 1, places=12)
        table = self.succeed(*question)
        self.assertRegex(table, r"time +GPU-hours +energy +price")
        self.assertIn(f"price: {price} $/h per GPU, from the profile", table)
        rows = list(csv.DictReader(io.StringIO(self.succeed(*question, "--format", "csv"))))
        self.assertEqual(float(rows[0]["training_price_usd"]), answer["plans"][0]["training"]["price_usd"])
        for command in (["predict", *question, "--zero", "3", "--recompute", "full"], ["compare", *question, "--batch=256,512"],
                        [*question[:4], "--tokens", "1T"]):
            command = [c for i, c in enumerate(command) if not (
                "--batch=256,512" in command and (c == "--batch" or command[i - 1] == "--batch"))]
            self.assertRegex(self.succeed(*command), r"GPU-hours +energy +price")
            json.loads(self.succeed(*command, "--format", "json"))
        unknown = self.succeed("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "8", "--tokens", "20B")
        self.assertIn("price: the profile has none", unknown)
        self.refuse(*QUESTION, "--gpus", "8", "--tokens", "many", expect=["--tokens: 'many'", "1T"])


class Show(Case):
    """One file with its evidence."""

    def show(self, *arguments):
        answer = self.answer("show", *arguments)
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/show.v1.schema.json").read_text()))
        return answer, {row["field"]: row for row in answer["rows"]}

    def test_hardware(self):
        answer, rows = self.show("hw", "aws-p5")
        self.assertEqual((answer["kind"], answer["name"]), ("hw", "aws-p5"))
        peak = rows["peak.bf16"]
        self.assertEqual((peak["value"], peak["unit"], peak["evidence"]), (989e12, "FLOP/s", "datasheet"))
        self.assertIn("NVIDIA H100 datasheet", peak["source"])
        self.assertEqual((rows["price"]["value"], rows["price"]["unit"]), (12.29, "USD/h"))
        self.assertEqual(rows["power"]["value"], 700)
        self.assertEqual(rows["nic_bandwidth"]["value"], 12.5e9)
        self.assertEqual(rows["fabric.hop"]["evidence"], "measured")
        table = self.succeed("show", "hw", "p5.48xlarge")
        for text in ("hw aws-p5", "989 TFLOP/s", "datasheet [", "sources", "[1] "):
            self.assertIn(text, table)

    def test_every_number_of_a_profile_has_evidence(self):
        for name in ("perlmutter", "frontier", "tpu-v5p", "gb200-nvl72"):
            _, rows = self.show("hw", name)
            derived = {"nodes", "accelerators", "accelerator", "kind", "link", "fabric",
                       "user_buffers", "foreign_kernels"}
            for field, row in rows.items():
                if field not in derived and not field.startswith("software"):
                    self.assertIsNotNone(row["evidence"], (name, field))

    def test_model(self):
        _, rows = self.show("model", "llama3-8b")
        # 8,030,261,248: the parameters of the published checkpoint.
        self.assertEqual(rows["parameters"]["value"], 8030261248)
        self.assertEqual(rows["layers"]["value"], 32)
        # 6 x (parameters less the input embedding and norms) + causal attention, half of
        # 12 x 32 layers x 4096 x 8192 tokens.
        flops = 6 * (8030261248 - 128256 * 4096 - 65 * 4096) + 6 * 32 * 4096 * 8192
        self.assertAlmostEqual(rows["flops_per_token"]["value"] / flops, 1, places=3)
        self.assertIn("8.03 B", self.succeed("show", "model", "llama3-8b"))
        config = SOURCE / "tests/data/hf/llama-3-8b.json"
        self.assertEqual(self.show("model", config)[1]["parameters"]["value"], 8030261248)

    def test_framework(self):
        _, rows = self.show("framework", "megatron")
        self.assertEqual(rows["constants.host_launch"]["unit"], "s")
        self.assertEqual(rows["constants.host_launch"]["evidence"], "published")
        self.assertEqual(rows["defaults.zero"]["value"], "1")
        for field in ("precision.bf16", "max-zero-with-pipeline", "constants.sigma"):
            self.assertIn(field, rows)
        rows = list(csv.DictReader(io.StringIO(self.succeed("show", "framework", "fsdp", "--format", "csv"))))
        self.assertIn("min-zero", [row["field"] for row in rows])

    def test_refusals(self):
        self.refuse("show", expect=["show: its argument is missing", "hw|model|framework"])
        self.refuse("show", "hw", expect=["show: its argument is missing", "a shipped name"])
        self.refuse("show", "hw", "perlmuter", expect=["did you mean perlmutter"])
        self.refuse("show", "things", "x", expect=["things", "hw, model, framework"])

    def test_everything_shipped_can_be_shown(self):
        for what, listing in (("hw", "hw"), ("model", "models"), ("framework", "frameworks")):
            for row in self.answer("list", listing):
                self.assertTrue(self.succeed("show", what, row["name"], "--format", "jsonl"))


class Newcomers(Case):
    """validate on a table somebody typed."""

    def test_few_columns(self):
        table = self.file("runs.csv", "hw,gpus,model,batch,micro_batch,tp,pp,step_time_s,note\n"
                                      "selene,8,megatron-22b,4,4,8,1,1.1,fast\n"
                                      "selene,64,gpt3-175b,64,1,8,8,13.75,\n")
        text = self.succeed("validate", table)
        for words in ("2 rows", "megatron-22b", "gpt3-175b", "1.10 s", "worst: line ",
                      "its step as predicted: kernels", "assumed, as its columns do not say: ",
                      "framework megatron", "columns that were not read: note"):
            self.assertIn(words, text)
        self.assertNotIn("by source", text)
        rows = json.loads(self.succeed("validate", table, "--format", "json"))["rows"]
        self.assertEqual([row["id"] for row in rows], ["line 2", "line 3"])
        for row in rows:
            self.assertTrue(row["expressible"])
            self.assertLess(abs(row["predicted_step_time_s"] / row["measured_step_time_s"] - 1), 0.3)

    def test_all_problems_at_once(self):
        table = self.file("runs.csv", "hw,gpus,model,global_batch,micro_batch,step_time_s,tp\n"
                                      "selen,8,gpt2xlarge,64,2,fast,1\nselen,eight,gpt2-xl,64,2,-1,1\n")
        message = self.refuse("validate", table, expect=['"fast" in column step_time_s'])
        for words in ('"eight" in column gpus', "-1 in column step_time_s", "'gpt2xlarge'", "runs.csv:2:",
                      "runs.csv:3:", "hint:"):
            self.assertIn(words, message)


class GivenPlans(Case):
    """Answers about one plan name the better one, and say that nothing was searched."""
    SLOW = ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "16", "--batch", "128", "--dp", "2", "--tp", "8", "--pp", "1",
            "--micro-batch", "1", "--recompute", "full"]

    def test_one_plan_is_no_optimum(self):
        plan = self.directory / "plan.yaml"
        self.succeed("predict", *self.SLOW, "--write-plan", plan)
        text = self.succeed("--plan", plan)
        self.assertIn("nothing was searched: ", text)
        self.assertNotIn("optimal within", text)
        self.assertNotIn("nothing beyond", text)
        self.assertIn("optimal within", self.succeed(*self.SLOW[:8]))

    def test_a_faster_plan_and_idle_memory(self):
        for text in (self.succeed("explain", self.plan()),
                     self.succeed("diagnose", *self.SLOW, "--measured", "9s")):
            hint = re.search(r"hint: (.*) takes ([\d.]+ \w+) on these GPUs, (\d\.\d\d) x as fast as this plan:\n  plansearch (.*)\n", text)
            self.assertTrue(hint, text)
            self.assertIn(hint[2], self.succeed(*shlex.split(hint[4])))
            self.assertRegex(text, r"hint: whole layers are recomputed while \d+\.\d GiB of [\d.]+ GiB lie idle")
        # The rival is that plan, in the same words.
        self.assertRegex(self.succeed("explain", self.plan()), f"rival: .* less time, {hint[3]} x as fast")
        best = self.answer(*self.SLOW[:8])["plans"][0]["config"]
        degrees = [f"--{key.replace('_', '-')}={best[key]}" for key in ("dp", "pp", "zero", "micro_batch")]
        self.assertNotIn("as fast as this plan", self.succeed("diagnose", *self.SLOW[:8], "--tp", str(best["tp"]), *degrees, "--measured", "9s"))

    def plan(self):
        path = self.directory / "given.yaml"
        self.succeed("predict", *self.SLOW, "--write-plan", path, "--force")
        return path

    def test_plans_of_a_named_program_can_be_handed_to_it(self):
        """hf-trainer runs whole layers again; where a file of the program cannot say the best plan, the answer begins with that."""
        tuned = ["--hw", "4090", "--model", "Qwen/Qwen3-8B", "--gpus", "1", "--task", "qlora", "--seq-len", "2048", "--batch", "16",
                 "--tokens", "25M"]
        for framework in ("axolotl", "llama-factory"):
            answer = self.directory / f"{framework}.json"
            self.succeed(*tuned, "--framework", framework, "--format", "json", "--out", answer)
            text = run("export", f"{answer}#1", "--to", framework).stdout
            self.assertIn("Qwen/Qwen3-8B", text)
            self.assertRegex(text, r"max_steps: 763\b")
            self.assertTrue("task qlora" in text or framework != "axolotl")
        mixture = ["--hw", "dgx-h100", "--model", "qwen3-30b-a3b", "--gpus", "64", "--framework", "torchtitan"]
        answer = self.directory / "mixture.json"
        self.succeed(*mixture, "--format", "json", "--out", answer)
        self.assertEqual(run("export", f"{answer}#1", "--to", "torchtitan").returncode, 0)
        self.assertRegex(self.succeed(*mixture), r"plans that a file of torchtitan can say; the fastest of all, \d+ % less, has dispatcher")
        self.assertIn("no file of nanotron can say plan 1: ", self.succeed(*mixture[:-1], "nanotron"))

    TUNED = ["--hw", "4090", "--model", "Qwen/Qwen3-8B", "--task", "lora", "--seq-len", "2048", "--batch", "16"]

    def test_replicas_of_frozen_weights_are_as_certain_as_one(self):
        one, two = (self.answer("predict", *self.TUNED, "--gpus", gpus, "--micro-batch", "1", "--recompute", "full",
                                "--zero", zero)["plans"][0] for gpus, zero in (("1", "0"), ("2", "1")))
        self.assertLess(abs(one["peak_memory_bytes"] / two["peak_memory_bytes"] - 1), 0.01)
        self.assertLess(abs(one["memory_risk"] - two["memory_risk"]), 0.01)
        best = self.answer(*self.TUNED, "--gpus", "2")["plans"][0]  # each card has all weights
        self.assertLess(best["config"]["zero"], 3)
        self.assertEqual(best["step_time_s"], self.answer(*self.TUNED, "--gpus", "2", "--mem-risk", "0.3")["plans"][0]["step_time_s"])

    def test_norms_of_transformers_are_eager(self):
        def step(*more):
            return self.answer("predict", *self.TUNED, "--gpus", "1", "--micro-batch", "1", "--recompute", "full", *more)["plans"][0]["step_time_s"]
        self.assertEqual(step(), step("--implementation", "eager"))
        self.assertLess(step("--kernels", "fused-norm"), 0.95 * step())

    def test_a_target_beside_a_framework_decides_adapters(self):
        answer = self.directory / "target.json"
        self.succeed("--hw", "rtx4090", "--model", "mistral-7b", "--gpus", "1", "--seq-len", "1024", "--batch", "64", "--task", "lora",
                     "--target", "ms-swift", "--framework", "fsdp2", "--format", "json", "--out", answer)
        exported = run("export", f"{answer}#1", "--to", "ms-swift")
        self.assertIn("all-linear", exported.stdout, exported.stderr)

    def test_one_gpu_for_who_tunes(self):
        text = self.succeed("fits", "Qwen/Qwen3-8B", "--method", "lora", "--on", "4090", "--no-cards")
        self.assertRegex(text, r"fits on [2-9] x rtx-4090 ")
        self.assertRegex(text, r"hint: on one GPU with --seq-len 2048 it fits: ")

    FLAGS = r"with ((?:--[a-z-]+ \S+ )+)it fits"

    def followed(self, remedy, asked):
        """What a remedy says, asked in place of what it replaces, fits."""
        hint = re.match(self.FLAGS, remedy)
        self.assertTrue(hint, remedy)
        words = hint[1].split()
        options = asked | dict(zip(words[::2], words[1::2]))
        answer = self.answer(*(word for option in options.items() for word in option), "--top", "1", "--no-beyond")
        self.assertEqual(answer["admitted"], "fits", options)
        return options

    def refused(self, asked):
        done = run(*(word for option in asked.items() for word in option), "--format", "json", "--no-beyond")
        self.assertEqual(done.returncode, 3, done.stderr)
        return json.loads(done.stdout)["remedies"], asked | {"--gpus": str(json.loads(done.stdout)["question"]["gpus"])}

    def test_tuning_beyond_what_replicas_hold(self):
        """Several changes at once, where no single one helps: with all weights, and with adapters."""
        for machine, model, task, flags in (
                ("perlmutter", "deepseek-v3", "sft", ("--framework megatron --gpus", "--framework megatron --task lora --gpus")),
                ("dgx-h100", "llama3.1-405b", "dpo", ("--framework deepspeed --gpus", "--framework deepspeed --lora-rank 16")),
                ("rtx-4090-box", "llama3.1-405b", "sft",
                 ("--framework megatron --optimizer adafactor --gpus", "--framework megatron --task lora --gpus"))):
            remedies, asked = self.refused({"--hw": machine, "--model": model, "--task": task})
            for remedy, words in zip(remedies, flags, strict=True):
                self.assertTrue(remedy.startswith(f"with {words} "), remedy)
                self.followed(remedy, asked)

    def test_a_machine_that_is_too_small(self):
        """The whole machine under what saves most: what the closest plan takes, and a larger card that holds it."""
        remedies, asked = self.refused({"--hw": "rtx-4090-box", "--model": "deepseek-v4-pro"})
        said = re.match(r"all 256 GPUs of rtx-4090-box do not hold it, even with --optimizer adafactor --main-grads bf16: the closest plan "
                        r"takes ([\d.]+) GiB of ([\d.]+) GiB a GPU, ([\d.]+) GiB of it parameters, gradients and optimizer states$", remedies[0])
        self.assertTrue(said, remedies)
        needs, has, states = map(float, said.groups())
        self.assertLess(has, needs)
        # 1.573 T parameters on 256 GPUs, each in bf16 with a bf16 gradient and an fp32 copy: 8 bytes, and some are held twice.
        self.assertTrue(8 * 1.573e12 / 256 / 2**30 < states < min(needs, 9 * 1.573e12 / 256 / 2**30), states)
        options = self.followed(remedies[1], asked)
        memory = {row["name"]: row["memory"] for row in csv.DictReader(io.StringIO(self.succeed("list", "hw", "--format", "csv")))}
        self.assertNotEqual(memory[options["--hw"]], memory["rtx-4090-box"])

    def test_trainers_go_on_with_their_own_optimizer(self):
        answer = self.answer("--hw", "b200", "--model", "kimi-k2", "--task", "lora", "--gpus", "64", "--top", "1", "--no-beyond")
        self.assertIn({"key": "optimizer", "value": "adam", "origin": "framework"}, answer["question"]["settings"])
        self.refuse("--hw", "b200", "--model", "kimi-k2", "--task", "lora", "--gpus", "64", "--optimizer", "muon",
                    expect=["hf-trainer does not have it"])

    def test_programs_of_accelerate(self):
        answer = self.directory / "trl.json"
        self.succeed("--hw", "H100x8", "--model", "llama3-8b", "--task", "sft", "--target", "trl", "--format", "json", "--out", answer)
        texts = [run("export", f"{answer}#1", "--to", name).stdout for name in ("trl", "accelerate")]
        self.assertIn('distributed_type: "FSDP"', texts[0])
        self.assertEqual(*texts)

    def test_a_target_refuses_before_the_search(self):
        self.refuse("--hw", "dgx-h100", "--model", "qwen3-30b-a3b", "--gpus", "32", "--task", "sft", "--target", "megatron-bridge",
                    "--offload", "optimizer", expect=["megatron-bridge can express no plan of this question: offload optimizer (takes none)"])

    def test_a_micro_batch_was_timed(self):
        plan = ["--gpus", "1", "--micro-batch", "1", "--recompute", "full"]
        step = self.answer("predict", *self.TUNED, *plan)["plans"][0]["step_time_s"]
        text = self.succeed("diagnose", *self.TUNED, *plan, "--measured", f"{step / 16}s")
        self.assertIn("likeliest: a micro-batch was timed, not a step", text)

    def test_marks_and_prices(self):
        """A legend explains what the table has; a price that was set is not the profile's."""
        text = self.succeed("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "64", "--top", "1", "--tokens", "1B", "--set", "price=0.4 $/h")
        self.assertNotIn("~", text)
        self.assertIn("price: 0.4 $/h per GPU, as set", text)
        self.assertIn("--set 'price=", self.succeed("--hw", "dgx-h100", "--model", "gpt2-xl", "--gpus", "8", "--tokens", "1B"))


class Templates(Case):
    """Networks that are no stack of layers, by configuration, by name, in tables and in launch scripts."""

    FLUX = SOURCE / "tests" / "data" / "families" / "flux.1-schnell.json"
    ASKED = ("--hw", "dgx-h100", "--gpus", "8", "--tp", "1", "--pp", "1", "--dp", "8", "--micro-batch", "1", "--batch", "64",
             "--framework", "fsdp2", "--zero", "3", "--recompute", "full")
    SIZES = ("id,hw,framework,gpus,model,mlp,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,seq_len,moe_experts,moe_topk,"
             "moe_ffn,vocab,global_batch,micro_batch,dp,step_time_s\n")

    def plan(self, *arguments):
        return json.loads(self.succeed("predict", *self.ASKED, *arguments, "--format", "json"))["plans"][0]

    def test_a_configuration_is_the_network_that_ships(self):
        ours, shipped = (self.plan("--model", model) for model in (self.FLUX, "flux.1-schnell"))
        for key in ("step_time_s", "memory", "communication"):
            self.assertEqual(ours[key], shipped[key])

    def test_sizes_of_samples(self):
        small, large = (self.plan("--model", self.FLUX, "--set", f"model.dims.pixels={pixels}") for pixels in (256, 1024))
        self.assertGreater(large["step_time_s"], 1.9 * small["step_time_s"])  # 4,352 tokens, not 512; as many weights
        for model in (self.FLUX, "flux.1-schnell"):
            self.refuse("predict", *self.ASKED, "--model", model, "--seq-len", "1024",
                        expect=["tokens is text + image: its length follows from other sizes", "--set model.dims"])
        graph = self.file("gpt2.graph.yaml", self.succeed("show", "model", "gpt2-xl", "--graph"))
        longer, own = (self.plan("--model", model, "--seq-len", "512") for model in (graph, "gpt2-xl"))
        ratio = longer["step_time_s"] / own["step_time_s"]
        self.assertLess(abs(ratio - 1), 0.01)  # causal pairs are those of 1,024 tokens

    def test_a_family_of_ones_own(self):
        family = self.file("mine.yaml", "schema: plansearch/family/v1\nsource: mine\nlike: FluxTransformer2DModel\n"
                                        "dims:\n  heads: {key: n_heads}\n")
        config = self.FLUX.read_text().replace("FluxTransformer2DModel", "MyNet").replace("num_attention_heads", "n_heads")
        path = self.file("config.json", config)
        asked = ("--model", path, "--family", family)
        self.assertEqual(self.plan(*asked)["step_time_s"], self.plan("--model", "flux.1-schnell")["step_time_s"])
        self.assertIn("11,891,178,560", self.succeed("show", "model", path, "--family", family))
        answer = self.file("answer.json", self.succeed("predict", *self.ASKED, *asked, "--format", "json"))
        self.succeed("explain", f"{answer}#1")
        self.refuse("predict", *self.ASKED, "--model", path,
                    expect=["no family describes the class 'MyNet'", "torch.export.export", "--family FILE"])

    def test_names_that_nobody_described(self):
        self.refuse("predict", *self.ASKED, "--model", "moonshotai/Kimi-K3", expect=["residuals of attention", "docs/models.md"])
        self.assertIn("31,577,940,288", self.succeed("show", "model", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B"))
        nano = "squared-relu,52,2688,1856,32,2,128,8192,128,6,1856,131072,512,4,8,13.1\n"
        flux = "gelu,57,3072,12288,24,24,128,512,,,,,1024,32,32,0.62\n"
        table = self.file("runs.csv", self.SIZES + "a,dgx-b200,megatron,8,Kimi-K3 (8k)," + nano +
                          "b,dgx-b200,megatron,32,FLUX.1-schnell," + flux +
                          "c,dgx-b200,megatron,32,FLUX.1-schnell," + flux.replace("57,", "40,") +
                          "d,dgx-b200,megatron,32,FLUX.2-dev," + flux.replace("57,", "56,") +
                          "e,dgx-b200,megatron,32,some gpt," + flux +
                          "f,dgx-h100,megatron,16,Qwen3.6-35B-A3B,gated,40,2048,,16,2,256,4096,256,8,512,248320,512,1,16,22.3\n")
        rows = {row["id"]: row for row in json.loads(self.succeed("validate", table, "--format", "json"))["rows"]}
        self.assertEqual({key: row["expressible"] for key, row in rows.items()},
                         {"a": False, "b": True, "c": False, "d": False, "e": True, "f": True})
        self.assertIn("network of qwen3.5-35b-a3b", rows["f"]["filled"])  # of its family, by its sizes
        self.assertIn("residuals of attention", rows["a"]["reason"])
        self.assertIn("other sizes than flux.1-schnell", rows["c"]["reason"])
        self.assertIn("network of flux.1-schnell", rows["b"]["filled"])
        self.assertNotEqual(rows["b"]["predicted_step_time_s"], rows["e"]["predicted_step_time_s"])

    def test_an_engine_beside_the_trainer(self):
        asked = ("--hw", "dgx-h100", "--model", "qwen3-8b", "--gpus", "8", "--tp", "2", "--dp", "4", "--pp", "1", "--batch", "32",
                 "--micro-batch", "1", "--zero", "1", "--recompute", "full", "--mem-risk", "0.5")
        answer = json.loads(self.succeed("predict", *asked, "--rollout", "util=0.4,tp=2,buffer=512MiB", "--format", "json"))
        settings = {row["key"]: row["value"] for row in answer["question"]["settings"]}
        self.assertEqual(settings["rollout"], "util=0.4,tp=2,buffer=512MiB")
        self.assertIn("weights 7.6", settings["rollout_memory"])
        plain = json.loads(self.succeed("predict", *asked, "--format", "json"))
        self.assertEqual(answer["plans"][0]["step_time_s"], plain["plans"][0]["step_time_s"])
        result = run("predict", *asked, "--rollout", "util=0.9")
        self.assertNotEqual(result.returncode, 0)
        self.refuse("predict", *asked, "--rollout", "often", expect=["--rollout: 'often' is not a memory size", "util=0.6"])
        # It is a setting like others: plans and answers have it, and what else is kept free adds to it.
        again = json.loads(self.succeed("predict", "--plan", self.file("again.json", json.dumps(answer)), "--format", "json"))
        self.assertEqual(again["plans"][0]["memory"], answer["plans"][0]["memory"])
        both = run("predict", *asked, "--rollout", "util=0.4", "--mem-reserve", "60 GiB")
        self.assertIn("--rollout: 91.7 GiB leaves nothing of", both.stderr)

    def test_images_before_the_text(self):
        asked = ("predict", "--hw", "dgx-h100", "--model", "gemma-3-4b", "--gpus", "8", "--dp", "4", "--pp", "2", "--batch", "64",
                 "--micro-batch", "1", "--zero", "1", "--recompute", "full", "--format", "json")

        def ask(*more):
            answer = json.loads(self.succeed(*asked, *more))
            return answer, answer["plans"][0], {row["key"]: row for row in answer["question"]["settings"]}
        answer, plain, settings = ask()
        self.assertEqual(answer["question"]["parameters"], 3880263168)
        self.assertEqual(settings["part"]["value"], "text only, without its vision tower of 420 M parameters (--images)")
        trained_answer, trained, settings = ask("--images", "4")
        self.assertEqual(trained_answer["question"]["parameters"], 4300079472)
        self.assertIn("trained; 256 tokens an image", settings["tower"]["value"])
        self.assertNotIn("part", settings)
        _, frozen, settings = ask("--images", "4,frozen")
        self.assertIn("on the first stage, frozen", settings["tower"]["value"])
        first, last = ([plan["stages"][stage] for plan in (plain, frozen, trained)] for stage in (0, 1))
        for key in ("busy_s", "peak_memory_bytes", "backward_s"):
            if key != "backward_s":
                self.assertLess(first[0][key], first[1][key])
            self.assertLess(first[1][key], first[2][key])
        self.assertAlmostEqual(first[0]["backward_s"], first[1]["backward_s"], delta=1e-3 * first[0]["backward_s"])
        for key in ("forward_s", "backward_s", "peak_memory_bytes"):  # the text behind it
            self.assertEqual(last[0][key], last[2][key])
        # Answers and plans carry it; trainers that freeze a tower do.
        again = json.loads(self.succeed("predict", "--plan", self.file("again.json", json.dumps(trained_answer)), "--format", "json"))
        self.assertEqual(again["plans"][0]["step_time_s"], trained["step_time_s"])
        table = self.succeed("--hw", "dgx-h100", "--model", "qwen3.5-27b", "--gpus", "8", "--images", "2", "--task", "sft",
                             "--framework", "llama-factory")
        self.assertIn("frozen; 576 tokens an image", " ".join(table.split()))
        self.refuse(*asked, "--images", "99", expect=["each takes 256 tokens, and a sequence has 8192"])
        for text in ("0", "2,half", "2,", "many"):
            self.refuse(*asked, "--images", text, expect=["is not a number of images", "4,frozen"])
        self.refuse(*asked, "--images", "2", "--attention", "unfused", expect=["attention of a tower is one kernel"])
        self.refuse("predict", "--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--images", "2",
                    expect=["llama3-8b has no vision tower that is described", "docs/models.md"])
        self.refuse("export", f"{self.file('again.json', json.dumps(trained_answer))}#1", "--to", "megatron", code=4, expect=["images 4"])

    def test_launch_scripts(self):
        script = ("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 52 --hidden-size 4096 --num-attention-heads 32 "
                  "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 128 "
                  "--vocab-size 32000 --bf16 ")
        plan = self.file("plan.yaml", "")
        self.succeed("import", self.file("plain.sh", script + "\n"), "--out", plan)
        for key in ("--is-hybrid-model", "--experimental-attention-variant dsa"):
            self.refuse("import", self.file("hybrid.sh", script + key + "\n"), "--out", plan,
                        expect=["its layers are not all attention and MLP", "--model NAME"])


class Mixtures(Case):
    """What a mixture may ask for, in the words of who refuses the rest; names of a framework's parts."""

    MIXTURE = ("--hw", "dgx-h100", "--model", "qwen3-30b-a3b", "--gpus", "64", "--tp", "1", "--ep", "8")

    def test_refusals(self):
        pairs = (*self.MIXTURE, "--pp", "2", "--dp", "32", "--schedule", "interleaved-pairs")
        self.refuse("predict", *pairs, "--vpp", "2", "--recompute", "full",
                    expect=["disable full recomputation", "transformer_config.py"])
        self.refuse("predict", *pairs, "--vpp", "2", "--dispatcher", "all-gather",
                    expect=["supported with alltoall/flex token dispatcher"])
        self.refuse("predict", *pairs, "--vpp", "1", expect=["interleaved-pairs"])
        self.refuse("predict", *self.MIXTURE, "--delay-wgrad", "1",
                    expect=["overlap_moe_expert_parallel_comm must be enabled when enabling delay_wgrad_compute"])
        self.refuse("predict", *self.MIXTURE, "--framework", "torchtitan", "--delay-wgrad", "1",
                    expect=["runs weight gradients with their passes", "megatron"])
        self.refuse("predict", *self.MIXTURE, "--recompute", "selective", "--recompute-modules", "mla_up_proj",
                    expect=["qwen3-30b-a3b has no such module"])

    def test_needs(self):
        elsewhere = self.MIXTURE[2:]
        self.refuse("predict", "--hw", "gb200-nvl72", *elsewhere, "--dispatcher", "deepep",
                    expect=["join 64 accelerators, more than 8", "flex_dispatcher_backend.py"])
        self.refuse("predict", "--hw", "l40s", *elsewhere, "--dispatcher", "deepep", expect=["needs nvlink inside a node"])
        self.refuse("predict", "--hw", "aws-p5", *elsewhere, "--dispatcher", "hybridep",
                    expect=["needs infiniband or roce between nodes", "aws-p5 has efa"])
        self.succeed("predict", "--hw", "gb200-nvl72", *elsewhere, "--dispatcher", "hybridep")
        self.succeed("predict", "--hw", "dgx-b200", *elsewhere, "--dispatcher", "deepep")

    def test_features(self):
        question = ("--hw", "frontier", "--model", "llama3-70b", "--gpus", "256", "--top", "1")
        text = self.succeed(*question)
        self.assertIn("zero 2, 3: Megatron-FSDP", text)
        self.assertIn(", by Megatron-FSDP", text)
        self.assertRegex(text, r"without Megatron-FSDP: dp .* takes .* s, \+\d")
        answer = self.answer(*question)
        self.assertEqual(answer["plans"][0]["features"], ["Megatron-FSDP"])
        without = answer["without_features"]
        self.assertLessEqual(without["config"]["zero"], 1)
        alone = self.answer(*question, "--zero", "0,1")
        self.assertEqual(alone["plans"][0]["step_time_s"], without["step_time_s"])
        self.assertIsNone(alone["without_features"])
        self.assertIsNone(self.answer(*question, "--zero", "2,3")["without_features"])


class Recipes(Case):
    """docs/recipes.md, as printed; jq and pandas where they are installed."""

    def test_recipes(self):
        page = (SOURCE / "docs" / "recipes.md").read_text()
        bins = self.directory / "bin"
        bins.mkdir()
        (bins / "plansearch").symlink_to(pathlib.Path(BINARY).resolve())
        environment = os.environ | {"PATH": f"{bins}:{os.environ['PATH']}", "PLANSEARCH_DATA": str(SOURCE)}
        pandas = subprocess.run([sys.executable, "-c", "import pandas"], capture_output=True, check=False)
        blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 8)
        for language, code in blocks:
            if language == "python" and pandas.returncode != 0:
                compile(code, "recipes.md", "exec")
                continue
            if "jq " in code and shutil.which("jq") is None:
                continue
            command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
            result = subprocess.run([*command, code], capture_output=True, text=True, cwd=self.directory,
                                    env=environment, timeout=300, check=False)
            self.assertEqual(result.returncode, 0, (code, result.stderr))
            self.assertEqual(result.stderr, "", code)
            if "--out" not in code:
                self.assertNotIn(result.stdout.strip(), ("", "null", "[]"), code)


class Golden(Case):
    """Whole answers. --update rewrites them when a change of numbers or layout is meant."""

    def test_ranking(self):
        self.compare("perlmutter_gpt2-xl_64.txt", *QUESTION, "--gpus", "64", "--top", "5")

    def test_ladder(self):
        self.compare("perlmutter_gpt2-xl_ladder.txt", *QUESTION, "--top", "3")

    def test_prediction(self):
        self.compare("selene_gpt3-175b_1536.txt", "predict", "--hw", "selene", "--model", "gpt3-175b",
                     "--gpus", "1536", "--batch", "1536", "--tp", "8", "--pp", "12", "--recompute",
                     "full", "--attention", "unfused")

    def test_schedules(self):
        """Every schedule of the table, drawn; makespans and peaks are derived in tests/unit/schedule/orders."""
        names = [row.split()[0] for row in self.succeed("list", "schedules").splitlines()[2:]]
        self.assertGreaterEqual(len(names), 15)
        grid = ["--micro-batches", "8", "--times", "2,2,2"]
        text = "\n".join(self.succeed("schedule", name, "--stages", "1" if name == "pairs" else "4", *grid)
                         for name in names)
        path = HERE / "golden" / "schedules.txt"
        if UPDATE:
            path.write_text(text)
        self.assertEqual(text, path.read_text())

    def reproduced(self, seed):
        """The golden table of a seed, by row: each seed runs once, for its figures and its bands."""
        self.compare(f"reproduce_{seed}.txt", "reproduce", seed)
        lines = (HERE / "golden" / f"reproduce_{seed}.txt").read_text().splitlines()
        rule = next(i for i, line in enumerate(lines) if line.startswith("-") and not line.strip("- "))
        columns = [slice(*span.span()) for span in re.finditer("-+", lines[rule])]
        titles = [lines[rule - 1][column].strip() for column in columns]
        end = next(i for i in range(rule, len(lines)) if not lines[i])
        return [dict(zip(titles, (line[column].strip() for column in columns))) for line in lines[rule + 1:end]]

    def test_reproduction(self):
        rows = {row["check"]: row for row in self.reproduced("alpa")}
        for table in ("1.3B", "32 layers", "40 layers", "1.3B on 64 x p3.2xlarge"):
            self.assertEqual(rows[f"Kendall tau, {table}, micro-batch 1"]["within"], "yes", table)
            self.assertEqual(rows[f"contrasts of 2x and more in order, {table}, micro-batch 1"]["within"], "yes")
        for check, row in rows.items():
            if "found" in check or "over best" in check:
                self.assertEqual(row["within"], "yes", check)
        self.reproduced("hosoki")
        self.refuse("reproduce", "alpa2", expect=["alpa"])

    def test_reproduction_of_steps(self):
        """PrimePar: what was fitted and the MLP on one pair of nodes agree; Megatron is in the space."""
        for row in self.reproduced("primepar"):
            if "MLP, 8 GPUs" in row["check"]:
                self.assertNotEqual(row["within"], "NO", row)
            if row["unit"] == "x" and " over Megatron (" in row["check"]:
                self.assertGreaterEqual(float(row["predicted"]), 1.0, row)

    def test_reproduction_of_steps_over_nodes(self):
        self.reproduced("primepar-nodes")

    def test_reproduction_of_pieces(self):
        """nnScaler: sizes as in its table; its plans fit, beat tensor parallelism alone and keep their throughput."""
        for row in self.reproduced("nnscaler"):
            if row["kind"] in ("formula", "trend") or "nnScaler keeps" in row["check"]:
                self.assertEqual(row["within"], "yes", row)

    @staticmethod
    @functools.cache
    def reproduced_as_json(seed):
        answer = json.loads(run("reproduce", seed, "--format", "json").stdout)
        json_schema.check(answer, json.loads((SOURCE / "docs/schema/reproduce.v1.schema.json").read_text()))
        return answer["rows"]

    def test_reproduction_of_grids(self):
        """Closed forms are exact; predictions may miss their bands, and say so."""
        exact = 0
        rows = self.reproduced_as_json("axonn")
        for row in rows:
            if row["kind"] == "formula" or row["check"].startswith(("rows, ", "derived over")):
                self.assertTrue(row["within"], row)
                exact += 1
        self.assertGreater(exact, 30)
        for machine in ("perlmutter", "frontier", "alps"):  # absolute levels, each with a band
            levels = [row for row in rows if row["kind"] == "measured" and row["unit"] == "% of peak"
                      and row["check"].startswith(machine)]
            self.assertGreater(len(levels), 0, machine)
            self.assertNotIn(None, [row["within"] for row in levels])
        for row in self.reproduced_as_json("tensor3d"):
            self.assertTrue(row["within"] or row["low"] is None, row)

    def test_published_figures_say_what_they_are(self):
        """Kinds are counted apart, measurements first; own numbers name no paper as published."""
        for seed in ("axonn", "tensor3d"):
            rows = self.reproduced_as_json(seed)
            for row in rows:
                if row["kind"] != "own":
                    self.assertTrue(row["source"] and row["locator"], row)
        said = [line.split(":")[0] for line in self.succeed("reproduce", "axonn").splitlines()
                if "checked figures are within" in line]
        self.assertEqual(said, ["measured", "trend", "formula", "fitted", "own"])

    def test_a_mistake_in_a_published_table_is_named(self):
        mistakes = [("4 out,own", "4 out,ownn", '"ownn" is not a kind of figure', "measured, range"),
                    ("4 out,own", "4 out,formula", "has a source and a locator", None),
                    (",out,,--hw", ",outer,,--hw", '"outer" is not a measure', None),
                    ("--dp 1", "--dq 1", "--dq: no such flag", None),
                    ("--micro-batch 4", "--micro-batch x", "--micro-batch: 'x' is not at least 1", None)]
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            for name in ("hardware_profiles", "models", "frameworks", "validation"):
                shutil.copytree(SOURCE / name, copy / name)
            table = copy / "validation/published/tensor3d.csv"
            text = table.read_text()
            for right, wrong, said, hint in mistakes:
                self.assertIn(right, text)
                table.write_text(text.replace(right, wrong, 1).replace("a study of this project,", ",") if "formula" in wrong
                                 else text.replace(right, wrong, 1))
                result = run("reproduce", "tensor3d", env={"PLANSEARCH_DATA": str(copy)})
                self.assertEqual((result.returncode, result.stdout), (2, ""), wrong)
                self.assertIn(said, result.stderr)
                self.assertIn(hint or "", result.stderr)

    def test_a_figure_is_what_the_command_line_answers(self):
        """Rows of AxoNN's 80B network, by predict or by a search: the same step, at the same site."""
        def figure(question, unit):
            command = ["search", "--top", "1"] if "--space" in question else ["predict"]
            step = self.answer(*command, *question)["plans"][0]["step_time_s"]
            if unit != "% of peak":
                return step
            at = dict(zip(question[::2], question[1::2]))
            batch, gpus = int(at["--batch"]), int(at["--gpus"])
            flops = 96 * batch * 2048 * 42 * 12288**2 * (1 + 2048 / (6 * 12288) + 51200 / (16 * 42 * 12288))
            return 100 * flops / step / gpus / {"perlmutter": 312e12, "frontier": 191.5e12}[at["--hw"]]

        asked = 0
        for row in self.reproduced_as_json("axonn"):
            questions = [text.split() for text in row["question"].split("|")]
            if "gpt-80b" not in questions[0] or row["tuned"] is None:
                continue
            figures = sorted(figure(question, row["unit"]) for question in questions)
            ends = [row["least"], row["most"]] if row["kind"] == "range" else [row["predicted"]]
            for end, value in zip(ends, figures, strict=True):
                self.assertAlmostEqual(end, value, delta=1e-6 if row["unit"] == "% of peak" else 0, msg=row)
            self.assertNotEqual(row["predicted"], row["tuned"])
            asked += len(questions)
        self.assertGreaterEqual(asked, 5)

    def test_halved_cards_move_plans_and_studies_alike(self):
        """The study of AxoNN prices its grids as predict does: half the network, the same ratio."""
        plan = ["predict", "--hw", "perlmutter", "--model", "gpt-80b", "--framework", "axonn", "--gpus", "1024",
                "--tp-y", "8", "--tp-z", "32", "--dp", "4", "--micro-batch", "4", "--recompute", "full",
                "--batch", "1024", "--format", "json"]

        def times(rows, data=None):
            study = [row["predicted"] for row in rows if row["check"].endswith("and all-gathers")]
            return json.loads(self.succeed(*plan, env=data))["plans"][0]["step_time_s"], *study

        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            for name in ("hardware_profiles", "models", "frameworks", "validation"):
                shutil.copytree(SOURCE / name, copy / name)
            before = times(self.reproduced_as_json("axonn"))
            profile = copy / "hardware_profiles/perlmutter.yaml"
            text = profile.read_text()
            self.assertIn("nic_bandwidth: 200 Gbit/s", text)
            profile.write_text(text.replace("nic_bandwidth: 200 Gbit/s", "nic_bandwidth: 100 Gbit/s"))
            data = {"PLANSEARCH_DATA": str(copy)}
            after = times(json.loads(self.succeed("reproduce", "axonn", "--format", "json", env=data))["rows"], data)
        self.assertGreater(after[0], 1.1 * before[0])
        self.assertEqual(before[0], before[1])
        self.assertEqual(after[0], after[1])

    def test_layers_of_the_ends(self):
        asked = ["search", "--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "16", "--batch", "64",
                 "--pp", "4", "--cp", "1", "--max-tp", "1"]
        ends = self.answer(*asked, "--space", "layers")["plans"][0]
        even = self.answer(*asked, "--vpp", "1")["plans"][0]
        layers = [stage["layers"] for stage in ends["stages"]]
        self.assertEqual((len(layers), sum(layers), layers[1]), (4, 48, layers[2]))
        self.assertLessEqual(ends["step_time_s"], even["step_time_s"])
        self.refuse(*asked, "--space", "layers", "--framework", "nanotron", expect=["its own rule"])

    def test_explanation(self):
        self.compare("perlmutter_gpt2-xl_explain.txt", "explain", *QUESTION, "--gpus", "16", "--pp",
                     "4")


class SlowGolden(Case):
    """The longest searches."""

    def test_planner_reproduction(self):
        Golden.reproduced(self, "hosoki-planner")


class Published(Case):
    def test_gpt3_on_selene(self):
        """SC'21 Table 2: 141 hardware TFLOP/s per GPU, 1,536 GPUs, full recompute."""
        plan = self.answer("predict", "--hw", "selene", "--model", "gpt3-175b", "--gpus", "1536",
                           "--batch", "1536", "--tp", "8", "--pp", "12", "--micro-batch", "1",
                           "--recompute", "full", "--attention", "unfused")["plans"][0]
        self.assertAlmostEqual(plan["hardware_tflops_per_gpu"] / 141.0, 1.0, delta=0.1)


def main():
    global BINARY, UPDATE  # pylint: disable=global-statement
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--update", action="store_true", help="rewrite the golden files")
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    BINARY, UPDATE = os.path.abspath(arguments.binary), arguments.update
    tests = arguments.tests or (["Golden"] if UPDATE else [])
    unittest.main(argv=[sys.argv[0], *tests], verbosity=1)


if __name__ == "__main__":
    main()
