//  coordinator/status.c - what the status endpoint shows, as text

#include "coordinator/status.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define STRING_(x) #x
#define STRING(x) STRING_ (x)
#define VERSION                                                               \
    STRING (TUTTI_VERSION_MAJOR)                                              \
    "." STRING (TUTTI_VERSION_MINOR) "." STRING (TUTTI_VERSION_PATCH)

//  --------------------------------------------------------------------- JSON

//  jansson takes UTF-8 only, and an agent may have cut a character in two.
static json_t *
s_text (const char *text)
{
    json_t *string = json_string (text);
    char clean[TP_TEXT_MAX];
    if (string)
        return string;
    snprintf (clean, sizeof clean, "%s", text);
    for (char *c = clean; *c; c++)
        if ((unsigned char) *c > 126)
            *c = '?';
    return json_string (clean);
}

static bool
s_alive (const tc_job_t *job)
{
    return tc_job_state (job) < TC_JOB_FINISHED;
}

//  The ranks of every node, of all jobs: name -> array.
static json_t *
s_ranks_of_nodes (const tc_coord_t *coord)
{
    json_t *all = json_object ();
    for (size_t i = 0; i < coord->n_nodes; i++)
        json_object_set_new (all, tc_node_name (coord->nodes[i]->node),
                             json_array ());
    for (size_t i = 0; i < coord->n_jobs; i++) {
        const tc_job_t *job = coord->jobs[i];
        for (uint32_t r = 0; s_alive (job) && r < tc_job_size (job); r++) {
            const tc_rank_t *rank = tc_job_rank (job, r);
            if (rank->joined && !rank->left)
                json_array_append_new (json_object_get (all, rank->node),
                                       json_integer (r));
        }
    }
    return all;
}

static json_t *
s_node (const tc_node_t *node, json_t *ranks)
{
    const char *state = tc_node_state_name (tc_node_state (node));
    return json_pack ("{s:s, s:o, s:o, s:s, s:O}", "node", tc_node_name (node),
                      "host", s_text (tc_node_host (node)), "addr",
                      s_text (tc_node_address (node)), "state", state, "ranks",
                      ranks);
}

static json_t *
s_rank (uint32_t rank, const tc_rank_t *r)
{
    const char *state = !r->joined   ? "missing"
                        : r->lost    ? "lost"
                        : r->left    ? "left"
                        : r->waiting ? "waiting"
                                     : "computing";
    return json_pack ("{s:i, s:s, s:I, s:s, s:I, s:o, s:o, s:o}", "rank",
                      (int) rank, "node", r->node, "pid", (json_int_t) r->pid,
                      "state", state, "seq", (json_int_t) r->seq, "op",
                      s_text (r->op), "path", s_text (r->path), "build",
                      s_text (r->build));
}

static json_t *
s_missing (const tc_job_t *job)
{
    json_t *list = json_array ();
    for (uint32_t r = 0;
         tc_job_state (job) == TC_JOB_FORMING && r < tc_job_size (job); r++)
        if (!tc_job_rank (job, r)->joined)
            json_array_append_new (list, json_integer (r));
    return list;
}

static json_t *
s_share (const tc_job_t *job)
{
    double share = tc_job_comm_share (job);
    return share < 0 ? json_null () : json_real (share);
}

static json_t *
s_job (const tc_job_t *job)
{
    size_t n;
    const tc_part_t *part = tc_job_parts (job, &n);
    json_t *ring = json_array (), *ranks = json_array ();
    json_int_t wire = 0, cpu = 0;
    for (size_t i = 0; i < n; i++) {
        json_array_append_new (ring, json_string (part[i].node));
        wire += (json_int_t) part[i].wire_bytes;
        cpu += (json_int_t) part[i].cpu_us;
    }
    bool known = s_alive (job) || tc_job_joined (job) > 0;
    for (uint32_t r = 0; known && r < tc_job_size (job); r++)
        json_array_append_new (ranks, s_rank (r, tc_job_rank (job, r)));
    return json_pack (
        "{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, "
        "s:o, s:[], s:n, s:o}",
        "job", tc_job_name (job), "attempt", (json_int_t) tc_job_attempt (job),
        "tenant", "", "state", tc_job_state_name (tc_job_state (job)), "epoch",
        (json_int_t) tc_job_epoch (job), "size",
        (json_int_t) tc_job_size (job), "plan", (json_int_t) tc_job_plan (job),
        "library", s_text (tc_job_library (job)), "missing", s_missing (job),
        "ring", ring, "comm_share", s_share (job), "wire_bytes", wire,
        "cpu_us", cpu, "ranks", ranks, "stragglers", "stall", "text",
        s_text (tc_job_text (job)));
}

static json_t *
s_status (const tc_coord_t *coord)
{
    json_t *nodes = json_array (), *jobs = json_array ();
    json_t *ranks = s_ranks_of_nodes (coord);
    for (size_t i = 0; i < coord->n_nodes; i++) {
        const tc_node_t *node = coord->nodes[i]->node;
        json_array_append_new (
            nodes,
            s_node (node, json_object_get (ranks, tc_node_name (node))));
    }
    for (size_t i = 0; i < coord->n_jobs; i++)
        json_array_append_new (jobs, s_job (coord->jobs[i]));
    json_decref (ranks);
    return json_pack ("{s:s, s:b, s:I, s:o, s:[], s:o}", "version", VERSION,
                      "insecure", coord->options.insecure, "plan",
                      (json_int_t) tc_plans_last (coord->plans), "nodes",
                      nodes, "edges", "jobs", jobs);
}

//  ------------------------------------------------------------------ metrics

typedef struct page {
    FILE *file;
    bool open;  //  OpenMetrics
} page_t;

//  HELP and TYPE; OpenMetrics names a counter's family without _total.
static void
s_family (page_t *page, const char *name, const char *type, const char *help)
{
    size_t len = strlen (name);
    if (page->open && strcmp (type, "counter") == 0)
        len -= strlen ("_total");
    fprintf (page->file, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int) len, name,
             help, (int) len, name, type);
}

//  A name from an agent, safe between quotes.
static void
s_label (const char *text, char *label)
{
    while (*text) {
        bool safe = strchr ("-_.", *text) || (*text >= '0' && *text <= '9') ||
                    (*text >= 'A' && *text <= 'Z') ||
                    (*text >= 'a' && *text <= 'z');
        *label++ = safe ? *text : '_';
        text++;
    }
    *label = 0;
}

static void
s_op_metrics (page_t *page, const tc_totals_t *t)
{
    static const char *bounds[] = { "1e-05", "0.0001", "0.001", "0.01",
                                    "0.1",   "1.0",    "10.0",  "+Inf" };
    s_family (page, "tutti_ops_total", "counter",
              "Finished operations, counted once a node.");
    for (int k = 0; k < TP_KINDS; k++)
        fprintf (page->file, "tutti_ops_total{kind=\"%s\"} %llu\n",
                 tp_kind_name (k), (unsigned long long) t->ops[k]);
    s_family (page, "tutti_op_seconds", "histogram",
              "Seconds from call to result.");
    for (int k = 0; k < TP_KINDS; k++) {
        unsigned long long sum = 0;
        for (int b = 0; b < TC_BUCKETS; b++) {
            sum += t->bucket[k][b];
            fprintf (page->file,
                     "tutti_op_seconds_bucket{kind=\"%s\",le=\"%s\"} %llu\n",
                     tp_kind_name (k), bounds[b], sum);
        }
        fprintf (page->file,
                 "tutti_op_seconds_sum{kind=\"%s\"} %.6f\n"
                 "tutti_op_seconds_count{kind=\"%s\"} %llu\n",
                 tp_kind_name (k), (double) t->us[k] * 1e-6, tp_kind_name (k),
                 sum);
    }
}

static void
s_byte_metrics (page_t *page, const tc_totals_t *t)
{
    unsigned long long bytes = 0;
    for (int k = 0; k < TP_KINDS; k++)
        bytes += t->bytes[k];
    s_family (page, "tutti_bytes_total", "counter",
              "Bytes that programs passed to operations.");
    fprintf (page->file, "tutti_bytes_total{direction=\"sent\"} %llu\n",
             bytes);
    s_family (page, "tutti_wire_bytes_total", "counter",
              "Payload bytes sent between nodes.");
    for (int i = 0; i < TC_TRANSPORTS && t->transport[i][0]; i++) {
        char label[sizeof t->transport[i]];
        s_label (t->transport[i], label);
        fprintf (page->file, "tutti_wire_bytes_total{transport=\"%s\"} %llu\n",
                 label, (unsigned long long) t->wire_bytes[i]);
    }
}

static void
s_state_metrics (page_t *page, const tc_coord_t *coord)
{
    s_family (page, "tutti_nodes", "gauge", "Agents by state.");
    for (int s = 0; s < TC_NODE_STATES; s++) {
        int n = 0;
        for (size_t i = 0; i < coord->n_nodes; i++)
            n += (int) tc_node_state (coord->nodes[i]->node) == s;
        fprintf (page->file, "tutti_nodes{state=\"%s\"} %d\n",
                 tc_node_state_name ((tc_node_state_t) s), n);
    }
    s_family (page, "tutti_jobs", "gauge",
              "Jobs by state; ended ones as long as they are remembered.");
    for (int s = 0; s < TC_JOB_STATES; s++) {
        int n = 0;
        if (s == TC_JOB_STARTING)
            continue;  //  shown as forming
        for (size_t i = 0; i < coord->n_jobs; i++) {
            int state = (int) tc_job_state (coord->jobs[i]);
            n += state == s ||
                 (s == TC_JOB_FORMING && state == TC_JOB_STARTING);
        }
        fprintf (page->file, "tutti_jobs{state=\"%s\"} %d\n",
                 tc_job_state_name ((tc_job_state_t) s), n);
    }
}

//  Names may be used again; of one name the last is the job that runs.
static void
s_share_metrics (page_t *page, const tc_coord_t *coord)
{
    s_family (page, "tutti_comm_share", "gauge",
              "Share of its time that a running job communicates.");
    for (size_t i = 0; i < coord->n_jobs; i++)
        if (tc_job_comm_share (coord->jobs[i]) >= 0)
            fprintf (page->file, "tutti_comm_share{job=\"%s\"} %.4f\n",
                     tc_job_name (coord->jobs[i]),
                     tc_job_comm_share (coord->jobs[i]));
}

static void
s_process_metrics (page_t *page, const tc_coord_t *coord)
{
    struct rusage u;
    getrusage (RUSAGE_SELF, &u);
    s_family (page, "tutti_coordinator_late_seconds_total", "counter",
              "Time that the control loop overslept.");
    fprintf (page->file, "tutti_coordinator_late_seconds_total %.3f\n",
             (double) coord->late_ms / 1000.0);
    s_family (page, "process_cpu_seconds_total", "counter",
              "Processor time of the coordinator.");
    fprintf (page->file, "process_cpu_seconds_total %.3f\n",
             (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
    s_family (page, "process_start_time_seconds", "gauge",
              "When the coordinator started, seconds since 1970.");
    fprintf (page->file, "process_start_time_seconds %lld\n",
             (long long) coord->started_s);
}

static void
s_message_metrics (page_t *page, const tc_coord_t *coord)
{
    s_family (page, "tutti_coordinator_messages_total", "counter",
              "Control messages received by type.");
    for (int b = 1; b < TC_BODIES; b++) {
        Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
        e.body_case = (Tutti__Envelope__BodyCase) b;
        if (coord->messages[b] > 0)
            fprintf (page->file,
                     "tutti_coordinator_messages_total{type=\"%s\"} %llu\n",
                     tp_msg_name (&e),
                     (unsigned long long) coord->messages[b]);
    }
    s_family (page, "tutti_coordinator_garbage_total", "counter",
              "Messages that made no sense and were dropped.");
    fprintf (page->file, "tutti_coordinator_garbage_total %llu\n",
             (unsigned long long) coord->garbage);
}

static char *
s_metrics (const tc_coord_t *coord, bool open)
{
    char *text = NULL;
    size_t len = 0;
    page_t page = { open_memstream (&text, &len), open };
    if (!page.file)
        return NULL;
    s_op_metrics (&page, tc_tally_totals (coord->tally));
    s_byte_metrics (&page, tc_tally_totals (coord->tally));
    s_state_metrics (&page, coord);
    s_share_metrics (&page, coord);
    s_message_metrics (&page, coord);
    s_process_metrics (&page, coord);
    if (open)
        fputs ("# EOF\n", page.file);
    fclose (page.file);
    return text;
}

tc_pages_t
tc_status_pages (const tc_coord_t *coord)
{
    json_t *status = s_status (coord);
    tc_pages_t pages = { .status = json_dumps (status, JSON_INDENT (1)),
                         .text = s_metrics (coord, false),
                         .open = s_metrics (coord, true) };
    json_decref (status);
    return pages;
}
