#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sweep of plansearch spread over a Dask cluster: the same bytes as one process writes.

    python3 docs/sweep.py questions.yaml --out results.csv [--scheduler tcp://HOST:8786] [--parts 64]

Without --scheduler, a cluster of this machine's cores. Every part is `plansearch sweep --shard I/N`
on a worker; its answers come back as JSON lines, and `plansearch sweep --known` puts them in order.
Workers need the executable (--plansearch, default: that of $PATH) and the files that questions name
under the same paths. What follows -- goes to every call.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile


def answer_part(executable, questions, part, parts, flags):
    """The answers of one part as JSON lines. Raises RuntimeError with what the program says."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "part.jsonl"
        command = [executable, "sweep", questions, "--shard", f"{part}/{parts}", "--threads", "1",
                   "--quiet", "--out", str(out), *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if not out.exists():
            raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
        return out.read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions")
    parser.add_argument("--out", required=True, help=".csv, .jsonl, .sqlite or .db")
    parser.add_argument("--scheduler", help="address of a Dask scheduler")
    parser.add_argument("--workers", type=int, help="of a local cluster")
    parser.add_argument("--parts", type=int, default=64)
    parser.add_argument("--plansearch", default="plansearch")
    parser.add_argument("flags", nargs="*", help="behind --: flags of every question")
    options = parser.parse_args()
    from dask.distributed import Client, LocalCluster, as_completed

    questions = str(pathlib.Path(options.questions).resolve())
    cluster = None
    if not options.scheduler:
        cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None)
    with Client(options.scheduler or cluster) as client, tempfile.TemporaryDirectory() as folder:
        futures = {client.submit(answer_part, options.plansearch, questions, part, options.parts,
                                 options.flags, pure=False): part
                   for part in range(1, options.parts + 1)}
        known = []
        for future in as_completed(futures):
            file = pathlib.Path(folder) / f"{futures[future]}.jsonl"
            file.write_text(future.result())
            known.append(str(file))
            print(f"{len(known)} of {options.parts} parts", file=sys.stderr)
        command = [options.plansearch, "sweep", questions, "--out", options.out, *options.flags]
        for file in known:
            command += ["--known", file]
        code = subprocess.run(command).returncode
    if cluster:
        cluster.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
