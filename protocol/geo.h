//  protocol/geo.h - how an op is cut, and where its parts lie
//
//  Pure functions of a signature, so everybody cuts alike. A buffer has one
//  piece, or one for each rank (tp_kind_info). Segment g of an op is elements
//  [g * seg, (g + 1) * seg) of every piece; a shorter piece just ends before.
//
//  With even kinds all pieces have `count` elements, one behind the other.
//  With uneven ones (allgatherv ...) counts and places are the caller's; they
//  lie as words in shared memory while the op runs:
//    counts of the input, its displacements, counts of the output, its
//    displacements; as many of each as the buffer has pieces
//  Their segments go on to one that is short or empty in every piece, so a
//  receiver that expects more finds out.

#ifndef TP_GEO_H
#define TP_GEO_H

#include "protocol/types.h"

//  Where an input or output lies.
typedef enum tp_where {
    TP_WHERE_NONE,    //  this rank has none (broadcast: input off the root)
    TP_WHERE_INLINE,  //  in the cell's inline area
    TP_WHERE_DIRECT,  //  in a segment, whole: zero copy
    TP_WHERE_WINDOW,  //  through a window of segment slots: staged
    TP_WHERE_PRIVATE  //  output in the rank's own memory: only it can write
} tp_where_t;

//  One side of a rank's part: base of the whole buffer (DIRECT, PRIVATE) or
//  of the window or inline area.
typedef struct tp_side {
    uint8_t *base;
    uint32_t where;   //  tp_where_t
    uint32_t window;  //  slots
    uint32_t pieces;
    const uint64_t *counts;  //  of an uneven op, else NULL
    const uint64_t *displs;
} tp_side_t;

typedef struct tp_geo {
    const tp_kind_info_t *info;
    uint32_t size;      //  ranks
    uint32_t pieces;    //  of a slot: size if any buffer has that many, else 1
    size_t element;     //  bytes
    uint64_t count;     //  elements of a piece; 0 if uneven
    uint64_t seg;       //  elements of a piece in a full segment
    uint32_t segments;  //  at least 1
    uint64_t slot;      //  bytes of a window slot: a segment of every piece
    bool small;         //  input and output fit the inline area
} tp_geo_t;

#define TP_COUNT_MAX (UINT64_C (1) << 60)  //  elements; more cannot be

//  TUTTI_EINVAL if the sizes overflow. The signature has been checked.
tutti_err_t
tp_geo_make (tp_geo_t *self, const tp_sig_t *sig, uint32_t size,
             uint64_t segment_bytes);

//  An uneven op whose largest piece, of all ranks, has MOST elements.
tutti_err_t
tp_geo_stretch (tp_geo_t *self, uint64_t most);

//  Elements of piece P of a side, and of them those in segment G.
uint64_t
tp_geo_count (const tp_geo_t *self, const tp_side_t *side, uint32_t p);
uint64_t
tp_geo_len (const tp_geo_t *self, const tp_side_t *side, uint32_t p,
            uint32_t g);

//  Whether piece P has a segment G, if only an empty one that ends it.
bool
tp_geo_has (const tp_geo_t *self, const tp_side_t *side, uint32_t p,
            uint32_t g);

//  Place of segment G of piece P of rank R's input or output.
void *
tp_geo_in (const tp_geo_t *self, const tp_side_t *side, uint32_t r, uint32_t p,
           uint32_t g);
void *
tp_geo_out (const tp_geo_t *self, const tp_side_t *side, uint32_t r,
            uint32_t p, uint32_t g);

//  Bytes of the whole buffer of a side whose pieces and counts are set;
//  UINT64_MAX: counts and displacements that cannot be.
uint64_t
tp_geo_bytes (const tp_geo_t *self, const tp_side_t *side);

//  Words that describe rank R's part; 0: the op is even.
size_t
tp_geo_words (const tp_sig_t *sig, uint32_t size, uint32_t r);

//  Set pieces, and for an uneven op counts and displs, of rank R's sides.
//  WORDS (NULL for an even op) must outlive them.
void
tp_geo_sides (const tp_geo_t *self, const tp_sig_t *sig, uint32_t r,
              const uint64_t *words, tp_side_t *in, tp_side_t *out);

//  The largest count of a side.
uint64_t
tp_geo_most (const tp_side_t *side);

//  Which piece Q of which rank's input (the return value) becomes piece P of
//  rank R's output. With a reduction it is piece Q of all.
uint32_t
tp_geo_source (const tp_geo_t *self, const tp_sig_t *sig, uint32_t r,
               uint32_t p, uint32_t *q_p);

#endif
