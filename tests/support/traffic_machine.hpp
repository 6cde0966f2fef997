// A machine that counts: a slow memory behind a cache of least recently used rows, and a fast
// memory for tiles.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

namespace tessera::test {

using Int = std::int64_t;

struct Matrix {
  Int rows, columns, element_bytes;
  std::vector<double> x;

  Matrix(Int r, Int c, Int bytes) : rows(r), columns(c), element_bytes(bytes), x(size_t(r * c)) {}
  double& operator()(Int r, Int c) { return x[size_t(r * columns + c)]; }
  double operator()(Int r, Int c) const { return x[size_t(r * columns + c)]; }
};

// Counts what crosses between slow memory and a write-back cache of whole rows.
class Memory {
 public:
  explicit Memory(Int capacity) : capacity_(capacity) {}

  void read(const Matrix& m, Int row) {
    if (!touch(m, row, m.columns * m.element_bytes)) bytes_ += m.columns * m.element_bytes;
    shrink(capacity_);
  }
  void write(const Matrix& m, Int row) { write(m, row, m.element_bytes); }
  void write(const Matrix& m, Int row, Int element_bytes) {
    touch(m, row, m.columns * element_bytes);
    lines_.front().dirty = true;
    shrink(capacity_);
  }
  void flush() { shrink(-1); }
  Int bytes() {
    flush();
    return bytes_;
  }
  Int flops = 0;

 private:
  using Key = std::pair<const Matrix*, Int>;
  struct Line {
    Key key;
    Int size;
    bool dirty;
  };

  // Makes the row the most recent line; true if it was there.
  bool touch(const Matrix& m, Int row, Int size) {
    const Key key{&m, row};
    const auto found = where_.find(key);
    const bool hit = found != where_.end();
    const bool dirty = hit && found->second->dirty;
    if (hit) {
      held_ -= found->second->size;
      lines_.erase(found->second);
    }
    lines_.push_front({key, size, dirty});
    where_[key] = lines_.begin();
    held_ += size;
    return hit;
  }
  void shrink(Int capacity) {
    while (!lines_.empty() && held_ > capacity) {
      const Line& last = lines_.back();
      if (last.dirty) bytes_ += last.size;
      held_ -= last.size;
      where_.erase(last.key);
      lines_.pop_back();
    }
  }

  Int capacity_, held_ = 0, bytes_ = 0;
  std::list<Line> lines_;
  std::map<Key, std::list<Line>::iterator> where_;
};

struct Fast {
  Int live = 0, most = 0;
};

// A tile in fast memory, filled from rows [begin, begin + rows) of a matrix where one is given.
class Tile {
 public:
  Tile(Fast& fast, Int rows, Int columns, Int element_bytes)
      : m(rows, columns, element_bytes), fast_(fast) {
    fast.live += rows * columns * element_bytes;
    fast.most = std::max(fast.most, fast.live);
  }
  ~Tile() { fast_.live -= m.rows * m.columns * m.element_bytes; }
  Tile(const Tile&) = delete;
  Tile& operator=(const Tile&) = delete;

  void load(Memory& memory, const Matrix& from, Int begin) {
    for (Int r = 0; r < m.rows; ++r) {
      memory.read(from, begin + r);
      for (Int c = 0; c < m.columns; ++c) m(r, c) = from(begin + r, c);
    }
  }
  void store(Memory& memory, Matrix& to, Int begin, Int element_bytes) const {
    for (Int r = 0; r < m.rows; ++r) {
      for (Int c = 0; c < m.columns; ++c) to(begin + r, c) = m(r, c);
      memory.write(to, begin + r, element_bytes);
    }
  }
  double& operator()(Int r, Int c) { return m(r, c); }

  Matrix m;

 private:
  Fast& fast_;
};

}  // namespace tessera::test
