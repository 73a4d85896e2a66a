// RaggedStringSplit, RaggedReduceJoin, ReplaceCharacters, StringNGrams, StringLength, Substr, StringStrip, StringCase.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/character_class.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

char* append(char* to, std::string_view text) {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

std::vector<int64_t> shape_of(const Tensor& tensor) { return {tensor.dims, tensor.dims + tensor.rank}; }

Cause cause_of(const Tensor& input) { return {"input", input}; }

// Calls work(i) for each string.
template <class Work>
void for_each(const Call& call, const Strings& texts, const Work& work) {
  call.for_parts(static_cast<int64_t>(texts.size()), texts.cost(), [&](int64_t first, int64_t end) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) work(i);
  });
}

// Calls visit(word) for the words between whitespace, and for what is behind the whitespace after so many.
template <class Visit>
void for_words(std::string_view text, int64_t max_splits, const Visit& visit) {
  size_t at = 0;
  for (int64_t splits = 0;; ++splits) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (splits == max_splits) return visit(text.substr(at));
    if (at == text.size()) return;
    const size_t first = at;
    while (at < text.size() && !is_space(text[at])) ++at;
    visit(text.substr(first, at - first));
  }
}

// Calls visit(byte) for so many bytes, and for what is behind them.
template <class Visit>
void for_bytes(std::string_view text, int64_t max_splits, const Visit& visit) {
  for (int64_t splits = 0; splits != max_splits && !text.empty(); ++splits) {
    visit(text.substr(0, 1));
    text.remove_prefix(1);
  }
  if (!text.empty()) visit(text);
}

template <class Visit>
void for_pieces(std::string_view text, std::string_view separator, bool bytes, int64_t max_splits, const Visit& visit) {
  if (bytes) return for_bytes(text, max_splits, visit);
  if (max_splits == 0) return visit(text);
  if (separator.empty()) return for_words(text, max_splits, visit);
  for (int64_t splits = 0; splits != max_splits; ++splits) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    visit(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  visit(text);
}

// Calls visit(text, is_match) for the matches and for what is between them.
template <class Visit>
void for_matches(std::string_view text, const CharacterClass& characters, bool runs, const Visit& visit) {
  size_t kept = 0;
  size_t at = 0;
  while (at < text.size()) {
    size_t length = characters.match(text.data() + at, text.size() - at);
    if (length == 0) {
      ++at;
      continue;
    }
    size_t end = at + length;
    while (runs && end < text.size() && length != 0) {
      length = characters.match(text.data() + end, text.size() - end);
      end += length;
    }
    visit(text.substr(kept, at - kept), false);
    visit(text.substr(at, end - at), true);
    kept = at = end;
  }
  visit(text.substr(kept), false);
}

class NGrams {
 public:
  explicit NGrams(const Call& call)
      : call_(call),
        data_(call, call.input(0)),
        splits_(call.input(1).as<int64_t>()),
        rows_(call.input(1).size() - 1),
        widths_(call.input(2)),
        strings_{Strings(call, call.input(3)), Strings(call, call.input(4)), Strings(call, call.input(5))},
        most_pads_(call.input(6).integer()),
        preserve_(call.input(7).as<uint8_t>()[0] != 0) {}

  void make() {
    auto* splits = static_cast<int64_t*>(call_.allocate(1, {rows_ + 1}, sizeof(int64_t), std::string("data_splits")));
    splits[0] = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t count = data_.size() == 0 ? 0 : count_in(row);
      if (__builtin_add_overflow(splits[row], count, &splits[row + 1])) too_many();
    }
    const int64_t total = splits[rows_];
    StringWriter ngrams(call_, call_.allocate_value(0, {total}, size_of(ORT_STRING), std::string("ngram_widths")));
    const int64_t bytes = data_.cost() + total * static_cast<int64_t>(kStringBytes);
    call_.for_parts(rows_, bytes, [&](int64_t first, int64_t end) {
      for (int64_t row = first; row < end; ++row) {
        if (splits[row] < splits[row + 1]) write(row, static_cast<size_t>(splits[row]), ngrams);
      }
    });
    ngrams.finish();
  }

 private:
  std::string_view separator() const { return strings_[0][0]; }
  std::string_view left_pad() const { return strings_[1][0]; }
  std::string_view right_pad() const { return strings_[2][0]; }
  int64_t length_of(int64_t row) const { return splits_[row + 1] - splits_[row]; }
  int64_t pads(int64_t width) const { return most_pads_ < 0 ? width - 1 : std::min(most_pads_, width - 1); }

  // How many n-grams of one width a row has; at most int64's largest number.
  int64_t count(int64_t length, int64_t width) const {
    const int64_t fit = length + (pads(width) - (width - 1));
    int64_t count = 0;
    if (__builtin_add_overflow(fit, pads(width), &count)) too_many();
    return std::max(count, int64_t{0});
  }

  int64_t count_in(int64_t row) const {
    const int64_t length = length_of(row);
    int64_t all = 0;
    for (int64_t k = 0; k < widths_.size(); ++k) {
      const int64_t width = widths_.integer(static_cast<size_t>(k));
      const int64_t made = count(length, width);
      if (made != 0) require_finite(width);
      if (__builtin_add_overflow(all, made, &all)) too_many();
    }
    if (all != 0 || length == 0 || !preserve_) return all;
    require_finite(std::max(most_pads_, int64_t{0}));
    return 1;
  }

  // An n-gram of so many pads and separators has a size.
  void require_finite(int64_t width) const {
    const size_t longest = separator().size() + std::max(left_pad().size(), right_pad().size());
    size_t bytes = 0;
    if (__builtin_mul_overflow(2 * static_cast<size_t>(width), longest, &bytes) ||
        bytes > kNone / 2 - data_.length() - data_.size() * separator().size()) {
      throw InvalidArgument{Cause("an n-gram with a width or pads", width).text() + " cannot be allocated"};
    }
  }

  [[noreturn]] static void too_many() {
    throw InvalidArgument{"ngram_widths: an output of more than 2^63 - 1 n-grams cannot be allocated"};
  }

  void write(int64_t row, size_t position, StringWriter& ngrams) const {
    const int64_t length = length_of(row);
    bool any = false;
    for (int64_t k = 0; k < widths_.size(); ++k) {
      const int64_t width = widths_.integer(static_cast<size_t>(k));
      const int64_t made = count(length, width);
      const int64_t padded = pads(width);
      for (int64_t first = -padded; first < made - padded; ++first) {
        write_one(row, first, first + width, ngrams, position++);
        any = true;
      }
    }
    const int64_t padded = std::max(most_pads_, int64_t{0});
    if (!any) write_one(row, -padded, length + padded, ngrams, position);
  }

  // Joins the strings of a row from one position to another; pads are before the first and behind the last.
  void write_one(int64_t row, int64_t first, int64_t end, StringWriter& ngrams, size_t position) const {
    const int64_t length = length_of(row);
    const auto left = static_cast<size_t>(std::max(-first, int64_t{0}));
    const auto right = static_cast<size_t>(std::max(end - length, int64_t{0}));
    const auto from = static_cast<size_t>(splits_[row] + std::max(first, int64_t{0}));
    const auto to = std::max(static_cast<size_t>(splits_[row] + std::min(end, length)), from);
    const size_t joined = left + right + (to - from);
    size_t size = left * left_pad().size() + right * right_pad().size() + (joined - 1) * separator().size();
    for (size_t k = from; k < to; ++k) size += data_[k].size();
    char* at = ngrams.resize(position, size);
    if (at == nullptr) return;
    const char* finish = at + size;
    const auto put = [&](std::string_view text) {
      at = append(at, text);
      if (at != finish) at = append(at, separator());
    };
    const auto pad = [&](std::string_view text, size_t count) {
      if (text.empty() && separator().empty()) return;  // however many
      for (size_t k = 0; k < count; ++k) put(text);
    };
    pad(left_pad(), left);
    for (size_t k = from; k < to; ++k) put(data_[k]);
    pad(right_pad(), right);
  }

  const Call& call_;
  const Strings data_;
  const int64_t* splits_;
  int64_t rows_;
  const Tensor& widths_;
  const Strings strings_[3];
  int64_t most_pads_;
  bool preserve_;
};

// Where characters are `count` after a position; kNone where the text ends before.
size_t forward(std::string_view text, size_t at, uint64_t count) {
  for (; count > 0 && at < text.size(); --count) {
    do ++at;
    while (at < text.size() && is_continuation(text[at]));
  }
  return count == 0 ? at : kNone;
}

// The same from the end on to the front.
size_t backward(std::string_view text, uint64_t count) {
  size_t at = text.size();
  for (; count > 0 && at > 0; --count) {
    do --at;
    while (at > 0 && is_continuation(text[at]));
  }
  return count == 0 ? at : kNone;
}

size_t step_bytes(std::string_view text, size_t at, uint64_t count) {
  return count <= text.size() - at ? at + count : kNone;
}

// Where a part begins, by a position that may count from the end; kNone where it is outside.
size_t position_in(std::string_view text, int64_t position, bool bytes) {
  if (position >= 0) {
    const auto count = static_cast<uint64_t>(position);
    return bytes ? step_bytes(text, 0, count) : forward(text, 0, count);
  }
  const uint64_t count = 0 - static_cast<uint64_t>(position);
  if (!bytes) return backward(text, count);
  return count <= text.size() ? text.size() - count : kNone;
}

}  // namespace

void ragged_string_split(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  const Strings separators(call, call.input(1));
  const std::string_view separator = separators[0];
  const int64_t max_splits = call.input(2).integer();
  const bool bytes = separator.empty() && call.choice(0) == 1;
  const auto rows = static_cast<int64_t>(texts.size());
  const Cause cause = cause_of(input);
  auto* splits = static_cast<int64_t*>(call.allocate(1, {rows + 1}, sizeof(int64_t), cause));
  for_each(call, texts, [&](size_t i) {
    int64_t pieces = 0;
    for_pieces(texts[i], separator, bytes, max_splits, [&](std::string_view) { ++pieces; });
    splits[i + 1] = pieces;
  });
  splits[0] = 0;
  for (int64_t i = 0; i < rows; ++i) splits[i + 1] += splits[i];
  StringWriter values(call, call.allocate_value(0, {splits[rows]}, size_of(ORT_STRING), cause));
  for_each(call, texts, [&](size_t i) {
    auto position = static_cast<size_t>(splits[i]);
    for_pieces(texts[i], separator, bytes, max_splits, [&](std::string_view piece) { values.put(position++, piece); });
  });
  values.finish();
}

void ragged_reduce_join(const Call& call) {
  const Tensor& row_splits = call.input(1);
  const Strings texts(call, call.input(0));
  const Strings separators(call, call.input(2));
  const std::string_view separator = separators[0];
  require_row_splits("row_splits", row_splits, static_cast<int64_t>(texts.size()));
  const int64_t rows = row_splits.size() - 1;
  const auto* splits = row_splits.as<int64_t>();
  StringWriter output(call, call.allocate_value(0, {rows}, size_of(ORT_STRING), cause_of(row_splits)));
  call.for_parts(rows, texts.cost() + rows * static_cast<int64_t>(kStringBytes),
                 [&](int64_t first_row, int64_t end_row) {
                   for (int64_t row = first_row; row < end_row; ++row) {
                     const auto first = static_cast<size_t>(splits[row]);
                     const auto end = static_cast<size_t>(splits[row + 1]);
                     size_t size = end > first ? (end - first - 1) * separator.size() : 0;
                     for (size_t k = first; k < end; ++k) size += texts[k].size();
                     char* at = output.resize(static_cast<size_t>(row), size);
                     if (at == nullptr) continue;
                     for (size_t k = first; k < end; ++k) {
                       if (k > first) at = append(at, separator);
                       at = append(at, texts[k]);
                     }
                   }
                 });
  output.finish();
}

void replace_characters(const Call& call) {
  const Tensor& input = call.input(0);
  const Tensor& ranges = call.input(1);
  if (ranges.dims[1] != 2) {
    throw InvalidArgument{"dimension 1 of ranges is " + std::to_string(ranges.dims[1]) + "; expected 2"};
  }
  const Strings texts(call, input);
  const Strings rewrite(call, call.input(2));
  const CharacterClass characters(ranges.as<int64_t>(), ranges.dims[0]);
  const bool runs = call.choice(0) == 1;
  const size_t copies = rewrite.size() == 0 ? 0 : rewrite.size() - 1;
  StringWriter output(call, call.allocate_value(0, shape_of(input), size_of(ORT_STRING), cause_of(input)));
  for_each(call, texts, [&](size_t i) {
    size_t size = 0;
    for_matches(texts[i], characters, runs, [&](std::string_view text, bool is_match) {
      size += is_match ? rewrite.length() + copies * text.size() : text.size();
    });
    char* at = output.resize(i, size);
    if (at == nullptr) return;
    for_matches(texts[i], characters, runs, [&](std::string_view text, bool is_match) {
      if (!is_match) at = append(at, text);
      for (size_t k = 0; is_match && k < rewrite.size(); ++k) {
        if (k > 0) at = append(at, text);
        at = append(at, rewrite[k]);
      }
    });
  });
  output.finish();
}

void string_n_grams(const Call& call) {
  require_row_splits("data_splits", call.input(1), call.input(0).size());
  NGrams(call).make();
}

void string_length(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  auto* output = static_cast<int32_t*>(call.allocate(0, shape_of(input), sizeof(int32_t), cause_of(input)));
  const bool bytes = call.choice(0) == 0;
  for_each(call, texts, [&](size_t i) {
    const std::string_view text = texts[i];
    const auto continuations = bytes ? 0 : std::count_if(text.begin(), text.end(), is_continuation);
    output[i] = static_cast<int32_t>(static_cast<int64_t>(text.size()) - continuations);
  });
}

void substr(const Call& call) {
  const Tensor& input = call.input(0);
  const Tensor& positions = call.input(1);
  const auto* lengths = call.input(2).as<int64_t>();
  const Strings texts(call, input);
  const bool bytes = call.choice(0) == 0;
  StringWriter output(call, call.allocate_value(0, shape_of(input), size_of(ORT_STRING), cause_of(input)));
  std::atomic<bool> all_inside{true};
  for_each(call, texts, [&](size_t i) {
    const std::string_view text = texts[i];
    const size_t first = position_in(text, positions.integer(i), bytes);
    if (first == kNone) return all_inside.store(false, std::memory_order_relaxed);
    // As an unsigned number, a negative one is more than there are bytes.
    const auto count = static_cast<uint64_t>(bytes ? lengths[i] : std::max(lengths[i], int64_t{0}));
    const size_t end = bytes ? step_bytes(text, first, count) : forward(text, first, count);
    output.put(i, text.substr(first, end == kNone ? end : end - first));
  });
  for (size_t i = 0; !all_inside.load() && i < texts.size(); ++i) {
    const int64_t position = positions.integer(i);
    if (position_in(texts[i], position, bytes) != kNone) continue;
    auto size = static_cast<int64_t>(texts[i].size());
    for (size_t k = 1; !bytes && k < texts[i].size(); ++k) size -= is_continuation(texts[i][k]) ? 1 : 0;
    throw out_of_range("pos", positions, static_cast<int64_t>(i), position, std::to_string(-size), size + 1);
  }
  output.finish();
}

void string_strip(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  StringWriter output(call, call.allocate_value(0, shape_of(input), size_of(ORT_STRING), cause_of(input)));
  for_each(call, texts, [&](size_t i) {
    std::string_view text = texts[i];
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    output.put(i, text);
  });
  output.finish();
}

void string_case(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  const char first = call.choice(0) == 0 ? 'A' : 'a';  // of the letters that are changed
  StringWriter output(call, call.allocate_value(0, shape_of(input), size_of(ORT_STRING), cause_of(input)));
  for_each(call, texts, [&](size_t i) {
    const std::string_view text = texts[i];
    char* changed = output.resize(i, text.size());
    if (changed == nullptr) return;
    std::transform(text.begin(), text.end(), changed, [first](char byte) {
      return static_cast<char>(byte >= first && byte < first + 26 ? byte ^ 0x20 : byte);
    });
  });
  output.finish();
}

}  // namespace onnx_sparse
