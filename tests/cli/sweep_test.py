#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sweeps: rows are the answers of single questions; killed, resumed, in shards, on any number of threads
and through Dask they are the same bytes.

  python3 tests/cli/sweep_test.py --binary build/check/plansearch [Rows Resumed Shards Dask ...]
"""

import argparse
import csv
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = None

GRID = """schema: plansearch/questions/v1
grid:
  hw: [dgx-h100, perlmutter]
  model: [gpt2-xl, llama3-8b]
  gpus: [16, 32]
  batch: [256, 512]
  set: "accelerator.memory=40..60:20 GiB"
"""
# 4,096 plans of one network: short questions.
COUNT = 4096
PLANS = f"""schema: plansearch/questions/v1
grid:
  hw: dgx-h100
  model: llama3-8b
  command: predict
  gpus: 64
  tp: [1, 2, 4, 8]
  pp: [1, 2, 4, 8]
  zero: [0, 1]
  micro_batch: [1, 2]
  recompute: none
  batch: {[64 * i for i in range(1, 65)]}
"""


def run(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False)


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plansearch-sweep-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def file(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def sweep(self, questions, out, *more):
        path = self.directory / out
        result = run("sweep", questions, "--out", path, *more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse(path.with_name(path.name + ".part").exists())
        return path

    def refuse(self, *arguments, expect):
        result = run("sweep", *arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        for text in expect:
            self.assertIn(text, result.stderr)


class Rows(Case):
    @staticmethod
    def rows(path):
        return list(csv.DictReader(io.StringIO(path.read_text())))

    def test_rows_are_what_single_questions_answer(self):
        rows = self.rows(self.sweep(self.file("q.yaml", GRID), "r.csv"))
        self.assertEqual(len(rows), 32)
        self.assertEqual([int(row["question"]) for row in rows], list(range(1, 33)))
        for row in rows[::5]:
            asked = dict(word.split("=", 1) for word in row["asked"].replace(" GiB", "GiB").split(" "))
            flags = [word for key, value in asked.items() for word in (f"--{key}", value)]
            alone = run(*flags, "--format", "csv", "--top", "1")
            if row["outcome"] == "no plan":
                self.assertEqual(alone.returncode, 3, alone.stderr)
                continue
            answer = next(csv.DictReader(io.StringIO(alone.stdout)))
            self.assertEqual(row["outcome"], "plan")
            for key in set(row) & set(answer):
                self.assertEqual(row[key], answer[key], (row["asked"], key))

    def test_a_plan_that_leaves_switches_out_has_one_interval(self):
        plan = self.file("plan.yaml", "schema: plansearch/plan/v1\nhardware: dgx-h100\nmodel: llama3-8b\ngpus: 64\n"
                                      "degrees:\n  dp: 16\n  tp: 2\n  pp: 2\n")
        row = self.rows(self.sweep(self.file("q.csv", f"plan\n{plan}\n"), "r.csv"))[0]
        swept = (float(row["step_time_p10_s"]), float(row["step_time_p90_s"]))
        stated = json.loads(run("predict", "--plan", plan, "--recompute", "none", "--micro-batch", 1, "--format", "json").stdout)
        self.assertGreater(swept[1], stated["plans"][0]["step_time_p90_s"])
        for words in (("predict", "--plan", plan), ("explain", plan), ("compare", plan, plan)):
            answer = json.loads(run(*words, "--format", "json").stdout)
            first = answer["rows"][0]["plan"] if "rows" in answer else answer["plans"][0]
            self.assertEqual((first["step_time_p10_s"], first["step_time_p90_s"]), swept, words)

    def test_a_given_plan_and_what_cannot_be_asked(self):
        questions = self.file("q.csv", "hw,model,gpus,tp,pp,command,batch\n"
                                       "dgx-h100,llama3-70b,8,1,1,predict,64\n"      # too large, but priced
                                       "dgx-h100,llama3-70b,64,8,2,predict,64\n"
                                       "dgx-h100,llama3-70b,8,1,1,,64\n"
                                       "dgx-h101,llama3-70b,8,1,1,,64\n"
                                       "dgx-h100,llama3-70b,,,,,64\n")
        lines = self.sweep(questions, "r.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        self.assertEqual([row["outcome"] for row in rows], ["does not fit", "plan", "no plan", "refused", "refused"])
        predicted = json.loads(run("predict", "--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--tp", "8",
                                   "--pp", "2", "--batch", "64", "--format", "json").stdout)["plans"][0]
        self.assertEqual(rows[1]["step_time_s"], predicted["step_time_s"])
        self.assertEqual(rows[1]["peak_memory_bytes"], predicted["peak_memory_bytes"])
        self.assertGreater(rows[0]["step_time_s"], 0)
        self.assertIsNone(rows[2]["step_time_s"])
        self.assertEqual((rows[2]["gpus"], rows[2]["global_batch"]), (8, 64))
        self.assertIn("did you mean dgx-h100", rows[3]["reason"])
        self.assertIn("no number of GPUs", rows[4]["reason"])
        self.assertEqual({tuple(row) for row in rows}, {tuple(rows[0])})

    def test_flags_hold_where_the_file_leaves_open(self):
        questions = self.file("q.csv", "model,gpus\nllama3-8b,16\ngpt2-xl,\n")
        rows = self.rows(self.sweep(questions, "r.csv", "--hw", "dgx-h100", "--gpus", "8", "--batch", "64", "--tp", "1"))
        self.assertEqual([row["gpus"] for row in rows], ["16", "8"])
        self.assertEqual([row["global_batch"] for row in rows], ["64", "64"])
        self.assertIn("hw=dgx-h100", rows[0]["asked"].replace("hardware=", "hw="))

    def test_a_database_has_the_same_rows(self):
        questions = self.file("q.yaml", GRID)
        result = run("sweep", questions, "--out", self.directory / "r.sqlite")
        if "this build has no SQLite" in result.stderr:
            self.skipTest("this build has no SQLite")
        self.assertEqual(result.returncode, 0, result.stderr)
        again = self.sweep(questions, "again.db")
        self.assertEqual((self.directory / "r.sqlite").read_bytes(), again.read_bytes())
        lines = self.sweep(questions, "r.jsonl").read_text().splitlines()
        base = sqlite3.connect(again)
        base.row_factory = sqlite3.Row
        rows = [dict(row) for row in base.execute("SELECT * FROM answers ORDER BY question")]
        self.assertEqual(len(rows), len(lines))
        for row, line in zip(rows, lines, strict=True):
            for key, value in json.loads(line).items():
                if isinstance(value, list):
                    value = "/".join(map(str, value))
                self.assertEqual(row[key], value, key)

    def test_what_is_wrong_with_a_sweep(self):
        good = self.file("q.yaml", GRID)
        out = self.directory / "r.csv"
        self.refuse(good, expect=["--out is missing"])
        self.refuse(good, "--out", self.directory / "r.parquet", expect=["no Parquet", "to_parquet"])
        self.refuse(good, "--out", self.directory / "r.txt", expect=[".csv, .jsonl, .sqlite"])
        self.refuse(good, "--out", out, "--format", "json", expect=["takes no --format json", "the ending of --out"])
        for shard in ("0/4", "5/4", "1", "1/", "a/b", "1/4x", "/"):
            self.refuse(good, "--out", out, "--shard", shard, expect=[f"--shard {shard}", "3/8"])
        self.refuse(good, "--out", out, "--gpus", "8,16", expect=["belong in its file"])
        self.refuse(self.file("a.csv", "hw,modle\na,b\n"), "--out", out, expect=["a.csv:1:1", "unknown key 'modle'"])
        self.refuse(self.file("b.csv", "hw,space\na,b\n"), "--out", out, expect=["b.csv:2:1", "no space 'b'"])
        self.refuse(self.directory / "none.yaml", "--out", out, expect=["none.yaml"])
        other = self.file("known.jsonl", '{"question":1,"asked":"hw=x"}\n')
        self.refuse(good, "--out", out, "--known", other, expect=["known.jsonl:1:1", "answers another question 1"])
        broken = self.file("broken.jsonl", "[1]\n")
        self.refuse(good, "--out", out, "--known", broken, expect=["broken.jsonl:1:1", "not an answer of a sweep"])
        self.refuse(good, "--out", self.directory / "none" / "r.csv", expect=["cannot write"])
        self.assertFalse(out.exists())


class Pictures(Case):
    """Step time over what the questions vary, as an SVG file."""

    def test_step_time_over_gpus(self):
        questions = self.directory / "q.yaml"
        questions.write_text("schema: plansearch/questions/v1\ngrid:\n  hw: [dgx-h100, perlmutter]\n  model: gpt2-xl\n"
                             "  gpus: [8, 16, 32]\n  batch: 512\n")
        out, picture = self.directory / "r.jsonl", self.directory / "a.svg"
        result = run("sweep", questions, "--out", out, "--plot", f"sweep={picture}")
        self.assertEqual(result.returncode, 0, result.stderr)
        svg = ElementTree.fromstring(picture.read_text())
        words = " ".join(svg.itertext())
        for word in ("gpus", "step time", "dgx-h100", "perlmutter"):
            self.assertIn(word, words)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(words.count(", dgx-h100: "), 3)  # a point each, with its numbers
        self.assertIn(f"gpus 8, dgx-h100: {rows[0]['step_time_s']:.3g}"[:26], words)
        again = self.directory / "b.svg"
        run("sweep", questions, "--out", self.directory / "s.jsonl", "--known", out, "--plot", f"sweep={again}")
        self.assertEqual(again.read_bytes(), picture.read_bytes())

    def test_nothing_to_draw(self):
        questions = self.directory / "q.yaml"
        questions.write_text("schema: plansearch/questions/v1\ngrid:\n  hw: dgx-h100\n  model: gpt2-xl\n  gpus: 8\n")
        out = self.directory / "r.jsonl"
        for plot, words in ((f"sweep={out}.svg", "this answer has nothing to draw"), (f"ladder={out}.svg", "a sweep has one picture"),
                            ("sweep", "not NAME=FILE")):
            result = run("sweep", questions, "--out", out, "--plot", plot)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)
        self.assertFalse(pathlib.Path(f"{out}.svg").exists())


class Resumed(Case):
    def killed(self, questions, out, sign, *more):
        """A sweep that is ended when its journal has grown; the lines of the journal."""
        part = out.with_name(out.name + ".part")
        before = part.stat().st_size if part.exists() else 0
        process = subprocess.Popen([BINARY, "sweep", str(questions), "--out", str(out), "--threads", "2", *more],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if part.exists() and part.stat().st_size > before + 15_000:
                break
            time.sleep(0.002)
        process.send_signal(sign)
        process.communicate(timeout=60)
        self.assertFalse(out.exists(), "the sweep was over before it could be ended")
        return process.returncode, part.read_text().count("\n")

    def test_killed_and_resumed(self):
        questions = self.file("q.yaml", PLANS)
        whole = self.sweep(questions, "whole.csv", "--threads", "1")
        self.assertEqual(whole.read_text().count("\n"), COUNT + 1)
        out = self.directory / "r.csv"
        code, first = self.killed(questions, out, signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        code, second = self.killed(questions, out, signal.SIGTERM)
        self.assertEqual(code, 130)
        self.assertTrue(0 < first < second < COUNT, (first, second))
        part = out.with_name("r.csv.part")
        part.write_text(part.read_text() + '{"question":999,"ask')  # as a kill in the middle of a line leaves it
        result = run("sweep", questions, "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"{COUNT} answers, {second} of them known before", result.stderr)
        self.assertEqual(out.read_bytes(), whole.read_bytes())

    def test_a_time_limit_keeps_what_there_is(self):
        questions = self.file("q.yaml", PLANS)
        out = self.directory / "r.jsonl"
        result = run("sweep", questions, "--out", out, "--threads", "1", "--time-limit", "0.1")
        self.assertEqual(result.returncode, 130, result.stderr)
        self.assertIn("the same command goes on", result.stderr)
        self.assertFalse(out.exists())
        self.assertEqual(run("sweep", questions, "--out", out).returncode, 0)
        self.assertEqual(out.read_bytes(), self.sweep(questions, "whole.jsonl").read_bytes())

    def test_answers_of_other_questions_are_refused(self):
        questions = self.file("q.yaml", PLANS)
        out = self.directory / "r.csv"
        self.killed(questions, out, signal.SIGKILL)
        self.refuse(questions, "--out", out, "--precision", "fp16", expect=["r.csv.part:1:1", "another question"])
        other = self.file("other.yaml", PLANS.replace("zero: [0, 1]", "zero: [1, 2]"))
        self.refuse(other, "--out", out, expect=["r.csv.part:1:1", "another question 1"])


class Shards(Case):
    def test_shards_add_up(self):
        questions = self.file("q.yaml", PLANS)
        whole = self.sweep(questions, "whole.csv")
        parts = [self.sweep(questions, f"{i}.jsonl", "--shard", f"{i}/3", "--threads", "1") for i in (1, 2, 3)]
        numbers = [[json.loads(line)["question"] for line in part.read_text().splitlines()] for part in parts]
        self.assertEqual(sorted(sum(numbers, [])), list(range(1, COUNT + 1)))
        self.assertEqual(numbers[1][:3], [2, 5, 8])
        known = [word for part in reversed(parts) for word in ("--known", part)]
        merged = self.sweep(questions, "merged.csv", *known)
        self.assertEqual(merged.read_bytes(), whole.read_bytes())
        # A part that is missing is asked.
        rest = self.sweep(questions, "rest.csv", *known[:4])
        self.assertEqual(rest.read_bytes(), whole.read_bytes())

    def test_any_number_of_threads(self):
        questions = self.file("q.yaml", GRID)
        self.assertEqual(self.sweep(questions, "1.csv", "--threads", "1").read_bytes(),
                         self.sweep(questions, "3.csv", "--threads", "3").read_bytes())


class Dask(Case):
    @unittest.skipUnless(importlib.util.find_spec("distributed"), "dask.distributed is not installed")
    def test_a_local_cluster_gives_the_same_bytes(self):
        questions = self.file("q.yaml", PLANS)
        whole = self.sweep(questions, "whole.csv")
        out = self.directory / "dask.csv"
        environment = dict(os.environ, PATH=os.environ["PATH"])
        done = subprocess.run([sys.executable, str(SOURCE / "docs/sweep.py"), str(questions), "--out", str(out), "--workers",
                               "2", "--parts", "5", "--plansearch", str(BINARY)],
                              capture_output=True, text=True, timeout=600, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(out.read_bytes(), whole.read_bytes())


def main():
    global BINARY
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("groups", nargs="*")
    arguments = parser.parse_args()
    BINARY = pathlib.Path(arguments.binary).resolve()
    unittest.main(argv=[sys.argv[0], *arguments.groups], verbosity=1)


if __name__ == "__main__":
    main()
