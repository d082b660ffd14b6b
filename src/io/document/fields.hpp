// SPDX-License-Identifier: Apache-2.0
// Optional fields of a map: what the map leaves out keeps its value.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>

#include "io/hardware/profile_parts.hpp"

namespace plansearch::io {

/// Choices by the words of to_text, of the first `Count` enumerators.
template <typename E, std::size_t Count>
[[nodiscard]] const std::array<Choice<E>, Count>& choices_of() {
  static const auto kWords = [] {
    std::array<Choice<E>, Count> words{};
    for (std::size_t i = 0; i < Count; ++i) {
      words.at(i) = {to_text(static_cast<E>(i)), static_cast<E>(i)};
    }
    return words;
  }();
  return kWords;
}

class Fields {
 public:
  /// Logs the given fields if there is a log.
  explicit Fields(const Node& map, FieldLog* log = nullptr) : map_(map), log_(log) {}

  /// `read`: a function of the node or one of its members, such as &Node::boolean; a list of
  /// choices; or a range of whole numbers.
  template <typename T, typename Read>
  void take(std::string_view key, T& field, const Read& read) const {
    if constexpr (std::is_invocable_v<const Read&, const Node&>) {
      with(key, [&](const Node& node) { field = std::invoke(read, node); });
    } else if constexpr (std::is_same_v<Read, IntegerRange>) {
      with(key, [&](const Node& node) { field = node.integer(read); });
    } else {
      using Row = std::remove_cvref_t<decltype(*std::begin(read))>;
      with(key, [&](const Node& node) { field = node.choice(std::span<const Row>(read)); });
    }
  }
  /// One of a few words.
  template <typename E>
  void take(std::string_view key, E& field,
            std::initializer_list<Choice<std::type_identity_t<E>>> words) const {
    take(key, field, std::span<const Choice<E>>(words.begin(), words.size()));
  }
  template <typename Read>
  void with(std::string_view key, const Read& read) const {
    const auto node = map_.find(key);
    if (!node) return;
    std::invoke(read, *node);
    if (log_ != nullptr) log_->given(std::string(key));
  }

 private:
  const Node& map_;
  FieldLog* log_;
};

/// Whether a curve that is like no other must say it.
enum class Need { Required, Optional };

/// Reads into a curve that begins as the one it is like, or as its defaults.
class CurveReader {
 public:
  CurveReader(const Node& node, bool is_like_another) : node_(node), based_(is_like_another) {}

  void time(std::string_view key, Seconds& field, Need need = Need::Required) const {
    field = time_or(node_, key, fallback(field, need));
  }
  void rate(std::string_view key, Bandwidth& field) const {
    field = bandwidth_or(node_, key, fallback(field, Need::Required));
  }
  void number(std::string_view key, double& field, double low, double high,
              Need need = Need::Required) const {
    field = number_or(node_, key, fallback(field, need), low, high);
  }
  void residual(std::optional<Residual>& field) const { field = read_residual(node_, field); }

 protected:
  template <typename Q>
  [[nodiscard]] const Q* fallback(const Q& field, Need need) const {
    return based_ || need == Need::Optional ? &field : nullptr;
  }
  const Node& node_;
  bool based_;
};

}  // namespace plansearch::io
