/* Counts the memory that Lisp code allocates from the C library, because a saved core would
 * contain the pointers but not the memory. While an image is prepared for saving, Lisp links its
 * calls to these functions (lisp/load/memory.lisp). */
#define _GNU_SOURCE
#include "steelbank.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Removes the block at this address from the count. Returns it, or NULL if it is not counted. */
static struct block *take(void *at) {
  struct block key = {.at = at};
  pthread_mutex_lock(&lock);
  struct block **found = tfind(&key, &blocks, by_address);
  struct block *block = found ? *found : NULL;
  if (block) tdelete(&key, &blocks, by_address);
  pthread_mutex_unlock(&lock);
  return block;
}

static void forget(void *at) { free(take(at)); }

void steelbank_own_memory(int64_t by) { __atomic_store_n(&owner, by, __ATOMIC_RELAXED); }

/* Where add_block writes, the number of blocks that fit there, and the number of blocks so far. */
static uint64_t *listed;
static int64_t room, count;

static void add_block(const void *node, VISIT visit, int depth) {
  (void)depth;
  const struct block *block = *(const struct block *const *)node;
  if (visit != leaf && visit != postorder) return;
  if (count < room) {
    listed[3 * count] = (uintptr_t)block->at;
    listed[3 * count + 1] = block->size;
    listed[3 * count + 2] = (uint64_t)block->owner;
  }
  count++;
}

int64_t steelbank_held_blocks(uint64_t *into, int64_t most) {
  pthread_mutex_lock(&lock);
  listed = into, room = most, count = 0;
  twalk(blocks, add_block);
  int64_t held = count;
  pthread_mutex_unlock(&lock);
  return held;
}

void *steelbank_counted_malloc(size_t size) { return note(malloc(size), size); }
void *steelbank_counted_calloc(size_t count, size_t size) { return note(calloc(count, size), count * size); }
void *steelbank_counted_aligned_alloc(size_t alignment, size_t size) { return note(aligned_alloc(alignment, size), size); }

/* Removes a block from the count before it is freed, because another thread may get the same
 * address at once. */
void steelbank_counted_free(void *at) {
  forget(at);
  free(at);
}

void *steelbank_counted_realloc(void *at, size_t size) {
  struct block *before = take(at);
  void *moved = realloc(at, size);
  if (moved)
    note(moved, size);
  else if (before && size) {
    /* A failed reallocation leaves the block unchanged. */
    pthread_mutex_lock(&lock);
    if (tsearch(before, &blocks, by_address)) before = NULL;
    pthread_mutex_unlock(&lock);
  }
  free(before);
  return moved;
}

int steelbank_counted_posix_memalign(void **at, size_t alignment, size_t size) {
  int error = posix_memalign(at, alignment, size);
  if (!error) note(*at, size);
  return error;
}

char *steelbank_counted_strdup(const char *text) { return note(strdup(text), strlen(text) + 1); }
char *steelbank_counted_strndup(const char *text, size_t length) { return note(strndup(text, length), strnlen(text, length) + 1); }

/* The range that find_overlapping searches, and the block that it found. */
static char *cut_from, *cut_to;
static struct block *overlapping;

static void find_overlapping(const void *node, VISIT visit, int depth) {
  (void)depth;
  struct block *block = *(struct block *const *)node;
  if ((visit == leaf || visit == postorder) && (char *)block->at < cut_to && (char *)block->at + block->size > cut_from)
    overlapping = block;
}

/* Removes a range from the counted mappings. The parts before and after it stay counted. */
static void cut(char *from, char *to) {
  pthread_mutex_lock(&lock);
  for (;;) {
    cut_from = from, cut_to = to, overlapping = NULL;
    twalk(blocks, find_overlapping);
    struct block *block = overlapping;
    if (!block) break;
    char *start = block->at, *end = start + block->size;
    struct block *rest = end > to ? malloc(sizeof *rest) : NULL;
    if (rest) {
      *rest = (struct block){to, (size_t)(end - to), block->owner};
      struct block **found = tsearch(rest, &blocks, by_address);
      if (!found || *found != rest) free(rest);
    }
    if (start < from)
      block->size = (size_t)(from - start);
    else {
      tdelete(block, &blocks, by_address);
      free(block);
    }
  }
  pthread_mutex_unlock(&lock);
}

/* Rounds up to pages, the unit of the system's mappings. */
static size_t whole_pages(size_t length) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (length + page - 1) & ~(page - 1);
}

void *steelbank_counted_mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
  void *mapped = mmap(at, length, protection, flags, file, offset);
  if (mapped == MAP_FAILED) return mapped;
  /* A mapping at a fixed address replaces existing mappings. */
  cut(mapped, (char *)mapped + whole_pages(length));
  return note(mapped, whole_pages(length));
}

int steelbank_counted_munmap(void *at, size_t length) {
  /* The system refuses only an empty range or an unaligned address. */
  int is_refused = !length || whole_pages((size_t)at) != (size_t)at;
  if (!is_refused) cut(at, (char *)at + whole_pages(length));
  return munmap(at, length);
}
