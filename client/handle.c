//  client/handle.c - public handles: index and generation, never addresses

#include "client/handle.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#define ROOM 65536u
#define NONE UINT32_MAX

//  value = generation << 20 | kind << 17 | index + 1
typedef struct entry {
    void *object;
    uint32_t generation;
    uint32_t next;  //  free list
    int kind;       //  0: free
} entry_t;

static entry_t s_table[ROOM];
static uint32_t s_used, s_free = NONE;
static pthread_mutex_t s_lock = PTHREAD_MUTEX_INITIALIZER;

//  A page that the kernel empties in a fork child: asking it costs a load,
//  getpid () would be a system call.
static volatile int *s_alive;

static void
s_mark_alive (void)
{
    void *page = mmap (NULL, 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    madvise (page, 4096, MADV_WIPEONFORK);
    s_alive = page;
    *s_alive = 1;
}

bool
tl_forked (void)
{
    return s_alive && !*s_alive;
}

static entry_t *
s_take (void)
{
    uint32_t index = s_free;
    if (index != NONE)
        s_free = s_table[index].next;
    else if (s_used < ROOM)
        index = s_used++;
    else
        return NULL;
    return &s_table[index];
}

void *
tl_handle_new (tl_handle_kind_t kind, void *object)
{
    pthread_mutex_lock (&s_lock);
    if (!s_alive)
        s_mark_alive ();
    uintptr_t value = 0;
    entry_t *entry = s_take ();
    if (entry) {
        entry->object = object;
        entry->kind = (int) kind;
        entry->generation++;
        value = ((uintptr_t) entry->generation << 20) |
                ((uintptr_t) kind << 17) | (uintptr_t) (entry - s_table + 1);
    }
    pthread_mutex_unlock (&s_lock);
    return (void *) value;
}

//  The entry of a handle, or NULL; under the lock.
static entry_t *
s_entry (const void *handle)
{
    uintptr_t value = (uintptr_t) handle;
    uintptr_t index = value & 0x1ffff;
    if (index == 0 || index > s_used)
        return NULL;
    entry_t *entry = &s_table[index - 1];
    if (entry->generation != (uint32_t) (value >> 20) ||
        entry->kind != (int) ((value >> 17) & 7))
        return NULL;
    return entry;
}

void *
tl_handle_get (tl_handle_kind_t kind, const void *handle)
{
    if (tl_forked ())
        return NULL;
    pthread_mutex_lock (&s_lock);
    entry_t *entry = s_entry (handle);
    void *object = entry && entry->kind == (int) kind ? entry->object : NULL;
    pthread_mutex_unlock (&s_lock);
    return object;
}

void
tl_handle_drop (const void *handle)
{
    pthread_mutex_lock (&s_lock);
    entry_t *entry = s_entry (handle);
    if (entry) {
        entry->kind = 0;
        entry->object = NULL;
        entry->next = s_free;
        s_free = (uint32_t) (entry - s_table);
    }
    pthread_mutex_unlock (&s_lock);
}
