// SPDX-License-Identifier: Apache-2.0
// Source: PKU-DAIR/Hetu-Galvatron@cea12ffb (2026-06-16)
//   galvatron/core/runtime/hybrid_parallel_config.py: get_hybrid_parallel_configs_api
//   galvatron/utils/config_utils.py: config2strategy, str2array
//   galvatron/core/runtime/args_schema.py: GalvatronParallelArgs, CommonTrainArgs
//   (sequence_parallel)
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/fact.hpp"
#include "exporters/readers.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

/// Ulysses exchanges heads inside the group that tensor parallelism would have.
bool ulysses(const ExportRequest& h) {
  return h.degrees.context > 1 && h.degrees.context_kind == ContextKind::Ulysses;
}
int group(const ExportRequest& h) {
  return ulysses(h) ? h.degrees.context : h.degrees.tensor_out;
}
int ring(const ExportRequest& h) {
  return ulysses(h) ? 1 : h.degrees.context;
}

/// "2,2,2": one number for every layer.
Value each_layer(const ExportRequest& h, int number) {
  const std::vector<int> numbers(static_cast<std::size_t>(h.model().layers), number);
  return Value(fmt::format("{}", fmt::join(numbers, ",")));
}

/// A partly recomputed stage recomputes its first layers.
Value checkpoints(const ExportRequest& h) {
  std::vector<int> flags;
  for (const StageContent& stage : h.stages) {
    const std::int64_t most =
        h.degrees.recompute_layers > 0 ? h.degrees.recompute_layers : stage.layers;
    for (std::int64_t layer = 0; layer < stage.layers; ++layer)
      flags.push_back(h.degrees.recompute == Recompute::Full && layer < most ? 1 : 0);
  }
  return Value(fmt::format("{}", fmt::join(flags, ",")));
}

Value division(const ExportRequest& h) {
  std::vector<std::int64_t> layers;
  for (const StageContent& stage : h.stages) layers.push_back(stage.layers);
  return Value(fmt::format("{}", fmt::join(layers, ",")));
}

std::string default_type(const ExportRequest& h) {
  if (h.degrees.zero == ZeroStage::None || !h.sharded()) return "ddp";
  return h.degrees.zero == ZeroStage::Parameters ? "zero3" : "zero2";
}

/// The numbers of "2,2,2".
std::vector<std::int64_t> numbers_in(const Value& value) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : split(text_in(value), ","))
    numbers.push_back(whole_number(Value(word), 0));
  if (numbers.empty() || numbers.size() > 100'000) throw WrongValue("not a list of numbers");
  return numbers;
}

/// The number that all layers have.
int common(const Value& value, int low = 1) {
  const auto numbers = numbers_in(value);
  const auto other =
      std::ranges::find_if(numbers, [&](std::int64_t number) { return number != numbers.front(); });
  if (other != numbers.end())
    throw WrongValue(
        fmt::format("layers of {} and of {}: a plan file says stages of their own "
                    "degrees, not layers",
                    numbers.front(), *other));
  return count_in(Value(numbers.front()), low);
}

template <auto Field>
void read_common(Reading& r, const Value& v) {
  r.degrees.*Field = common(v);
}

void read_division(Reading& r, const Value& v) {
  const auto layers = numbers_in(v);
  for (std::size_t p = 0; p < layers.size(); ++p)
    r.stages.push_back({p == 0, layers[p], 0, p + 1 == layers.size()});
}

void settle_recompute(Reading& r) {
  if (!r.says("checkpoint")) return;
  const auto flags = numbers_in(r.value("checkpoint"));
  std::size_t next = 0;
  std::vector<std::int64_t> counts;
  for (const StageContent& stage : r.stages) {
    std::int64_t first = 0, all = 0;
    for (std::int64_t layer = 0; layer < stage.layers && next < flags.size(); ++layer, ++next) {
      if (flags[next] == 0) continue;
      first += layer == all ? 1 : 0;
      ++all;
    }
    if (first != all || (!counts.empty() && counts.front() != first))
      throw Unsettled("recomputed layers that are not the first of every stage, as many in each",
                      "a plan file with stages: says recompute of each");
    counts.push_back(first);
  }
  if (counts.empty() || counts.front() == 0) return;
  r.degrees.recompute = Recompute::Full;
  const bool whole = std::ranges::all_of(
      r.stages, [&](const StageContent& stage) { return stage.layers == counts.front(); });
  if (!whole) r.degrees.recompute_layers = static_cast<int>(counts.front());
}

}  // namespace

// clang-format off
Facts galvatron_facts() {
  return {
      {"group_of_layers", {s(D::TensorOut)}, [](H h) { return each_layer(h, group(h)); }, read_common<&PlanDegrees::tensor_out>},
      {"neighbours_of_layers", {S::RankOrder}, [](H h) { return each_layer(h, 1); },
       [](R, V v) { if (common(v, 0) == 0) throw WrongValue("tensor groups of devices that are not neighbours"); }},
      {"usual_type_of_layers", {s(D::Zero)}, [](H h) { return each_layer(h, 0); }},
      {"ulysses_of_layers", {s(D::ContextKind)}, [](H h) { return each_layer(h, ulysses(h) ? 1 : 0); }},
      {"ring_of_layers", {s(D::Context)}, [](H h) { return each_layer(h, ring(h)); }, read_common<&PlanDegrees::context>},
      {"ep_of_layers", {s(D::Expert)}, [](H h) { return h.model().moe ? each_layer(h, h.degrees.expert) : Value(); },
       read_common<&PlanDegrees::expert>},
      {"etp_of_layers", {s(D::ExpertTensor)},
       [](H h) { return h.model().moe ? each_layer(h, h.degrees.expert_tensor) : Value(); }, read_common<&PlanDegrees::expert_tensor>},
      {"recompute_of_layers", {s(D::Recompute), s(D::RecomputeLayers)}, checkpoints},
      {"layers_of_stages", {S::Layers}, division, read_division},
      {"default_type", {s(D::Zero)}, [](H h) { return Value(default_type(h)); }},
      {"group", {s(D::TensorOut)}, [](H h) { return Value(group(h)); }},
      {"ulysses_group", {s(D::ContextKind)}, [](H h) { return Value(ulysses(h) ? 1 : 0); }},
      {"ring", {s(D::Context)}, [](H h) { return Value(ring(h)); }},
      {"vocabulary_sharded", {s(D::Zero)}, [](H h) { return Value(default_type(h) == "zero3" ? 1 : 0); }},
      {"tensor_beside_ulysses", {}, [](H h) { return Value(ulysses(h) && h.degrees.tensor_out > 1); }},
      {"sharded_in_replicas", {}, [](H h) { return Value(h.sharded() && h.shard_ranks() != h.degrees.data); }},
  };
}
// clang-format on

/// utils/config_utils.py: config2strategy, and defaults of args_schema.py.
void start_galvatron(Reading& r) {
  r.asked.framework = "megatron";
  r.asked.optimizer = "adam";
  r.degrees.data = 0;
  r.degrees.micro_batch = 0;
  r.degrees.sequence_parallel = SequenceParallel::On;
}

void settle_galvatron(Reading& r) {
  PlanDegrees& d = r.degrees;
  const std::string type = r.key_word("default_dp_type", "ddp");
  if (type == "zero2") d.zero = ZeroStage::Gradients;
  if (type == "zero3") d.zero = ZeroStage::Parameters;
  if (r.says("dp_types_enc") && common(r.value("dp_types_enc"), 0) == 1)
    d.zero = ZeroStage::Parameters;
  if (r.says("use_sp") && common(r.value("use_sp"), 0) == 1 && d.tensor_out > 1) {
    d.context = d.tensor_out;
    d.tensor_out = 1;
    d.context_kind = ContextKind::Ulysses;
  }
  if (d.tensor_out == 1) d.sequence_parallel = SequenceParallel::Off;
  const std::string order = r.key_word("pipeline_type", "gpipe");
  if (d.pipeline > 1 && order == "gpipe") d.schedule = find_schedule("gpipe").value();
  if (r.stages.empty() && r.says("tp_sizes_enc")) {
    const auto layers = static_cast<std::int64_t>(numbers_in(r.value("tp_sizes_enc")).size());
    for (int p = 0; p < d.pipeline; ++p) {  // the last stage takes what is left
      const std::int64_t each = layers / d.pipeline;
      r.stages.push_back(
          {p == 0, p + 1 == d.pipeline ? layers - each * p : each, 0, p + 1 == d.pipeline});
    }
  }
  if (r.stages.size() != static_cast<std::size_t>(d.pipeline))
    throw Unsettled(
        fmt::format("pp_division has {} stages, pp_deg is {}", r.stages.size(), d.pipeline),
        "another file");
  settle_recompute(r);
  settle_ranks(r);
  const std::int64_t pieces = std::int64_t{1} * d.data * std::max(d.micro_batches, 1);
  if (!r.asked.batch || *r.asked.batch % pieces != 0)
    throw Unsettled(fmt::format("global_bsz does not go into {} chunks on {} data ranks",
                                d.micro_batches, d.data),
                    "--batch N, --gpus N, or another file");
  d.micro_batch = static_cast<int>(*r.asked.batch / pieces);
  settle_batch(r);
  r.notes.emplace_back("network, sequence length and format are in the file of the runtime");
  const int group =
      d.context_kind == ContextKind::Ulysses && d.context > 1 ? d.context : d.tensor_out;
  if (r.says("vtp") && count_in(r.value("vtp"), 0) != group)
    r.notes.emplace_back(
        "embedding and head have a tensor degree of their own (vtp): priced as the layers'");
}

}  // namespace plansearch::exporters
