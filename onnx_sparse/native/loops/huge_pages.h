// Rows of a large table are each in another page of 4 KB, and looking up where those are takes as long as reading the
// rows: from pages of 2 MB, lookups in rows of 64 and 128 bytes take 0.65 to 0.85 of the time.

#pragma once

#include <cstddef>

namespace onnx_sparse {

// Whether the system is asked for huge pages at all.
bool are_huge_pages_wanted();

// Asks the system to keep memory that will be read for long in huge pages, if it is large and all of it is in memory.
// That takes at most a quarter of a second; the system does what is left in the background. Linux only, and only where
// its administrator has not turned them off. The environment variable ONNX_SPARSE_HUGE_PAGES=0 turns it off, too.
void prefer_huge_pages(const void* data, size_t bytes);

// Asks the system to give memory that is written next in huge pages where it has not given it yet, if it is large.
void expect_writes(void* data, size_t bytes);

}  // namespace onnx_sparse
