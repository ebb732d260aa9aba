//  client/tool/status.c - tutti status: what the coordinator knows

#include "client/tool/tool.h"

#include <curl/curl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char s_help[]
    = "tutti status: what the coordinator knows\n"
      "usage: tutti status [--json] [--healthz] [--url URL]\n"
      "  --url URL   status endpoint (TUTTI_STATUS_URL, else\n"
      "              http://127.0.0.1:7071)\n"
      "  --json      the document as it is\n"
      "  --healthz   print nothing; status 0 if the coordinator answers\n";

typedef struct text {
    char *bytes;
    size_t len;
} text_t;

static size_t
s_write (char *bytes, size_t size, size_t n, void *arg)
{
    text_t *text = arg;
    char *more = realloc (text->bytes, text->len + size * n + 1);
    if (!more)
        return 0;
    memcpy (more + text->len, bytes, size * n);
    text->bytes = more;
    text->len += size * n;
    more[text->len] = 0;
    return size * n;
}

static bool
s_get (const char *url, const char *path, text_t *text)
{
    char full[1024], error[CURL_ERROR_SIZE] = "";
    long status = 0;
    CURL *curl = curl_easy_init ();
    if (!curl)
        return false;
    snprintf (full, sizeof full, "%s%s", url, path);
    curl_easy_setopt (curl, CURLOPT_URL, full);
    curl_easy_setopt (curl, CURLOPT_WRITEFUNCTION, s_write);
    curl_easy_setopt (curl, CURLOPT_WRITEDATA, text);
    curl_easy_setopt (curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt (curl, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt (curl, CURLOPT_PROXY, "");
    CURLcode code = curl_easy_perform (curl);
    curl_easy_getinfo (curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup (curl);
    if (code == CURLE_OK && status == 200)
        return true;
    fprintf (stderr,
             "tutti status: %s: %s (HTTP %ld). Is the coordinator running? "
             "Give its endpoint with --url or TUTTI_STATUS_URL\n",
             full, error[0] ? error : "no answer", status);
    return false;
}

static const char *
s_string (const json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));
    return text ? text : "";
}

static long long
s_integer (const json_t *object, const char *key)
{
    return json_integer_value (json_object_get (object, key));
}

static void
s_print_job (const json_t *job)
{
    size_t i;
    json_t *item;
    printf ("job %s attempt %lld: %s, %lld ranks, epoch %lld, %lld bytes on "
            "the wire\n",
            s_string (job, "job"), s_integer (job, "attempt"),
            s_string (job, "state"), s_integer (job, "size"),
            s_integer (job, "epoch"), s_integer (job, "wire_bytes"));
    if (s_string (job, "text")[0])
        printf ("  %s\n", s_string (job, "text"));
    printf ("  ring:");
    json_array_foreach (json_object_get (job, "ring"), i, item)
        printf (" %s", json_string_value (item));
    printf ("\n");
    json_array_foreach (json_object_get (job, "ranks"), i, item)
        printf ("  rank %lld on %s pid %lld: %s, finished #%lld, %s\n",
                s_integer (item, "rank"), s_string (item, "node"),
                s_integer (item, "pid"), s_string (item, "state"),
                s_integer (item, "seq"), s_string (item, "op"));
}

static int
s_print (const char *text)
{
    size_t i;
    json_t *item, *status = json_loads (text, 0, NULL);
    if (!status) {
        fprintf (stderr, "tutti status: the answer is not JSON\n");
        return 1;
    }
    printf ("coordinator %s%s\n", s_string (status, "version"),
            json_is_true (json_object_get (status, "insecure"))
                ? " (INSECURE: no keys)"
                : "");
    json_array_foreach (json_object_get (status, "nodes"), i, item)
        printf ("node %s on %s (%s): %s\n", s_string (item, "node"),
                s_string (item, "host"), s_string (item, "addr"),
                s_string (item, "state"));
    json_array_foreach (json_object_get (status, "jobs"), i, item)
        s_print_job (item);
    json_decref (status);
    return 0;
}

int
tool_status (int argc, char **argv)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' },
        { "healthz", no_argument, NULL, 'z' },
        { "url", required_argument, NULL, 'u' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    const char *url = getenv ("TUTTI_STATUS_URL");
    bool json = false, healthz = false;
    int option;
    if (!url)
        url = "http://127.0.0.1:7071";
    optind = 0;
    while ((option = getopt_long (argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            fputs (s_help, stdout);
            return 0;
        }
        if (option == '?')
            return 2;
        json |= option == 'j';
        healthz |= option == 'z';
        url = option == 'u' ? optarg : url;
    }
    text_t text = { NULL, 0 };
    int status = 1;
    if (s_get (url, healthz ? "/healthz" : "/status", &text)) {
        status = 0;
        if (json)
            printf ("%s\n", text.bytes);
        else if (!healthz)
            status = s_print (text.bytes);
    }
    free (text.bytes);
    return status;
}
