//  protocol/schedule_halving.c - Rabenseifner: log2 n rounds, ring's volume
//
//  Reduce-scatter by recursive halving: in each round a node keeps the half
//  of its range of parts on its own side and sends the other half to its
//  partner. All-gather by recursive doubling goes the same way back; a put
//  over a part comes from the partner that the part was sent to. Each round
//  has its place in TEMP.

#include "protocol/schedule_build.h"

typedef struct range {
    uint64_t off, len;
} range_t;

//  Parts [first, first + parts) of the vector cut for the folded ids: the
//  given parts where nothing was folded, else an even cut.
static range_t
s_range (const tp_build_t *self, const tp_fold_t *fold, uint32_t first,
         uint32_t parts)
{
    uint64_t begin, end;
    if (self->what->kind == TP_REDUCE_SCATTER) {
        begin = self->off[first];
        end = self->off[first + parts];
    }
    else {
        begin = tp_part (self->what->count, fold->power, first);
        end = tp_part (self->what->count, fold->power, first + parts);
    }
    return (range_t){ begin, end - begin };
}

//  Returns where TEMP ends. The place of a round is behind all that was kept
//  before; partners kept the same ranges until now, so they agree on it.
static uint64_t
s_halve (tp_build_t *self, const tp_fold_t *fold, uint64_t place)
{
    uint32_t first = 0;
    for (uint32_t half = fold->power / 2; half > 0; half /= 2) {
        uint32_t peer = tp_unfold (fold, fold->id ^ half);
        bool upper = fold->id & half;
        range_t low = s_range (self, fold, first, half);
        range_t high = s_range (self, fold, first + half, half);
        range_t keep = upper ? high : low, give = upper ? low : high;
        tp_ref_t mine = tp_work (keep.off), theirs = tp_temp (place);
        tp_send (self, peer, give.len, tp_temp (place), tp_work (give.off));
        tp_recv (self, peer, keep.len);
        tp_reduce (self, keep.len, mine, upper ? theirs : mine,
                   upper ? mine : theirs);
        first += upper ? half : 0;
        place += keep.len;
    }
    return place;
}

static void
s_double (tp_build_t *self, const tp_fold_t *fold)
{
    for (uint32_t have = 1; have < fold->power; have *= 2) {
        uint32_t peer = tp_unfold (fold, fold->id ^ have);
        uint32_t first = fold->id & ~(have - 1);
        range_t mine = s_range (self, fold, first, have);
        range_t theirs = s_range (self, fold, first ^ have, have);
        tp_send (self, peer, mine.len, tp_work (mine.off), tp_work (mine.off));
        tp_recv (self, peer, theirs.len);
    }
}

void
tp_make_halving (tp_build_t *self)
{
    bool scatter = self->what->kind == TP_REDUCE_SCATTER;
    tp_fold_t fold = tp_fold (self->what->n, self->what->node);
    if (scatter && fold.extra > 0) {
        tp_make_direct (self);
        return;
    }
    uint64_t place = fold.extra > 0 ? self->what->count : 0;
    tp_fold_in (self, &fold);
    if (fold.id != UINT32_MAX) {
        self->schedule->temp = s_halve (self, &fold, place);
        if (!scatter)
            s_double (self, &fold);
    }
    tp_fold_out (self, &fold);
}
