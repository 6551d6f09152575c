//! Benchmarks the cross-reference index on the image's own records and on a million synthetic ones.
//!
//! Compare ratios: `scan` is the cost of an answer without an index (a pass over all decoded
//! records). Comparing the times for a million records with the times for the image shows that they
//! do not depend on the number of records.

#![allow(clippy::expect_used)]

use divan::{Bencher, black_box};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use steelbank::actions::uses::who::WhoRequest;
use steelbank_xref::columns::RecordColumn;
use steelbank_xref::writer::ExportWriter;
use steelbank_xref::{Index, Kind, NameRole, bake};

fn main() {
    divan::main();
}

fn bytes() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let path = Path::new(steelbank::Installation::BUILT).join("steelbank.xref");
    BYTES.get_or_init(|| fs::read(path).expect("the build makes the index"))
}

fn image() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| Index::open(bytes()).expect("the index is sound"))
}

const NAMES: u32 = 20_000;
const FUNCTIONS: u32 = 50_000;
const RECORDS: u32 = 1_000_000;

/// Creates an export of names N0, N1 and so on with 50 uses each, and a name RARE with eight.
fn synthetic_export() -> Vec<u8> {
    let mut writer = ExportWriter::new(0, 1);
    let package = writer.package("P", &[]);
    let mut name = |text: &str| {
        let symbol = writer.intern(package, text, true);
        writer.name(symbol, 0)
    };
    let names: Vec<u32> = (0..NAMES).map(|number| name(&format!("N{number}"))).collect();
    let rare = name("RARE");
    for number in 0..FUNCTIONS {
        writer.function(&format!("P::F{number:05}"), u32::MAX, (number, 0), 1);
    }
    for record in 0..RECORDS {
        writer.record(0, names[(record % NAMES) as usize], record * 7919 % FUNCTIONS, record);
    }
    for record in 0..8 {
        writer.record(0, rare, record * 5000, record);
    }
    writer.finish()
}

fn million() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let bytes = bake::bake(&synthetic_export(), &[]).expect("the export is sound");
        Index::open(bytes).expect("the index is sound")
    })
}

#[divan::bench]
fn open(bencher: Bencher<'_, '_>) {
    let bytes = bytes();
    bencher.bench(|| Index::open(bytes));
}

#[divan::bench(args = ["CAR", "*PRINT-BASE*", "NOT-THERE"])]
fn find_symbol(bencher: Bencher<'_, '_>, name: &str) {
    let index = image();
    let package = index.find_package("CL-USER", None).expect("CL-USER");
    bencher.bench(|| index.find_symbol(black_box(name), package));
}

#[divan::bench]
fn who_references_print_base_8(bencher: Bencher<'_, '_>) {
    let request = WhoRequest::new(Kind::References, "*print-base*").recorded();
    let index = image();
    bencher.bench(|| request.answer_from_index(index));
}

#[divan::bench]
fn who_calls_mapcar_505(bencher: Bencher<'_, '_>) {
    let request = WhoRequest::new(Kind::Calls, "mapcar").recorded();
    let index = image();
    bencher.bench(|| request.answer_from_index(index));
}

#[divan::bench]
fn who_calls_mapcar_as_text(bencher: Bencher<'_, '_>) {
    let request = WhoRequest::new(Kind::Calls, "mapcar").recorded();
    let index = image();
    bencher.bench(|| request.answer_from_index(index).map(|answer| answer.to_string()));
}

#[divan::bench]
fn million_records_8_uses(bencher: Bencher<'_, '_>) {
    let request = WhoRequest::new(Kind::Calls, "rare").package("P").recorded();
    let index = million();
    bencher.bench(|| request.answer_from_index(index));
}

#[divan::bench]
fn million_records_50_uses(bencher: Bencher<'_, '_>) {
    let request = WhoRequest::new(Kind::Calls, "n17").package("P").recorded();
    let index = million();
    bencher.bench(|| request.answer_from_index(index));
}

/// Answers the same query by a pass over all records.
#[divan::bench]
fn million_records_scan(bencher: Bencher<'_, '_>) {
    let export = synthetic_export();
    let export = steelbank_xref::export::Export::read(&export).expect("the export is sound");
    let records = export.records();
    bencher.bench(|| {
        (0..records.rows())
            .filter(|row| {
                records.cell(*row, RecordColumn::Kind) == 0 && records.cell(*row, RecordColumn::Name) == NAMES
            })
            .map(|row| records.cell(row, RecordColumn::Function))
            .collect::<Vec<_>>()
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn bake_a_million_records(bencher: Bencher<'_, '_>) {
    let export = synthetic_export();
    bencher.bench(|| bake::bake(&export, &[]).map(|bytes| bytes.len()));
}

#[divan::bench]
fn uses_without_grouping_mapcar(bencher: Bencher<'_, '_>) {
    let index = image();
    let package = index.find_package("CL", None).expect("CL");
    let (symbol, _) = index.find_symbol("MAPCAR", package).expect("MAPCAR");
    bencher.bench(|| index.who(Kind::Calls, symbol, NameRole::denotes_function).len());
}
