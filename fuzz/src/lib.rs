//! Fuzz tests: parsers of bytes from outside must handle any bytes without a panic, unbounded work
//! or an index out of range.
//!
//! Each function is a target of cargo-fuzz (`cargo +nightly fuzz run NAME --features libfuzzer`).
//! This crate's tests also run it with proptest, on random bytes and on damaged valid ones.

use steelbank::source::tap::sidecar::{Sidecar, fnv_1a};
use steelbank_reader::{Dialect, Features, LispText};
use steelbank_xref::{Index, Kind, bake};

/// Parses a line from an MCP client.
pub fn wire(bytes: &[u8]) {
    steelbank::doors::mcp::reads_as_message(bytes);
}

/// Parses Lisp text in the dialect selected by the first byte.
pub fn reader(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else { return };
    let dialect = [Dialect::CommonLisp, Dialect::EmacsLisp, Dialect::Scheme, Dialect::Clojure];
    LispText::read(text, dialect[usize::from(choice % 4)], &Features::sbcl());
}

/// Parses a sidecar, both from the bytes as given and with a header and a correct checksum, and
/// queries the result.
pub fn sidecar(bytes: &[u8]) {
    let mut sealed = b"SBTAP\x00\x03".to_vec();
    sealed.extend_from_slice(bytes);
    let checksum = fnv_1a(&sealed);
    sealed.extend_from_slice(&checksum.to_le_bytes());
    for bytes in [bytes, &sealed] {
        let Ok(sidecar) = Sidecar::parse(bytes) else { continue };
        for number in [0, 1, 7, u32::MAX] {
            let Some(form) = sidecar.form(number) else { continue };
            for event in [0, 1, 2, 1000] {
                form.sub_form(event);
                form.nearest_sub_form(event);
                form.children(event as usize).for_each(drop);
                form.ancestors(event as usize).for_each(drop);
            }
        }
    }
}

/// Bakes, opens and queries an export of cross references, and applies it to an index.
pub fn xref(bytes: &[u8]) {
    // The bytes may also be an index.
    for baked in [bake::bake(bytes, &[7; 32]).ok(), Some(bytes.to_vec())].into_iter().flatten() {
        let Ok(index) = Index::open(baked) else { continue };
        query(&index);
        if let Ok(index) = index.apply(bytes) {
            query(&index);
        }
    }
}

fn query(index: &Index) {
    for package in index.packages().take(4) {
        index.package_text(package);
        index.find_symbol("F", package);
    }
    for symbol in index.symbols().take(8) {
        index.symbol_text(symbol);
        for kind in Kind::ALL {
            index.who(kind, symbol, |_| true);
        }
    }
    index.find_package("P", None);
    index.form_after("SYS:A.LISP", 7);
}

/// Reads a record of each kind, with a correct heading line.
pub fn record(bytes: &[u8]) {
    steelbank::fuzzing::records(bytes);
}

/// Reads a segment of the text index with correct checksums. The first byte determines which part
/// of the rest is the table.
pub fn segment(bytes: &[u8]) {
    let Some((part, rest)) = bytes.split_first() else { return };
    let (table, body) = rest.split_at(rest.len() * usize::from(*part) / 256);
    steelbank_text::fuzzing::segment(table, body);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steelbank_xref::writer::ExportWriter;

    fn export() -> Vec<u8> {
        let mut writer = ExportWriter::new(0, 9);
        let package = writer.package("P", &["Q"]);
        let user = writer.package("U", &[]);
        writer.uses(user, package);
        writer.local_nickname(user, "L", package);
        let symbol = writer.intern(package, "F", true);
        let name = writer.name(symbol, 0);
        let source = writer.source("/a.lisp");
        let function = writer.function("P::G", symbol, (7, 0), 1);
        writer.placed(function, source, 3, 40);
        writer.record(0, name, function, 5);
        writer.survivor((7, 0), 1);
        writer.refuted((7, 0));
        writer.finish()
    }

    const MANIFEST: &[u8] = br#"{"core":{"bytes":9,"crc":7},"index":{"bytes":9,"crc":7},"root":"/p","kind":"whole","loads":[{"system":"a"}],"systems":[{"name":"a","asd":"/p/a.asd","own":["/p/a.lisp"]}],"inputs":{"files":[["/p/a.lisp",null]],"folders":[],"variables":[["HOME",null]]},"answers":[],"image":{}}
"#;

    const REFUSAL: &[u8] =
        b"{\"why\":\"No.\",\"systems\":[],\"inputs\":{\"files\":[],\"folders\":[],\"variables\":[]}}\n";

    const HANDOVER: &[u8] = br#"[{"clients":[{"input":5,"output":6,"protocol":"","joined":null}],"listener":null,"project":"/p","loads":["project"],"deaths":[1],"restarts":[]},[[4,1]]]
{"id""#;

    const NAMES: &[u8] = b"[{\"path\":\"/p/a.lisp\",\"written\":1,\"sidecar\":null,\"seen\":null}]\n\
        \x01\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0";

    const EDIT: &[u8] = br#"{"root":{"Unix":[47]},"what":"a","purpose":"Undoable","token":1,"files":[{"path":{"Unix":[97]},"old":{"size":0,"hash":14695981039346656037},"new":{"size":1,"hash":12638187200555641996}}]}
a"#;

    /// Found by libFuzzer: a query for the first event of a form without events.
    #[test]
    fn a_form_without_events() {
        super::sidecar(b"\x24\xff\xff\x01\0\x80\xff\x01\0\0\0\0\0\0\0\x01\x01\0\0\0");
    }

    #[test]
    fn undamaged_records_are_valid() {
        for (kind, record) in [MANIFEST, REFUSAL, HANDOVER, NAMES, EDIT].into_iter().enumerate() {
            assert!(steelbank::fuzzing::records(record)[kind], "{kind}");
        }
    }

    /// Returns valid bytes with some of them changed, possibly truncated.
    fn damaged(good: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
        let length = good.len();
        (proptest::collection::vec((0..length, any::<u8>()), 0..8), 0..=length).prop_map(
            move |(changes, end)| {
                let mut bytes = good.clone();
                for (at, byte) in changes {
                    bytes[at] = byte;
                }
                bytes.truncate(end.max(length / 2));
                bytes
            },
        )
    }

    proptest! {
        #[test]
        fn wire(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            super::wire(&bytes);
        }

        #[test]
        fn damaged_wire(bytes in damaged(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[1,null,"\ud800"]}}}"#.to_vec())) {
            super::wire(&bytes);
        }

        #[test]
        fn reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            super::reader(&bytes);
        }

        #[test]
        fn damaged_reader(bytes in damaged(b"\0#+(or a #.b) #1=(a . #|x|# `(,@b ,c #(1 2) |d e| \"f\\\"\" #\\) #'g)) (in-package :p)".to_vec())) {
            super::reader(&bytes);
        }

        #[test]
        fn sidecar(bytes in proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..300)) {
            super::sidecar(&bytes);
        }

        #[test]
        fn xref(bytes in damaged(export())) {
            super::xref(&bytes);
        }

        #[test]
        fn baked_xref(bytes in damaged(steelbank_xref::bake::bake(&export(), &[7; 32]).unwrap())) {
            super::xref(&bytes);
        }

        #[test]
        fn record(bytes in proptest::sample::select(vec![MANIFEST, REFUSAL, HANDOVER, NAMES, EDIT]).prop_flat_map(|good| damaged(good.to_vec()))) {
            super::record(&bytes);
        }

        #[test]
        fn segment(bytes in proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..300)) {
            super::segment(&bytes);
        }
    }
}
