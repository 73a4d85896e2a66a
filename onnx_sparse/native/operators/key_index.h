// The index of a table of keys: its bytes, building it, and searches in it. The page of IndexKeys says what the bytes
// are. Models are untrusted: whatever an index holds, nothing outside of it is read, and every search ends.
//
// What searches and builds get as `Keys` has the keys at positions:
//   uint64_t hash(int64_t position)
//   void prefetch(int64_t position), void prefetch_again(int64_t position): what `equals` reads, in two steps
//   bool equals(int64_t position, Query query)
//   int compare(int64_t position, int64_t other)

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "abi/tensor.h"
#include "abi/validation.h"
#include "operators/first_refused.h"
#include "operators/little_endian.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace onnx_sparse {

enum class KeyKind : uint32_t { integers_of_4_bytes = 1, integers_of_8_bytes = 2, text = 3 };

constexpr int64_t kMostKeys = 0xfffffffe;

// The finalizer of SplitMix64.
inline uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// Where keys are in an index of `count` keys.
class KeyPlaces {
 public:
  static constexpr uint64_t kBucketSlots = 16;  // of 4 bytes: a cache line

  explicit KeyPlaces(int64_t count) : count_(static_cast<uint64_t>(count)), homes_(count_ / 12 + 1) {
    while (count_ >> bits_ != 0) ++bits_;
    positions_ = (uint64_t{1} << bits_) - 1;
  }

  uint64_t count() const { return count_; }
  uint64_t homes() const { return homes_; }
  int bits() const { return bits_; }
  uint64_t home(uint64_t hash) const { return (hash >> 32) * homes_ >> 32; }
  uint32_t tag(uint64_t hash) const { return static_cast<uint32_t>(hash & (uint64_t{0xffffffff} >> bits_)); }
  uint32_t slot(uint64_t hash, uint64_t position) const {
    return static_cast<uint32_t>(hash << bits_ & 0xffffffff) | static_cast<uint32_t>(position + 1);
  }
  // The position in a slot that is not empty; not less than the count in one that is empty or damaged.
  uint64_t position(uint64_t slot) const { return (slot & positions_) - 1; }

 private:
  uint64_t count_;
  uint64_t homes_;
  int bits_ = 0;
  uint64_t positions_ = 0;
};

class KeyIndex {
 public:
  static constexpr uint64_t kHeaderBytes = 64;

  // Throws an InvalidArgument unless the bytes have the header and the size of an index of so many keys of a kind.
  KeyIndex(const char* data, uint64_t bytes, int64_t count, KeyKind kind);

  // Writes the positions of queries first ... end - 1, or -1 where one is not among the keys. `query(i)` gives one,
  // and `hash(query)` its hash. The first slot that names a key that is not there is added to `damaged`.
  template <class Keys, class Queries, class Hash>
  void find(const Keys& keys, int64_t first, int64_t end, const Queries& query, const Hash& hash, int64_t* positions,
            FirstRefused& damaged) const {
    constexpr int64_t kBlock = 32;  // so many queries wait for memory at the same time
    uint64_t hashes[kBlock];
    for (; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      int64_t* found = positions + first;
      for (int64_t k = 0; k < count; ++k) {
        hashes[k] = hash(query(first + k));
        const char* bucket = bucket_at(places_.home(hashes[k]));
        __builtin_prefetch(bucket);
        __builtin_prefetch(bucket + kBucketBytes - 1);  // where the index is not aligned
      }
      for (int64_t k = 0; k < count; ++k) {
        found[k] = likely_position(hashes[k]);
        if (found[k] >= 0) keys.prefetch(found[k]);
      }
      for (int64_t k = 0; k < count; ++k) {
        if (found[k] >= 0) keys.prefetch_again(found[k]);
      }
      for (int64_t k = 0; k < count; ++k) {
        if (found[k] == kAbsent || (found[k] >= 0 && keys.equals(found[k], query(first + k)))) continue;
        found[k] = search(keys, hashes[k], query(first + k), damaged);
      }
    }
  }

  // The message about a damaged slot.
  std::string damage(size_t slot) const;

 private:
  static constexpr uint64_t kBucketBytes = KeyPlaces::kBucketSlots * 4;
  static constexpr int64_t kAbsent = -1;
  static constexpr int64_t kUnknown = -2;

  // Which slots of a bucket may hold a key, a bit for each; empty ones may be among them.
  struct Bucket {
    uint32_t candidates;
    bool is_last;
  };

  const char* bucket_at(uint64_t bucket) const { return slots_ + bucket * kBucketBytes; }

  Bucket read(uint64_t bucket, uint32_t tag) const {
    const char* at = bucket_at(bucket);
    uint32_t candidates = 0;
#if defined(__SSE2__)
    const auto* lanes = reinterpret_cast<const __m128i*>(at);
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
    const __m128i bits = _mm_cvtsi32_si128(places_.bits());
    const auto same = [&](int k) { return _mm_cmpeq_epi32(_mm_srl_epi32(_mm_loadu_si128(lanes + k), bits), wanted); };
    candidates = static_cast<uint32_t>(
        _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(same(0), same(1)), _mm_packs_epi32(same(2), same(3)))));
#else
    for (uint64_t k = 0; k < KeyPlaces::kBucketSlots; ++k) {
      candidates |= static_cast<uint32_t>(word32(at + 4 * k) >> places_.bits() == tag) << k;
    }
#endif
    return {candidates, word32(at + kBucketBytes - 4) == 0};
  }

  // The position of the first candidate in the home, where it is one; kAbsent where there can be none.
  int64_t likely_position(uint64_t hash) const {
    const uint64_t home = places_.home(hash);
    const Bucket bucket = read(home, places_.tag(hash));
    if (bucket.candidates == 0) return bucket.is_last ? kAbsent : kUnknown;
    const auto k = static_cast<uint64_t>(__builtin_ctz(bucket.candidates));
    const uint64_t position = places_.position(word32(bucket_at(home) + 4 * k));
    return position < places_.count() ? static_cast<int64_t>(position) : kUnknown;
  }

  template <class Keys, class Query>
  int64_t search(const Keys& keys, uint64_t hash, const Query& query, FirstRefused& damaged) const {
    const uint64_t home = places_.home(hash);
    const uint64_t end = std::min(home + longest_, buckets_);
    for (uint64_t at = home; at < end; ++at) {
      const Bucket bucket = read(at, places_.tag(hash));
      for (uint32_t left = bucket.candidates; left != 0; left &= left - 1) {
        const uint64_t number = at * KeyPlaces::kBucketSlots + static_cast<uint64_t>(__builtin_ctz(left));
        const uint64_t slot = word32(slots_ + 4 * number);
        const uint64_t position = places_.position(slot);
        if (position >= places_.count()) {
          if (slot != 0) damaged.add(number);
        } else if (keys.equals(static_cast<int64_t>(position), query)) {
          return static_cast<int64_t>(position);
        }
      }
      if (bucket.is_last) break;
    }
    return kAbsent;
  }

  KeyPlaces places_;
  uint64_t longest_ = 0;
  uint64_t buckets_ = 0;
  const char* slots_;
};

// Calls work(first, end) for consecutive parts of `size` items; `bytes` is what the work on all of them moves.
using Parallel =
    std::function<void(int64_t size, int64_t bytes, const std::function<void(int64_t first, int64_t end)>& work)>;

// Builds indexes.
template <class Keys>
class KeyIndexBuilder {
 public:
  KeyIndexBuilder(const Keys& keys, int64_t count, KeyKind kind, const Parallel& parallel)
      : keys_(keys),
        places_(count),
        kind_(kind),
        parallel_(parallel),
        ends_(new std::atomic<uint64_t>[places_.homes()]()) {
    count_keys();
    place_homes();
  }

  uint64_t bytes() const { return KeyIndex::kHeaderBytes + 4 * slots_; }

  // Writes the index. Keys that are there twice are added to `again`, each but the first; then the index is not whole.
  void write(char* index, FirstRefused& again) {
    char* slots = index + KeyIndex::kHeaderBytes;
    over(slots_, 4, [&](uint64_t first, uint64_t end) { std::memset(slots + 4 * first, 0, 4 * (end - first)); });
    auto* written = slots;
    over(places_.count(), 8, [&](uint64_t first, uint64_t end) {
      for_blocks(first, end, [&](uint64_t position, uint64_t hash) {
        const uint64_t at = ends_[places_.home(hash)].fetch_add(1, std::memory_order_relaxed);
        put_word32(written + 4 * at, places_.slot(hash, position));
      });
    });
    over(places_.homes(), 64, [&](uint64_t first, uint64_t end) {
      for (uint64_t home = first; home < end; ++home) order(slots, home, again);
    });
    const uint64_t checksum = checksum_of(slots, slots_);
    std::memset(index, 0, KeyIndex::kHeaderBytes);
    std::memcpy(index, "OSKEYIDX", 8);
    put_word32(index + 8, 1);
    put_word32(index + 12, static_cast<uint32_t>(kind_));
    const uint64_t words[] = {places_.count(), slots_, longest_, keys_checksum_.load(), checksum};
    for (size_t k = 0; k < 5; ++k) put_word64(index + 16 + 8 * k, words[k]);
  }

  // Throws an InvalidArgument unless an index, which has a header and a size that a search accepts, is the one of these
  // keys. No slot is compared: a checksum is.
  void require(const char* index) {
    const uint64_t slots = word64(index + 24);
    const std::pair<const char*, std::array<uint64_t, 2>> fields[] = {
        {"checksum of the keys", {word64(index + 40), keys_checksum_.load()}},
        {"number of slots", {slots, slots_}},
        {"most buckets of a search", {word64(index + 32), longest_}},
        {"checksum of the slots", {word64(index + 48), checksum_of(index + KeyIndex::kHeaderBytes, slots)}},
        {"last word of the header", {word64(index + 56), 0}},
    };
    for (const auto& [name, values] : fields) {
      if (values[0] == values[1]) continue;
      char text[64];
      std::snprintf(text, sizeof text, " is 0x%" PRIx64 ", expected 0x%" PRIx64, values[0], values[1]);
      throw InvalidArgument{std::string("index is damaged, or of other keys: its ") + name + text};
    }
  }

 private:
  template <class Work>
  void over(uint64_t size, uint64_t bytes_each, const Work& work) {
    parallel_(static_cast<int64_t>(size), static_cast<int64_t>(size * bytes_each),
              [&](int64_t first, int64_t end) { work(static_cast<uint64_t>(first), static_cast<uint64_t>(end)); });
  }

  uint64_t checksum_of(const char* slots, uint64_t count) {
    std::atomic<uint64_t> checksum{0};
    over(count, 4, [&](uint64_t first, uint64_t end) {
      uint64_t sum = 0;
      for (uint64_t j = first; j < end; ++j) sum += mix(j << 32 | word32(slots + 4 * j));
      checksum.fetch_add(sum, std::memory_order_relaxed);
    });
    return checksum.load();
  }

  // Calls work(position, hash) while the memory of the homes that come next is on its way.
  template <class Work>
  void for_blocks(uint64_t first, uint64_t end, const Work& work) {
    constexpr uint64_t kBlock = 32;
    uint64_t hashes[kBlock];
    for (; first < end; first += kBlock) {
      const uint64_t count = std::min(kBlock, end - first);
      for (uint64_t k = 0; k < count; ++k) {
        hashes[k] = keys_.hash(static_cast<int64_t>(first + k));
        __builtin_prefetch(&ends_[places_.home(hashes[k])], 1);
      }
      for (uint64_t k = 0; k < count; ++k) work(first + k, hashes[k]);
    }
  }

  void count_keys() {
    over(places_.count(), 8, [&](uint64_t first, uint64_t end) {
      uint64_t sum = 0;
      for_blocks(first, end, [&](uint64_t position, uint64_t hash) {
        ends_[places_.home(hash)].fetch_add(1, std::memory_order_relaxed);
        sum += mix(hash + position * 0x9e3779b97f4a7c15);
      });
      keys_checksum_.fetch_add(sum, std::memory_order_relaxed);
    });
  }

  // From the number of keys of each home to where they begin.
  void place_homes() {
    constexpr uint64_t kSlots = KeyPlaces::kBucketSlots;
    uint64_t next = 0;
    for (uint64_t home = 0; home < places_.homes(); ++home) {
      const uint64_t count = ends_[home].load(std::memory_order_relaxed);
      const uint64_t begin = std::max(home * kSlots, next);
      ends_[home].store(begin, std::memory_order_relaxed);
      next = begin + count;
      if (count > 0) longest_ = std::max(longest_, (next - 1) / kSlots - home + 1);
    }
    slots_ = std::max(places_.homes(), (next + kSlots - 1) / kSlots) * kSlots;
  }

  // Puts the keys of a home, which are now in any order, in that of their positions.
  void order(char* slots, uint64_t home, FirstRefused& again) const {
    const uint64_t end = ends_[home].load(std::memory_order_relaxed);
    const uint64_t before = home == 0 ? 0 : ends_[home - 1].load(std::memory_order_relaxed);
    auto* first = reinterpret_cast<Slot*>(slots) + std::max(home * KeyPlaces::kBucketSlots, before);
    auto* last = reinterpret_cast<Slot*>(slots) + end;
    const auto position = [&](Slot slot) { return static_cast<int64_t>(places_.position(slot.value())); };
    const auto tag = [&](Slot slot) { return slot.value() >> places_.bits(); };
    std::sort(first, last, [&](Slot one, Slot other) {
      if (tag(one) != tag(other)) return tag(one) < tag(other);
      const int order = keys_.compare(position(one), position(other));
      return order != 0 ? order < 0 : position(one) < position(other);
    });
    for (auto* slot = first; slot != last; ++slot) {
      if (slot == first || tag(slot[-1]) != tag(*slot)) continue;
      if (keys_.compare(position(slot[-1]), position(*slot)) == 0) again.add(static_cast<size_t>(position(*slot)));
    }
    std::sort(first, last, [&](Slot one, Slot other) { return position(one) < position(other); });
  }

  // A slot at any address.
  struct Slot {
    char bytes[4];
    uint64_t value() const { return word32(bytes); }
  };

  const Keys& keys_;
  KeyPlaces places_;
  KeyKind kind_;
  const Parallel& parallel_;
  std::unique_ptr<std::atomic<uint64_t>[]> ends_;  // of the keys of each home
  std::atomic<uint64_t> keys_checksum_{0};
  uint64_t longest_ = 1;
  uint64_t slots_ = 0;
};

}  // namespace onnx_sparse
