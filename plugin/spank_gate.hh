// slurm/spank.h for C++: it declares its hooks outside of its own extern "C" block.
#ifndef MFU_PLUGIN_SPANK_GATE_HH_
#define MFU_PLUGIN_SPANK_GATE_HH_

extern "C" {
#include <slurm/spank.h>
}

#endif
