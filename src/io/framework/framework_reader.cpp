// SPDX-License-Identifier: Apache-2.0
#include "io/framework/framework_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/hash.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/schedule_id.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

constexpr std::array<Choice<GradientsToHost>, 2> kGradientsToHost{
    {{"at-step", GradientsToHost::AtStep}, {"as-reduced", GradientsToHost::AsReduced}}};
constexpr std::array<Choice<bool>, 2> kBooleans{{{"false", false}, {"true", true}}};
/// Whether gradients are summed on the host in fp32.
constexpr std::array<Choice<bool>, 2> kSums{{{"fp32", true}, {"as-kept", false}}};
/// Reads schedules by the names of the table, for any alias in the file.
std::vector<std::string> read_schedules(const Node& list) {
  std::vector<std::string> names;
  for (const Node& item : list.items()) {
    const std::string text = item.text();
    const auto schedule = find_schedule(text);
    if (!schedule) {
      item.fail(fmt::format("unknown schedule '{}'", text),
                fmt::format("the schedules are {}", fmt::join(schedule_names(), ", ")));
    }
    names.emplace_back(to_text(*schedule));
  }
  if (names.empty()) list.fail("name at least one schedule", "a pipeline needs an order");
  return names;
}

std::vector<Axis> read_rank_order(const Node& list) {
  std::vector<Axis> order;
  for (const Node& item : list.items()) {
    const std::string text = item.text();
    const auto axis = parse_axis(text);
    if (!axis || *axis > Axis::Pipeline) {
      item.fail(fmt::format("'{}' is not an axis of a rank order", text),
                "the axes are in, out, depth, context, data and pipeline, the fastest first");
    }
    if (contains(order, *axis)) item.fail(fmt::format("'{}' is named twice", text));
    order.push_back(*axis);
  }
  if (order.empty()) list.fail("name at least one axis");
  return order;
}

FrameworkFeature read_feature(const Node& node) {
  FrameworkFeature feature;
  feature.name = node.at("name").name();
  feature.plans = node.at("plans").text();
  feature.without = read_rule(node.at("without"));
  return feature;
}

/// Degrees that a framework has a default for.
constexpr std::array kWithDefaults{Degree::Zero, Degree::SequenceParallel, Degree::ContextKind,
                                   Degree::Recompute};

void read_degrees(const Node& map, std::map<std::string, int>& degrees) {
  for (const Node::Entry& entry : map.entries()) {
    const auto found = std::ranges::find_if(
        kWithDefaults, [&](Degree degree) { return row_of(degree).key == entry.key; });
    if (found == kWithDefaults.end()) {
      const auto keys =
          transformed(kWithDefaults, [](Degree degree) { return row_of(degree).key; });
      throw InputError(entry.where, fmt::format("'{}' has no default of a framework", entry.key),
                       fmt::format("defaults are of {}", fmt::join(keys, ", ")));
    }
    const std::string text = entry.value.text();
    const auto value = parse_value(*found, text);
    if (!value) entry.value.fail(fmt::format("'{}': must be {}", text, legal_text(*found)));
    degrees[entry.key] = *value;
  }
}

template <typename Quantity>
void read_constant(const Node& node, Quantity& constant) {
  constant = node.non_negative<Quantity>();
}

void read_constant(const Node& node, double& constant) {
  constant = node.number();
  if (constant < 0.0) node.fail("must not be negative");
  constexpr double kMost = 1e4;  // bytes per logit, factors, standard deviations
  if (constant > kMost) node.fail(fmt::format("{} is above the limit {}", constant, kMost));
}

void read_constant(const Node& node, bool& constant) {
  constant = node.count(0, 1) == 1;
}

std::string field_of(std::string_view constant) {
  return fmt::format("constants.{}", constant);
}

void read_constants(const Node& map, Framework& framework, FieldLog& log) {
  const auto known = framework_constant_rows();
  for (const Node::Entry& entry : map.entries()) {
    const auto found =
        std::ranges::find_if(known, [&](const auto& row) { return row.name == entry.key; });
    if (found == known.end()) {
      std::vector<std::string> names = transformed<std::string>(known, &ConstantRow::name);
      throw InputError(entry.where, fmt::format("unknown constant '{}'", entry.key),
                       did_you_mean(entry.key, names));
    }
    std::visit([&](auto* constant) { read_constant(entry.value, *constant); },
               found->field(framework.constants));
    log.given(field_of(entry.key));
  }
}

/// A share, or a map that says when messages inside a pass are posted and waited for.
OverlapRule read_overlap_rule(const Node& map, const std::string& key) {
  static constexpr std::array kWaits{Choice<MessageWait>{"at-once", MessageWait::AtOnce},
                                     Choice<MessageWait>{"use", MessageWait::Use}};
  const Node value = map.at(key);
  OverlapRule rule;
  if (!value.is_map()) {
    rule.share = number_or(map, key, nullptr, 0.0, 1.0);
    return rule;
  }
  constexpr double kNone = 0.0;
  rule.share = number_or(value, "share", &kNone, 0.0, 1.0);
  const Fields fields(value);
  fields.take("wait", rule.wait, kWaits);
  fields.take("steps", rule.steps, kWaits);
  fields.take("ahead", rule.ahead, [](const Node& node) { return node.count(1, 16); });
  fields.take("joined", rule.joined, &Node::boolean);
  fields.take("any_dispatcher", rule.any_dispatcher, &Node::boolean);
  return rule;
}

void read_overlap(const Node& map, Framework& framework, FieldLog& log) {
  for (std::size_t i = 0; i < kOverlapCount; ++i) {
    const std::string key{to_text(static_cast<Overlap>(i))};
    if (!map.find(key)) continue;
    framework.overlap.at(i) = read_overlap_rule(map, key);
    log.given("overlap." + key);
  }
}

void require_everything(const Node& root, const Framework& framework) {
  if (framework.rank_order.empty()) static_cast<void>(root.at("rank_order"));
  if (framework.precision.empty()) static_cast<void>(root.at("precision"));
  for (const ConstantRow& row : framework_constant_rows()) {
    if (!framework.provenance.contains(field_of(row.name))) {
      root.fail(fmt::format("constant '{}' is missing ({})", row.name, row.meaning),
                "give it under constants:, or take a base with like:");
    }
  }
}

class Reader {
 public:
  explicit Reader(std::span<const fs::path> directories)
      : directories_(directories.begin(), directories.end()) {}

  Framework find(std::string_view name, const fs::path& beside, const SourceLocation& where,
                 int depth, std::span<const Override> overrides = {}) {
    const fs::path path = resolve_file(name, framework_files(directories_, beside), where);
    if (depth == 0) hash_ = 0;
    const Document document = overlaid(open(path), overrides);
    Framework framework =
        document.collect([&](const Node& root) { return read(document, root, depth); });
    framework.content_hash = hash_;
    if (!overrides.empty()) {
      framework.content_hash = combine_hashes(framework.content_hash, document.hash());
    }
    return framework;
  }

 private:
  Framework read(const Document& document, const Node& root, int depth) {
    require_schema(root, "plansearch/framework/v1");
    Framework framework;
    if (const auto like = root.find("like")) {
      if (depth >= kMaxLikeDepth) like->fail("`like` refers back to itself");
      framework = find(like->text(), document.directory(), like->where(), depth + 1);
    }
    FieldLog log;
    const Fields unlogged(root);
    framework.name = root.at("name").name();
    framework.aliases.clear();
    unlogged.take("aliases", framework.aliases, &Node::texts);
    unlogged.with("description", &Node::ignore);
    framework.validation.clear();
    unlogged.take("validation", framework.validation, &Node::text);
    framework.release_of.clear();
    unlogged.take("release_of", framework.release_of, &Node::text);
    unlogged.take("operators", framework.operators, [&](const Node& operators) {
      return read_operators(open(find_operators(document, operators)));
    });
    unlogged.take("recurrences", framework.named_kernels, [&](const Node& table) {
      return read_named_kernels(open(find_operators(document, table)));
    });
    read_pipeline(root, framework, log);
    const Fields fields(root, &log);
    unlogged.with("dispatchers", [&](const Node& map) {
      read_dispatchers(map, open(find_operators(document, map.at("table"))), framework);
    });
    read_rules(fields, framework);
    read_policies(fields, framework);
    unlogged.with("overlap", [&](const Node& map) { read_overlap(map, framework, log); });
    unlogged.with("constants", [&](const Node& map) { read_constants(map, framework, log); });
    framework.provenance = log.provenance(root, framework.provenance);
    root.finish();
    require_everything(root, framework);
    return framework;
  }

  /// Every file is read once, and counts in the hash of each framework that refers to it.
  const Document& open(const fs::path& path) {
    auto known = documents_.find(path);
    if (known == documents_.end()) known = documents_.emplace(path, Document::read(path)).first;
    hash_ = combine_hashes(hash_, known->second.hash());
    return known->second;
  }

  /// Finds the file in the folder of the file that names it, else among the shipped ones.
  [[nodiscard]] fs::path find_operators(const Document& document, const Node& node) const {
    std::vector<fs::path> places{document.directory()};
    places.insert(places.end(), directories_.begin(), directories_.end());
    for (const fs::path& place : places) {
      std::error_code error;
      const fs::path path = place / node.text();
      if (fs::is_regular_file(path, error)) return path;
    }
    node.fail(
        fmt::format("no file '{}'", node.text()),
        "shipped are operators/passes.yaml, dispatchers.yaml and recurrences.yaml, beside the "
        "frameworks");
  }

  /// `none` where states stay on the device.
  static std::optional<OptimizerOffload> read_offload(const Node& node) {
    if (!node.is_map()) {
      if (node.text() != "none") node.fail("optimizer_offload is none or {gradients, extra_bytes}");
      return std::nullopt;
    }
    OptimizerOffload offload;
    offload.gradients = node.at("gradients").choice<GradientsToHost>(kGradientsToHost);
    offload.extra_bytes = number_or(node, "extra_bytes", nullptr, 0.0, 1000.0);
    Fields(node).take("sums", offload.sums_in_fp32, kSums);
    return offload;
  }

  static void read_pipeline(const Node& root, Framework& framework, FieldLog& log) {
    const Fields fields(root, &log);
    const Fields unlogged(root);
    unlogged.take("space", framework.space, &Node::text);
    unlogged.take("program", framework.has_program, {{"published", true}, {"none", false}});
    fields.take("rank_order", framework.rank_order, read_rank_order);
    fields.take("layers", framework.layers, choices_of<LayerDistribution, 4>());
    unlogged.take(
        "own_layers", framework.own_layers,
        {{"none", OwnLayers::None}, {"ends", OwnLayers::Ends}, {"every", OwnLayers::Every}});
    fields.take("schedules", framework.schedules, read_schedules);
    unlogged.with("paired_schedules", [&](const Node& list) {
      framework.paired_schedules.clear();
      if (!list.items().empty()) framework.paired_schedules = read_schedules(list);
    });
    fields.take("micro_batch_groups", framework.micro_batch_groups,
                {{"stages", MicroBatchGroups::Stages}, {"rounds", MicroBatchGroups::Rounds}});
    fields.take("pipeline_lists", framework.pipeline_lists,
                {{"ahead", PipelineLists::Ahead}, {"just-in-time", PipelineLists::JustInTime}});
    unlogged.take("skips", framework.skips,
                  {{"direct", SkipRoute::Direct}, {"relayed", SkipRoute::Relayed}});
    unlogged.with("optimizer_offload", [&](const Node& offload) {
      framework.optimizer_offload = read_offload(offload);
      framework.provenance.erase("optimizer_offload");  // of the framework it is like
      if (framework.optimizer_offload) log.given("optimizer_offload");
    });
    unlogged.with("offloads", [&](const Node& list) {
      framework.offloads = read_host_tensors(list);
      framework.provenance.erase("offloads");
      if (framework.offloads.any()) log.given("offloads");
    });
    fields.take("offload_stream", framework.offloads_between_kernels,
                {{"own", false}, {"kernels", true}});
    unlogged.with("matrix_updates", [&](const Node& node) {
      framework.matrix_updates = read_matrix_updates(node);
      framework.provenance.erase("matrix_updates");
      if (framework.matrix_updates) log.given("matrix_updates");
    });
    fields.take("optimizer_in_backward", framework.has_optimizer_in_backward, kBooleans);
    fields.take("paged_states", framework.has_paged_states, kBooleans);
    fields.take("trains_on_pairs", framework.trains_on_pairs, kBooleans);
    fields.take("optimizer_start", framework.optimizer_start, choices_of<OptimizerStart, 3>());
  }

  static LayerModules read_modules(const Node& node) {
    LayerModules modules;
    for (const Node& item : node.items()) {
      const auto module = find_layer_module(item.text());
      if (!module) item.fail("unknown module; known: " + to_text(~LayerModules(), ", "));
      modules |= bit_of(*module);
    }
    return modules;
  }

  /// "parameters", "activations", or modules.
  static HostTensors read_host_tensors(const Node& node) {
    HostTensors tensors;
    for (const Node& item : node.items()) {
      const std::string word = item.text();
      const auto module = find_layer_module(word);
      if (module) {
        tensors.modules |= bit_of(*module);
      } else if (word == "parameters" || word == "activations") {
        (word == "parameters" ? tensors.parameters : tensors.activations) = true;
      } else {
        item.fail("unknown tensors; known: parameters, activations, " +
                  to_text(~LayerModules(), ", "));
      }
    }
    return tensors;
  }

  static void read_rules(const Fields& fields, Framework& framework) {
    fields.take("selective_recompute", framework.selective, [](const Node& node) {
      if (node.is_list()) return SelectiveRecompute(SelectiveRule::Modules, read_modules(node));
      static constexpr std::array kRules{
          Choice<SelectiveRule>{"unfused-attention", SelectiveRule::UnfusedAttention},
          Choice<SelectiveRule>{"attention-core", SelectiveRule::AttentionCore},
          Choice<SelectiveRule>{"alternate-matmuls", SelectiveRule::AlternateMatmuls},
          Choice<SelectiveRule>{"all-but-matmuls", SelectiveRule::AllButMatmuls},
          Choice<SelectiveRule>{"all-but-attention", SelectiveRule::AllButAttention}};
      return SelectiveRecompute(node.choice(std::span<const Choice<SelectiveRule>>(kRules)));
    });
    fields.take("recompute_modules", framework.recompute_modules, read_modules);
    fields.take(
        "partial_recompute", framework.partial_recompute,
        {{"none", PartialRecompute::None}, {"first-layers", PartialRecompute::FirstLayers}});
    fields.take("operator_steps", framework.operator_steps,
                {{"none", OperatorSteps::None},
                 {"squares", OperatorSteps::Squares},
                 {"rings", OperatorSteps::Rings},
                 {"all", OperatorSteps::All}});
    fields.take("operator_pieces", framework.runs_pieces, &Node::boolean);
    fields.take("shared_devices", framework.shares_devices, &Node::boolean);
    fields.take("accumulates", framework.accumulates, &Node::boolean);
    fields.take("attention_kernel", framework.attention_kernel, &Node::text);
    fields.take("vocab_multiple", framework.vocab_multiple,
                [](const Node& node) { return node.count(0, 1 << 20); });
    fields.with("rules", [&](const Node& rules) {
      framework.rules.clear();
      for (const Node& rule : rules.items()) framework.rules.push_back(read_rule(rule));
    });
    fields.with("features", [&](const Node& features) {
      framework.features.clear();
      for (const Node& one : features.items()) framework.features.push_back(read_feature(one));
    });
    fields.take("delayed_weight_gradients", framework.can_delay_weight_gradients, &Node::boolean);
  }

  static void read_policies(const Fields& fields, Framework& framework) {
    fields.with("defaults", [&](const Node& map) { read_degrees(map, framework.natural_degrees); });
    fields.with("always", [&](const Node& map) { read_degrees(map, framework.fixed_degrees); });
    fields.with("sharding", [&](const Node& map) { read_sharding(map, framework.sharding); });
    fields.with("implementation", [&](const Node& map) {
      read_operator_choices(map, framework.operators);
      read_implementation(map, framework.implementation);
      take_kept_tensors(framework);
    });
    fields.with("precision", [&](const Node& map) { read_precision(map, framework); });
  }

  std::vector<fs::path> directories_;
  std::map<fs::path, Document> documents_;
  std::uint64_t hash_ = 0;  ///< of the files of the framework at hand
};

}  // namespace

Framework load_framework(std::string_view name_or_path, std::span<const fs::path> directories,
                         std::span<const Override> overrides) {
  return Reader(directories).find(name_or_path, {}, {}, 0, overrides);
}

std::vector<Framework> load_frameworks(std::span<const fs::path> directories) {
  Reader reader(directories);
  return transformed<Framework>(list_frameworks(directories), [&](const NamedFile& file) {
    return reader.find(file.path.string(), {}, {}, 0);
  });
}

NamedFiles framework_files(std::span<const fs::path> directories, const fs::path& beside) {
  NamedFiles kind{"framework", {directories.begin(), directories.end()}};
  kind.listing = "frameworks";
  kind.schema = "plansearch/framework/v1";
  if (!beside.empty()) kind.beside = {beside};
  return kind;
}

std::vector<NamedFile> list_frameworks(std::span<const fs::path> directories) {
  return list_files(framework_files(directories, {}));
}

}  // namespace plansearch::io
