#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`plansearch export --to chakra`: traces decoded by hand from the published schema, and checked against the plan.

  python3 tests/exporters/trace_test.py --binary build/check/plansearch

Source of the schema: mlcommons/chakra@21585d8f schema/protobuf/et_def.proto. What a feeder and ASTRA-sim read of it:
src/feeder/et_feeder.cpp and et_feeder_node.cpp there."""

import argparse
import collections
import heapq
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = None
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7  # NodeType
KINDS = {0: "all-reduce", 2: "all-gather", 6: "all-to-all", 7: "reduce-scatter"}  # CollectiveCommType
FEEDER = r"""
#include <cstdint>
#include <iostream>
#include "et_feeder.h"
int main(int, char** argv) {
  Chakra::ETFeeder feeder(argv[1]);
  std::uint64_t nodes = 0, messages = 0, bytes = 0;
  while (feeder.hasNodesToIssue()) {
    auto node = feeder.getNextIssuableNode();
    if (!node) return 1;
    ++nodes;
    if (node->type() != ChakraProtoMsg::COMP_NODE) ++messages, bytes += node->comm_size();
    const auto id = node->id();
    feeder.freeChildrenNodes(id);
    feeder.removeNode(id);
  }
  std::cout << nodes << " " << messages << " " << bytes << "\n";
}
"""
MEMBERS = {7: int, 9: int, 27: bool, 29: lambda value: value.decode()}  # of AttributeProto.value


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data):
    """(number, value) of a message; values are ints or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 in (0, 2), key
        value, at = varint(data, at)
        if key & 7 == 2:
            at, value = at + value, data[at:at + value]
        yield key >> 3, value


def numbers(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def attribute(data):
    parts = dict(fields(data))
    name = parts.pop(1).decode()
    (member, value), = parts.items()
    return name, MEMBERS[member](value)


def read(path):
    """Attributes of the file and its nodes, in their order."""
    data, at, messages = path.read_bytes(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        messages.append(data[at:at + size])
        assert len(messages[-1]) == size, path
        at += size
    head = [value for number, value in fields(messages[0]) if number == 2]
    nodes = []
    for message in messages[1:]:
        node = {"name": "", "deps": [], "micros": 0}
        for number, value in fields(message):
            if number == 10:
                name, value = attribute(value)
                node[name] = value
            elif number == 5:
                node["deps"] = numbers(value)
            else:
                node[{1: "id", 2: "name", 3: "type", 7: "micros"}[number]] = value.decode() if number == 2 else value
        nodes.append(node)
    return dict(map(attribute, head)), nodes


def replay(ranks, groups):
    """When the last node ends: kernels of a rank one at a time, messages when all ends are there, for as long as they say."""
    waiting, readers, ready_at, began = {}, collections.defaultdict(list), {}, {}
    events, free, queue = [], collections.defaultdict(float), collections.defaultdict(list)
    seen, meeting = collections.Counter(), collections.defaultdict(list)
    for rank, nodes in ranks.items():
        for node in nodes:
            waiting[rank, node["id"]] = len(node["deps"])
            for before in node["deps"]:
                readers[rank, before].append((rank, node))
            if not node["deps"]:
                heapq.heappush(events, (0.0, 1, rank, node["id"], node))
    by_id = {(rank, node["id"]): node for rank, nodes in ranks.items() for node in nodes}
    end = 0.0

    def finish(time, rank, node):
        heapq.heappush(events, (time, 0, rank, node["id"], node))

    busy = set()
    while events:
        time, ready, rank, number, node = heapq.heappop(events)
        if ready == 0:
            end = max(end, time)
            if node["type"] == COMPUTE:
                busy.discard(rank)
                if queue[rank]:
                    _, chosen = heapq.heappop(queue[rank])
                    busy.add(rank)
                    finish(time + by_id[rank, chosen]["micros"], rank, by_id[rank, chosen])
            for reader, other in readers[rank, number]:
                waiting[reader, other["id"]] -= 1
                if waiting[reader, other["id"]] == 0:
                    heapq.heappush(events, (time, 1, reader, other["id"], other))
            continue
        if node["type"] == COMPUTE:
            if rank in busy:
                heapq.heappush(queue[rank], (number, number))
            else:
                busy.add(rank)
                finish(time + node["micros"], rank, node)
        elif node["type"] == COLLECTIVE:
            seen[rank, node["pg_name"]] += 1
            key = (node["pg_name"], seen[rank, node["pg_name"]])
            meeting[key].append((rank, node))
            if len(meeting[key]) == len(groups[node["pg_name"]]):
                for member, own in meeting[key]:
                    finish(time + node["micros"], member, own)
        else:
            key = (node["comm_src"], node["comm_dst"], node["comm_tag"])
            meeting[key].append((rank, node))
            if len(meeting[key]) == 2:
                for member, own in meeting[key]:
                    finish(time + node["micros"], member, own)
    assert not any(waiting.values()), "nodes that never run"
    return end * 1e-6


class Traces(unittest.TestCase):
    CASES = {
        "tensor, pipeline, data": ["--model", "llama3-8b", "--gpus", "8", "--tp", "2", "--pp", "2", "--dp", "2", "--batch", "16",
                                   "--zero", "1", "--micro-batch", "1", "--recompute", "full"],
        "chunks": ["--model", "gpt2-xl", "--gpus", "4", "--pp", "4", "--vpp", "2", "--dp", "1", "--batch", "8", "--micro-batch", "1"],
        "sharded": ["--model", "llama3-8b", "--gpus", "8", "--framework", "fsdp2", "--dp", "8", "--zero", "3", "--batch", "16",
                    "--micro-batch", "1", "--recompute", "full"],
        "experts": ["--model", "mixtral-8x7b", "--gpus", "16", "--tp", "1", "--pp", "2", "--ep", "8", "--dp", "8", "--batch", "32",
                    "--micro-batch", "1", "--zero", "1", "--recompute", "full"],
        "context": ["--model", "llama3-8b", "--gpus", "8", "--tp", "2", "--cp", "4", "--dp", "1", "--batch", "4", "--micro-batch", "1"],
        "zero bubble": ["--model", "llama3-8b", "--gpus", "8", "--tp", "2", "--pp", "4", "--dp", "1", "--batch", "16", "--micro-batch", "1",
                        "--framework", "zero-bubble", "--schedule", "zb-h1"],
        "dual pipe": ["--model", "deepseek-v2-lite", "--gpus", "16", "--framework", "deepseek", "--schedule", "dualpipe", "--pp", "4",
                      "--ep", "4", "--dp", "4", "--batch", "64", "--micro-batch", "1", "--zero", "1", "--recompute", "full"],
    }

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="plansearch-traces-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def run_binary(self, *words):
        return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)

    def export(self, flags):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        answer = self.run_binary("predict", "--hw", "dgx-h100", *flags, "--format", "json", "--out", self.folder / "a.json")
        self.assertIn(answer.returncode, (0, 3), answer.stderr)
        result = self.run_binary("export", self.folder / "a.json#1", "--to", "chakra", "--out", self.folder / "step.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        plan = json.loads((self.folder / "a.json").read_text())["plans"][0]
        groups = json.loads((self.folder / "step.json").read_text())
        ranks = {}
        for rank in range(int(flags[flags.index("--gpus") + 1])):
            head, ranks[rank] = read(self.folder / f"step.{rank}.et")
            self.assertEqual(head["rank"], rank)
        self.assertEqual(len(list(self.folder.glob("*.et"))), len(ranks))
        return plan, groups, ranks

    def check_nodes(self, nodes):
        known = set()
        for node in nodes:
            self.assertNotIn(node["id"], known)
            self.assertEqual(len(set(node["deps"])), len(node["deps"]))  # a feeder counts each once
            self.assertLessEqual(set(node["deps"]), known)               # earlier nodes alone: no circle
            self.assertIs(node["is_cpu_op"], False)
            known.add(node["id"])

    def check_messages(self, groups, ranks):
        ends = {SEND: collections.Counter(), RECEIVE: collections.Counter()}
        lists = collections.defaultdict(list)
        for rank, nodes in ranks.items():
            for node in nodes:
                if node["type"] in ends:
                    self.assertEqual(rank, node["comm_src" if node["type"] == SEND else "comm_dst"])
                    ends[node["type"]][node["comm_src"], node["comm_dst"], node["comm_tag"], node["comm_size"]] += 1
                elif node["type"] == COLLECTIVE:
                    self.assertIn(rank, groups[node["pg_name"]])
                    lists[node["pg_name"], rank].append((node["comm_type"], node["comm_size"]))
        self.assertEqual(ends[SEND], ends[RECEIVE])
        self.assertLessEqual(set(ends[SEND].values()), {1})
        for name, members in groups.items():
            for rank in members:  # every member calls the same collectives in the same order
                self.assertEqual(lists[name, rank], lists[name, members[0]], name)

    def bytes_of(self, nodes, groups):
        sums = collections.Counter()
        for node in nodes:
            if node["type"] == COLLECTIVE:
                kind, size = KINDS[node["comm_type"]], len(groups[node["pg_name"]])
                sums[kind, size] += node["comm_size"] * (size if kind == "all-gather" else 1)
            elif node["type"] == SEND:
                sums["send/receive", 0] += node["comm_size"]
        return sums

    def check_bytes(self, plan, groups, ranks):
        """A rank of the stage that the answer lists sends what the answer says, kind by kind."""
        wanted = collections.Counter()
        for line in plan["communication"]:
            moves = line["kind"] not in KINDS.values()
            wanted["send/receive" if moves else line["kind"], 0 if moves else line["group_size"]] += line["count"] * line["bytes"]
        sums = [self.bytes_of(nodes, groups) for nodes in ranks.values()]
        best = min(sums, key=lambda own: sum(abs(own[key] - wanted[key]) for key in own | wanted))
        for key in best | wanted:
            self.assertAlmostEqual(best[key], wanted[key], delta=1e-4 * wanted[key] + 64, msg=key)

    def check_replay(self, plan, groups, ranks, off):
        """Run node by node, the step lasts as long as predicted, but for what the prediction does not run in order."""
        own = plan["step_time_s"] - plan["step"]["site_s"]
        self.assertAlmostEqual(replay(ranks, groups), own, delta=off * own)

    def test_traces(self):
        for name, flags in self.CASES.items():
            with self.subTest(name):
                plan, groups, ranks = self.export(flags)
                for nodes in ranks.values():
                    self.check_nodes(nodes)
                self.check_messages(groups, ranks)
                self.check_bytes(plan, groups, ranks)
                # Shares of gathers that hide, contention, and pairs of passes are rules of the prediction.
                loose = name in ("sharded", "dual pipe", "tensor, pipeline, data", "context")
                self.check_replay(plan, groups, ranks, 0.05 if loose else 0.001)

    def test_own_feeder(self):
        """Every node is issued by the feeder of Chakra itself."""
        checkout = os.environ.get("PLANSEARCH_CHAKRA")
        if not checkout or not shutil.which("protoc"):
            self.skipTest("PLANSEARCH_CHAKRA (a checkout of mlcommons/chakra), protoc and libprotobuf-dev are not there")
        source, schema = pathlib.Path(checkout) / "src", pathlib.Path(checkout) / "schema" / "protobuf"
        main = self.root / "main.cpp"
        main.write_text(FEEDER)
        subprocess.run(["protoc", "-I", schema, f"--cpp_out={self.root}", schema / "et_def.proto"], check=True)
        subprocess.run(["c++", "-std=c++17", "-w", f"-I{self.root}", f"-I{source}/feeder", f"-I{source}/third_party/utils", f"-I{checkout}",
                        main, source / "feeder" / "et_feeder.cpp", source / "feeder" / "et_feeder_node.cpp",
                        source / "third_party" / "utils" / "protoio.cc", self.root / "et_def.pb.cc", "-lprotobuf", "-lz", "-o",
                        self.root / "feeder"], check=True)
        for name, flags in self.CASES.items():
            with self.subTest(name):
                _, _, ranks = self.export(flags)
                for rank, nodes in ranks.items():
                    issued = subprocess.run([self.root / "feeder", self.folder / f"step.{rank}.et"], capture_output=True, text=True,
                                            check=True, timeout=60)
                    messages = [node for node in nodes if node["type"] != COMPUTE]
                    self.assertEqual(issued.stdout.split(), [str(len(nodes)), str(len(messages)),
                                                             str(sum(node.get("comm_size", 0) for node in messages))])

    def test_refusals(self):
        """Where something stands in the way, the place and the remedy are said."""
        plan = self.root / "plan.yaml"
        question = ["--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "8", "--batch", "8"]
        self.run_binary("predict", *question, "--write-plan", plan)
        for words, code, text in (([], 2, "--out step.json"), (["--out", "-"], 2, "--out step.json"),
                                  (["--out", self.root / "none" / "step.json"], 2, "none"),
                                  (["--launch", "slurm", "--out", self.root / "s.json"], 2, "leave out --launch")):
            result = self.run_binary("export", plan, "--to", "chakra", *words)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(text, result.stderr)
        self.run_binary("predict", *question, "--framework", "deepspeed", "--zero", "2", "--offload", "optimizer", "--write-plan", plan)
        result = self.run_binary("export", plan, "--to", "chakra", "--out", self.root / "s.json")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("memory of the host", result.stderr)
        self.assertEqual(list(self.root.glob("*.et")), [])


def main():
    global BINARY
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    BINARY = arguments.binary
    unittest.main(argv=[sys.argv[0], *arguments.tests], verbosity=0)


if __name__ == "__main__":
    main()
