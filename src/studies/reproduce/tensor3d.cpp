// SPDX-License-Identifier: Apache-2.0
// Tensor3D: the volume of a grid by closed form. The best grids of tensor groups are rows with
// questions.
#include <fmt/format.h>

#include "studies/reproduce/priced_figures.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch {
namespace {

/// Elements a device sends per token and feature of one GPT block without recomputation, times the
/// devices: 2 [12 (in - 1) + 4 (out - 1)].
double volume(int out, int in) {
  return 2.0 * (12.0 * (in - 1) + 4.0 * (out - 1));
}

}  // namespace

void add_tensor3d(const StudyContext& context, Figures& figures) {
  add_priced(context, figures);
  for (const int ranks : {4, 8, 16, 32, 64}) {
    const auto grid = [&](const char* axis) {
      return static_cast<int>(figures.published(fmt::format("{} {}", ranks, axis)));
    };
    figures.add(fmt::format("{} volume", ranks),
                volume(grid("out"), grid("in")) / volume(ranks, 1));
  }
}

}  // namespace plansearch
