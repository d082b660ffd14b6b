// SPDX-License-Identifier: Apache-2.0
// A setting means the same wherever it stands: on the command line, in a plan file, in an earlier
// answer, in a table of measured runs. Every row of both tables goes all roads.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>

#include "answer/make_report.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "evidence/validate/run_record.hpp"
#include "io/document/file.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/report.hpp"
#include "plansearch/setting_table.hpp"
#include "question/resolve_plan.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::setting_roads_test {
namespace {

const std::string kImports = PLANSEARCH_SOURCE_DIR "/tests/data/imports/";

/// What was priced, to the last digit.
struct Price {
  double step, p10, p90, memory, risk;
  bool operator==(const Price&) const = default;
};

struct Priced {
  Price price;
  std::string identity;
};

/// A question in which a value of a setting or degree makes a difference.
struct Example {
  std::string value;
  std::map<Setting, std::string> beside{};
  PinnedDegrees degrees{{Degree::Pipeline, 2}, {Degree::TensorOut, 2}};
};

ProblemRequest question(const Example& example) {
  ProblemRequest request;
  request.hardware = "dgx-h100";
  request.model = "gpt2-medium";
  request.framework = "megatron";
  request.gpus = 8;
  request.batch = 32;
  request.seq_len = 1024;
  request.precision = "bf16";
  request.site = "tuned";
  for (const auto& [setting, value] : example.beside) row_of(setting).set(request, value);
  request.degrees = example.degrees;
  // Tables of runs leave open what somebody chose and nobody wrote down.
  request.degrees.pin(Degree::MicroBatch, example.degrees.get(Degree::MicroBatch).value_or(1));
  return request;
}

using S = Setting;
using D = Degree;

const std::map<Setting, Example> kSettings{
    {S::Hardware, {"perlmutter"}},
    {S::Model, {"gpt2-large"}},
    {S::Framework, {"nanotron"}},
    {S::Gpus, {"16"}},
    {S::Batch, {"64"}},
    {S::SequenceLength, {"512"}},
    {S::Task,
     {"dpo",
      {{S::Framework, "hf-trainer"}},
      {{D::MicroBatch, 2}, {D::Data, 8}, {D::Recompute, 0}}}},
    {S::Packing, {"256"}},
    {S::Precision, {"fp8"}},
    {S::Optimizer, {"sgd"}},
    {S::Attention, {"unfused"}},
    {S::RankOrder, {"dp-tp-pp"}},
    {S::Overlap, {"none"}},
    {S::Implementation, {"eager"}},
    {S::Kernels, {"flash2"}},
    {S::MainGradients, {"bf16"}},
    {S::Fp8Recipe, {"delayed", {{S::Precision, "fp8"}}}},
    {S::CudaGraphs, {"1"}},
    {S::DelayWeightGradients,
     {"1",
      {{S::Model, "mixtral-8x7b"}},
      {{D::Pipeline, 2},
       {D::Chunks, 2},
       {D::Expert, 4},
       {D::Schedule, int(*find_schedule("interleaved-pairs"))}}}},
    {S::OptimizerInBackward,
     {"1", {{S::Framework, "torchtune"}, {S::Batch, "8"}}, {{D::Recompute, int(Recompute::Full)}}}},
    {S::PagedStates,
     {"1", {{S::Framework, "hf-trainer"}}, {{D::Data, 8}, {D::Recompute, int(Recompute::Full)}}}},
    {S::Routing, {"real", {{S::Model, "mixtral-8x7b"}}, {{D::Expert, 8}}}},
    {S::LoraRank, {"8"}},
    {S::LoraTargets, {"q", {{S::LoraRank, "8"}, {S::Model, "llama3.2-1b"}}}},
    {S::BasePrecision, {"nf4", {{S::LoraRank, "8"}, {S::Model, "llama3.2-1b"}}}},
    {S::OptimizerStates, {"bf16"}},
    {S::Site, {"typical"}},
    {S::MemoryReserve, {"2.34567 GiB"}},
    {S::Rollout, {"40 GiB,tp=8,asleep"}},
    {S::Images, {"2,frozen", {{S::Model, "gemma-3-4b"}}}},
    {S::MemoryRisk, {"0.3"}},
    {S::Passes, {"all"}},
    {S::Set, {"tiers.infiniband.nic_bandwidth=25 GB/s; accelerator.memory=70 GiB"}},
    // Degrees of an import's own kinds of dimension; its length of sequences is its own.
    {S::Operators,
     {kImports + "silu-stub.yaml",
      {{S::Model, kImports + "llama-small.pt2"}, {S::SequenceLength, "32"}},
      {{D::Pipeline, 2}}}},
    {S::MemoryCap, {"3", {}, {{D::Pipeline, 4}, {D::Schedule, int(*find_schedule("zb-auto"))}}}},
};

const std::map<Degree, Example> kDegrees{
    {D::Data, {"2", {}, {{D::Pipeline, 2}, {D::TensorOut, 2}}}},
    {D::Pipeline, {"4", {}, {}}},
    {D::Chunks, {"2", {}, {{D::Pipeline, 2}}}},
    {D::TensorIn, {"2", {{S::Framework, "axonn"}}, {}}},
    {D::TensorOut, {"4", {}, {}}},
    {D::TensorDepth, {"2", {{S::Framework, "axonn"}}, {}}},
    {D::Context, {"2", {}, {}}},
    {D::ContextKind, {"ulysses", {}, {{D::Context, 2}}}},
    {D::Expert, {"2", {{S::Model, "mixtral-8x7b"}}, {}}},
    {D::ExpertTensor, {"2", {{S::Model, "mixtral-8x7b"}}, {{D::TensorOut, 2}}}},
    {D::Zero, {"2", {}, {}}},
    {D::ShardGroup, {"4", {{S::Framework, "fsdp"}}, {{D::Zero, 3}}}},
    {D::SequenceParallel, {"0", {}, {{D::TensorOut, 2}}}},
    {D::Temporal,
     {"ring", {{S::Framework, "torchtitan-async-tp"}}, {{D::TensorOut, 2}, {D::Recompute, 0}}}},
    {D::MicroBatch, {"2", {}, {}}},
    {D::Offload, {"optimizer", {}, {}}},
    {D::Pieces, {"2", {{S::Framework, "tensor3d"}}, {{D::TensorIn, 2}, {D::MicroBatch, 2}}}},
    {D::Recompute, {"full", {}, {}}},
    {D::RecomputeLayers, {"3", {}, {{D::Recompute, 2}}}},
    {D::Schedule, {"gpipe", {}, {{D::Pipeline, 2}}}},
    {D::RecomputeModules, {"core_attn,mlp", {}, {{D::Recompute, 1}}}},
    {D::Dispatcher, {"deepep", {{S::Model, "mixtral-8x7b"}}, {{D::Expert, 8}}}},
};

Priced priced(const PlanRequest& asked, const std::string& answer = {}) {
  const ResolvedPlan given = resolve_plan(asked);
  REQUIRE_FALSE(given.inexpressible.has_value());
  SearchReport report = make_prediction(given);
  REQUIRE(report.plans.size() == 1);
  if (!answer.empty()) io::write_file(answer, render_prediction(report, Format::Json));
  const PlanReport& plan = report.plans.front();
  return {{plan.estimate.step.total().value(), plan.p10.value(), plan.p90.value(),
           plan.estimate.memory.total().value(), plan.memory_risk},
          plan_identity(given)};
}

/// The question as a row of a table of measured runs.
std::string table_of(const ProblemRequest& request) {
  std::string header = "step_time_s,recompute", cells = "1,none";
  const auto add = [&](std::string_view column, const std::string& cell) {
    header += fmt::format(",{}", column);
    cells += fmt::format(",\"{}\"", cell);
  };
  for (const SettingRow& row : setting_table()) {
    const auto value = row.get(request);
    if (value && !row.column.empty()) add(row.column, *value);
  }
  for (const DegreeRow& row : degree_table()) {
    const auto value = request.degrees.get(row.degree);
    if (!value) continue;
    const bool word = row.kind == DegreeKind::Word;
    const std::string cell = word ? value_text(row.degree, *value) : fmt::format("{}", *value);
    if (row.degree == Degree::Recompute) {
      cells.replace(2, 4, cell);
    } else {
      add(key_of(row.degree, request.degrees), cell);
    }
  }
  return header + "\n" + cells + "\n";
}

Price priced_as_run(const ProblemRequest& request) {
  const ShippedData data = shipped_data();
  const auto model = [&](std::string_view name) { return data.model(name).description; };
  ProfileFinder finder{[&](std::string_view name) { return data.cluster(name); },
                       [&](std::string_view name) { return data.framework(name); }, data.sites(),
                       "tuned"};
  const auto table = io::CsvTable::parse(table_of(request), "runs.csv");
  CHECK(unread_columns(table).empty());
  const auto architectures =
      read_architectures(data.directory() / "validation" / "architectures.yaml", model);
  const RunPrediction run =
      predict_runs(read_runs(table, model), architectures, finder, 1).front().predicted;
  CAPTURE(run.reason);
  REQUIRE(run.step_time.has_value());
  return {run.step_time->value(), run.p10->value(), run.p90->value(), run.needed->value(),
          *run.memory_risk};
}

/// The same request by its flags, by a plan file, by its answer, and as a measured run.
Priced by_all_roads(const ProblemRequest& request) {
  const test::TemporaryDirectory directory;
  const std::string plan = directory.path() / "plan.yaml";
  const std::string answer = directory.path() / "answer.json";
  const PlanRequest asked = complete_from_plan(request, {});
  const Priced by_flags = priced(asked, answer);
  write_plan_files(resolve_plan(asked), {.plan = plan});
  for (const std::string& source : {plan, answer + "#1"}) {
    CAPTURE(source);
    const Priced again = priced(complete_from_plan({}, source));
    CHECK(again.price == by_flags.price);
    CHECK(again.identity == by_flags.identity);
  }
  // Tables have no column for the room that is left and for other values in files (validate --set
  // changes them for every row), nor for stubs of imports, and know sites by their own names.
  if (!request.mem_reserve && !request.rollout && !request.set && !request.operators &&
      request.site == "tuned")
    CHECK(priced_as_run(request) == by_flags.price);
  return by_flags;
}

TEST_SUITE("unit") {
  TEST_CASE("every setting: flag, plan file and answer give one price and one identity") {
    for (const SettingRow& row : setting_table()) {
      if (row.effect == SettingEffect::Summary) continue;
      CAPTURE(row.key);
      REQUIRE(kSettings.contains(row.setting));
      const Example& example = kSettings.at(row.setting);
      ProblemRequest request = question(example);
      const Priced before = priced(complete_from_plan(request, {}));
      row.set(request, example.value);
      const Priced after = by_all_roads(request);
      // A hash that is the same for two prices, or differs for what changes none, is of no use.
      const bool can_change = row.effect == SettingEffect::Price;
      CHECK((after.identity != before.identity) == can_change);
      if (!can_change) CHECK(after.price.step == before.price.step);
    }
  }

  TEST_CASE("every degree: flag, plan file and answer give one price and one identity") {
    for (const DegreeRow& row : degree_table()) {
      CAPTURE(row.key);
      REQUIRE(kDegrees.contains(row.degree));
      const Example& example = kDegrees.at(row.degree);
      ProblemRequest request = question(example);
      const Priced before = priced(complete_from_plan(request, {}));
      const auto value = parse_value(row.degree, example.value);
      REQUIRE(value.has_value());
      request.degrees.pin(row.degree, *value);
      const Priced after = by_all_roads(request);
      const bool same_plan = row.degree == Degree::Data;  // what the GPUs leave anyway
      CHECK((after.identity != before.identity) == !same_plan);
    }
  }

  TEST_CASE("an order without chunks has as many on every road") {
    for (const char* order : {"interleaved", "zb-v", "1f1b"}) {
      CAPTURE(order);
      const PinnedDegrees degrees{{Degree::Pipeline, 2},
                                  {Degree::Schedule, int(*find_schedule(order))}};
      static_cast<void>(by_all_roads(question({"", {}, degrees})));
    }
  }

  TEST_CASE("an answer is read as strictly as a plan file") {
    const test::TemporaryDirectory directory;
    const std::string answer = directory.path() / "answer.json";
    static_cast<void>(priced(complete_from_plan(question({"", {}}), {}), answer));
    const std::string text = io::read_file(answer);
    const auto error_after = [&](const std::string& from, const std::string& to) {
      std::string edited = text;
      const std::size_t at = edited.find(from);
      REQUIRE(at != std::string::npos);
      edited.replace(at, from.size(), to);
      try {
        const auto path = directory.write("edited.json", edited);
        static_cast<void>(complete_from_plan({}, path.string() + "#1"));
      } catch (const InputError& error) {
        return error.formatted();
      }
      return std::string("no error");
    };
    const auto has = [](const std::string& error, const char* part) {
      CAPTURE(error);
      CHECK(error.find(part) != std::string::npos);
    };
    has(error_after("\"tp\": 2", "\"tp\": 4"), "tp is 4 here, but the degrees of the plan give 2");
    has(error_after("\"tp\": 2", "\"tensor\": 8, \"tp\": 2"), "'tensor'");
    has(error_after("\"micro_batches\": 16", "\"micro_batches\": 8"), "micro_batches is 8");
    has(error_after("\"global_batch\": 32", "\"global_batch\": 1024"), "batch is 1024 here");
    has(error_after("\"gpus\": 8", "\"gpus\": 16"), "gpus is 16 here");
    has(error_after("\"value\": \"bf16\"", "\"value\": 3"), "'3' is none of fp32");
    has(error_after("\"key\": \"precision\"", "\"key\": \"prescision\""), "unknown setting");
  }
}

}  // namespace
}  // namespace plansearch::setting_roads_test
