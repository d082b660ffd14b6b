// SPDX-License-Identifier: Apache-2.0
// Reader of the output of nccl-tests (and rccl-tests): all_reduce_perf and its siblings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plansearch/quantity.hpp"

namespace plansearch::io {

struct NcclTime {
  int line = 0;
  Bytes message;  ///< column "size"
  Seconds time;   ///< out of place where it was run
};

/// One test of a log.
struct NcclTest {
  int line = 0;            ///< of its first row
  std::string collective;  ///< "all_reduce"
  std::string device;      ///< as the driver calls the accelerator
  int ranks = 0;
  int nodes = 0;
  std::vector<NcclTime> times;  ///< messages of zero bytes left out
};

/// Whether the text is such a log and no table.
[[nodiscard]] bool is_nccl_log(std::string_view text);

/// InputError for rows that are cut or contradict themselves, results that the test itself found
/// wrong, several kinds of accelerator, and a test that does not end with its summary. A test
/// whose log does not name it is called what the file is.
[[nodiscard]] std::vector<NcclTest> parse_nccl_log(std::string_view text,
                                                   const std::string& file_name);

}  // namespace plansearch::io
