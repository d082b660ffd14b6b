#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA back end from end to end on libraries that compute nothing and keep time (tests/fakes).

  python3 tests/cli/calibrate_gpu_test.py --binary build/check/plansearch --fakes build/check/tests/fakes/lib
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

import cli_test

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"
FAKES = ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def lines_of(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return lines[0], lines[1:]


class Gpus(cli_test.Case):
    def environment(self, gpus, **more):
        places = [FAKES] + os.environ.get("LD_LIBRARY_PATH", "").split(":")
        own = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "SLURM_"))}
        return {**own, "LD_LIBRARY_PATH": ":".join(filter(None, places)), "FAKE_GPUS": ",".join(gpus), **more}

    def calibrate(self, gpus, *arguments, **more):
        return subprocess.run([cli_test.BINARY, "calibrate", "--backend", "cuda", "--quick", *map(str, arguments)],
                              capture_output=True, text=True, timeout=300, check=False, env=self.environment(gpus, **more))

    def start_ranks(self, count, per_node, *arguments, **more):
        """As torchrun would, so many a node."""
        shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(per_node), "MASTER_ADDR": "localhost",
                  "MASTER_PORT": str(free_port()), **more}
        return [subprocess.Popen([cli_test.BINARY, "calibrate", "--backend", "cuda", *map(str, arguments)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=self.environment([H100] * per_node, RANK=str(rank),
                                                      LOCAL_RANK=str(rank % per_node), **shared))
                for rank in range(count)]

    def finish(self, processes):
        outputs = [process.communicate(timeout=300) for process in processes]
        for process, (out, error) in zip(processes, outputs):
            self.assertEqual(process.returncode, 0, out + error)
        return outputs

    def test_one_gpu_measures_every_probe_but_messages(self):
        path = self.directory / "s.jsonl"
        done = self.calibrate([H100], "--out", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        machine, samples = lines_of(path)
        self.assertEqual(machine["name"], H100)
        self.assertIn("1980 MHz, 18 NVLinks", machine["facts"]["gpu 0"])
        probes = {sample["probe"] for sample in samples if "time_us" in sample}
        self.assertEqual(probes, {"gemm", "batched_gemm", "attention", "stream", "launch", "host_copy", "overlap"})
        self.assertEqual([sample for sample in samples if "failed" in sample], [])
        products = {sample["dtype"] for sample in samples if sample["probe"] == "gemm"}
        self.assertEqual(products, {"bf16", "fp16", "tf32", "fp32", "fp8", "fp8_block"})
        self.assertIn("power_w", next(sample for sample in samples if sample["probe"] == "gemm")["state"])
        launches = {sample["kernel"]: sample["time_us"] for sample in samples if sample["probe"] == "launch"}
        self.assertAlmostEqual(launches["stream"], 2.0, delta=0.05)  # as the fakes keep time
        self.assertAlmostEqual(launches["graph"], 1.0, delta=0.05)

    def test_a_gpu_that_is_slowed_is_flagged(self):
        path = self.directory / "s.jsonl"
        self.calibrate([H100], "--only", "launch", "--out", path, FAKE_THROTTLE="0x44")
        _, samples = lines_of(path)
        self.assertEqual(samples[0]["flags"], ["slowed: power limit", "slowed: hardware thermal"])

    def test_different_gpus_of_a_node_are_refused_by_name(self):
        done = self.calibrate([H100, A100], "--out", self.directory / "s.jsonl")
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"0 is {H100}, 1 is {A100}", done.stderr)
        self.assertIn("CUDA_VISIBLE_DEVICES", done.stderr)

    def test_one_process_sends_among_all_gpus_of_a_node(self):
        path = self.directory / "s.jsonl"
        done = self.calibrate([H100] * 4, "--only", "collective,overlap", "--out", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        machine, samples = lines_of(path)
        self.assertEqual(machine["accelerators"], 4)
        self.assertIn("2-3 NV18", machine["facts"]["topology"])
        self.assertEqual([sample for sample in samples if "failed" in sample], [])
        self.assertEqual({sample["ranks"] for sample in samples if sample["probe"] == "collective"}, {2, 4})
        # (4 - 1) / 4 of the bytes twice at 300 GB/s, and ten microseconds.
        whole = [sample for sample in samples if sample.get("collective") == "all_reduce" and sample["ranks"] == 4]
        for sample in whole:
            self.assertAlmostEqual(sample["time_us"], 10 + 2 * 0.75 * sample["bytes"] / 300e3,
                                   delta=0.01 * sample["time_us"])
        self.assertIn("all_reduce", {sample.get("beside") for sample in samples})

    def test_two_nodes_of_two_by_torchrun(self):
        path = self.directory / "s.jsonl"
        outputs = self.finish(self.start_ranks(4, 2, "--quick", "--only", "collective,gemm", "--out", path))
        self.assertEqual(sum("next: plansearch fit" in out for out, _ in outputs), 1)
        machine, samples = lines_of(path)
        self.assertEqual(machine["facts"]["processes"], "4 by torchrun")
        self.assertIn("GPU-fake-1", machine["facts"]["rank 3"])
        self.assertEqual([sample for sample in samples if "failed" in sample], [])
        groups = {(sample["ranks"], sample.get("stride", 1), sample["nodes"], sample.get("groups", "all"))
                  for sample in samples if sample["probe"] == "collective"}
        self.assertEqual(groups, {(2, 1, 1, "all"), (2, 1, 1, "one"), (2, 2, 2, "all"), (2, 2, 2, "one"),
                                  (4, 1, 2, "all")})

    def test_the_slow_gpu_is_named(self):
        profile = self.directory / "mine.yaml"
        path = self.directory / "s.jsonl"
        self.finish(self.start_ranks(4, 4, "--quick", "--only", "gemm,stream", "--out", path))
        self.succeed("fit", path, "--out", profile, "--quiet")
        processes = self.start_ranks(4, 4, "--check", profile, "--quick", "--only", "gemm", "--format", "json",
                                     FAKE_SLOW="2")
        outputs = [process.communicate(timeout=300) for process in processes]
        self.assertEqual({process.returncode for process in processes}, {3})
        slow = json.loads(outputs[0][0])["slow_ranks"]
        self.assertEqual([(entry["part"], entry["rank"]) for entry in slow], [("kernels", 2)])
        self.assertIn("GPU-fake-2", slow[0]["where"])
        self.assertAlmostEqual(slow[0]["ratio"], 2.0, delta=0.01)

    def test_a_rank_that_dies_is_named_and_the_samples_stay(self):
        path = self.directory / "s.jsonl"
        # The processor: its points take long enough to die among them.
        shared = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": "localhost",
                  "MASTER_PORT": str(free_port())}
        processes = [subprocess.Popen([cli_test.BINARY, "calibrate", "--backend", "cpu", "--only", "stream", "--out",
                                       str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      env=self.environment([], RANK=str(rank), LOCAL_RANK=str(rank), **shared))
                     for rank in range(3)]
        deadline = time.monotonic() + 120
        while not path.exists() or path.read_text().count("\n") < 3:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        processes[2].send_signal(signal.SIGKILL)
        _, error = processes[0].communicate(timeout=60)
        processes[1].communicate(timeout=60)
        processes[2].communicate(timeout=60)
        self.assertEqual(processes[0].returncode, 3, error)
        self.assertRegex(error, r"rank 2 \(.+\) has ended")
        self.assertIn("the samples before it are kept", error)
        _, samples = lines_of(path)
        self.assertGreaterEqual(len(samples), 2)

    def test_who_does_not_come_is_waited_for_and_named(self):
        done = self.calibrate([H100], "--out", self.directory / "s.jsonl", RANK="1", WORLD_SIZE="2",
                              MASTER_ADDR="localhost", MASTER_PORT=str(free_port()), PLANSEARCH_WAIT="1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("the first process does not answer at localhost", done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--fakes", required=True)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    global FAKES  # noqa: PLW0603
    FAKES = str(pathlib.Path(arguments.fakes).resolve())
    cli_test.BINARY = str(pathlib.Path(arguments.binary).resolve())
    unittest.main(argv=[sys.argv[0], *(arguments.tests or ["Gpus"])], verbosity=1)


if __name__ == "__main__":
    main()
