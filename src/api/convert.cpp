#include "api/convert.hpp"

#include "api/convert_parts.hpp"

namespace tessera::api {

Call convert_inputs(const tessera_attention_desc& desc, Purpose purpose) {
  Call call;
  convert_options(desc, call);
  convert_tensors(desc, purpose, call);
  convert_shapes(desc, call.problem);
  check_lengths(call);
  check_broadcasts(desc, call);
  check_alignment(desc, call);
  return call;
}

Call convert(const tessera_attention_desc& desc, Purpose purpose) {
  const Call call = convert_inputs(desc, purpose);
  check_outputs(desc, call);
  return call;
}

}  // namespace tessera::api
