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

#include "exporters/fact.hpp"

namespace plansearch::exporters {
namespace {

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

/// Set in the network itself where not all layers are computed again.
Value remat_layers(const ExportRequest& h) {
  std::string layers;
  std::int64_t first = 0;
  for (std::size_t p = 0; p < h.positions.size() && !all_recompute(h); ++p) {
    const std::int64_t next = first + h.stages[p].layers;
    if (recomputes(h.positions[p]))
      layers += fmt::format("{}{} to {}", layers.empty() ? "" : ", ", first, next - 1);
    first = next;
  }
  return where(!layers.empty(),
               fmt::format("set in the network: flax.linen.remat of layers {}", layers));
}

}  // namespace

/// alpa.init takes the nodes that have joined the Ray cluster by then, so all are waited for.
std::string write_alpa(const std::vector<std::string>& header, const Entries& entries) {
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

// clang-format off
Facts alpa_facts() {
  return {
      {"any_scattered", {s(D::Zero)}, [](H h) { return Value(any_scatters(h)); }},
      {"every_layer_recomputed", {s(D::Recompute)}, [](H h) { return Value(all_recompute(h)); }},
      {"stage_layer_ids", {S::Layers, s(D::Pipeline)}, layer_ids},
      {"physical_submeshes", {S::Gpus}, physical_shapes},
      {"logical_submeshes", {s(D::Data), s(D::TensorOut)}, logical_shapes},
      {"sharding_of_stages", {s(D::Data), s(D::Zero)}, stage_options},
      {"submeshes_with_gaps", {}, [](H h) { return Value(leaves_gaps(h)); }},
      {"ends_in_stages_apart", {}, [](H h) { return Value(is_apart(h)); }},
      {"remat_layers", {}, remat_layers},
  };
}
// clang-format on

}  // namespace plansearch::exporters
