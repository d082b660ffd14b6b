// SPDX-License-Identifier: Apache-2.0
#include "io/logs/training_log.hpp"
#include "io/document/file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/ranges.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

using Numbers = std::array<std::optional<double>, kLoggedCount>;

std::optional<double>& at(Numbers& numbers, Logged what) {
  return numbers[static_cast<std::size_t>(what)];
}

std::int64_t count_of(const std::optional<double>& number) {
  return std::llround(std::clamp(number.value_or(0.0), 0.0, 1e12));
}

/// Numbers that a log says more than once, whatever its format: the last, and its line.
struct Fact {
  double value;
  std::int64_t line;
};

/// A step of one rank as a line says it.
struct Row {
  RankStep step;
  double total = 0.0;
};

/// Numbers of steps of one rank.
class StepNumbers {
 public:
  /// The number of the next step, by what is printed. Runs that start again go back.
  std::int64_t next(const std::optional<double>& printed) {
    constexpr std::int64_t kOutOfOrder = 2;
    const std::int64_t step = printed ? count_of(printed) : last_ + 1;
    if (step + kOutOfOrder < last_) offset_ += last_ - step + 1;
    last_ = step;
    return step + offset_;
  }
  /// Time of a step from the time since the start; nothing where it did not grow.
  std::optional<double> since_last(std::int64_t step, double elapsed) {
    const auto steps = static_cast<double>(step - before_);
    const double time = elapsed - elapsed_;
    if (steps <= 0.0 || !std::isfinite(elapsed)) return std::nullopt;
    before_ = step;
    elapsed_ = elapsed;
    return time > 0.0 ? std::optional(time / steps) : std::nullopt;
  }

  [[nodiscard]] bool cumulative() const { return before_ > 0; }

 private:
  std::int64_t last_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t before_ = 0;
  double elapsed_ = 0.0;
};

/// The steps of one format.
class FormatRows {
 public:
  explicit FormatRows(const LoggedJob& job) : job_(job) {}

  /// False where no time is in the line.
  bool add(Numbers& numbers, std::int64_t rank) {
    StepNumbers& own = ranks_[rank];
    const auto printed = at(numbers, Logged::Step);
    const auto total = at(numbers, Logged::Total);
    if (total && total != total_) own = {};
    total_ = total;
    const std::int64_t step = own.next(printed);
    const auto time = time_of(numbers, own, step);
    if (!time || !(*time > 0.0) || !std::isfinite(*time)) return false;
    rows_.push_back({{step, rank, Seconds(*time)}, total.value_or(0.0)});
    if (const auto rate = at(numbers, Logged::FlopRate)) add_rate(*rate);
    cumulative_ = own.cumulative();
    return true;
  }
  void add_rate(double rate) {
    if (rate > 0.0) rates_.push_back(rate);
  }

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] std::optional<FlopRate> flops() {
    if (rates_.empty()) return std::nullopt;
    const auto middle = rates_.begin() + static_cast<std::ptrdiff_t>(rates_.size() / 2);
    std::ranges::nth_element(rates_, middle);
    return FlopRate(*middle);
  }
  /// Those of the bar that took longest, where there are several; without the first of times since
  /// the start, which has the start in it.
  [[nodiscard]] std::vector<RankStep> steps() const {
    std::map<double, double> time;
    for (const Row& row : rows_) time[row.total] += row.step.time.value();
    const auto longest = std::ranges::max_element(time, {}, [](const auto& t) { return t.second; });
    std::vector<RankStep> steps;
    for (const Row& row : rows_) {
      const bool start = cumulative_ && &row == &rows_.front() && rows_.size() > 1;
      if (row.total == longest->first && !start) steps.push_back(row.step);
    }
    return steps;
  }

 private:
  [[nodiscard]] std::optional<double> time_of(Numbers& numbers, StepNumbers& own,
                                              std::int64_t step) const {
    const auto batch = static_cast<double>(job_.batch);
    const double tokens = batch * static_cast<double>(job_.seq_len);
    const auto gpus = static_cast<double>(job_.gpus);
    const auto steps = static_cast<double>(step);
    if (const auto v = at(numbers, Logged::StepTime)) return v;
    if (const auto v = at(numbers, Logged::StepsPerS)) return 1.0 / *v;
    if (const auto v = at(numbers, Logged::TokensPerS)) return tokens / *v;
    if (const auto v = at(numbers, Logged::TokensPerSGpu)) return tokens / (*v * gpus);
    if (const auto v = at(numbers, Logged::SamplesPerS)) return batch / *v;
    if (const auto v = at(numbers, Logged::MeanStepTime)) return own.since_last(step, *v * steps);
    if (const auto v = at(numbers, Logged::MeanStepsPerS)) return own.since_last(step, steps / *v);
    if (const auto v = at(numbers, Logged::Elapsed)) return own.since_last(step, *v);
    return std::nullopt;
  }

  LoggedJob job_;
  std::optional<double> total_;
  bool cumulative_ = false;
  std::map<std::int64_t, StepNumbers> ranks_;
  std::vector<Row> rows_;
  std::vector<double> rates_;
};

/// A fact of the log beside that of the plan.
struct Check {
  Logged what;
  std::string_view words;
  std::int64_t planned;
  std::string_view flag;    ///< empty: no one flag says it
  double tolerance = 1e-6;  ///< paces times times are rounded
};

class LogReader {
 public:
  LogReader(std::string file, const LogFormats& formats, const LoggedJob& job)
      : file_(std::move(file)), formats_(formats), job_(job) {
    for (std::size_t i = 0; i < formats.formats.size(); ++i) rows_.emplace_back(job);
    missed_.resize(rows_.size());
  }

  /// Text that goes on where the last piece ended. A carriage return ends a line, and counts none;
  /// of a line, 64 KiB are read.
  void take(std::string_view piece) {
    constexpr std::size_t kLongest = std::size_t{1} << 16U;
    while (!piece.empty()) {
      const std::size_t end = piece.find_first_of("\n\r");
      const std::string_view part = piece.substr(0, end);
      const bool whole = end != std::string_view::npos;
      if (!whole || !begun_.empty()) begun_ += part.substr(0, kLongest - begun_.size());
      if (!whole) return;
      read(begun_.empty() ? part : begun_);
      begun_.clear();
      if (piece[end] == '\n') ++line_;
      piece.remove_prefix(end + 1);
    }
  }

  TrainingLog finish() {
    read(begun_);
    TrainingLog log;
    log.out_of_memory = out_of_memory_;
    if (out_of_memory_ && longest_ == 0) return log;
    const std::size_t own = own_format();
    check_job();
    log.format = formats_.formats[own].name;
    log.times = rows_[own].steps();
    const auto& updated = fact(Logged::PromptsOfUpdate);
    if (const auto& prompts = fact(Logged::Prompts); prompts && updated) {
      for (RankStep& step : log.times) step.time = step.time * (updated->value / prompts->value);
    }
    log.says_length = fact(Logged::SeqLen) || fact(Logged::Tokens);
    log.says_batch = fact(Logged::Batch) || fact(Logged::Tokens);
    if (const auto& retries = fact(Logged::Retries)) log.retries = count_of(retries->value);
    log.flops = rows_[own].flops();
    const auto most = [&](Logged what) {
      const auto& fact = facts_[static_cast<std::size_t>(what)];
      return fact ? std::optional(Bytes(fact->value)) : std::nullopt;
    };
    log.allocated = most(Logged::Allocated);
    log.reserved = most(Logged::Reserved);
    log.skipped = std::max(skipped_, skipped_so_far_);
    log.nans = nans_;
    log.not_understood = missed_[own];
    return log;
  }

 private:
  void read(std::string_view line) {
    std::string plain;
    if (line.find('\x1b') != std::string_view::npos) line = plain = without_colours(line);
    constexpr std::size_t kSure = 200;
    const auto is_in = [&](const std::string& words) { return has_word(line, words); };
    if (!out_of_memory_ && std::ranges::any_of(formats_.out_of_memory, is_in))
      out_of_memory_ = line_;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (sure_ && *sure_ != i) continue;
      for (const LogLine& kind : formats_.formats[i].lines) {
        if (has_word(line, kind.mark)) read(line, kind, i);
      }
    }
    if (!sure_ && longest_ >= kSure) sure_ = own_format();
  }

  void read(std::string_view line, const LogLine& kind, std::size_t format) {
    Numbers numbers{};
    for (const LogField& field : kind.fields) {
      auto& value = at(numbers, field.what);
      if (value) continue;
      value = field.pattern.find(line);
      if (value) *value *= field.factor;
    }
    take_facts(numbers);
    if (!kind.paced) {
      if (const auto rate = at(numbers, Logged::FlopRate)) rows_[format].add_rate(*rate);
      return;
    }
    const bool added = rows_[format].add(numbers, rank_of(line));
    longest_ = std::max(longest_, rows_[format].size());
    if (!added && !kind.open) missed_[format].push_back(line_);
  }

  [[nodiscard]] std::int64_t rank_of(std::string_view line) const {
    for (const LinePattern& pattern : formats_.ranks) {
      const auto rank = pattern.find(line);
      if (rank && *rank >= 0.0 && *rank < 1e9) return std::llround(*rank);
    }
    return 0;
  }

  void take_facts(Numbers& numbers) {
    const auto time = at(numbers, Logged::StepTime);
    const auto pace = at(numbers, Logged::TokensPerSGpu);
    if (time && pace) at(numbers, Logged::Tokens) = *time * *pace * static_cast<double>(job_.gpus);
    skipped_ += count_of(at(numbers, Logged::Skipped));
    nans_ += count_of(at(numbers, Logged::Nans));
    skipped_so_far_ = std::max(skipped_so_far_, count_of(at(numbers, Logged::SkippedSoFar)));
    for (const Logged what : {Logged::Batch, Logged::Tokens, Logged::SeqLen, Logged::Gpus,
                              Logged::Prompts, Logged::PromptsOfUpdate}) {
      if (const auto& value = at(numbers, what); value && *value > 0.0)
        fact(what) = {*value, line_};
    }
    for (const Logged what : {Logged::Allocated, Logged::Reserved, Logged::Retries}) {
      const auto& value = at(numbers, what);
      if (value && (!fact(what) || fact(what)->value < *value)) fact(what) = {*value, line_};
    }
  }

  std::optional<Fact>& fact(Logged what) { return facts_[static_cast<std::size_t>(what)]; }

  /// The first that has a few steps, else the one that has most.
  [[nodiscard]] std::size_t own_format() const {
    constexpr std::size_t kFew = 3;
    const auto few = std::ranges::find_if(rows_, [](const auto& r) { return r.size() >= kFew; });
    const auto most = std::ranges::max_element(rows_, {}, [](const auto& r) { return r.size(); });
    const auto own = few == rows_.end() ? most : few;
    if (own->size() == 0) fail_without_steps();
    return static_cast<std::size_t>(own - rows_.begin());
  }

  [[noreturn]] void fail_without_steps() const {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (missed_[i].empty()) continue;
      throw InputError({file_, static_cast<int>(missed_[i].front()), 1},
                       fmt::format("the line is like those of {}, but no time of a step is in it",
                                   formats_.formats[i].name),
                       "--measured TIME gives the step time without a log");
    }
    const auto names = transformed<std::string>(formats_.formats, &LogFormat::name);
    throw InputError({file_, 0, 0}, "no training step is in this log",
                     fmt::format("lines of {} are read (docs/logs.md); --measured TIME gives the "
                                 "step time without a log",
                                 fmt::join(names, ", ")));
  }

  void check_job() {
    constexpr double kRounded = 5e-3;  // nanotron prints three digits
    const std::array checks{
        Check{Logged::Gpus, "GPUs", job_.gpus, "--gpus"},
        Check{Logged::Batch, "sequences a step", job_.batch, "--batch", kRounded},
        Check{Logged::SeqLen, "tokens a sequence", job_.seq_len, "--seq-len"},
        Check{Logged::Tokens, "tokens a step", job_.batch * job_.seq_len, "", 0.05}};
    for (const Check& check : checks) {
      const auto& found = fact(check.what);
      if (!found || !(found->value > 0.0)) continue;
      const auto planned = static_cast<double>(check.planned);
      if (std::abs(found->value / planned - 1.0) <= check.tolerance) continue;
      const std::string flag = check.flag.empty()
                                   ? "--batch and --seq-len of the run"
                                   : fmt::format("{} {:.0f}", check.flag, found->value);
      throw InputError({file_, static_cast<int>(found->line), 1},
                       fmt::format("the log is of another job: {:.0f} {}, the plan has {}",
                                   found->value, check.words, check.planned),
                       flag + ", or the log of this plan");
    }
  }

  std::string file_;
  const LogFormats& formats_;
  LoggedJob job_;
  std::string begun_;  ///< of a line that goes on in the next piece
  std::int64_t line_ = 1;
  std::size_t longest_ = 0;          ///< steps of a format
  std::optional<std::size_t> sure_;  ///< the log's format, once it has many
  std::vector<FormatRows> rows_;
  std::vector<std::vector<std::int64_t>> missed_;
  std::array<std::optional<Fact>, kLoggedCount> facts_{};
  std::int64_t skipped_ = 0;
  std::int64_t skipped_so_far_ = 0;
  std::int64_t nans_ = 0;
  std::optional<std::int64_t> out_of_memory_;
};

}  // namespace

bool is_training_log(std::string_view text, const LogFormats& formats) {
  const auto is_in = [&](const std::string& words) { return has_word(text, words); };
  if (std::ranges::any_of(formats.out_of_memory, is_in)) return true;
  return std::ranges::any_of(formats.formats, [&](const LogFormat& format) {
    return std::ranges::any_of(format.lines,
                               [&](const LogLine& line) { return line.paced && is_in(line.mark); });
  });
}

TrainingLog read_training_log(const std::filesystem::path& path, const LogFormats& formats,
                              const LoggedJob& job) {
  LogReader reader(path.string(), formats, job);
  for_each_piece(path, [&](std::string_view piece) { reader.take(piece); });
  return reader.finish();
}

TrainingLog parse_training_log(std::string_view text, const std::string& file,
                               const LogFormats& formats, const LoggedJob& job) {
  LogReader reader(file, formats, job);
  reader.take(text);
  return reader.finish();
}

}  // namespace plansearch::io
