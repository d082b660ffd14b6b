# SPDX-License-Identifier: Apache-2.0
"""Installs a finished build into an empty folder and builds main.cpp against what lies there.

usage: consumer_test.py CMAKE BUILD COMPILER FLAGS GENERATOR MAKE_PROGRAM
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, COMPILER, FLAGS, GENERATOR, MAKE_PROGRAM = sys.argv[1:7]
HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PLANSEARCH_DATA"}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], env=ENVIRONMENT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class InstalledPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.prefix = cls.root / "prefix"
        run(CMAKE, "--install", BUILD, "--prefix", cls.prefix)
        # A profile that only this installation has: who knows it reads the installed files.
        profiles = cls.prefix / "share" / "plansearch" / "hardware_profiles"
        text = (profiles / "perlmutter.yaml").read_text()
        (profiles / "here-only.yaml").write_text(
            re.sub(r"(?m)^aliases:.*\n", "", re.sub(r"(?m)^name:.*", "name: here-only", text)))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def installed(self, *arguments):
        return run(self.prefix / "bin" / "plansearch", *arguments, cwd=self.root)

    def test_executable_reads_the_installed_data(self):
        self.assertIn("here-only", self.installed("list", "hw", "--format", "csv"))

    def test_summary_of_a_table_stands_beside_the_data(self):
        data = self.prefix / "share" / "plansearch"
        table = run(sys.executable, data / "tools" / "validation_summary.py", data / "validation" / "published_runs.csv",
                    "--binary", self.prefix / "bin" / "plansearch", "--by", "source", cwd=self.root)
        self.assertIn("ranking", table.lower())

    def test_program_prices_plans_as_the_executable_does(self):
        build = self.root / "build"
        run(CMAKE, "-S", HERE, "-B", build, "-G", GENERATOR,
            f"-DCMAKE_MAKE_PROGRAM={MAKE_PROGRAM}", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DCMAKE_CXX_FLAGS={FLAGS}")
        run(CMAKE, "--build", build)
        lines = run(build / "consumer", cwd=self.root).splitlines()
        self.assertEqual(run(build / "consumer", "here-only", cwd=self.root).splitlines(), lines)
        question = ("--hw", "perlmutter", "--model", "gpt2-xl", "--gpus", "64", "--format", "json")
        plan = json.loads(self.installed("predict", *question, "--dp", "64", "--micro-batch", "8",
                                         "--zero", "1"))["plans"][0]
        best = json.loads(self.installed(*question, "--threads", "1"))["plans"][0]
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[0], "infeasible: the plan takes 256 sequences per step, not 512")
        self.assertAlmostEqual(float(lines[1].split()[1]), plan["step_time_s"], places=5)
        self.assertEqual(lines[2], "infeasible: the plan takes 1024 sequences per step, not 512")
        self.assertAlmostEqual(float(lines[3].split()[1]), best["step_time_s"], places=5)

    def test_targets_name_no_place_of_the_build(self):
        package = next(self.prefix.glob("lib*/**/plansearchConfig.cmake")).parent
        for path in package.iterdir():
            self.assertNotIn(BUILD, path.read_text(), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
