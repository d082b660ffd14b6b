// SPDX-License-Identifier: Apache-2.0
// Parts of C++20's library that libc++ 13 of Emscripten 3.1.6 does not have, as far as this program uses them: included
// before every source of preset `web`, which needs no other. With a later Emscripten this file and its line go.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// Declared by Emscripten's headers, and defined nowhere; asked for where `ulimit -s` is small alone.
extern "C" inline int pthread_setattr_default_np(const pthread_attr_t* /*attributes*/) {
  return 0;
}

namespace std {

template <typename T, typename Allocator>
auto operator<=>(const vector<T, Allocator>& a, const vector<T, Allocator>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const auto order = a[i] <=> b[i]; order != 0) return order;
  }
  return decltype(a[0] <=> b[0])(a.size() <=> b.size());
}
template <typename T>
auto operator<=>(const optional<T>& a, const optional<T>& b) {
  return a && b ? *a <=> *b : decltype(*a <=> *b)(a.has_value() <=> b.has_value());
}

/// Joins at its end. Without threads its constructor throws, as that of std::thread does.
struct jthread : thread {
  using thread::thread;
  jthread(jthread&&) = default;
  ~jthread() {
    if (joinable()) join();
  }
};

template <typename To, typename From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

/// The longest part that is a number by the rules of from_chars (no blank, plus or hexadecimal digits), read by strtod.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const char* end = first;
  const auto digits = [&] {
    const char* start = end;
    while (end != last && *end >= '0' && *end <= '9') ++end;
    return end - start;
  };
  const auto word = [&](const char* letters) {
    const auto size = static_cast<ptrdiff_t>(strlen(letters));
    if (last - end < size || strncasecmp(end, letters, static_cast<size_t>(size)) != 0) return false;
    end += size;
    return true;
  };
  if (end != last && *end == '-') ++end;
  if (!word("infinity") && !word("inf") && !word("nan")) {
    ptrdiff_t count = digits();
    if (end != last && *end == '.') {
      ++end;
      count += digits();
    }
    if (count == 0) return {first, errc::invalid_argument};
    const char* mantissa = end;
    if (end != last && (*end == 'e' || *end == 'E')) {
      ++end;
      if (end != last && (*end == '-' || *end == '+')) ++end;
      if (digits() == 0) end = mantissa;
    }
  }
  const string text(first, end);
  errno = 0;
  const double read = strtod(text.c_str(), nullptr);
  if (errno == ERANGE) return {end, errc::result_out_of_range};
  value = read;
  return {end, errc()};
}

namespace ranges {

// Algorithms over whole ranges, or over iterators, with a projection: each calls the one of C++17.
template <typename Predicate, typename Projection>
auto projected(Predicate& predicate, Projection& projection) {
  return [&](auto&& value) -> bool {
    return std::invoke(predicate, std::invoke(projection, std::forward<decltype(value)>(value)));
  };
}
template <typename Compare, typename Projection>
auto compared(Compare& compare, Projection& projection) {
  return [&](auto&& a, auto&& b) -> bool {
    return std::invoke(compare, std::invoke(projection, std::forward<decltype(a)>(a)),
                       std::invoke(projection, std::forward<decltype(b)>(b)));
  };
}
template <typename Value, typename Projection>
auto equal_to_value(const Value& value, Projection& projection) {
  return [&](auto&& other) -> bool {
    return std::invoke(projection, std::forward<decltype(other)>(other)) == value;
  };
}

#define PLANSEARCH_WITH_PREDICATE(NAME)                                                                   \
  template <typename Range, typename Predicate, typename Projection = identity>                           \
  constexpr auto NAME(Range&& range, Predicate predicate, Projection projection = {}) {                   \
    return std::NAME(std::begin(range), std::end(range), ranges::projected(predicate, projection));       \
  }                                                                                                       \
  template <input_or_output_iterator I, typename Predicate, typename Projection = identity>               \
  constexpr auto NAME(I first, I last, Predicate predicate, Projection projection = {}) {                 \
    return std::NAME(first, last, ranges::projected(predicate, projection));                              \
  }
PLANSEARCH_WITH_PREDICATE(any_of)
PLANSEARCH_WITH_PREDICATE(all_of)
PLANSEARCH_WITH_PREDICATE(none_of)
PLANSEARCH_WITH_PREDICATE(find_if)
PLANSEARCH_WITH_PREDICATE(find_if_not)
PLANSEARCH_WITH_PREDICATE(count_if)
PLANSEARCH_WITH_PREDICATE(partition_point)
#undef PLANSEARCH_WITH_PREDICATE

#define PLANSEARCH_WITH_COMPARE(NAME)                                                                     \
  template <typename Range, typename Compare = less, typename Projection = identity>                      \
  constexpr auto NAME(Range&& range, Compare compare = {}, Projection projection = {}) {                  \
    return std::NAME(std::begin(range), std::end(range), ranges::compared(compare, projection));          \
  }                                                                                                       \
  template <input_or_output_iterator I, typename Compare = less, typename Projection = identity>          \
  constexpr auto NAME(I first, I last, Compare compare = {}, Projection projection = {}) {                \
    return std::NAME(first, last, ranges::compared(compare, projection));                                 \
  }
PLANSEARCH_WITH_COMPARE(sort)
PLANSEARCH_WITH_COMPARE(stable_sort)
PLANSEARCH_WITH_COMPARE(is_sorted)
PLANSEARCH_WITH_COMPARE(min_element)
PLANSEARCH_WITH_COMPARE(max_element)
#undef PLANSEARCH_WITH_COMPARE

template <typename Range, typename Value, typename Projection = identity>
constexpr auto find(Range&& range, const Value& value, Projection projection = {}) {
  return std::find_if(std::begin(range), std::end(range), ranges::equal_to_value(value, projection));
}
template <input_or_output_iterator I, typename Value, typename Projection = identity>
constexpr auto find(I first, I last, const Value& value, Projection projection = {}) {
  return std::find_if(first, last, ranges::equal_to_value(value, projection));
}
template <typename Range, typename Value, typename Projection = identity>
constexpr auto count(Range&& range, const Value& value, Projection projection = {}) {
  return std::count_if(std::begin(range), std::end(range), ranges::equal_to_value(value, projection));
}
template <typename Range, typename Others>
constexpr auto find_first_of(Range&& range, Others&& others) {
  return std::find_first_of(std::begin(range), std::end(range), std::begin(others), std::end(others));
}
template <typename Range, typename Value, typename Compare = less, typename Projection = identity>
constexpr auto lower_bound(Range&& range, const Value& value, Compare compare = {}, Projection projection = {}) {
  return std::lower_bound(std::begin(range), std::end(range), value, [&](auto&& element, const Value& other) -> bool {
    return std::invoke(compare, std::invoke(projection, element), other);
  });
}
template <typename Range, typename Value, typename Compare = less, typename Projection = identity>
constexpr auto upper_bound(Range&& range, const Value& value, Compare compare = {}, Projection projection = {}) {
  return std::upper_bound(std::begin(range), std::end(range), value, [&](const Value& other, auto&& element) -> bool {
    return std::invoke(compare, other, std::invoke(projection, element));
  });
}
template <typename Range, typename Value>
constexpr bool binary_search(Range&& range, const Value& value) {
  return std::binary_search(std::begin(range), std::end(range), value);
}
template <typename Range, typename Relation = equal_to>
constexpr auto adjacent_find(Range&& range, Relation relation = {}) {
  return std::adjacent_find(std::begin(range), std::end(range), std::ref(relation));
}
template <typename Range, typename Old, typename New>
constexpr void replace(Range&& range, const Old& before, const New& after) {
  std::replace(std::begin(range), std::end(range), before, after);
}
template <typename Range, typename Value>
constexpr void fill(Range&& range, const Value& value) {
  std::fill(std::begin(range), std::end(range), value);
}
template <typename I, typename Value>
constexpr I fill_n(I first, iter_difference_t<I> count, const Value& value) {
  return std::fill_n(first, count, value);
}
template <typename Range>
constexpr void reverse(Range&& range) {
  std::reverse(std::begin(range), std::end(range));
}
template <typename Range, typename Function>
constexpr void for_each(Range&& range, Function function) {
  std::for_each(std::begin(range), std::end(range), std::ref(function));
}
template <typename Range, typename Out, typename Predicate, typename Projection = identity>
constexpr void copy_if(Range&& range, Out out, Predicate predicate, Projection projection = {}) {
  std::copy_if(std::begin(range), std::end(range), out, ranges::projected(predicate, projection));
}
template <typename Range, typename Out>
constexpr void move(Range&& range, Out out) {
  std::move(std::begin(range), std::end(range), out);
}
template <typename A, typename B, typename Out, typename Function>
constexpr void transform(A&& a, B&& b, Out out, Function function) {
  std::transform(std::begin(a), std::end(a), std::begin(b), out, std::ref(function));
}
template <typename Range>
constexpr void nth_element(Range&& range, decltype(std::begin(std::declval<Range&>())) middle) {
  std::nth_element(std::begin(range), middle, std::end(range));
}
template <typename I>
struct Rest {
  I first, last;
  constexpr I begin() const { return first; }
  constexpr I end() const { return last; }
};
template <typename Range, typename Relation = equal_to, typename Projection = identity>
constexpr auto unique(Range&& range, Relation relation = {}, Projection projection = {}) {
  const auto last = std::unique(std::begin(range), std::end(range), ranges::compared(relation, projection));
  return Rest<decltype(std::end(range))>{last, std::end(range)};
}

struct Found {
  bool found;
};
template <typename Range>
constexpr Found next_permutation(Range&& range) {
  return {std::next_permutation(std::begin(range), std::end(range))};
}
template <typename I>
struct MinMax {
  I min;
  I max;
};
template <typename Range, typename Compare = less, typename Projection = identity>
constexpr auto minmax_element(Range&& range, Compare compare = {}, Projection projection = {}) {
  const auto found = std::minmax_element(std::begin(range), std::end(range), ranges::compared(compare, projection));
  return MinMax<decltype(found.first)>{found.first, found.second};
}

}  // namespace ranges
}  // namespace std
