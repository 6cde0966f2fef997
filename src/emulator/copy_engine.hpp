// What the copy engine does on its own time: tiles to shared memory, whose bytes an mbarrier
// counts, and tiles from there to global memory, for which their thread waits in groups.
#pragma once
#include <string>
#include <vector>

#include "emulator/mbarrier.hpp"
#include "emulator/report.hpp"
#include "emulator/tensor_map.hpp"

namespace tessera::emulator {

// What a word says of a tile.
struct TileCall {
  const TensorMap& map;
  Corner corner;
  int rank;
  u32 shared;
};

struct TensorLoad {
  TileMap map;
  Corner corner;
  u32 to;
  Mbarrier* barrier;
  Where where;
  u64 issued;  // for traces
  const char* role;
};

struct TensorStore {
  TileMap map;
  Corner corner;
  u32 from;
  u32 group, number;
  bool done = false;
  Where where;
  u64 issued;
};

// Those of one thread. They end in order, so one number says which are known to have ended.
struct BulkStores {
  u32 reads, writes;  // actors
  u32 first;          // store n ends as the events first + n
  u32 count = 0, groups = 0;
  std::vector<TensorStore> pending;  // until they are known to be written
  u32 read = 0;                      // those below have been waited for
};

class CopyEngine {
 public:
  explicit CopyEngine(Block& block) : block_(block) {}

  // To this block; by the running thread, which may be of another block of the cluster.
  void load(const TileCall& call, u32 barrier, Where where);
  // To the same place of each block of the cluster whose bit is set.
  void multicast(const TileCall& call, u32 barrier, u32 ranks, Where where);
  void store(const TileCall& call, Where where);
  void commit();
  void wait(u32 pending, bool for_reads_alone, Where where);

  // Something that is under way ends, chosen at random; false if nothing is.
  bool land_one();
  // Nobody leaves the block before what it started.
  void check_exit(Thread& thread);
  void check_end();

 private:
  TileMap check(const TileCall& call, Where where) const;
  void land(const TensorLoad& load);
  void land(Thread& thread, TensorStore& store);

  Block& block_;
  std::vector<TensorLoad> loads_;
};

}  // namespace tessera::emulator
