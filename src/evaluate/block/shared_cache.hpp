// SPDX-License-Identifier: Apache-2.0
// Values that many threads ask for and any of them may make.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace plansearch {

/// Thread-safe; values follow from their keys alone, so two threads may make the same one. Two
/// generations of at most 16 x `kMostPerShard` values: a value that is not read while a generation
/// fills is forgotten with it.
template <typename Key, typename Value, std::size_t kMostPerShard>
class SharedCache {
 public:
  template <typename Make>
  std::shared_ptr<const Value> get(const Key& key, Make make) const {
    const Hashed hashed{key.hash(), key};
    Shard& shard = shards_[hashed.hash >> 7U & (kShards - 1)];
    {
      const std::lock_guard lock(shard.mutex);
      if (const auto found = shard.young.find(hashed); found != shard.young.end()) {
        return found->second;
      }
      if (const auto found = shard.old.find(hashed); found != shard.old.end()) {
        return shard.keep(hashed, found->second);
      }
    }
    std::shared_ptr<const Value> made = make();
    const std::lock_guard lock(shard.mutex);
    return shard.keep(hashed, std::move(made));
  }

 private:
  struct Hashed {
    std::size_t hash;  // first: most comparisons read nothing else
    Key key;
    bool operator==(const Hashed& other) const { return hash == other.hash && key == other.key; }
  };
  struct TakeHash {
    std::size_t operator()(const Hashed& hashed) const noexcept { return hashed.hash; }
  };
  using Values = std::unordered_map<Hashed, std::shared_ptr<const Value>, TakeHash>;
  struct Shard {
    std::mutex mutex;
    Values young;
    Values old;

    std::shared_ptr<const Value> keep(const Hashed& hashed, std::shared_ptr<const Value> value) {
      if (young.size() >= kMostPerShard) {
        old.swap(young);
        young.clear();
      }
      return young.emplace(hashed, std::move(value)).first->second;
    }
  };
  static constexpr std::size_t kShards = 16;
  mutable std::array<Shard, kShards> shards_;
};

/// Few values, each by a number of its own, which live as long as this. Thread-safe as above.
template <typename Value>
class FewValues {
 public:
  template <typename Make>
  const Value& get(std::uint32_t number, Make make) const {
    {
      const std::lock_guard lock(mutex_);
      if (const Value* known = find(number)) return *known;
    }
    auto made = std::make_unique<const Value>(make());
    const std::lock_guard lock(mutex_);
    if (const Value* known = find(number)) return *known;
    numbers_.push_back(number);
    return *values_.emplace_back(std::move(made));
  }

 private:
  const Value* find(std::uint32_t number) const {
    const auto at = std::ranges::find(numbers_, number) - numbers_.begin();
    return at == std::ssize(numbers_) ? nullptr : values_[static_cast<std::size_t>(at)].get();
  }

  mutable std::mutex mutex_;
  mutable std::vector<std::uint32_t> numbers_;
  mutable std::vector<std::unique_ptr<const Value>> values_;
};

}  // namespace plansearch
