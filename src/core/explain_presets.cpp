#include "core/explain_presets.hpp"

namespace tessera::core {
namespace {

constexpr ExplainPreset kPresets[] = {
    {"plain", "A plain row", "--n 16 --block 4 --d 6 --seed 12",
     "Four blocks of four keys. The maximum grows now and then; each time, l and O are multiplied "
     "by the factor that moves them to the new maximum."},
    {"ascending", "Ascending scores", "--n 16 --block 4 --d 6 --seed 12 --gain 0 --ramp 0.5",
     "Every block has a larger maximum than all before it, so every block rescales: the worst "
     "case, and still one multiplication for each element of O."},
    {"huge", "Huge logits", "--n 16 --block 4 --d 6 --seed 12 --gain 8 --shift 90",
     "Scores near 90 overflow exp in float32: the softmax without a maximum ends in NaN. The "
     "running maximum keeps every exponent at or below 0."},
    {"masked-block", "A masked block", "--n 16 --block 4 --d 6 --seed 12 --hide 4,7",
     "No key of the second block is visible: it is neither read nor computed, and the state "
     "stays as it was."},
    {"causal", "The causal diagonal", "--n 16 --block 4 --d 6 --seed 12 --row 9",
     "Query 9 sees keys 0 to 9: two whole blocks, half of the block on the diagonal, and nothing "
     "of the last."},
    {"nothing", "A row that sees nothing", "--n 16 --block 4 --d 6 --seed 12 --hide 0,15",
     "The maximum stays -inf and l stays 0; the result is 0 and its lse -inf, never NaN."},
    {"sink", "A sink", "--n 16 --block 4 --d 6 --seed 12 --sink 2",
     "A logit without a value starts the row: it takes its share of the denominator and adds "
     "nothing to O."},
    {"bf16", "bfloat16 rounding", "--n 32 --block 8 --d 6 --seed 12 --dtype bf16",
     "q, k, v and P have 8 significant bits, the sums 24: the error stops at the rounding of P, "
     "a thousand times higher than in float32."},
    {"split", "Split over four workers", "--n 32 --block 4 --d 6 --seed 12 --workers 4",
     "Each worker absorbs its own keys; two states merge into the state of both. Any tree of "
     "merges gives the same row, up to rounding."},
    {"tiles-causal", "Tiles under a causal mask", "--n 64 --block 8 --grid 8 --window -1,0",
     "Tiles above the diagonal are skipped, those on it are computed whole and masked, those "
     "below need no mask."},
    {"tiles-window", "Tiles under a window", "--n 64 --block 8 --grid 8 --window 16,0",
     "With a window the number of tiles grows as N, no longer as its square."},
};

}  // namespace

std::span<const ExplainPreset> explain_presets() { return kPresets; }

const ExplainPreset* find_preset(std::string_view name) {
  for (const ExplainPreset& preset : kPresets)
    if (preset.name == name) return &preset;
  return nullptr;
}

}  // namespace tessera::core
