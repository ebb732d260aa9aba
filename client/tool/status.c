//  client/tool/status.c - tutti status: the coordinator's /status, readable

#include "client/tool/tool.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_URL "http://127.0.0.1:7071"
#define CONNECT_S 5L
#define TOTAL_S 20L
#define BODY_MAX (64u << 20)
#define HTTP_OK 200

static const char s_help[] =
    "usage: tutti status [OPTION]...\n"
    "What the coordinator knows: nodes, jobs, ranks, stalls, stragglers.\n"
    "\n"
    "  --url URL   of the status page [TUTTI_STATUS_URL, else\n"
    "              " DEFAULT_URL "]\n"
    "  --json      the coordinator's own JSON\n"
    "  --healthz   only whether it serves: exit status 0 or 1\n";

enum { URL = 256, JSON, HEALTHZ, HELP };

static const struct option s_options[] = {
    { "url", required_argument, NULL, URL },
    { "json", no_argument, NULL, JSON },
    { "healthz", no_argument, NULL, HEALTHZ },
    { "help", no_argument, NULL, HELP },
    { 0 },
};

typedef struct query {
    const char *url;
    bool json, healthz;
} query_t;

//  ------------------------------------------------------------------- fetch

typedef struct body {
    char *bytes;  //  ends with a zero
    size_t len;
} body_t;

static size_t
s_more (char *bytes, size_t one, size_t n, void *user)
{
    body_t *body = user;
    char *room = one * n < BODY_MAX - body->len
                     ? realloc (body->bytes, body->len + one * n + 1)
                     : NULL;
    if (!room)
        return 0;
    body->bytes = room;
    memcpy (room + body->len, bytes, one * n);
    body->len += one * n;
    room[body->len] = 0;
    return one * n;
}

//  GET url + path. False: the reason is on stderr.
static bool
s_get (const char *url, const char *path, body_t *body)
{
    char whole[1024], why[CURL_ERROR_SIZE] = "";
    size_t len = strlen (url);
    while (len > 0 && url[len - 1] == '/')
        len--;
    snprintf (whole, sizeof whole, "%.*s%s", (int) len, url, path);
    long code = 0;
    CURL *curl = curl_easy_init ();
    if (!curl)
        return false;
    curl_easy_setopt (curl, CURLOPT_URL, whole);
    curl_easy_setopt (curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt (curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt (curl, CURLOPT_TIMEOUT, TOTAL_S);
    curl_easy_setopt (curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt (curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt (curl, CURLOPT_WRITEFUNCTION, s_more);
    curl_easy_setopt (curl, CURLOPT_WRITEDATA, body);
    CURLcode rc = curl_easy_perform (curl);
    curl_easy_getinfo (curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_cleanup (curl);
    if (rc == CURLE_OK && code == HTTP_OK)
        return true;
    if (rc == CURLE_OK)
        tool_error ("status: %s answered %ld; is it a tutti-coordinator?",
                    whole, code);
    else
        tool_error ("status: %s: %s; give the coordinator's address with "
                    "--url or TUTTI_STATUS_URL",
                    whole, why[0] ? why : curl_easy_strerror (rc));
    return false;
}

//  ------------------------------------------------------------------- print

//  A string of an object; "?" if there is none.
static const char *
s_text (const json_t *object, const char *name)
{
    const char *text = json_string_value (json_object_get (object, name));
    return text ? text : "?";
}

static long long
s_number (const json_t *object, const char *name)
{
    return (long long) json_integer_value (json_object_get (object, name));
}

//  " 0 1 2"
static void
s_print_list (const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item)
    {
        if (json_is_string (item))
            printf (" %s", json_string_value (item));
        else if (json_is_integer (item))
            printf (" %lld", (long long) json_integer_value (item));
        else
            printf (" %lld", s_number (item, "rank"));
    }
}

static void
s_print_nodes (const json_t *nodes)
{
    size_t i;
    json_t *node;
    printf ("nodes: %zu\n", json_array_size (nodes));
    json_array_foreach (nodes, i, node)
    {
        printf ("  %-12s %-10s %s (%s) ranks:", s_text (node, "node"),
                s_text (node, "state"), s_text (node, "host"),
                s_text (node, "addr"));
        s_print_list (json_object_get (node, "ranks"));
        printf ("\n");
    }
}

static void
s_print_ranks (const json_t *ranks)
{
    size_t i;
    json_t *rank;
    json_array_foreach (ranks, i, rank)
    {
        json_t *op = json_object_get (rank, "op");
        printf ("    rank %-5lld %-12s pid %-8lld %-10s op %lld %s\n",
                s_number (rank, "rank"), s_text (rank, "node"),
                s_number (rank, "pid"), s_text (rank, "state"),
                s_number (rank, "seq"),
                json_is_string (op) ? json_string_value (op) : "");
    }
}

//  Whatever hurts the job: its own sentence if it has one.
static void
s_print_trouble (const char *what, const json_t *trouble)
{
    if (!trouble || json_is_null (trouble))
        return;
    const char *text = json_string_value (json_object_get (trouble, "text"));
    char *raw = text ? NULL : json_dumps (trouble, JSON_ENCODE_ANY);
    printf ("    %s: %s\n", what, text ? text : raw ? raw : "?");
    free (raw);
}

static void
s_print_job (const json_t *job)
{
    size_t i;
    json_t *item;
    json_t *missing = json_object_get (job, "missing");
    json_t *share = json_object_get (job, "comm_share");
    printf ("  %s: %s, %lld ranks, epoch %lld", s_text (job, "job"),
            s_text (job, "state"), s_number (job, "size"),
            s_number (job, "epoch"));
    if (json_is_number (share))
        printf (", communicating %.0f %%", 100.0 * json_number_value (share));
    printf ("\n    ring:");
    s_print_list (json_object_get (job, "ring"));
    printf ("\n");
    if (json_array_size (missing) > 0) {
        printf ("    missing ranks:");
        s_print_list (missing);
        printf ("\n");
    }
    s_print_ranks (json_object_get (job, "ranks"));
    s_print_trouble ("stall", json_object_get (job, "stall"));
    json_array_foreach (json_object_get (job, "stragglers"), i, item)
        s_print_trouble ("straggler", item);
}

static int
s_print (const query_t *query, const body_t *body)
{
    json_error_t why;
    json_t *status = json_loads (body->bytes, 0, &why);
    if (!json_is_object (status)) {
        tool_error ("status: %s: the answer is not JSON: %s", query->url,
                    why.text);
        json_decref (status);
        return TOOL_FAILED;
    }
    size_t i;
    json_t *job, *jobs = json_object_get (status, "jobs");
    printf ("tutti-coordinator %s at %s%s\n", s_text (status, "version"),
            query->url,
            json_is_true (json_object_get (status, "insecure"))
                ? " (INSECURE: no keys)"
                : "");
    s_print_nodes (json_object_get (status, "nodes"));
    printf ("jobs: %zu\n", json_array_size (jobs));
    json_array_foreach (jobs, i, job) s_print_job (job);
    json_decref (status);
    return 0;
}

static int
s_query (const query_t *query)
{
    body_t body = { NULL, 0 };
    const char *path = query->healthz ? "/healthz" : "/status";
    int result = TOOL_FAILED;
    bool ok = s_get (query->url, path, &body);
    if (ok && query->healthz) {
        result = 0;
    }
    else if (ok && body.bytes && !query->json) {
        result = s_print (query, &body);
    }
    else if (ok && body.bytes) {
        bool ended = body.len > 0 && body.bytes[body.len - 1] == '\n';
        printf ("%s%s", body.bytes, ended ? "" : "\n");
        result = 0;
    }
    free (body.bytes);
    return result;
}

int
tool_status_main (int argc, char **argv)
{
    const char *url = getenv ("TUTTI_STATUS_URL");
    query_t query = { .url = url && *url ? url : DEFAULT_URL };
    int option;
    opterr = 0;
    while ((option = getopt_long (argc, argv, ":h", s_options, NULL)) != -1) {
        if (option == HELP || option == 'h') {
            fputs (s_help, stdout);
            return 0;
        }
        if (option == '?' || option == ':')
            return tool_bad_option ("status", option, argv, s_options);
        if (option == URL)
            query.url = optarg;
        query.json |= option == JSON;
        query.healthz |= option == HEALTHZ;
    }
    if (optind < argc) {
        tool_error ("status: takes no argument %s; see tutti status --help",
                    argv[optind]);
        return TOOL_USAGE;
    }
    return s_query (&query);
}
