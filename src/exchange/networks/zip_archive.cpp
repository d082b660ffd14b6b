// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/zip_archive.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "exchange/networks/wire_reader.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocator64Mark = 0x07064b50;
constexpr std::uint32_t kCentralMark = 0x02014b50;
constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kLocalSize = 30;
constexpr std::uint64_t kLongestComment = 65'535;
constexpr std::uint64_t kMostEntries = 200'000;
constexpr std::uint64_t kLargestDirectory = std::uint64_t{64} << 20U;
constexpr std::uint32_t kIn64 = 0xffffffff;

/// At a place that is known to be inside.
std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t width) {
  return little_endian(bytes.substr(at, width));
}

std::uint32_t word(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint32_t>(number(bytes, at, 4));
}

std::uint16_t half(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(number(bytes, at, 2));
}

/// Sizes and offset that do not fit 32 bits stand in the extra field, in this order.
bool widen(std::string_view extra, ZipEntry& entry) {
  while (extra.size() >= 4) {
    const std::uint16_t tag = half(extra, 0);
    const std::size_t length = half(extra, 2);
    if (length > extra.size() - 4) return false;
    std::string_view field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (tag != 1) continue;
    for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.offset}) {
      if (*value != kIn64) continue;
      if (field.size() < 8) return false;
      *value = number(field, 0, 8);
      field.remove_prefix(8);
    }
    return true;
  }
  return entry.size != kIn64 && entry.packed != kIn64 && entry.offset != kIn64;
}

}  // namespace

ZipArchive::ZipArchive(std::unique_ptr<std::istream> in, std::string file)
    : in_(std::move(in)), file_(std::move(file)) {
  in_->seekg(0, std::ios::end);
  const std::streamoff end = in_->tellg();
  if (end < static_cast<std::streamoff>(kEndSize)) fail("not a zip archive: it is too short");
  size_ = static_cast<std::uint64_t>(end);
  const std::uint64_t tail = std::min<std::uint64_t>(size_, kEndSize + kLongestComment);
  const std::string last = bytes(size_ - tail, tail);
  std::size_t at = last.size() - kEndSize;
  while (at > 0 && word(last, at) != kEndMark) --at;
  if (word(last, at) != kEndMark) {
    fail("not a zip archive: its directory is missing", "is the file truncated?");
  }
  std::uint64_t count = half(last, at + 10);
  std::uint64_t size = word(last, at + 12);
  std::uint64_t offset = word(last, at + 16);
  if (at >= kLocatorSize && word(last, at - kLocatorSize) == kLocator64Mark) {
    const std::string end64 = bytes(number(last, at - kLocatorSize + 8, 8), kEnd64Size);
    if (word(end64, 0) != kEnd64Mark) fail("the zip64 directory is damaged");
    count = number(end64, 32, 8);
    size = number(end64, 40, 8);
    offset = number(end64, 48, 8);
  }
  read_directory(offset, size, count);
}

void ZipArchive::fail(const std::string& what, std::string hint) const {
  if (hint.empty()) hint = "unzip -t FILE checks it too";
  throw InputError({file_, 0, 0}, what, std::move(hint));
}

std::string ZipArchive::bytes(std::uint64_t offset, std::uint64_t count) const {
  if (offset > size_ || count > size_ - offset) {
    fail(fmt::format("the archive ends at byte {}, {} bytes at {} are missing", size_, count,
                     offset),
         "is the file truncated?");
  }
  std::string read(count, '\0');
  in_->clear();
  in_->seekg(static_cast<std::streamoff>(offset));
  in_->read(read.data(), static_cast<std::streamsize>(count));
  if (static_cast<std::uint64_t>(in_->gcount()) != count) fail("the archive cannot be read");
  return read;
}

void ZipArchive::read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count) {
  if (count > kMostEntries) fail(fmt::format("the archive has more than {} files", kMostEntries));
  if (size > kLargestDirectory) {
    fail(fmt::format("the archive's directory has more than {} bytes", kLargestDirectory));
  }
  const std::string directory = bytes(offset, size);
  std::string_view rest = directory;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (rest.size() < kCentralSize || word(rest, 0) != kCentralMark) {
      fail("the archive's directory is damaged");
    }
    const std::size_t name = half(rest, 28);
    const std::size_t extra = half(rest, 30);
    const std::size_t comment = half(rest, 32);
    if (rest.size() - kCentralSize < name + extra + comment) {
      fail("the archive's directory is damaged");
    }
    ZipEntry entry{std::string(rest.substr(kCentralSize, name)),
                   half(rest, 8),
                   half(rest, 10),
                   word(rest, 16),
                   word(rest, 20),
                   word(rest, 24),
                   word(rest, 42)};
    if (!widen(rest.substr(kCentralSize + name, extra), entry)) {
      fail(fmt::format("sizes of '{}' are missing", entry.name));
    }
    entries_.push_back(std::move(entry));
    rest.remove_prefix(kCentralSize + name + extra + comment);
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  for (const ZipEntry& entry : entries_) {
    if (entry.name == name) return &entry;
    const std::size_t length = entry.name.size();
    const bool folder = length > name.size() && entry.name.ends_with(name);
    if (folder && entry.name[length - name.size() - 1] == '/') return &entry;
  }
  return nullptr;
}

std::string ZipArchive::read(const ZipEntry& entry, std::size_t limit) const {
  if (entry.size > limit) {
    fail(fmt::format("'{}' has {} bytes unpacked, more than {} are not read", entry.name,
                     entry.size, limit));
  }
  if ((entry.flags & 1U) != 0) fail(fmt::format("'{}' is encrypted", entry.name));
  const std::string local = bytes(entry.offset, kLocalSize);
  if (word(local, 0) != kLocalMark) fail(fmt::format("'{}' is not where it should be", entry.name));
  const std::uint64_t head = kLocalSize + half(local, 26) + half(local, 28);
  if (entry.packed > limit + limit / 1000 + 64) {
    fail(fmt::format("'{}' is packed into more bytes than it has", entry.name));
  }
  std::string content = bytes(entry.offset + head, entry.packed);
  if (entry.method == 8) {
    content = inflated(content, entry);
  } else if (entry.method != 0) {
    fail(fmt::format("'{}' is packed by method {}", entry.name, entry.method),
         "only stored and deflated files are read");
  }
  const auto checksum =
      ::crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  if (content.size() != entry.size || checksum != entry.checksum) {
    fail(fmt::format("'{}' is damaged: size or checksum differ", entry.name));
  }
  return content;
}

/// Never more than the size that the directory promises.
std::string ZipArchive::inflated(const std::string& packed, const ZipEntry& entry) const {
  std::string out(entry.size, '\0');
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail("zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = ::inflate(&stream, Z_FINISH);
  ::inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.total_out != out.size()) {
    fail(fmt::format("'{}' is damaged: it does not unpack to {} bytes", entry.name, entry.size));
  }
  return out;
}

}  // namespace plansearch::io
