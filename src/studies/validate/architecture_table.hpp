// SPDX-License-Identifier: Apache-2.0
// What the columns of a measured run cannot say about its architecture
// (validation/architectures.yaml): published facts and stated assumptions, matched by columns and
// label, later entries first.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/model_description.hpp"
#include "studies/validate/run_record.hpp"
#include "studies/validate/schedule_words.hpp"

namespace plansearch {

/// How the attention of an architecture runs, whatever the column says.
enum class AttentionSupport : std::uint8_t { AsColumnSays, UnfusedOnly };

/// A fact replaces what the columns and earlier entries gave; absent ones are left alone.
struct ArchitectureFacts {
  std::optional<StackKind> stack;
  std::optional<NormKind> norm;
  std::optional<PositionKind> positions;
  std::optional<bool> biases;
  std::optional<bool> tied;
  std::optional<double> dropout;
  std::optional<QkNorm> qk_norm;
  std::optional<bool> sinks;
  std::optional<std::int64_t> window;
  std::optional<std::int64_t> full_attention_every;
  std::optional<LatentAttention> latent;
  std::optional<std::int64_t> shared_width;
  std::optional<std::int64_t> leading_dense;
  std::optional<std::int64_t> mtp_layers;
  std::optional<std::int64_t> token_types;
  AttentionSupport attention = AttentionSupport::AsColumnSays;
  std::string inexpressible;  ///< not empty: why no description fits
};

struct ArchitectureEntry {
  std::string name;
  std::map<std::string, std::string> columns;  ///< column, value it must have
  std::vector<std::string> label_has;          ///< one of these must occur in the label
  std::vector<std::string> label_lacks;        ///< none of these may
  /// Shipped model whose remaining switches are taken when its sizes are the row's.
  std::optional<ModelDescription> like;
  ArchitectureFacts facts;
};

struct ArchitectureTable {
  std::int64_t default_vocab = 0;
  std::map<std::string, MemoryRank, std::less<>> memory_figures;  ///< by framework
  std::vector<ArchitectureEntry> entries;
  ScheduleWords schedules{};

  /// The worst stage where nothing is known of the framework.
  [[nodiscard]] MemoryRank memory_figure(std::string_view framework) const;
  /// Entries that hold for the row, first to last.
  [[nodiscard]] std::vector<const ArchitectureEntry*> matching(const RunRecord& run) const;
};

[[nodiscard]] ArchitectureTable read_architectures(const std::filesystem::path& path,
                                                   const ModelFinder& find_model);

}  // namespace plansearch
