// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "answer/show.hpp"
#include "io/model/model_writer.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/transformer_builder.hpp"
#include "report/plan_cells.hpp"
#include "workload/network_edges.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// A model file says of all its sizes where they come from at once.
std::map<std::string, Provenance> evidence_of(const ModelDescription& model) {
  std::map<std::string, Provenance> known;
  if (model.source.empty()) return known;
  const bool assumed = model.source.starts_with("assumed");
  known["sizes"] = {assumed ? Evidence::Assumed : Evidence::Published, model.source};
  return known;
}

void add_experts(ShownRows& rows, const MoeDescription& moe) {
  rows.count("moe.experts", moe.experts);
  rows.count("moe.top_k", moe.top_k, {}, "experts per token");
  rows.count("moe.expert_width", moe.expert_width);
  if (moe.shared_width > 0) rows.count("moe.shared_width", moe.shared_width);
  if (moe.leading_dense > 0) rows.count("moe.leading_dense", moe.leading_dense);
  if (moe.groups > 1) {
    rows.count("moe.groups", moe.groups);
    rows.count("moe.top_groups", moe.top_groups, {}, "of which a token chooses its experts");
  }
  rows.number("moe.imbalance", moe.imbalance, "", "load of the fullest expert rank over the mean");
}

ShownSection size_section(const ModelDescription& model,
                          const std::map<std::string, Provenance>& known) {
  ShownRows rows("sizes", known);
  rows.under("sizes");
  rows.count("layers", model.layers);
  if (model.decoder) rows.count("decoder.layers", model.decoder->layers);
  // Networks of other kinds have not all of them.
  const auto add = [&](std::string_view key, std::int64_t size, std::string_view meaning = {}) {
    if (size > 0 || model.stack != StackKind::Graph) {
      rows.count(std::string(key), size, {}, std::string(meaning));
    }
  };
  add("hidden", model.hidden);
  add("attention.heads", model.attention.heads);
  add("attention.kv_heads", model.attention.kv_heads);
  add("attention.head_size", model.attention.head_size);
  if (model.attention.window) rows.count("attention.window", *model.attention.window);
  add("mlp.width", model.mlp.width, model.mlp.gated ? "gated: three matrices" : "");
  for (const MixerDescription& mixer : model.list.mixers) {
    if (!mixer.recurrence) continue;
    rows.count(mixer.name + ".heads", mixer.recurrence->heads, {},
               fmt::format("{}, states of {} x {}", mixer.recurrence->form.name,
                           mixer.recurrence->key_size, mixer.recurrence->value_size));
  }
  if (model.moe) add_experts(rows, *model.moe);
  add("embedding.vocab", model.embedding.vocab,
      model.embedding.tied ? "logits use the embedding" : "");
  if (model.max_positions) rows.count("max_positions", *model.max_positions);
  return rows.take();
}

ShownSection block_section(const Network& network, const std::map<std::string, Provenance>& known) {
  ShownRows rows("blocks", known);
  for (const BlockRun& run : network.order) {
    const Block& block = network.blocks[run.block];
    rows.count(block.name, run.count,
               fmt::format("{} x {}", run.count, count_text(block_parameter_count(network, block))),
               "copies x parameters of one");
  }
  return rows.take();
}

/// Parameters that a token meets in products and norms; shared ones count once.
double active_parameter_count(const Network& network) {
  double total = 0.0;
  std::set<std::string> seen;
  for (const BlockRun& run : network.order) {
    const Block& block = network.blocks[run.block];
    for (const Operator& op : block.operators) {
      for (const ParameterId id : op.parameters) {
        const Parameter& parameter = block.parameter(id);
        const bool shared = !parameter.shared_key.empty();
        if (!shared && traits(op).cost == CostClass::LookUp) continue;
        if (shared && !seen.insert(parameter.shared_key).second) continue;
        double size = element_count(network, parameter.dims) * static_cast<double>(run.count);
        const bool routed = std::any_of(parameter.dims.begin(), parameter.dims.end(), [&](DimId d) {
          return network.dimension(d).role == DimRole::Expert;
        });
        if (routed)
          size *= static_cast<double>(network.routing->top_k) /
                  static_cast<double>(network.routing->experts);
        total += size;
      }
    }
  }
  return total;
}

ShownSection total_section(const ModelDescription& model, const Network& network,
                           const std::map<std::string, Provenance>& known) {
  ShownRows rows("derived", known);
  const std::int64_t parameters = parameter_count(network);
  rows.count(
      "parameters", parameters,
      fmt::format("{} ({})", count_text(static_cast<double>(parameters)), grouped(parameters)));
  const double flops = 3.0 * model_forward_flops(network).value();
  if (!reads_tokens(model)) {
    rows.number("flops_per_sample", flops, "FLOP",
                "products, convolutions and attention, forward x 3");
    return rows.take();
  }
  const double active = active_parameter_count(network);
  rows.count("active_parameters", std::llround(active),
             fmt::format("{} ({})", count_text(active), grouped(std::llround(active))),
             "that a token meets: of experts those it is sent to, of look-ups none");
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, model.training.seq_len));
  rows.number("flops_per_token", flops / tokens, "FLOP",
              "matmuls, causal attention and logits, forward x 3, at the default sequence");
  return rows.take();
}

ShownSection training_section(const ModelDescription& model,
                              const std::map<std::string, Provenance>& known) {
  ShownRows rows("defaults of training", known);
  const TrainingDefaults& training = model.training;
  rows.count("training.seq_len", training.seq_len, {}, "tokens");
  if (training.global_batch > 0) {
    rows.count("training.global_batch", training.global_batch, {}, "sequences per step");
  }
  if (training.precision)
    rows.text("training.precision", std::string(to_text(*training.precision)));
  for (const std::string& pattern : training.frozen) rows.text("training.frozen", pattern);
  return rows.take();
}

}  // namespace

Shown show_model(const ModelDescription& model) {
  const std::map<std::string, Provenance> known = evidence_of(model);
  const Network network = build_network(model);
  Shown shown{"model", model.name, "", {}, {}};
  shown.sections.push_back(total_section(model, network, known));
  shown.sections.push_back(size_section(model, known));
  shown.sections.push_back(block_section(network, known));
  shown.sections.push_back(training_section(model, known));
  return shown;
}

Shown show_file(const std::string& what, const std::string& name, const ShippedData& data) {
  if (what == "hw") return show_cluster(data.cluster(name));
  if (what == "framework") return show_framework(data.framework(name));
  return show_model(data.model(name).description);
}

std::string graph_file(const std::string& model, const ShippedData& data) {
  const ModelDescription description = data.model(model).description;
  NetworkOptions options;
  options.implementation = data.framework("megatron").implementation;
  return io::write_graph(description, build_network(description, options));
}

}  // namespace plansearch
