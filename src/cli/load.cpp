// SPDX-License-Identifier: Apache-2.0
#include "cli/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/hash.hpp"
#include "base/units.hpp"
#include "cli/evidence.hpp"
#include "cli/framework_flags.hpp"
#include "cli/gpu_count.hpp"
#include "cli/precision.hpp"
#include "cli/shipped_files.hpp"
#include "plansearch/error.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch::cli {
namespace {

constexpr std::int64_t kDefaultTokensPerStep = std::int64_t{1} << 21;

/// Tokens per image: patches and the class token.
std::int64_t tokens_of(const Network& network) {
  std::int64_t tokens = 1;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role == DimRole::Sequence) tokens = std::max(tokens, dimension.extent);
  }
  return tokens;
}

/// Collects the files and the settings on the way to a Problem.
class Loader {
 public:
  explicit Loader(const AskedOptions& asked) : asked_(asked), options_(asked.options) {}

  Inputs load() {
    read_files();
    inputs_.gpus = asked_gpus(options_, cluster_);
    settle_precision();
    settle_optimizer();
    settle_sequence();
    settle_batch();
    settle_reserve();
    settle_framework_flags();
    Problem& p = inputs_.problem;
    p.cluster = std::make_shared<const Cluster>(std::move(cluster_));
    p.model = std::make_shared<const ModelDescription>(std::move(model_));
    p.framework = std::make_shared<const Framework>(std::move(framework_));
    inputs_.evidence = evidence_line(*p.cluster, *p.framework);
    return std::move(inputs_);
  }

 private:
  void read_files() {
    if (options_.hardware.empty()) {
      throw InputError({}, "no hardware profile: --hw is missing",
                       "plansearch list hw shows the shipped ones");
    }
    if (options_.model.empty()) {
      throw InputError({}, "no model: --model is missing",
                       "plansearch list models shows the shipped ones");
    }
    cluster_ = load_shipped_cluster(options_.hardware);
    io::ModelFile model = load_shipped_model_file(options_.model);
    compare_hash("hardware", cluster_.name, cluster_.content_hash);
    compare_hash("model", model.model.name, model.hash);
    model_ = std::move(model.model);
    framework_ = load_shipped_framework(framework_name());
  }

  void compare_hash(const char* key, const std::string& name, std::uint64_t hash) {
    const auto expected = asked_.content_hashes.find(key);
    if (expected == asked_.content_hashes.end() || expected->second == hash_text(hash)) return;
    inputs_.notes.push_back(
        fmt::format("note: {} {} has changed since the plan was written", key, name));
  }

  [[nodiscard]] std::string framework_name() {
    const auto& o = options_;
    if (!o.framework.empty() && !o.target.empty() && o.framework != o.target) {
      throw InputError({}, "--framework and --target name two frameworks",
                       "give one of them: a target is also the framework that is priced");
    }
    const std::string name = o.target.empty() ? o.framework : o.target;
    const bool given = !name.empty();
    note("framework", given ? name : "megatron", given ? asked_.origin("framework") : "default");
    return given ? name : "megatron";
  }

  void note(std::string key, std::string value, std::string origin) {
    inputs_.settings.push_back({std::move(key), std::move(value), std::move(origin)});
  }

  void settle_precision() {
    const auto precision =
        choose_precision(asked_, model_.training.precision, cluster_.accelerator, framework_);
    inputs_.problem.precision = precision.value();
    note("precision", std::string(to_text(precision.value())), precision.origin());
  }

  void settle_optimizer() {
    struct Name {
      const char* text;
      OptimizerKind kind;
    };
    static constexpr std::array<Name, 4> kNames{{{"adam", OptimizerKind::Adam},
                                                 {"sgd", OptimizerKind::Sgd},
                                                 {"adafactor", OptimizerKind::Adafactor},
                                                 {"muon", OptimizerKind::Muon}}};
    OptimizerKind& kind = model_.training.optimizer;
    for (const Name& name : kNames) {
      if (options_.optimizer && *options_.optimizer == name.text) kind = name.kind;
    }
    const auto* chosen = std::find_if(kNames.begin(), kNames.end(),
                                      [&](const Name& name) { return name.kind == kind; });
    note("optimizer", chosen->text, options_.optimizer ? asked_.origin("optimizer") : "model");
  }

  [[nodiscard]] AttentionKind settle_attention() {
    const bool has_kernel = cluster_.accelerator.kernels.attention_forward.has_value();
    if (options_.attention == "flash" && !has_kernel) {
      throw InputError({},
                       fmt::format("--attention flash: no rates of a fused kernel for {}",
                                   cluster_.accelerator.name),
                       "use --attention unfused");
    }
    const bool fused = options_.attention ? *options_.attention == "flash" : has_kernel;
    std::string origin = has_kernel ? "default" : "profile";
    if (options_.attention) origin = asked_.origin("attention");
    note("attention", fused ? "flash" : "unfused", std::move(origin));
    return fused ? AttentionKind::Fused : AttentionKind::Unfused;
  }

  /// A table of positions that were learned ends somewhere.
  void check_positions(const Chosen<std::int64_t>& seq_len) const {
    const auto longest = longest_sequence(model_);
    if (!longest || seq_len.value() <= *longest) return;
    throw InputError({},
                     fmt::format("--seq-len {}: {} has {} learned positions", seq_len.value(),
                                 model_.name, *longest),
                     fmt::format("use --seq-len {} or less, or a copy of the model with more "
                                 "max_positions",
                                 *longest));
  }

  void settle_sequence() {
    if (options_.seq_len && *options_.seq_len <= 0) {
      throw InputError({}, fmt::format("--seq-len {}: must be above zero", *options_.seq_len),
                       "it counts tokens per sequence");
    }
    if (options_.seq_len && model_.stack == StackKind::Vision) {
      throw InputError(
          {}, fmt::format("--seq-len: the image and patch size of {} set it", model_.name));
    }
    const AttentionKind attention = settle_attention();
    NetworkOptions network_options;
    network_options.attention = attention;
    Chosen<std::int64_t> seq_len;
    seq_len.or_else(options_.seq_len, asked_.origin("seq_len"));
    if (model_.stack == StackKind::Vision) {
      seq_len.or_else(tokens_of(build_network(model_, network_options)), "model");
    } else {
      if (model_.training.seq_len > 0) seq_len.or_else(model_.training.seq_len, "model");
      seq_len.or_else(model_.max_positions, "model").or_else(2048, "default");
      network_options.seq_len = seq_len.value();
    }
    check_positions(seq_len);
    inputs_.problem.seq_len = seq_len.value();
    inputs_.problem.network =
        std::make_shared<const Network>(build_network(model_, network_options));
    note("seq_len", fmt::format("{}", seq_len.value()), seq_len.origin());
  }

  void settle_batch() {
    if (options_.batch && *options_.batch <= 0) {
      throw InputError({}, fmt::format("--batch {}: must be above zero", *options_.batch),
                       "it counts sequences per optimizer step");
    }
    Chosen<std::int64_t> batch;
    batch.or_else(options_.batch, asked_.origin("batch"));
    if (model_.training.global_batch > 0) batch.or_else(model_.training.global_batch, "model");
    const std::int64_t sequences =
        std::max<std::int64_t>(1, kDefaultTokensPerStep / inputs_.problem.seq_len);
    batch.or_else(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(sequences))),
                  "default");
    constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
    if (batch.value() > kLargest) {
      throw InputError({}, fmt::format("--batch {}: more than {}", batch.value(), kLargest),
                       "it counts sequences per optimizer step, not tokens");
    }
    inputs_.problem.global_batch = batch.value();
    note("batch", fmt::format("{}", batch.value()), batch.origin());
  }

  void settle_reserve() {
    if (!options_.mem_reserve) return;
    const auto reserve = parse_quantity<Bytes>(*options_.mem_reserve);
    if (!reserve || *reserve < Bytes(0)) {
      throw InputError(
          {}, fmt::format("--mem-reserve: '{}' is no amount of memory", *options_.mem_reserve),
          "write it with its unit, such as \"2 GiB\"");
    }
    if (*reserve >= cluster_.accelerator.memory) {
      throw InputError({}, fmt::format("--mem-reserve: {} leaves nothing of {}", to_text(*reserve),
                                       to_text(cluster_.accelerator.memory)));
    }
    inputs_.problem.memory_reserve = *reserve;
    note("mem_reserve", to_text(*reserve), asked_.origin("mem_reserve"));
  }

  void settle_framework_flags() {
    if (options_.rank_order) apply_rank_order(framework_, *options_.rank_order);
    note("rank_order", rank_order_text(framework_),
         options_.rank_order ? asked_.origin("rank_order") : "framework");
    if (options_.overlap) apply_overlap(framework_, *options_.overlap);
    note("overlap", overlap_text(framework_),
         options_.overlap ? asked_.origin("overlap") : "framework");
  }

  const AskedOptions& asked_;
  const Options& options_;
  Inputs inputs_;
  Cluster cluster_;
  ModelDescription model_;
  Framework framework_;
};

}  // namespace

Inputs load_inputs(const AskedOptions& asked) {
  return Loader(asked).load();
}

Problem with_gpus(const Inputs& inputs, int gpus) {
  Problem problem = inputs.problem;
  problem.gpus = gpus;
  return problem;
}

QuestionReport question_report(const Inputs& inputs, const Problem& problem) {
  QuestionReport question;
  question.hardware = problem.cluster->name;
  question.accelerator = problem.cluster->accelerator.name;
  question.model = problem.model->name;
  question.parameters = parameter_count(*problem.network);
  question.framework = problem.framework->name;
  question.precision = to_text(problem.precision);
  question.gpus = problem.gpus;
  question.global_batch = problem.global_batch;
  question.seq_len = problem.seq_len;
  question.memory_capacity = problem.cluster->accelerator.memory;
  question.settings = inputs.settings;
  return question;
}

}  // namespace plansearch::cli
