//! Tests the index on handmade exports. `tests/it/oracle.rs` tests that Lisp's exports are correct.

use super::*;
use crate::writer::ExportWriter;

const CALLS: u32 = 0;
const SPECIALIZES: u32 = 5;
const PLAIN: u32 = 0;
const SETF: u32 = 1;
const SLOT: u32 = 5;
const UNKNOWN: u32 = 0;
const CURRENT: u32 = 1;
const REPLACED: u32 = 2;
const NONE: u32 = u32::MAX;

fn open(writer: &ExportWriter) -> Index {
    Index::open(bake::bake(&writer.finish(), &[]).unwrap()).unwrap()
}

fn find(index: &Index, package: &str, name: &str) -> Option<(String, Access)> {
    let package = index.find_package(package, None)?;
    let (symbol, access) = index.find_symbol(name, package)?;
    Some((index.symbol_text(symbol), access))
}

fn who(index: &Index, kind: Kind, package: &str, name: &str) -> Vec<String> {
    let package = index.find_package(package, None).unwrap();
    let (symbol, _) = index.find_symbol(name, package).unwrap();
    let uses = index.who(kind, symbol, NameRole::denotes_function);
    let functions: Vec<String> = uses.into_iter().map(|found| found.function.into_owned()).collect();
    // The count must agree with the list.
    let names = functions.chunk_by(|left, right| left == right).count();
    assert_eq!(index.count(kind, symbol, NameRole::denotes_function), names);
    functions
}

/// CL exports CAR and contains BUG. USER uses CL, contains APP, and has a local nickname for the
/// package LIB.
fn base() -> ExportWriter {
    let mut writer = ExportWriter::new(0, 10);
    let cl = writer.package("COMMON-LISP", &["CL"]);
    let user = writer.package("COMMON-LISP-USER", &["CL-USER"]);
    let lib = writer.package("LIB", &[]);
    writer.uses(user, cl);
    writer.local_nickname(user, "L", lib);
    let car = writer.intern(cl, "CAR", true);
    writer.intern(cl, "BUG", false);
    let app = writer.intern(user, "APP", false);
    let z = writer.intern(user, "Z", false);
    let helper = writer.intern(lib, "HELPER", true);
    writer.intern(lib, "CAR", true);
    let calls_car = writer.name(car, PLAIN);
    let sets_car = writer.name(car, SETF);
    let slot_car = writer.name(car, SLOT);
    let class = writer.name(helper, PLAIN);
    let zed = writer.function("COMMON-LISP-USER::Z", z, (5, 0), CURRENT);
    let app_function = writer.function("COMMON-LISP-USER::APP", app, (6, 0), CURRENT);
    let setter = writer.function("(SETF LIB::HELPER)", helper, (7, 1), CURRENT);
    let method = writer.function("(METHOD LIB::HELPER (LIB::HELPER))", helper, (NONE, 0), CURRENT);
    let file = writer.source("/src/app.lisp");
    writer.placed(app_function, file, 3, 120);
    writer.record(CALLS, calls_car, zed, 4);
    writer.record(CALLS, calls_car, app_function, 9);
    writer.record(CALLS, calls_car, app_function, 2);
    writer.record(CALLS, sets_car, setter, 1);
    writer.record(CALLS, slot_car, zed, 8);
    writer.record(SPECIALIZES, class, method, NONE);
    writer
}

#[test]
fn lookup_equals_find_symbol() {
    let index = open(&base());
    let found = |text: &str, access| Some((text.to_owned(), access));
    assert_eq!(find(&index, "CL", "CAR"), found("COMMON-LISP::CAR", Access::External));
    assert_eq!(find(&index, "CL-USER", "CAR"), found("COMMON-LISP::CAR", Access::Inherited));
    assert_eq!(find(&index, "CL", "BUG"), found("COMMON-LISP::BUG", Access::Internal));
    assert_eq!(find(&index, "CL-USER", "BUG"), None, "internal symbols are not inherited");
    assert_eq!(find(&index, "LIB", "CAR"), found("LIB::CAR", Access::External));
    assert_eq!(find(&index, "LIB", "car"), None);
    assert_eq!(find(&index, "cl", "CAR"), None, "package names are exact");
    assert_eq!(find(&index, "L", "CAR"), None, "a local nickname is valid only in its package");
    let user = index.find_package("CL-USER", None);
    let lib = index.find_package("L", user).unwrap();
    assert_eq!(index.package_name(lib), "LIB");
}

#[test]
fn similar_spellings_are_found_with_few_others() {
    let mut writer = base();
    let package = writer.package("NEAR", &[]);
    let near = ["PRICE", "PRCIE", "PRICES", "PRIZE", "price", "PRIC", "RICE", "ÄRICE"];
    for name in near.iter().chain(&["XYZZY", "PLUGH-PRICE", "PRUNES"]) {
        writer.intern(package, name, false);
    }
    let index = open(&writer);
    let mut found: Vec<_> = index.symbols_near("Price", 1).map(|symbol| index.symbol_name(symbol)).collect();
    found.sort();
    let mut expected = near.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let homes: Vec<_> =
        index.homes("PRIZE").map(|(home, _, access)| (index.package_name(home), access)).collect();
    assert_eq!(homes, [("NEAR".into(), Access::Internal)]);
    assert_eq!(index.homes("PRIZED").count(), 0);
}

#[test]
fn present_symbol_shadows_inherited_and_keeps_home() {
    let mut writer = base();
    let other = writer.package("OTHER", &[]);
    writer.uses(other, 0);
    let shadow = writer.intern(other, "CAR", false);
    let third = writer.package("THIRD", &[]);
    writer.present(third, shadow, true);
    let orphan = writer.symbol(None, "ORPHAN");
    writer.present(third, orphan, false);
    let index = open(&writer);
    assert_eq!(find(&index, "OTHER", "CAR"), Some(("OTHER::CAR".to_owned(), Access::Internal)));
    assert_eq!(find(&index, "THIRD", "CAR"), Some(("OTHER::CAR".to_owned(), Access::External)));
    assert_eq!(find(&index, "THIRD", "ORPHAN"), Some(("#:ORPHAN".to_owned(), Access::Internal)));
}

#[test]
fn uses_include_setf_function_sorted_by_principal_symbol() {
    let index = open(&base());
    assert_eq!(
        who(&index, Kind::Calls, "CL", "CAR"),
        ["COMMON-LISP-USER::APP", "COMMON-LISP-USER::APP", "COMMON-LISP-USER::Z", "(SETF LIB::HELPER)"]
    );
    let (car, _) = index.find_symbol("CAR", index.find_package("CL", None).unwrap()).unwrap();
    let setf = index.who(Kind::Calls, car, |role| role == NameRole::Setf);
    assert_eq!(setf.len(), 1);
    let slot = index.who(Kind::Calls, car, |role| role == NameRole::SlotAccessor);
    assert_eq!(slot[0].form, Some(8), "a slot's accessor is not the function of that name");
    assert_eq!(who(&index, Kind::References, "CL", "CAR"), [""; 0]);
    assert_eq!(who(&index, Kind::Specializes, "LIB", "HELPER"), ["(METHOD LIB::HELPER (LIB::HELPER))"]);
}

#[test]
fn use_has_its_position() {
    let index = open(&base());
    let (car, _) = index.find_symbol("CAR", index.find_package("CL", None).unwrap()).unwrap();
    let found = &index.who(Kind::Calls, car, |role| role == NameRole::Plain)[0];
    assert_eq!(found.file.as_deref(), Some("/src/app.lisp"));
    assert_eq!((found.toplevel_form, found.offset, found.form), (Some(3), Some(120), Some(2)));
    assert_eq!(found.file_written, 7);
    let filed = found.symbol.as_ref().unwrap();
    assert_eq!((filed.package.as_deref(), &*filed.name), (Some("COMMON-LISP-USER"), "APP"));
}

/// An export after [`base`]: package NEW with a function that calls CAR; CL, USER and LIB are
/// unchanged.
fn delta(since: u64, serial: u64) -> (ExportWriter, u32) {
    let mut writer = ExportWriter::new(since, serial);
    let new = writer.package("NEW", &[]);
    let lib = writer.unchanged("LIB", 2);
    let user = writer.unchanged("COMMON-LISP-USER", 1);
    let cl = writer.unchanged("COMMON-LISP", 0);
    writer.uses(new, cl);
    writer.uses(user, cl);
    let car = writer.symbol(Some(cl), "CAR");
    let caller = writer.intern(new, "CALLER", true);
    let calls = writer.name(car, PLAIN);
    let function = writer.function("NEW::CALLER", caller, (11, 0), CURRENT);
    writer.record(CALLS, calls, function, 1);
    let class = writer.symbol(Some(lib), "HELPER");
    let class = writer.name(class, PLAIN);
    let method = writer.function("(METHOD NEW::CALLER (LIB::HELPER))", caller, (NONE, 1), CURRENT);
    writer.record(SPECIALIZES, class, method, NONE);
    (writer, caller)
}

#[test]
fn reexported_base_symbol_is_same_symbol() {
    let (mut writer, _) = delta(10, 11);
    let cl = writer.unchanged("COMMON-LISP", 0);
    let (car, new) = (writer.symbol(Some(cl), "CAR"), writer.package("NEW", &[]));
    writer.present(new, car, true);
    let index = open(&base()).apply(&writer.finish()).unwrap();
    let found = |package: &str| index.find_symbol("CAR", index.find_package(package, None).unwrap()).unwrap();
    assert_eq!(found("NEW").1, Access::External);
    assert_eq!(found("NEW").0, found("COMMON-LISP").0);
}

#[test]
fn export_extends_base() {
    let base = open(&base());
    let index = base.apply(&delta(10, 11).0.finish()).unwrap();
    let calls = who(&index, Kind::Calls, "COMMON-LISP", "CAR");
    assert_eq!(calls.len(), 5);
    assert_eq!(calls[4], "NEW::CALLER", "sorted together with the uses in the base");
    assert_eq!(calls[3], "(SETF LIB::HELPER)");
    assert_eq!(find(&index, "NEW", "CAR"), Some(("COMMON-LISP::CAR".to_owned(), Access::Inherited)));
    assert_eq!(
        find(&index, "COMMON-LISP-USER", "CAR"),
        Some(("COMMON-LISP::CAR".to_owned(), Access::Inherited))
    );
    assert_eq!(
        find(&index, "COMMON-LISP-USER", "APP"),
        Some(("COMMON-LISP-USER::APP".to_owned(), Access::Internal))
    );
    assert_eq!(find(&index, "NEW", "CALLER"), Some(("NEW::CALLER".to_owned(), Access::External)));
    assert_eq!(who(&index, Kind::Specializes, "LIB", "HELPER").len(), 2);
    assert_eq!(who(&base, Kind::Calls, "COMMON-LISP", "CAR").len(), 4, "snapshots do not change");
}

#[test]
fn replaced_and_collected_functions_disappear() {
    let base = open(&base());
    let first = base.apply(&delta(10, 11).0.finish()).unwrap();
    assert_eq!(first.since(), 11);

    let later = |change: &dyn Fn(&mut ExportWriter)| {
        let mut writer = ExportWriter::new(11, 12);
        writer.unchanged("COMMON-LISP", 0);
        writer.unchanged("COMMON-LISP-USER", 1);
        writer.unchanged("LIB", 2);
        writer.package("NEW", &[]);
        change(&mut writer);
        first.apply(&writer.finish()).unwrap()
    };
    let kept = later(&|writer| writer.survivor((11, 0), CURRENT));
    assert_eq!(who(&kept, Kind::Calls, "COMMON-LISP", "CAR").len(), 5);
    assert_eq!(
        who(&kept, Kind::Specializes, "LIB", "HELPER").len(),
        1,
        "methods are those of the newest export"
    );
    let replaced = later(&|writer| writer.survivor((11, 0), REPLACED));
    assert_eq!(who(&replaced, Kind::Calls, "COMMON-LISP", "CAR").len(), 4);
    let (car, _) = replaced.find_symbol("CAR", replaced.find_package("COMMON-LISP", None).unwrap()).unwrap();
    assert_eq!(replaced.who_including_replaced(Kind::Calls, car, NameRole::denotes_function).len(), 5);
    let collected = later(&|_| ());
    assert_eq!(collected.who_including_replaced(Kind::Calls, car, NameRole::denotes_function).len(), 4);

    let refuted = later(&|writer| {
        writer.survivor((11, 0), UNKNOWN);
        writer.refuted((6, 0));
        writer.refuted((NONE, 0));
    });
    assert_eq!(
        who(&refuted, Kind::Calls, "COMMON-LISP", "CAR"),
        ["COMMON-LISP-USER::Z", "(SETF LIB::HELPER)", "NEW::CALLER"]
    );
    assert_eq!(who(&refuted, Kind::Specializes, "LIB", "HELPER"), [""; 0]);
}

#[test]
fn many_exports_are_replaced_by_one() {
    let mut index = open(&base());
    for serial in 11..30 {
        let since = index.since();
        let mut writer = ExportWriter::new(since, serial);
        let package = writer.package("NEW", &[]);
        let symbol = writer.intern(package, "F", false);
        let first = if since == 10 { 11 } else { serial as u32 };
        for number in first..=serial as u32 {
            writer.function("NEW::F", symbol, (number, 0), CURRENT);
        }
        index = index.apply(&writer.finish()).unwrap();
        assert!(index.since() == serial || index.since() == 10);
    }
    let gap = ExportWriter::new(99, 100).finish();
    assert!(matches!(index.apply(&gap), Err(ApplyError::Gap { since: 99, .. })));
}

#[test]
fn truncated_export_is_refused() {
    let export = base().finish();
    for length in 0..export.len() {
        assert!(bake::bake(&export[..length], &[]).is_err(), "{length} of {} bytes", export.len());
    }
    let baked = bake::bake(&export, &[7; 32]).unwrap();
    for length in 0..baked.len() {
        assert!(Index::open(baked[..length].to_vec()).is_err(), "{length} of {} bytes", baked.len());
    }
    assert!(open(&base()).apply(&export[..export.len() - 1]).is_err());
}

/// A damaged index must not cause an iteration over four billion rows, or this test would not end.
#[test]
fn damaged_index_keeps_lookups_short() {
    let good = bake::bake(&base().finish(), &[7; 32]).unwrap();
    for at in (8..good.len() - 3).step_by(4) {
        let mut wrong = good.clone();
        wrong[at..at + 4].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
        let Ok(index) = Index::open(wrong) else { continue };
        for package in index.packages() {
            for name in ["F", "CAR", "nowhere"] {
                index.find_symbol(name, package);
                index.find_package(name, Some(package));
                index.form_after(name, 7);
            }
        }
        for symbol in index.symbols() {
            for kind in Kind::ALL {
                index.who(kind, symbol, |_| true);
            }
        }
    }
}

#[test]
fn numbers_out_of_range_are_harmless() {
    let export = base().finish();
    for at in (32..export.len()).step_by(4) {
        let mut wrong = export.clone();
        wrong[at..at + 4].copy_from_slice(&0x00ff_fff0_u32.to_le_bytes());
        let Ok(baked) = bake::bake(&wrong, &[]) else { continue };
        let index = Index::open(baked).unwrap();
        for symbol in index.symbols().collect::<Vec<_>>() {
            for kind in Kind::ALL {
                index.who(kind, symbol, |_| true);
            }
        }
    }
}

/// A million records for 20,000 names: every result must equal that of a plain scan of the records.
#[test]
fn million_records_equal_plain_scan() {
    const NAMES: u32 = 20_000;
    const FUNCTIONS: u32 = 50_000;
    let mut writer = ExportWriter::new(0, 1);
    let package = writer.package("P", &[]);
    let symbols: Vec<u32> =
        (0..NAMES).map(|number| writer.intern(package, &format!("N{number}"), true)).collect();
    let names: Vec<u32> = symbols.iter().map(|symbol| writer.name(*symbol, PLAIN)).collect();
    for number in 0..FUNCTIONS {
        writer.function(&format!("P::F{number:05}"), NONE, (number, 0), CURRENT);
    }
    let mut state = 1_u32;
    let mut expected = vec![Vec::new(); 3];
    for form in 0..1_000_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (name, function) = ((state >> 16) % NAMES, (state >> 4) % FUNCTIONS);
        writer.record(CALLS, names[name as usize], function, form);
        if let Some(uses) = expected.get_mut(name as usize) {
            uses.push((format!("P::F{function:05}"), form));
        }
    }
    let index = open(&writer);
    assert_eq!(index.record_count(), 1_000_000);
    let package = index.find_package("P", None).unwrap();
    for (number, mut expected) in expected.into_iter().enumerate() {
        expected.sort();
        let (symbol, _) = index.find_symbol(&format!("N{number}"), package).unwrap();
        let found: Vec<_> = index
            .who(Kind::Calls, symbol, NameRole::denotes_function)
            .into_iter()
            .map(|found| (found.function.into_owned(), found.form.unwrap()))
            .collect();
        assert!(!found.is_empty());
        assert_eq!(found, expected);
    }
}

#[test]
fn listed_symbol_equals_found_symbol() {
    let index = open(&base());
    let mut found = 0;
    for symbol in index.symbols() {
        let Some(home) = index.symbol_package(symbol) else { continue };
        assert_eq!(
            index.find_symbol(&index.symbol_name(symbol), home).map(|(symbol, _)| symbol),
            Some(symbol)
        );
        found += 1;
    }
    assert!(found > 0);
}
