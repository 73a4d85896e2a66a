// What benchmarks/keyed_tables.py compares with: the hash map that torch ships, and what memory takes at the least.

#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

struct Hash {
  size_t operator()(int64_t key) const {
    auto value = static_cast<uint64_t>(key);
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
  }
  size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};

template <class Key>
struct Map {
  ska::flat_hash_map<Key, int64_t, Hash> positions;
};

std::string_view text(const char* bytes, const int64_t* offsets, int64_t i) {
  return {bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
}

}  // namespace

extern "C" {

void* map_of_integers(const int64_t* keys, int64_t count) {
  auto* map = new Map<int64_t>();
  map->positions.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) map->positions.emplace(keys[i], i);
  return map;
}

void find_integers(const void* map, const int64_t* queries, int64_t count, int64_t* found) {
  const auto& positions = static_cast<const Map<int64_t>*>(map)->positions;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = positions.find(queries[i]);
    found[i] = at == positions.end() ? -1 : at->second;
  }
}

// The bytes must live as long as the map.
void* map_of_texts(const char* bytes, const int64_t* offsets, int64_t count) {
  auto* map = new Map<std::string_view>();
  map->positions.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) map->positions.emplace(text(bytes, offsets, i), i);
  return map;
}

void find_texts(const void* map, const char* bytes, const int64_t* offsets, int64_t count, int64_t* found) {
  const auto& positions = static_cast<const Map<std::string_view>*>(map)->positions;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = positions.find(text(bytes, offsets, i));
    found[i] = at == positions.end() ? -1 : at->second;
  }
}

// So many lookups of one read from `slots` and one from `keys`, which depends on it; ten lookups wait at a time.
// `slots` has positions in `keys`. Returns what depends on all reads.
uint64_t least(const uint32_t* slots, uint64_t slot_count, const uint64_t* keys, int64_t lookups, uint64_t seed) {
  constexpr int kLanes = 10;
  uint64_t at[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) at[lane] = seed + static_cast<uint64_t>(lane);
  for (int64_t done = 0; done < lookups; done += kLanes) {
    for (uint64_t& state : at)
      state = state * 6364136223846793005 + 1442695040888963407 + keys[slots[(state >> 33) % slot_count]];
  }
  uint64_t all = 0;
  for (const uint64_t state : at) all ^= state;
  return all;
}

}  // extern "C"
