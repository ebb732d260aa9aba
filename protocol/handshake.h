//  protocol/handshake.h - keys of one data connection (libsodium; daemons)
//
//  mine and theirs are the hellos as sent and received. Each side proves that
//  it knows the epoch key by a MAC over both hellos and the shared secret;
//  a peer that cannot is closed before a frame is read.
//  Sources: libsodium crypto_kx / crypto_scalarmult (X25519, RFC 7748) and
//  crypto_generichash (BLAKE2b, RFC 7693). A new connection
//  is a new key, so counter nonces from 0 never repeat.

#ifndef TP_HANDSHAKE_H
#define TP_HANDSHAKE_H

#include "protocol/frame.h"

typedef struct tp_handshake {
    uint8_t secret[32];  //  ephemeral X25519 secret; wiped by finish
    tp_hello_t mine;
    uint8_t key_out[TP_KEY_BYTES];  //  valid after finish
    uint8_t key_in[TP_KEY_BYTES];
    uint8_t proof_out[TP_PROOF_BYTES];
    uint8_t proof_in[TP_PROOF_BYTES];  //  what the peer must send
} tp_handshake_t;

//  Fill random, ephemeral and the secret; HELLO supplies the rest.
//  TUTTI_ENOTSUP if libsodium cannot start.
tutti_err_t
tp_handshake_start (tp_handshake_t *self, const tp_hello_t *hello);

//  The peer's hello has arrived and was decoded. Checks job, epoch, channel
//  and that from/to mirror ours (for an acceptor, from is learnt: pass the
//  hello to start () after reading the peer's). TUTTI_EPROTO, TUTTI_EDENIED.
tutti_err_t
tp_handshake_finish (tp_handshake_t *self, const tp_hello_t *theirs,
                     const uint8_t epoch_key[TP_KEY_BYTES]);

//  Constant time. TUTTI_EDENIED if it is not the proof.
tutti_err_t
tp_handshake_check (const tp_handshake_t *self,
                    const uint8_t proof[TP_PROOF_BYTES]);

//  Wipe everything secret.
void
tp_handshake_destroy (tp_handshake_t *self);

#endif
