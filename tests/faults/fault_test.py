#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command with one failing call of the system: it ends with an exit code and a message.

  python3 tests/faults/fault_test.py --binary build/check/plansearch --library libfailing_calls.so
      [--allocations N] [--all]

Opens, reads, writes, syncs and renames fail one by one, each of them; of the allocations, of which
there are many thousands, N spread over the run (--all: every one), and all from one on.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
QUESTION = ["--hw", "perlmutter", "--model", "gpt2-xl"]
COMMANDS = [
    ["predict", *QUESTION, "--gpus", "8", "--format", "json"],
    [*QUESTION, "--gpus", "8", "--tp", "1", "--threads", "2", "--format", "json"],
    ["validate", str(SOURCE / "tests/data/validate/runs.csv"), "--format", "json", "--threads", "2"],
    ["list", "exporters"],
    ["schedule", "zb-h1", "--stages", "4", "--micro-batches", "8", "--times", "1,1,1"],
]


# The C library's own end when it has no memory to note that a variable of a thread is to be destroyed: it
# aborts, with this message, where no handler can be.
ENDED_BY_C_LIBRARY = b"failed to register TLS destructor: out of memory"


class Failure(Exception):
    pass


def run(arguments, command, out, **environment):
    return subprocess.run([arguments.binary, *command, "--out", out], capture_output=True,
                          env=os.environ | {"LD_PRELOAD": arguments.library} | environment,
                          timeout=120, check=False)


def check(result, out, wanted, what):
    """0 with the whole answer, or a code with a message and the old file."""
    text = out.read_text()
    if result.returncode == 0:
        if text != wanted:
            raise Failure(f"{what}: exit code 0, and another answer")
        return
    if result.returncode == -signal.SIGABRT and ENDED_BY_C_LIBRARY in result.stderr:
        if text != "old":
            raise Failure(f"{what}: half an answer was left")
        return
    if result.returncode not in (1, 2):
        raise Failure(f"{what}: exit code {result.returncode}\n{result.stderr.decode()}")
    if b"error:" not in result.stderr:
        raise Failure(f"{what}: exit code {result.returncode} without a message")
    if b"bug in plansearch" in result.stderr or b"internal" in result.stderr:
        raise Failure(f"{what}: called a bug\n{result.stderr.decode()}")
    if text not in ("old", wanted):
        raise Failure(f"{what}: half an answer was left")


def numbers(kind, count, arguments):
    """Which calls fail, and whether all that follow do."""
    if kind != "allocation" or arguments.all:
        return [(n, False) for n in range(1, count + 1)]
    spread = max(arguments.allocations, 1)
    some = sorted({1 + (count - 1) * i // spread + (i * 7919) % max(count // spread, 1)
                   for i in range(spread)})
    return [(n, i % 4 == 3) for i, n in enumerate(some) if n <= count]


def attempt(arguments, command, directory):
    out = directory / "answer"
    counts_file = directory / "counts"
    result = run(arguments, command, out, PLANSEARCH_COUNTS=str(counts_file))
    if result.returncode != 0:
        raise Failure(f"{command}: {result.stderr.decode()}")
    wanted = out.read_text()
    counts = dict(line.split() for line in counts_file.read_text().splitlines())
    if int(counts.get("allocation", 0)) < 100:
        raise Failure(f"{command}: the library saw {counts.get('allocation', 'no')} allocations: it replaces nothing")
    runs = {}
    for kind, count in counts.items():
        for number, following in numbers(kind, int(count), arguments):
            out.write_text("old")
            environment = {"PLANSEARCH_FAIL": kind, "PLANSEARCH_FAIL_AT": str(number)}
            if following:
                environment["PLANSEARCH_FAIL_ON"] = "1"
            result = run(arguments, command, out, **environment)
            check(result, out, wanted, f"{' '.join(command)}: {kind} {number} of {count} failed")
            leftovers = [p.name for p in directory.iterdir() if p not in (out, counts_file)]
            if leftovers:
                raise Failure(f"{kind} {number} of {' '.join(command)} left {leftovers}")
            runs[kind] = runs.get(kind, 0) + 1
    return runs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--allocations", type=int, default=40)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    arguments.binary = os.path.abspath(arguments.binary)
    arguments.library = os.path.abspath(arguments.library)
    failed = 0
    for command in COMMANDS:
        with tempfile.TemporaryDirectory() as directory:
            try:
                print(command[0], json.dumps(attempt(arguments, command, pathlib.Path(directory))))
            except Failure as failure:
                print(f"FAILED {failure}", file=sys.stderr)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
