// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_document.hpp"

#include <doctest/doctest.h>

#include "plansearch/error.hpp"
#include "support/schedules.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::io::plan_document_test {
namespace {

PlanDocument read(const std::string& text) {
  const test::TemporaryDirectory directory;
  return read_plan_document(directory.write("plan.yaml", text));
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read("schema: plansearch/plan/v1\n" + text));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "no error";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("unit") {
  TEST_CASE("plan documents: regions and transforms, written and read back") {
    PlanDocument document;
    document.placements = PlacementsDocument{};
    document.placements->names.factors = {2};
    document.placements->names.regions = {
        {{"up", "down"}, {"decoder"}, {{0, 3}}, {"ffn"}, 4, PieceRecompute::RunAgain}};
    CHECK(read(to_yaml(document)) == document);
    PlanDocument words;
    words.transform = TransformDocument{{{.what = {.of = {"*"}}, .split = {{"y", 2}, {"v", 2}}},
                                         {.what = {.of = {"middle/widen"}, .layers = {{0, 1}}},
                                          .pieces = {{"v", 4}},
                                          .recompute = PieceRecompute::RunAgain},
                                         {.what = {.of = {"skip"}, .copies = {{1, 2}}},
                                          .degrees = {{Degree::Data, 2}, {Degree::Recompute, 2}}}},
                                        {}};
    CHECK(read(to_yaml(words)) == words);
    PlanDocument devices;
    devices.assign = AssignDocument{};
    devices.assign->order.micro_batches = 8;
    devices.assign->entries = {{{.of = {"head"}}, {{0, 7}, {64, 135, 64, 8}, {9, 9}}, {}},
                               {{.of = {"*"}, .layers = {{0, 3}}}, {{8, 36, 4, 1}}, 1}};
    CHECK(contains(to_yaml(devices), "[\"0-7\", \"64-135:64*8\", \"9\"]"));
    CHECK(read(to_yaml(devices)) == devices);
    const auto bad_devices = [&](const std::string& text) {
      return error_of("order: {micro_batches: 1}\nassign: [{of: a, devices: " + text + "}]");
    };
    for (const char* text : {"x", "0-", "7-0", "0-7:0", "0-7:2*3", "-1", "1e9", "0-7 8", "\"\""}) {
      CAPTURE(text);
      CHECK(contains(bad_devices(text), "plan.yaml:3:"));
      CHECK(contains(bad_devices(text), "is not a set of devices"));
    }
    CHECK(contains(bad_devices("0-999999999"), "more than any machine has"));
    CHECK(contains(error_of("assign: [{of: a, devices: 0}]"), "'order'"));
    CHECK(contains(error_of("assign: [{of: a, devices: 0}]\nstages: [{layers: 1}]"), "keep one"));
    CHECK(contains(error_of("assign: [{of: a, devices: 0}]\ndegrees: {tp: 1}"), "beside assign"));
    CHECK(contains(error_of("transform: [{of: [], split: {y: 2}}]"), "no operator"));
    CHECK(contains(error_of("transform: [{of: a}]"), "without split, pieces and degrees"));
    CHECK(contains(error_of("transform: [{of: a, split: {y: 1}}]"), "1"));
    CHECK(contains(error_of("transform: [{of: a, split: {y: 2}, recompute: true}]"),
                   "without pieces"));
    CHECK(
        contains(error_of("placements: {regions: [{dimensions: [], pieces: 2}]}"), "no dimension"));
  }

  TEST_CASE("plan documents: written and read back, every field") {
    PlanDegrees plan;
    plan.data = 4;
    plan.pipeline = 8;
    plan.chunks = 3;
    plan.tensor_in = 2;
    plan.tensor_out = 4;
    plan.tensor_depth = 2;
    plan.context = 2;
    plan.expert = 2;
    plan.micro_batch = 2;
    plan.micro_batches = 16;
    plan.shard_group = 2;
    plan.context_kind = ContextKind::Ulysses;
    plan.sequence_parallel = SequenceParallel::On;
    plan.zero = ZeroStage::Gradients;
    plan.recompute = Recompute::Selective;
    plan.schedule = test::kInterleaved;
    PlanDocument document;
    ProblemRequest& question = document.question;
    question.degrees = to_pinned(plan);
    for (const SettingRow& row : setting_table()) {
      if (row.effect == SettingEffect::Summary || row.get(question)) continue;
      row.set(question, !words_of(row).empty()           ? words_of(row).back()
                        : row.kind == SettingKind::Share ? "0.25"
                                                         : "17");
    }
    question.hardware = "selene";
    question.content_hashes = {{"hardware", "0123456789abcdef"}};
    question.model = "my \"own\" model.yaml";
    CHECK(read(to_yaml(document)) == document);
    document = {};
    document.question.degrees = to_pinned(PlanDegrees{});
    CHECK(document.question.degrees.get(Degree::TensorOut) == 1);
    CHECK(contains(to_yaml(document), "  tp: 1\n"));
  }

  TEST_CASE("plan documents: stages written and read back") {
    const std::string text =
        "order: {schedule: zb-v, micro_batches: 16}\nstages:\n"
        "  - {chunks: [{layers: 3}, {layers: 2}], first_rank: 4, tp: 4, sp: true, zero: 1}\n"
        "  - {chunks: [{blocks: [head, {block: \"a b\", count: 2}]}, {blocks: []}], tp_x: 2, tp_z: "
        "2,\n"
        "     cp: 2, cp_kind: ulysses, ep: 2, etp: 2, shard_group: 2, dp: 2, recompute: "
        "selective}\n";
    const PlanDocument document = read("schema: plansearch/plan/v1\n" + text);
    REQUIRE(document.stages.has_value());
    const StagesDocument& stages = *document.stages;
    CHECK(stages.schedule == find_schedule("zb-v"));
    CHECK(stages.micro_batches == 16);
    REQUIRE(stages.stages.size() == 2);
    CHECK(stages.stages[0].first_rank == 4);
    CHECK(stages.stages[0].degrees ==
          PinnedDegrees{{Degree::TensorOut, 4}, {Degree::SequenceParallel, 1}, {Degree::Zero, 1}});
    CHECK(stages.stages[1].chunks[0].blocks == std::vector<NamedBlocks>{{"head", 1}, {"a b", 2}});
    CHECK(read(to_yaml(document)) == document);
  }

  TEST_CASE("plan documents: everything may be left open") {
    CHECK(read("schema: plansearch/plan/v1\n") == PlanDocument{});
    const PlanDocument document =
        read("schema: plansearch/plan/v1\nmodel: gpt2-xl\ndegrees: {tp: 5, sp: true, zero: 1}\n");
    CHECK(document.question.model == "gpt2-xl");
    CHECK(document.question.degrees ==
          PinnedDegrees{{Degree::TensorOut, 5}, {Degree::SequenceParallel, 1}, {Degree::Zero, 1}});
  }

  TEST_CASE("plan documents: mistakes are located") {
    CHECK(contains(error_of("degrees: {tp: 0}\n"), ":2:"));
    CHECK(contains(error_of("degrees: {tp: 2, tp_x: 2}\n"), "two ways"));
    CHECK(contains(error_of("degrees: {zero: 4}\n"), ":2:"));
    CHECK(contains(error_of("degrees: {tensor: 4}\n"), "tensor"));
    CHECK(contains(error_of("degrees: {schedule: 2f2b}\n"), "1f1b"));
    CHECK(contains(error_of("precision: fp7\n"), "fp7"));
    CHECK(contains(error_of("modell: gpt2-xl\n"), "modell"));
    const std::string stages = "order: {micro_batches: 8}\nstages: [{layers: 12}]\n";
    CHECK(contains(error_of(stages + "degrees: {tp: 2}\n"),
                   ":4:10: error: degrees: stages are given too"));
    CHECK(contains(error_of("stages: [{layers: 12}]\n"), "order"));
    CHECK(contains(error_of("order: {micro_batches: 8}\n"),
                   ":2:8: error: order: there are no stages"));
    CHECK(contains(error_of("order: {micro_batches: 8}\nstages: [{layers: 12, pp: 2}]\n"), "'pp'"));
    CHECK(contains(error_of("order: {micro_batches: 8}\nstages: [{tp: 2}]\n"),
                   "its content is missing"));
    CHECK(contains(error_of("order: {micro_batches: 8}\nstages: [{layers: 2, blocks: []}]\n"),
                   "keep one"));
    CHECK(contains(error_of("order: {micro_batches: 8}\nstages: []\n"), "no stage"));
  }
}

}  // namespace
}  // namespace plansearch::io::plan_document_test
