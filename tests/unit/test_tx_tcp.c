//  tests/unit/test_tx_tcp.c - the suite over TCP, IPv4 and IPv6, and what only
//  TCP can get wrong: strangers, ports, addresses, descriptors

#include "tests/unit/tx_suite.h"

#include "protocol/handshake.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static uint16_t
s_port (const side_t *side)
{
    const char *address = side->ops->address (side->tx);
    return (uint16_t) strtol (strrchr (address, ':') + 1, NULL, 10);
}

//  A blocking socket, connected, that gives up after a while.
static int
s_dial (const side_t *side)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons (s_port (side)) };
    to.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    int fd = socket (AF_INET, SOCK_STREAM, 0);
    assert_true (fd >= 0);
    struct timeval patience = { PATIENCE_MS / 1000, 0 };
    setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal (connect (fd, (struct sockaddr *) &to, sizeof to), 0);
    return fd;
}

static void
s_put (int fd, const void *bytes, size_t len)
{
    assert_int_equal (send (fd, bytes, len, MSG_NOSIGNAL), (ssize_t) len);
}

static bool
s_closed (int fd)
{
    uint8_t byte;
    ssize_t n = recv (fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void
s_still_works (side_t *server)
{
    world_open (&s_sides[1], 1);
    world_connect (&s_sides[1], server, 0);
    WAIT (s_sides, 2, s_sides[1].up == 1);
    world_close (&s_sides[1]);
}

static void
tcp_garbage (void **state)
{
    (void) state;
    side_t *server = &s_sides[0];
    world_open (server, 0);
    uint8_t bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t) (i * 31 + 7);
    for (unsigned i = 1; i <= 4; i++) {
        int fd = s_dial (server);
        bytes[0] = (uint8_t) (i == 2 ? TP_FRAME_MAGIC : 'G');
        bytes[1] = TP_FRAME_VERSION;
        s_put (fd, bytes, i == 3 ? 100 : sizeof bytes);
        if (i == 3)
            shutdown (fd, SHUT_WR);  //  half a hello
        WAIT (server, 1, s_closed (fd));
        assert_int_equal (world_stats (server).refused, i);
        close (fd);
    }
    assert_int_equal (server->accepted + server->down, 0);
    s_still_works (server);
    world_close (server);
}

static void
s_get (side_t *server, int fd, uint8_t *bytes, size_t len)
{
    size_t got = 0;
    ssize_t n = 0;
    WAIT (server, 1,
          (n = recv (fd, bytes + got, len - got, MSG_DONTWAIT)) == 0 ||
              (got += n > 0 ? (size_t) n : 0) == len);
    assert_int_equal (got, len);
}

//  A peer of ours by hand, up to and with the proofs.
static int
s_shake (side_t *server)
{
    tp_handshake_t keys;
    tp_hello_t theirs, hello = { .protocol = TP_PROTOCOL,
                                 .epoch = EPOCH,
                                 .job = "test",
                                 .from = 5,
                                 .to = 0 };
    uint8_t bytes[TP_HELLO_BYTES];
    tx_options_t options = world_options (5);
    assert_int_equal (tp_handshake_start (&keys, &hello), TUTTI_OK);
    int fd = s_dial (server);
    tp_hello_encode (&keys.mine, bytes);
    s_put (fd, bytes, 100);
    world_idle (server, 1, 5);
    s_put (fd, bytes + 100, sizeof bytes - 100);
    s_get (server, fd, bytes, TP_HELLO_BYTES);
    assert_int_equal (tp_hello_decode (&theirs, bytes), TUTTI_OK);
    assert_int_equal (tp_handshake_finish (&keys, &theirs, options.key),
                      TUTTI_OK);
    s_put (fd, keys.proof_out, TP_PROOF_BYTES);
    s_get (server, fd, bytes, TP_PROOF_BYTES);
    assert_int_equal (tp_handshake_check (&keys, bytes), TUTTI_OK);
    assert_int_equal (server->accepted, 1);
    tp_handshake_destroy (&keys);
    return fd;
}

//  One header, byte by byte, then a bad one: wrong magic, length, number, ack.
static void
tcp_bad_frames (void **state)
{
    (void) state;
    side_t *server = &s_sides[0];
    for (int fault = 0; fault < 5; fault++) {
        uint8_t bytes[TP_FRAME_BYTES + 3];
        world_open (server, 0);
        int fd = s_shake (server);
        tp_frame_t frame = world_frame (1, 0, 3);
        frame.number = 1;
        tp_frame_encode (&frame, bytes);
        memcpy (bytes + TP_FRAME_BYTES, "abc", 3);
        for (size_t i = 0; i < sizeof bytes; i++) {
            s_put (fd, bytes + i, 1);
            world_turn (server, 1);
        }
        WAIT (server, 1, server->arrived == 1);
        assert_memory_equal (server->memory, "abc", 3);
        frame.number = fault == 2 ? 1 : 2;
        frame.ack = fault == 3 ? 1 : 0;
        tp_frame_encode (&frame, bytes);
        if (fault == 0)
            bytes[0] ^= 1;
        if (fault == 1)
            memset (bytes + 8, 0xff, 4);  //  len
        s_put (fd, bytes, fault == 4 ? 50 : TP_FRAME_BYTES);
        if (fault == 4)
            close (fd);  //  in the middle of a header
        WAIT (server, 1, server->down == 1);
        assert_int_equal (server->err,
                          fault == 4 ? TUTTI_EPEERLOST : TUTTI_EPROTO);
        assert_int_equal (server->arrived, 1);
        if (fault != 4)
            close (fd);
        s_still_works (server);
        world_close (server);
    }
}

//  A stranger that says nothing is let go; a parked one may not talk.
static void
tcp_silent (void **state)
{
    (void) state;
    side_t *server = &s_sides[0];
    world_open (server, 0);
    int fd = s_dial (server);
    int64_t start_ms = world_ms ();
    WAIT (server, 1, s_closed (fd));
    int64_t took_ms = world_ms () - start_ms;
    assert_true (took_ms >= 4900 && took_ms < 15000);
    assert_int_equal (world_stats (server).refused, 1);
    close (fd);
    world_close (server);
}

static void
tcp_too_many_wait (void **state)
{
    (void) state;
    side_t *server = &s_sides[0];
    int fds[70];
    tx_options_t options = world_options (0);
    options.epoch = 0;
    world_open_with (server, &options);
    tp_handshake_t keys;
    tp_hello_t hello = { .protocol = TP_PROTOCOL, .epoch = EPOCH, .from = 5 };
    memcpy (hello.job, "test", 5);
    uint8_t bytes[TP_HELLO_BYTES];
    assert_int_equal (tp_handshake_start (&keys, &hello), TUTTI_OK);
    tp_hello_encode (&keys.mine, bytes);
    for (int i = 0; i < 70; i++) {
        fds[i] = s_dial (server);
        s_put (fds[i], bytes, sizeof bytes);
        world_turn (server, 1);
    }
    WAIT (server, 1, world_stats (server).refused == 6);
    world_idle (server, 1, 20);
    assert_int_equal (world_stats (server).refused, 6);
    s_put (fds[0], bytes, 1);
    WAIT (server, 1, world_stats (server).refused == 7);
    for (int i = 0; i < 70; i++)
        close (fds[i]);
    WAIT (server, 1, world_stats (server).refused == 70);
    world_close (server);
}

static void
tcp_ports (void **state)
{
    (void) state;
    side_t *first = &s_sides[0], *second = &s_sides[1];
    world_open (first, 0);
    tx_options_t options = world_options (1);
    options.port_lo = options.port_hi = s_port (first);
    const tx_ops_t *ops = first->ops;
    tx_t *tx = NULL;
    assert_int_equal (ops->open (&tx, &options, &world_handler, NULL),
                      TUTTI_EAGAIN);
    assert_int_equal (errno, EADDRINUSE);
    assert_null (tx);
    if (options.port_lo < 65000) {
        options.port_hi = (uint16_t) (options.port_lo + 200);
        world_open_with (second, &options);
        assert_in_range (s_port (second), options.port_lo + 1,
                         options.port_hi);
        world_close (second);
    }
    options.port_hi = 0;
    assert_int_equal (ops->open (&tx, &options, &world_handler, NULL),
                      TUTTI_EINVAL);
    world_close (first);
}

static void
tcp_addresses (void **state)
{
    (void) state;
    static const struct {
        const char *bind;
        const char *prefix;  //  NULL: no such address
    } cases[] = {
        { "127.0.0.1", "127.0.0.1:" },
        { "0.0.0.0", "127.0.0.1:" },
        { "127.0.0.9", "127.0.0.9:" },
        { "::", "[::1]:" },
        { "::1", "[::1]:" },
        { "192.0.2.1", NULL },
        { "localhost", NULL },
        { "", NULL },
        { "1.2.3", NULL },
    };
    const tx_ops_t *ops = tx_find ("tcp");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_options_t options = world_options (0);
        options.bind = cases[i].bind;
        tx_t *tx = NULL;
        tutti_err_t err = ops->open (&tx, &options, &world_handler, NULL);
        assert_int_equal (err, cases[i].prefix ? TUTTI_OK : TUTTI_EINVAL);
        if (!tx)
            continue;
        assert_ptr_equal (strstr (ops->address (tx), cases[i].prefix),
                          ops->address (tx));
        ops->destroy (&tx);
    }
    static const char *const bad[] = {
        "127.0.0.1", "127.0.0.1:", "::1:80",  "[::1]80",  ":80",
        "[]:80",     "host:80",    "[::1:80", "1.2.3.4:x"
    };
    side_t *side = s_sides;
    world_open (side, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal (ops->connect (side->tx, bad[i], 1, NULL, &side->ep),
                          TUTTI_EINVAL);
    assert_int_equal (ops->connect (side->tx, NULL, 1, NULL, &side->ep),
                      TUTTI_EINVAL);
    world_close (side);
}

static int
s_open_fds (void)
{
    int n = 0;
    DIR *dir = opendir ("/proc/self/fd");
    assert_non_null (dir);
    while (readdir (dir))
        n++;
    closedir (dir);
    return n;
}

static void
tcp_leaks_no_fds (void **state)
{
    int before = s_open_fds ();
    suite_connects_once (state);
    suite_peer_dies (state);
    suite_owner_refuses (state);
    suite_close_while_connecting (state);
    assert_int_equal (s_open_fds (), before);
}

//  Out of descriptors: the listener rests, then takes who waited.
static void
tcp_no_descriptors (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    struct rlimit was, now;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    world_connect (&pair[0], &pair[1], 1);
    pair[0].ops->poll (pair[0].tx, 100000);  //  its socket exists now
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &was), 0);
    now = was;
    now.rlim_cur = 0;
    setrlimit (RLIMIT_NOFILE, &now);
    int turns = 0;
    int64_t end_ms = world_ms () + 300;
    while (world_ms () < end_ms) {
        pair[1].ops->poll (pair[1].tx, 20000);
        turns++;
    }
    setrlimit (RLIMIT_NOFILE, &was);
    assert_true (turns < 60);  //  it slept
    WAIT (pair, 2, pair[0].up == 1 && pair[1].accepted == 1);
    world_close_pair (pair);
}

//  Many small frames travel in few system calls.
static void
tcp_coalesces (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    uint64_t writes = world_stats (&pair[0]).writes;
    uint64_t reads = world_stats (&pair[1]).reads;
    for (uint64_t i = 1; i <= 3200; i++)
        world_post (&pair[0], i, 0, 16, 0);
    WAIT (pair, 2, pair[1].arrived == 3200);
    assert_true (world_stats (&pair[0]).writes - writes <= 3200 / 20);
    assert_true (world_stats (&pair[1]).reads - reads <= 3200 / 20);
    world_close_pair (pair);
}

static const struct CMUnitTest s_tests[] = {
    cmocka_unit_test (tcp_garbage),      cmocka_unit_test (tcp_bad_frames),
    cmocka_unit_test (tcp_silent),       cmocka_unit_test (tcp_too_many_wait),
    cmocka_unit_test (tcp_ports),        cmocka_unit_test (tcp_addresses),
    cmocka_unit_test (tcp_leaks_no_fds), cmocka_unit_test (tcp_no_descriptors),
    cmocka_unit_test (tcp_coalesces),
};

int
main (void)
{
    world_transport = "tcp";
    int failed =
        cmocka_run_group_tests_name ("tcp IPv4", suite_tests, NULL, NULL);
    failed += cmocka_run_group_tests_name ("tcp", s_tests, NULL, NULL);
    world_bind = "::1";
    failed +=
        cmocka_run_group_tests_name ("tcp IPv6", suite_tests, NULL, NULL);
    return failed;
}
