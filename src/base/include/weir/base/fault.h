/* Named fault points. WEIR_FAULT="name:n:action[,name:n:action...]" makes the n-th pass (1 = first) of a point act:
 * `kill` (SIGKILL to this process), `fail` (the point reports an error) or `stall=MS`. Costs one predictable branch
 * when the variable is unset. WEIR_FAULT=list prints the names of all points of the program and ends it; with
 * WEIR_FAULT=count it runs as usual, and says at its end on stderr how often it passed which: "fault point NAME: N". So
 * a test that wants to be at every point finds out whether it was. @thread any */
#ifndef WEIR_BASE_FAULT_H
#define WEIR_BASE_FAULT_H
#include <stdbool.h>
extern bool wr_fault_armed_;
bool wr_fault_hit_(const char *name);
/* true when the point must fail now. `name` is a literal: it is entered in a section of its own, which is the list of
 * all points. */
#define WR_FAULT(name)                                                                                                 \
    ({                                                                                                                 \
        __asm__(".pushsection wr_fault_points,\"a\"\n\t.asciz \"" name "\"\n\t.popsection");                           \
        __builtin_expect(__atomic_load_n(&wr_fault_armed_, __ATOMIC_RELAXED), 0) && wr_fault_hit_(name);               \
    })
/* For tests: replaces what is in force by `spec` (the same text; NULL = nothing). False when it is malformed, and then
 * nothing is in force. @thread before others start */
bool wr_fault_set(const char *spec);
#endif
