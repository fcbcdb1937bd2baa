/**
 * Signs notes and checks who signed them (C2SP signed-note, tlog-cosignature), on Node's own cryptography and at
 * once: the collector has no use for the promises of the verifier that runs in browsers. Pure.
 *
 * A signature by a key that is not known says nothing and is passed over; one that names a known key and is not that
 * key's condemns the note.
 */
import { type KeyObject } from 'node:crypto';
export interface CheckpointSigner {
    /** The name of the log and of each of its keys. */
    readonly origin: string;
    /** Every key that may have signed for this log, in the order in which they took over. May grow at a rotation. */
    readonly keys: readonly NoteKey[];
    /**
     * The text as a signed note, by the current key and, while an overlap lasts, by the one before.
     * Rejects when there is no signature to be had now; it may be asked again.
     */
    sign(text: string): Promise<string>;
    /** On return `keys` has what was rotated elsewhere; where nothing is, it is not there. */
    refresh?(): Promise<void>;
}
/** Signature types that the specification assigns. */
export declare const NOTE_ED25519 = 1;
/** A verifier key that can be used: its key id is that of its key. */
export interface NoteKey {
    readonly vkey: string;
    readonly name: string;
    readonly keyId: number;
    /** The signature type: 1 signs notes, 4 and 6 cosign checkpoints. */
    readonly type: number;
    readonly publicKey: KeyObject;
}
/**
 * The verifier key under which this Ed25519 key signs notes.
 * @throws KeyMalformed when the name cannot be that of a key, or the key is none for Ed25519.
 */
export declare function verifierKeyOf(name: string, publicKey: KeyObject): string;
/**
 * Reads a verifier key: of a log (type 1), or of a witness (types 4 and 6).
 * @throws KeyMalformed when it is none, is of another type, or its key id is not that of its name and key.
 */
export declare function noteKey(vkey: string): NoteKey;
/**
 * The text as a note, signed with each of these Ed25519 keys.
 * @throws NoteMalformed when the text or a name cannot be part of a note, KeyMalformed for another kind of key.
 */
export declare function signNote(text: string, signers: readonly {
    readonly name: string;
    readonly privateKey: KeyObject;
}[]): string;
/**
 * A log has no key but those that its rotations name. So a signature of its name by another one is of a rotation whose
 * note is gone, and the key that it retired would sign again.
 * @param keys all of the log, which have one name.
 * @returns the id of that key, in hexadecimal digits; undefined when there is none, or none of `keys` has signed.
 */
export declare function unknownSigner(note: string, keys: readonly NoteKey[]): string | undefined;
/** @param keyId from {@link unknownSigner}. */
export declare function rotationMissing(keyId: string): string;
/**
 * Checks the signatures of the known keys under a note.
 * @param keys of type 1.
 * @returns the text of the note, and those of `keys` that have signed it: at least one.
 * @throws NoteMalformed, NoteUnsigned, NoteForged; KeyMalformed when a key is one of a witness.
 */
export declare function verifyNote(note: string, keys: readonly NoteKey[]): {
    text: string;
    signedBy: NoteKey[];
};
/**
 * Checks the cosignature of a witness under a checkpoint. Says nothing of the log's own signature.
 * @param witnessKey of type 4 or 6.
 * @returns the text of the checkpoint, and when the witness says that it was the newest one it had seen: seconds
 *   since 1970 UTC, the latest when it cosigned more than once.
 * @throws NoteMalformed; NoteUnsigned when the witness has not cosigned it; NoteForged when a
 *   signature names the witness's key and is not its own, or tells no time, which a witness must; KeyMalformed when
 *   the key is not one of a witness.
 */
export declare function verifyCosignature(note: string, witnessKey: NoteKey): {
    text: string;
    time: number;
};
/** The rotation notes do not lead from key to key; the message tells which note, counted from 1, and why. */
export declare class ChainBroken extends Error {
    readonly name = "ChainBroken";
}
export interface KeyChain {
    /** In the order in which they took over; at least one. */
    readonly keys: NoteKey[];
    /** The last of them. */
    readonly current: NoteKey;
    /** Of each key but the last, the end of its overlap as its rotation note says it: milliseconds since 1970 UTC. */
    readonly until: number[];
}
/**
 * @param first verifier key that the log began with; its name is the log's origin.
 * @param rotations every rotation note of the log, in order.
 * @throws KeyMalformed when the first key is none, ChainBroken.
 */
export declare function keyChain(first: string, rotations: readonly string[]): KeyChain;
