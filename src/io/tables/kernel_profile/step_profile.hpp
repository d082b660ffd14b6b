// SPDX-License-Identifier: Apache-2.0
// A profile of training steps on one device: time of kernels by their part of the step, and idle
// time.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "plansearch/quantity.hpp"

namespace plansearch::io {

/// The part of a step that a kernel belongs to.
enum class ProfileTerm : std::uint8_t {
  Product,        ///< matrix products
  Attention,      ///< fused attention
  MemoryBound,    ///< everything that no other row names
  Optimizer,      ///< the update of the parameters
  AllReduce,      ///<
  AllGather,      ///< broadcasts too
  ReduceScatter,  ///<
  Exchange,       ///< sends, receives and all-to-alls: NCCL runs all three by one kernel
  Copy,           ///< between host and device
};
inline constexpr std::size_t kProfileTerms = 9;
[[nodiscard]] std::string_view to_text(ProfileTerm term);
[[nodiscard]] bool is_message(ProfileTerm term);

/// The term of a kernel, or of an operator of a processor, by its name.
[[nodiscard]] ProfileTerm term_of(std::string_view kernel);

struct TermTime {
  Seconds time{};
  double calls = 0.0;
};

/// A step as one rank took it.
struct RankStep {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  Seconds time;
};

struct StepProfile {
  std::array<TermTime, kProfileTerms> terms{};  ///< of the whole profile
  std::optional<double> steps;                  ///< that it covers, where it says so
  std::optional<Seconds> span;     ///< from the first kernel to the end of the last one
  std::optional<Seconds> exposed;  ///< messages run and nothing else
  std::optional<Seconds> idle;     ///< nothing runs
  std::vector<RankStep> times;     ///< a list of steps has these and no kernels

  [[nodiscard]] TermTime& at(ProfileTerm term) { return terms[static_cast<std::size_t>(term)]; }
  [[nodiscard]] const TermTime& at(ProfileTerm term) const {
    return terms[static_cast<std::size_t>(term)];
  }
};

/// A trace of PyTorch's profiler (JSON), a kernel summary of Nsight Systems (`nsys stats -r
/// cuda_gpu_kern_sum --format csv`), sums of kernels (`name,time_us,calls`, of which a row `span`
/// is the whole profile), or steps (`step,time_s`, with `rank`). InputError with the place of what
/// is wrong; files without kernels are refused.
[[nodiscard]] StepProfile read_profile(const std::filesystem::path& path);

// The formats, by the text of the file.
[[nodiscard]] StepProfile read_chrome_trace(std::string_view text, const std::string& file);
[[nodiscard]] StepProfile read_kernel_table(std::string_view text, const std::string& file);

}  // namespace plansearch::io
