//  client/tool/bench_print.c - the table of nccl-tests, or a line of JSON

#include "client/tool/bench.h"

#include <stdio.h>

double
bench_algbw (const bench_row_t *row, const bench_side_t *side)
{
    return side->time_us > 0 ? (double) row->bytes / side->time_us / 1e3 : 0;
}

double
bench_busbw (int kind, const bench_row_t *row, const bench_side_t *side)
{
    double n = row->size, factor = 1;
    if (kind == TP_ALLREDUCE)
        factor = 2 * (n - 1) / n;
    else if (kind == TP_ALLGATHER || kind == TP_REDUCE_SCATTER)
        factor = (n - 1) / n;
    return bench_algbw (row, side) * factor;
}

void
bench_print_head (const bench_options_t *options)
{
    if (options->json)
        return;
    printf ("# %-10s %12s %9s %6s %5s | %12s %8s %8s %7s | %12s %8s %8s %7s\n",
            "size", "count", "type", "redop", "root", "out-of-place",
            "algbw", "busbw", "#wrong", "in-place", "algbw", "busbw",
            "#wrong");
    printf ("# %-10s %12s %9s %6s %5s | %12s %8s %8s %7s | %12s %8s %8s %7s\n",
            "(B)", "(elements)", "", "", "", "time (us)", "(GB/s)", "(GB/s)",
            "", "time (us)", "(GB/s)", "(GB/s)", "");
}

static void
s_print_side (const bench_options_t *options, const bench_row_t *row,
              const bench_side_t *side, bool done)
{
    if (!done)
        printf (" | %12s %8s %8s %7s", "-", "-", "-", "-");
    else
        printf (" | %12.2f %8.2f %8.2f %7lld", side->time_us,
                bench_algbw (row, side),
                bench_busbw (options->kind, row, side),
                (long long) side->wrong);
}

static const char *
s_op (const bench_options_t *options)
{
    bool reduces = options->kind == TP_ALLREDUCE
                   || options->kind == TP_REDUCE_SCATTER;
    return reduces ? tp_op_name ((int) options->op) : "none";
}

static void
s_print_json (const bench_options_t *o, const bench_row_t *row)
{
    printf ("{\"collective\": \"%s\", \"bytes\": %llu, \"count\": %zu, "
            "\"dtype\": \"%s\", \"op\": \"%s\", \"ranks\": %d, \"nodes\": %d, "
            "\"algorithm\": \"%s\", \"transport\": \"%s\", \"device\": "
            "\"cpu\"",
            tp_kind_name (o->kind), row->bytes, row->count,
            tp_dtype_name ((int) o->dtype), s_op (o), row->size, row->nodes,
            row->algorithm, row->transport);
    if (o->out_of_place)
        printf (", \"time_us\": %.3f, \"time_us_p99\": %.3f, "
                "\"algbw_gbps\": %.4f, \"busbw_gbps\": %.4f, \"wrong\": %lld",
                row->out.time_us, row->out.p99_us,
                bench_algbw (row, &row->out),
                bench_busbw (o->kind, row, &row->out),
                (long long) row->out.wrong);
    if (o->in_place)
        printf (", \"in_place_time_us\": %.3f, \"in_place_busbw_gbps\": "
                "%.4f, \"in_place_wrong\": %lld",
                row->in.time_us, bench_busbw (o->kind, row, &row->in),
                (long long) row->in.wrong);
    printf (", \"wire_bytes_max\": %lld, \"wire_bytes_sum\": %lld, "
            "\"cpu_us\": %.3f}\n",
            (long long) row->wire_max, (long long) row->wire_sum,
            row->cpu_us);
}

void
bench_print_row (const bench_options_t *options, const bench_row_t *row)
{
    if (options->json) {
        s_print_json (options, row);
    } else {
        printf ("  %-10llu %12zu %9s %6s %5d", row->bytes, row->count,
                tp_dtype_name ((int) options->dtype), s_op (options),
                options->kind == TP_BROADCAST ? options->root : -1);
        s_print_side (options, row, &row->out, options->out_of_place);
        s_print_side (options, row, &row->in, options->in_place);
        printf ("\n");
    }
    fflush (stdout);
}
