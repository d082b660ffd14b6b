// SPDX-License-Identifier: Apache-2.0
#include "plansearch/load_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/hash.hpp"
#include "base/names.hpp"
#include "base/units.hpp"
#include "io/model/model_sections.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/transformer_builder.hpp"
#include "question/asked_model.hpp"
#include "question/chosen.hpp"
#include "question/framework_flags.hpp"
#include "question/gpu_count.hpp"
#include "question/rollout.hpp"
#include "question/training_task.hpp"
#include "question/usual_software.hpp"
#include "report/plan_cells.hpp"
#include "schedule/table.hpp"
#include "workload/network_edges.hpp"

namespace plansearch {
namespace {

constexpr std::int64_t kDefaultTokensPerStep = std::int64_t{1} << 21;
constexpr std::int64_t kDefaultSamplesPerStep = 1024;  // of networks that read no tokens

/// Collects the settings on the way to a Problem.
class QuestionResolver {
 public:
  QuestionResolver(const ProblemRequest& request, const ProblemFiles& files)
      : request_(request),
        cluster_(*files.cluster),
        model_(files.model->description),
        framework_(*files.framework) {
    settled_.files = files;
  }

  ResolvedQuestion settle() {
    compare_hash("hardware", cluster_.name, cluster_.content_hash);
    compare_hash("model", model_.name, settled_.files.model->content_hash);
    note_file("hardware", request_.hardware);
    note_file("model", request_.model);
    const auto name = framework_name(request_);
    note("framework", name.origin() == "default" ? framework_.name : name.value(), name.origin());
    settle_parts();
    settled_.gpus = asked_gpus(request_, cluster_);
    refuse_wrong_values();
    settle_precision();
    settle_software();
    settle_optimizer();
    settle_task();
    settle_adapters();
    settle_sequence();
    settle_batch();
    settle_reserve();
    settle_risk();
    settle_framework_flags();
    settle_site();
    take_asked_orders(framework_, request_, settled_.notes);
    note_fixed_degrees(framework_, request_.degrees, settled_.notes);
    settle_memory_cap();
    settle_tokens();
    settle_passes();
    Problem& p = settled_.problem;
    p.gpus = settled_.gpus.value_or(cluster_.accelerators());
    p.cluster = settled_.files.cluster;
    p.model = std::make_shared<const ModelDescription>(std::move(model_));
    p.framework = std::make_shared<const Framework>(std::move(framework_));
    warn_implausible_nic();
    settled_.evidence = evidence_line(p);
    return std::move(settled_);
  }

 private:
  /// For requests of any origin: the table says which values there are.
  void refuse_wrong_values() const {
    for (const SettingRow& row : setting_table()) {
      const auto value = row.get(request_);
      const std::string problem = value ? setting_problem(row, *value) : std::string();
      if (problem.empty()) continue;
      throw InputError({}, fmt::format("{} {}: {}", flag_of(row), *value, problem),
                       std::string(row.help));
    }
  }

  void compare_hash(const char* key, const std::string& name, std::uint64_t hash) {
    const auto expected = request_.content_hashes.find(key);
    if (expected == request_.content_hashes.end() || expected->second == hash_text(hash)) return;
    settled_.notes.push_back(
        fmt::format("note: {} {} has changed since the plan was written", key, name));
  }

  /// A card of 200 Gbit/s that was written down as 200 GB/s is an eightfold network.
  void warn_implausible_nic() {
    constexpr Bandwidth kFastest(100e9);  // 800 Gbit/s
    for (const LinkTier& tier : cluster_.tiers) {
      if (!tier.nics || tier.nics->bandwidth <= kFastest) continue;
      const double gigabits = tier.nics->bandwidth.value() * 8e-9;
      settled_.notes.push_back(fmt::format(
          "note: {}: a network card of {} is {:.0f} Gbit/s, above any known card (800 Gbit/s); a "
          "card of {:.0f} Gbit/s is written \"{:.0f} Gbit/s\"",
          cluster_.name, to_text(tier.nics->bandwidth), gigabits, gigabits / 8.0, gigabits / 8.0));
    }
  }

  void note(std::string key, std::string value, std::string origin) {
    settled_.settings.push_back({std::move(key), std::move(value), std::move(origin)});
  }

  /// Where the sequence, batch and optimizer come from when no others are asked for.
  [[nodiscard]] std::string training_origin() const {
    return model_.training.assumed ? "assumed" : "model";
  }

  /// Notes the parts of a Hugging Face configuration that are not in the network.
  void settle_parts() {
    const ShippedModel& model = *settled_.files.model;
    if (!request_.images && (model_.tower || !model.left_out.empty()))
      note("part", "text only, without " + left_out_text(model_, model.left_out), "model");
    if (!model.passed_over.empty()) {
      note("passed_over", fmt::format("{}", fmt::join(model.passed_over, ", ")), "model");
    }
  }

  /// A name finds its file again, a path does not come with the answer unless it is noted.
  void note_file(const char* key, const std::string& given) {
    std::error_code error;
    const std::filesystem::path path(given);
    const bool names_file = path.has_parent_path() || path.has_extension();
    const bool is_file = names_file && std::filesystem::exists(path, error);
    if (!is_file && std::ranges::count(given, '/') != 1) return;  // OWNER/NAME
    note(key, given, request_.origin(key));
  }

  void settle_passes() {
    if (!request_.passes) return;
    settled_.problem.passes = read_passes(*request_.passes);
    note("passes", *request_.passes, request_.origin("passes"));
  }

  void settle_precision() {
    const auto precision =
        choose_precision(request_, model_.training.precision, cluster_.accelerator, framework_);
    settled_.problem.precision = precision.value();
    note("precision", std::string(to_text(precision.value())), precision.origin());
  }

  void settle_optimizer() {
    OptimizerKind& kind = model_.training.optimizer;
    for (const io::Choice<OptimizerKind>& known : io::kOptimizers) {
      if (request_.optimizer == known.name) kind = known.value;
    }
    const OptimizerKind wanted = kind;
    kind = take_optimizer(framework_, wanted, request_);
    const std::string by = request_.optimizer ? request_.origin("optimizer") : training_origin();
    note("optimizer", std::string(io::word_of(io::kOptimizers, kind)),
         kind == wanted ? by : "framework");
  }

  void settle_task() {
    if (!request_.task) return;
    if (*request_.task == "dpo") check_pairs(framework_, model_);
    note("task", *request_.task, request_.origin("task"));
  }

  /// Adapters of the flags or of the model file, in words the model has.
  void settle_adapters() {
    std::optional<LoraDescription>& lora = model_.training.lora;
    const bool adapts = request_.lora_rank || request_.task == "lora" || lora;
    if (request_.lora_targets && !adapts) {
      throw InputError({}, "--lora-targets without --lora-rank", "add --lora-rank, such as 16");
    }
    const bool by_task = request_.task == "lora" && !request_.lora_rank && !lora;
    std::string origin = "model";
    if (request_.lora_rank || by_task) {
      // An answer names its framework, not the target that it was asked for.
      origin = !request_.target.empty() && !request_.framework.empty() ? "flag" : "default";
      if (!lora) {
        std::vector<std::string> usual =
            adapter_targets_of(request_.target.empty() ? request_.framework : request_.target);
        if (usual.empty()) usual = default_adapter_targets(model_);
        lora = LoraDescription{kUsualAdapterRank, std::move(usual)};
      }
      lora->rank = request_.lora_rank.value_or(lora->rank);
    }
    if (!lora) return;
    if (request_.lora_targets) lora->targets = split(*request_.lora_targets, ", ");
    const auto wrong = adapter_problem(model_);
    if (wrong) throw InputError({}, "--lora-rank, --lora-targets: " + wrong->what, wrong->remedy);
    const char* unsaid = by_task ? "default" : "model";
    note("lora_rank", fmt::format("{}", lora->rank),
         request_.lora_rank ? request_.origin("lora_rank") : unsaid);
    if (request_.lora_targets) origin = request_.origin("lora_targets");
    note("lora_targets", fmt::format("{}", fmt::join(lora->targets, ",")), origin);
  }

  /// How much of the network is trained, where that is not all of it.
  void note_trained() {
    const TrainingDefaults& training = model_.training;
    if (!training.lora && training.frozen.empty()) {
      if (!request_.base_precision) return;
      throw InputError({},
                       fmt::format("--base-precision {}: {} trains every weight",
                                   *request_.base_precision, model_.name),
                       "add --lora-rank, such as 16");
    }
    const Network& network = *settled_.problem.network;
    note("trained",
         fmt::format("{} of {} parameters", trainable_parameter_count(network),
                     parameter_count(network)),
         request_.lora_rank ? request_.origin("lora_rank") : "model");
  }

  [[nodiscard]] AttentionKind settle_attention() {
    const bool has_kernel = cluster_.accelerator.kernels.attention_forward.has_value();
    if (request_.attention == "flash" && !has_kernel) {
      throw InputError({},
                       fmt::format("--attention flash: no rates of a fused kernel for {}",
                                   cluster_.accelerator.name),
                       "use --attention unfused");
    }
    const bool fused = request_.attention ? *request_.attention == "flash" : has_kernel;
    std::string origin = has_kernel ? "default" : "profile";
    if (request_.attention) origin = request_.origin("attention");
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
    const AttentionKind attention = settle_attention();
    NetworkOptions network_options{.attention = attention,
                                   .implementation = framework_.implementation};
    auto seq_len = Chosen<std::int64_t>().or_else(request_.seq_len, request_.origin("seq_len"));
    if (model_.stack == StackKind::Graph) refuse_built(model_, request_, cluster_);
    if (model_.stack == StackKind::Vision || model_.stack == StackKind::Graph) {
      const std::int64_t tokens = tokens_of(build_network(model_, network_options));
      if (request_.seq_len.value_or(tokens) != tokens) {
        throw InputError(
            {}, fmt::format("--seq-len: the sizes of {} set it to {}", model_.name, tokens));
      }
      seq_len.or_else(tokens, "model");
    } else {
      if (is_tuning(request_)) {
        seq_len.or_else(std::min(model_.training.seq_len, kTuningLength), "default");
      }
      seq_len.or_else(model_.training.seq_len, training_origin());
      network_options.seq_len = seq_len.value();
    }
    check_positions(seq_len);
    settled_.problem.seq_len = seq_len.value();
    if (request_.packing) {
      check_packing(model_, attention);
      network_options.documents = read_documents(*request_.packing, seq_len.value());
    }
    if (request_.images) {
      network_options.images =
          asked_images(model_, request_, attention, seq_len.value(), settled_.settings);
    }
    Network network = build_network(model_, network_options);
    if (request_.task == "dpo") add_reference(network);
    check_named_kernels(network, framework_);
    settle_routing(network);
    settled_.problem.network = std::make_shared<const Network>(std::move(network));
    note("seq_len", fmt::format("{}", seq_len.value()), seq_len.origin());
    if (request_.packing) note("packing", *request_.packing, request_.origin("packing"));
    note_trained();
    check_experts_and_modules();
  }

  /// Checks the parts of a plan that only some models and frameworks have.
  void check_experts_and_modules() {
    const auto ids = asked_values(Degree::Dispatcher);
    for (const int id : ids) {
      check_dispatcher(framework_, model_, cluster_, static_cast<DispatcherId>(id));
    }
    leave_dispatchers_out(framework_, cluster_);
    take_offloads(framework_, cluster_, asked_values(Degree::Offload));
    check_paged_states(framework_, cluster_);
    if (framework_.paged_states) note("paged_states", "1", request_.origin("paged_states"));
    if (ids.empty() && model_.moe && framework_.dispatcher.path != TokenPath::Pairs) {
      note("dispatcher", framework_.dispatcher.name, "framework");
    }
    for (const int modules : asked_values(Degree::RecomputeModules)) {
      if (modules == 0 || modules == kFewestModules) continue;
      check_recompute_modules(framework_, model_, *settled_.problem.network,
                              LayerModules(static_cast<unsigned>(modules)));
    }
    framework_.recompute_modules &= ~unscaled_modules(framework_);
  }

  /// The value of a degree that was given, or the list.
  [[nodiscard]] std::vector<int> asked_values(Degree degree) const {
    if (const auto value = request_.degrees.get(degree)) return {*value};
    return request_.limits.listed(degree);
  }

  /// Tokens are drawn unless the model says how full its fullest rank is.
  void settle_routing(Network& network) {
    std::string origin = "default";
    if (request_.routing) {
      apply_routing(framework_, model_, network, *request_.routing);
      origin = request_.origin("routing");
    } else if (network.routing && network.routing->imbalance > 1.0) {
      origin = "model";
    } else if (network.routing) {
      network.routing->spread = framework_.routings.front().spread;
    }
    if (network.routing) note("routing", routing_text(framework_, network), std::move(origin));
  }

  void settle_batch() {
    Chosen<std::int64_t> batch;
    batch.or_else(request_.batch, request_.origin("batch"));
    if (is_tuning(request_)) {
      const std::int64_t pair = request_.task == "dpo" ? 2 : 1;
      batch.or_else(std::max<std::int64_t>(kTuningBatch, pair * settled_.gpus.value_or(1)),
                    "default");
    }
    if (model_.training.global_batch > 0)
      batch.or_else(model_.training.global_batch, training_origin());
    const std::int64_t sequences =
        reads_tokens(model_)
            ? std::max<std::int64_t>(1, kDefaultTokensPerStep / settled_.problem.seq_len)
            : kDefaultSamplesPerStep;
    batch.or_else(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(sequences))),
                  "default");
    constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
    if (batch.value() > kLargest) {
      throw InputError({}, fmt::format("--batch {}: more than {}", batch.value(), kLargest),
                       "it counts sequences per optimizer step, not tokens");
    }
    settled_.problem.global_batch = batch.value();
    constexpr double kMostTokens = 1e9;  // of a step; the largest published are below 200 M
    const double tokens = static_cast<double>(batch.value() * settled_.problem.seq_len);
    if (request_.batch && reads_tokens(model_) && tokens > kMostTokens) {
      settled_.notes.push_back(fmt::format("--batch {} are {} tokens a step: it counts sequences",
                                           batch.value(), count_text(tokens)));
    }
    note("batch", fmt::format("{}", batch.value()), batch.origin());
  }

  void settle_reserve() {
    settled_.problem.memory_reserve =
        kept_free(request_, cluster_.accelerator.memory, parameter_count(*settled_.problem.network),
                  settled_.settings);
  }

  void settle_risk() {
    double& risk = settled_.problem.memory_risk;
    risk = request_.mem_risk.value_or(kDefaultMemoryRisk);
    note("mem_risk", fmt::format("{}", risk),
         request_.mem_risk ? request_.origin("mem_risk") : "default");
  }

  void settle_site() {
    const Chosen<SiteEffect> site =
        choose_site(request_, *settled_.files.sites, cluster_, framework_.name);
    if (cluster_.site && site.origin() == "default") {
      settled_.notes.push_back(fmt::format(
          "note: the site of {} was fitted to runs with {}; with {} it is a typical one",
          cluster_.name, cluster_.site->framework, framework_.name));
    }
    settled_.problem.site = site.value();
    note("site", fmt::format("{} x{:.3g}", site.value().name, site.value().factor), site.origin());
  }

  void settle_tokens() {
    if (!request_.tokens) return;
    const auto count = read_large_count(*request_.tokens);
    if (const auto* problem = std::get_if<std::string>(&count)) {
      throw InputError({}, fmt::format("--tokens: {}", *problem), "it counts tokens to train on");
    }
    settled_.tokens = std::get<double>(count);
    note("tokens", fmt::format("{}", *settled_.tokens), request_.origin("tokens"));
  }

  /// Only orders made for the case read it.
  void settle_memory_cap() {
    if (!request_.memory_cap) return;
    const auto asked = request_.degrees.get(Degree::Schedule);
    if (!asked || !schedule_row(static_cast<ScheduleId>(*asked)).tuned) {
      throw InputError(
          {}, "--memory-cap is for orders made for the case",
          "with --schedule zb-auto; plansearch schedule NAME checks others against it");
    }
    framework_.memory_cap = request_.memory_cap;
    note("memory_cap", fmt::format("{}", *request_.memory_cap), request_.origin("memory_cap"));
  }

  /// Implementations decide what is kept: before the network is built.
  void settle_software() {
    refuse_contradictions(request_, request_.attention.value_or(""), settled_.problem.precision);
    apply_software(framework_, cluster_.software, request_, settled_.problem.precision);
    using enum Setting;
    for (const Setting setting :
         {Set, Operators, Implementation, Kernels, MainGradients, BasePrecision, OptimizerStates,
          Fp8Recipe, CudaGraphs, DelayWeightGradients, OptimizerInBackward}) {
      const SettingRow& row = row_of(setting);
      const auto value = row.get(request_);
      if (value) note(std::string(row.key), *value, request_.origin(row.key));
    }
  }

  void settle_framework_flags() {
    if (request_.rank_order) apply_rank_order(framework_, *request_.rank_order);
    note("rank_order", rank_order_text(framework_),
         request_.rank_order ? request_.origin("rank_order") : "framework");
    expose_exchanges_of_lone_experts(framework_, *settled_.problem.network);
    if (request_.overlap) apply_overlap(framework_, *request_.overlap);
    note("overlap", overlap_text(framework_),
         request_.overlap ? request_.origin("overlap") : "framework");
  }

  const ProblemRequest& request_;
  ResolvedQuestion settled_;
  const Cluster& cluster_;
  ModelDescription model_;
  Framework framework_;
};

}  // namespace

ProblemFiles read_problem_files(const ProblemRequest& request, const ShippedData& shipped) {
  if (request.hardware.empty()) {
    throw InputError({}, "no hardware profile: --hw is missing",
                     "plansearch list hw shows the shipped ones");
  }
  if (request.model.empty()) {
    throw InputError({}, "no model: --model is missing",
                     "plansearch list models shows the shipped ones");
  }
  const ShippedData data =
      shipped.changed(request.set.value_or("")).with_operators(request.operators.value_or(""));
  ProblemFiles files;
  files.cluster = std::make_shared<const Cluster>(data.cluster(request.hardware));
  ShippedModel model = data.model(request.model);
  if (const auto change = change_of_length(model.description, request.seq_len)) {
    model = data.changed(*change).model(request.model);
  }
  files.model = std::make_shared<const ShippedModel>(std::move(model));
  const std::string& chip = files.cluster->accelerator.name;
  files.framework = std::make_shared<const Framework>(
      asked_framework(request, data, chip, files.model->description.stack));
  files.sites = std::make_shared<const SiteTable>(data.sites());
  return files;
}

ResolvedQuestion resolve_question(const ProblemRequest& request, const ProblemFiles& files) {
  const ProblemRequest plain = with_plain_optimizer(request);
  ResolvedQuestion settled = QuestionResolver(plain, files).settle();
  settled.request = request;  // as asked
  return settled;
}

ResolvedQuestion load_problem(const ProblemRequest& request, const ShippedData& data) {
  return resolve_question(request, read_problem_files(request, data));
}

Problem with_gpus(const ResolvedQuestion& asked, int gpus) {
  Problem problem = asked.problem;
  problem.gpus = gpus;
  return problem;
}

}  // namespace plansearch
