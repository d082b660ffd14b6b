// SPDX-License-Identifier: Apache-2.0
// The parts of layers that differ one by one, the lists that say which layer has which, and the rows
// of recurrences (models/families/_recurrences.yaml).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/model/model_sections.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kFormSchema = "plansearch/recurrences/v1";
constexpr Choice<MixerSize> kSizes[] = {{"heads", MixerSize::Heads},
                                        {"key_heads", MixerSize::KeyHeads},
                                        {"key_size", MixerSize::KeySize},
                                        {"value_size", MixerSize::ValueSize},
                                        {"rank", MixerSize::Rank}};

std::vector<MixerSize> read_sizes(const Node& list) {
  return transformed(list.items(), [](const Node& item) {
    return item.choice(std::span<const Choice<MixerSize>>(kSizes));
  });
}

/// Sizes alone, or a map with more.
MixerPart read_part(const Node::Entry& entry) {
  MixerPart part;
  part.name = entry.key;
  if (entry.value.is_list()) {
    part.dims = read_sizes(entry.value);
    return part;
  }
  const Fields fields(entry.value);
  part.dims = read_sizes(entry.value.at("dims"));
  fields.take("from", part.from, &Node::text);
  fields.take("times", part.times, &Node::text);
  fields.take("low_rank", part.low_rank, &Node::boolean);
  fields.take("convolved", part.convolved, &Node::boolean);
  fields.take("normed", part.normed, &Node::boolean);
  fields.take("bias", part.bias, &Node::boolean);
  return part;
}

void check_parts(const Node& node, const RecurrenceForm& form) {
  const auto known = [&](std::string_view name) {
    return name.empty() ||
           std::ranges::find(form.parts, name, &MixerPart::name) != form.parts.end();
  };
  for (const MixerPart& part : form.parts) {
    for (const std::string& other : {part.from, part.times}) {
      if (!known(other))
        node.fail(fmt::format("{} reads '{}': there is no such part", part.name, other));
    }
  }
  if (!known(form.gate)) node.fail(fmt::format("there is no part '{}' to be the gate", form.gate));
  for (const char* needed : {"query", "key", "value"}) {
    if (!form.kernel.empty() && !known(needed))
      node.fail(fmt::format("a recurrence has a part '{}'", needed));
  }
  if (!known("value")) node.fail("a mixer has a part 'value'");
}

RecurrenceForm read_row(const Node& node, const std::string& name) {
  RecurrenceForm form;
  form.name = name;
  static_cast<void>(node.at("source").text());
  const Fields fields(node);
  fields.take("kernel", form.kernel, &Node::text);
  fields.take("gate", form.gate, &Node::text);
  fields.take("one_product", form.one_product, &Node::boolean);
  fields.take("flops", form.flops, &Node::positive_number);
  fields.take("transition", form.transition, &Node::number);
  fields.take("keeps_convolved", form.keeps_convolved, &Node::boolean);
  fields.take("chunk", form.chunk, kZeroOrSize);
  for (const Node::Entry& entry : node.at("parts").entries())
    form.parts.push_back(read_part(entry));
  fields.with("vectors", [&](const Node& vectors) {
    for (const Node::Entry& entry : vectors.entries())
      form.vectors.push_back({entry.key, read_sizes(entry.value)});
  });
  check_parts(node, form);
  return form;
}

RecurrenceDescription read_recurrence(const Node& node, const std::filesystem::path& families) {
  RecurrenceDescription mixer;
  const Fields fields(node);
  mixer.form = read_form(node.at("form"), families);
  mixer.heads = node.at("heads").integer(kSizeRange);
  mixer.key_heads = mixer.heads;
  fields.take("key_heads", mixer.key_heads, kSizeRange);
  mixer.value_size = node.at("value_size").integer(kSizeRange);
  mixer.key_size = mixer.value_size;
  fields.take("key_size", mixer.key_size, kSizeRange);
  fields.take("rank", mixer.rank, kZeroOrSize);
  fields.take("taps", mixer.taps, kZeroOrSize);
  fields.take("bias", mixer.bias, &Node::boolean);
  fields.take("convolution_bias", mixer.convolution_bias, &Node::boolean);
  fields.take("norm", mixer.norm, kMixerNorms);
  if (mixer.heads % mixer.key_heads != 0) {
    node.fail(
        fmt::format("heads {} is not a multiple of key_heads {}", mixer.heads, mixer.key_heads));
  }
  const bool ranked = std::ranges::any_of(mixer.form.parts, &MixerPart::low_rank) ||
                      std::ranges::any_of(mixer.form.parts, [](const MixerPart& part) {
                        return contains(part.dims, MixerSize::Rank);
                      });
  if (ranked && mixer.rank == 0) node.fail(fmt::format("{} needs a rank", mixer.form.name));
  return mixer;
}

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class ListReader {
 public:
  ListReader(const Node& root, const ModelDescription& model, const std::filesystem::path& families)
      : root_(root), model_(model), families_(families) {}

  LayerList run() {
    const Fields fields(root_);
    fields.with("mixers", [&](const Node& map) {
      for (const Node::Entry& entry : map.entries()) add_mixer(entry.value, checked(entry));
    });
    fields.with("feed_forwards", [&](const Node& map) {
      for (const Node::Entry& entry : map.entries()) add_feed_forward(entry.value, checked(entry));
    });
    list_.layer_mixers = read_mixers("layer_mixers");
    list_.layer_feed_forwards = read_feed_forwards("layer_feed_forwards");
    list_.prediction_mixers = read_mixers("prediction_mixers");
    list_.prediction_feed_forwards = read_feed_forwards("prediction_feed_forwards");
    if (list_.prediction_mixers.size() != list_.prediction_feed_forwards.size())
      root_.fail("prediction_mixers and prediction_feed_forwards are not as many");
    check_parallel();
    return std::move(list_);
  }

 private:
  static std::string checked(const Node::Entry& entry) {
    if (!is_name(entry.key)) {
      throw InputError(entry.where, fmt::format("'{}' is not a name of a part", entry.key),
                       "small letters, digits and _");
    }
    return entry.key;
  }

  void add_mixer(const Node& node, const std::string& name) {
    MixerDescription mixer{name, model_.attention, std::nullopt};
    if (node.find("form")) {
      mixer.recurrence = read_recurrence(node, families_);
    } else {
      mixer.attention = read_attention(node, model_.hidden, &model_.attention);
    }
    list_.mixers.push_back(std::move(mixer));
  }

  void add_feed_forward(const Node& node, const std::string& name) {
    list_.feed_forwards.push_back({name, read_mlp(node, model_.hidden, &model_.mlp)});
  }

  /// A word, or the part itself, which gets a name by its number.
  template <typename Parts, typename Add>
  std::string entry(const Node& item, Parts& parts, const char* stem, const Add& add) {
    if (!item.is_map()) return item.text();
    add(item, fmt::format("{}{}", stem, parts.size() + 1));
    auto made = parts.back();
    parts.pop_back();
    for (const auto& known : parts) {
      auto same = made;
      same.name = known.name;
      if (same == known) return known.name;
    }
    parts.push_back(std::move(made));
    return parts.back().name;
  }

  std::vector<Node> items(const char* key) {
    const auto node = root_.find(key);
    if (!node) return {};
    std::vector<Node> found = node->items();
    if (found.size() > static_cast<std::size_t>(kLayerRange.high))
      node->fail(fmt::format("has {} entries, more than there can be layers", found.size()));
    return found;
  }

  std::vector<std::string> read_mixers(const char* key) {
    std::vector<std::string> names;
    for (const Node& item : items(key)) {
      names.push_back(entry(item, list_.mixers, "mixer",
                            [&](const Node& n, const std::string& s) { add_mixer(n, s); }));
      const std::vector<std::string> parts = split(names.back(), "+");
      std::vector<std::string> known = {kAttentionWord};
      if (parts.size() == 1) known.emplace_back(kNoneWord);  // it adds nothing to others
      for (const MixerDescription& mixer : list_.mixers) known.push_back(mixer.name);
      for (const std::string& part : parts) require(item, part, known);
    }
    return names;
  }

  std::vector<std::string> read_feed_forwards(const char* key) {
    std::vector<std::string> names;
    for (const Node& item : items(key)) {
      names.push_back(entry(item, list_.feed_forwards, "mlp",
                            [&](const Node& n, const std::string& s) { add_feed_forward(n, s); }));
      std::vector<std::string> known = {kMlpWord, kNoneWord};
      if (model_.moe) known.emplace_back(kExpertsWord);
      for (const FeedForwardDescription& part : list_.feed_forwards) known.push_back(part.name);
      require(item, names.back(), known);
    }
    return names;
  }

  static void require(const Node& item, const std::string& name,
                      const std::vector<std::string>& known) {
    if (!contains(known, name))
      item.fail(fmt::format("there is no part '{}'", name),
                fmt::format("known: {}", fmt::join(known, ", ")));
  }

  /// Layers whose branches read one norm have both branches.
  void check_parallel() const {
    const bool parallel = model_.norm.placement == NormPlacement::Parallel ||
                          model_.norm.placement == NormPlacement::ParallelTwo;
    const bool without = contains(list_.layer_mixers, std::string(kNoneWord)) ||
                         contains(list_.layer_feed_forwards, std::string(kNoneWord));
    if (parallel && without) root_.fail("layers whose branches run beside each other have both");
  }

  const Node& root_;
  const ModelDescription& model_;
  const std::filesystem::path& families_;
  LayerList list_;
};

}  // namespace

RecurrenceForm read_form(const Node& name, const std::filesystem::path& families) {
  const std::filesystem::path path = families / "_recurrences.yaml";
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    name.fail("there is no table of recurrences beside this model", "models/families");
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, kFormSchema, "a table of recurrences");
  std::vector<std::string> known;
  for (const Node::Entry& entry : root.at("forms").entries()) {
    known.push_back(entry.key);
    if (entry.key == name.text()) return read_row(entry.value, entry.key);
  }
  name.fail(fmt::format("there is no recurrence '{}'", name.text()),
            fmt::format("known: {}", fmt::join(known, ", ")));
}

LayerList read_layer_list(const Node& root, const ModelDescription& model,
                          const std::filesystem::path& families) {
  return ListReader(root, model, families).run();
}

}  // namespace plansearch::io
