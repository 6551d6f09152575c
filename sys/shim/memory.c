/* Counts the memory that Lisp code takes from the C library: a saved core would keep the pointers and not the memory. Lisp links
 * its calls to these functions while that matters. */
#define _GNU_SOURCE
#include "steelbank.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct block {
  void *at;
  size_t size;
  int64_t owner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *blocks; /* by address */
static int64_t owner;

static int by_address(const void *one, const void *other) {
  const struct block *a = one, *b = other;
  return a->at < b->at ? -1 : a->at > b->at;
}

static void *note(void *at, size_t size) {
  struct block *block = at ? malloc(sizeof *block) : NULL;
  if (!block) return at;
  *block = (struct block){at, size, __atomic_load_n(&owner, __ATOMIC_RELAXED)};
  pthread_mutex_lock(&lock);
  struct block **found = tsearch(block, &blocks, by_address);
  if (found && *found != block) {
    **found = *block;
    free(block);
  }
  pthread_mutex_unlock(&lock);
  return at;
}

static void forget(void *at) {
  struct block key = {.at = at};
  pthread_mutex_lock(&lock);
  struct block **found = tfind(&key, &blocks, by_address);
  if (found) {
    struct block *block = *found;
    tdelete(&key, &blocks, by_address);
    free(block);
  }
  pthread_mutex_unlock(&lock);
}

void steelbank_own_memory(int64_t by) { __atomic_store_n(&owner, by, __ATOMIC_RELAXED); }

static int64_t wanted;
static int64_t sum;

static void add(const void *node, VISIT visit, int depth) {
  (void)depth;
  const struct block *block = *(const struct block *const *)node;
  if ((visit == leaf || visit == postorder) && block->owner == wanted) sum += (int64_t)block->size;
}

int64_t steelbank_held_memory(int64_t by) {
  pthread_mutex_lock(&lock);
  wanted = by;
  sum = 0;
  twalk(blocks, add);
  int64_t held = sum;
  pthread_mutex_unlock(&lock);
  return held;
}

void *steelbank_counted_malloc(size_t size) { return note(malloc(size), size); }
void *steelbank_counted_calloc(size_t count, size_t size) { return note(calloc(count, size), count * size); }
void *steelbank_counted_aligned_alloc(size_t alignment, size_t size) { return note(aligned_alloc(alignment, size), size); }

/* Forget a block before it is freed: another thread may be given the same address at once. */
void steelbank_counted_free(void *at) {
  forget(at);
  free(at);
}

void *steelbank_counted_realloc(void *at, size_t size) {
  forget(at);
  void *moved = realloc(at, size);
  /* A reallocation that fails leaves the block as it was. */
  note(moved || !size ? moved : at, size);
  return moved;
}

int steelbank_counted_posix_memalign(void **at, size_t alignment, size_t size) {
  int error = posix_memalign(at, alignment, size);
  if (!error) note(*at, size);
  return error;
}

char *steelbank_counted_strdup(const char *text) { return note(strdup(text), strlen(text) + 1); }
char *steelbank_counted_strndup(const char *text, size_t length) { return note(strndup(text, length), strnlen(text, length) + 1); }

void *steelbank_counted_mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
  void *mapped = mmap(at, length, protection, flags, file, offset);
  if (mapped != MAP_FAILED) note(mapped, length);
  return mapped;
}

int steelbank_counted_munmap(void *at, size_t length) {
  forget(at);
  return munmap(at, length);
}
