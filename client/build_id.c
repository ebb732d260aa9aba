//  client/build_id.c - which build of this library is loaded

#include "client/build_id.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct search {
    char *text;
    size_t len;
} search_t;

static bool
s_holds_me (const struct dl_phdr_info *info)
{
    uintptr_t me = (uintptr_t) tl_build_id;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW (Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && me - info->dlpi_addr >= p->p_vaddr &&
            me - info->dlpi_addr < p->p_vaddr + p->p_memsz)
            return true;
    }
    return false;
}

static void
s_hex (const uint8_t *bytes, size_t n, search_t *search)
{
    for (size_t i = 0; i < n && 2 * i + 2 < search->len; i++)
        snprintf (search->text + 2 * i, 3, "%02x", bytes[i]);
}

//  Notes are a head, a name and a description, each padded to 4 bytes.
static void
s_read_notes (const uint8_t *at, size_t bytes, search_t *search)
{
    ElfW (Nhdr) head;
    while (bytes >= sizeof head) {
        memcpy (&head, at, sizeof head);
        size_t name = (head.n_namesz + 3u) & ~3u;
        size_t size = sizeof head + name + ((head.n_descsz + 3u) & ~3u);
        if (size > bytes)
            return;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp (at + sizeof head, "GNU", 4) == 0)
            s_hex (at + sizeof head + name, head.n_descsz, search);
        at += size;
        bytes -= size;
    }
}

static int
s_look (struct dl_phdr_info *info, size_t size, void *arg)
{
    (void) size;
    if (!s_holds_me (info))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW (Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            s_read_notes ((const uint8_t *) (info->dlpi_addr + p->p_vaddr),
                          p->p_memsz, arg);
    }
    return 1;
}

void
tl_build_id (char *text, size_t len)
{
    search_t search = { text, len };
    text[0] = 0;
    dl_iterate_phdr (s_look, &search);
}
