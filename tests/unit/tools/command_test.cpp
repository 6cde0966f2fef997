#include "tools/tessera/command.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tools/tessera/parse.hpp"

namespace tessera::tool {
namespace {

class CommandLine : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("TESSERA_CPU");
    unsetenv("TESSERA_THREADS");
  }
  void TearDown() override { SetUp(); }
};

TEST_F(CommandLine, QuotesWhatAShellWouldSplit) {
  EXPECT_EQ(shell_quoted("a/b-c_1.npy"), "a/b-c_1.npy");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("two words"), "'two words'");
  EXPECT_EQ(shell_quoted("it's $HOME"), "'it'\\''s $HOME'");
}

TEST_F(CommandLine, SaysEveryOption) {
  AttentionOptions o;
  o.causal = true;
  o.window = Window{7, TESSERA_UNBOUNDED};
  o.align = {TESSERA_ALIGN_OFFSET, -2};
  o.scale = 0.1f;
  o.softcap = 30.f;
  o.bias = "my bias.npy";
  o.mask = "m.npy";
  o.alibi = "random";
  o.sink = "s.npy";
  o.dropout = 0.25f;
  o.dropout_seed = 77;
  o.dropout_offset = 4000000000;
  o.state_in = "state.safetensors";
  o.kv_lengths = "5,7";
  o.kv_starts = "1,2";
  o.cache_batch_idx = "1,0";
  o.cu_seqlens_q = "0,1,2";
  o.cu_seqlens_k = "cu.npy";
  o.seqused_q = "1,1";
  o.seqused_k = "used.npy";
  o.page_size = 16;
  o.pages = "table.npy";
  o.dtype = core::DType::kBfloat16;
  o.splits = 5;
  o.threads = 3;
  o.backend = TESSERA_BACKEND_CPU;
  Source source;
  source.shape = parse_shape("1,2,3,4,2,5,6");
  source.seed = 9;
  EXPECT_EQ(Command("verify").add(source).add(o).text(),
            "tessera verify --shape 1,2,3,4,2,5,6 --seed 9 --causal --window 7,-1 --align -2 "
            "--scale 0.1 --softcap 30 --bias 'my bias.npy' --mask m.npy --alibi random "
            "--sink s.npy --dropout 0.25 --dropout-seed 77 --dropout-offset 4000000000 "
            "--state-in state.safetensors --kv-lengths 5,7 --kv-starts 1,2 --cache-batch-idx 1,0 "
            "--cu-seqlens-q 0,1,2 --cu-seqlens-k cu.npy --seqused-q 1,1 --seqused-k used.npy "
            "--page-size 16 --pages table.npy --dtype bf16 --splits 5 --threads 3 --backend cpu");
}

TEST_F(CommandLine, LeavesOutWhatWasNotGiven) {
  Source source;
  source.input = "x.safetensors";
  EXPECT_EQ(Command("run").add(source).add(AttentionOptions()).add("--out", "").text(),
            "tessera run --input x.safetensors --backend auto");
}

TEST_F(CommandLine, BeginsWithTheEnvironment) {
  setenv("TESSERA_CPU", "avx2", 1);
  setenv("TESSERA_THREADS", "4", 1);
  EXPECT_EQ(Command("info").text(), "TESSERA_CPU=avx2 TESSERA_THREADS=4 tessera info");
}

}  // namespace
}  // namespace tessera::tool
