"""AES-256 (FIPS 197) in CTR (NIST SP 800-38A) and GCM (SP 800-38D), small and slow, for decoder.py."""

import struct


def times_x(byte):
    return ((byte << 1) ^ (0x11B if byte & 0x80 else 0)) & 0xFF


def s_box():
    box, p, q = [0] * 256, 1, 1
    while True:
        p ^= times_x(p)  # p times 3
        q ^= q << 1  # q divided by 3
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        rotated = q ^ (q << 1 | q >> 7) ^ (q << 2 | q >> 6) ^ (q << 3 | q >> 5) ^ (q << 4 | q >> 4)
        box[p] = (rotated & 0xFF) ^ 0x63
        if p == 1:
            box[0] = 0x63
            return box


S = s_box()


class Aes256:
    def __init__(self, key):
        assert len(key) == 32, "a key has 32 bytes"
        words = [list(key[i : i + 4]) for i in range(0, 32, 4)]
        constant = 1
        for i in range(8, 60):
            word = list(words[-1])
            if i % 8 == 0:
                word = [S[b] for b in word[1:] + word[:1]]
                word[0] ^= constant
                constant = times_x(constant)
            elif i % 8 == 4:
                word = [S[b] for b in word]
            words.append([a ^ b for a, b in zip(words[i - 8], word)])
        self.round_keys = [sum(words[i : i + 4], []) for i in range(0, 60, 4)]

    def block(self, block):
        state = [a ^ b for a, b in zip(block, self.round_keys[0])]
        for number, key in enumerate(self.round_keys[1:], 1):
            # SubBytes and ShiftRows; a column is four bytes in a row.
            state = [S[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
            if number < 14:
                mixed = []
                for at in range(0, 16, 4):
                    a, b, c, d = state[at : at + 4]
                    for w, x, y, z in ((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c)):
                        mixed.append(times_x(w) ^ times_x(x) ^ x ^ y ^ z)
                state = mixed
            state = [a ^ b for a, b in zip(state, key)]
        return bytes(state)

    def ctr(self, first, data, counter_bits=128):
        counter, high = int.from_bytes(first, "big"), 1 << counter_bits
        out = bytearray()
        for at in range(0, len(data), 16):
            now = counter - counter % high + (counter + at // 16) % high
            out += bytes(a ^ b for a, b in zip(data[at : at + 16], self.block(now.to_bytes(16, "big"))))
        return bytes(out)

    def open_gcm(self, nonce, associated, data, tag):
        """The plaintext; None where the tag does not fit."""
        h = int.from_bytes(self.block(bytes(16)), "big")
        y = 0
        lengths = struct.pack(">QQ", 8 * len(associated), 8 * len(data))
        for part in (associated, data, lengths):
            for at in range(0, len(part), 16):
                y = ghash_product(y ^ int.from_bytes(part[at : at + 16].ljust(16, b"\0"), "big"), h)
        expected = bytes(a ^ b for a, b in zip(y.to_bytes(16, "big"), self.block(nonce + b"\0\0\0\1")))
        return self.ctr(nonce + b"\0\0\0\2", data, 32) if expected == tag else None


def ghash_product(x, y):
    z = 0
    for bit in range(127, -1, -1):
        if x >> bit & 1:
            z ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return z
