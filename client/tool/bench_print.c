//  client/tool/bench_print.c - the table of nccl-tests, or JSON lines
//
//  algbw is bytes over time; busbw multiplies it with the share of the bytes
//  that has to pass a link: 2(n-1)/n for an allreduce, (n-1)/n where a buffer
//  has a piece per rank, 1 for broadcast and reduce
//  (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md).

#include "client/tool/bench.h"

#include <stdio.h>

//  GB/s, 10^9 bytes.
static double
s_algbw (const bench_row_t *row, int way)
{
    double us = row->way[way].time_us;
    return us > 0 ? (double) row->bytes / us / 1e3 : 0.0;
}

static double
s_busbw (const bench_t *self, const bench_row_t *row, int way)
{
    double n = self->size, factor = 0.0;
    const tp_kind_info_t *info = tp_kind_info ((int) self->options->kind);
    bool each = info->in == TP_FORM_EACH || info->out == TP_FORM_EACH;
    if (self->options->kind == TP_ALLREDUCE)
        factor = 2.0 * (n - 1.0) / n;
    else if (self->options->kind != TP_BARRIER)
        factor = each ? (n - 1.0) / n : 1.0;
    return factor * s_algbw (row, way);
}

static const char *
s_op_name (const bench_t *self)
{
    tp_kind_t kind = self->options->kind;
    return tp_kind_info ((int) kind)->reduces
               ? tp_op_name ((int) self->options->op)
               : "none";
}

static int
s_root (const bench_t *self)
{
    bool rooted = tp_kind_info ((int) self->options->kind)->rooted;
    return rooted ? self->options->root : -1;
}

//  ------------------------------------------------------------------- table

void
bench_print_head (const bench_t *self)
{
    if (self->rank != 0 || self->options->json)
        return;
    printf ("# tutti %s: %s, %d ranks on %d nodes, transport %s, device cpu, "
            "%s memory\n",
            tutti_version (), tp_kind_name ((int) self->options->kind),
            self->size, self->nodes, self->transport,
            self->options->private_memory ? "malloc" : "shared");
    printf ("#\n# %55s%-38s %s\n", "", "         out-of-place",
            "         in-place");
    printf ("# %10s %12s %10s %7s %6s ", "size", "count", "type", "redop",
            "root");
    for (int way = 0; way < 2; way++)
        printf (" %9s %7s %7s %6s", "time", "algbw", "busbw", "#wrong");
    printf ("\n# %10s %12s %10s %7s %6s ", "(B)", "(elements)", "", "", "");
    for (int way = 0; way < 2; way++)
        printf (" %9s %7s %7s %6s", "(us)", "(GB/s)", "(GB/s)", "");
    printf ("\n");
    fflush (stdout);
}

static void
s_print_way (const bench_t *self, const bench_row_t *row, int way)
{
    if (!row->way[way].done) {
        printf (" %9s %7s %7s %6s", "-", "-", "-", "-");
        return;
    }
    printf (" %9.2f %7.3f %7.3f", row->way[way].time_us, s_algbw (row, way),
            s_busbw (self, row, way));
    if (self->options->check)
        printf (" %6lld", (long long) row->way[way].wrong);
    else
        printf (" %6s", "N/A");
}

static void
s_print_line (const bench_t *self, const bench_row_t *row)
{
    printf ("  %10zu %12zu %10s %7s %6d ", row->bytes, row->count,
            tp_dtype_name ((int) self->options->dtype), s_op_name (self),
            s_root (self));
    s_print_way (self, row, 0);
    s_print_way (self, row, 1);
    printf ("\n");
}

//  -------------------------------------------------------------------- JSON

static void
s_json_number (const char *name, bool known, double value)
{
    if (known)
        printf (",\"%s\":%.3f", name, value);
    else
        printf (",\"%s\":null", name);
}

static void
s_json_wrong (const bench_t *self, const char *name, const bench_way_t *way)
{
    if (way->done && self->options->check)
        printf (",\"%s\":%lld", name, (long long) way->wrong);
    else
        printf (",\"%s\":null", name);
}

static void
s_print_json (const bench_t *self, const bench_row_t *row)
{
    const bench_way_t *out = &row->way[0], *in = &row->way[1];
    const bench_way_t *cost = out->done ? out : in;
    printf ("{\"collective\":\"%s\",\"bytes\":%zu,\"count\":%zu,"
            "\"dtype\":\"%s\",\"op\":\"%s\",\"root\":%d,\"ranks\":%d,"
            "\"nodes\":%d,\"algorithm\":\"%s\",\"transport\":\"%s\","
            "\"device\":\"cpu\"",
            tp_kind_name ((int) self->options->kind), row->bytes, row->count,
            tp_dtype_name ((int) self->options->dtype), s_op_name (self),
            s_root (self), self->size, self->nodes, row->algorithm,
            self->transport);
    s_json_number ("time_us", out->done, out->time_us);
    s_json_number ("time_us_p99", cost->done, cost->time_us_p99);
    s_json_number ("first_us", cost->first_us > 0, cost->first_us);
    s_json_number ("algbw_gbps", out->done, s_algbw (row, 0));
    s_json_number ("busbw_gbps", out->done, s_busbw (self, row, 0));
    s_json_wrong (self, "wrong", out);
    s_json_number ("in_place_time_us", in->done, in->time_us);
    s_json_number ("in_place_busbw_gbps", in->done, s_busbw (self, row, 1));
    s_json_wrong (self, "in_place_wrong", in);
    s_json_number ("wire_bytes_max", cost->done, cost->wire_bytes_max);
    s_json_number ("wire_bytes_sum", cost->done, cost->wire_bytes_sum);
    s_json_number ("cpu_us", cost->done, cost->cpu_us);
    printf ("}\n");
}

void
bench_print_row (const bench_t *self, const bench_row_t *row)
{
    if (self->rank != 0)
        return;
    if (self->options->json)
        s_print_json (self, row);
    else
        s_print_line (self, row);
    fflush (stdout);
}

void
bench_print_tail (const bench_t *self, const bench_row_t *rows, size_t n)
{
    if (self->rank != 0 || self->options->json)
        return;
    double sum = 0;
    long long wrong = 0;
    int ways = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        const bench_row_t *row = &rows[i / 2];
        int way = (int) (i % 2);
        if (!row->way[way].done)
            continue;
        ways++;
        sum += s_busbw (self, row, way);
        wrong += row->way[way].wrong;
    }
    if (self->options->check)
        printf ("# Wrong elements    : %lld %s\n", wrong,
                wrong == 0 ? "OK" : "FAILED");
    printf ("# Avg bus bandwidth : %.4f GB/s\n", sum / ways);
    const bench_way_t *first = &rows[0].way[!rows[0].way[0].done];
    if (n > 0 && first->first_us > 0)
        printf ("# First call        : %.1f us (not in the times above)\n",
                first->first_us);
    fflush (stdout);
}
