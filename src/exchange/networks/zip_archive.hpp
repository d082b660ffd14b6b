// SPDX-License-Identifier: Apache-2.0
// Zip archives, read entry by entry: only the directory and the requested entries are read, so that
// an archive may be larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch::io {

/// One file of an archive, as the central directory describes it.
struct ZipEntry {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;  ///< 0: stored, 8: deflate
  std::uint32_t checksum = 0;
  std::uint64_t packed = 0;  ///< bytes in the archive
  std::uint64_t size = 0;    ///< bytes unpacked
  std::uint64_t offset = 0;  ///< of its local header
};

/// PKWARE's APPNOTE 6.3.10 with zip64; no encryption, no archives in parts. Every fault is an
/// InputError that names the file and the entry.
class ZipArchive {
 public:
  ZipArchive(std::unique_ptr<std::istream> in, std::string file);

  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }
  /// The entry of this name, or the first one that ends in "/NAME"; none: nullptr.
  [[nodiscard]] const ZipEntry* find(std::string_view name) const;
  /// Its bytes, checked against size and checksum. Larger than `limit`: refused before reading.
  [[nodiscard]] std::string read(const ZipEntry& entry, std::size_t limit) const;

 private:
  [[noreturn]] void fail(const std::string& what, std::string hint = {}) const;
  [[nodiscard]] std::string bytes(std::uint64_t offset, std::uint64_t count) const;
  void read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count);
  [[nodiscard]] std::string inflated(const std::string& packed, const ZipEntry& entry) const;

  std::unique_ptr<std::istream> in_;
  std::string file_;
  std::uint64_t size_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace plansearch::io
