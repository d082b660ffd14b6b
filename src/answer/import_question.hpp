// SPDX-License-Identifier: Apache-2.0
// From the configuration of another program to a plan file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "plansearch/problem_request.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct ImportQuestion {
  std::vector<std::string> files;  ///< "-" is standard input
  std::string from;                ///< empty: told by the keys
  std::map<std::string, std::string, std::less<>> definitions;
  std::string model_file;  ///< where the network goes when none that ships is the same
};

struct ImportResult {
  std::string plan;   ///< a plan file
  std::string model;  ///< a model file, for a network of its own; else empty
  std::vector<std::string> notes;
};

/// `typed`: settings and degrees of the command line, which win over the files. InputError, with
/// its place, for what cannot be read or is not known.
[[nodiscard]] ImportResult import_question(const ImportQuestion& question,
                                           const ProblemRequest& typed, const ShippedData& data);

}  // namespace plansearch
