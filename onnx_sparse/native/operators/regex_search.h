// Regular expressions as programs, and the search for them in time that grows with program and text, not beyond.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "abi/call.h"
#include "operators/character_class.h"

namespace onnx_sparse {

// The groups of an expression that may be kept, with the match itself.
constexpr size_t kMostGroups = 10;

// A program that is legal.
class Expression {
 public:
  // Throws an InvalidArgument unless the three inputs from an index on, whose names have a prefix, are legal.
  Expression(const Call& call, size_t index, std::string_view prefix);

 private:
  friend class Search;
  friend class Viability;

  enum Code : uint8_t { kMatch, kCharacters, kFork, kSave, kAssert };
  enum Condition : uint32_t { kTextBegin, kTextEnd, kLineBegin, kLineEnd, kBoundary, kNoBoundary };
  struct Instruction {
    Code code;
    uint32_t x;
    uint32_t y;
  };

  void find_beginnings();
  static bool holds(uint32_t condition, std::string_view text, size_t at);

  std::vector<Instruction> instructions_;
  std::vector<CharacterClass> classes_;
  std::array<bool, 256> leads_{};  // the bytes with which a match may begin that is not empty
  bool may_be_empty_ = false;
};

// Which instructions lead to a match from which places of a text. It is computed from the end of the text, in blocks,
// so that all matches of a text are found in time that grows with the text: no way is tried in vain.
class Viability {
 public:
  explicit Viability(const Expression& expression) : expression_(expression) {}

  void start(std::string_view text);
  bool leads_to_match(size_t at, uint32_t number);

 private:
  using Word = uint64_t;
  static constexpr size_t kRowsOfCharacter = 4;  // that a row depends on

  Word* row(size_t at) { return rows_.data() + (at - first_) * words_; }
  void read_block(size_t block);
  void read_row(size_t at);
  void mark(Word* row, uint32_t number, size_t at);

  const Expression& expression_;
  std::string_view text_;
  size_t words_ = 0;
  size_t block_ = 0;                        // places in a block
  size_t first_ = 0;                        // the place of the first row
  std::vector<Word> rows_;                  // of a block, and of the places after it
  std::vector<Word> after_;                 // by block: the rows after it
  std::vector<uint32_t> ends_;              // instructions that match or pass a character
  std::vector<uint32_t> sources_, splits_;  // by instruction: those that go on there without passing one
  std::vector<uint32_t> later_;
  std::vector<int8_t> passed_;  // by class: the bytes that it passes at a place, -1 if not known
};

// The search for an expression, with the memory that it needs.
class Search {
 public:
  // Groups below a number are kept.
  Search(const Expression& expression, size_t groups);

  // How many bytes a search for an expression holds.
  static int64_t bytes(const Expression& expression, size_t groups);

  // Begins with a text, of which the texts that are searched are ends.
  void start(std::string_view text) {
    text_ = text;
    scanned_ = 0;
    is_viable_ = false;
  }

  // Finds the first match from a position on, or one of the whole text.
  bool find(std::string_view text, size_t begin, bool whole = false);

  size_t begin() const { return static_cast<size_t>(found_[0]); }
  size_t end() const { return static_cast<size_t>(found_[1]); }

  // The text of a group in the last match; empty where it is not part of it.
  std::string_view group(std::string_view text, size_t number) const {
    const int64_t first = found_[2 * number];
    const int64_t last = found_[2 * number + 1];
    return first < 0 || last < first ? std::string_view()
                                     : text.substr(static_cast<size_t>(first), static_cast<size_t>(last - first));
  }

 private:
  // Ways to go on from one place, in the order of preference: the number of an instruction, and what was saved.
  struct Ways {
    std::vector<uint32_t> numbers;
    std::vector<int64_t> saved;
    std::vector<uint64_t> seen;  // by instruction: the last place that was, as its turn
    uint64_t turn = 0;
    size_t count = 0;

    void clear() {
      count = 0;
      ++turn;
    }
  };
  struct Later {
    uint32_t number;  // of an instruction, or of the position that gets back what was saved
    bool restores;
    int64_t saved;
  };

  bool search(std::string_view text, size_t begin, bool whole);
  bool search_viable(std::string_view text, size_t begin);
  const Expression::Instruction* next_viable(uint32_t& number, std::string_view text, size_t& at);
  void add(Ways& ways, uint32_t number, std::string_view text, size_t at);
  void add_start(Ways& ways, std::string_view text, size_t at);
  void keep(const Ways& ways, size_t way, size_t at);
  bool keep_empty(std::string_view text, size_t at);
  const Expression& expression_;
  Viability viability_;
  std::string_view text_;
  size_t scanned_ = 0;  // places that were looked at in the text, some again and again
  bool is_viable_ = false;
  size_t positions_;
  Ways here_;
  Ways next_;
  std::vector<Later> later_;
  std::vector<int64_t> saved_;
  std::array<int64_t, 2 * kMostGroups> found_{};
};

}  // namespace onnx_sparse
