#include "weir/base/large.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void wr_large_enter(void) { pthread_mutex_lock(&lock); }
void wr_large_leave(void) { pthread_mutex_unlock(&lock); }
