// SPDX-License-Identifier: Apache-2.0
// Computes: a decoder whose sequences hold images, read by a tower in front of it.
// Source: huggingface/transformers models/qwen3_vl/modeling_qwen3_vl.py, models/gemma3/modeling_gemma3.py:
//         features of images take the place of rows of the embedding (masked_scatter).
// Assumes: every sequence has the same number of images of one size. A row that an image replaces is
//          looked up all the same. Features of deeper layers (DeepStack) are added at the embedding.
// Units: elements.
// Checked by: tests/unit/workload/tower_test.cpp
#include <algorithm>

#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

/// Dimensions of the tower in the network: its batch is the network's, and so are the features of
/// its result. Patches and tokens of all images lie one after the other; keys are those of one image.
Dims joined_dimensions(Network& network, const Network& tower, const Images& images,
                       const Dims& stream) {
  const Block& last = tower.blocks[tower.order.back().block];
  const DimId features = last.tensor(last.outputs.front()).dims.back();
  Dims ids;
  for (Dimension dimension : tower.dimensions) {
    if (dimension.role == DimRole::Batch) {
      ids.push_back(stream.front());
    } else if (static_cast<DimId>(ids.size()) == features) {
      ids.push_back(stream.back());
    } else {
      if (dimension.role == DimRole::Pixel) dimension.extent *= images.count;
      dimension.name = "vision_" + dimension.name;
      ids.push_back(static_cast<DimId>(network.dimensions.size()));
      network.dimensions.push_back(std::move(dimension));
    }
  }
  return ids;
}

void rename(Dims& dims, const Dims& ids) {
  for (DimId& dim : dims) dim = ids[static_cast<std::size_t>(dim)];
}

Block renamed(Block block, const Dims& ids) {
  block.name = "vision-" + block.name;
  for (Tensor& tensor : block.tensors) rename(tensor.dims, ids);
  for (Parameter& parameter : block.parameters) rename(parameter.dims, ids);
  for (Operator& op : block.operators) {
    rename(op.loop, ids);
    for (auto& read : op.reads) {
      for (IndexExpression& index : read) {
        for (IndexTerm& term : index.terms) term.dim = ids[static_cast<std::size_t>(term.dim)];
      }
    }
  }
  return block;
}

/// The features are the first input of the embedding, so that they come along the chain.
void insert_features(Block& embedding, Tensor features) {
  Operator op;
  op.name = "insert_images";
  op.loop = embedding.tensor(embedding.outputs.front()).dims;
  const auto add = [&](Tensor tensor) {
    embedding.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(embedding.tensors.size() - 1);
  };
  op.inputs = {embedding.outputs.front(), add(std::move(features))};
  embedding.inputs.insert(embedding.inputs.begin(), op.inputs.back());
  op.outputs = {add({op.name, op.loop})};
  embedding.outputs.front() = op.outputs.front();
  embedding.operators.push_back(std::move(op));
}

}  // namespace

std::int64_t tokens_of_image(const Network& tower) {
  const Block& last = tower.blocks[tower.order.back().block];
  std::int64_t tokens = 1;
  for (const DimId id : last.tensor(last.outputs.front()).dims) {
    const Dimension& dimension = tower.dimension(id);
    if (dimension.role == DimRole::Pixel) tokens *= dimension.extent;
  }
  return tokens;
}

void join_tower(Network& network, const Network& tower, const Images& images) {
  Block& embedding = network.blocks[network.order.front().block];
  const Dims ids =
      joined_dimensions(network, tower, images, embedding.tensor(embedding.outputs.front()).dims);
  const Block& last = tower.blocks[tower.order.back().block];
  Tensor features = last.tensor(last.outputs.front());
  rename(features.dims, ids);
  insert_features(embedding, std::move(features));
  const std::size_t offset = network.blocks.size();
  for (const Block& block : tower.blocks) {
    network.blocks.push_back(renamed(block, ids));
    if (!images.frozen) continue;
    for (Parameter& parameter : network.blocks.back().parameters)
      parameter.trainable = Trainable::No;
  }
  const std::int64_t copies = copy_count(tower);
  for (Edge& edge : network.edges) {
    edge.from += copies;
    edge.to += copies;
  }
  network.edges.insert(network.edges.begin(), tower.edges.begin(), tower.edges.end());
  std::vector<BlockRun> order = tower.order;
  for (BlockRun& run : order) run.block += offset;
  network.order.insert(network.order.begin(), order.begin(), order.end());
}

}  // namespace plansearch
