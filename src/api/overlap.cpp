#include "api/overlap.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>

namespace tessera::api {
namespace {

using core::Tensor;

// stride * u for a u of our choice in [0, most].
struct Term {
  std::int64_t stride, most;
  std::int64_t reach() const { return stride * most; }
};

// Which numbers are a sum of terms? A bounded Diophantine equation, as in NumPy's
// may_share_memory; with strides of real tensors each step of the search leaves one or two choices.
class Sum {
 public:
  void add(std::int64_t stride, std::int64_t most) {
    if (stride == 0 || most == 0) return;
    for (std::size_t i = 0; i < count_; ++i)
      if (terms_[i].stride == stride) {  // the same multiples, only more of them
        terms_[i].most += most;
        return;
      }
    terms_[count_++] = {stride, most};
  }

  bool can_be(std::int64_t target) {
    std::sort(terms_.data(), terms_.data() + count_,
              [](const Term& a, const Term& b) { return a.stride > b.stride; });
    reach_[count_] = divisor_[count_] = 0;
    for (std::size_t i = count_; i-- > 0;) {
      reach_[i] = reach_[i + 1] + terms_[i].reach();
      divisor_[i] = std::gcd(divisor_[i + 1], terms_[i].stride);
    }
    return search(0, target);
  }

 private:
  static constexpr std::size_t kMostTerms = 10;  // 4 dimensions and the bytes of an element, twice

  // Whether the terms from `first` on can add up to the target.
  bool search(std::size_t first, std::int64_t target) {
    if (target < 0 || target > reach_[first]) return false;
    if (target == 0) return true;
    if (target % divisor_[first] != 0) return false;
    const Term term = terms_[first];
    const std::int64_t rest = target - reach_[first + 1];
    const std::int64_t least = rest <= 0 ? 0 : (rest + term.stride - 1) / term.stride;
    for (std::int64_t u = std::min(term.most, target / term.stride); u >= least; --u) {
      if (--patience_ < 0) return true;
      if (search(first + 1, target - u * term.stride)) return true;
    }
    return false;
  }

  std::array<Term, kMostTerms> terms_;
  std::array<std::int64_t, kMostTerms + 1> reach_, divisor_;
  std::size_t count_ = 0;
  std::int64_t patience_ = 50'000;  // steps, about a millisecond
};

// The dimensions with more than one element, the smallest stride first. |stride| suffices: from
// its lowest element on, a tensor with negative strides lies as one with positive strides.
struct Layout {
  std::array<Term, 4> terms;
  std::size_t count = 0;

  explicit Layout(const Tensor& t) {
    for (std::size_t d = 0; d < 4; ++d) {
      const Term term{std::abs(t.stride[d]), t.shape[d] - 1};
      if (term.most <= 0) continue;
      std::size_t at = count++;
      for (; at > 0 && terms[at - 1].stride > term.stride; --at) terms[at] = terms[at - 1];
      terms[at] = term;
    }
  }
};

void add_bytes(const Tensor& t, Sum& sum) {
  const std::int64_t size = size_of(t.dtype);
  for (std::size_t d = 0; d < 4; ++d) sum.add(std::abs(t.stride[d]) * size, t.shape[d] - 1);
  sum.add(1, size - 1);
}

}  // namespace

Interval interval_of(const Tensor& t) {
  std::int64_t below = 0, above = size_of(t.dtype) - 1;
  for (std::size_t d = 0; d < 4; ++d) {
    const std::int64_t reach = (t.shape[d] - 1) * t.stride[d] * size_of(t.dtype);
    (reach < 0 ? below : above) += reach;
  }
  const auto data = reinterpret_cast<std::uintptr_t>(t.data);
  return {data + std::uintptr_t(below), data + std::uintptr_t(above)};
}

// Elements x and y with x_k > y_k, k the last dimension in which they differ, coincide iff
// (x_k - y_k) s_k = sum over d < k of e_d s_d with |e_d| <= most_d. With u = e + most and
// t = most_k - (x_k - y_k), every unknown starts at 0: sum u_d s_d + t s_k = sum of all most s.
bool overlaps_itself(const Tensor& t) {
  if (t.empty()) return false;
  const Layout layout(t);
  std::int64_t reach = 0;  // of the dimensions before k
  for (std::size_t k = 0; k < layout.count; ++k) {
    const Term term = layout.terms[k];
    const bool nested = term.stride > reach;  // each step leads past all that lies before
    if (!nested) {
      if (term.stride == 0) return true;
      Sum sum;
      for (std::size_t d = 0; d < k; ++d) sum.add(layout.terms[d].stride, 2 * layout.terms[d].most);
      sum.add(term.stride, term.most - 1);
      if (sum.can_be(reach + term.reach())) return true;
    }
    reach += term.reach();
  }
  return false;
}

// Byte x of a is byte y of b iff a.lowest + x = b.lowest + y. With y' = reach of b - y, which runs
// over sums of the same terms as y does: x + y' = b.highest - a.lowest.
bool overlap(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty()) return false;
  const Interval in_a = interval_of(a), in_b = interval_of(b);
  if (apart(in_a, in_b)) return false;
  Sum sum;
  add_bytes(a, sum);
  add_bytes(b, sum);
  return sum.can_be(std::int64_t(in_b.highest - in_a.lowest));
}

}  // namespace tessera::api
