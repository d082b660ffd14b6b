// SPDX-License-Identifier: Apache-2.0
// Wire format: the examples of protobuf.dev/programming-guides/encoding. Traces: two nodes by hand.
#include "exchange/traces/execution_trace.hpp"

#include <doctest/doctest.h>

#include <array>

#include "support/toy_class.hpp"

namespace plansearch::execution_trace_test {

TEST_SUITE("unit") {
  TEST_CASE("wire format as its specification writes it") {
    WireWriter number;
    number.number(1, 150);
    CHECK(number.text() == "\x08\x96\x01");
    WireWriter text;
    text.bytes(2, "testing");
    CHECK(text.text() == "\x12\x07testing");
    WireWriter packed;
    packed.numbers(6, std::array<std::uint64_t, 3>{3, 270, 86942});
    CHECK(packed.text() == "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
    WireWriter defaults;
    defaults.number(1, 0);
    CHECK(defaults.text().empty());
    defaults.chosen(27, 0);  // a member of a oneof
    CHECK(defaults.text() == std::string("\xd8\x01\0", 3));
  }

  TEST_CASE("groups are ranks of the mesh, and a gather gives what a rank has") {
    PlanDegrees degrees;
    degrees.tensor_out = degrees.pipeline = degrees.data = 2;
    test::ToyOptions options;
    options.gpus = 8;
    options.global_batch = degrees.global_batch();
    const Problem problem = test::toy_problem(options);
    const PlanEvaluator evaluator(problem);
    const auto plan = std::get<ParallelPlan>(evaluator.expand(degrees));
    StepNode gather;
    gather.kind = StepNode::Kind::Collective;
    gather.how = CommunicationKind::AllGather;
    gather.axes = {Axis::Data};
    gather.bytes = Bytes(600.0);
    StepNode kernels;
    kernels.time = Seconds(2.4e-6);
    kernels.after = {0};
    const StepNodes step{{"w"}, {{gather, kernels, kernels}, {}}, {}};
    const ExecutionTraces traces(step, plan, {"plansearch", "q"});
    // Ranks: tensor fastest, then data, then stages.
    CHECK(traces.groups() == "{\"1\":[0,2],\"2\":[1,3]}\n");
    CHECK(traces.ranks() == 8);
    CHECK(traces.nodes() == 12);
    std::string file;
    traces.write(3, [&](std::string_view text) { file += text; });
    // int64_val (9) 300 behind the name: half of 600 bytes, on two ranks.
    CHECK(file.find("comm_size\x48\xac\x02") != std::string::npos);
    CHECK(file.find("pg_name\xea\x01\x01"
                    "2") != std::string::npos);
    // Node 4 (22 04 .. is ctrl_deps; 2a is data_deps) waits for node 2; whole microseconds add up:
    // 2.4 us and 2.4 us are 2 and 3.
    const auto node = [](char id, char micros) {
      return std::string{8, id, 0x12, 1, 'w', 0x18, 4, 0x2a, 1, 2, 0x38, micros};
    };
    CHECK(file.find(node(4, 2)) != std::string::npos);
    CHECK(file.find(node(6, 3)) != std::string::npos);
  }
}

}  // namespace plansearch::execution_trace_test
