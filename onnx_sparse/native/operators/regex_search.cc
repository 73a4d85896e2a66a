#include "operators/regex_search.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "abi/allocations.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

constexpr int64_t kMostInstructions = 1 << 16;
constexpr int64_t kCodes = 5;
constexpr int64_t kConditions = 6;
// A text whose places were looked at more often than this is searched by the ways that lead to matches.
constexpr size_t kMostScans = 4;
constexpr size_t kFewBytes = 4096;
// The words of the rows of a block, and its least places.
constexpr size_t kWordsOfBlock = size_t{1} << 21;
constexpr size_t kLeastPlaces = 256;

void require_columns(std::string_view name, const Tensor& tensor, int64_t columns) {
  if (tensor.dims[1] == columns) return;
  throw InvalidArgument{"dimension 1 of " + std::string(name) + " is " + std::to_string(tensor.dims[1]) +
                        "; expected " + std::to_string(columns)};
}

bool is_word(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || byte == '_' || (byte >= 'a' && byte <= 'z');
}

bool is_boundary(std::string_view text, size_t at) {
  return (at > 0 && is_word(text[at - 1])) != (at < text.size() && is_word(text[at]));
}

}  // namespace

Expression::Expression(const Call& call, size_t index, std::string_view prefix) {
  const auto named = [&](std::string_view name) { return std::string(prefix) + std::string(name); };
  const Tensor& program = call.input(index);
  const Tensor& ranges = call.input(index + 1);
  const Tensor& splits = call.input(index + 2);
  const std::string name = named("program");
  require_columns(named("ranges"), ranges, 2);
  require_columns(name, program, 3);
  require_row_splits(named("class_splits"), splits, ranges.dims[0]);
  const int64_t count = program.dims[0];
  if (count < 1 || count > kMostInstructions) {
    throw InvalidArgument{name + " has " + std::to_string(count) + " instructions; 1 to " +
                          std::to_string(kMostInstructions) + " expected"};
  }
  const int64_t classes = splits.size() - 1;
  const auto* values = program.as<int64_t>();
  const auto require = [&](int64_t position, int64_t low, int64_t high) {
    const int64_t value = values[position];
    if (value < low || value >= high) throw out_of_range(name, program, position, value, std::to_string(low), high);
    return static_cast<uint32_t>(value);
  };
  instructions_.reserve(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) {
    Instruction made{static_cast<Code>(require(3 * k, 0, kCodes)), 0, 0};
    if (made.code == kCharacters) made.x = require(3 * k + 1, 0, classes);
    if (made.code == kFork) {
      made.x = require(3 * k + 1, 0, count);
      made.y = require(3 * k + 2, 0, count);
    }
    if (made.code == kSave) made.x = require(3 * k + 1, 2, static_cast<int64_t>(2 * kMostGroups));
    if (made.code == kAssert) made.x = require(3 * k + 1, 0, kConditions);
    if (k == count - 1 && made.code != kMatch && made.code != kFork) {
      throw InvalidArgument{element_name(name, program, 3 * k) + " = " + std::to_string(values[3 * k]) +
                            " continues at the next instruction, but there is none"};
    }
    instructions_.push_back(made);
  }
  const auto* bounds = ranges.as<int64_t>();
  classes_.reserve(static_cast<size_t>(classes));
  for (int64_t k = 0; k < classes; ++k) {
    const int64_t first = splits.as<int64_t>()[k];
    classes_.emplace_back(bounds + 2 * first, splits.as<int64_t>()[k + 1] - first);
  }
  find_beginnings();
}

void Expression::find_beginnings() {
  std::vector<bool> seen(instructions_.size());
  std::vector<uint32_t> later{0};
  while (!later.empty()) {
    const uint32_t number = later.back();
    later.pop_back();
    if (seen[number]) continue;
    seen[number] = true;
    const Instruction& made = instructions_[number];
    if (made.code == kMatch) may_be_empty_ = true;
    if (made.code == kCharacters) classes_[made.x].mark_leads(leads_);
    if (made.code == kFork) later.insert(later.end(), {made.x, made.y});
    if (made.code == kSave || made.code == kAssert) later.push_back(number + 1);
  }
}

void Viability::start(std::string_view text) {
  const auto& instructions = expression_.instructions_;
  text_ = text;
  if (splits_.empty()) {
    const size_t count = instructions.size();
    words_ = (count + 63) / 64;
    block_ = std::max(kLeastPlaces, kWordsOfBlock / words_);
    std::vector<std::vector<uint32_t>> sources(count);
    ends_.clear();
    sources_.clear();
    for (uint32_t k = 0; k < count; ++k) {
      const Expression::Instruction& made = instructions[k];
      if (made.code == Expression::kMatch || made.code == Expression::kCharacters) {
        ends_.push_back(k);
      } else if (made.code == Expression::kFork) {
        sources[made.x].push_back(k);
        if (made.y != made.x) sources[made.y].push_back(k);
      } else {
        sources[k + 1].push_back(k);
      }
    }
    std::vector<uint32_t> splits{0};
    for (const auto& some : sources) {
      sources_.insert(sources_.end(), some.begin(), some.end());
      splits.push_back(static_cast<uint32_t>(sources_.size()));
    }
    passed_.resize(expression_.classes_.size());
    later_.reserve(count);
    splits_ = std::move(splits);  // last: memory may run out before
  }
  const size_t blocks = text.size() / block_ + 1;
  const size_t rest = kRowsOfCharacter * words_;
  rows_.assign(std::min(text.size() + 1, block_) * words_ + rest, 0);
  after_.assign(blocks * rest, 0);
  for (size_t block = blocks; block-- > 0;) {
    read_block(block);
    if (block > 0) std::copy_n(rows_.begin(), rest, after_.begin() + static_cast<ptrdiff_t>((block - 1) * rest));
  }
}

bool Viability::leads_to_match(size_t at, uint32_t number) {
  if (at < first_ || at >= first_ + block_) read_block(at / block_);
  return (row(at)[number / 64] >> (number % 64) & 1) != 0;
}

void Viability::read_block(size_t block) {
  first_ = block * block_;
  const size_t rest = kRowsOfCharacter * words_;
  const size_t end = std::min(text_.size() + 1, first_ + block_);
  std::copy_n(after_.begin() + static_cast<ptrdiff_t>(block * rest), rest, row(end));
  for (size_t at = end; at-- > first_;) read_row(at);
}

void Viability::read_row(size_t at) {
  Word* here = row(at);
  std::fill_n(here, words_, 0);
  std::fill(passed_.begin(), passed_.end(), int8_t{-1});
  for (const uint32_t number : ends_) {
    const Expression::Instruction& made = expression_.instructions_[number];
    if (made.code == Expression::kCharacters) {
      if (at == text_.size()) continue;
      int8_t& passed = passed_[made.x];
      if (passed < 0) {
        passed = static_cast<int8_t>(expression_.classes_[made.x].match(text_.data() + at, text_.size() - at));
      }
      if (passed == 0) continue;
      const uint32_t next = number + 1;
      if ((row(at + static_cast<size_t>(passed))[next / 64] >> (next % 64) & 1) == 0) continue;
    }
    mark(here, number, at);
  }
}

// Marks an instruction, and those that go on there.
void Viability::mark(Word* here, uint32_t number, size_t at) {
  later_.push_back(number);
  here[number / 64] |= Word{1} << (number % 64);
  while (!later_.empty()) {
    const uint32_t marked = later_.back();
    later_.pop_back();
    for (uint32_t s = splits_[marked]; s < splits_[marked + 1]; ++s) {
      const uint32_t source = sources_[s];
      const Expression::Instruction& made = expression_.instructions_[source];
      const Word bit = Word{1} << (source % 64);
      if ((here[source / 64] & bit) != 0) continue;
      if (made.code == Expression::kAssert && !Expression::holds(made.x, text_, at)) continue;
      here[source / 64] |= bit;
      later_.push_back(source);
    }
  }
}

Search::Search(const Expression& expression, size_t groups)
    : expression_(expression), viability_(expression), positions_(2 * groups) {
  const size_t count = expression.instructions_.size();
  for (Ways* ways : {&here_, &next_}) {
    ways->numbers.resize(count);
    ways->saved.resize(count * positions_);
    ways->seen.resize(count);
  }
  later_.resize(count + 1);
  saved_.resize(positions_);
}

int64_t Search::bytes(const Expression& expression, size_t groups) {
  const size_t each = 2 * (sizeof(uint32_t) + sizeof(uint64_t) + 2 * groups * sizeof(int64_t)) + sizeof(Later);
  return static_cast<int64_t>(each * expression.instructions_.size());
}

bool Expression::holds(uint32_t condition, std::string_view text, size_t at) {
  switch (condition) {
    case Expression::kTextBegin:
      return at == 0;
    case Expression::kTextEnd:
      return at == text.size();
    case Expression::kLineBegin:
      return at == 0 || text[at - 1] == '\n';
    case Expression::kLineEnd:
      return at == text.size() || text[at] == '\n';
    case Expression::kBoundary:
      return is_boundary(text, at);
    default:
      return !is_boundary(text, at);
  }
}

// Adds the ways that go on from an instruction without passing a character.
void Search::add(Ways& ways, uint32_t number, std::string_view text, size_t at) {
  size_t waiting = 0;
  later_[waiting++] = {number, false, 0};
  while (waiting > 0) {
    const Later now = later_[--waiting];
    if (now.restores) {
      saved_[now.number] = now.saved;
      continue;
    }
    for (uint32_t k = now.number; ways.seen[k] != ways.turn;) {
      ways.seen[k] = ways.turn;
      const Expression::Instruction& made = expression_.instructions_[k];
      if (made.code == Expression::kFork) {
        later_[waiting++] = {made.y, false, 0};
        k = made.x;
      } else if (made.code == Expression::kSave) {
        if (made.x < positions_) {
          later_[waiting++] = {made.x, true, saved_[made.x]};
          saved_[made.x] = static_cast<int64_t>(at);
        }
        ++k;
      } else if (made.code == Expression::kAssert) {
        if (!Expression::holds(made.x, text, at)) break;
        ++k;
      } else {
        ways.numbers[ways.count] = k;
        std::copy(saved_.begin(), saved_.end(), ways.saved.begin() + static_cast<ptrdiff_t>(ways.count * positions_));
        ++ways.count;
        break;
      }
    }
  }
}

void Search::add_start(Ways& ways, std::string_view text, size_t at) {
  std::fill(saved_.begin(), saved_.end(), -1);
  saved_[0] = static_cast<int64_t>(at);
  add(ways, 0, text, at);
}

void Search::keep(const Ways& ways, size_t way, size_t at) {
  std::copy_n(ways.saved.begin() + static_cast<ptrdiff_t>(way * positions_), positions_, found_.begin());
  found_[1] = static_cast<int64_t>(at);
}

// Keeps the empty match at a place, if there is one.
bool Search::keep_empty(std::string_view text, size_t at) {
  here_.clear();
  add_start(here_, text, at);
  for (size_t way = 0; way < here_.count; ++way) {
    if (expression_.instructions_[here_.numbers[way]].code != Expression::kMatch) continue;
    keep(here_, way, at);
    return true;
  }
  return false;
}

bool Search::find(std::string_view text, size_t begin, bool whole) {
  if (whole) return search(text, begin, true);
  if (!is_viable_ && scanned_ > kMostScans * text_.size() + kFewBytes) {
    try {
      [[maybe_unused]] const CaughtAllocation here{};
      viability_.start(text_);
      is_viable_ = true;
    } catch (const std::bad_alloc&) {
      scanned_ = 0;  // a slow search is better than none
    }
  }
  return is_viable_ ? search_viable(text, begin) : search(text, begin, false);
}

// Finds the first match by the ways that lead to one.
bool Search::search_viable(std::string_view text, size_t begin) {
  const size_t before = text_.size() - text.size();
  for (size_t start = begin; start <= text.size(); ++start) {
    if (start > begin && !viability_.leads_to_match(before + start, 0)) continue;
    std::fill(saved_.begin(), saved_.end(), -1);
    saved_[0] = static_cast<int64_t>(start);
    size_t at = start;
    uint32_t number = 0;
    while (const Expression::Instruction* made = next_viable(number, text, at)) {
      if (made->code != Expression::kMatch) continue;
      std::copy(saved_.begin(), saved_.end(), found_.begin());
      found_[1] = static_cast<int64_t>(at);
      return true;
    }
  }
  return false;
}

// Goes on from an instruction by the preferred way that leads to a match, and passes a character. Returns the
// instruction that matched or passed it; null where no way leads to a match.
const Expression::Instruction* Search::next_viable(uint32_t& number, std::string_view text, size_t& at) {
  const size_t before = text_.size() - text.size();
  here_.clear();
  size_t waiting = 0;
  later_[waiting++] = {number, false, 0};
  while (waiting > 0) {
    const Later now = later_[--waiting];
    if (now.restores) {
      saved_[now.number] = now.saved;
      continue;
    }
    for (uint32_t k = now.number; here_.seen[k] != here_.turn;) {
      here_.seen[k] = here_.turn;
      const Expression::Instruction& made = expression_.instructions_[k];
      if (made.code == Expression::kMatch) return &made;
      if (made.code == Expression::kFork) {
        later_[waiting++] = {made.y, false, 0};
        k = made.x;
      } else if (made.code == Expression::kSave) {
        if (made.x < positions_) {
          later_[waiting++] = {made.x, true, saved_[made.x]};
          saved_[made.x] = static_cast<int64_t>(at);
        }
        ++k;
      } else if (made.code == Expression::kAssert) {
        if (!Expression::holds(made.x, text, at)) break;
        ++k;
      } else {
        if (at == text.size()) break;
        const size_t passed = expression_.classes_[made.x].match(text.data() + at, text.size() - at);
        if (passed == 0 || !viability_.leads_to_match(before + at + passed, k + 1)) break;
        at += passed;
        number = k + 1;
        return &made;
      }
    }
  }
  return nullptr;
}

bool Search::search(std::string_view text, size_t begin, bool whole) {
  const auto& leads = expression_.leads_;
  const bool may_be_empty = expression_.may_be_empty_;
  bool found = false;
  here_.clear();
  for (size_t at = begin;;) {
    if (!found && (at == begin || !whole)) {
      while (here_.count == 0 && !may_be_empty && !whole && at < text.size() &&
             !leads[static_cast<unsigned char>(text[at])]) {
        ++at;
      }
      if (may_be_empty || (at < text.size() && leads[static_cast<unsigned char>(text[at])])) add_start(here_, text, at);
    }
    next_.clear();
    size_t length = 0;
    for (size_t way = 0; way < here_.count; ++way) {
      const uint32_t number = here_.numbers[way];
      const Expression::Instruction& made = expression_.instructions_[number];
      if (made.code == Expression::kMatch) {
        if (whole && at != text.size()) continue;
        keep(here_, way, at);
        found = true;
        break;  // the others are tried only where this one fails
      }
      if (at == text.size()) continue;
      const size_t passed = expression_.classes_[made.x].match(text.data() + at, text.size() - at);
      if (passed == 0) continue;
      length = passed;  // the first byte decides it, so that it is the same for all
      std::copy_n(here_.saved.begin() + static_cast<ptrdiff_t>(way * positions_), positions_, saved_.begin());
      add(next_, number + 1, text, at + passed);
    }
    if (next_.count == 0) {
      if (found || whole || at >= text.size()) return found;
      length = 1;
    }
    // Within a character, no other begins. An empty match there counts only where those that began before fail.
    for (size_t inside = at + 1; may_be_empty && !whole && !found && inside < at + length; ++inside) {
      found = keep_empty(text, inside);
    }
    at += length;
    scanned_ += length;
    std::swap(here_, next_);
  }
}

}  // namespace onnx_sparse
