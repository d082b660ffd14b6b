// SPDX-License-Identifier: Apache-2.0
// Computes: likelihoods of causes of a measured step.
// Source: Bayes' rule with log-normal errors: ln(measured / predicted) has the deviation that the
//         interval of the prediction says, above and below.
//         With a profile, every part of the step by the same rule (measured_terms.cpp). With a log, the peak of
//         memory by the error of predicted peaks, and the operations of a step as the program counts them.
// Assumes: one cause at a time; odds of causes before the measurement (causes.cpp); a cause that
//          has no price spreads over a factor of e either way, in the step and in every part; parts
//          of a step err by a fifth. Causes under which the measurement is less likely than with
//          nothing wrong explain nothing, and stand behind those that do.
// Units: seconds; likelihoods add to 1.
// Checked by: tests/unit/question/diagnose_test.cpp, tools/diagnosis.py
#include "answer/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

#include "answer/make_report.hpp"
#include "answer/search_answer.hpp"
#include "base/names.hpp"
#include "base/statistics.hpp"
#include "base/units.hpp"
#include "evaluate/answer/interval.hpp"
#include "io/logs/training_log.hpp"
#include "plansearch/error.hpp"
#include "question/gpu_count.hpp"

namespace plansearch {
namespace {

constexpr double kNormalOdds = 1.0;
constexpr double kUnknownOdds = 0.1;
constexpr double kUnknownSigma = 1.0;
/// Deviation of the logarithm of one part of a step, and of one that nothing explains.
constexpr double kTermSigma = 0.2;
/// Programs count the operations of a step by so much otherwise: attention, recomputation, logits.
constexpr double kCountSigma = 0.2;
/// Times the odds of a cause whose sign is in the log.
constexpr double kSignOdds = 10.0;
/// A cause that changes less than this is not distinguished from none.
constexpr double kSame = 0.02;

struct Spread {
  double median = 0.0;
  double below = 1.0;  ///< standard deviation of the logarithm, for less time
  double above = 1.0;
};

Spread spread_of(const PlanReport& plan) {
  const double median = plan.estimate.step.total().value();
  return {median, std::log(median / plan.p10.value()) / kNormalP90,
          std::log(plan.p90.value() / median) / kNormalP90};
}

double deviation(const Spread& spread, double measured) {
  const double error = std::log(measured / spread.median);
  return error / (error < 0.0 ? spread.below : spread.above);
}

/// Density of the logarithm of the measured step.
double density(const Spread& spread, double measured) {
  const double z = deviation(spread, measured);
  return std::exp(-0.5 * z * z) * 2.0 / (spread.below + spread.above);
}

struct PricedCause {
  std::shared_ptr<const Network> network;
  SearchReport report;
};

/// Nothing where the change contradicts the rest of the question.
std::optional<PricedCause> price_of(const Cause& cause) {
  try {
    const ResolvedPlan given = cause.files.cluster ? resolve_plan(cause.request, cause.files)
                                                   : resolve_plan(cause.request);
    if (given.inexpressible) return std::nullopt;
    return PricedCause{given.problem.network, make_prediction(given)};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void share_out(DiagnosisReport& report) {
  double sum = report.normal + report.unknown;
  for (const CauseReport& cause : report.causes) sum += cause.likelihood;
  if (sum <= 0.0) {  // further from everything than numbers go
    report.unknown = sum = 1.0;
  }
  report.normal /= sum;
  report.unknown /= sum;
  for (CauseReport& cause : report.causes) cause.likelihood /= sum;
  std::ranges::stable_sort(report.causes, [](const CauseReport& a, const CauseReport& b) {
    if (a.explains != b.explains) return a.explains;
    return a.likelihood > b.likelihood;
  });
}

/// The factor of the profile in the likelihood of a plan; 1 without one.
class ProfileEvidence {
 public:
  explicit ProfileEvidence(const Measurement& measured) : file_(measured.profile) {
    if (file_.empty()) return;
    profile_ = io::read_profile(file_);
    steps_ = measured.profiled.value_or(profile_->steps.value_or(1.0));
  }

  /// The time of a step, where the profile says it.
  [[nodiscard]] std::optional<Seconds> step() const {
    if (!profile_) return std::nullopt;
    if (!profile_->times.empty()) return step_times(profile_->times).median;
    if (profile_->span) return *profile_->span / steps_;
    return std::nullopt;
  }

  [[nodiscard]] double density(const Network& network, const PlanReport& plan, double sigma) const {
    if (!profile_ || !profile_->times.empty()) return 1.0;
    return density_of_terms(predicted_terms(network, plan), *profile_, steps_, sigma);
  }

  [[nodiscard]] std::optional<ProfileReport> report(const Network& network,
                                                    const PlanReport& plan) const {
    if (!profile_) return std::nullopt;
    ProfileReport report{file_, steps_, {}, std::nullopt};
    if (profile_->times.empty()) {
      report.terms = terms_beside(predicted_terms(network, plan), *profile_, steps_);
    } else {
      report.times = step_times(profile_->times);
    }
    return report;
  }

 private:
  std::string file_;
  std::optional<io::StepProfile> profile_;
  double steps_ = 1.0;
};

/// The factor of a log in the likelihood of a plan, beside its step time; 1 without one.
class LogEvidence {
 public:
  LogEvidence(const std::optional<LogReport>& log, const MemoryError& error)
      : log_(log), error_(error) {}

  [[nodiscard]] double density(const PlanReport& plan) const {
    constexpr double kUsual = 0.9;  // of runs; the others are as far off as may be
    if (!log_) return 1.0;
    double density = 1.0;
    const auto take = [&](double predicted, double below, double above, double seen) {
      density *=
          kUsual * plansearch::density({predicted, below, above}, seen) +
          (1.0 - kUsual) * plansearch::density({predicted, kUnknownSigma, kUnknownSigma}, seen);
    };
    const auto& peak = log_->allocated ? log_->allocated : log_->reserved;
    const Bytes own = log_->allocated ? plan.peak.allocated : plan.peak.reserved;
    if (peak && own > Bytes(0))
      take(error_.median * own.value(), error_.below, error_.above, peak->value());
    if (log_->flops) {
      const Seconds step = plan.estimate.step.total();
      take(plan.model_rate_per_gpu.value() * step.value(), kCountSigma, kCountSigma,
           log_->flops->value() * log_->times.median.value());
    }
    return density;
  }

  /// Whether the log contradicts steps of the size that `other` has.
  [[nodiscard]] bool refutes(const QuestionReport& asked, const QuestionReport& other) const {
    return log_ && ((log_->says_batch && asked.global_batch != other.global_batch) ||
                    (log_->says_length && asked.seq_len != other.seq_len));
  }

  /// Memory that the device holds at its peak: all of it where the allocator had to ask twice.
  [[nodiscard]] Bytes held(const PlanReport& plan, Bytes memory) const {
    if (log_ && log_->retries > 0) return memory;
    return std::max(plan.peak.process, log_ ? log_->reserved.value_or(Bytes(0)) : Bytes(0));
  }

  [[nodiscard]] double odds(const Cause& cause) const {
    constexpr double kSlow = 1.05;
    if (!log_) return cause.odds;
    const bool retries = cause.sign == LogSign::Retries && log_->retries > 0;
    const bool slow = cause.sign == LogSign::SlowRank && log_->times.slowest_over_median > kSlow;
    return retries || slow ? kSignOdds * cause.odds : cause.odds;
  }

 private:
  const std::optional<LogReport>& log_;
  MemoryError error_;
};

/// A unit that trainers print behind a number.
struct PaceUnit {
  std::string_view text;
  Pace::Counts counts;
  double scale = 1.0;
};
constexpr std::array kPaces{PaceUnit{"tokens/s", Pace::Counts::Tokens},
                            PaceUnit{"tokens/sec", Pace::Counts::Tokens},
                            PaceUnit{"tokens/second", Pace::Counts::Tokens},
                            PaceUnit{"tok/s", Pace::Counts::Tokens},
                            PaceUnit{"tok/sec", Pace::Counts::Tokens},
                            PaceUnit{"tps", Pace::Counts::Tokens},
                            PaceUnit{"samples/s", Pace::Counts::Sequences},
                            PaceUnit{"samples/sec", Pace::Counts::Sequences},
                            PaceUnit{"sequences/s", Pace::Counts::Sequences},
                            PaceUnit{"tflop/s", Pace::Counts::ModelFlops, 1e12},
                            PaceUnit{"tflops", Pace::Counts::ModelFlops, 1e12},
                            PaceUnit{"pflop/s", Pace::Counts::ModelFlops, 1e15},
                            PaceUnit{"pflops", Pace::Counts::ModelFlops, 1e15},
                            PaceUnit{"%-mfu", Pace::Counts::Utilization, 0.01},
                            PaceUnit{"mfu", Pace::Counts::Utilization}};
constexpr std::array<std::string_view, 5> kEachGpu{"/gpu", "-per-gpu", "/device", "-per-device",
                                                   "/chip"};

/// The number before a unit; nothing where the words do not end with it.
std::optional<double> number_before(std::string_view words, std::string_view unit) {
  if (!words.ends_with(unit)) return std::nullopt;
  std::string number(words.substr(0, words.size() - unit.size()));
  std::erase(number, '-');
  const auto value = read_large_count(number);
  const auto* count = std::get_if<double>(&value);
  const auto plain = count != nullptr ? std::optional(*count) : parse_number(number);
  return plain && *plain > 0.0 ? plain : std::nullopt;
}

std::optional<Pace> find_pace(std::string words) {
  bool each = false;
  for (const std::string_view text : kEachGpu) {
    if (each || !words.ends_with(text)) continue;
    words.resize(words.size() - text.size());
    each = true;
  }
  for (const PaceUnit& unit : kPaces) {
    const auto number = number_before(words, unit.text);
    if (number) return Pace{unit.counts, *number * unit.scale, each};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Seconds> step_of(const Measurement& measured, const QuestionReport& question,
                               const PlanReport& plan) {
  if (!measured.pace) return measured.step;
  const auto& [counts, value, of_each] = *measured.pace;
  const double all = value * (of_each ? question.gpus : 1);
  const Seconds predicted = plan.estimate.step.total();
  switch (counts) {
    case Pace::Counts::Tokens:
      return Seconds(static_cast<double>(question.global_batch * question.seq_len) / all);
    case Pace::Counts::Sequences:
      return Seconds(static_cast<double>(question.global_batch) / all);
    case Pace::Counts::ModelFlops:
      return predicted * (plan.model_rate_per_gpu.value() * question.gpus / all);
    case Pace::Counts::Utilization:
      return predicted * (plan.mfu / value);
  }
  throw InternalError("unknown pace");
}

void read_pace(const std::string& text, Measurement& measured) {
  const auto time = parse_quantity<Seconds>(text);
  if (time && *time > Seconds(0)) {
    measured.step = time;
    return;
  }
  const std::string words = canonical_name(text);
  for (const char* unit : {"it/s", "steps/s"}) {
    if (const auto steps = number_before(words, unit)) measured.step = Seconds(1.0 / *steps);
  }
  for (const char* unit : {"s/it", "s/step"}) {
    if (const auto seconds = number_before(words, unit)) measured.step = Seconds(*seconds);
  }
  if (measured.step) return;
  measured.pace = find_pace(words);
  if (measured.pace) return;
  throw InputError(
      {}, fmt::format("--measured: '{}' is neither a time above zero nor a pace", text),
      "such as 18.9s, \"8500 tokens/s\", \"1060 tokens/s/GPU\", \"1.9 s/it\", \"12 samples/s\", "
      "\"310 TFLOP/s/GPU\" or \"27% MFU\"");
}

std::optional<LogReport> read_run_log(const std::string& file, const QuestionReport& question) {
  io::TrainingLog log = io::read_training_log(
      file, log_formats(shipped_data()), {question.gpus, question.global_batch, question.seq_len});
  if (log.out_of_memory) return std::nullopt;
  const auto all = static_cast<std::int64_t>(log.times.size());
  if (2 * log.nans > all) {
    throw InputError({file, 0, 0},
                     fmt::format("the losses of {} of {} steps are not numbers", log.nans, all),
                     "such steps leave out their update: run it again with losses that are "
                     "numbers, or give the step time by hand");
  }
  const SteadySteps steady = steady_steps(log.times);
  log.times = {};  // they may be millions
  return LogReport{.file = file,
                   .format = log.format,
                   .times = step_times(steady.steps),
                   .warm_up = steady.warm_up,
                   .apart = steady.apart,
                   .apart_every = steady.apart_every,
                   .change = steady.change,
                   .skipped = log.skipped,
                   .nans = log.nans,
                   .retries = log.retries,
                   .says_batch = log.says_batch,
                   .says_length = log.says_length,
                   .flops = log.flops,
                   .allocated = log.allocated,
                   .reserved = log.reserved,
                   .not_understood = log.not_understood};
}

io::LogFormats log_formats(const ShippedData& data) {
  return io::read_log_formats(data.directory() / "frameworks" / "logs" / "formats.yaml");
}

static std::optional<LogReport> log_beside(const std::string& file, const SearchReport& base) {
  if (file.empty()) return std::nullopt;
  std::optional<LogReport> log = read_run_log(file, base.question);
  if (!log) {
    throw InputError({file, 0, 0}, "the run ran out of memory",
                     "plansearch predict says how much the plan needs; a search with "
                     "--mem-reserve finds others");
  }
  const PlanReport& plan = base.plans.front();
  const double faster = plan.estimate.step.total() / log->times.median;
  log->own_flops = faster * plan.model_rate_per_gpu;
  log->own_hardware_flops = faster * plan.hardware_rate_per_gpu;
  return log;
}

DiagnosisReport diagnose(const PlanRequest& asked, const Measurement& measured,
                         SearchSession* session) {
  const ProfileEvidence profile(measured);
  std::optional<Seconds> step = measured.step ? measured.step : profile.step();
  if (!step && !measured.pace && measured.log.empty()) {
    throw InputError({measured.profile, 0, 0}, "nothing says how long a step takes",
                     "--measured TIME: step time of the run, such as 18.9s");
  }
  const ResolvedPlan given = resolve_plan(asked);
  if (given.inexpressible) throw InputError({}, *given.inexpressible);
  const SearchReport base = make_prediction(given);
  if (const auto told = step_of(measured, base.question, base.plans.front())) step = told;
  std::optional<LogReport> log = log_beside(measured.log, base);
  if (log && !measured.step && !measured.pace) step = log->times.median;
  const Network& network = *given.problem.network;
  DiagnosisReport report{base.question, base.plans.front(), *step, 0.0, 0.0, 0.0, {}, {}};
  const Spread usual = spread_of(report.plan);
  const double time = step->value();
  report.profile = profile.report(network, report.plan);
  report.log = std::move(log);
  report.faster_share = normal_below(deviation(usual, time));
  const LogEvidence logged(report.log, given.problem.framework->constants.memory_error);
  const double nothing = density(usual, time) * logged.density(report.plan) *
                         profile.density(network, report.plan, kTermSigma);
  report.normal = kNormalOdds * nothing;
  report.unknown = kUnknownOdds * density({usual.median, kUnknownSigma, kUnknownSigma}, time) *
                   logged.density(report.plan) *
                   profile.density(network, report.plan, kUnknownSigma);
  const Bytes held = logged.held(report.plan, given.problem.cluster->accelerator.memory);
  for (const Cause& cause : possible_causes(asked, given, held)) {
    const auto found = price_of(cause);
    if (!found || found->report.plans.empty()) continue;
    // A pace says nothing of the size of a step.
    const QuestionReport& asks = found->report.question;
    const bool other_size =
        asks.global_batch * asks.seq_len != base.question.global_batch * base.question.seq_len;
    if ((measured.pace && other_size) || logged.refutes(base.question, asks)) continue;
    const PlanReport& plan = found->report.plans.front();
    const Spread spread = spread_of(plan);
    const double terms = profile.density(*found->network, plan, kTermSigma);
    if (std::abs(std::log(spread.median / usual.median)) < kSame) continue;
    const double runs = 1.0 - plan.memory_risk;
    const double evidence = density(spread, time) * logged.density(plan) * terms;
    report.causes.push_back({cause.what, cause.check, plan.estimate.step.total(),
                             logged.odds(cause) * runs * evidence,
                             plan.memory_fit == MemoryFit::Fits, evidence > nothing});
  }
  share_out(report);
  if (session != nullptr) report.advice = missed_by(given, base, *session);
  return report;
}

}  // namespace plansearch
