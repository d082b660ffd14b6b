// SPDX-License-Identifier: Apache-2.0
#include "io/plan/blocks_document.hpp"

#include <doctest/doctest.h>

#include <string>

#include "plansearch/error.hpp"

namespace plansearch::io::blocks_document_test {
namespace {

const std::string kHead = "schema: plansearch/blocks/v1\nname: small\ndevices: 2\nblocks:\n";

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse_blocks(text, "blocks.yaml"));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_SUITE("io") {
  TEST_CASE("blocks: devices, times of any decimals, memory, rules") {
    const BlocksDocument read = parse_blocks(
        kHead +
            "  a: {devices: 0-1, time: 0.25}\n"
            "  f: {devices: 0, time: 1.5, memory: 2, after: a}\n"
            "  b: {devices: [0], time: 3, memory: -2, after: [a, f]}\n"
            "before: [\"b before f(m+2)\", \"f(m+1) before b(m)\"]\nmicro_batches: 3\n",
        "blocks.yaml");
    CHECK(read.ticks_per_unit == 4.0);
    CHECK(read.plan.blocks == std::vector<PlanBlock>{{"a", 1, 0}, {"f", 6, 2}, {"b", 12, -2}});
    CHECK(read.plan.nodes.node(0).devices == std::vector{0, 1});
    CHECK(read.plan.nodes.node(2).devices == std::vector{0});
    CHECK(read.plan.rules ==
          std::vector<BeforeRule>{{0, 1, 0}, {0, 2, 0}, {1, 2, 0}, {2, 1, 2}, {1, 2, -1}});
    CHECK(read.micro_batches == 3);
    CHECK_FALSE(read.starts);
  }

  TEST_CASE("blocks: what is wrong, and where") {
    CHECK(contains(
        error_of(kHead + "  a: {devices: 0, time: 1, after: c}\n  b: {devices: 0, time: 1}\n"),
        "blocks.yaml:5:35: error: blocks.a.after: there is no block 'c'"));
    CHECK(contains(error_of(kHead + "  a: {devices: 0-2, time: 1}\n"), "'2' is not a device"));
    CHECK(contains(error_of(kHead + "  a: {devices: [1, 1], time: 1}\n"), "named twice"));
    CHECK(contains(error_of(kHead + "  a: {devices: 0, time: 0}\n"), "'0' is not a time"));
    CHECK(contains(error_of(kHead + "  a: {devices: 0, time: 1e12}\n"), "is not a time"));
    CHECK(contains(error_of(kHead + "  a: {devices: 0, time: 1, memory: 1}\n"),
                   "a micro-batch takes 1 on device 0 more than it gives back"));
    CHECK(contains(error_of(kHead + "  a: {devices: 0, time: 1}\nbefore: [a then a]\n"),
                   "blocks.yaml:6:10: error: before[0]: 'a then a' is not a rule"));
    CHECK(contains(error_of(kHead + "  a: {devices: 0, time: 1}\nsteps: 3\n"), "steps"));
    CHECK(contains(error_of("schema: plansearch/graph/v1\nname: x\ndevices: 1\nblocks: {}\n"),
                   "not a file of blocks"));
  }

  TEST_CASE("blocks: the shortest circle of rules, with its lines") {
    const std::string three = kHead +
                              "  a: {devices: 0, time: 1, after: c}\n"
                              "  b: {devices: 0, time: 1, after: a}\n"
                              "  c: {devices: 0, time: 1, after: b}\n";
    CHECK(contains(error_of(three),
                   "rules lead in a circle: a before b (line 6), b before c (line "
                   "7), c before a (line 5)"));
    const std::string two = three + "before: [\"b before a(m+1)\", \"a(m+2) before b\"]\n";
    CHECK(contains(error_of(two),
                   "rules lead in a circle: a(m+2) before b (line 8), b before a(m+1) "
                   "(line 8)"));
  }

  TEST_CASE("blocks: starts are checked") {
    const std::string blocks = kHead +
                               "  a: {devices: 0, time: 2}\n"
                               "  b: {devices: 0-1, time: 1, after: a}\n";
    const BlocksDocument good =
        parse_blocks(blocks + "starts: {a: [0, 2], b: [4, 5]}\n", "blocks.yaml");
    CHECK(good.micro_batches == 2);
    CHECK(good.starts == BlockStarts{{0, 2}, {4, 5}});
    CHECK(contains(error_of(blocks + "starts: {a: [0, 2], b: [1, 5]}\n"),
                   "b of micro-batch 0 begins before a of micro-batch 0 ends; b of micro-batch 0 "
                   "begins on device 0 while a of micro-batch 0 runs there"));
    CHECK(contains(error_of(blocks + "starts: {a: [0, 2], b: [4]}\n"),
                   "b begins 1 times, for 2 micro-batches"));
    CHECK(contains(error_of(blocks + "starts: {a: [0, 2]}\n"), "'b' never begins"));
  }
}

}  // namespace
}  // namespace plansearch::io::blocks_document_test
