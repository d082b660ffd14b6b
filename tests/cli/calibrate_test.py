#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plansearch calibrate, from probes to a plan on one's own profile: kills, full disks, other machines.

  python3 tests/cli/calibrate_test.py --binary build/check/plansearch [Measures ...]
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest
from xml.etree import ElementTree

import cli_test
import json_schema
from cli_test import run

SCHEMAS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "schema"
SYNTHETIC = ["calibrate", "--backend", "synthetic"]


def keys(path):
    """What a file of samples holds; every line of it is whole."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["schema"] == "plansearch/samples/v1"
    results = {"time_us", "spread", "blocks_us", "flags"}
    return sorted(json.dumps({k: v for k, v in line.items() if k not in results}, sort_keys=True)
                  for line in lines[1:])


class Measures(cli_test.Case):
    """This processor, for real."""

    def test_from_probes_to_a_plan(self):
        samples, profile = self.directory / "s.jsonl", self.directory / "me.yaml"
        text = self.succeed("calibrate", "--backend", "cpu", "--quick", "--budget", "900s", "--out", samples)  # 40 s idle
        self.assertIn("collective: skipped: one process has nobody to send to", text)
        report = self.succeed("fit", samples, "--out", profile, "--quiet")
        self.assertIn("matmul fp32", report)
        self.assertIn("rows left out are off by", report)
        self.assertIn("evidence: measured", profile.read_text())
        answer = self.answer("--hw", profile, "--model", "gpt2", "--gpus", "2")
        self.assertEqual(answer["question"]["precision"], "fp32")
        self.assertTrue(answer["plans"])
        named, plot = self.directory / "other.yaml", self.directory / "fit.svg"
        self.succeed("fit", samples, "--new", "my-box", "--out", named, "--plot", plot, "--quiet")
        self.assertGreater(len(list(ElementTree.parse(plot).getroot().iter("{http://www.w3.org/2000/svg}circle"))), 30)
        self.assertIn('name: "my-box"', named.read_text())

    def test_a_budget_ends_in_time(self):
        begin = time.monotonic()
        text = self.succeed("calibrate", "--backend", "cpu", "--only", "stream", "--budget", "6s", "--out",
                            self.directory / "s.jsonl")
        self.assertLess(time.monotonic() - begin, 60.0)  # a test machine may be busy
        self.assertIn("the budget did not suffice", text)

    def test_it_survives_kills_at_any_moment(self):
        generator = random.Random(7)
        command = ["calibrate", "--backend", "cpu", "--quick", "--only", "stream"]
        path = self.directory / "s.jsonl"
        for _ in range(30):
            process = subprocess.Popen([cli_test.BINARY, *command, "--out", str(path)],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(generator.uniform(0.0, 0.4))
            process.send_signal(signal.SIGKILL)
            process.wait()
            if path.exists():
                text = path.read_text()
                if text.endswith("\n"):
                    keys(path)
        self.succeed(*command, "--out", path)
        whole = self.directory / "whole.jsonl"
        self.succeed(*command, "--out", whole)
        self.assertEqual(keys(path), keys(whole))

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_two_ranks_measure_messages(self):
        path = self.directory / "s.jsonl"
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", cli_test.BINARY, "calibrate",
                   "--backend", "cpu", "--quick", "--only", "collective,stream", "--budget", "20s", "--out", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("next: plansearch fit"), 1)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual(lines[0]["accelerators"], 2)
        self.assertTrue(any(line.get("probe") == "collective" and line.get("time_us", 0) > 0 for line in lines))
        again = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(len(set(keys(path))), len(keys(path)))


class Answers(cli_test.Case):
    """What needs no device."""

    def test_lists(self):
        text = self.succeed("calibrate", "--list")
        for word in ("gemm", "stream", "collective", "cpu", "cuda", "synthetic", "replay"):
            self.assertIn(word, text)
        plan = self.succeed(*SYNTHETIC, "--dry-run", "--only", "gemm", "--models", "gpt2-xl")
        self.assertIn("k=1600", plan)
        self.assertIn(" points, about ", plan)

    def test_no_gpu_is_said_and_ends_with_3(self):
        done = run("calibrate", "--backend", "cuda", "--quick", "--out", self.directory / "c.jsonl")
        if done.returncode == 0:
            self.skipTest("there is a GPU here")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, "no driver|no device|without CUDA|is not on this machine")
        self.assertIn("hint: ", done.stderr)
        self.assertFalse((self.directory / "c.jsonl").exists())

    def test_a_run_goes_on_where_it_ended(self):
        path = self.directory / "s.jsonl"
        first = json.loads(self.succeed(*SYNTHETIC, "--budget", "1s", "--out", path, "--format", "json"))
        json_schema.check(first, json.loads((SCHEMAS / "calibrate.v1.schema.json").read_text()))
        self.assertGreater(first["left"], 0)
        second = json.loads(self.succeed(*SYNTHETIC, "--out", path, "--format", "json"))
        self.assertEqual(second["known"], first["measured"])
        self.assertEqual(second["known"] + second["measured"], second["points"])
        with path.open("a") as file:
            file.write('{"probe": "stre')  # a kill
        third = json.loads(self.succeed(*SYNTHETIC, "--out", path, "--format", "json"))
        self.assertEqual(third["measured"], 0)
        self.assertEqual(len(keys(path)), third["points"] + len(third["skipped"]))

    def test_files_that_cannot_be_used_are_refused(self):
        self.refuse(*SYNTHETIC, "--out", self.directory / "none" / "s.jsonl", expect=["No such file"])
        self.refuse(*SYNTHETIC, expect=["--out is missing"])
        self.refuse(*SYNTHETIC, "--out", "/dev/full", expect=["No space left", "hint: "])
        notes = self.file("notes.txt", "my notes")
        self.refuse(*SYNTHETIC, "--out", notes, expect=["not a file of samples"])
        self.assertEqual(notes.read_text(), "my notes")
        path = self.directory / "s.jsonl"
        self.succeed(*SYNTHETIC, "--quick", "--out", path)
        self.refuse(*SYNTHETIC, "--truth", "selene", "--out", path, expect=["this machine is"])
        self.refuse(*SYNTHETIC, "--only", "gems", "--out", path, expect=["gems", "gemm"])
        self.refuse(*SYNTHETIC, "--budget", "soon", "--out", path, expect=["soon"])
        self.refuse("calibrate", "--backend", "replay", "--out", path, expect=["--table"])
        self.refuse(*SYNTHETIC, "--format", "csv", "--out", path, expect=["--format json"])

    def test_a_file_of_samples_changes_a_base(self):
        path, out = self.directory / "s.jsonl", self.directory / "mine.yaml"
        self.succeed(*SYNTHETIC, "--quick", "--out", path)
        report = json.loads(self.succeed("fit", path, "--base", "dgx-h100", "--out", out, "--format", "json", "--quiet"))
        json_schema.check(report, json.loads((SCHEMAS / "fit.v1.schema.json").read_text()))
        self.assertEqual([group["part"] for group in report["kernels"]],
                         ["matmul bf16", "attention measured forward", "attention measured backward", "stream", "collectives",
                          "overlap"])
        for group in report["kernels"][:-1]:
            self.assertLess(group["held_out"]["median_error"], 0.06)
        self.answer("--hw", out, "--model", "gpt2-xl", "--gpus", "8")
        self.refuse("fit", path, "--base", "dgx-h100", "--new", "x", "--out", out, expect=["--new"])
        self.refuse("fit", self.file("g.csv", "gpu,dtype,m,n,k,time_us\nh100,bf16,1024,1024,1024,9\n"), "--out", out,
                    expect=["--base is missing"])

    def test_tables_are_played_back(self):
        rows = ["gpu,dtype,m,n,k,time_us"] + [
            f"h100,bf16,{m},{n},4096,{3 + 2 * m * n * 4096 / 6e8:.3f}" for m in (64, 512, 4096) for n in (1024, 4096, 8192)]
        table = self.file("t.csv", "\n".join(rows) + "\n")
        path = self.directory / "s.jsonl"
        self.succeed("calibrate", "--backend", "replay", "--table", table, "--out", path)
        rows = [line for line in keys(path) if "skipped" not in line]
        self.assertEqual(len(rows), 9)
        self.refuse("calibrate", "--backend", "replay", "--table", table, "--truth", "a100", "--out",
                    self.directory / "x.jsonl", expect=["no row of the tables is of a100"])

    def test_drift_is_named(self):
        text = self.succeed(*SYNTHETIC, "--check", "dgx-h100")
        self.assertNotIn("DRIFTED", text)
        slow = self.file("slow.yaml", "schema: plansearch/profile/v1\nname: slow\nlike: dgx-h100\n"
                         "accelerator:\n  name: h100-sxm5-80gb\n  kernels: {stream: {efficiency: 0.5}}\n")
        done = run(*SYNTHETIC, "--truth", slow, "--check", "dgx-h100", "--format", "json")
        self.assertEqual(done.returncode, 3)
        answer = json.loads(done.stdout)
        json_schema.check(answer, json.loads((SCHEMAS / "calibrate-check.v1.schema.json").read_text()))
        self.assertEqual([part["part"] for part in answer["parts"] if part["drifted"]], ["passes over memory"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    cli_test.BINARY = str(pathlib.Path(arguments.binary).resolve())
    tests = arguments.tests or ["Measures", "Answers"]
    unittest.main(argv=[sys.argv[0], *tests], verbosity=1)


if __name__ == "__main__":
    main()
