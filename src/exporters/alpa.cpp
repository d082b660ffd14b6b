// SPDX-License-Identifier: Apache-2.0
// Alpa: the parallel method of a training step, with every stage and its submesh written out.
//
// Source: alpa-projects/alpa@b8078a9f (2023-12-09)
//   alpa/parallel_method.py: PipeshardParallel, get_3d_parallel_method (shapes of submeshes)
//   alpa/pipeline_parallel/stage_construction.py: ManualStageOption, cluster_layers_and_slice_mesh,
//     get_sliced_virtual_submeshes (largest submeshes first, each in a host or on whole hosts)
//   alpa/pipeline_parallel/layer_construction.py: ManualLayerOption (layers between marks)
//   alpa/pipeline_parallel/compile_executable.py: shard_each_stage (options of a stage replace
//     those of the method); schedules.py: pipeline_schedule; alpa/api.py: init
// AutoStageOption would search for stages again; a plan has found them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "exporters/spelling.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

int ranks(const PlanDegrees& d) {
  return d.data * d.tensor_out;
}

Value of_positions(const ExportRequest& h,
                   Value (*value)(const ExportRequest&, const PlanDegrees&)) {
  Value list = Value::array();
  for (const PlanDegrees& d : h.positions) list.push_back(value(h, d));
  return list;
}

/// Hosts and devices of each: part of a host, or whole ones.
Value physical_shapes(const ExportRequest& h) {
  return of_positions(h, [](const ExportRequest& r, const PlanDegrees& d) {
    const int host = r.gpus_per_node();
    return ranks(d) <= host ? Value{1, ranks(d)} : Value{ranks(d) / host, host};
  });
}

/// Data, operator: the second axis lies inside hosts.
Value logical_shapes(const ExportRequest& h) {
  return of_positions(h, [](const ExportRequest& /*request*/, const PlanDegrees& d) {
    return Value{d.data, d.tensor_out};
  });
}

/// Whether reductions of gradients are scattered, and weight updates with them.
bool scatters(const PlanDegrees& d) {
  return d.data > 1 && d.zero != ZeroStage::None;
}
bool any_scatters(const ExportRequest& h) {
  return std::ranges::any_of(h.positions, scatters);
}

/// The batch is cut over the first axis of every submesh, so that the solver chooses operators
/// only.
Value stage_options(const ExportRequest& h) {
  return of_positions(h, [](const ExportRequest& r, const PlanDegrees& d) {
    Value options{{"force_batch_dim_to_mesh_dim", 0}};
    if (any_scatters(r) && d.data > 1 && !scatters(d)) options["prefer_reduce_scatter"] = false;
    return options;
  });
}

Value layer_ids(const ExportRequest& h) {
  Value list = Value::array();
  std::int64_t first = 0;
  for (const StageContent& stage : h.stages) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(stage.layers));
    std::iota(ids.begin(), ids.end(), first);
    first += stage.layers;
    list.push_back(ids);
  }
  return list;
}

bool recomputes(const PlanDegrees& d) {
  return d.recompute == Recompute::Full;
}
bool all_recompute(const ExportRequest& h) {
  return std::ranges::all_of(h.positions, recomputes);
}

Value schedule(const ExportRequest& h) {
  const std::string order = value_of(s(D::Schedule), h);
  return Value(order == "eager-1f1b" ? "1f1b_overlap_friendly" : order);
}

/// Parts of a host that do not fill hosts one after the other, largest first, as
/// get_sliced_virtual_submeshes places them.
bool leaves_gaps(const ExportRequest& h) {
  const int host = h.gpus_per_node();
  std::vector<int> sizes;
  for (const PlanDegrees& d : h.positions) sizes.push_back(ranks(d));
  std::ranges::sort(sizes, std::greater<>());
  int used = 0;
  for (const int size : sizes) {
    if (size >= host) {
      if (size % host != 0) return true;
      continue;
    }
    if (used + size > host) return true;
    used = (used + size) % host;
  }
  return used != 0;
}

bool is_apart(const ExportRequest& h) {
  for (const StageContent& stage : h.stages) {
    if (stage.layers == 0 || stage.predictions > 0) return true;
  }
  return !h.stages.front().embedding || !h.stages.back().head;
}

// clang-format off
std::vector<Key> keys() {
  return {
      key_of("init.num_nodes", "nodes"),
      key_of("init.num_devices_per_node", "node_gpus"),
      key_of("num_micro_batches", "micro_batches", {S::MicroBatches, s(D::MicroBatch)}),
      {"pipeline_schedule", {s(D::Schedule)}, schedule},
      {"default_auto_sharding_option.prefer_reduce_scatter", {s(D::Zero)},
       [](const ExportRequest& h) { return Value(any_scatters(h)); }},
      {"layer_option.remat_layer", {s(D::Recompute)}, [](const ExportRequest& h) { return Value(all_recompute(h)); }},
      {"stage_option.forward_stage_layer_ids", {S::Layers, s(D::Pipeline)}, layer_ids},
      {"stage_option.submesh_physical_shapes", {S::Gpus}, physical_shapes},
      {"stage_option.submesh_logical_shapes", {s(D::Data), s(D::TensorOut)}, logical_shapes},
      {"stage_option.submesh_autosharding_option_dicts", {s(D::Data), s(D::Zero)}, stage_options},
  };
}
// clang-format on

/// A literal of Python.
std::string python(const Value& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, member] : value.items()) {
    if (!text.empty()) text += ", ";
    text += value.is_object() ? fmt::format("\"{}\": {}", key, python(member)) : python(member);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

/// An argument of PipeshardParallel that is an object, and its class.
struct Option {
  std::string_view argument, type;
};
constexpr std::array kOptions{Option{"default_auto_sharding_option", "AutoShardingOption"},
                              Option{"layer_option", "ManualLayerOption"},
                              Option{"stage_option", "ManualStageOption"}};

/// "a=1" of the keys below `group`, or of those in no group.
std::string arguments(const Entries& entries, std::string_view group, std::string_view between) {
  std::string text;
  for (const Entry& entry : entries) {
    const auto dot = entry.name.find('.');
    const std::string own = dot == std::string::npos ? std::string() : entry.name.substr(0, dot);
    if (own != group) continue;
    if (!text.empty()) text += between;
    text += fmt::format("{}={}", entry.name.substr(dot + 1), python(entry.value));
  }
  return text;
}

/// alpa.init takes the nodes that have joined the Ray cluster by then, so all are waited for.
std::string write_python(const std::vector<std::string>& header, const Entries& entries) {
  std::string text;
  for (const std::string& line : header) text += fmt::format("# {}\n", line);
  const std::string nodes = python(entries.front().value);
  text += fmt::format(
      "import time\n\nimport alpa\nimport ray\n\n"
      "ray.init(address=\"auto\", namespace=\"alpa_default_space\")\n"
      "while sum(node[\"Alive\"] for node in ray.nodes()) < {}:\n    time.sleep(1)\n"
      "alpa.init(cluster=\"ray\", {})\n",
      nodes, arguments(entries, "init", ", "));
  text += fmt::format("parallel_method = alpa.PipeshardParallel(\n    {},\n",
                      arguments(entries, {}, ",\n    "));
  for (const Option& option : kOptions) {
    text += fmt::format("    {}=alpa.{}(\n        {}),\n", option.argument, option.type,
                        arguments(entries, option.argument, ",\n        "));
  }
  return text + ")\n";
}

std::vector<Accepts> accepts() {
  return {{s(D::Zero), {"0", "1"}},
          {s(D::Schedule), {"1f1b", "gpipe", "eager-1f1b"}},
          {s(D::Recompute), {"none", "full"}},
          {S::GlobalBatch, {}, By::Script},
          {S::SequenceLength, {}, By::Script},
          {S::Precision, {"fp16", "bf16", "fp32"}, By::Script},
          {S::Optimizer, {}, By::Script},
          {S::Attention, {}, By::Script},
          {S::RankOrder, {"tp-dp-pp"}, By::Target},
          {S::Model, {}, By::Script}};
}

std::vector<std::string> notes(const ExportRequest& h) {
  std::vector<std::string> notes{
      "the training step takes @alpa.parallelize(method=parallel_method), and alpa.grad of its "
      "loss",
      "the network marks the end of every layer but the last (alpa.mark_pipeline_boundary; "
      "add_manual_pipeline_markers with pipeline_mp_size = layers in Alpa's own models)"};
  std::string layers;
  std::int64_t first = 0;
  for (std::size_t p = 0; p < h.positions.size() && !all_recompute(h); ++p) {
    const std::int64_t next = first + h.stages[p].layers;
    if (recomputes(h.positions[p]))
      layers += fmt::format("{}{} to {}", layers.empty() ? "" : ", ", first, next - 1);
    first = next;
  }
  if (!layers.empty())
    notes.push_back(fmt::format("set in the network: flax.linen.remat of layers {}", layers));
  return notes;
}

Launch launch() {
  return {.starter = Starter::Ray,
          .script = "train.py",
          .arguments = "\"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\""};
}

}  // namespace

Exporter alpa_exporter() {
  return {.title = "parallel method of Alpa",
          .checked = "alpa-projects/alpa@b8078a9f (2023-12-09)",
          .framework = "alpa",
          .accepts = accepts(),
          .documents = {{.keys = keys(), .write = write_python, .file = "alpa_plan.py"}},
          .launch = launch(),
          .conflicts = {{"submeshes that do not fill hosts, largest first", leaves_gaps},
                        {"embedding, head or other blocks in a stage without layers of its own",
                         is_apart}},
          .by_stage = {D::Data, D::TensorOut, D::Zero, D::MicroBatch, D::Recompute},
          .notes = notes};
}

}  // namespace plansearch::exporters
