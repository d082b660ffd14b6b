// SPDX-License-Identifier: Apache-2.0
// Steps of a run, as the training program printed them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/logs/log_formats.hpp"
#include "io/tables/kernel_profile/step_profile.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch::io {

/// The job that a log is expected to be of.
struct LoggedJob {
  std::int64_t gpus = 1;
  std::int64_t batch = 1;
  std::int64_t seq_len = 1;
};

struct TrainingLog {
  std::string format;              ///< name of a row of the table
  std::vector<RankStep> times;     ///< numbers of steps go on where the run was started again
  std::optional<FlopRate> flops;   ///< of one accelerator, as printed: the median
  std::optional<Bytes> allocated;  ///< the largest peak
  std::optional<Bytes> reserved;
  std::int64_t skipped = 0;                  ///< steps without an update
  std::int64_t nans = 0;                     ///< steps with a loss that is not a number
  std::int64_t retries = 0;                  ///< of the allocator, which gave its cache back first
  bool says_batch = false;                   ///< sequences of a step, which are the job's
  bool says_length = false;                  ///< tokens of a sequence, or of a step
  std::vector<std::int64_t> not_understood;  ///< lines
  std::optional<std::int64_t> out_of_memory{};  ///< the line that says so
};

/// Whether a line of the text is like those of a training program, or says that memory ran out.
[[nodiscard]] bool is_training_log(std::string_view text, const LogFormats& formats);

/// InputError, with the line where there is one, for logs without steps of runs that had the memory, and logs of another job.
[[nodiscard]] TrainingLog read_training_log(const std::filesystem::path& path,
                                            const LogFormats& formats, const LoggedJob& job);
[[nodiscard]] TrainingLog parse_training_log(std::string_view text, const std::string& file,
                                             const LogFormats& formats, const LoggedJob& job);

}  // namespace plansearch::io
