#include "weir/base/large.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP ((size_t)4 << 20)

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void wr_large_enter(void) { pthread_mutex_lock(&lock); }
void wr_large_leave(void) { pthread_mutex_unlock(&lock); }

void wr_large_move_(void *to, const void *from, size_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), free_to = ((uintptr_t)from + page - 1) / page * page; /* whole pages between from and from + n */
    for (size_t done = 0, k; done < n; done += k) {
        k = n - done < STEP ? n - done : STEP;
        memcpy((char *)to + done, (const char *)from + done, k);
        uintptr_t end = ((uintptr_t)from + done + k) / page * page;
        if (end > free_to && madvise((void *)free_to, end - free_to, MADV_DONTNEED) == 0) free_to = end;
    }
}
