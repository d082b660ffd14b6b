// SPDX-License-Identifier: Apache-2.0
// The table of exporters: nothing a plan decides can be left unsaid. Whole files are read back in
// tests/exporters.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "exporters/export_plan.hpp"
#include "plan/expand.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch::exporters {
namespace {

Handover handover_of(const PlanDegrees& degrees, const std::string& model = "llama3-8b") {
  ProblemRequest request;
  request.hardware = "dgx-h100";
  request.model = model;
  request.gpus = degrees.devices();
  request.batch = degrees.global_batch();
  const SettledProblem settled = load_problem(request);
  Handover h;
  h.problem = with_gpus(settled, degrees.devices());
  const auto plan = expand(degrees, *h.problem.network, *h.problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  const auto equal =
      equal_stages(std::get<ParallelPlan>(plan), *h.problem.network, *h.problem.framework);
  REQUIRE(std::holds_alternative<EqualStages>(equal));
  h.degrees = std::get<EqualStages>(equal).degrees;
  h.stages = std::get<EqualStages>(equal).stages;
  h.own_stages = h.stages;
  h.optimizer = "adam";
  h.attention = "flash";
  return h;
}

/// Tensor, context and pipeline ranks with chunks: 2 x 2 x 2 x 2 = 16 GPUs.
PlanDegrees many_degrees() {
  PlanDegrees d;
  d.data = 2;
  d.tensor_out = 2;
  d.context = 2;
  d.pipeline = 2;
  d.chunks = 2;
  d.micro_batches = 8;
  d.zero = ZeroStage::Optimizer;
  d.sequence_parallel = SequenceParallel::On;
  d.recompute = Recompute::Full;
  d.schedule = find_schedule("interleaved").value();
  return d;
}

bool mentions(const std::vector<Refusal>& refusals, std::string_view words) {
  return std::any_of(refusals.begin(), refusals.end(), [&](const Refusal& refusal) {
    return refusal.what.find(words) != std::string::npos;
  });
}

std::set<Setting> settings_with_keys(const Exporter& exporter) {
  std::set<Setting> said;
  for (const Document& document : exporter.documents) {
    for (const Key& key : document.keys) said.insert(key.says.begin(), key.says.end());
  }
  return said;
}

TEST_CASE("exporters: every setting a target takes by key has a key") {
  for (const Exporter& exporter : exporter_table()) {
    const std::set<Setting> said = settings_with_keys(exporter);
    for (const Accepts& accepts : exporter.accepts) {
      if (accepts.by != By::Key) continue;
      CAPTURE(exporter.name);
      CAPTURE(name_of(accepts.setting));
      CHECK(said.contains(accepts.setting));
    }
    for (const Setting setting : said) {
      CAPTURE(exporter.name);
      CAPTURE(name_of(setting));
      CHECK(find_accepts(exporter, setting) != nullptr);
    }
  }
}

TEST_CASE("exporters: accepted values are values of their degree") {
  for (const Exporter& exporter : exporter_table()) {
    for (const DegreeRow& row : degree_table()) {
      const Accepts* accepts = find_accepts(exporter, setting_of(row.degree));
      if (accepts == nullptr) continue;
      for (const std::string_view value : accepts->values) {
        CAPTURE(exporter.name);
        CAPTURE(value);
        CHECK(parse_value(row.degree, value).has_value());
      }
    }
  }
}

TEST_CASE("exporters: a key that is taken away makes its plans inexpressible") {
  const Handover handover = handover_of(many_degrees());
  const Exporter* megatron = find_exporter("megatron");
  REQUIRE(megatron != nullptr);
  CHECK(refusals(*megatron, handover).empty());
  const std::vector<std::pair<std::string, std::string>> only_keys{
      {"--tensor-model-parallel-size", "tp 2"},
      {"--context-parallel-size", "cp 2"},
      {"--sequence-parallel", "sp 1"},
      {"--use-distributed-optimizer", "zero 1"},
      {"--micro-batch-size", "micro_batch 1"},
      {"--seq-length", "seq_len 8192"},
      {"--global-batch-size", "micro_batches 8"},
      {"--cp-comm-type", "cp_kind ring"},
      {"--num-layers-per-virtual-pipeline-stage", "vpp 2"}};
  for (const auto& [name, words] : only_keys) {
    Exporter without = *megatron;
    std::erase_if(without.documents.front().keys, [&](const Key& key) { return key.name == name; });
    CAPTURE(name);
    const bool neutral = words == "micro_batch 1" || words == "cp_kind ring";
    CHECK(mentions(refusals(without, handover), words) == !neutral);
  }
}

TEST_CASE("exporters: a setting without a line takes its neutral value only") {
  Exporter nothing = *find_exporter("megatron");
  nothing.accepts.clear();
  const auto found = refusals(nothing, handover_of(many_degrees()));
  for (const char* words : {"dp 2", "pp 2", "vpp 2", "tp 2", "cp 2", "zero 1", "sp 1",
                            "recompute full", "schedule interleaved", "seq_len 8192", "gpus 16"}) {
    CAPTURE(words);
    CHECK(mentions(found, words));
  }
  CHECK_FALSE(mentions(found, "ep 1"));
}

TEST_CASE("exporters: what makes no difference is not asked for") {
  PlanDegrees d;
  d.zero = ZeroStage::Parameters;  // of one rank
  d.schedule = find_schedule("gpipe").value();
  const Handover handover = handover_of(d);
  CHECK_FALSE(matters(setting_of(Degree::Zero), handover));
  CHECK_FALSE(matters(setting_of(Degree::Schedule), handover));
  CHECK_FALSE(matters(setting_of(Degree::ContextKind), handover));
  CHECK_FALSE(matters(Setting::Layers, handover));
  CHECK(refusals(*find_exporter("nanotron"), handover).empty());
}

TEST_CASE("exporters: rank orders are compared on the axes in use") {
  PlanDegrees d;
  d.data = 2;
  d.tensor_out = 2;
  Handover handover = handover_of(d);
  Framework framework = *handover.problem.framework;
  framework.rank_order = {Axis::Context, Axis::Out, Axis::Pipeline,
                          Axis::Data,    Axis::In,  Axis::Depth};
  handover.problem.framework = std::make_shared<const Framework>(framework);
  CHECK(value_of(Setting::RankOrder, handover) == "tp-dp");
  CHECK(refusals(*find_exporter("nanotron"), handover).empty());
  std::swap(framework.rank_order[1], framework.rank_order[3]);
  handover.problem.framework = std::make_shared<const Framework>(framework);
  CHECK(mentions(refusals(*find_exporter("nanotron"), handover), "rank_order dp-tp"));
}

TEST_CASE("exporters: overlap is asked for where the user chose it") {
  PlanDegrees d;
  d.data = 4;
  Handover handover = handover_of(d);
  Framework framework = *handover.problem.framework;
  framework.overlap.fill({});
  handover.problem.framework = std::make_shared<const Framework>(framework);
  const Exporter& titan = *find_exporter("torchtitan");
  handover.degrees.zero = ZeroStage::Parameters;
  CHECK(refusals(titan, handover).empty());
  handover.overlap_chosen = true;
  CHECK(mentions(refusals(titan, handover), "overlap grad off"));
  CHECK(refusals(*find_exporter("megatron"), handover).empty());
}

TEST_CASE("exporters: even stages") {
  const std::vector<StageContent> even{
      {true, 4, 0, false}, {false, 4, 0, false}, {false, 4, 1, true}};
  CHECK(is_even(even));
  std::vector<StageContent> uneven = even;
  uneven[1].layers = 5;
  CHECK_FALSE(is_even(uneven));
  uneven = even;
  std::swap(uneven[1].head, uneven[2].head);
  CHECK_FALSE(is_even(uneven));
  CHECK(stages_text(even) == "embedding+4, 4, 4+head");
}

}  // namespace
}  // namespace plansearch::exporters
