//! The examples of RFC 7541, and blocks that are none. Beside another reader: `tests/it/hpack.rs`.

use super::super::encoder::put_field;
use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| u8::try_from(digit).unwrap())
        .collect();
    digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

fn fields(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode(block, |field| fields.push(format!("{}: {}", text(field.name), text(field.value))))?;
    Ok(fields)
}

/// Blocks of one connection, each with its fields and the size of the table after it.
fn check(blocks: &[(&str, &[&str], usize)]) {
    let mut decoder = HpackDecoder::new(&[]);
    for (block, expected, bytes) in blocks {
        assert_eq!(fields(&mut decoder, &hex(block)).unwrap(), *expected);
        assert_eq!(decoder.table.bytes(), *bytes);
    }
}

#[test]
fn fields_of_every_representation_are_read() {
    // C.2.1 to C.2.4.
    check(&[(
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        &["custom-key: custom-header"],
        55,
    )]);
    check(&[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], 0)]);
    check(&[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"], 0)]);
    check(&[("82", &[":method: GET"], 0)]);
}

const FIRST: &[&str] = &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
const SECOND: &[&str] =
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"];
const THIRD: &[&str] = &[
    ":method: GET",
    ":scheme: https",
    ":path: /index.html",
    ":authority: www.example.com",
    "custom-key: custom-value",
];

#[test]
fn requests_without_huffman_are_read() {
    // C.3.
    check(&[
        ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST, 57),
        ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, 110),
        ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", THIRD, 164),
    ]);
}

#[test]
fn requests_with_huffman_are_read() {
    // C.4.
    check(&[
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57),
        ("8286 84be 5886 a8eb 1064 9cbf", SECOND, 110),
        ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD, 164),
    ]);
}

#[test]
fn a_table_that_is_full_forgets_the_oldest() {
    // C.5, with a table of 256 bytes.
    let mut decoder = HpackDecoder::new(&[]);
    fields(&mut decoder, &[0x3f, 0xe1, 0x01]).unwrap();
    let first = "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 \
                 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d";
    let seen = fields(&mut decoder, &hex(first)).unwrap();
    assert_eq!(seen[0], ":status: 302");
    assert_eq!((seen.len(), decoder.table.bytes()), (4, 222));
    let seen = fields(&mut decoder, &hex("4803 3330 37c1 c0bf")).unwrap();
    let expected = [
        ":status: 307",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ];
    assert_eq!(seen, expected);
    assert_eq!(decoder.table.bytes(), 222);
}

#[test]
fn blocks_that_are_none_are_refused() {
    let rows: [&[u8]; 10] = [
        &[0x80],                                           // index 0
        &[0xbe],                                           // an entry that is not there
        &[0x7f, 0x00],                                     // a name that is not there
        &[0x40],                                           // the name is missing
        &[0x40, 0x01],                                     // half of it
        &[0x40, 0x01, b'a'],                               // the value is missing
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00], // a number without end
        &[0x3f, 0xe2, 0x1f],                               // a table of 4097 bytes
        &[0x82, 0x20],                                     // a new size after a field
        &[0x40, 0x81, 0x00, 0x00],                         // a text that ends within a code
    ];
    for block in rows {
        assert_eq!(fields(&mut HpackDecoder::new(&[]), block), Err(HpackError), "{block:?}");
    }
}

#[test]
fn an_entry_that_does_not_fit_empties_the_table() {
    let mut decoder = HpackDecoder::new(&[]);
    fields(&mut decoder, b"\x40\x01a\x01b").unwrap();
    assert_eq!(fields(&mut decoder, &[0xbe]).unwrap(), ["a: b"]);
    let long = [&[0x40, 1, b'a', 0x7f, 0x81, 0x1f][..], &[b'x'; 127 + 1 + 31 * 128]].concat();
    fields(&mut decoder, &long).unwrap();
    assert_eq!((fields(&mut decoder, &[0xbe]), decoder.table.bytes()), (Err(HpackError), 0));
    // As does a size of 0, after which a larger one may come at once.
    fields(&mut decoder, b"\x40\x01a\x01b").unwrap();
    fields(&mut decoder, &[0x20, 0x3f, 0xe1, 0x1f]).unwrap();
    assert_eq!(decoder.table.bytes(), 0);
}

#[test]
fn a_field_of_the_table_keeps_what_it_means() {
    let mut decoder = HpackDecoder::new(&["/known"]);
    let mut kinds = Vec::new();
    for block in [&b"\x44\x06/known\x5f\x10application/grpc"[..], b"\xbf\xbe\x83"] {
        decoder.decode(block, |field| kinds.push(field.kind)).unwrap();
    }
    let (path, content) = (FieldKind::KnownPath(0), FieldKind::GrpcContent);
    assert_eq!(kinds, [path, content, path, content, FieldKind::Post]);
}

#[test]
fn a_known_path_that_is_spelt_out_again_is_the_same_and_another_is_not() {
    let mut decoder = HpackDecoder::new(&["/a", "/ab"]);
    let mut seen = Vec::new();
    // Plain, and `/a` in Huffman's code: 011000 00011 1111.
    let blocks: [&[u8]; 7] = [
        b"\x04\x02/a",
        b"\x04\x02/a\x83",
        b"\x04\x03/ab",
        b"\x04\x82\x60\x7f",
        b"\x04\x82\x60\x7f",
        b"\x04\x02/b",
        b"\x04\x02/a",
    ];
    for block in blocks {
        decoder.decode(block, |field| seen.push((field.kind, field.value.to_vec()))).unwrap();
    }
    let (a, path) =
        ((FieldKind::KnownPath(0), b"/a".to_vec()), |text: &[u8]| (FieldKind::Path, text.to_vec()));
    let post = (FieldKind::Post, b"POST".to_vec());
    let ab = (FieldKind::KnownPath(1), b"/ab".to_vec());
    assert_eq!(seen, [a.clone(), a.clone(), post, ab, a.clone(), a.clone(), path(b"/b"), a]);
    // Half of it is not it.
    assert_eq!(decoder.decode(b"\x04\x02/", |_| ()), Err(HpackError));
}

#[test]
fn what_is_written_is_what_is_read() {
    let mut block = Vec::new();
    let long = "x".repeat(300);
    let written =
        [(":status", "200"), (":status", "431"), ("content-type", "a/b"), ("grpc-status", "0"), ("n", &long)];
    for (name, value) in written {
        put_field(&mut block, name.as_bytes(), value.as_bytes());
    }
    let expected: Vec<String> = written.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(fields(&mut HpackDecoder::new(&[]), &block).unwrap(), expected);
}
