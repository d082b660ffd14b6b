// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/names.hpp"
#include "base/units.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

constexpr std::array<std::string_view, 5> kCollectives{"all_reduce", "all_gather", "reduce_scatter",
                                                       "alltoall", "sendrecv"};
constexpr std::string_view kSummary = "Avg bus bandwidth";
constexpr double kMicrosecond = 1e-6;

constexpr std::string_view kBlanks = " \t\n\v\f\r";

/// The collective that a program or file is named after; empty: none that is known.
std::string collective_in(std::string_view text) {
  for (const std::string_view name : kCollectives) {
    if (text.find(name) != std::string_view::npos) return std::string(name);
  }
  return {};
}

bool is_count(std::string_view word) {
  return !word.empty() && word.size() < 16 &&
         std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

/// "#  Rank  0 Group  0 Pid 1 on host device 0 [0000:07:00] NVIDIA H100 80GB HBM3"
bool is_rank(const std::vector<std::string>& words) {
  return words.size() > 4 && words[0] == "#" && words[1] == "Rank" && is_count(words[2]);
}

bool is_header(const std::vector<std::string>& words) {
  return words.size() > 5 && words[0] == "#" && words[1] == "size" && words[2] == "count";
}

/// Columns in front of the first time, and columns from it on, as the header has them.
struct Columns {
  std::size_t before = 0;
  std::size_t from_time = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  void read(std::string_view line) {
    ++line_;
    const std::vector<std::string> words = words_of(line, kBlanks);
    if (words.empty()) return;
    if (words[0].front() == '#') return remark(line, words);
    // Launchers put in lines of their own ("1 more process has sent ...").
    const bool two_numbers =
        words.size() < 2 || (words[1].front() >= '0' && words[1].front() <= '9');
    if (columns_ && is_count(words[0]) && two_numbers) row(words);
  }

  std::vector<NcclTest> finish() {
    if (!test_.times.empty()) {
      fail("the log ends before the summary of its test",
           "run the test to its end; its last lines give the average bus bandwidth");
    }
    if (tests_.empty()) fail("no test with a result is in the log", "is this the right file?");
    return std::move(tests_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, std::string hint = {}) const {
    throw InputError({file_, std::max(line_, 1), 1}, message, std::move(hint));
  }

  void remark(std::string_view line, const std::vector<std::string>& words) {
    if (line.find("Collective test starting") != std::string_view::npos) {
      named_ = collective_in(line);
      if (named_.empty()) {
        fail(fmt::format("\"{}\" is not a collective that is priced here", words.back()),
             "all_reduce, all_gather, reduce_scatter, alltoall and sendrecv are");
      }
    } else if (line.find("nThread") != std::string_view::npos) {
      start();
    } else if (is_rank(words)) {
      rank(line, words);
    } else if (is_header(words)) {
      header(words);
    } else if (line.find(kSummary) != std::string_view::npos) {
      summary();
    } else if (line.find("Out of bounds values") != std::string_view::npos &&
               line.find("FAILED") != std::string_view::npos) {
      fail("the test found wrong results", "times of a collective that fails say nothing");
    }
  }

  void start() {
    if (!test_.times.empty()) fail("a test starts before the summary of the one above");
    test_ = {};
    hosts_.clear();
    columns_.reset();
  }

  void rank(std::string_view line, const std::vector<std::string>& words) {
    const auto group = std::ranges::find(words, "Group");
    if (group != words.end() && group + 1 != words.end() && *(group + 1) != "0") return;
    const auto host = std::ranges::find(words, "on");
    const std::size_t bracket = line.rfind(']');
    if (host == words.end() || host + 1 == words.end() || bracket == std::string_view::npos) {
      fail("the line of this rank is cut");
    }
    hosts_.insert(*(host + 1));
    ++test_.ranks;
    std::string device;
    for (const std::string& word : words_of(line.substr(bracket + 1), kBlanks)) {
      device += (device.empty() ? "" : " ") + word;
    }
    if (test_.ranks > 1 && device != test_.device) {
      fail(fmt::format("the ranks mix accelerators: {}, {}", test_.device, device),
           "fit a profile to one kind at a time");
    }
    test_.device = device;
  }

  void header(const std::vector<std::string>& words) {
    const auto time = std::ranges::find_if(
        words, [](const std::string& word) { return word == "time" || word == "cputime"; });
    if (time == words.end()) fail("the header has no column \"time\"");
    const auto before = static_cast<std::size_t>(time - words.begin()) - 1;  // without '#'
    columns_ = Columns{before, words.size() - 1 - before};
  }

  /// Some collectives leave operation and root blank: then columns count from the right.
  [[nodiscard]] std::size_t time_column(std::size_t words) const {
    const std::size_t all = columns_->before + columns_->from_time;
    if (words >= all || words < columns_->from_time + 3) return columns_->before;
    return words - columns_->from_time;
  }

  void row(const std::vector<std::string>& words) {
    const std::size_t time = time_column(words.size());
    if (words.size() < time + 4) fail("the row is cut", "give the whole log of the test");
    const auto bytes = parse_number(words[0]);
    const auto microseconds = parse_number(words[time]);
    const auto bandwidth = parse_number(words[time + 1]);
    if (!bytes || !microseconds || !bandwidth || *microseconds < 0.0 || *bandwidth < 0.0) {
      fail("the row has text where size, time and bandwidth stand",
           "give the log as it was printed");
    }
    const auto wrong = parse_number(words[time + 3]);
    if (wrong && *wrong != 0.0 && *wrong >= 1.0) {
      fail("the test found wrong results", "times of a collective that fails say nothing");
    }
    if (*bytes == 0.0) return;
    // Printed with two decimals, fewer where they do not fit.
    const double expected = *microseconds > 0.0 ? *bytes / *microseconds * 1e-3 : 0.0;
    if (*microseconds == 0.0 || std::abs(expected - *bandwidth) > 0.03 * expected + 0.011) {
      fail(fmt::format("{} bytes in {} us are {:.2f} GB/s, not {}", words[0], words[time], expected,
                       words[time + 1]),
           "give the log as it was printed");
    }
    if (test_.times.empty()) test_.line = line_;
    test_.times.push_back({line_, Bytes(*bytes), Seconds(*microseconds * kMicrosecond)});
  }

  void summary() {
    if (test_.times.empty()) fail("the test has a summary but no row");
    if (test_.ranks < 2) {
      fail(test_.ranks == 0 ? "the log does not list its ranks" : "a single rank sends nothing",
           "keep the lines \"#  Rank ...\" that the test prints first");
    }
    test_.nodes = static_cast<int>(hosts_.size());
    if (test_.ranks % test_.nodes != 0) {
      fail(fmt::format("{} ranks do not spread evenly over {} nodes", test_.ranks, test_.nodes));
    }
    test_.collective =
        named_.empty() ? collective_in(std::filesystem::path(file_).filename().string()) : named_;
    if (test_.collective.empty()) {
      fail("the log does not say which collective it is of",
           "name the file after the test, such as all_reduce.txt");
    }
    tests_.push_back(std::exchange(test_, {}));
    named_.clear();
    hosts_.clear();
    columns_.reset();
  }

  const std::string& file_;
  int line_ = 0;
  std::string named_;
  NcclTest test_;
  std::set<std::string> hosts_;
  std::optional<Columns> columns_;
  std::vector<NcclTest> tests_;
};

template <typename Function>
void for_each_line(std::string_view text, const Function& function) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    function(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

bool is_nccl_log(std::string_view text) {
  bool found = false;
  for_each_line(text, [&](std::string_view line) {
    if (line.find('#') == std::string_view::npos) return;
    found = found || (line.front() == '#' && (line.find("nThread") != std::string_view::npos ||
                                              is_header(words_of(line, kBlanks))));
  });
  return found;
}

std::vector<NcclTest> parse_nccl_log(std::string_view text, const std::string& file_name) {
  Reader reader(file_name);
  for_each_line(text, [&](std::string_view line) { reader.read(line); });
  return reader.finish();
}

}  // namespace plansearch::io
