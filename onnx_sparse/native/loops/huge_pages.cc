#include "loops/huge_pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#endif

namespace onnx_sparse {

#if defined(__linux__)

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = 2 << 20;
// Of less, processors keep the addresses of all pages.
constexpr size_t kLeastBytes = 8 << 20;
constexpr std::chrono::milliseconds kMostTime{250};
// How much is collapsed in one call: each waits for all processors. Of calls for 2 MB, it takes 0.75 of the time.
constexpr ptrdiff_t kCollapsedAtOnce = 32 << 20;
// From Linux 6.1 on: at once, not in the background. The headers of older systems lack it.
constexpr int kCollapse = 25;

bool decide() {
  const char* wanted = std::getenv("ONNX_SPARSE_HUGE_PAGES");
  if (wanted != nullptr && std::strcmp(wanted, "0") == 0) return false;
  if (sysconf(_SC_PAGESIZE) != static_cast<long>(kPageBytes)) return false;
  std::string choices;  // [never] where the system has them turned off
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), choices);
  return !choices.empty() && choices.find("[never]") == std::string::npos;
}

// The huge pages that lie in large memory; none where they are not wanted.
struct HugePages {
  HugePages(const void* data, size_t bytes) {
    if (bytes < kLeastBytes || !are_huge_pages_wanted()) return;
    const auto address = reinterpret_cast<uintptr_t>(data);
    first = reinterpret_cast<char*>((address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
    end = reinterpret_cast<char*>((address + bytes) / kHugePageBytes * kHugePageBytes);
  }

  // Whether the system was asked for them.
  bool ask() const { return first < end && madvise(first, static_cast<size_t>(end - first), MADV_HUGEPAGE) == 0; }

  char* first = nullptr;
  char* end = nullptr;
};

// Not so where it is in a file that has not been read: a table may be larger than the memory.
bool is_in_memory(char* page) {
  std::array<unsigned char, kHugePageBytes / kPageBytes> resident{};
  if (mincore(page, kHugePageBytes, resident.data()) != 0) return false;
  return std::all_of(resident.begin(), resident.end(), [](unsigned char flags) { return (flags & 1) != 0; });
}

}  // namespace

bool are_huge_pages_wanted() {
  static const bool are_wanted = decide();
  return are_wanted;
}

void prefer_huge_pages(const void* data, size_t bytes) {
  const HugePages pages(data, bytes);
  for (char* page = pages.first; page < pages.end; page += kHugePageBytes) {
    if (!is_in_memory(page)) return;
  }
  const auto start = std::chrono::steady_clock::now();
  bool done = !pages.ask();
  for (char* page = pages.first; page < pages.end && !done; page += kCollapsedAtOnce) {
    const auto some = static_cast<size_t>(std::min(pages.end - page, kCollapsedAtOnce));
    done = madvise(page, some, kCollapse) != 0 || std::chrono::steady_clock::now() - start > kMostTime;
  }
}

void expect_writes(void* data, size_t bytes) { HugePages(data, bytes).ask(); }

#else

bool are_huge_pages_wanted() { return false; }

void prefer_huge_pages(const void*, size_t) {}

void expect_writes(void*, size_t) {}

#endif

}  // namespace onnx_sparse
