// SPDX-License-Identifier: Apache-2.0
// The table of exporters: nothing a plan decides can be left unsaid. Whole files are read back in
// tests/exporters.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "exporters/export_plan.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch::exporters::exporters_test {
namespace {

const Targets& targets() {
  static const Targets kTargets(shipped_data().directory());
  return kTargets;
}

ExportRequest request_of(const PlanDegrees& degrees, const std::string& model = "llama3-8b") {
  ProblemRequest request;
  request.hardware = "dgx-h100";
  request.model = model;
  request.gpus = degrees.devices();
  request.batch = degrees.global_batch();
  const ResolvedQuestion settled = load_problem(request);
  ExportRequest h;
  h.problem = with_gpus(settled, degrees.devices());
  const auto plan = expand(degrees, *h.problem.network, *h.problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  const auto found =
      plan_stages(std::get<ParallelPlan>(plan), *h.problem.network, *h.problem.framework);
  REQUIRE(std::holds_alternative<PlanStages>(found));
  h.degrees = std::get<PlanStages>(found).degrees;
  h.stages = std::get<PlanStages>(found).stages;
  h.positions = std::get<PlanStages>(found).positions;
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

/// Fields that neither the keys nor the lists of lacking traits know.
bool has_unknown_parts(ModelDescription m) {
  const ModelDescription none;
  m.name = m.source = {};
  m.layers = m.hidden = m.mtp_layers = 0;
  m.stack = none.stack;
  m.max_positions = none.max_positions;
  m.dropout = m.attention_dropout = 0.0;
  m.decoder = none.decoder;
  m.vision = none.vision;
  m.tower = none.tower;  // a question without images has none
  m.graph = none.graph;
  m.mlp = none.mlp;
  auto& a = m.attention;
  a.heads = a.kv_heads = a.head_size = a.relative_buckets = a.full_attention_every = 0;
  a.query_key_value_bias = a.output_bias = a.sinks = false;
  a.fused_projection = a.repeats_heads = false;  // how the model's own code runs, not what it is
  a.qk_norm = QkNorm::None;
  a.positions = PositionKind::None;
  a.window.reset();
  a.window_kind = none.attention.window_kind;
  a.leading_full = 0;
  a.full_layers.clear();
  a.latent.reset();
  m.norm.first_norm = none.norm.first_norm;
  m.norm.kind = none.norm.kind;
  m.norm.placement = none.norm.placement;
  m.norm.final_norm = none.norm.final_norm;
  auto& e = m.embedding;
  e.vocab = e.position_rows = e.token_types = 0;
  e.tied = e.norm = e.head_bias = e.pooler = false;
  e.width.reset();
  e.head_transform = HeadTransform::None;
  e.predicted = none.embedding.predicted;
  m.moe.reset();       // every field has its key or its trait
  m.list = none.list;  // as do these
  m.streams = none.streams;
  a.index.reset();
  a.pool.reset();
  a.value_size.reset();
  a.query_rank.reset();
  a.gate = none.attention.gate;
  a.value_is_key = false;
  a.output_groups = a.output_rank = 0;
  auto& t = m.training;
  t.assumed = none.training.assumed;
  t.seq_len = t.global_batch = 0;
  t.precision.reset();
  t.optimizer = none.training.optimizer;
  t.frozen.clear();
  t.lora.reset();  // a setting (export_request.hpp)
  return !(m == none);
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

/// What is wrong with a file of a target: line, message and remedy; empty where it is read.
std::string problem_of(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("plansearch-target-" + std::to_string(::getpid()) + ".yaml");
  std::ofstream(path) << text;
  std::string problem;
  try {
    static_cast<void>(read_target(path));
  } catch (const InputError& error) {
    problem = std::to_string(error.where().line) + ": " + error.what() + "; " + error.hint();
  }
  std::filesystem::remove(path);
  return problem;
}

/// A target whose document has these keys.
std::string file_with(const std::string& keys, const std::string& more = {}) {
  return "schema: plansearch/export/v1\ntitle: t\nchecked: c\naccepts: {schedule: [1f1b]}\n"
         "documents:\n  - array: A\n    keys:\n      " +
         keys + "\nlaunch: {script: a.py, arguments: b}\n" + more;
}

TEST_CASE("exporters: files of targets are strict, with the place and the remedy") {
  const std::string row = "documents[0].keys.--tp";
  CHECK(problem_of(file_with("--tp: tp")).empty());
  CHECK(problem_of(file_with("--tp: tpp")) ==
        "8: " + row + ": 'tpp' is not a fact of a plan; did you mean pp, tp or tp_x?");
  CHECK(problem_of(file_with("--tp: {fact: tp, says: [tensor]}")) ==
        "8: " + row + ".says: 'tensor' is not a setting; did you mean overlap tensor?");
  CHECK(problem_of(file_with("--tp: {fact: tp, colour: red}"))
            .starts_with("8: unknown key 'colour'"));
  CHECK(problem_of(file_with("--tp: {words: {}}")).find("fact") != std::string::npos);
  CHECK(problem_of(file_with("--tp: tp", "lacks: [nothing]\n")) ==
        "10: lacks[0]: 'nothing' is not a trait of networks; docs/export.md says where the names "
        "are");
  CHECK(problem_of(file_with("--tp: tp", "conflicts: {nothing: words}\n"))
            .starts_with("10: conflicts.nothing: 'nothing' is not a fact of a plan; "));
  CHECK(problem_of(file_with("--tp: tp", "reads: megatrn\n"))
            .starts_with("10: reads: 'megatrn' is not a reader; did you mean megatron"));
  CHECK(problem_of(file_with("--tp: tp", "colour: red\n")).starts_with("10: unknown key 'colour'"));
}

TEST_CASE("exporters: the example of the documentation is a target") {
  std::ifstream file(shipped_data().directory() / "docs" / "export.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const auto begin = page.find("```yaml\n") + 8;
  CHECK(problem_of(page.substr(begin, page.find("```", begin) - begin)).empty());
}

TEST_CASE("exporters: the names that import takes are those that are read") {
  const auto readable = targets().readable_names();
  for (const Exporter* exporter : targets().all()) {
    CAPTURE(exporter->name);
    const bool named =
        std::find(readable.begin(), readable.end(), exporter->name) != readable.end();
    CHECK(named == static_cast<bool>(exporter->start));
  }
}

TEST_CASE("exporters: every setting a target takes by key has a key") {
  for (const Exporter* found : targets().all()) {
    const Exporter& exporter = *found;
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
  for (const Exporter* found : targets().all()) {
    const Exporter& exporter = *found;
    for (const DegreeRow& row : degree_table()) {
      const Accepts* accepts = find_accepts(exporter, setting_of(row.degree));
      if (accepts == nullptr) continue;
      for (const std::string& value : accepts->values) {
        CAPTURE(exporter.name);
        CAPTURE(value);
        CHECK(parse_value(row.degree, value).has_value());
      }
    }
  }
}

TEST_CASE("exporters: a key that is taken away makes its plans inexpressible") {
  const ExportRequest request = request_of(many_degrees());
  const Exporter* megatron = targets().find("megatron");
  REQUIRE(megatron != nullptr);
  CHECK(refusals(*megatron, request).empty());
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
    CHECK(mentions(refusals(without, request), words) == !neutral);
  }
}

TEST_CASE("exporters: a setting without a line takes its neutral value only") {
  Exporter nothing = *targets().find("megatron");
  nothing.accepts.clear();
  const auto found = refusals(nothing, request_of(many_degrees()));
  for (const char* words : {"dp 2", "pp 2", "vpp 2", "tp 2", "cp 2", "zero 1", "sp 1",
                            "recompute full", "schedule interleaved", "seq_len 8192", "gpus 16"}) {
    CAPTURE(words);
    CHECK(mentions(found, words));
  }
  CHECK_FALSE(mentions(found, "ep 1"));
}

TEST_CASE("exporters: a field of descriptions has a key or a trait that targets may lack") {
  for (const ShippedFile& file : shipped_data().models()) {
    CAPTURE(file.name);
    CHECK_FALSE(has_unknown_parts(shipped_data().model(file.name).description));
  }
}

TEST_CASE("exporters: a switch that the user turns off asks nothing of a target") {
  Exporter nothing = *targets().find("megatron");
  nothing.accepts.clear();
  const auto found = [&](const SettingRow& row, const std::string& value) {
    ExportRequest request = request_of(many_degrees());
    row.set(request.chosen, value);
    return mentions(refusals(nothing, request), fmt::format("{} {}", row.key, value));
  };
  int switches = 0;
  for (const SettingRow& row : setting_table()) {
    if (row.type != "0|1") continue;
    CAPTURE(row.key);
    CHECK_FALSE(found(row, "0"));
    CHECK(found(row, "1"));
    ++switches;
  }
  CHECK(switches >= 4);
  CHECK_FALSE(found(row_of(plansearch::Setting::Task), "pretrain"));
  CHECK_FALSE(found(row_of(plansearch::Setting::Passes), "none"));
  CHECK(found(row_of(plansearch::Setting::Passes), "all"));
}

TEST_CASE("exporters: what makes no difference is not asked for") {
  PlanDegrees d;
  d.zero = ZeroStage::Parameters;  // of one rank
  d.schedule = find_schedule("gpipe").value();
  const ExportRequest request = request_of(d);
  CHECK_FALSE(matters(setting_of(Degree::Zero), request));
  CHECK_FALSE(matters(setting_of(Degree::Schedule), request));
  CHECK_FALSE(matters(setting_of(Degree::ContextKind), request));
  CHECK_FALSE(matters(Setting::Layers, request));
  CHECK(refusals(*targets().find("nanotron"), request).empty());
  d.schedule = find_schedule("pairs").value();  // of one stage, and no other order's
  CHECK(matters(setting_of(Degree::Schedule), request_of(d)));
  CHECK(mentions(refusals(*targets().find("nanotron"), request_of(d)), "schedule pairs"));
}

TEST_CASE("exporters: rank orders are compared on the axes in use") {
  PlanDegrees d;
  d.data = 2;
  d.tensor_out = 2;
  ExportRequest request = request_of(d);
  Framework framework = *request.problem.framework;
  framework.rank_order = {Axis::Context, Axis::Out, Axis::Pipeline,
                          Axis::Data,    Axis::In,  Axis::Depth};
  request.problem.framework = std::make_shared<const Framework>(framework);
  CHECK(value_of(Setting::RankOrder, request) == "tp-dp");
  CHECK(refusals(*targets().find("nanotron"), request).empty());
  std::swap(framework.rank_order[1], framework.rank_order[3]);
  request.problem.framework = std::make_shared<const Framework>(framework);
  CHECK(mentions(refusals(*targets().find("nanotron"), request), "rank_order dp-tp"));
}

TEST_CASE("exporters: overlap is asked for where the user chose it") {
  PlanDegrees d;
  d.data = 4;
  ExportRequest request = request_of(d);
  Framework framework = *request.problem.framework;
  framework.overlap.fill({});
  request.problem.framework = std::make_shared<const Framework>(framework);
  const Exporter& titan = *targets().find("torchtitan");
  request.degrees.zero = ZeroStage::Parameters;
  CHECK(refusals(titan, request).empty());
  request.chosen.overlap = "none";
  CHECK(mentions(refusals(titan, request), "overlap grad off"));
  CHECK(refusals(*targets().find("megatron"), request).empty());
}

TEST_CASE("exporters: user buffers are asked for inside one node") {
  const auto asked = [](int tensor) {
    PlanDegrees d;
    d.tensor_out = tensor;
    d.sequence_parallel = SequenceParallel::On;
    const ExportRequest request = request_of(d);
    for (const Key& key : targets().find("megatron")->documents.front().keys) {
      if (key.name == "--tp-comm-overlap") return key.value(request);
    }
    return Value();
  };
  CHECK(asked(8) == Value(true));
  CHECK(asked(16) == Value());
}

TEST_CASE("exporters: a setting that somebody chose is claimed or refused by name") {
  PlanDegrees d;
  d.data = 4;
  d.zero = ZeroStage::Parameters;
  d.recompute = Recompute::Selective;
  const std::set<plansearch::Setting> elsewhere{
      plansearch::Setting::Hardware,  plansearch::Setting::Model,
      plansearch::Setting::Framework, plansearch::Setting::Gpus,
      plansearch::Setting::Batch,     plansearch::Setting::SequenceLength,
      plansearch::Setting::Precision, plansearch::Setting::Optimizer,
      plansearch::Setting::Attention, plansearch::Setting::RankOrder,
      plansearch::Setting::Overlap,   plansearch::Setting::Site,
      plansearch::Setting::Operators};
  for (const SettingRow& row : setting_table()) {
    if (row.effect != SettingEffect::Price || elsewhere.contains(row.setting)) continue;
    for (const Exporter* found : targets().all()) {
      const Exporter& exporter = *found;
      CAPTURE(row.key);
      CAPTURE(exporter.name);
      ExportRequest request = request_of(d);
      row.set(request.chosen, row.kind == SettingKind::Count            ? "7"
                              : row.kind == SettingKind::Share          ? "0.25"
                              : row.setting == plansearch::Setting::Set ? "framework.layers=7"
                                                                        : "word");
      const bool refused = mentions(refusals(exporter, request), row.key);
      const Accepts* accepts = find_accepts(exporter, setting_of(row.setting));
      const bool any = accepts != nullptr && accepts->values.empty();
      const bool script = any && accepts->by == By::Script;
      // No key says "word", but that documents are packed, however long they are.
      const bool packs = accepts != nullptr && row.setting == plansearch::Setting::Packing;
      CHECK(refused != (script || packs || exporter.traces));
    }
  }
}

TEST_CASE("exporters: scripts train on texts and on examples, and on pairs where a key says it") {
  PlanDegrees d;
  d.data = 4;
  for (const std::string_view name : {"megatron", "torchtitan", "axolotl"}) {
    CAPTURE(name);
    ExportRequest request = request_of(d);
    request.chosen.task = "sft";
    CHECK_FALSE(mentions(refusals(*targets().find(name), request), "task"));
    request.chosen.task = "dpo";
    CHECK(mentions(refusals(*targets().find(name), request), "task") == (name != "axolotl"));
  }
}

TEST_CASE("exporters: submeshes of Alpa are parts of a host, or whole hosts") {
  const Exporter& alpa = *targets().find("alpa");
  const auto value = [&](const ExportRequest& request, std::string_view name) {
    for (const Key& key : alpa.documents.front().keys) {
      if (key.name == name) return key.value(request).dump();
    }
    return std::string();
  };
  PlanDegrees d;  // two stages of 4 x 2 GPUs, hosts of 8
  d.data = 4;
  d.tensor_out = 2;
  d.pipeline = 2;
  ExportRequest request = request_of(d);
  CHECK(value(request, "stage_option.submesh_physical_shapes") == "[[1,8],[1,8]]");
  CHECK(value(request, "stage_option.submesh_logical_shapes") == "[[4,2],[4,2]]");
  CHECK(refusals(alpa, request).empty());
  d.data = 8;  // of 8 x 2: two hosts each
  request = request_of(d);
  CHECK(value(request, "stage_option.submesh_physical_shapes") == "[[2,8],[2,8]]");
  CHECK(value(request, "stage_option.submesh_logical_shapes") == "[[8,2],[8,2]]");
  // Stages that differ are for targets that say so.
  request.positions.back().data = 4;
  request.differ.insert(Degree::Data);
  request.difference = "the stages differ in dp: 4, 8";
  CHECK(value(request, "stage_option.submesh_logical_shapes") == "[[8,2],[4,2]]");
  CHECK_FALSE(mentions(refusals(alpa, request), "differ"));
  CHECK(mentions(refusals(*targets().find("megatron"), request), "the stages differ in dp: 4, 8"));
}

TEST_CASE("exporters: a Kubernetes job has one master, and workers for the other nodes") {
  PlanDegrees d;
  d.data = 24;
  d.micro_batches = 1;
  const ExportRequest request = request_of(d);  // three nodes of eight
  const std::string job = kubernetes_job(request, {}, "run $(date) $NAME $$");
  const std::size_t worker = job.find("Worker");
  REQUIRE(worker != std::string::npos);
  CHECK(job.find("replicas: 1") < worker);
  CHECK(job.find("replicas: 2", worker) != std::string::npos);
  CHECK(job.find("nvidia.com/gpu: 8") != std::string::npos);
  // Kubernetes would replace $(date), and read $$ as one.
  CHECK(job.find("run $$(date) $NAME $$$") != std::string::npos);
  d.data = 8;
  CHECK(kubernetes_job(request_of(d), {}, "run").find("Worker") == std::string::npos);
}

TEST_CASE("exporters: torchtitan's registered network, or none") {
  PlanDegrees d;
  d.data = 4;
  d.zero = ZeroStage::Parameters;
  ExportRequest request = request_of(d);
  const auto notes = [&] { return targets().find("torchtitan")->notes(request); };
  CHECK(notes().empty());
  // As many layers, heads and words, but a wider MLP: another network.
  ModelDescription wide = request.model();
  wide.mlp.width = 28672;
  request.problem.network = std::make_shared<const Network>(build_network(wide));
  request.problem.model = std::make_shared<const ModelDescription>(wide);
  REQUIRE(notes().size() == 1);
  CHECK(notes().front().find("register one") != std::string::npos);
}

TEST_CASE("exporters: what Megatron-LM can say of a network") {
  PlanDegrees d;
  d.data = 4;
  const Exporter& megatron = *targets().find("megatron");
  for (const char* model : {"gpt2", "gpt2-xl", "gpt-oss-20b", "llama3-8b", "mixtral-8x7b"}) {
    CAPTURE(model);
    CHECK(refusals(megatron, request_of(d, model)).empty());
  }
  CHECK(mentions(refusals(megatron, request_of(d, "opt-1.3b")), "activation"));
  const auto value = [&](const char* model, std::string_view name) {
    const ExportRequest request = request_of(d, model);
    for (const Key& key : megatron.documents.front().keys) {
      if (key.name == name) return key.value(request);
    }
    return Value();
  };
  CHECK(value("mixtral-8x7b", "--ffn-hidden-size") == 14336);  // all layers have experts
  CHECK(value("gpt-oss-20b", "--quick-geglu") == true);
  CHECK(value("gpt-oss-20b", "--swiglu").is_null());
  CHECK(value("deepseek-v3", "--moe-router-dtype") == "fp32");
  ExportRequest muon = request_of(d);
  muon.optimizer = "muon";
  muon.degrees.zero = ZeroStage::Gradients;
  CHECK(mentions(refusals(megatron, muon), "Megatron-FSDP"));
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
}  // namespace plansearch::exporters::exporters_test
