//  protocol/handshake.c - keys of one data connection
//
//  first is the hello of the lower node index, second the other:
//
//    root          = BLAKE2b (key: epoch key, label, X25519 secret,
//                             first, second), 64 bytes
//    key  (a -> b) = BLAKE2b (key: root, "key",   a, b), 32 bytes
//    proof(a -> b) = BLAKE2b (key: root, "proof", a, b), 32 bytes
//
//  The hellos hold both randoms and ephemerals, job, epoch, channel and both
//  nodes, as they were sent: whatever was changed on the way, both sides come
//  to different proofs.

#include "protocol/handshake.h"

#include <sodium.h>
#include <string.h>

#define ROOT_BYTES 64

static const char s_label[] = "tutti data connection 1";

tutti_err_t
tp_handshake_start (tp_handshake_t *self, const tp_hello_t *hello)
{
    if (sodium_init () < 0)
        return TUTTI_ENOTSUP;
    memset (self, 0, sizeof *self);
    self->mine = *hello;
    randombytes_buf (self->secret, sizeof self->secret);
    randombytes_buf (self->mine.random, sizeof self->mine.random);
    crypto_scalarmult_base (self->mine.ephemeral, self->secret);
    return TUTTI_OK;
}

static tutti_err_t
s_same_connection (const tp_hello_t *mine, const tp_hello_t *theirs)
{
    if (strcmp (mine->job, theirs->job) != 0 || mine->epoch != theirs->epoch)
        return TUTTI_EDENIED;
    if (mine->channel != theirs->channel || mine->from != theirs->to ||
        mine->to != theirs->from || mine->from == mine->to)
        return TUTTI_EPROTO;
    return TUTTI_OK;
}

static void
s_root (uint8_t root[ROOT_BYTES], const uint8_t epoch_key[TP_KEY_BYTES],
        const uint8_t *shared, const tp_hello_t *a, const tp_hello_t *b)
{
    uint8_t bytes[TP_HELLO_BYTES];
    const tp_hello_t *first = a->from < b->from ? a : b;
    const tp_hello_t *second = a->from < b->from ? b : a;
    crypto_generichash_state state;
    crypto_generichash_init (&state, epoch_key, TP_KEY_BYTES, ROOT_BYTES);
    crypto_generichash_update (&state, (const uint8_t *) s_label,
                               sizeof s_label);
    crypto_generichash_update (&state, shared, crypto_scalarmult_BYTES);
    tp_hello_encode (first, bytes);
    crypto_generichash_update (&state, bytes, sizeof bytes);
    tp_hello_encode (second, bytes);
    crypto_generichash_update (&state, bytes, sizeof bytes);
    crypto_generichash_final (&state, root, ROOT_BYTES);
    sodium_memzero (&state, sizeof state);
}

//  32 bytes for PURPOSE, "key" or "proof", in the direction FROM -> TO.
static void
s_derive (uint8_t out[32], const uint8_t root[ROOT_BYTES], const char *purpose,
          uint32_t from, uint32_t to)
{
    uint8_t text[16] = { 0 };
    memcpy (text, purpose, strlen (purpose));
    for (int i = 0; i < 4; i++) {
        text[8 + i] = (uint8_t) (from >> (8 * i));
        text[12 + i] = (uint8_t) (to >> (8 * i));
    }
    crypto_generichash (out, 32, text, sizeof text, root, ROOT_BYTES);
}

tutti_err_t
tp_handshake_finish (tp_handshake_t *self, const tp_hello_t *theirs,
                     const uint8_t epoch_key[TP_KEY_BYTES])
{
    uint8_t shared[crypto_scalarmult_BYTES], root[ROOT_BYTES];
    tutti_err_t err = s_same_connection (&self->mine, theirs);
    //  A point of small order would make the secret known to everybody.
    if (!err &&
        crypto_scalarmult (shared, self->secret, theirs->ephemeral) != 0)
        err = TUTTI_EDENIED;
    sodium_memzero (self->secret, sizeof self->secret);
    if (err)
        return err;

    uint32_t me = self->mine.from, peer = theirs->from;
    s_root (root, epoch_key, shared, &self->mine, theirs);
    s_derive (self->key_out, root, "key", me, peer);
    s_derive (self->key_in, root, "key", peer, me);
    s_derive (self->proof_out, root, "proof", me, peer);
    s_derive (self->proof_in, root, "proof", peer, me);
    sodium_memzero (shared, sizeof shared);
    sodium_memzero (root, sizeof root);
    return TUTTI_OK;
}

tutti_err_t
tp_handshake_check (const tp_handshake_t *self,
                    const uint8_t proof[TP_PROOF_BYTES])
{
    //  Zeros are what is there before finish: they prove nothing.
    if (sodium_is_zero (self->proof_in, TP_PROOF_BYTES) ||
        sodium_memcmp (self->proof_in, proof, TP_PROOF_BYTES) != 0)
        return TUTTI_EDENIED;
    return TUTTI_OK;
}

void
tp_handshake_destroy (tp_handshake_t *self)
{
    sodium_memzero (self, sizeof *self);
}
