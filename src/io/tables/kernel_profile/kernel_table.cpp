// SPDX-License-Identifier: Apache-2.0
// Tables of a profile: kernel summaries of Nsight Systems, sums of kernels by name, times of steps.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "base/names.hpp"
#include "io/document/file.hpp"
#include "io/tables/csv.hpp"
#include "io/tables/kernel_profile/step_profile.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kLargestProfile = std::size_t{2} << 30U;
/// The name of the row for the time of the whole profile, the only one that is not a kernel.
constexpr std::string_view kSpan = "span";

/// A table of kernels: where its times and calls stand, and what a unit is.
struct TableForm {
  std::string_view name;
  std::string_view time;
  std::string_view calls;
  double unit;  ///< seconds
};
constexpr std::array kForms{TableForm{"Name", "Total Time (ns)", "Instances", 1e-9},
                            TableForm{"name", "time_us", "calls", 1e-6}};

double needed(const CsvTable& table, const CsvRow& row, std::string_view column) {
  const auto value = table.number(row, column, 0.0);
  if (!value) table.fail(row, column, "is empty");
  return *value;
}

/// Whether a column that may be left out is there. One whose name is nearly right would be passed over.
bool has_optional(const CsvTable& table, std::string_view column) {
  if (table.has(column)) return true;
  const std::vector<std::string> wanted{std::string(column)};
  for (const std::string& other : table.header()) {
    if (did_you_mean(other, wanted).empty()) continue;
    table.fail_header(fmt::format("has a column '{}' that is not read", other),
                      fmt::format("did you mean '{}'?", column));
  }
  return false;
}

StepProfile read_sums(const CsvTable& table, const TableForm& form) {
  StepProfile profile;
  const bool calls = has_optional(table, form.calls);
  bool any = false;
  for (const CsvRow& row : table.rows()) {
    const Seconds time(needed(table, row, form.time) * form.unit);
    const std::string& name = table.text(row, form.name);
    if (name == kSpan) {
      profile.span = time;
      continue;
    }
    TermTime& sum = profile.at(term_of(name));
    sum.time += time;
    sum.calls += calls ? table.number(row, form.calls, 0.0).value_or(0.0) : 0.0;
    any = any || time > Seconds(0);
  }
  if (!any) table.fail_header("has no kernel that took time", "profile a few steps of the run");
  return profile;
}

StepProfile read_steps(const CsvTable& table) {
  StepProfile profile;
  const bool ranks = has_optional(table, "rank");
  for (const CsvRow& row : table.rows()) {
    const auto step = table.integer(row, "step", 0);
    const double time = needed(table, row, "time_s");
    if (!step) table.fail(row, "step", "is empty");
    if (time <= 0.0) table.fail(row, "time_s", "a step takes more than no time");
    const auto rank = ranks ? table.integer(row, "rank", 0) : std::nullopt;
    profile.times.push_back({*step, rank.value_or(0), Seconds(time)});
  }
  if (profile.times.empty()) table.fail_header("has no step");
  return profile;
}

/// Nsight Systems says what it does before it prints the table.
std::string from_header(std::string_view text) {
  const std::size_t header = text.find("Total Time (ns)");
  if (header == std::string_view::npos) return std::string(text);
  const std::size_t line = text.rfind('\n', header);
  return std::string(line == std::string_view::npos ? text : text.substr(line + 1));
}

struct NameRow {
  std::string_view text;
  ProfileTerm term;
};

// Messages first: names of kernels that compute while they send are messages. Attention before
// products: FlashAttention-3 is a device kernel of CUTLASS.
constexpr std::array kNames{
    NameRow{"allreduce", ProfileTerm::AllReduce},
    NameRow{"all_reduce", ProfileTerm::AllReduce},
    NameRow{"reducescatter", ProfileTerm::ReduceScatter},
    NameRow{"reduce_scatter", ProfileTerm::ReduceScatter},
    NameRow{"allgather", ProfileTerm::AllGather},
    NameRow{"all_gather", ProfileTerm::AllGather},
    NameRow{"nccldevkernel_broadcast", ProfileTerm::AllGather},
    NameRow{"ncclkernel_broadcast", ProfileTerm::AllGather},
    NameRow{"sendrecv", ProfileTerm::Exchange},
    NameRow{"alltoall", ProfileTerm::Exchange},
    NameRow{"all_to_all", ProfileTerm::Exchange},
    NameRow{"deep_ep", ProfileTerm::Exchange},
    NameRow{"ep_dispatch", ProfileTerm::Exchange},
    NameRow{"ep_combine", ProfileTerm::Exchange},
    NameRow{"ep_notify", ProfileTerm::Exchange},
    NameRow{"gloo:", ProfileTerm::Exchange},
    NameRow{"memcpy", ProfileTerm::Copy},
    NameRow{"multi_tensor_apply", ProfileTerm::Optimizer},
    NameRow{"fused_adam", ProfileTerm::Optimizer},
    NameRow{"fusedadam", ProfileTerm::Optimizer},
    NameRow{"flash_fwd", ProfileTerm::Attention},
    NameRow{"flash_bwd", ProfileTerm::Attention},
    NameRow{"flash::", ProfileTerm::Attention},
    NameRow{"fmha", ProfileTerm::Attention},
    NameRow{"attention", ProfileTerm::Attention},
    NameRow{"attn", ProfileTerm::Attention},
    NameRow{"sdpa", ProfileTerm::Attention},
    NameRow{"gemm", ProfileTerm::Product},
    NameRow{"gemv", ProfileTerm::Product},
    NameRow{"cutlass", ProfileTerm::Product},
    NameRow{"cublas", ProfileTerm::Product},
    NameRow{"nvjet", ProfileTerm::Product},
    NameRow{"xmma", ProfileTerm::Product},
    NameRow{"wgmma", ProfileTerm::Product},
    NameRow{"cijk_", ProfileTerm::Product},
    NameRow{"splitkreduce", ProfileTerm::Product},
    NameRow{"matmul", ProfileTerm::Product},
    NameRow{"implicit_convolve", ProfileTerm::Product},
    NameRow{"aten::mm", ProfileTerm::Product},
    NameRow{"aten::addmm", ProfileTerm::Product},
    NameRow{"aten::bmm", ProfileTerm::Product},
    NameRow{"aten::baddbmm", ProfileTerm::Product},
    NameRow{"aten::linear", ProfileTerm::Product},
    NameRow{"convolution", ProfileTerm::Product},
};

constexpr std::array<std::string_view, kProfileTerms> kWords{"matrix products",
                                                             "attention",
                                                             "memory-bound",
                                                             "optimizer",
                                                             "all-reduce",
                                                             "all-gather",
                                                             "reduce-scatter",
                                                             "all-to-all and sends",
                                                             "copies to and from the host"};

}  // namespace

StepProfile read_kernel_table(std::string_view text, const std::string& file) {
  const CsvTable table = CsvTable::parse(from_header(text), file);
  for (const TableForm& form : kForms) {
    if (table.has(form.name) && table.has(form.time)) return read_sums(table, form);
  }
  if (table.has("step") && table.has("time_s")) return read_steps(table);
  table.fail_header("is not a table of kernels or steps",
                    "nsys stats -r cuda_gpu_kern_sum --format csv writes one; or columns name and "
                    "time_us, or step and time_s");
}

StepProfile read_profile(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestProfile);
  const std::string file = path.string();
  if (text.substr(0, 2) == "\x1f\x8b") {
    throw InputError({file, 0, 0}, "is compressed", fmt::format("gunzip {}", file));
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw InputError({file, 0, 0}, "is empty");
  const bool json = text[first] == '{' || text[first] == '[';
  return json ? read_chrome_trace(text, file) : read_kernel_table(text, file);
}

// Names of kernels and what they do: the first row whose text the name holds, in lower case.

std::string_view to_text(ProfileTerm term) {
  return kWords[static_cast<std::size_t>(term)];
}

bool is_message(ProfileTerm term) {
  return term >= ProfileTerm::AllReduce && term <= ProfileTerm::Exchange;
}

ProfileTerm term_of(std::string_view kernel) {
  std::string name(kernel);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::ranges::find_if(
      kNames, [&](const NameRow& row) { return name.find(row.text) != std::string::npos; });
  return found == kNames.end() ? ProfileTerm::MemoryBound : found->term;
}

}  // namespace plansearch::io
