// SPDX-License-Identifier: Apache-2.0
// Tables of measured runs for tests: one good row, changed cell by cell.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "evidence/validate/run_prediction.hpp"
#include "evidence/validate/run_record.hpp"
#include "io/framework/framework_reader.hpp"
#include "io/hardware/profile_reader.hpp"
#include "io/model/model_reader.hpp"
#include "io/tables/csv.hpp"
#include "support/source_directory.hpp"

namespace plansearch::test {

using Cells = std::map<std::string, std::string>;

/// Columns in the order of the documentation, with the cells of a GPT on 16 accelerators.
inline const std::vector<std::pair<std::string, std::string>>& good_row() {
  static const std::vector<std::pair<std::string, std::string>> kRow{{"id", "a"},
                                                                     {"source", "test"},
                                                                     {"locator", ""},
                                                                     {"hw", "dgx-h100"},
                                                                     {"framework", "megatron"},
                                                                     {"known", "1"},
                                                                     {"gpus", "16"},
                                                                     {"model", "GPT"},
                                                                     {"mlp", "gelu"},
                                                                     {"attention", "flash"},
                                                                     {"layers", "24"},
                                                                     {"hidden", "2048"},
                                                                     {"ffn_hidden", ""},
                                                                     {"heads", "16"},
                                                                     {"kv_heads", ""},
                                                                     {"head_dim", ""},
                                                                     {"vocab", ""},
                                                                     {"seq_len", "1024"},
                                                                     {"moe_experts", ""},
                                                                     {"moe_topk", ""},
                                                                     {"moe_ffn", ""},
                                                                     {"precision", "bf16"},
                                                                     {"global_batch", "64"},
                                                                     {"micro_batch", "2"},
                                                                     {"tp", "2"},
                                                                     {"pp", "2"},
                                                                     {"vpp", "1"},
                                                                     {"dp", "4"},
                                                                     {"cp", "1"},
                                                                     {"ep", "1"},
                                                                     {"sp", "1"},
                                                                     {"zero", "1"},
                                                                     {"recompute", "none"},
                                                                     {"schedule", ""},
                                                                     {"release", ""},
                                                                     {"stage_layers", ""},
                                                                     {"lora_rank", ""},
                                                                     {"base_precision", ""},
                                                                     {"overlap", ""},
                                                                     {"expert_overlap", ""},
                                                                     {"step_time_s", "0.5"},
                                                                     {"peak_mem_gib", "12"},
                                                                     {"mem_kind", "allocated"},
                                                                     {"oom", "0"},
                                                                     {"note", ""}};
  return kRow;
}

inline std::string header_line() {
  std::string line;
  for (const auto& [column, value] : good_row()) line += (line.empty() ? "" : ",") + column;
  return line + "\n";
}

inline std::string row_line(const Cells& changes = {}) {
  std::string line;
  for (const auto& [column, value] : good_row()) {
    const auto changed = changes.find(column);
    if (!line.empty()) line += ",";
    line += changed == changes.end() ? value : changed->second;
  }
  return line + "\n";
}

inline std::vector<RunRecord> runs_of(const std::vector<Cells>& rows) {
  std::string text = header_line();
  for (const Cells& row : rows) text += row_line(row);
  return read_runs(io::CsvTable::parse(text, "runs.csv"));
}

inline RunRecord run_of(const Cells& changes = {}) {
  return runs_of({changes}).front();
}

/// Rows beside what is said to be predicted for them.
inline std::vector<PredictedRun> rows_of(const std::vector<RunRecord>& runs,
                                         const std::vector<RunPrediction>& predictions) {
  std::vector<PredictedRun> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) rows.push_back({runs[i], predictions.at(i)});
  return rows;
}

inline std::filesystem::path shipped(const std::string& directory) {
  return std::filesystem::path(PLANSEARCH_SOURCE_DIR) / directory;
}

inline ModelDescription shipped_model(std::string_view name) {
  return io::read_model(shipped("models") / (std::string(name) + ".yaml")).model;
}

inline ArchitectureTable shipped_architectures() {
  return read_architectures(shipped("validation") / "architectures.yaml", shipped_model);
}

inline ProfileFinder shipped_profiles() {
  return {[](std::string_view name) {
            return io::load_cluster(name, std::vector{shipped("hardware_profiles")});
          },
          [](std::string_view name) {
            return io::load_framework(name, std::vector{shipped("frameworks")});
          }};
}

}  // namespace plansearch::test
