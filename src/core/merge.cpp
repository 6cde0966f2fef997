#include "core/merge.hpp"

#include <vector>

#include "core/state.hpp"

namespace tessera::core {

void merge(std::span<const StateTensors> states, const StateTensors& to) {
  const Index4& shape = to.out.shape;
  // All memory before the first write: `to` may be one of the states.
  std::vector<double> row(static_cast<std::size_t>(shape[3]));
  State all(row.size()), one(row.size());
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t i = 0; i < shape[1]; ++i)
      for (std::int64_t h = 0; h < shape[2]; ++h) {
        all.clear();
        for (const StateTensors& state : states) {
          load_row(state.out, {b, i, h, 0}, row);
          one.become(state.lse.load(b, h, i), row);
          all.merge(one);
        }
        all.finish(row);
        store_row(to.out, {b, i, h, 0}, row);
        if (to.lse.present()) to.lse.store({b, h, i, 0}, all.lse());
      }
}

}  // namespace tessera::core
