//! Wrong bytes, for every decoder: damage is found, and a forged checksum does no harm.

use super::{block, log_entry, record};
use crate::bytes::put_checksum;

/// A format: bytes of a sample, and a decoder that reads all of it.
type CodecSample = (&'static str, Vec<u8>, fn(&[u8]) -> bool);

fn formats() -> [CodecSample; 3] {
    [
        ("record", record::encode(&record::tests::sample()), |bytes| record::tests::read_all(bytes).is_ok()),
        ("log entry", log_entry::tests::sample(), |bytes| log_entry::decode(bytes).is_ok()),
        ("block", block::tests::encode_all(&block::tests::sample()), |bytes| {
            block::tests::read_all(bytes).is_ok()
        }),
    ]
}

#[test]
fn every_cut_and_every_flipped_bit_is_found() {
    for (name, bytes, reads) in formats() {
        assert!(reads(&bytes), "{name}");
        for length in 0..bytes.len() {
            assert!(!reads(&bytes[..length]), "{name} cut to {length}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(!reads(&changed), "{name}: bit {bit} of byte {at}");
            }
        }
    }
}

/// Decoders check what they read, so that wrong bytes are an error and never a panic.
#[test]
fn a_forged_checksum_does_no_harm() {
    for (_, bytes, reads) in formats() {
        let body = &bytes[..bytes.len() - 4];
        for at in 1..body.len() {
            for value in [0x00, 0x01, 0x3c, 0x7f, 0x80, 0xff] {
                let mut changed = body.to_vec();
                changed[at] = value;
                put_checksum(&mut changed);
                reads(&changed);
            }
        }
    }
}
