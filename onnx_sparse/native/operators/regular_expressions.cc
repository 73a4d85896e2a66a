// RegexReplace, RegexSplit.

#include <algorithm>
#include <cstring>
#include <vector>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/first_refused.h"
#include "operators/regex_search.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

// A search costs as much as moving so many times the bytes of the text.
constexpr int64_t kCost = 16;

// The consecutive parts of strings that are tasks of their own; all searches together hold not much more than strings.
Parts parts_of(const Strings& texts, int64_t bytes_of_search) {
  const int64_t most = std::max(texts.cost() / std::max(bytes_of_search, int64_t{1}), int64_t{1});
  return {static_cast<int64_t>(texts.size()), kCost * texts.cost(), most};
}

// Calls work(i, part) for each string.
template <class Work>
void for_each(const Call& call, const Parts& parts, const Work& work) {
  call.parallel_for(parts.count(), [&](size_t part) {
    const auto end = static_cast<size_t>(parts.begin_of(part + 1));
    for (auto i = static_cast<size_t>(parts.begin_of(part)); i < end; ++i) work(i, part);
  });
}

// All characters of UTF-8: two ranges, because one would also match bytes that are not UTF-8.
constexpr int64_t kAllCharacters[] = {0, 0xFFFF, 0x10000, 0x10FFFF};

// What replaces a match.
class Rewrite {
 public:
  Rewrite(const Call& call, const Tensor& texts, const Tensor& groups) : texts_(call, texts), groups_(groups) {
    require_in_range("groups", groups, groups.size(), static_cast<int64_t>(kMostGroups));
    if (texts.size() != groups.size() + 1) {
      throw InvalidArgument{"rewrite has " + std::to_string(texts.size()) + " elements; " +
                            std::to_string(groups.size() + 1) + ", one more than groups, expected"};
    }
    for (int64_t k = 0; k < groups.size(); ++k) kept_ = std::max(kept_, group(static_cast<size_t>(k)) + 1);
  }

  // The groups below this number are kept.
  size_t kept() const { return kept_; }

  // How many bytes of a text that is not empty are kept together: its first character, or one.
  size_t size_of_first(std::string_view text) const {
    return std::max(characters_.match(text.data(), text.size()), size_t{1});
  }

  template <class Visit>
  void for_pieces(const Search& search, std::string_view text, const Visit& visit) const {
    visit(texts_[0]);
    for (size_t k = 0; k + 1 < texts_.size(); ++k) {
      visit(search.group(text, group(k)));
      visit(texts_[k + 1]);
    }
  }

 private:
  size_t group(size_t k) const { return static_cast<size_t>(groups_.integer(k)); }

  const Strings texts_;
  const Tensor& groups_;
  const CharacterClass characters_{kAllCharacters, 2};
  size_t kept_ = 1;
};

// Calls visit(text) for the pieces of a text with its matches replaced, as RE2 does; whether there are any.
template <class Visit>
bool for_replaced(std::string_view text, Search& search, const Rewrite& rewrite, bool once, const Visit& visit) {
  constexpr auto kNone = std::string_view::npos;
  size_t at = 0;
  size_t last_end = kNone;
  search.start(text);
  while (at <= text.size() && search.find(text, at)) {
    const size_t begin = search.begin();
    const size_t end = search.end();
    visit(text.substr(at, begin - at));
    if (begin == end && begin == last_end) {
      if (at == text.size()) return true;
      const size_t size = rewrite.size_of_first(text.substr(at));
      visit(text.substr(at, size));
      at += size;
      continue;
    }
    rewrite.for_pieces(search, text, visit);
    at = last_end = end;
    if (once) break;
  }
  if (at < text.size()) visit(text.substr(at));
  return last_end != kNone;
}

// Calls visit(start, end) for the tokens of a text; false where a delimiter is empty, whose position `at` then has.
template <class Visit>
bool for_tokens(std::string_view text, Search& delimiters, Search& kept, size_t& at, const Visit& visit) {
  delimiters.start(text);
  for (at = 0; delimiters.find(text.substr(at), 0); at += delimiters.end()) {
    const size_t begin = at + delimiters.begin();
    const size_t end = at + delimiters.end();
    if (begin == end) {
      at = begin;
      return false;
    }
    if (at < begin) visit(at, begin);
    if (kept.find(text.substr(begin, end - begin), 0, true)) visit(begin, end);
  }
  if (at < text.size()) visit(at, text.size());
  return true;
}

}  // namespace

void regex_replace(const Call& call) {
  const Tensor& input = call.input(0);
  const Expression expression(call, 1, "");
  const Rewrite rewrite(call, call.input(4), call.input(5));
  const bool once = call.choice(0) == 1;
  const Strings texts(call, input);
  const Parts parts = parts_of(texts, Search::bytes(expression, rewrite.kept()));
  std::vector<Search> searches(parts.count(), Search(expression, rewrite.kept()));
  StringWriter output(call, call.allocate_value(0, std::vector<int64_t>(input.dims, input.dims + input.rank),
                                                size_of(ORT_STRING), Cause("input", input)));
  for_each(call, parts, [&](size_t i, size_t part) {
    Search& search = searches[part];
    const std::string_view text = texts[i];
    size_t size = 0;
    if (!for_replaced(text, search, rewrite, once, [&](std::string_view piece) { size += piece.size(); })) {
      return output.put(i, text);
    }
    char* at = output.resize(i, size);
    if (at == nullptr) return;
    for_replaced(text, search, rewrite, once, [&](std::string_view piece) {
      if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
    });
  });
  output.finish();
}

void regex_split(const Call& call) {
  const Tensor& input = call.input(0);
  const Expression expression(call, 1, "");
  const Expression kept(call, 4, "kept_");
  const Strings texts(call, input);
  const Parts parts = parts_of(texts, Search::bytes(expression, 1) + Search::bytes(kept, 1));
  std::vector<Search> searches(parts.count(), Search(expression, 1));
  std::vector<Search> kept_searches(parts.count(), Search(kept, 1));
  const auto rows = static_cast<int64_t>(texts.size());
  const Cause cause("input", input);
  auto* splits = static_cast<int64_t*>(call.allocate(1, {rows + 1}, sizeof(int64_t), cause));
  FirstRefused refused;
  for_each(call, parts, [&](size_t i, size_t part) {
    int64_t count = 0;
    size_t at = 0;
    if (!for_tokens(texts[i], searches[part], kept_searches[part], at, [&](size_t, size_t) { ++count; }))
      refused.add(i);
    splits[i + 1] = count;
  });
  if (refused.any()) {
    const size_t i = refused.message();
    size_t at = 0;
    for_tokens(texts[i], searches[0], kept_searches[0], at, [](size_t, size_t) {});
    throw InvalidArgument{element_name("input", input, static_cast<int64_t>(i)) + ": the empty text at byte " +
                          std::to_string(at) + " is a delimiter; expected ones that are not empty"};
  }
  splits[0] = 0;
  for (int64_t i = 0; i < rows; ++i) splits[i + 1] += splits[i];
  const int64_t count = splits[rows];
  StringWriter tokens(call, call.allocate_value(0, {count}, size_of(ORT_STRING), cause));
  auto* starts = static_cast<int64_t*>(call.allocate(2, {count}, sizeof(int64_t), cause));
  auto* ends = static_cast<int64_t*>(call.allocate(3, {count}, sizeof(int64_t), cause));
  for_each(call, parts, [&](size_t i, size_t part) {
    int64_t position = splits[i];
    size_t at = 0;
    for_tokens(texts[i], searches[part], kept_searches[part], at, [&](size_t start, size_t end) {
      tokens.put(static_cast<size_t>(position), texts[i].substr(start, end - start));
      starts[position] = static_cast<int64_t>(start);
      ends[position++] = static_cast<int64_t>(end);
    });
  });
  tokens.finish();
}

}  // namespace onnx_sparse
