// FindKeys, FindStrings, IndexKeys, IndexStrings.

#include "operators/keyed_tables.h"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "abi/string_tensor.h"
#include "loops/elements.h"
#include "operators/farmhash.h"
#include "operators/key_index.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

// Integers at any address.
template <class T>
class Integers {
 public:
  using Query = T;

  explicit Integers(const Tensor& keys) : data_(keys.as<char>()) {}

  T operator[](int64_t i) const {
    T value;
    std::memcpy(&value, data_ + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  // int32 is sign-extended.
  static uint64_t hash_of(T key) { return mix(static_cast<uint64_t>(key)); }
  uint64_t hash(int64_t position) const { return hash_of((*this)[position]); }
  void prefetch(int64_t position) const { __builtin_prefetch(data_ + position * static_cast<int64_t>(sizeof(T))); }
  void prefetch_again(int64_t) const {}
  bool equals(int64_t position, T query) const { return (*this)[position] == query; }
  int compare(int64_t position, int64_t other) const {
    const T one = (*this)[position];
    return one<(*this)[other] ? -1 : one>(*this)[other];
  }
  std::string message(int64_t again, int64_t first) const {
    return "keys[" + std::to_string(again) + "] = " + std::to_string((*this)[again]) + " is also keys[" +
           std::to_string(first) + "]";
  }

 private:
  const char* data_;
};

// Text whose offsets have perhaps not been checked: a key whose offsets are illegal equals no text.
class Texts {
 public:
  using Query = std::string_view;

  Texts(const Tensor& bytes, const Tensor& offsets)
      : bytes_(bytes.as<char>()), size_(bytes.size()), offsets_(offsets) {}

  static uint64_t hash_of(std::string_view key) { return fingerprint64(key); }
  uint64_t hash(int64_t position) const { return fingerprint64(at(position)); }
  void prefetch(int64_t position) const {
    offsets_.prefetch(position);
    offsets_.prefetch(position + 1);
  }
  void prefetch_again(int64_t position) const {
    if (is_legal(position)) __builtin_prefetch(bytes_ + offsets_[position]);
  }
  bool equals(int64_t position, std::string_view query) const {
    if (is_legal(position)) return at(position) == query;
    illegal_.add(static_cast<size_t>(position));
    return false;
  }
  int compare(int64_t position, int64_t other) const { return at(position).compare(at(other)); }
  std::string message(int64_t again, int64_t first) const {
    return "key " + std::to_string(again) + " = " + shown(at(again)) + " is also key " + std::to_string(first);
  }
  // Throws an InvalidArgument if a key that was compared has illegal offsets.
  void require_legal() const {
    if (!illegal_.any()) return;
    const size_t at = illegal_.message();
    const auto offset = [&](size_t k) {
      return "key_offsets[" + std::to_string(k) + "] = " + std::to_string(offsets_[static_cast<int64_t>(k)]);
    };
    throw InvalidArgument{offset(at) + " and " + offset(at + 1) + " are no part of the " + std::to_string(size_) +
                          " bytes"};
  }

 private:
  std::string_view at(int64_t i) const {
    return {bytes_ + offsets_[i], static_cast<size_t>(offsets_[i + 1] - offsets_[i])};
  }
  bool is_legal(int64_t i) const {
    return (offsets_[i] >= 0) & (offsets_[i] <= offsets_[i + 1]) & (offsets_[i + 1] <= size_);
  }

  const char* bytes_;
  int64_t size_;
  Integers<int64_t> offsets_;
  mutable FirstRefused illegal_;
};

// Calls with the keys of a node, their number and their kind. `text` says whether the first two inputs are text.
template <class Use>
void with_keys(const Tensor* inputs, bool text, const Use& use) {
  const Tensor& keys = inputs[0];
  if (text) {
    if (inputs[1].dims[0] == 0) throw InvalidArgument{"key_offsets has 0 elements; at least 1 expected"};
    use(Texts(keys, inputs[1]), inputs[1].dims[0] - 1, KeyKind::text);
  } else if (keys.type == ORT_INT32) {
    use(Integers<int32_t>(keys), keys.dims[0], KeyKind::integers_of_4_bytes);
  } else if (keys.type == ORT_INT64) {
    use(Integers<int64_t>(keys), keys.dims[0], KeyKind::integers_of_8_bytes);
  } else {
    use(Integers<uint64_t>(keys), keys.dims[0], KeyKind::integers_of_8_bytes);
  }
}

// Builds the index of keys in memory that `allocate(bytes)` gives. Throws an InvalidArgument if one is there twice.
template <class Keys>
void build(const Keys& keys, int64_t count, KeyKind kind, const Parallel& parallel,
           const std::function<char*(uint64_t)>& allocate) {
  if (count > kMostKeys) {
    throw InvalidArgument{"there are " + std::to_string(count) + " keys; an index has at most " +
                          std::to_string(kMostKeys)};
  }
  KeyIndexBuilder<Keys> builder(keys, count, kind, parallel);
  FirstRefused again;
  builder.write(allocate(builder.bytes()), again);
  if (!again.any()) return;
  int64_t first = 0;
  while (keys.compare(first, static_cast<int64_t>(again.message())) != 0) ++first;
  throw InvalidArgument{keys.message(static_cast<int64_t>(again.message()), first)};
}

BuiltIndex build_for_search(const Tensor* inputs, bool text, const Parallel& parallel) {
  BuiltIndex index;
  if (text) require_row_splits("key_offsets", inputs[1], inputs[0].size());
  with_keys(inputs, text, [&](const auto& keys, int64_t count, KeyKind kind) {
    build(keys, count, kind, parallel, [&](uint64_t bytes) {
      index.bytes = bytes;
      index.data = uninitialized<char>(static_cast<int64_t>(bytes));
      return index.data.get();
    });
  });
  return index;
}

bool checks_indexes() {
  const char* wanted = std::getenv("ONNX_SPARSE_CHECK_INDEX");
  return wanted != nullptr && *wanted != '\0' && std::strcmp(wanted, "0") != 0;
}

Parallel on_threads_of(const Call& call) {
  return [&call](int64_t size, int64_t bytes, const auto& work) { call.for_parts(size, bytes, work); };
}

template <class Keys, class Queries>
void find(const Call& call, const Keys& keys, const KeyIndex& index, const Queries& query, int64_t bytes) {
  const Tensor& queries = call.input(std::is_same_v<Keys, Texts> ? 3 : 2);
  const std::vector<int64_t> shape(queries.dims, queries.dims + queries.rank);
  auto* positions = static_cast<int64_t*>(call.allocate(0, shape, sizeof(int64_t), {"queries", queries}));
  FirstRefused damaged;
  call.for_parts(queries.size(), bytes, [&](int64_t first, int64_t end) {
    index.find(keys, first, end, query, Keys::hash_of, positions, damaged);
  });
  if (damaged.any()) throw InvalidArgument{index.damage(damaged.message())};
}

void find(const Call& call, bool text) {
  const Tensor inputs[] = {call.input(0), call.input(1)};
  const Tensor& given = call.input(text ? 2 : 1);
  const Tensor& queries = call.input(text ? 3 : 2);
  const auto* built = static_cast<const BuiltIndex*>(call.prepared());
  std::optional<BuiltIndex> of_this_run;
  if (!given && built == nullptr) {
    of_this_run = build_for_search(inputs, text, on_threads_of(call));
    built = &*of_this_run;
  }
  with_keys(inputs, text, [&](const auto& keys, int64_t count, KeyKind kind) {
    using Keys = std::decay_t<decltype(keys)>;
    const KeyIndex index = given ? KeyIndex(given.as<char>(), static_cast<uint64_t>(given.size()), count, kind)
                                 : KeyIndex(built->data.get(), built->bytes, count, kind);
    // A search costs as much as moving some cache lines.
    if constexpr (std::is_same_v<Keys, Texts>) {
      const Strings strings(call, queries);
      find(
          call, keys, index, [&](int64_t i) { return strings[static_cast<size_t>(i)]; },
          strings.cost() + 256 * queries.size());
      keys.require_legal();
    } else {
      const Keys integers(queries);
      find(call, keys, index, [&](int64_t i) { return integers[i]; }, 128 * queries.size());
    }
  });
}

void index_keys(const Call& call, bool text) {
  const Tensor inputs[] = {call.input(0), call.input(1)};
  if (text) require_row_splits("key_offsets", inputs[1], inputs[0].size());
  const Parallel parallel = on_threads_of(call);
  with_keys(inputs, text, [&](const auto& keys, int64_t count, KeyKind kind) {
    build(keys, count, kind, parallel, [&](uint64_t bytes) {
      const Cause cause(text ? "key_offsets" : "keys", inputs[text ? 1 : 0]);
      return static_cast<char*>(call.allocate(0, {static_cast<int64_t>(bytes)}, 1, cause));
    });
  });
}

}  // namespace

KeyIndex::KeyIndex(const char* data, uint64_t bytes, int64_t count, KeyKind kind) : places_(count) {
  const auto refuse = [](const std::string& message) { throw InvalidArgument{"index " + message}; };
  const auto number = [](uint64_t value) { return std::to_string(value); };
  if (bytes < kHeaderBytes || std::memcmp(data, "OSKEYIDX", 8) != 0) {
    refuse("is no index of keys: it does not begin with OSKEYIDX");
  }
  const uint64_t version = word32(data + 8);
  if (version != 1) refuse("has version " + number(version) + "; 1 is read");
  const uint64_t its_kind = word32(data + 12);
  if (its_kind != static_cast<uint64_t>(kind)) {
    refuse("is of keys of kind " + number(its_kind) + "; these are of kind " + number(static_cast<uint64_t>(kind)));
  }
  const uint64_t keys = word64(data + 16);
  if (keys != places_.count()) refuse("is of " + number(keys) + " keys; there are " + number(places_.count()));
  const uint64_t slots = word64(data + 24);
  if (slots != (bytes - kHeaderBytes) / 4 || (bytes - kHeaderBytes) % 4 != 0) {
    refuse("has " + number(bytes) + " bytes; expected " + number(kHeaderBytes) + " and 4 for each of " + number(slots) +
           " slots");
  }
  slots_ = data + kHeaderBytes;
  buckets_ = slots / KeyPlaces::kBucketSlots;
  longest_ = word64(data + 32);
  if (slots % KeyPlaces::kBucketSlots != 0 || buckets_ < places_.homes() || longest_ == 0 || longest_ > buckets_) {
    refuse("is damaged: " + number(slots) + " slots, and searches of at most " + number(longest_) + " buckets");
  }
}

std::string KeyIndex::damage(size_t slot) const {
  const auto position = static_cast<int64_t>(places_.position(word32(slots_ + 4 * slot)));
  return "index is damaged: slot " + std::to_string(slot) + " names key " + std::to_string(position) + " of " +
         std::to_string(places_.count());
}

std::shared_ptr<const void> prepare_keys(const Tensor* constants, bool text, const std::string& index_name) {
  const Parallel on_this_thread = [](int64_t size, int64_t, const auto& work) { work(int64_t{0}, size); };
  const Tensor& given = constants[text ? 2 : 1];
  for (size_t i = 0; i < (text ? 2 : 1); ++i) {
    if (!constants[i]) return nullptr;
  }
  if (given && given.dims[0] > 0) {
    const bool checks = checks_indexes();
    try {
      with_keys(constants, text, [&](const auto& keys, int64_t count, KeyKind kind) {
        if (checks && text) require_row_splits("key_offsets", constants[1], constants[0].size());
        KeyIndex(given.as<char>(), static_cast<uint64_t>(given.size()), count, kind);
        if (checks) KeyIndexBuilder(keys, count, kind, on_this_thread).require(given.as<char>());
      });
    } catch (const InvalidArgument& refused) {
      if (!checks) throw;
      throw InvalidArgument{index_name + ": " + refused.message +
                            "; copy its file again, or build the index anew with onnx_sparse.keyed_tables"};
    }
    return nullptr;
  }
  return std::make_shared<BuiltIndex>(build_for_search(constants, text, on_this_thread));
}

void find_keys(const Call& call) { find(call, false); }
void find_strings(const Call& call) { find(call, true); }
void index_keys(const Call& call) { index_keys(call, false); }
void index_strings(const Call& call) { index_keys(call, true); }

}  // namespace onnx_sparse
